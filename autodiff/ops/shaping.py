"""Moves: operations that give the elements of a tensor another order or shape; the compiler only changes indices.

The operations are reshape, transpose, broadcast_to and flip; the other functions here call them.  Each is linear,
and its transpose returns the cotangent of an element to the place from which the element came.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Move

from ..errors import ShapeError, located
from ..tape import record
from ..tensor import Tensor
from .arrays import with_loop
from .batching import up
from .declare import as_sequence, axes_in_order, axes_of, axis_of, elements_of, shape_of
from .primitive import Ints, linear, reduced_shape, spread_to, sum_to, zero_of
from .template import public


def _reshape_aval(x: Aval, *, shape: Ints) -> Aval:
    if math.prod(shape) != x.size or any(n < 0 for n in shape):
        raise ShapeError(located(
            f"reshape: {x} has {x.size} elements, the shape {shape} has {math.prod(shape)}",
            "one extent may be -1: it is worked out from the others",
        ))
    return x.with_shape(shape)


def _reshape_element(k, index, x, *, shape):
    flat = k.index(0)
    for i, extent in zip(index, shape, strict=True):
        flat = k.add(k.mul(flat, k.index(extent)), i)
    found = []
    for extent in reversed(x.shape[1:]):
        size = k.index(max(extent, 1))  # an empty array is never read
        found.append(k.mod(flat, size))
        flat = k.floordiv(flat, size)
    if x.shape:
        found.append(flat)
    return x(*reversed(found))


_reshape = linear(
    "reshape",
    with_loop("copy", 1)(lambda x, *, shape: x.reshape(shape)),
    infer=_reshape_aval,
    transpose=lambda y_bar, y, x, *, shape: (reshaped(y_bar, x.shape),),
    lower=Move(_reshape_element, free=False, is_reshape=True),
)


def reshaped(x: Tensor, shape: Ints) -> Tensor:
    """x in a shape of as many elements; no node is recorded if x has this shape."""
    return x if x.shape == shape else record(_reshape, (x,), (shape,))


def on_axis(function: str, x: Tensor, axis: Any) -> tuple[Tensor, int]:
    """(x, the axis counted from the front); for an axis of None (x flattened, 0)."""
    return (reshaped(x, (x.size,)), 0) if axis is None else (x, axis_of(function, axis, x.aval))


@public(1, _reshape, takes="T")
def reshape(x, shape):
    """x in another shape of as many elements, in row-major order.

    x: T[...]  →  T[shape]     one extent may be -1: it is computed from the others

    order     "F": column-major, the first axis varies fastest; `copy` has no effect on a value
    Raises ShapeError when the numbers of elements differ.

    >>> ad.reshape(ad.arange(6), (2, -1))
    i64[2,3]
    [[0 1 2]
     [3 4 5]]
    """
    wanted = shape_of("reshape", shape)
    if -1 in wanted:
        wanted = _completed(x.aval, wanted)
    return reshaped(x, wanted)


def _completed(x: Aval, shape: Ints) -> Ints:
    known = math.prod(n for n in shape if n != -1)
    if shape.count(-1) > 1 or known <= 0 or x.size % known:
        raise ShapeError(located(
            f"reshape: {x} does not fit the shape {shape}", f"one extent may be -1, and the others must divide {x.size}"
        ))
    return tuple([x.size // known if n == -1 else n for n in shape])


@public(1, takes="T")
def ravel(x):
    """x in one dimension, in row-major order (order="F": column-major).   T[...]  →  T[n]

    >>> ad.ravel([[1, 2], [3, 4]])
    i64[4] [1 2 3 4]
    """
    return reshaped(x, (x.size,))


@public(1, takes="T")
def expand_dims(x, axis):
    """x with new axes of extent 1 at these positions of the result.

    x: T[...]  →  T[..., 1, ...]

    Raises ShapeError for a position that the result does not have, or one named twice.

    >>> ad.expand_dims(ad.ones((2, 3)), (0, -1)).shape
    (1, 2, 3, 1)
    """
    ndim = x.ndim + len(as_sequence(axis))
    axes = (axis_of("expand_dims", axis, x.aval, ndim),) if axis is None else axes_of("expand_dims", axis, x.aval, ndim)
    rest = iter(x.shape)
    return reshaped(x, tuple([1 if i in axes else next(rest) for i in range(ndim)]))


@public(1, takes="T")
def squeeze(x, axis=None):
    """x without axes of extent 1: those named, or all of them.

    x: T[..., 1, ...]  →  T[..., ...]

    Raises ShapeError when a named axis has another extent.

    >>> ad.squeeze(ad.ones((1, 2, 1))).shape
    (2,)
    >>> ad.squeeze(ad.ones((1, 2, 1)), axis=0).shape
    (2, 1)
    """
    axes = tuple([i for i, n in enumerate(x.shape) if n == 1]) if axis is None else axes_of("squeeze", axis, x.aval)
    for i in axes:
        if x.shape[i] != 1:
            raise ShapeError(located(f"squeeze: axis {i} of {x.aval} has extent {x.shape[i]}, not 1"))
    return reshaped(x, reduced_shape(x.shape, axes))


def _transpose_aval(x: Aval, *, axes: Ints) -> Aval:
    if sorted(axes) != list(range(x.ndim)):
        raise ShapeError(located(
            f"transpose: {axes} does not order the {x.ndim} axes of {x}",
            "name every axis once, or leave `axes` out to reverse them",
        ))
    return x.with_shape(tuple([x.shape[a] for a in axes]))


def _inverse(axes: Ints) -> Ints:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


_transpose = linear(
    "transpose",
    lambda x, *, axes: x.transpose(axes),
    infer=_transpose_aval,
    transpose=lambda y_bar, y, x, *, axes: (transposed(y_bar, _inverse(axes)),),
    lower=Move(lambda k, index, x, *, axes: x(*[index[i] for i in _inverse(axes)])),
    batch=lambda op, size, xs, mapped, *, axes: record(op, xs, ((0, *up(axes)),)),
)


def transposed(x: Tensor, axes: Ints) -> Tensor:
    """x with axis `axes[i]` moved to position i; no node is recorded if the order stays."""
    return x if axes == tuple(range(len(axes))) else record(_transpose, (x,), (axes,))


def flipped_axes(x: Tensor) -> Tensor:
    """x with each matrix transposed: the last two axes exchanged."""
    return transposed(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def rows_along(x: Tensor, axes: Ints) -> Tensor:
    """x with these axes flattened into one, the last; the other axes keep their order in front of it."""
    rest = tuple([i for i in range(x.ndim) if i not in axes])
    shape = (*[x.shape[i] for i in rest], math.prod([x.shape[i] for i in axes]))
    return reshaped(transposed(x, rest + axes), shape)


@public(1, _transpose, takes="T")
def transpose(x, axes=None):
    """x with its axes in another order: axis `axes[i]` becomes axis i; None reverses them.

    x: T[n, m, ...]  →  T[..., m, n]

    Raises ShapeError unless every axis is named once.

    >>> ad.transpose(ad.ones((2, 3, 4))).shape
    (4, 3, 2)
    >>> ad.transpose(ad.ones((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    if axes is None:
        return transposed(x, tuple(reversed(range(x.ndim))))
    order = tuple(axes_in_order("transpose", elements_of(axes, "transpose", "axes"), x.aval))
    if len(order) != x.ndim or len(set(order)) != x.ndim:
        _transpose_aval(x.aval, axes=order)
    return transposed(x, order)


@public(1, takes="T")
def swapaxes(x, axis1, axis2):
    """x with two axes exchanged.   T[..., n, ..., m, ...]  →  T[..., m, ..., n, ...]

    Raises ShapeError when x has no such axis.

    >>> ad.swapaxes(ad.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    order = list(range(x.ndim))
    i, j = axis_of("swapaxes", axis1, x.aval), axis_of("swapaxes", axis2, x.aval)
    order[i], order[j] = j, i
    return transposed(x, tuple(order))


@public(1, takes="T")
def moveaxis(x, source, destination):
    """x with the axes `source` moved to `destination`; the others keep their order.

    x: T[...]  →  T[...]

    Raises ShapeError when the two name different numbers of axes, an axis twice, or an axis that x does not have.

    >>> ad.moveaxis(ad.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    sources, places = (axes_in_order("moveaxis", axes, x.aval) for axes in (source, destination))
    if len(sources) != len(places) or len(set(sources)) < len(sources) or len(set(places)) < len(places):
        raise ShapeError(located(f"moveaxis: {source} and {destination} must name as many axes of {x.aval}, each once"))
    order = [i for i in range(x.ndim) if i not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return transposed(x, tuple(order))


@public(1, takes="T")
def matrix_transpose(x):
    """x with its last two axes exchanged: the transpose of each matrix.   T[..., n, m]  →  T[..., m, n]

    Raises ShapeError for less than two dimensions.

    >>> ad.matrix_transpose(ad.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    if x.ndim < 2:
        raise ShapeError(located(
            f"matrix_transpose: {x.aval} holds no matrix", "a vector is made a column by v[:, None]"
        ))
    return flipped_axes(x)


def _broadcast_aval(x: Aval, *, shape: Ints) -> Aval:
    extra = len(shape) - x.ndim
    if extra < 0 or any(n not in (1, shape[extra + i]) for i, n in enumerate(x.shape)) or any(n < 0 for n in shape):
        raise ShapeError(located(
            f"broadcast_to: {x} does not broadcast to {x.with_shape(shape)}",
            "counted from the last, each extent must be equal or 1",
        ))
    return x.with_shape(shape)


def _broadcast_element(k, index, x, *, shape):
    extra = len(shape) - len(x.shape)
    return x(*[k.index(0) if n == 1 else i for i, n in zip(index[extra:], x.shape, strict=True)])


def _broadcast_batch(op, size, xs, mapped, *, shape):
    (x,) = xs
    aligned = reshaped(x, (size, *(1,) * (len(shape) + 1 - x.ndim), *x.shape[1:]))
    return spread_to(aligned, (size, *shape))


_broadcast_to = linear(
    "broadcast_to",
    with_loop("copy", 1)(lambda x, *, shape: np.broadcast_to(x, shape)),
    infer=_broadcast_aval,
    transpose=lambda y_bar, y, x, *, shape: (sum_to(y_bar, x.shape),),
    lower=Move(_broadcast_element),
    batch=_broadcast_batch,
)


@public(1, _broadcast_to, takes="T")
def broadcast_to(x, shape):
    """x repeated along new leading axes and axes of extent 1.

    x: T[...]  →  T[shape]

    Raises ShapeError when NumPy's rules do not broadcast x to this shape.

    >>> ad.grad(lambda x: ad.sum(ad.broadcast_to(x, (4, 2))))(ad.ones(2))
    f64[2] [4. 4.]
    """
    return spread_to(x, shape_of("broadcast_to", shape))


def keepdims_shape(shape: Ints, axes: Ints) -> Ints:
    """A shape with these axes set to extent 1: the shape of a reduction with `keepdims`."""
    return tuple([1 if i in axes else n for i, n in enumerate(shape)])


def zeros_after(x: Tensor, shape: Ints) -> Tensor:
    """Zeros of a shape and of x's dtype; floats keep the history of x, which has no elements."""
    return spread_to(sum_to(x, ()) if x.dtype.kind in "fc" else zero_of(x.dtype), shape)


def spread(y: Tensor, axes: Ints, shape: Ints) -> Tensor:
    """y repeated along the axes that a reduction dropped from `shape`: the transpose of the sum."""
    ones = keepdims_shape(shape, axes)
    # Broadcasting itself adds leading axes: no reshape is needed for them.
    is_there = y.node.kind.out.shape == ones or (axes == tuple(range(len(axes))) and ones != shape)
    y = y if is_there else record(_reshape, (y,), (ones,))
    return y if ones == shape else record(_broadcast_to, (y,), (shape,))


_flip = linear(
    "flip",
    lambda x, *, axes: np.flip(x, axes),
    infer=lambda x, *, axes: x,
    transpose=lambda y_bar, y, x, *, axes: (flipped(y_bar, axes),),
    lower=Move(lambda k, index, x, *, axes: (
        x(*[k.sub(k.index(x.shape[a] - 1), i) if a in axes else i for a, i in enumerate(index)])
    )),
)


def flipped(x: Tensor, axes: Ints) -> Tensor:
    """x in reverse order along these axes (sorted); no node is recorded if there are none."""
    return record(_flip, (x,), (axes,)) if axes else x


@public(1, _flip, takes="T")
def flip(x, axis=None):
    """x in reverse order along an axis, several, or (None) all of them.   T[...]  →  T[...]

    Raises ShapeError when x has no such axis.

    >>> ad.flip([[1, 2], [3, 4]])
    i64[2,2]
    [[4 3]
     [2 1]]
    >>> ad.flip([[1, 2], [3, 4]], axis=1)
    i64[2,2]
    [[2 1]
     [4 3]]
    """
    return flipped(x, axes_of("flip", axis, x.aval))
