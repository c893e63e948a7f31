"""Operations that have regions: bodies that they run.  Loops are such, declared in files of their own, and `cond`.

An operation has one result.  A loop or a branch has several, so it gives them packed: all elements of a
dtype, one result after the other, in one vector; parts of it are taken out again, which fuses with whatever
reads them.  The compiler gives the results of a native loop buffers of their own, and makes no vector.

    call(static, inputs) -> results          a custom function around the operation, which has the derivative

The operation has none of its own: where nothing tracked when it was recorded, no gradient is wanted of it.
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
from .body import cut, tracks_of


class Regions:
    """An operation whose static part holds bodies.

    static   its class (see `codegen.nested`), which the compiler has with graphs in place of bodies
    run      (that with graphs, arrays) -> arrays: by Python, with one call for each body
    of_all   (size, static, inputs, whether each differs between examples) -> the results of all examples, along axis 0
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
        """The results, taken out of vectors: one for each dtype there is."""
        given, results = tuple(inputs), static.results
        vectors = {dtype: record(self.primitive, given, (dtype_name(dtype), *static))
                   for dtype in dict.fromkeys([a.dtype for a in results])}
        places = enumerate(zip(results, starts(results), strict=True))
        return tuple([record(_unpack, (vectors[a.dtype],), (k, start, a.shape)) for k, (a, start) in places])


def called(
    call: Callable[..., Sequence[Tensor]], static: Any, inputs: Sequence[Tensor],
    tracking: Callable[[list[bool]], list[bool]],
) -> list[Tensor]:
    """The results of a call of an operation, those without a history that depend on nothing by a gradient.

    tracking   from whether each input tracks to whether gradients flow through each result
    """
    found = call(static, tuple(inputs))
    return cut(found, tracking(tracks_of(inputs))) if any(tracks_of(found)) else list(found)


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
    return np.concatenate([np.empty(0, kind), *[np.ravel(a) for a in map(np.asarray, values) if a.dtype == kind]])


def _part_of(k: Any, index: Sequence[Any], vector: Any, *, number: int, start: int, shape: tuple[int, ...]) -> Any:
    place = k.index(0)
    for i, n in zip(index, shape, strict=True):
        place = k.add(k.mul(place, k.index(n)), i)
    return vector(k.add(place, k.index(start)))


#: One result out of the vector, by its number among all; where it starts.  No derivative goes through it.
_unpack = primitive(
    "unpack",
    lambda vector, *, number, start, shape: vector[start : start + math.prod(shape)].reshape(shape),
    infer=lambda vector, *, number, start, shape: vector.with_shape(shape),
    lower=Move(_part_of),
    params=("number", "start", "shape"),
    traits=("part",),
)
