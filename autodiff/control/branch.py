"""`cond`: one of two functions, chosen when the program runs; only that one is run.

`ad.where` computes both sides and chooses elements; `cond` chooses once.  The derivative is a `cond` of the two
pullbacks, so derivatives of any order follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from codegen.compiler import compile_graph
from codegen.ir import Aval
from codegen.lowering import Call

from .. import tree
from ..config import config
from ..custom import function
from ..errors import DTypeError, ShapeError, caller
from ..ops import as_tensor, zeros_like
from ..ops.primitive import primitive
from ..tape.record import record, state
from ..tensor import AbstractTensor, Tensor
from ..transforms.functional import vjp
from .body import Body, trace
from .packing import pack, packed_aval, record_packed

__all__ = ["cond"]


class Branches(NamedTuple):
    """What is static about a choice: both bodies, and how many hidden inputs the first has."""

    yes: Body
    no: Body
    hidden: int

    @property
    def results(self) -> list[Aval]:
        """Of either branch."""
        return [n.aval for n in self.yes.graph.outputs]


def _run(chosen: np.ndarray, *arrays: np.ndarray, branches: Branches, dtype: str) -> np.ndarray:
    count = len(branches.yes.arguments)
    split = count + branches.hidden
    if chosen:
        found = compile_graph(branches.yes.graph).call(*arrays[:split])
    else:
        found = compile_graph(branches.no.graph).call(*arrays[:count], *arrays[split:])
    return pack([np.asarray(a) for a in found], dtype)


_cond = primitive(
    "cond",
    _run,
    infer=lambda *_avals, branches, dtype: packed_aval(branches.results, dtype),
    lower=Call(),
    params=("branches", "dtype"),
    heavy=True,
)


@function
def _branched(branches, chosen, operands, of_yes, of_no): ...


@_branched.forward
def _(ctx, branches, chosen, operands, of_yes, of_no):
    inputs = (chosen, *operands, *of_yes, *of_no)
    return tuple(record_packed(lambda dtype: record(_cond, inputs, (branches, dtype)), branches.results))


@_branched.backward
def _(ctx, *bars):
    branches, chosen, operands, of_yes, of_no = ctx.inputs
    floats = [n.aval.dtype.kind in "fc" for n in branches.yes.graph.outputs]
    y_bars = [b for b, f in zip(bars, floats, strict=True) if f]

    def pullback(body: Body, which: int) -> Callable:
        """The cotangents of everything, from one branch: zero for what the other one reads."""

        def pulled(everything, y_bars):
            operands, *hidden = everything
            mine = [*operands, *hidden[which]]
            moving = [k for k, t in enumerate(mine) if t.dtype.kind in "fc"]

            def again(values):
                given = list(mine)
                for k, t in zip(moving, values, strict=True):
                    given[k] = t
                return [t for t in body.apply(given) if t.dtype.kind in "fc"]

            _, pull = vjp(again, [mine[k] for k in moving])
            (found,) = pull(y_bars)
            by_place = dict(zip(moving, found, strict=True))
            own = [by_place.get(len(operands) + k) for k in range(len(hidden[which]))]
            others = [None] * len(hidden[1 - which])
            bars = [[by_place.get(k) for k in range(len(operands))], *([others, own] if which else [own, others])]
            groups = zip(bars, everything, strict=True)
            return [[zeros_like(x) if b is None else b for b, x in zip(g, xs, strict=True) if x.dtype.kind in "fc"]
                    for g, xs in groups]

        return pulled

    everything = [list(operands), list(of_yes), list(of_no)]
    found = cond(chosen, pullback(branches.yes, 0), pullback(branches.no, 1), everything, list(y_bars))
    placed = []
    for group, xs in zip(found, everything, strict=True):
        values = iter(group)
        placed.append(tuple([next(values) if x.dtype.kind in "fc" else None for x in xs]) or None)
    return {"branches": None, "chosen": None, "operands": placed[0], "of_yes": placed[1], "of_no": placed[2]}


def cond(chosen: Any, if_true: Callable, if_false: Callable, *operands: Any) -> Any:
    """`if_true(*operands)` if `chosen`, else `if_false(*operands)`; only that one is run.

    chosen     bool[], known when the program runs; a Python bool is decided at once
    operands   any nestings of tensors, arrays, numbers;  both functions give the same nesting of the same avals

    Differentiable to any order, in both modes.  Raises DTypeError where `chosen` is no bool[], ShapeError where the
    two results differ.

    >>> import autodiff as ad
    >>> f = ad.jit(lambda x: ad.cond(x.sum() > 0, lambda x: x * 2.0, lambda x: -x, x))
    >>> import numpy as np
    >>> f(np.array([1.0, 2.0])), f(np.array([-1.0, -2.0]))
    (array([2., 4.]), array([1., 2.]))
    """
    if isinstance(chosen, (bool, np.bool_)):
        return (if_true if chosen else if_false)(*operands)
    chosen = as_tensor(chosen, "cond", "chosen")
    if chosen.aval != Aval((), np.dtype(np.bool_)):
        raise DTypeError(f"cond: takes a bool[] to choose by, not {chosen.aval}\n  called at {caller()}")
    leaves, structure = tree.flatten(operands)
    taken = (AbstractTensor, np.ndarray, np.generic, int, float)
    leaves = [as_tensor(x) if isinstance(x, taken) else x for x in leaves]
    if config.eager and not state.now.tracing:
        return (if_true if chosen else if_false)(*tree.unflatten(structure, leaves))
    examples = tree.unflatten(structure, [x.aval if isinstance(x, Tensor) else x for x in leaves])
    yes, no = trace(if_true, *examples), trace(if_false, *examples)
    _check(yes, no)
    branches = Branches(yes.body, no.body, len(yes.hidden))
    given = tuple([x for x in leaves if isinstance(x, Tensor)])
    return yes.result.filled(_branched(branches, chosen, given, tuple(yes.hidden), tuple(no.hidden)))


def _check(yes: Any, no: Any) -> None:
    if yes.result != no.result:
        raise ShapeError(f"cond: one branch gives {yes.result}, the other {no.result}\n  called at {caller()}")
    for name, a, b in zip(yes.result.names("result"), yes.body.graph.outputs, no.body.graph.outputs, strict=True):
        if a.aval != b.aval:
            error = ShapeError if a.aval.shape != b.aval.shape else DTypeError
            raise error(f"cond: {name} is {a.aval} in one branch and {b.aval} in the other\n  called at {caller()}")


