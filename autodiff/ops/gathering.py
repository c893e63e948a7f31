"""Reading and writing elements at the places that arrays of integers name.

    take          y[..., j, ...] = x[..., index(j), ...]      one index array for each indexed axis
    scatter_add   zeros, then y[..., index(j), ...] += u[..., j, ...]      the transpose of take
    scatter_set   x, then y[..., index(j), ...] = v[..., j, ...]           the last j wins

All index arrays of a node have one shape; its axes stand together in the result, from `place` on.
Negative indices count from the end.  An index outside of its axis makes the kernel raise IndexError when it
runs; indices that are few and whose values are known are checked when recorded, at the user's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Move, Scatter

from ..errors import DTypeError, ShapeError, located
from ..tape import constant, record
from ..tensor import Tensor
from .batching import to_front, up, with_examples
from .conditions import maximum, minimum, where
from .conversion import as_tensor, cast_to
from .creation import iota
from .declare import axis_of, check_known
from .primitive import I64, Ints, OwnPrimitive, broadcast_avals, linear, reduced_shape, spread_to, zero_of, zeros_of
from .shaping import on_axis, reshaped, transposed, zeros_after
from .template import public


def check_indices(name: str, x: Aval, indices: Sequence[Aval], axes: Ints) -> Aval:
    """x; raises IndexError if one of its axes has no element, although indices name some."""
    for axis in axes:
        if not x.shape[axis] and indices[0].size and 0 not in reduced_shape(x.shape, axes):
            raise IndexError(located(f"{name}: no element along axis {axis} of {x}"))
    return x


def _gathered_shape(x: tuple, index: tuple, axes: tuple, place: int) -> Ints:
    rest = reduced_shape(x, axes)
    return (*rest[:place], *index, *rest[place:])


def _in_front(x: np.ndarray, axes: Ints) -> np.ndarray:
    """A view of x with these axes first."""
    return np.moveaxis(x, axes, range(len(axes)))


def _at_place(indices: Sequence[np.ndarray], place: int) -> Ints:
    """The axes of the index arrays, as axes of the result."""
    return tuple(range(place, place + indices[0].ndim))


def _take_reference(x: np.ndarray, *indices: np.ndarray, axes: Ints, place: int) -> np.ndarray:
    found = np.asarray(_in_front(x, axes)[indices])
    return np.moveaxis(found, range(indices[0].ndim), _at_place(indices, place))


def _scatter_add_reference(*inputs: np.ndarray, shape: tuple, axes: tuple, place: int) -> np.ndarray:
    *indices, updates = inputs
    y = np.zeros(shape, updates.dtype)
    np.add.at(_in_front(y, axes), tuple(indices), _in_front(updates, _at_place(indices, place)))
    return y


def _scatter_set_reference(x: np.ndarray, *inputs: np.ndarray, axes: tuple, place: int) -> np.ndarray:
    *indices, v = inputs
    y = x.copy()
    _in_front(y, axes)[tuple(indices)] = _in_front(v, _at_place(indices, place))
    return y


def within(k, position, extent: int):
    """A position in an axis: a negative one counts from the end; one outside fails the check, and reads the edge."""
    position = k.select(k.lt(position, k.index(0)), k.add(position, k.index(extent)), position)
    k.check(k.logical_and(k.ge(position, k.index(0)), k.lt(position, k.index(extent))))
    return k.minimum(k.maximum(position, k.index(0)), k.index(max(extent - 1, 0)))


def _indexed(k, j, indices, shape, axes, place):
    """The index in an array of `shape` of the element that stands at j in the gathered array."""
    rank = len(indices[0].shape)
    rest = iter((*j[:place], *j[place + rank :]))
    at = {a: i(*j[place : place + rank]) for a, i in zip(axes, indices, strict=True)}
    return tuple([
        within(k, k.to_index(at[axis]), extent) if axis in at else next(rest) for axis, extent in enumerate(shape)
    ])


def _with_numbers(size: int, indices: Sequence[Tensor], mapped: Sequence[bool]) -> tuple[Tensor, ...]:
    """The index arrays of all examples, behind one that holds the number of each example."""
    indices = with_examples(size, indices, mapped)
    return (iota(indices[0].shape, 0), *indices)


def _behind(x: Tensor, place: int) -> Tensor:
    """x with the examples moved from axis 0 to the place of the index arrays' axes."""
    return transposed(x, (*range(1, place + 1), 0, *range(place + 1, x.ndim)))


def _take_batch(op, size, xs, mapped, *, axes, place):
    x, *indices = xs
    if not any(mapped[1:]):
        return record(op, xs, (up(axes), place + 1))
    if mapped[0]:
        y = record(op, (x, *_with_numbers(size, indices, mapped[1:])), ((0, *up(axes)), place))
    else:
        y = record(op, (x, *with_examples(size, indices, mapped[1:])), (axes, place))
    return to_front(y, place)


def _scatter_batch(op, size, xs, mapped, *, axes, place, shape=None):
    first, extents = (1, ()) if shape is None else (0, ((size, *shape),))
    *x, v = with_examples(size, (*xs[:first], xs[-1]), (*mapped[:first], mapped[-1]))
    indices, differ = xs[first:-1], mapped[first:-1]
    if not any(differ):
        return record(op, (*x, *indices, v), (*extents, up(axes), place + 1))
    inputs = (*x, *_with_numbers(size, indices, differ), _behind(v, place))
    return record(op, inputs, (*extents, (0, *up(axes)), place))


def _last_to_write(x: Tensor, indices: tuple, shape: tuple, axes: tuple, place: int) -> Tensor:
    """True for each value written, of values of this shape, that no later one overwrites."""
    count = int(np.prod(shape))
    number = reshaped(iota((count,), 0), shape)
    kept = record(_scatter_set, (zeros_of(Aval(x.shape, I64)), *indices, number), (axes, place))
    return record(_take, (kept, *indices), (axes, place)) == number


def _scatter_set_transpose(y_bar, y, x, *inputs, axes, place):
    *indices, v = inputs

    def v_bar():
        found = record(_take, (y_bar, *indices), (axes, place))
        return where(_last_to_write(x, indices, v.shape, axes, place), found, zero_of(v.dtype))

    return (
        lambda: record(_scatter_set, (y_bar, *indices, zeros_of(v.aval)), (axes, place)),
        *[None] * len(indices),
        v_bar,
    )


_take: OwnPrimitive = linear(
    "take",
    _take_reference,
    infer=lambda x, *indices, axes, place: check_indices("take", x, indices, axes).with_shape(
        _gathered_shape(x.shape, indices[0].shape, axes, place)
    ),
    transpose=lambda y_bar, y, x, *indices, axes, place: (
        lambda: record(_scatter_add, (*indices, y_bar), (x.shape, axes, place)), *[None] * len(indices),
    ),
    lower=Move(
        lambda k, j, x, *indices, axes, place: x(*_indexed(k, j, indices, x.shape, axes, place)), free=False
    ),
    batch=_take_batch,
)
_scatter_add: OwnPrimitive = linear(
    "scatter_add",
    _scatter_add_reference,
    infer=lambda *inputs, shape, axes, place: check_indices(
        "scatter_add", inputs[-1].with_shape(shape), inputs[:-1], axes
    ),
    transpose=lambda y_bar, y, *inputs, shape, axes, place: (
        *[None] * (len(inputs) - 1), lambda: record(_take, (y_bar, *inputs[:-1]), (axes, place)),
    ),
    lower=Scatter(lambda k, j, *inputs, shape, axes, place: _indexed(k, j, inputs[:-1], shape, axes, place)),
    in_args=None,
    batch=_scatter_batch,
)
#: x with values written at some places.  An element that is overwritten gets a gradient of exactly zero.
_scatter_set: OwnPrimitive = linear(
    "scatter_set",
    _scatter_set_reference,
    infer=lambda x, *inputs, axes, place: check_indices("scatter_set", x, inputs[:-1], axes),
    transpose=_scatter_set_transpose,
    lower=Scatter(
        lambda k, j, x, *inputs, axes, place: _indexed(k, j, inputs[:-1], x.shape, axes, place), replaces=True
    ),
    in_args=(0, -1),
    jointly=True,
    masks=True,
    batch=_scatter_batch,
)


def index_tensor(value: Any, name: str, extent: int | None = None) -> Tensor:
    """Integers to index with, as an i64 tensor.  Raises IndexError for known ones outside of `extent`, if given."""
    index = as_tensor(value, name, "indices")
    if not index.size and isinstance(value, (list, tuple)):
        index = cast_to(index, I64)  # NumPy makes an array of floats of an empty list
    if index.dtype.kind != "i":
        raise DTypeError(located(
            f"{name}: indices are integers, not {index.aval}", "ad.astype(i, int) cuts fractions off"
        ))
    if extent is not None:
        check_known(index, name=name, extent=extent)
    return cast_to(index, I64)


def _broadcast(name: str, indices: Sequence[Tensor]) -> Sequence[Tensor]:
    if len(indices) == 1:
        return indices
    shape = broadcast_avals(name, [i.aval for i in indices])
    return [spread_to(i, shape) for i in indices]


def gathered(x: Tensor, indices: Sequence[Tensor], axes: Ints, place: int) -> Tensor:
    """The elements of x at `indices`, which are broadcast, along `axes`.  The indices' axes come at `place`."""
    return record(_take, (x, *_broadcast("take", indices)), (axes, place))


def scattered(indices: Sequence[Tensor], updates: Tensor, shape: Ints, axes: Ints, place: int) -> Tensor:
    """Zeros of `shape` to which `updates` are added at `indices`: the transpose of `gathered`."""
    if not updates.size:
        return zeros_after(updates, shape)
    return record(_scatter_add, (*indices, updates), (shape, axes, place))


def broadcast_value(value: Tensor, shape: Ints) -> Tensor:
    """Values assigned to x[...], broadcast to its shape; further leading axes of extent 1 are dropped, as in NumPy."""
    extra = value.ndim - len(shape)
    if extra > 0 and value.shape[:extra] == (1,) * extra:
        value = reshaped(value, value.shape[extra:])
    try:
        return spread_to(value, shape)
    except ShapeError:
        raise ShapeError(located(
            f"x[...] = value: {value.aval} does not broadcast to {value.aval.with_shape(shape)}, which it is for",
            "counted from the last, each extent must be equal or 1",
        )) from None


def summed_at(shape: Ints, indices: Sequence[Tensor], v: Tensor, axes: Ints, place: int) -> Tensor:
    """Zeros of `shape` with v, broadcast, added at `indices`.  Raises ShapeError when v does not broadcast."""
    indices = _broadcast("add_at", indices)
    v = broadcast_value(v, _gathered_shape(shape, indices[0].shape, axes, place))
    return scattered(indices, v, shape, axes, place)


def replaced(x: Tensor, indices: Sequence[Tensor], v: Tensor, axes: Ints, place: int) -> Tensor:
    """x with v, broadcast, at `indices`.  Raises ShapeError when v does not broadcast to the replaced elements."""
    indices = _broadcast("index_update", indices)
    shape = _gathered_shape(x.shape, indices[0].shape, axes, place)
    v = broadcast_value(v, shape)
    return record(_scatter_set, (x, *indices, v), (axes, place)) if v.size else x


def bounds_of_take(x: Tensor, indices: Tensor, axis: Any = None, *, mode: str = "raise") -> Sequence[tuple[int, int]]:
    extent = x.size if axis is None else x.shape[axis_of("take", axis, x.aval)]
    return ((1, extent),) if mode == "raise" else ()


@public(2, _take, bounds_of_take, takes="T")
def take(x, indices, axis=None, *, mode="raise"):
    """Elements, or slices along an axis, by their indices (None: of x flattened).

    x: T[..., n, ...]  indices: i64[k...]  →  T[..., k..., ...]

    mode   "raise": negative indices count from the end, one outside raises IndexError, at once if the indices are
           known, else when the value is computed; "wrap": modulo n; "clip": below 0 the first, above n - 1 the last

    Raises ValueError for another mode, IndexError for indices into an empty axis.

    >>> ad.take([10, 20, 30], [2, -1, 0])
    i64[3] [30 30 10]
    >>> ad.take([10, 20, 30], [3, 7], mode="wrap")
    i64[2] [10 20]
    """
    x, along = on_axis("take", x, axis)
    return gathered(x, [_within(indices, x.shape[along], mode)], (along,), along)


def _within(indices: Any, n: int, mode: str) -> Tensor:
    """Indices into n elements, with those outside treated by one of NumPy's modes."""
    if mode == "raise":
        return index_tensor(indices, "take", n)
    if mode not in ("wrap", "clip"):
        raise ValueError(located(f"take: mode is 'raise', 'wrap' or 'clip', not {mode!r}"))
    index, zero, last = index_tensor(indices, "take"), constant(0, "i64"), constant(max(n - 1, 0), "i64")
    index = index % constant(max(n, 1), "i64") if mode == "wrap" else minimum(maximum(index, zero), last)
    check_known(index, name="take", extent=n)  # for n = 0 any index is outside
    return index
