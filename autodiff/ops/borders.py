"""`pad` by what is there: the edge again, mirrored, from the other end, or a mean.

Which elements of x a border has is what NumPy's own `pad` gives for their numbers: those that rise or fall are a slice,
one again and again is repeated, others are looked up.  So the gradient of a border is added to what it was taken from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..errors import ShapeError, caller
from ..tensor import Tensor
from .arguments import built
from .arithmetic import multiply, subtract
from .conversion import as_tensor, cast_to
from .creation import linspace
from .gathering import gathered, index_tensor
from .joining import concatenate
from .primitive import spread_to
from .quantiles import median
from .reductions import max_, min_
from .rounding import floor, rint
from .shaping import flipped, moveaxis, reshaped, spread
from .slicing import part
from .statistics import mean

__all__ = ["MODES", "bordered"]

#: One number, tensor or None for each side of each axis.
Sides = Sequence[tuple[Any, Any]]

#: Borders that are elements of x, in the words of NumPy; and those that are one value for each line along the axis.
_TAKEN = ("edge", "reflect", "symmetric", "wrap")
_ONE: dict[str, Callable] = {"maximum": max_, "mean": mean, "median": median, "minimum": min_}
MODES = ("constant", *_TAKEN, *_ONE, "linear_ramp", "empty")


def bordered(
    x: Tensor, widths: tuple[tuple[int, int], ...], mode: str, sides: Sides = (), *, is_odd: bool = False
) -> Tensor:
    """x with borders of these widths before and after each axis.  Raises ShapeError where there is nothing to take.

    sides    of each border its value (of "constant"), last value ("linear_ramp"), or how many elements it looks at
    is_odd   a mirrored border is what leads on: twice the edge less what is mirrored
    """
    for axis, pair in enumerate(widths):
        if pair == (0, 0):
            continue
        n = x.shape[axis]
        if not n and mode not in ("constant", "empty"):
            raise ShapeError(f"pad: axis {axis} of {x.aval} has nothing for a border of mode {mode!r}\n"
                             f"  called at {caller()}")
        shapes = [(*x.shape[:axis], width, *x.shape[axis + 1 :]) for width in pair]
        given = sides[axis] if sides else (None, None)
        if mode in _TAKEN and is_odd:
            x = _led_on(x, axis, pair, 1 if mode == "reflect" else 0)
            continue
        if mode in _TAKEN:
            borders: Any = np.pad  # its modes are literals to type checkers
            places = built("pad", n + sum(pair), partial(borders, np.arange(n), pair, mode=mode))
            before, after = (_taken(x, some, axis) for some in (places[: pair[0]], places[pair[0] + n :]))
        elif mode == "linear_ramp":
            before, after = (_ramp(x, axis, pair[i], given[i], i) for i in range(2))
        elif mode in _ONE:
            before, after = (spread(_line(x, axis, mode, given[i], i), (axis,), shapes[i]) for i in range(2))
        else:
            values = [0 if value is None else value for value in given]
            before, after = (spread_to(cast_to(as_tensor(values[i]), x.dtype), shapes[i]) for i in range(2))
        x = concatenate([before, x, after], axis)
    return x


def _line(x: Tensor, axis: int, mode: str, length: int | None, side: int) -> Tensor:
    """The one value of a border for each line along an axis: of all elements, or of so many next to it."""
    n = x.shape[axis]
    if length is not None and length < n:
        x = part(x, axis, n - length, n) if side else part(x, axis, 0, length)
    y = _ONE[mode](x, axis=axis)
    return y if y.dtype == x.dtype else cast_to(rint(y), x.dtype)  # of integers, as NumPy has it


def _ramp(x: Tensor, axis: int, width: int, end: Any, side: int) -> Tensor:
    """Evenly from the edge to an end."""
    n = x.shape[axis]
    edge = moveaxis(part(x, axis, n - 1, n) if side else part(x, axis, 0, 1), axis, 0)
    edge = reshaped(edge, edge.shape[1:])
    line = linspace(0 if end is None else end, edge, width, endpoint=False)
    line = moveaxis(cast_to(floor(line) if x.dtype.kind == "i" else line, x.dtype), 0, axis)
    return flipped(line, (axis,)) if side else line


def _led_on(x: Tensor, axis: int, pair: tuple[int, int], skips: int) -> Tensor:
    """x mirrored at both edges with its values mirrored too, again and again.

    skips   1: the edge itself is not repeated
    """
    before, after = pair
    while before or after:
        n = x.shape[axis]
        most = n - skips
        if not most:
            return bordered(x, tuple([(before, after) if a == axis else (0, 0) for a in range(x.ndim)]), "edge")
        left, right = min(before, most), min(after, most)
        first, last = part(x, axis, 0, 1), part(x, axis, n - 1, n)
        ahead = subtract(multiply(first, 2), flipped(part(x, axis, skips, skips + left), (axis,)))
        behind = subtract(multiply(last, 2), flipped(part(x, axis, n - skips - right, n - skips), (axis,)))
        x = concatenate([ahead, x, behind], axis)
        before, after = before - left, after - right
    return x


def _taken(x: Tensor, places: np.ndarray, axis: int) -> Tensor:
    """The elements with these numbers along an axis."""
    first, last, count = (int(places[0]), int(places[-1]), len(places)) if len(places) else (0, -1, 0)
    if np.array_equal(places, np.arange(first, first + count)):
        return part(x, axis, first, first + count)
    if np.array_equal(places, np.arange(first, first - count, -1)):
        return flipped(part(x, axis, last, first + 1), (axis,))
    if (places == first).all():
        return spread_to(part(x, axis, first, first + 1), (*x.shape[:axis], count, *x.shape[axis + 1 :]))
    return gathered(x, [index_tensor(places, "pad", x.shape[axis])], (axis,), axis)
