"""Measured times of the steps of an inspected program, for its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from codegen import compiler
from codegen.ir import Aval, OutOfRange

from ..errors import Error, located

__all__ = ["timed"]


def _random(aval: Aval, rng: np.random.Generator) -> np.ndarray:
    if aval.dtype.kind in "biu":
        return np.zeros(aval.shape, aval.dtype)
    return (rng.random(aval.shape) + 0.5).astype(aval.dtype)


def timed(data: Mapping[str, Any], stages: Any, values: Sequence[Any]) -> dict[str, Any]:
    """An inspection's data in which each step of the program has its `time`, in seconds.  Runs the program.

    values   those of the graph's inputs; a random array, of numbers from 0.5 to 1.5, in place of one that is None
    """
    rng = np.random.default_rng(0)
    avals = [i.aval for i in stages.recorded.inputs]
    arguments = [_random(a, rng) if v is None else np.asarray(v, a.dtype) for a, v in zip(avals, values, strict=True)]
    try:
        times = compiler.step_times(stages.program, arguments)
    except (ArithmeticError, OutOfRange, np.linalg.LinAlgError) as error:
        raise Error(located(
            f"{data['name']} cannot be timed on these arguments: {error}",
            "give arrays in place of types: random numbers stand for an argument that is given as a type",
        )) from None
    steps = [{**step, "time": time} for step, time in zip(data["program"]["steps"], times, strict=True)]
    return {**data, "program": {**data["program"], "steps": steps}}
