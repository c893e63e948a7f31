"""Operations that have regions: bodies that they run.  Loops are such, declared in files of their own, and `cond`.

An operation has one result.  A loop or a branch has several, so it gives them packed: all elements of a
dtype, one result after the other, in one vector; parts of it are taken out again, which fuses with whatever
reads them.  The compiler gives the results of a native loop buffers of their own, and makes no vector.

    call(static, inputs) -> results          a custom function around the operation, which has the derivative

The operation has none of its own: where nothing tracked when it was recorded, no gradient is wanted of it.

`cond` is one of two functions, chosen when the program runs; only that one is run.  (`ad.where` computes both sides and
chooses elements.)  Its derivative is a `cond` of the two pullbacks, so derivatives of any order follow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from codegen.compiler import compile_graph
from codegen.ir import DTYPES, Aval, Graph, OutOfRange, Region, dtype_name, evaluate
from codegen.lowering import Move, Nest
from codegen.nested import Nested, NestedBranch

from .. import tree
from ..custom import function
from ..custom.context import wanted
from ..errors import DTypeError, ShapeError, check_callable, located
from ..ops import as_tensor, pad, reshape
from ..ops.batching import BatchedParts
from ..ops.primitive import linear, primitive
from ..ops.slicing import part
from ..tape.record import record
from ..tensor import AbstractTensor, Tensor
from ..tracebacks import border
from ..transforms.anomaly import runs_as_written
from ..transforms.arguments import own
from .body import Body, BodyUse, cut, float_places, joined, mode_of, placed, tracks_of
from .trace import Operands, applied, as_written, choose, derived, of_all, trace

__all__ = ["Regions", "cond", "run_of"]


class Regions:
    """An operation whose static part, a named tuple, holds bodies.

    nested   what the compiler has it as: fields as the static part has them, graphs in place of bodies
    run      (what the compiler has it as, arrays) -> arrays: by Python, with one call for each body
    of_all   (size, static, inputs, whether each differs between examples) -> the results of all examples, along axis 0
    """

    def __init__(
        self, name: str, static: Any, nested: Callable[..., Nested], run: Callable[..., Sequence[Any]],
        of_all: Callable[..., Sequence[Tensor]],
    ) -> None:
        self._nested = nested

        def batch(
            _op: Any, size: int, xs: Sequence[Tensor], mapped: Sequence[bool], *, dtype: str, **of: Any
        ) -> BatchedParts:
            made = static(**of)
            return _parts(of_all(size, made, xs, mapped), self.nested(made).results, DTYPES[dtype])

        self.primitive = primitive(
            name,
            lambda *arrays, dtype, **of: _pack(run(self.nested(static(**of)), *arrays), dtype),
            infer=lambda *_avals, dtype, **of: _packed_aval(self.nested(static(**of)).results, DTYPES[dtype]),
            lower=Nest(lambda dtype, **of: self.nested(static(**of))),
            params=("dtype", *static._fields),
            heavy=True,
            traits=("regions",),
            batch=batch,
        )

    def nested(self, static: Any) -> Any:
        """The operation as the compiler has it."""
        return self._nested(*[x.graph if isinstance(x, Region) else x for x in static])

    def record(self, static: Any, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The results, taken out of vectors: one for each dtype there is."""
        vectors: dict[np.dtype, Tensor] = {}
        taken: dict[np.dtype, int] = {}
        results = []
        for aval in self.nested(static).results:
            vector = vectors.get(aval.dtype)
            if vector is None:
                params = (dtype_name(aval.dtype), *static)
                vector = vectors[aval.dtype] = record(self.primitive, tuple(inputs), params)
            start = taken.get(aval.dtype, 0)
            taken[aval.dtype] = start + aval.size
            results.append(record(_unpack, (vector,), (start, aval.shape)))
        return tuple(results)


def run_of(graph: Graph) -> Callable[..., tuple[np.ndarray, ...]]:
    """The call of a body; where an index is out of range its references say which."""
    call = compile_graph(graph).call

    def run(*arrays: Any) -> tuple[np.ndarray, ...]:
        try:
            return call(*arrays)
        except OutOfRange:
            return evaluate(graph, *arrays)

    return run


def _packed_aval(avals: Sequence[Aval], dtype: np.dtype) -> Aval:
    """The vector of all results of one dtype."""
    return Aval((sum([a.size for a in avals if a.dtype == dtype]),), dtype)


def _pack(values: Sequence[Any], dtype: str) -> np.ndarray:
    """All elements of the arrays of one dtype, one array after the other."""
    kind = DTYPES[dtype]
    parts = [np.ravel(a) for a in map(np.asarray, values) if a.dtype == kind]
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, kind)


def _parts(results: Sequence[Tensor], avals: Sequence[Aval], dtype: np.dtype) -> BatchedParts:
    """A stand-in for the vector of one dtype of every example, given the results of all and the avals of one's."""
    pairs = [(t, a) for t, a in zip(results, avals, strict=False) if a.dtype == dtype]
    starts = itertools.accumulate([a.size for _, a in pairs], initial=0)
    return BatchedParts({(start, a.shape): t for start, (t, a) in zip(starts, pairs, strict=False)})


def _part_of(k: Any, index: Sequence[Any], vector: Any, *, start: int, shape: tuple[int, ...]) -> Any:
    place = k.index(0)
    for i, n in zip(index, shape, strict=True):
        place = k.add(k.mul(place, k.index(n)), i)
    return vector(k.add(place, k.index(start)))


def _put_back(y_bar: Tensor, _y: Tensor, vector: Tensor, *, start: int, shape: tuple[int, ...]) -> tuple[Tensor]:
    size = math.prod(shape)
    return (pad(reshape(y_bar, (size,)), (start, vector.size - start - size)),)


def _unpack_batch(op: Any, size: int, xs: Sequence[Any], mapped: Any, *, start: int, shape: tuple[int, ...]) -> Tensor:
    (packed,) = xs
    if isinstance(packed, BatchedParts):
        return packed.results[start, shape]
    return reshape(part(packed, 1, start, start + math.prod(shape)), (size, *shape))


#: One result out of the vector.
_unpack = linear(
    "unpack",
    lambda vector, *, start, shape: vector[start : start + math.prod(shape)].reshape(shape),
    infer=lambda vector, *, start, shape: vector.with_shape(shape),
    transpose=_put_back,
    lower=Move(_part_of),
    params=("start", "shape"),
    traits=("part",),
    batch=_unpack_batch,
)


# ---------------------------------------------------------------- one of two


class Branches(NamedTuple):
    """The static part of a choice: both bodies, which read the same."""

    yes: Body
    no: Body


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
_cond = Regions("cond", Branches, NestedBranch, _run, _of_all)


@_branched.forward
def _(ctx, branches, inputs):
    return _cond.record(branches, inputs)


@_branched.backward
def _(ctx, *bars):
    branches, (chosen, *operands) = ctx.inputs
    floats = float_places(_cond.nested(branches).results)
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
    results = _cond.nested(branches).results
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
