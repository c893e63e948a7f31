"""NumPy's other ways to put arrays side by side, take them apart and turn them: all are moves, free where they fuse."""

from __future__ import annotations

from typing import Any

from ..custom import Function
from ..errors import ShapeError, located
from ..tape import another, of_its_own
from ..tensor import Tensor
from .arguments import axis_of, check_parts, integer, listed
from .conversion import as_tensor, numbers_of
from .forms import further
from .joining import concatenate, split
from .numpy_parameters import joined_in
from .shaping import flipped, reshaped, swapaxes
from .template import public

__all__ = [
    "append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "column_stack", "dsplit", "dstack", "fliplr",
    "flipud", "hsplit", "hstack", "rot90", "vsplit", "vstack",
]  # fmt: skip


def _each(name: str, tensors: Any, dtype: Any = None, casting: str = "same_kind") -> list[Any]:
    """The arrays to be put together, as a list, in a dtype where one is asked for.  Raises ShapeError for none."""
    found = listed(tensors if dtype is None else joined_in(casting, name, tensors, dtype), name, "arrays")
    if not found:
        raise ShapeError(located(f"{name}: there is nothing to put together"))
    return found


@public()
def atleast_1d(x):
    """x, or a number as a row of one.   T[...]  →  T[n, ...]

    >>> ad.atleast_1d(3.0)
    f64[1] [3.]
    >>> ad.atleast_1d([[1.0]]).shape
    (1, 1)
    """
    x = as_tensor(x, "atleast_1d", "x")
    return of_its_own(x if x.ndim else reshaped(x, (1,)), x)


@public()
def atleast_2d(x):
    """x, or a row as a matrix of one row.   T[...]  →  T[m, n, ...]

    >>> ad.atleast_2d([1.0, 2.0])
    f64[1,2] [[1. 2.]]
    """
    x = as_tensor(x, "atleast_2d", "x")
    return of_its_own(x if x.ndim > 1 else reshaped(x, (1, x.size)), x)


@public()
def atleast_3d(x):
    """x with three axes at least: a row becomes T[1, n, 1], a matrix T[m, n, 1].   T[...]  →  T[l, m, n, ...]

    >>> ad.atleast_3d([1.0, 2.0]).shape
    (1, 2, 1)
    >>> ad.atleast_3d([[1.0, 2.0]]).shape
    (1, 2, 1)
    """
    x = as_tensor(x, "atleast_3d", "x")
    shape = x.shape if x.ndim > 2 else (*x.shape, 1) if x.ndim == 2 else (1, x.size, 1)
    return of_its_own(reshaped(x, shape), x)


@public()
def vstack(tensors, *, dtype=None, casting="same_kind"):
    """Rows, or blocks of rows, on top of each other.   [T[n] or T[m, n, ...], ...]  →  T[m1 + m2 + ..., n, ...]

    Raises ShapeError when the other extents differ, and for no arrays at all.

    dtype, casting   as of `concatenate`

    >>> ad.vstack([[1, 2], [[3, 4], [5, 6]]])
    i64[3,2]
    [[1 2]
     [3 4]
     [5 6]]
    """
    return concatenate([atleast_2d(x) for x in _each("vstack", tensors, dtype, casting)], 0)


@public()
def hstack(tensors, *, dtype=None, casting="same_kind"):
    """Matrices side by side, rows one behind the other.   [T[m, n, ...], ...]  →  T[m, n1 + n2 + ..., ...]

    Raises ShapeError when the other extents differ, and for no arrays at all.

    dtype, casting   as of `concatenate`

    >>> ad.hstack([[1, 2], [3]])
    i64[3] [1 2 3]
    >>> ad.hstack([[[1], [2]], [[3], [4]]]).shape
    (2, 2)
    """
    rows = [atleast_1d(x) for x in _each("hstack", tensors, dtype, casting)]
    return concatenate(rows, 0 if all([x.ndim == 1 for x in rows]) else 1)


@public()
def dstack(tensors):
    """Arrays behind each other, along the third axis.   [T[m, n, ...], ...]  →  T[m, n, k1 + k2 + ..., ...]

    Raises ShapeError when the other extents differ, and for no arrays at all.

    >>> ad.dstack([[1, 2], [3, 4]]).shape
    (1, 2, 2)
    """
    return concatenate([atleast_3d(x) for x in _each("dstack", tensors)], 2)


@public()
def column_stack(tensors):
    """Rows as the columns of a matrix, matrices as they are.   [T[m] or T[m, n], ...]  →  T[m, n1 + n2 + ...]

    Raises ShapeError when the other extents differ, and for no arrays at all.

    >>> ad.column_stack([[1, 2], [3, 4]])
    i64[2,2]
    [[1 3]
     [2 4]]
    """
    columns = [as_tensor(x, "column_stack", "tensors") for x in _each("column_stack", tensors)]
    return concatenate([x if x.ndim > 1 else reshaped(x, (x.size, 1)) for x in columns], 1)


@public()
def array_split(x, indices_or_sections, axis=0) -> list[Tensor]:
    """`split` into parts that need not be equal: the first ones are longer by one.

    x: T[..., n, ...]  →  [T[..., n1, ...], ...]

    Raises ShapeError when x has no such axis, and for less than one part.

    >>> ad.array_split([1, 2, 3, 4, 5], 2)
    [i64[3] [1 2 3], i64[2] [4 5]]
    """
    x, indices_or_sections = as_tensor(x, "array_split", "x"), numbers_of(indices_or_sections)
    if isinstance(indices_or_sections, (tuple, list)):
        return split(x, indices_or_sections, axis)
    parts = integer(indices_or_sections, "array_split", "the number of parts")
    if parts < 1:
        raise ShapeError(located(f"array_split: {parts} parts"))
    check_parts("array_split", parts)
    size, longer = divmod(x.shape[axis_of("array_split", axis, x.aval)], parts)
    return split(x, [size * k + min(k, longer) for k in range(1, parts)], axis)


def _split_along(name: str, x: Any, sections: Any, axis: int, least: int) -> list[Tensor]:
    """`split` of what has so many axes at least."""
    x = as_tensor(x, name, "x")
    if x.ndim < least:
        raise ShapeError(located(f"{name}: {x.aval} has fewer than {least} axes"))
    found: list[Tensor] = split(x, sections, axis)
    return found


@public()
def hsplit(x, indices_or_sections) -> list[Tensor]:
    """`split` along the second axis; of a row along its only one.   T[m, n, ...]  →  [T[m, n1, ...], ...]

    Raises ShapeError for a 0-d x, and when the extent is no multiple of the number of parts.

    >>> [part.tolist() for part in ad.hsplit([[1, 2], [3, 4]], 2)]
    [[[1], [3]], [[2], [4]]]
    """
    x = as_tensor(x, "hsplit", "x")
    return _split_along("hsplit", x, indices_or_sections, 0 if x.ndim == 1 else 1, least=1)


@public()
def vsplit(x, indices_or_sections) -> list[Tensor]:
    """`split` along the first axis of a matrix, or more.   T[m, n, ...]  →  [T[m1, n, ...], ...]

    Raises ShapeError for less than two axes, and when the extent is no multiple of the number of parts.

    >>> ad.vsplit([[1, 2], [3, 4]], 2)
    [i64[1,2] [[1 2]], i64[1,2] [[3 4]]]
    """
    return _split_along("vsplit", x, indices_or_sections, 0, least=2)


@public()
def dsplit(x, indices_or_sections) -> list[Tensor]:
    """`split` along the third axis.   T[l, m, n, ...]  →  [T[l, m, n1, ...], ...]

    >>> [part.shape for part in ad.dsplit(ad.ones((2, 2, 6)), 3)]
    [(2, 2, 2), (2, 2, 2), (2, 2, 2)]
    """
    return _split_along("dsplit", x, indices_or_sections, 2, least=3)


@public()
def append(x, values, axis=None):
    """x with `values` behind it along an axis; axis None: both flattened.

    T[..., m, ...], T[..., n, ...]  →  T[..., m + n, ...]

    >>> ad.append([[1, 2]], 3)
    i64[3] [1 2 3]
    """
    x, values = as_tensor(x, "append", "x"), as_tensor(values, "append", "values")
    if axis is None:
        x, values, axis = reshaped(x, (x.size,)), reshaped(values, (values.size,)), 0
    return concatenate((x, values), axis_of("append", axis, x.aval))


def _of_several(one: Function) -> None:
    """Let a function of one array take several, and give a tuple."""
    @further(one)
    def several(*tensors):
        return tuple(map(one, tensors))


for _function in (atleast_1d, atleast_2d, atleast_3d):
    _of_several(_function)


# ---------------------------------------------------------------- turning


@public()
def rot90(x, k=1, axes=(0, 1)):
    """x turned by k right angles in the plane of two axes, first towards second.   T[m, n, ...]  →  T[n, m, ...]

    Raises ShapeError when x has no such two axes.

    >>> ad.rot90([[1, 2], [3, 4]])
    i64[2,2]
    [[2 4]
     [1 3]]
    """
    x = as_tensor(x, "rot90", "x")
    plane = [axis_of("rot90", a, x.aval) for a in listed(axes, "rot90", "two axes")]
    if len({*plane}) != 2 or len(plane) != 2:
        raise ShapeError(located(f"rot90: turns in the plane of two axes, not {axes!r:.40}"))
    first, second = plane
    turns = integer(k, "rot90", "k") % 4
    if turns == 2:
        return flipped(x, tuple(sorted((first, second))))
    if turns == 1:
        return swapaxes(flipped(x, (second,)), first, second)
    return flipped(swapaxes(x, first, second), (second,)) if turns else another(x)


@public()
def flipud(x):
    """x with its rows in reverse order.   T[m, ...]  →  T[m, ...]

    Raises ShapeError for a 0-d x.

    >>> ad.flipud([[1, 2], [3, 4]])
    i64[2,2]
    [[3 4]
     [1 2]]
    """
    x = as_tensor(x, "flipud", "x")
    return flipped(x, (axis_of("flipud", 0, x.aval),))


@public()
def fliplr(x):
    """x with its columns in reverse order.   T[m, n, ...]  →  T[m, n, ...]

    Raises ShapeError for less than two axes.

    >>> ad.fliplr([[1, 2], [3, 4]])
    i64[2,2]
    [[2 1]
     [4 3]]
    """
    x = as_tensor(x, "fliplr", "x")
    return flipped(x, (axis_of("fliplr", 1, x.aval),))
