"""`pad` by what is there: the edge again, mirrored, from the other end, or a mean.

Which elements of x a border has is what NumPy's own `pad` gives for their numbers: those that rise or fall are a slice,
one again and again is repeated, others are looked up.  So the gradient of a border is added to what it was taken from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ShapeError, caller
from ..tensor import Tensor
from .gathering import gathered, index_tensor
from .joining import concatenate
from .primitive import spread_to
from .reductions import max_, min_
from .shaping import flipped, spread
from .slicing import part
from .statistics import mean

__all__ = ["MODES", "bordered"]

#: Borders that are elements of x, in the words of NumPy; and those that are one value for each line along the axis.
_TAKEN = ("edge", "reflect", "symmetric", "wrap")
_ONE: dict[str, Callable] = {"maximum": max_, "mean": mean, "minimum": min_}
MODES = ("constant", *_TAKEN, *_ONE)


def bordered(x: Tensor, widths: tuple[tuple[int, int], ...], mode: str) -> Tensor:
    """x with borders of these widths before and after each axis.  Raises ShapeError where there is nothing to take."""
    for axis, pair in enumerate(widths):
        if pair == (0, 0):
            continue
        n = x.shape[axis]
        if not n:
            raise ShapeError(f"pad: axis {axis} of {x.aval} has nothing for a border of mode {mode!r}\n"
                             f"  called at {caller()}")
        if mode in _TAKEN:
            borders: Any = np.pad  # its modes are literals to type checkers
            places = borders(np.arange(n), pair, mode=mode)
            x = concatenate([_taken(x, places[: pair[0]], axis), x, _taken(x, places[pair[0] + n :], axis)], axis)
        else:
            line = _ONE[mode](x, axis=axis)
            shapes = [(*x.shape[:axis], width, *x.shape[axis + 1 :]) for width in pair]
            before, after = (spread(line, (axis,), shape) for shape in shapes)
            x = concatenate([before, x, after], axis)
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
