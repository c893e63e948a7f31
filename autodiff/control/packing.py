"""Several results of one operation, in one array each dtype.

An operation has one result.  A loop or a branch has several, so it gives them packed: all elements of a
dtype, one result after the other, in one vector; parts of it are taken out again, which fuses with whatever
reads them.  The compiler gives the results of a native loop buffers of their own, and makes no vector.

The derivative of a loop is the rule of a custom function, whose call stands around the operation.  There is no such
call where nothing tracked when the operation was recorded.  A body that holds it may be differentiated all the same,
with respect to what was a constant then: the operation's own rule calls the custom function anew (`rule_of_call`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.compiler import compile_graph
from codegen.ir import DTYPES, Aval, Graph, OutOfRange, dtype_name, evaluate
from codegen.lowering import Move

from ..ops import pad, reshape
from ..ops.batching import Parts
from ..ops.primitive import linear
from ..ops.slicing import part
from ..tape.record import record
from ..tensor import Tensor
from ..transforms.functional import vjp
from .body import float_places, placed

__all__ = ["pack", "packed_aval", "record_packed", "rule_of_call", "run_of"]


def packed_aval(avals: Sequence[Aval], dtype: str) -> Aval:
    """The vector of all results of one dtype."""
    kind = DTYPES[dtype]
    return Aval((sum(a.size for a in avals if a.dtype == kind),), kind)


def run_of(graph: Graph) -> Callable[..., tuple[np.ndarray, ...]]:
    """The call of a body; where an index is out of range its references say which."""
    call = compile_graph(graph).call

    def run(*arrays: Any) -> tuple[np.ndarray, ...]:
        try:
            return call(*arrays)
        except OutOfRange:
            return evaluate(graph, *arrays)

    return run


def pack(arrays: Sequence[np.ndarray], dtype: str) -> np.ndarray:
    """All elements of the arrays of one dtype, one array after the other."""
    kind = DTYPES[dtype]
    parts = [np.ravel(a) for a in arrays if a.dtype == kind]
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, kind)


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
    if isinstance(packed, Parts):
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


def record_packed(recorded: Callable[[str], Any], avals: Sequence[Aval]) -> list[Tensor]:
    """The results, taken out of the vectors that `recorded(dtype)` gives; made once for each dtype there is."""
    vectors: dict[np.dtype, Tensor] = {}
    taken: dict[np.dtype, int] = {}
    results = []
    for aval in avals:
        vector = vectors.get(aval.dtype)
        if vector is None:
            vector = vectors[aval.dtype] = recorded(dtype_name(aval.dtype))
        start = taken.get(aval.dtype, 0)
        taken[aval.dtype] = start + aval.size
        results.append(record(_unpack, (vector,), (start, aval.shape)))
    return results


def rule_of_call(call: Callable[..., Sequence[Tensor]]) -> Callable[..., tuple]:
    """The VJP rule of an operation that gives some results of a custom function packed.

    call   call(inputs, **static) -> all results, behind the function's own rule
    """

    def rule(y_bar: Tensor, _y: Tensor, *xs: Tensor, dtype: str, **static: Any) -> tuple:
        places = [k for k in float_places(xs) if xs[k].requires_grad]

        def called(values: Sequence[Tensor]) -> list[Tensor]:
            inputs = list(xs)
            for k, value in zip(places, values, strict=True):
                inputs[k] = value
            return [t for t in call(inputs, **static) if t.aval.dtype == DTYPES[dtype]]

        results, pullback = vjp(called, [xs[k] for k in places])
        starts = itertools.accumulate([t.size for t in results], initial=0)
        bars = [record(_unpack, (y_bar,), (start, t.shape)) for start, t in zip(starts, results, strict=False)]
        (found,) = pullback(bars)
        return tuple(placed(found, places, len(xs)))

    return rule
