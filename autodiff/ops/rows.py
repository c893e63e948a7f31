"""Rows and indices: take elements of each row along an axis, sort rows, sum the rows of segments, one-hot rows.

    take_along    y[..., j, ...] = x[..., index[..., j, ...], ...]
    scatter_along the transpose of take_along
    argsort       the indices that sort along an axis; `sort` takes the elements in this order

Indices are checked as in `gathering`.
"""

from __future__ import annotations

import numpy as np

from codegen.lowering import Move, Order, Scatter

from ..errors import ShapeError, located
from ..tape import record
from ..tensor import Tensor
from .arithmetic import imaginary_part, real_part
from .conditions import isnan
from .conversion import cast_to, dtype_of
from .creation import iota
from .declare import as_count
from .gathering import bounds_of_take, check_indices, index_tensor, scattered, within
from .primitive import I32, I64, OwnPrimitive, broadcast_avals, expect, linear, primitive, spread_to, with_extent
from .shaping import on_axis, reshaped
from .template import public


def _scatter_along_reference(index: np.ndarray, updates: np.ndarray, *, shape: tuple, axis: int) -> np.ndarray:
    y = np.zeros(shape, updates.dtype)
    places: list[np.ndarray] = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    places[axis] = index
    np.add.at(y, tuple(places), updates)
    return y


def _along_index(k, index, places, extent, axis):
    """`index` with its entry along `axis` replaced by the element of `places` at `index`."""
    at = list(index)
    at[axis] = within(k, k.to_index(places(*index)), extent)
    return tuple(at)


_take_along: OwnPrimitive = linear(
    "take_along",
    lambda x, index, *, axis: np.take_along_axis(x, index, axis),
    infer=lambda x, index, *, axis: check_indices("take_along", x, (index,), (axis,)).with_shape(index.shape),
    transpose=lambda y_bar, y, x, index, *, axis: (
        lambda: record(_scatter_along, (index, y_bar), (x.shape, axis)), None,
    ),
    lower=Move(lambda k, j, x, places, *, axis: x(*_along_index(k, j, places, x.shape[axis], axis)), free=False),
)
_scatter_along: OwnPrimitive = linear(
    "scatter_along",
    _scatter_along_reference,
    infer=lambda index, updates, *, shape, axis: check_indices(
        "scatter_along", updates.with_shape(shape), (index,), (axis,)
    ),
    transpose=lambda y_bar, y, index, updates, *, shape, axis: (
        None, lambda: record(_take_along, (y_bar, index), (axis,)),
    ),
    lower=Scatter(lambda k, j, places, updates, *, shape, axis: _along_index(k, j, places, shape[axis], axis)),
    in_args=(1,),
)


@public(2, _take_along, lambda x, indices, axis=-1: bounds_of_take(x, indices, axis), takes="T")
def take_along_axis(x, indices, axis=-1):
    """Elements of each row along an axis, by their indices in that row (axis None: of x flattened).

    x: T[..., n, ...]  indices: i64[..., k, ...]  →  T[..., k, ...]     the other axes broadcast

    `take_along_axis(x, argmax(x, 1, keepdims=True), 1)` is `max(x, 1, keepdims=True)`.
    Raises IndexError for an index out of range, ShapeError when the other axes do not broadcast.

    >>> ad.take_along_axis([[1, 2], [3, 4]], [[1], [0]], axis=1)
    i64[2,1]
    [[2]
     [3]]
    """
    x, along = on_axis("take_along_axis", x, axis)
    index = index_tensor(indices, "take_along_axis", x.shape[along])
    if index.ndim != x.ndim:
        raise ShapeError(located(
            f"take_along_axis: x and indices need as many axes: {x.aval}, {index.aval}",
            "for the same rows everywhere use ad.take",
        ))
    rest = [t.aval.with_shape(with_extent(t.shape, along, 1)) for t in (x, index)]
    shape = broadcast_avals("take_along_axis", rest)
    x, index = (spread_to(t, (*shape[:along], t.shape[along], *shape[along + 1 :])) for t in (x, index))
    return record(_take_along, (x, index), (along,))


@public(2, bounds=lambda data, segment_ids, num_segments: ((1, num_segments),), takes="T")
def segment_sum(data, segment_ids, num_segments):
    """The sum of the rows of each segment: y[s] = sum of data[i] where segment_ids[i] is s.

    data: T[k..., ...]  segment_ids: i64[k...]  →  T[num_segments, ...]     a segment without rows is zero

    The ids may be in any order.  Rows are added in their order, so results are the same for any number of threads.
    Raises ShapeError when segment_ids has not the leading axes of data; IndexError for an id out of range, as `take`.

    >>> ad.segment_sum([1.0, 2.0, 3.0], [0, 2, 0], 3)
    f64[3] [4. 0. 2.]
    """
    expect("segment_sum", (data.aval,), "fic")
    n = as_count(num_segments, "segment_sum", "the number of segments")
    ids = index_tensor(segment_ids, "segment_sum", n)
    if data.shape[: ids.ndim] != ids.shape:
        raise ShapeError(located(f"segment_sum: {ids.aval} names no segments of the leading axes of {data.aval}"))
    return scattered([ids], data, (n, *data.shape[ids.ndim :]), (0,), 0)


@public(1)
def one_hot(indices, classes, *, dtype=np.float64):
    """A row of zeros with a single one for each index.

    indices: i64[...]  →  dtype[..., classes]

    An index outside of range(classes) gives a row of zeros.
    Raises DTypeError for indices that are no integers, ShapeError for a negative number of classes.

    >>> ad.one_hot([2, 0, 5], 3)
    f64[3,3]
    [[0. 0. 1.]
     [1. 0. 0.]
     [0. 0. 0.]]
    """
    index = index_tensor(indices, "one_hot")
    places = iota((as_count(classes, "one_hot", "the number of classes"),), 0)
    return cast_to(reshaped(index, (*index.shape, 1)) == places, dtype_of(dtype, "one_hot"))


def _reference(x: np.ndarray, *, axis: int, descending: bool) -> np.ndarray:
    """NumPy's stable argsort; if descending, of the reversed rows, so that equal elements keep their order."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    rows = np.flip(x, axis)
    return np.flip(x.shape[axis] - 1 - np.argsort(rows, axis, kind="stable"), axis)


_argsort = primitive(
    "argsort",
    _reference,
    infer=lambda x, *, axis, descending: x.with_dtype(I64),
    lower=Order(),
    discrete=True,
)


@public(1, _argsort, takes="T")
def argsort(x, axis=-1, *, descending=False, stable=True):
    """Indices that sort x along an axis in rising (`descending`: falling) order; axis None: of x flattened.

    x: T[..., n, ...]  →  i64[..., n, ...]     equal elements keep their order; nan counts as largest

    Complex numbers are ordered by real part, then by imaginary part.  The sort is stable for any value of `stable`.
    Raises ShapeError when x has no such axis.

    >>> ad.argsort([3.0, 1.0, 2.0, 1.0])
    i64[4] [1 3 2 0]
    >>> ad.argsort([3.0, 1.0, 2.0, 1.0], descending=True)
    i64[4] [0 2 1 3]
    """
    x, along = on_axis("argsort", x, axis)
    return _ordered(x, along, bool(descending))


@public(1, takes="T")
def sort(x, axis=-1, *, descending=False, stable=True):
    """The elements along an axis in rising (`descending`: falling) order; axis None: of x flattened.

    x: T[..., n, ...]  →  T[..., n, ...]     gradients go where the elements came from; nan counts as largest

    Complex numbers are ordered by real part, then by imaginary part.  The sort is stable for any value of `stable`.
    Raises ShapeError when x has no such axis.

    >>> ad.sort([3.0, ad.nan, 1.0])
    f64[3] [ 1.  3. nan]
    >>> ad.grad(lambda x: ad.sort(x)[0])(ad.tensor([3.0, 1.0, 2.0]))
    f64[3] [0. 1. 0.]
    """
    x, along = on_axis("sort", x, axis)
    return _taken(x, _ordered(x, along, bool(descending)), along)


def _ordered(x: Tensor, axis: int, descending: bool) -> Tensor:
    """The indices that sort x along an axis; complex numbers are sorted by each key in turn, the major key last.

    The order is NumPy's: by real part, then imaginary part; after all numbers without nan come those with nan in the
    imaginary part, then those with nan in the real part, then those with nan in both.
    """
    if x.dtype.kind != "c":
        return record(_argsort, (x,), (axis, descending))
    re, im = real_part(x), imaginary_part(x)
    lacks = [cast_to(isnan(p), I32) for p in (im, re)]
    order = record(_argsort, (im,), (axis, descending))
    for key in (re, lacks[0] + lacks[1] * 2):
        by_key = record(_argsort, (_taken(key, order, axis),), (axis, descending))
        order = _taken(order, by_key, axis)
    return order


def _taken(x: Tensor, order: Tensor, axis: int) -> Tensor:
    return take_along_axis(x, order, axis) if x.size else x
