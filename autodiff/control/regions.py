"""Operations that have regions: bodies that they run.  Loops and branches are such, each declared in its own file.

An operation has one result.  A loop or a branch has several, so it gives them packed: all elements of a
dtype, one result after the other, in one vector; parts of it are taken out again, which fuses with whatever
reads them.  The compiler gives the results of a native loop buffers of their own, and makes no vector.

    call(static, inputs) -> results          a custom function around the operation, which has the derivative

There is no such call where nothing tracked when the operation was recorded.  A body that holds it may be differentiated
all the same, with respect to what was a constant then: the operation's own rule calls the custom function anew.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.compiler import compile_graph
from codegen.ir import DTYPES, Aval, Graph, OutOfRange, dtype_name, evaluate
from codegen.lowering import Move, Nest

from ..ops import pad, reshape
from ..ops.batching import BatchedParts
from ..ops.primitive import linear, primitive
from ..ops.slicing import part
from ..tape.record import record
from ..tensor import Tensor
from ..transforms.functional import vjp
from .body import float_places, placed

__all__ = ["Regions", "run_of"]


class Regions:
    """An operation whose static part, a named tuple with the property `nested`, holds bodies.

    run      (what the compiler has it as, arrays) -> arrays: by Python, with one call for each body
    call     the custom function around it; None where there is none
    of_all   (size, static, inputs, whether each differs between examples) -> the results of all examples, along axis 0
    """

    def __init__(
        self, name: str, static: Any, run: Callable[..., Sequence[Any]], of_all: Callable[..., Sequence[Tensor]],
        call: Callable[..., Sequence[Tensor]] | None = None,
    ) -> None:
        self.call = call

        def pulled(y_bar: Tensor, _y: Tensor, *xs: Tensor, dtype: str, **of: Any) -> tuple:
            return self._pulled(y_bar, xs, dtype, static(**of))

        def batch(
            _op: Any, size: int, xs: Sequence[Tensor], mapped: Sequence[bool], *, dtype: str, **of: Any
        ) -> BatchedParts:
            made = static(**of)
            return _parts(of_all(size, made, xs, mapped), made.nested.results, DTYPES[dtype])

        self.primitive = primitive(
            name,
            lambda *arrays, dtype, **of: _pack(run(static(**of).nested, *arrays), dtype),
            infer=lambda *_avals, dtype, **of: _packed_aval(static(**of).nested.results, DTYPES[dtype]),
            lower=Nest(lambda dtype, **of: static(**of).nested),
            vjp=call and pulled,
            params=("dtype", *static._fields),
            heavy=True,
            keeps_mask=False,
            traits=("regions",),
            batch=batch,
        )

    def record(self, static: Any, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The results, taken out of vectors: one for each dtype there is."""
        vectors: dict[np.dtype, Tensor] = {}
        taken: dict[np.dtype, int] = {}
        results = []
        for aval in static.nested.results:
            vector = vectors.get(aval.dtype)
            if vector is None:
                params = (dtype_name(aval.dtype), *static)
                vector = vectors[aval.dtype] = record(self.primitive, tuple(inputs), params)
            start = taken.get(aval.dtype, 0)
            taken[aval.dtype] = start + aval.size
            results.append(record(_unpack, (vector,), (start, aval.shape)))
        return tuple(results)

    def _pulled(self, y_bar: Tensor, xs: Sequence[Tensor], dtype: str, static: Any) -> tuple:
        """The cotangents of the inputs from that of the vector of one dtype, by the rule of the custom function."""
        places = [k for k in float_places(xs) if xs[k].requires_grad]

        def called(values: Sequence[Tensor]) -> list[Tensor]:
            inputs = list(xs)
            for k, value in zip(places, values, strict=True):
                inputs[k] = value
            assert self.call is not None
            found = self.call(static, tuple(inputs))[: len(static.nested.results)]
            return [t for t in found if t.aval.dtype == DTYPES[dtype]]

        results, pullback = vjp(called, [xs[k] for k in places])
        starts = itertools.accumulate([t.size for t in results], initial=0)
        bars = [record(_unpack, (y_bar,), (start, t.shape)) for start, t in zip(starts, results, strict=False)]
        (found,) = pullback(bars)
        return tuple(placed(found, places, len(xs)))


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
