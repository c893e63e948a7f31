"""`cond`: one of two functions, chosen when the program runs; only that one is run.

`ad.where` computes both sides and chooses elements; `cond` chooses once.  The derivative is a `cond` of the two
pullbacks, so derivatives of any order follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Nest
from codegen.nested import Choice

from .. import tree
from ..custom import function
from ..custom.context import wanted
from ..errors import DTypeError, ShapeError, caller, check_callable
from ..ops import as_tensor
from ..ops.primitive import primitive, zeros_of
from ..tape.record import record
from ..tensor import AbstractTensor, Tensor
from ..tracebacks import shorten
from ..transforms.anomaly import runs_as_written
from ..transforms.arguments import own
from .batching import cond_batch
from .body import Body, cut, float_places, mode_of, placed, tracks_of
from .derived import MadeBody, derived
from .packing import pack, packed_aval, record_packed, rule_of_call, run_of
from .trace import Like, Traced, as_written, trace, values_of

__all__ = ["cond"]


class Branches(NamedTuple):
    """The static part of a choice: both bodies, and the number of hidden inputs of the first."""

    hidden: int
    yes: Body
    no: Body

    @property
    def choice(self) -> Choice:
        """The same, as the compiler has it."""
        return Choice(self.yes.graph, self.no.graph, self.hidden)


def _run(chosen: np.ndarray, *arrays: np.ndarray, dtype: str, **static: Any) -> np.ndarray:
    """Run the choice.  (Compiled, it is native where both branches are.)"""
    choice = Branches(**static).choice
    shared, split = choice.shared, choice.shared + choice.hidden
    branch, given = (choice.yes, arrays[:split]) if chosen else (choice.no, (*arrays[:shared], *arrays[split:]))
    found = run_of(branch)(*given)
    return pack([np.asarray(a) for a in found], dtype)


_cond = primitive(
    "cond",
    _run,
    infer=lambda *_avals, dtype, **static: packed_aval(Branches(**static).choice.results, dtype),
    lower=Nest(lambda dtype, **static: Branches(**static).choice),
    vjp=rule_of_call(lambda inputs, **static: _results(Branches(**static), inputs)),
    params=("dtype", *Branches._fields),
    heavy=True,
    keeps_mask=False,
    traits=("regions",),
    batch=cond_batch(Branches),
)


def _results(branches: Branches, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The chosen branch's results, by a call of the choice's function: behind its rule."""
    shared = 1 + branches.choice.shared
    split = shared + branches.hidden
    chosen, *operands = inputs[:shared]
    found: tuple[Tensor, ...] = _branched(
        branches, chosen, tuple(operands), tuple(inputs[shared:split]), tuple(inputs[split:])
    )
    return found


class OneOfTwo(NamedTuple):
    """A function of one of the bodies, which is one of two again: see `derived`."""

    body: Body
    purpose: tuple
    f: Callable[[list[Tensor], list[Tensor]], list[Any]]
    hidden: Sequence[Tensor]


@function
def _branched(branches, chosen, operands, of_yes, of_no): ...


_branched.__name__ = "cond"  # in messages

@_branched.forward
def _(ctx, branches, chosen, operands, of_yes, of_no):
    inputs = (chosen, *operands, *of_yes, *of_no)
    return tuple(record_packed(lambda dtype: record(_cond, inputs, (dtype, *branches)), branches.choice.results))


@_branched.backward
def _(ctx, *bars):
    branches, chosen, operands, of_yes, of_no = ctx.inputs
    y_bars = [bars[k] for k in float_places(branches.choice.results)]
    everything = operands, of_yes, of_no
    groups = [wanted(ctx, name) for name in ("operands", "of_yes", "of_no")]
    moving = [[k for k, is_wanted in enumerate(group) if is_wanted] for group in groups]

    def pullback(body: Body, which: int) -> OneOfTwo:
        """The cotangents of everything, from one branch: zero for what the other one reads."""
        shared = len(operands)
        places = [*moving[0], *[shared + k for k in moving[which]]]
        other = [everything[3 - which][k].aval for k in moving[3 - which]]

        def pulled(given: list[Tensor], hidden: list[Tensor]) -> list[Any]:
            found = body.pull([*given[:shared], *hidden], given[shared:], places)
            own, zeros = [found[shared + k] for k in moving[which]], [zeros_of(aval) for aval in other]
            return [*[found[k] for k in moving[0]], *(own + zeros if which == 1 else zeros + own)]

        return OneOfTwo(body, ("pulled in a branch", which, *map(tuple, moving), *other), pulled, everything[which])

    found = iter(_one_of(chosen, (*operands, *y_bars), pullback(branches.yes, 1), pullback(branches.no, 2)))
    back = [tuple(placed([next(found) for _ in ks], ks, len(xs))) or None
            for ks, xs in zip(moving, everything, strict=True)]
    return {"branches": None, "chosen": None, "operands": back[0], "of_yes": back[1], "of_no": back[2]}


@_branched.jvp
def _(ctx, _branches, _chosen_dot, operand_dots, yes_dots, no_dots):
    branches, chosen, operands, of_yes, of_no = ctx.inputs
    everything = operands, of_yes, of_no
    dots = [list(d or [None] * len(xs)) for d, xs in zip((operand_dots, yes_dots, no_dots), everything, strict=True)]
    moving = [[k for k, dot in enumerate(given) if dot is not None] for given in dots]
    directions = [[given[k] for k in ks] for given, ks in zip(dots, moving, strict=True)]
    results = branches.choice.results
    floats = float_places(results)

    def pushforward(body: Body, which: int) -> OneOfTwo:
        """The tangents of the float results of one branch."""
        shared, own = len(operands), len(everything[which])
        places = [*moving[0], *[shared + k for k in moving[which]]]

        def pushed(given: list[Tensor], hidden: list[Tensor]) -> list[Any]:
            if not places:
                return [zeros_of(results[k]) for k in floats]
            inputs, along = [*given[:shared], *hidden[:own]], [*given[shared:], *hidden[own:]]
            _, found = body.push(inputs, along, places)
            return [found[k] for k in floats]

        hidden = (*everything[which], *directions[which])
        return OneOfTwo(body, ("pushed in a branch", which, *places), pushed, hidden)

    both = pushforward(branches.yes, 1), pushforward(branches.no, 2)
    found = _one_of(chosen, (*operands, *directions[0]), *both)
    return tuple(placed(found, floats, len(results)))


def _one_of(chosen: Tensor, operands: Sequence[Tensor], yes: OneOfTwo, no: OneOfTwo) -> Sequence[Tensor]:
    """The results of one of two functions of bodies."""
    if runs_as_written():
        side = yes if chosen else no
        return side.f(list(operands), list(side.hidden))
    avals = [t.aval for t in operands]

    def of(side: OneOfTwo) -> MadeBody:
        values = list(operands), list(side.hidden)
        return derived(side.body, side.purpose, side.f, avals, side.hidden, lambda: values)

    return _chosen(chosen, operands, of(yes), of(no))


def _chosen(
    chosen: Tensor, operands: Sequence[Tensor], yes: Traced | MadeBody, no: Traced | MadeBody
) -> Sequence[Tensor]:
    """The results of one of two bodies, those without a history that depend on nothing by a gradient."""
    branches = Branches(len(yes.hidden), yes.body, no.body)
    with mode_of(yes.body, no.body):
        found = _branched(branches, chosen, tuple(operands), tuple(yes.hidden), tuple(no.hidden))
        of_each = [side.body.tracking(tracks_of(operands, side.hidden)) for side in (yes, no)]
        return cut(found, [a or b for a, b in zip(*of_each, strict=True)])


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
    try:
        check_callable(if_true, "cond")
        check_callable(if_false, "cond")
        if isinstance(chosen, (bool, np.bool_)):
            return (if_true if chosen else if_false)(*tree.map(own, operands))
        chosen = as_tensor(chosen, "cond", "chosen")
        if chosen.aval != Aval((), np.dtype(np.bool_)):
            raise DTypeError(f"cond: takes a bool[] to choose by, not {chosen.aval}\n  called at {caller()}")
        user, structure = tree.flatten(operands)
        taken = (AbstractTensor, np.ndarray, np.generic, int, float)
        leaves = [as_tensor(x) if isinstance(x, taken) else x for x in user]
        like = [Like(x.aval, given) if isinstance(x, Tensor) else x for x, given in zip(leaves, user, strict=True)]
        if runs_as_written():
            return as_written(if_true if chosen else if_false, *tree.unflatten(structure, values_of(like, leaves)))
        examples = tree.unflatten(structure, like)
        yes, no = [trace(f, *examples, values=lambda: tree.unflatten(structure, values_of(like, leaves)))
                   for f in (if_true, if_false)]
        _check(yes, no)
        return yes.result.filled(_chosen(chosen, [x for x in leaves if isinstance(x, Tensor)], yes, no))
    except Exception as error:
        shorten(error)
        raise


def _check(yes: Any, no: Any) -> None:
    if yes.result != no.result:
        raise ShapeError(f"cond: one branch gives {yes.result}, the other {no.result}\n  called at {caller()}")
    for name, a, b in zip(yes.result.names("result"), yes.body.graph.outputs, no.body.graph.outputs, strict=True):
        if a.aval != b.aval:
            error = ShapeError if a.aval.shape != b.aval.shape else DTypeError
            raise error(f"cond: {name} is {a.aval} in one branch and {b.aval} in the other\n  called at {caller()}")
