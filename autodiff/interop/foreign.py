"""A function of another library's as a custom function here.

    f = wrapped(name, run)

    run(chain, structure, arrays) -> (structure of the result, arrays)

runs the function whose arguments have this structure, or what `chain` makes of it: each link (wanted, outs) is the
gradient for the leaves `wanted` at cotangents of the results `outs`, which come after the leaves.  The rule of a
function is the custom function with one more link, so there are derivatives of any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..api import asarray
from ..custom import function
from ..tape.record import state
from ..tensor import AbstractTensor, Tensor
from ..transforms import is_grad_enabled

__all__ = ["Chain", "wrapped"]

Chain = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


class _Job:
    """One function of the chain.  Equal jobs are one object.

    wanted   the leaves for which its own rule gives gradients
    """

    is_interned = True

    def __init__(self, foreign: _Foreign, structure: tree.Structure, chain: Chain, wanted: tuple[int, ...]) -> None:
        self.foreign = foreign
        self.structure = structure
        self.chain = chain
        self.wanted = wanted

    def gradients(self, leaves: Sequence[Any], results: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
        """A gradient for each leaf, None where none is wanted."""
        found: list[Any] = [None] * len(leaves)
        outs = tuple([i for i, bar in enumerate(bars) if bar is not None and results[i].dtype.kind in "fc"])
        if outs:
            chain = (*self.chain, (self.wanted, outs))
            _, *pulled = self.foreign.call(self.structure, chain, [*leaves, *[bars[i] for i in outs]])
            for i, gradient in zip(self.wanted, pulled, strict=True):
                found[i] = gradient
        return found


class _Foreign:
    """The jobs of a function, and the custom function that runs them."""

    def __init__(self, name: str, run: Callable[..., tuple[Any, Sequence[np.ndarray]]]) -> None:
        self.jobs: dict[tuple, _Job] = {}

        @function
        def foreign(job: Any, *leaves: Any) -> Any: ...

        @foreign.forward(object, object, host=True)
        def _(ctx: Any, job: Any, *leaves: Any) -> Any:
            ctx.set_materialize_grads(False)
            structure, arrays = run(job.chain, job.structure, leaves)
            return structure, *arrays

        @foreign.backward(object, object)
        def _(ctx: Any, *bars: Any) -> Any:
            job, leaves = ctx.inputs.job, ctx.inputs.leaves
            return {"job": None, "leaves": tuple(job.gradients(leaves, ctx.outputs[1:], bars[1:]))}

        foreign.__name__ = name
        self.foreign = foreign

    def call(self, structure: tree.Structure, chain: Chain, leaves: list[Any]) -> Sequence[Any]:
        """The structure of the result and its leaves, recorded."""
        wanted = tuple([i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.requires_grad])
        key = structure, chain, wanted if is_grad_enabled() else ()
        job = self.jobs.get(key) or self.jobs.setdefault(key, _Job(self, *key))
        return self.foreign(job, *leaves)


def wrapped(name: str, run: Callable[..., tuple[Any, Sequence[np.ndarray]]]) -> Callable:
    """The custom function of arguments in any nesting."""
    foreign = _Foreign(name, run)

    def call(*args: Any) -> Any:
        leaves, structure = tree.flatten(args)
        is_plain = not any([isinstance(x, AbstractTensor) for x in leaves])
        leaves = [asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in leaves]
        nesting, *values = foreign.call(structure, (), leaves)
        if is_plain and state.now.captures is None:
            values = [x.numpy()[()] for x in values]
        return tree.unflatten(nesting, values)

    call.__name__ = call.__qualname__ = name
    return call
