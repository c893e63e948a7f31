"""Bodies that are run once: `cond`, which runs one of two functions, and `checkpoint`, which keeps no intermediates.

    cond          bodies (yes, no), inputs (chosen, *operands): only one of them is run
    checkpoint    bodies (f,), inputs operands: the backward pass computes the intermediate values of f again

Their derivatives are operations of the same kind, whose bodies are pullbacks or pushforwards; thus derivatives of any
order exist.

Forward and backward of a checkpoint are one graph, in which equal operations are merged.  Here they must not be: the
arguments that the backward pass starts from go through a barrier, across which nothing is moved or merged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from itertools import repeat
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Map
from codegen.nested import NestedBranch

from .. import tree
from ..custom import function
from ..custom.context import wanted
from ..errors import DTypeError, ShapeError, check_callable, located
from ..ops import as_tensor
from ..ops.conversion import as_numpy
from ..ops.primitive import primitive
from ..tape.record import record
from ..tensor import AbstractTensor, Tensor
from ..tracebacks import border
from ..transforms.anomaly import is_watching, runs_as_written
from ..transforms.arguments import applied as called_with
from ..transforms.arguments import with_own_node
from ..transforms.batch.walk import CALLS, of_each
from .body import RECOMPUTED, Body, float_places, mode_of, placed
from .regions import Regions, called, run_of
from .trace import Traced, as_result, choose, derived, run_as_written, taken_apart, trace, valued, where_differing

#: Classes of leaves that become tensors in a result.
VALUES = (AbstractTensor, np.ndarray, np.generic, bool, int, float, complex)

_barrier = primitive(
    "barrier",
    lambda x: np.array(x),
    infer=lambda x: x,
    lower=Map(lambda k, x: x),
    vjp=lambda y_bar, y, x: (y_bar,),
    jvp=lambda dxs, y, x: dxs[0],
)


@function
def _branched(bodies, inputs): ...


@function
def _checkpointed(bodies, inputs): ...


_branched.__name__, _checkpointed.__name__ = "cond", "checkpoint"  # in messages
RECOMPUTED.add(_checkpointed)


def _once(lead: Sequence[Tensor], bodies: tuple[Body, ...], inputs: Sequence[Tensor]) -> list[Tensor]:
    """The results of the only body, or of the one of two bodies that `lead` chooses."""

    def tracking(flags: list[bool]) -> list[bool]:
        return [any(of_one) for of_one in zip(*[body.tracking(flags[len(lead) :]) for body in bodies], strict=True)]

    with mode_of(*bodies):
        return called(_branched if lead else _checkpointed, bodies, (*lead, *inputs), tracking)


def _derived_once(
    lead: Sequence[Tensor], bodies: tuple[Body, ...], purpose: tuple, f: Callable[..., Sequence[Tensor]],
    given: Sequence[Tensor],
) -> Sequence[Tensor]:
    """The results of f(values, body) for one of the bodies, as an operation of this kind: see `derived`."""
    if lead and runs_as_written():
        return f(list(given), bodies[0 if lead[0] else 1])
    made = derived(bodies, purpose, [(partial(f, body=body), (), ()) for body in bodies], given)
    return _once(lead, made.bodies, made.hidden)


# ---------------------------------------------------------------- rules of cond and checkpoint


def _of_all(
    size: int, bodies: tuple[Body, ...], inputs: Sequence[Tensor], mapped: Sequence[bool], first: int
) -> Sequence[Tensor]:
    """One choice if all examples share it; else the results of both branches, of which each example takes its own."""
    lead, operands, flags = inputs[:first], inputs[first:], list(mapped[first:])

    def of_one(values: list[Tensor], body: Body) -> list[Tensor]:
        return where_differing(of_each(body.apply, values, flags, size), repeat(True), size)

    if any(mapped[:first]):
        yes, no = [of_one(list(operands), body) for body in bodies]
        return [choose(lead[0], a, b) for a, b in zip(yes, no, strict=True)]
    return _derived_once(lead, bodies, ("examples", size, *flags), of_one, operands)


_cond = Regions(
    "cond", NestedBranch,
    # Compiled code uses a native branch if both bodies can be native.
    lambda choice, chosen, *arrays: run_of(choice.yes if chosen else choice.no)(*arrays),
    lambda size, branches, inputs, mapped: _of_all(size, tuple(branches), inputs, mapped, 1),
)
CALLS[_checkpointed] = lambda size, values, differ: tuple(
    _of_all(size, values["bodies"], values["inputs"], differ["inputs"], 0)
)


@_branched.forward
def _(ctx, bodies, inputs):
    ctx.set_materialize_grads(False)
    return _cond.record(NestedBranch(*bodies), inputs)


@_checkpointed.forward
def _(ctx, bodies, inputs):
    ctx.set_materialize_grads(False)
    return tuple(bodies[0].apply(inputs))


def _pulled(ctx, *bars):
    """The cotangents of the operands that need them, from one body; zeros for operands that only the other reads."""
    bodies, inputs = ctx.inputs
    first = len(bodies) - 1
    lead, operands = inputs[:first], inputs[first:]
    places = [k for k, is_wanted in enumerate(wanted(ctx, "inputs")[first:]) if is_wanted]
    there = [k for k, bar in enumerate(bars) if bar is not None]

    def pulled(given: list[Tensor], body: Body) -> list[Any]:
        of_results = placed(given[len(operands) :], there, len(bars))
        found = body.pull(given[: len(operands)], of_results, places)
        return [found[k] for k in places]

    purpose = "pulled once", *places, None, *there
    given = [*operands, *[bars[k] for k in there]]
    if lead:
        found = _derived_once(lead, bodies, purpose, pulled, given)
    else:
        found = pulled([*[record(_barrier, (x,)) for x in operands], *given[len(operands) :]], bodies[0])
    return {"bodies": None, "inputs": (*[None] * first, *placed(found, places, len(operands)))}


def _pushed(ctx, _bodies, dots):
    """The tangents of the float results, from one body."""
    bodies, inputs = ctx.inputs
    first = len(bodies) - 1
    operands, results = inputs[first:], [n.aval for n in bodies[0].graph.outputs]
    floats, places = float_places(results), [k for k, dot in enumerate(dots[first:]) if dot is not None]

    def pushed(given: list[Tensor], body: Body) -> list[Any]:
        _, found = body.push(given[: len(operands)], given[len(operands) :], places)
        return [found[k] for k in floats]

    given = [*operands, *[dots[first + k] for k in places]]
    found = _derived_once(inputs[:first], bodies, ("pushed once", *places), pushed, given)
    return tuple(placed(found, floats, len(results)))


for _call in (_branched, _checkpointed):
    _call.backward(_pulled)
    _call.jvp(_pushed)


# ---------------------------------------------------------------- public functions


@border
def cond(chosen: Any, if_true: Callable, if_false: Callable, *operands: Any) -> Any:
    """`if_true(*operands)` if `chosen`, else `if_false(*operands)`; only the chosen function is run.

    chosen     bool[], known when the program runs; a Python bool is decided at once
    operands   any nestings of tensors, arrays, numbers;  both functions return the same nesting,
               shapes and dtypes

    Differentiable to any order, in both modes.  Raises DTypeError if `chosen` is no bool[], ShapeError or DTypeError if
    the two results differ.

    >>> import autodiff as ad
    >>> f = ad.jit(lambda x: ad.cond(x.sum() > 0, lambda x: x * 2.0, lambda x: -x, x))
    >>> import numpy as np
    >>> f(np.array([1.0, 2.0])), f(np.array([-1.0, -2.0]))
    (array([2., 4.]), array([1., 2.]))
    """
    check_callable(if_true, "cond")
    check_callable(if_false, "cond")
    if isinstance(chosen, (bool, np.bool_)):
        return (if_true if chosen else if_false)(*tree.map(with_own_node, operands))
    chosen = as_tensor(chosen, "cond", "chosen")
    if chosen.aval != Aval((), np.dtype(np.bool_)):
        raise DTypeError(located(f"cond: takes a bool[] to choose by, not {chosen.aval}"))
    tensors, examples = taken_apart(operands, (AbstractTensor, np.ndarray, np.generic, int, float))
    if runs_as_written():
        return as_result(run_as_written(if_true if chosen else if_false, *valued(examples)))
    traced = trace(*[(f, examples) for f in (if_true, if_false)])
    _check(traced)
    return traced.results[0].filled(_once((chosen,), traced.bodies, [*tensors, *traced.hidden]))


def _check(traced: Traced) -> None:
    yes, no = traced.results
    if yes != no:
        raise ShapeError(located(f"cond: one branch gives {yes}, the other {no}"))
    for name, a, b in zip(yes.names("result"), *[body.graph.outputs for body in traced.bodies], strict=True):
        if a.aval != b.aval:
            told = f"cond: {name} is {a.aval} in one branch and {b.aval} in the other"
            if a.aval.shape != b.aval.shape:
                raise ShapeError(located(told, "let both branches give one shape: ad.broadcast_to, ad.zeros_like"))
            wider = np.promote_types(a.aval.dtype, b.aval.dtype)
            raise DTypeError(located(told, f"let both branches give ad.astype(..., ad.{wider})"))


def checkpoint(f: Callable) -> Callable:
    """A function like `f`, whose intermediate values the backward pass computes again instead of keeping them.

    f   a function of any nestings of tensors, arrays and numbers, also by keyword; other arguments are static, and
        other leaves of its result are returned unchanged.  It must not evaluate tensors

    >>> import autodiff as ad, numpy as np
    >>> ad.grad(lambda x: ad.checkpoint(lambda x: ad.sin(x) * ad.exp(x))(x).sum())(np.array([0.0]))
    array([1.])
    """
    check_callable(f, "checkpoint")

    @border
    @wraps(f)
    def run(*args: Any, **kwargs: Any) -> Any:
        tensors, examples = taken_apart(tree.map(as_numpy, (args, kwargs)), (AbstractTensor, np.ndarray, np.generic))
        if is_watching():
            plain, named = valued(examples)
            return tree.map(lambda x: as_tensor(x) if isinstance(x, VALUES) else x, f(*plain, **named))
        traced = trace((lambda args, kwargs: called_with(f, args, kwargs), examples), taken=VALUES)
        return traced.results[0].filled(_once((), traced.bodies, [*tensors, *traced.hidden]))

    return run
