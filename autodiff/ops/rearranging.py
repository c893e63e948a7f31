"""roll, and functions composed of other moves: tile, repeat, diff, unstack, meshgrid.

    rotate    y[i] = x[(i - by) mod n]     along one axis; `by` is an input, so one graph serves every shift
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Move

from ..errors import ShapeError, located
from ..tape import place_leaf, record
from ..tensor import Tensor
from .conversion import as_tensor, numbers_of
from .declare import allocated, as_count, as_sequence, axes_in_order, axis_of, check_parts, in_common_dtype, integer
from .gathering import gathered, index_tensor
from .joining import joined
from .primitive import Ints, OwnPrimitive, linear, spread_to
from .shaping import moveaxis, on_axis, reshaped
from .slicing import part
from .template import public

_COPIES = "a number of copies"


@public(1, takes="T")
def roll(x, shift, axis=None):
    """x with its elements moved along an axis; elements that leave at one end enter at the other.

    x: T[..., n, ...]  →  T[..., n, ...]     axis None: x flattened; several axes: a shift for each, or one for all

    Several shifts of one axis, or of x flattened, add up.
    Raises ShapeError when x has no such axis, or shifts and axes differ in number.

    >>> ad.roll([1, 2, 3], 1)
    i64[3] [3 1 2]
    >>> ad.roll([[1, 2], [3, 4]], 1, axis=0)
    i64[2,2]
    [[3 4]
     [1 2]]
    """
    shift, axis = numbers_of(shift), numbers_of(axis)
    shifts = [integer(by, "roll", "a shift") for by in as_sequence(shift)]
    if axis is None:
        return reshaped(_rolled(reshaped(x, (x.size,)), sum(shifts), 0), x.shape)
    axes = axes_in_order("roll", axis, x.aval)
    if len(axes) == 1:
        shifts = [sum(shifts)]
    elif len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(located(f"roll: {len(shifts)} shifts for {len(axes)} axes of {x.aval}"))
    y = x
    for by, along in zip(shifts, axes, strict=True):
        y = _rolled(y, by, along)
    return y


def _rotate_element(k, index, x, by, *, axis):
    n = x.shape[axis]
    place = k.sub(index[axis], k.to_index(by(), -n, n))
    before, behind = k.lt(place, k.index(0)), k.ge(place, k.index(n))
    place = k.select(before, k.add(place, k.index(n)), k.select(behind, k.sub(place, k.index(n)), place))
    return x(*index[:axis], place, *index[axis + 1 :])


#: x with its elements moved along an axis by `by`, from -n to n.
_rotate: OwnPrimitive = linear(
    "rotate",
    lambda x, by, *, axis: np.roll(x, int(by), axis),
    infer=lambda x, by, *, axis: x,
    transpose=lambda y_bar, y, x, by, *, axis: (lambda: record(_rotate, (y_bar, -by), (axis,)), None),
    lower=Move(_rotate_element, free=False),
    batch=lambda op, size, xs, mapped, *, axis: record(op, xs, (axis + 1,)),  # one shift for all
)


def _rolled(x: Tensor, shift: int, axis: int) -> Tensor:
    """x with its elements moved along one axis.  The shift is a run-time input: a new shift needs no compilation."""
    n = x.shape[axis]
    if not x.size:
        return x
    by = shift % n
    return record(_rotate, (x, place_leaf(by if 2 * by <= n else by - n)), (axis,))


@public(1, takes="T")
def tile(x, repetitions):
    """Copies of x side by side; `repetitions` says how many along each axis.

    x: T[n...]  →  T[r·n...]     the shorter of x.shape and `repetitions` is filled with ones on the left

    Raises ShapeError for a negative number.

    >>> ad.tile([1, 2], 2)
    i64[4] [1 2 1 2]
    >>> ad.tile([1, 2], (2, 1)).shape
    (2, 2)
    """
    times = [as_count(r, "tile", _COPIES) for r in as_sequence(numbers_of(repetitions))]
    rank = max(len(times), x.ndim)
    times = [1] * (rank - len(times)) + times
    shape = (1,) * (rank - x.ndim) + x.shape
    spaced = reshaped(x, tuple([m for n in shape for m in (1, n)]))
    wide = spread_to(spaced, tuple([m for r, n in zip(times, shape, strict=True) for m in (r, n)]))
    return reshaped(wide, tuple([r * n for r, n in zip(times, shape, strict=True)]))


@public(1, takes="T")
def repeat(x, repeats, axis=None):
    """Each element along an axis repeated several times; axis None: of x flattened.

    x: T[..., n, ...]  →  T[..., r·n, ...]     `repeats` is one number for all, or a list or array of one for each

    Raises ShapeError when x has no such axis, for a negative number, or for more or fewer numbers than elements.

    >>> ad.repeat([1, 2], 2)
    i64[4] [1 1 2 2]
    >>> ad.repeat([1, 2], [0, 3])
    i64[3] [2 2 2]
    """
    repeats, (x, along) = numbers_of(repeats), on_axis("repeat", x, axis)
    if isinstance(repeats, (tuple, list)):
        counts = [as_count(r, "repeat", _COPIES) for r in repeats]
        if len(counts) not in (1, x.shape[along]):
            raise ShapeError(located(f"repeat: {len(counts)} numbers for axis {along} of {x.aval}"))
        if len(counts) != 1:
            Aval((total := sum(counts),), np.int64)  # raises where NumPy would let the sum wrap and write out of bounds
            indices = allocated("repeat", total, lambda: np.repeat(np.arange(len(counts)), np.array(counts, np.int64)))
            return gathered(x, [index_tensor(indices, "repeat", len(counts))], (along,), along)
        (repeats,) = counts
    times = as_count(repeats, "repeat", _COPIES)
    before, n, after = x.shape[:along], x.shape[along], x.shape[along + 1 :]
    wide = spread_to(reshaped(x, (*before, n, 1, *after)), (*before, n, times, *after))
    return reshaped(wide, (*before, n * times, *after))


@public(1, takes="T")
def diff(x, n=1, axis=-1, prepend=None, append=None):
    """Differences of neighbours along an axis, taken n times; for bool, True if the neighbours differ.

    x: T[..., m, ...]  →  T[..., m - n, ...]     no element is left if m <= n

    prepend, append   arrays put before and after x along the axis, with x's shape but for that extent; or numbers,
                      which are one element each

    Raises ShapeError when x has no such axis, n is negative, or `prepend` or `append` does not fit x.

    >>> ad.diff([1.0, 4.0, 9.0], prepend=0.0)
    f64[3] [1. 3. 5.]
    """
    along = axis_of("diff", axis, x.aval)
    times = as_count(n, "diff", "a number of times")
    y = x if not times or (prepend is None and append is None) else _lengthened(x, along, prepend, append)
    for _ in range(min(times, y.shape[along])):
        m = y.shape[along]
        above, below = part(y, along, min(1, m), m), part(y, along, 0, max(m - 1, 0))
        y = above ^ below if y.dtype.kind == "b" else above - below
    return y


def _lengthened(x: Tensor, along: int, prepend: Any, append: Any) -> Tensor:
    """x joined along an axis with the arrays or numbers before and after it."""
    given = [(name, y) for name, y in (("prepend", prepend), ("x", x), ("append", append)) if y is not None]
    parts = in_common_dtype("diff", given, "fcib")
    before, behind = x.shape[:along], x.shape[along + 1 :]
    for (name, _), y in zip(given, parts, strict=True):
        if y.ndim and (y.ndim != x.ndim or (y.shape[:along], y.shape[along + 1 :]) != (before, behind)):
            raise ShapeError(located(
                f"diff: {name} of {y.aval} does not fit {x.aval} along axis {along}",
                "it is a number, or an array as x but for its extent along that axis",
            ))
    return joined([y if y.ndim else spread_to(y, (*before, 1, *behind)) for y in parts], along)


@public(1, takes="T")
def unstack(x, *, axis=0) -> tuple[Tensor, ...]:
    """A tuple of the slices of x along an axis, without that axis.   T[..., n, ...]  →  n of T[..., ...]

    Raises ShapeError when x has no such axis.

    >>> ad.unstack([[1, 2], [3, 4]], axis=1)
    (i64[2] [1 3], i64[2] [2 4])
    """
    along = axis_of("unstack", axis, x.aval)
    check_parts("unstack", x.shape[along])
    return tuple(moveaxis(x, along, 0))


@public()
def meshgrid(*arrays, indexing="xy") -> tuple[Tensor, ...]:
    """The coordinates of all points of a grid, given its coordinates along each axis.

    T[n], U[m], ...  →  T[m, n, ...], U[m, n, ...], ...     with indexing="ij": [n, m, ...]

    Raises ShapeError for an array that is no vector, ValueError for an unknown `indexing`.

    sparse    True: each result keeps its own axis, and the other axes have extent 1; `copy` has no effect

    >>> ad.meshgrid([1, 2], [10, 20, 30])[1]
    i64[3,2]
    [[10 10]
     [20 20]
     [30 30]]
    """
    rows, shape = open_grid(arrays, indexing)
    return tuple([spread_to(x, shape) for x in rows])


def open_grid(arrays: Sequence[Any], indexing: str) -> tuple[tuple[Tensor, ...], Ints]:
    """(the coordinates along each axis, with all other axes of extent 1; the shape of the grid)."""
    if indexing not in ("xy", "ij"):
        raise ValueError(located(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}"))
    xs = [as_tensor(x, "meshgrid", "arrays") for x in arrays]
    for x in xs:
        if x.ndim > 1:
            raise ShapeError(located(f"meshgrid: takes vectors, not {x.aval}"))
    order = list(range(len(xs)))
    if indexing == "xy":
        order[:2] = order[1::-1]
    rows = [reshaped(x, tuple([x.size if i == axis else 1 for axis in order])) for i, x in enumerate(xs)]
    return tuple(rows), tuple([xs[i].size for i in order])
