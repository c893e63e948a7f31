"""`pad`: a tensor with a border of one value, of its own elements (edge, mirrored, wrapped), or of a mean or extreme.

NumPy's `pad`, applied to indices, says which elements of x form a border: rising or falling indices are a slice, one
repeated index is broadcast, others are gathered.  So the gradient of a border is added to the elements it came from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from codegen.lazily import imported

from ..errors import ShapeError, located
from ..tape import constant, number_leaf
from ..tensor import Tensor
from .conversion import WEAK, as_tensor, cast_beside, cast_to, numbers_of
from .creation import linspace
from .declare import allocated, integer
from .elementwise import floor, rint
from .extremes import max_, min_
from .forms import further
from .gathering import gathered, index_tensor
from .joining import concatenate
from .primitive import spread_to, with_extent
from .reductions import summed
from .shaping import flipped, moveaxis, reshaped, spread
from .slicing import embedded, part, updated_slice
from .statistics import mean
from .template import public


@public(1, takes="T")
def pad(x, pad_width, mode="constant", *, constant_values=0):
    """x with `constant_values` around it, or with a border of its own elements.

    x: T[n, ...]  →  T[before + n + after, ...]

    pad_width   one number, one pair (before, after), or a pair for each axis
    mode        NumPy's: "constant", "edge", "reflect", "symmetric", "wrap", "maximum", "mean", "median", "minimum",
                "linear_ramp", "empty" (zeros)
    constant_values   one number or 0-d tensor, to which gradients flow as well; or values by side, as `pad_width`
    stat_length, end_values, reflect_type   for the modes that take them, as in NumPy

    Raises ShapeError for widths that do not fit x or are negative, ValueError for an unknown mode.

    >>> ad.pad([1.0, 2.0], (1, 2))
    f64[5] [0. 1. 2. 0. 0.]
    >>> ad.pad([1, 2, 3], 2, mode="reflect")
    i64[7] [3 2 1 2 3 2 1]
    """
    if mode != "constant":
        if mode not in MODES:
            raise ValueError(located(f"pad: mode {mode!r} is none of {', '.join(map(repr, MODES))}"))
        if type(constant_values) is not int or constant_values != 0:
            raise ValueError(located(f"pad: mode {mode!r} has no constant_values"))
        return bordered(x, _widths(x, pad_width), mode)
    value = constant_values
    if isinstance(value, (list, tuple)):
        return further_pad(x, pad_width, mode, constant_values=value)
    is_zero = type(value) is int and value == 0
    value = number_leaf(value, x.dtype) if type(value) in WEAK else cast_beside(as_tensor(value, "pad"), x.dtype)
    if value.shape:
        return further_pad(x, pad_width, mode, constant_values=value)
    widths = _widths(x, pad_width)
    axes = tuple([axis for axis, pair in enumerate(widths) if pair != (0, 0)])
    if not axes:
        return x
    starts, steps = [constant(widths[axis][0], "i64") for axis in axes], (1,) * len(axes)
    shape = tuple([n + sum(pair) for n, pair in zip(x.shape, widths, strict=True)])
    if not x.size and x.dtype.kind in "fc":  # no element to place: subtract an empty sum, which keeps the history of x
        return spread_to(value, shape) - summed(x, tuple(range(x.ndim)))
    if is_zero:
        return embedded(x, starts, axes, steps, shape)
    return updated_slice(spread_to(value, shape), x, starts, axes, steps)


def _widths(x: Tensor, pad_width: Any) -> tuple[tuple[int, int], ...]:
    """A pair (before, after) for each axis, from any of NumPy's forms."""
    pad_width = numbers_of(pad_width)
    try:
        pairs = np.broadcast_to(np.asarray(pad_width, object), (x.ndim, 2))  # integers of any size
    except ValueError:
        raise ShapeError(located(
            f"pad: widths {pad_width!r} do not fit {x.aval}", "one pair (before, after) for each axis, or one for all"
        )) from None
    widths = tuple([(integer(before, "pad", "a width"), integer(after, "pad", "a width")) for before, after in pairs])
    if any([n < 0 for pair in widths for n in pair]):
        raise ShapeError(located(
            f"pad: widths {widths} do not fit {x.aval}",
            "one pair (before, after) of non-negative numbers for each axis, or one for all",
        ))
    return widths


#: The additional parameter that each mode of `pad` takes.
_OF_MODE = {
    "constant": "constant_values", "linear_ramp": "end_values", "reflect": "reflect_type", "symmetric": "reflect_type",
    **dict.fromkeys(("maximum", "mean", "median", "minimum"), "stat_length"),
}  # fmt: skip


@further(pad)
def further_pad(
    x, pad_width, mode="constant", *, constant_values=None, stat_length=None, end_values=None, reflect_type=None
):
    """`pad` with the parameters that only some modes take."""
    given = {"constant_values": constant_values, "stat_length": stat_length, "end_values": end_values,
             "reflect_type": reflect_type}  # fmt: skip
    for name, value in given.items():
        if value is not None and name != _OF_MODE.get(mode):
            raise ValueError(located(f"pad: mode {mode!r} has no {name}"))
    if reflect_type not in (None, "even", "odd"):
        raise ValueError(located(f"pad: reflect_type is 'even' or 'odd', not {reflect_type!r}"))
    values = next((v for name, v in given.items() if v is not None and name != "reflect_type"), None)
    if values is None and reflect_type != "odd":
        return pad(x, pad_width, mode)
    x = as_tensor(x, "pad", "x")
    sides = None if values is None else _sides(x, values)
    if stat_length is not None and any([n < 1 for pair in sides or () for n in pair]):
        raise ValueError(located(f"pad: stat_length is at least 1, not {stat_length!r}"))
    return bordered(x, _widths(x, pad_width), mode, sides or (), is_odd=reflect_type == "odd")


def _sides(x: Tensor, values: Any) -> list[tuple[Any, Any]]:
    """A pair of values for each axis, from any of NumPy's forms; the values of a tensor are its elements."""
    if isinstance(values, (list, tuple)):
        values = [[*v] if isinstance(v, (list, tuple)) else v for v in values]
    given = values if isinstance(values, (Tensor, np.ndarray)) else np.array(values, object)
    rank = given.ndim
    if rank > 2 or given.shape not in ((), (1,), (2,), (1, 2), (x.ndim, 1), (x.ndim, 2), (1, 1)):
        raise ShapeError(located(f"pad: {values!r} are not one value, a pair, or a pair for each axis"))
    places = np.broadcast_to(np.arange(math.prod(given.shape)).reshape(given.shape), (x.ndim, 2))
    flat = given.reshape(-1)
    return [(flat[int(before)], flat[int(after)]) for before, after in places]


#: A pair (before, after) for each axis, each a number, a tensor or None.
Sides = Sequence[tuple[Any, Any]]

#: NumPy's modes whose border consists of elements of x; and those whose border has one value per line along the axis.
_COPIED = ("edge", "reflect", "symmetric", "wrap")
_SUMMARISED: dict[str, Callable] = {
    "maximum": max_, "mean": mean, "median": lambda x, axis: imported("autodiff.ops.nan_reductions").median(x, axis),
    "minimum": min_,
}  # fmt: skip
MODES = ("constant", *_COPIED, *_SUMMARISED, "linear_ramp", "empty")


def bordered(
    x: Tensor, widths: tuple[tuple[int, int], ...], mode: str, sides: Sides = (), *, is_odd: bool = False
) -> Tensor:
    """x with borders of these widths before and after each axis.  Raises ShapeError if an axis has no element to take.

    sides    for each border its value ("constant"), its outermost value ("linear_ramp"), or how many elements it reads
    is_odd   NumPy's reflect_type "odd": a mirrored element becomes twice the edge minus the element
    """
    for axis, pair in enumerate(widths):
        if pair == (0, 0):
            continue
        n = x.shape[axis]
        if not n and mode not in ("constant", "empty"):
            raise ShapeError(located(f"pad: axis {axis} of {x.aval} has nothing for a border of mode {mode!r}"))
        shapes = [with_extent(x.shape, axis, width) for width in pair]
        given = sides[axis] if sides else (None, None)
        if mode in _COPIED and is_odd:
            x = _odd_reflected(x, axis, pair, 1 if mode == "reflect" else 0)
            continue
        if mode in _COPIED:
            borders: Any = np.pad  # its modes are literals to type checkers
            indices = allocated("pad", n + sum(pair), partial(borders, np.arange(n), pair, mode=mode))
            before, after = (_elements_at(x, some, axis) for some in (indices[: pair[0]], indices[pair[0] + n :]))
        elif mode == "linear_ramp":
            before, after = (_ramp(x, axis, pair[i], given[i], i) for i in range(2))
        elif mode in _SUMMARISED:
            before, after = (spread(_line(x, axis, mode, given[i], i), (axis,), shapes[i]) for i in range(2))
        else:
            values = [0 if value is None else value for value in given]
            before, after = (spread_to(cast_to(as_tensor(values[i]), x.dtype), shapes[i]) for i in range(2))
        x = concatenate([before, x, after], axis)
    return x


def _line(x: Tensor, axis: int, mode: str, length: int | None, side: int) -> Tensor:
    """The border's value for each line along an axis: computed from all elements, or from the `length` nearest."""
    n = x.shape[axis]
    if length is not None and length < n:
        x = part(x, axis, n - length, n) if side else part(x, axis, 0, length)
    y = _SUMMARISED[mode](x, axis=axis)
    return y if y.dtype == x.dtype else cast_to(rint(y), x.dtype)  # integers: rounded, as in NumPy


def _ramp(x: Tensor, axis: int, width: int, end: Any, side: int) -> Tensor:
    """A border of evenly spaced values from the edge to `end` (None: 0), which lies outermost."""
    n = x.shape[axis]
    edge = moveaxis(part(x, axis, n - 1, n) if side else part(x, axis, 0, 1), axis, 0)
    edge = reshaped(edge, edge.shape[1:])
    line = linspace(0 if end is None else end, edge, width, endpoint=False)
    line = moveaxis(cast_to(floor(line) if x.dtype.kind == "i" else line, x.dtype), 0, axis)
    return flipped(line, (axis,)) if side else line


def _odd_reflected(x: Tensor, axis: int, pair: tuple[int, int], skips: int) -> Tensor:
    """x extended oddly: positions mirrored at the edge, values at the edge's value, repeated until the border is full.

    skips   1 if the edge itself is not repeated ("reflect"), else 0
    """
    before, after = pair
    while before or after:
        n = x.shape[axis]
        most = n - skips
        if not most:
            return bordered(x, tuple([(before, after) if a == axis else (0, 0) for a in range(x.ndim)]), "edge")
        left, right = min(before, most), min(after, most)
        first, last = part(x, axis, 0, 1), part(x, axis, n - 1, n)
        ahead = first * 2 - flipped(part(x, axis, skips, skips + left), (axis,))
        behind = last * 2 - flipped(part(x, axis, n - skips - right, n - skips), (axis,))
        x = concatenate([ahead, x, behind], axis)
        before, after = before - left, after - right
    return x


def _elements_at(x: Tensor, indices: np.ndarray, axis: int) -> Tensor:
    """The elements at these indices along an axis."""
    first, last, count = (int(indices[0]), int(indices[-1]), len(indices)) if len(indices) else (0, -1, 0)
    if np.array_equal(indices, np.arange(first, first + count)):
        return part(x, axis, first, first + count)
    if np.array_equal(indices, np.arange(first, first - count, -1)):
        return flipped(part(x, axis, last, first + 1), (axis,))
    if (indices == first).all():
        return spread_to(part(x, axis, first, first + 1), with_extent(x.shape, axis, count))
    return gathered(x, [index_tensor(indices, "pad", x.shape[axis])], (axis,), axis)
