"""`cond`: one of two functions, chosen when the program runs; only that one is run.

`ad.where` computes both sides and chooses elements; `cond` chooses once.  The derivative is a `cond` of the two
pullbacks, so derivatives of any order follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from codegen.ir import Aval
from codegen.nested import NestedBranch

from .. import tree
from ..custom import function
from ..custom.context import wanted
from ..errors import DTypeError, ShapeError, check_callable, located
from ..ops import as_tensor
from ..tensor import AbstractTensor, Tensor
from ..tracebacks import border
from ..transforms.anomaly import runs_as_written
from ..transforms.arguments import own
from .body import Body, BodyUse, cut, float_places, joined, mode_of, placed, tracks_of
from .derived import applied, choose, derived, of_all
from .regions import Regions, run_of
from .trace import Operands, as_written, trace

__all__ = ["cond"]


class Branches(NamedTuple):
    """The static part of a choice: both bodies, which read the same."""

    yes: Body
    no: Body

    @property
    def nested(self) -> NestedBranch:
        """The same, as the compiler has it."""
        return NestedBranch(self.yes.graph, self.no.graph)


def _run(choice: NestedBranch, chosen: np.ndarray, *arrays: np.ndarray) -> Sequence[np.ndarray]:
    """Run the choice.  (Compiled, it is native where both branches are.)"""
    return run_of(choice.yes if chosen else choice.no)(*arrays)


def _of_all(size: int, branches: Branches, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Sequence[Tensor]:
    """One choice where all examples share it; else both branches, of which each example takes its own."""
    chosen, *operands = inputs
    flags = list(mapped[1:])

    def of_one(values: list[Tensor], body: Body) -> list[Tensor]:
        return of_all(applied(body, values, flags, size), size)

    if mapped[0]:
        yes, no = [of_one(operands, body) for body in branches]
        return [choose(chosen, a, b) for a, b in zip(yes, no, strict=True)]
    return _one_of(chosen, operands, branches, ("examples of a branch", size, *flags), of_one)


@function
def _branched(branches, inputs): ...


_branched.__name__ = "cond"  # in messages
_cond = Regions("cond", Branches, _run, _of_all, _branched)

@_branched.forward
def _(ctx, branches, inputs):
    return _cond.record(branches, inputs)


@_branched.backward
def _(ctx, *bars):
    branches, (chosen, *operands) = ctx.inputs
    floats = float_places(branches.nested.results)
    places = [k for k, is_wanted in enumerate(wanted(ctx, "inputs")[1:]) if is_wanted]

    def pulled(given: list[Tensor], body: Body) -> list[Any]:
        """The cotangents of what is wanted, from one branch: zero for what the other one reads."""
        found = body.pull(given[: len(operands)], given[len(operands) :], places)
        return [found[k] for k in places]

    given = [*operands, *[bars[k] for k in floats]]
    found = _one_of(chosen, given, branches, ("pulled in a branch", *places), pulled)
    return {"branches": None, "inputs": (None, *placed(found, places, len(operands)))}


@_branched.jvp
def _(ctx, _branches, dots):
    branches, (chosen, *operands) = ctx.inputs
    results = branches.nested.results
    floats = float_places(results)
    places = [k for k, dot in enumerate(dots[1:]) if dot is not None]

    def pushed(given: list[Tensor], body: Body) -> list[Any]:
        """The tangents of the float results of one branch."""
        _, found = body.push(given[: len(operands)], given[len(operands) :], places)
        return [found[k] for k in floats]

    given = [*operands, *[dots[1 + k] for k in places]]
    found = _one_of(chosen, given, branches, ("pushed in a branch", *places), pushed)
    return tuple(placed(found, floats, len(results)))


def _one_of(
    chosen: Tensor, given: Sequence[Tensor], branches: Branches, purpose: tuple,
    f: Callable[..., Sequence[Tensor]],
) -> Sequence[Tensor]:
    """The results of f(values, body) of one of two bodies, which is one of two bodies again: see `derived`."""
    if runs_as_written():
        return f(list(given), branches.yes if chosen else branches.no)
    uses = [derived(body, purpose, partial(f, body=body), (), (), given) for body in branches]
    return _chosen(chosen, (), *uses, shared=len(given))


def _chosen(chosen: Tensor, given: Sequence[Tensor], *uses: BodyUse, shared: int = 0) -> Sequence[Tensor]:
    """The results of one of two bodies, those without a history that depend on nothing by a gradient."""
    bodies, hidden = joined(*uses, shared=shared)
    inputs = (*given, *hidden)
    with mode_of(*bodies):
        found = _branched(Branches(*bodies), (chosen, *inputs))
        yes, no = [body.tracking(tracks_of(inputs)) for body in bodies]
        return cut(found, [a or b for a, b in zip(yes, no, strict=True)])


@border
def cond(chosen: Any, if_true: Callable, if_false: Callable, *operands: Any) -> Any:
    """`if_true(*operands)` if `chosen`, else `if_false(*operands)`; only that one is run.

    chosen     bool[], known when the program runs; a Python bool is decided at once
    operands   any nestings of tensors, arrays, numbers;  both functions return the same nesting,
               shapes and dtypes

    Differentiable to any order, in both modes.  Raises DTypeError where `chosen` is no bool[], ShapeError where the
    two results differ.

    >>> import autodiff as ad
    >>> f = ad.jit(lambda x: ad.cond(x.sum() > 0, lambda x: x * 2.0, lambda x: -x, x))
    >>> import numpy as np
    >>> f(np.array([1.0, 2.0])), f(np.array([-1.0, -2.0]))
    (array([2., 4.]), array([1., 2.]))
    """
    check_callable(if_true, "cond")
    check_callable(if_false, "cond")
    if isinstance(chosen, (bool, np.bool_)):
        return (if_true if chosen else if_false)(*tree.map(own, operands))
    chosen = as_tensor(chosen, "cond", "chosen")
    if chosen.aval != Aval((), np.dtype(np.bool_)):
        raise DTypeError(located(f"cond: takes a bool[] to choose by, not {chosen.aval}"))
    given = Operands(operands, (AbstractTensor, np.ndarray, np.generic, int, float))
    if runs_as_written():
        return as_written(if_true if chosen else if_false, *given.values())
    yes, no = [trace(f, *given.examples, values=given.values) for f in (if_true, if_false)]
    _check(yes, no)
    return yes.result.filled(_chosen(chosen, given.tensors, yes, no))


def _check(yes: Any, no: Any) -> None:
    if yes.result != no.result:
        raise ShapeError(located(f"cond: one branch gives {yes.result}, the other {no.result}"))
    for name, a, b in zip(yes.result.names("result"), yes.body.graph.outputs, no.body.graph.outputs, strict=True):
        if a.aval != b.aval:
            error = ShapeError if a.aval.shape != b.aval.shape else DTypeError
            raise error(located(f"cond: {name} is {a.aval} in one branch and {b.aval} in the other"))
