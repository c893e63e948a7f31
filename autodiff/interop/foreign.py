"""Custom functions whose values another library, or other processes, compute.

    f = wrapped(name, run)

    run(chain, structure, arrays) -> (layout of the results, arrays)

`run` computes the function for arguments of this structure.  With a chain it computes a derivative, link by link:

    ("pull", wanted, outs)   the gradient for the leaves `wanted` at cotangents of the results `outs`, which come after
                             the leaves

and for functions of this library, `is_ours`, also

    ("push", moved, outs)    the tangents of the results `outs` in directions of `moved`, which come after the leaves
    ("rows", wanted)         the results; if all of them are real numbers, behind them the gradient of each for the
                             leaves `wanted`: so one run gives value and gradient

The rule of a custom function calls the custom function with one more link, so there are derivatives of any order.
After "rows" the rule multiplies cotangents by the gradients it has.  These are results like the value, so if they are
differentiated themselves (a Hessian-vector product) they have cotangents, and the rule adds a "pull" for those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..api import asarray
from ..custom import function
from ..errors import DispatchError, located
from ..ops import sum as sum_
from ..tape.record import state
from ..tensor import AbstractTensor, Tensor
from ..transforms import is_grad_enabled, jvp, vjp

Chain = tuple[tuple[Any, ...], ...]


class Layout:
    """The results of a run: `count` values, then for each place in `numbers` that value's gradient by each leaf."""

    __slots__ = ("count", "numbers", "structure")

    def __init__(self, structure: Any, count: int, numbers: tuple[int, ...] = ()) -> None:
        self.structure, self.count, self.numbers = structure, count, numbers


class _ForeignJob:
    """A function with a chain, as an argument of the custom function.  Equal jobs are one object.

    wanted   the leaves for which the job's rule gives gradients
    """

    is_interned = True

    def __init__(self, foreign: _Foreign, structure: tree.Structure, chain: Chain, wanted: tuple[int, ...]) -> None:
        self.foreign = foreign
        self.structure = structure
        self.chain = chain
        self.wanted = wanted

    def gradients(self, leaves: Sequence[Any], outputs: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
        """The gradient for each leaf; None for a leaf that wants none."""
        layout, *results = outputs
        found: list[Any] = [None] * len(leaves)
        for i, leaf, row in self._rows(layout, results):
            if bars[i] is not None:
                found[leaf] = _added(found[leaf], bars[i] * row)
        outs = [i for i in self._floats(layout, results) if bars[i] is not None]
        for leaf, gradient in self._linked("pull", self.wanted, outs, leaves, [bars[i] for i in outs]):
            found[leaf] = _added(found[leaf], gradient)
        return found

    def tangents(self, leaves: Sequence[Any], outputs: Sequence[Any], directions: Sequence[Any]) -> list[Any]:
        """The tangent of each result, None if it is zero.  That of a number with a gradient is a product with it."""
        layout, *results = outputs
        found: list[Any] = [None] * len(results)
        for i, leaf, row in self._rows(layout, results):
            if directions[leaf] is not None:
                found[i] = _added(found[i], sum_(row * directions[leaf]))
        moved = [i for i, d in enumerate(directions) if d is not None]
        outs = self._floats(layout, results)
        for i, tangent in self._linked("push", moved, outs, leaves, [directions[i] for i in moved]):
            found[i] = tangent
        return found

    def _rows(self, layout: Layout, results: Sequence[Any]) -> Iterator[tuple[int, int, Any]]:
        """(place of the number, leaf, gradient) for each gradient among the results."""
        pairs = [(i, leaf) for i in layout.numbers for leaf in self.wanted]
        return ((i, leaf, row) for (i, leaf), row in zip(pairs, results[layout.count :], strict=False))

    def _floats(self, layout: Layout, results: Sequence[Any]) -> list[int]:
        """The results whose derivatives need another run: those without a gradient among the results."""
        first = layout.count if layout.numbers else 0
        return [i for i in range(first, len(results)) if results[i].dtype.kind in "fc"]

    def _linked(
        self, link: str, places: Sequence[int], outs: Sequence[int], leaves: Sequence[Any], given: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """The results of the chain with one more link: (leaf or result that the value belongs to, value)."""
        if not outs or not given:
            return iter(())
        chain = (*self.chain, (link, tuple(places), tuple(outs)))
        _, *found = self.foreign.call(self.structure, chain, [*leaves, *given])
        return zip(places if link == "pull" else outs, found, strict=True)


def _added(a: Any, b: Any) -> Any:
    return b if a is None else a + b


class _Foreign:
    """A function of another library: its jobs, and the custom function that runs them."""

    def __init__(self, name: str, run: Callable[..., tuple[Layout, Sequence[np.ndarray]]], is_ours: bool) -> None:
        self.jobs: dict[tuple, _ForeignJob] = {}
        self.is_ours = is_ours

        @function
        def foreign(job: Any, *leaves: Any) -> Any: ...

        @foreign.forward(object, object, host=True)
        def _(ctx: Any, job: Any, *leaves: Any) -> Any:
            ctx.set_materialize_grads(False)
            layout, arrays = run(job.chain, job.structure, leaves)
            return layout, *arrays

        @foreign.backward(object, object)
        def _(ctx: Any, *bars: Any) -> Any:
            job, leaves = ctx.inputs.job, ctx.inputs.leaves
            return {"job": None, "leaves": tuple(job.gradients(leaves, ctx.outputs, bars[1:]))}

        def along(ctx: Any, _: Any, directions: Any) -> Any:
            job, leaves = ctx.inputs.job, ctx.inputs.leaves
            return (None, *job.tangents(leaves, ctx.outputs, directions))

        if is_ours:
            foreign.jvp(object, object)(along)
        foreign.__name__ = name
        self.foreign = foreign

    def call(self, structure: tree.Structure, chain: Chain, leaves: list[Any], is_first: bool = False) -> Sequence[Any]:
        """Record a call of the custom function: the layout of the results, then the results."""
        wanted = tuple([i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.requires_grad])
        wanted = wanted if is_grad_enabled() else ()
        key = structure, (*chain, ("rows", wanted)) if is_first and self.is_ours and wanted else chain, wanted
        job = self.jobs.get(key) or self.jobs.setdefault(key, _ForeignJob(self, *key))
        return self.foreign(job, *leaves)


def wrapped(name: str, run: Callable[..., tuple[Layout, Sequence[np.ndarray]]], is_ours: bool = False) -> Callable:
    """The custom function as users call it: arguments and results may be nested."""
    foreign = _Foreign(name, run, is_ours)

    def call(*args: Any) -> Any:
        leaves, structure = tree.flatten(args)
        is_plain = not any([isinstance(x, AbstractTensor) for x in leaves])
        leaves = [asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in leaves]
        layout, *values = foreign.call(structure, (), leaves, is_first=True)
        values = values[: layout.count]
        for x in values:
            if not isinstance(x, Tensor):
                raise DispatchError(located(
                    f"{name} returned {np.asarray(x).tolist()!r:.40}, which is no array",
                    "return arrays and numbers, in tuples, lists, dicts and dataclasses",
                ))
        if is_plain and state.now.captures is None:
            values = [x.numpy()[()] for x in values]
        return tree.unflatten(layout.structure, values)

    call.__name__ = call.__qualname__ = name
    return call


def chained(
    f: Callable, chain: Chain, structure: tree.Structure, **links: Callable[..., Callable]
) -> tuple[Callable[[Sequence[Any]], Sequence[Any]], list[tree.Structure]]:
    """The function of a list of leaves that a chain makes of f, and the list where it puts the structure of f's result.

    links   for each name a function (function, *arguments of the link) -> derived function, in the library of f
    """
    nesting: list[tree.Structure] = []

    def function(given: Sequence[Any]) -> Sequence[Any]:
        found, result = tree.flatten(f(*tree.unflatten(structure, list(given))))
        nesting[:] = [result]
        return found

    for link, *arguments in chain:
        function = links[link](function, *arguments)
    return function, nesting


def of_some_leaves(
    run: Callable, leaves: Sequence[Any], moving: Sequence[int], outs: Sequence[int] | None = None
) -> Callable:
    """A function of a list of leaves as a function of the leaves `moving` alone; it returns all results, or `outs`."""

    def of(*given: Any) -> tuple:
        found = run(tree.exchanged(leaves, moving, given))
        return tuple(map(asarray, found if outs is None else [found[i] for i in outs]))

    return of


def pulled(run: Callable, wanted: Sequence[int], outs: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The function of a list (*leaves, *cotangents) that gives the gradients of `run`, a function of such leaves."""

    def gradients(given: Sequence[Any]) -> Sequence[Any]:
        leaves, bars = given[: len(given) - len(outs)], given[len(given) - len(outs) :]
        return vjp(of_some_leaves(run, leaves, wanted, outs), *[leaves[i] for i in wanted])[1](tuple(bars))

    return gradients


def pushed(run: Callable, moved: Sequence[int], outs: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The function of a list (*leaves, *directions) that gives the tangents of the results of `run`."""

    def tangents(given: Sequence[Any]) -> Sequence[Any]:
        leaves, directions = given[: len(given) - len(moved)], given[len(given) - len(moved) :]
        return jvp(of_some_leaves(run, leaves, moved, outs), tuple([leaves[i] for i in moved]), tuple(directions))[1]

    return tangents


def with_rows(run: Callable, wanted: Sequence[int]) -> Callable[[Sequence[Any]], list[Any]]:
    """The function of a list of leaves that gives the results of `run` and, if all are numbers, their gradients."""

    def rows(leaves: Sequence[Any]) -> list[Any]:
        values: list[Any] = []

        def noted(given: Sequence[Any]) -> list[Any]:
            values[:] = run(given)
            return [v for v in values if v.dtype.kind in "fc"]

        found, pullback = vjp(of_some_leaves(noted, leaves, wanted), *[leaves[i] for i in wanted])
        those = iter(found)
        values = [next(those) if v.dtype.kind in "fc" else v for v in values]
        if all([x.ndim == 0 and x.dtype.kind == "f" for x in found]):
            for i in range(len(found)):
                values += pullback(tuple([float(i == k) for k in range(len(found))]))
        return values

    return rows
