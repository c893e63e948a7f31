"""Measured times of the steps of a program, one by one.  For those who look: a program that runs has no clock in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..program import BufferProgram
from .executable import stepwise
from .kernels import KernelTable

__all__ = ["step_times"]


def step_times(
    program: BufferProgram, arguments: Sequence[Any], kernels: KernelTable, patience: float = 0.5
) -> list[float]:
    """Seconds that each step takes: the least of several runs on these arguments.

    patience   seconds for which the program is run, though at least three times: the first loads code and pages
    """
    marks: list[float] = []
    run = stepwise(program, kernels, lambda: marks.append(time.perf_counter()))
    runs: list[list[float]] = []
    end = time.perf_counter() + patience
    while len(runs) < 3 or (time.perf_counter() < end and len(runs) < 1000):
        marks.clear()
        run(*arguments)
        runs.append([after - before for before, after in pairwise(marks)])
    idle, *least = [min(times) for times in zip(*runs, strict=True)]
    return [max(0.0, seconds - idle) for seconds in least]  # what reading the clock takes is taken off
