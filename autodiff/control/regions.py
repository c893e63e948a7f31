"""Operations with regions, which are bodies that they run: `cond`, and loops, which have files of their own.

An operation has one result.  A loop or a branch has several, so it packs them: one vector for each dtype has all
elements, one result after the other.  Each result is taken out of its vector by another operation, which fuses with its
readers.  For a native loop, the compiler gives each result a buffer, and makes no vector.

    call(static, inputs) -> results          a custom function around the operation, which has the derivative

The operation itself has no derivative: outside such a call it is recorded only where no gradient is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.compiler import compile_graph
from codegen.ir import DTYPES, Aval, Graph, OutOfRange, dtype_name, evaluate
from codegen.lowering import Move, Nest
from codegen.nested import of_graphs, starts

from ..ops.primitive import primitive
from ..tape.record import record
from ..tensor import Tensor
from .body import detached_unless, tracks_of


class Regions:
    """An operation whose static part holds bodies.

    static   the class of that part (see `codegen.nested`); for the compiler it holds graphs in place of bodies
    run      a function (static with graphs, arrays) -> arrays, in Python, with one call for each run of a body
    of_all   (size, static, inputs, True for each that differs between examples) -> results for all, along axis 0
    """

    def __init__(
        self, name: str, static: Any, run: Callable[..., Sequence[Any]], of_all: Callable[..., Sequence[Tensor]]
    ) -> None:
        self.primitive = primitive(
            name,
            lambda *arrays, dtype, **of: _pack(run(of_graphs(static(**of)), *arrays), dtype),
            infer=lambda *_avals, dtype, **of: _packed_aval(static(**of).results, DTYPES[dtype]),
            lower=Nest(lambda dtype, **of: of_graphs(static(**of))),
            params=("dtype", *static._fields),
            heavy=True,
            traits=("regions",),
            batch=lambda _op, size, xs, mapped, dtype, **of: of_all(size, static(**of), xs, mapped),
        )

    def record(self, static: Any, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The results, taken out of the vectors: there is one vector for each dtype."""
        given, results = tuple(inputs), static.results
        vectors = {dtype: record(self.primitive, given, (dtype_name(dtype), *static))
                   for dtype in dict.fromkeys([a.dtype for a in results])}
        places = enumerate(zip(results, starts(results), strict=True))
        return tuple([record(_unpack, (vectors[a.dtype],), (k, start, a.shape)) for k, (a, start) in places])


def called(
    call: Callable[..., Sequence[Tensor]], static: Any, inputs: Sequence[Tensor],
    tracking: Callable[[list[bool]], list[bool]],
) -> list[Tensor]:
    """The results of a call of an operation; a result is detached if no gradient can flow through it.

    tracking   a function from one flag per input, True if it tracks, to one per result, True if gradients flow
    """
    found = call(static, tuple(inputs))
    return detached_unless(found, tracking(tracks_of(inputs))) if any(tracks_of(found)) else list(found)


def run_of(graph: Graph) -> Callable[..., tuple[np.ndarray, ...]]:
    """The function that calls a body's compiled code; if an index is out of range, NumPy's code finds which one."""
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
    """All elements of the arrays of one dtype, in one vector, array after array."""
    kind = DTYPES[dtype]
    return np.concatenate([np.empty(0, kind), *[np.ravel(a) for a in map(np.asarray, values) if a.dtype == kind]])


def _part_of(k: Any, index: Sequence[Any], vector: Any, *, number: int, start: int, shape: tuple[int, ...]) -> Any:
    place = k.index(0)
    for i, n in zip(index, shape, strict=True):
        place = k.add(k.mul(place, k.index(n)), i)
    return vector(k.add(place, k.index(start)))


#: One result taken out of its vector: its number among all results, and where it starts.  It has no derivative.
_unpack = primitive(
    "unpack",
    lambda vector, *, number, start, shape: vector[start : start + math.prod(shape)].reshape(shape),
    infer=lambda vector, *, number, start, shape: vector.with_shape(shape),
    lower=Move(_part_of),
    params=("number", "start", "shape"),
    traits=("part",),
)
