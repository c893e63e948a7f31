"""Reductions of the elements where a mask is True, from a start on: NumPy's `where`, `initial`, `mean` and `dtype`.

Of what a mask leaves out the gradient is exactly zero, as in `ad.where`; `initial` is one more element, and gets its
share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, located
from ..tensor import Tensor
from .arguments import axes_of, kept, reduced_shape
from .arithmetic import add, divide, multiply, subtract
from .conversion import as_tensor, cast_to, dtype_of
from .extremes import max_, min_
from .forms import further
from .joining import joined
from .logic import isnan, logical_and, logical_not
from .primitive import spread_to
from .reductions import all_, any_, sum_
from .scans import prod
from .selection import where as choose
from .shaping import moveaxis, reshaped
from .statistics import floating, mean, root_of_squares, squared_size, std, var

__all__ = ["as_floats", "extreme_of", "from_start", "included", "spread_of"]

_BOOL = np.dtype(np.bool_)


def _mask(name: str, x: Tensor, where: Any) -> Tensor | None:
    """The mask of a reduction of x, in a shape that broadcasts to that of x; None: of all elements."""
    if where is True:
        return None
    mask = as_tensor(where, name, "where")
    if mask.dtype != _BOOL:
        raise DTypeError(located(f"{name}: where is a mask of bool, not {mask.aval}"))
    try:
        fits = np.broadcast_shapes(mask.shape, x.shape) == x.shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(located(f"{name}: the mask {mask.aval} does not broadcast to {x.aval}"))
    return mask


def included(name: str, x: Any, where: Any, neutral: Any) -> Any:
    """x with an element that makes no difference where the mask is False."""
    if where is True:
        return x
    x = as_tensor(x, name, "x")
    return choose(_mask(name, x, where), x, neutral)


def _start(name: str, initial: Any, dtype: np.dtype) -> Tensor:
    """The start of a reduction."""
    start = as_tensor(initial, name, "initial")
    if start.shape:
        raise ShapeError(located(f"{name}: initial is one number, not {start.aval}"))
    return cast_to(start, dtype)


def from_start(name: str, y: Tensor, initial: Any, join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """A reduction that begins with `initial`."""
    return y if initial is None else join(y, _start(name, initial, y.dtype))


# ---------------------------------------------------------------- sums, products, any, all


@further(sum_)
def _sum(x, axis=None, *, dtype=None, keepdims=False, initial=None, where=True):
    return from_start("sum", sum_(included("sum", x, where, 0), axis, dtype=dtype, keepdims=keepdims), initial, add)


@further(prod)
def _prod(x, axis=None, *, dtype=None, keepdims=False, initial=None, where=True):
    y = prod(included("prod", x, where, 1), axis, dtype=dtype, keepdims=keepdims)
    return from_start("prod", y, initial, multiply)


@further(any_)
def _any(x, axis=None, *, keepdims=False, where=True):
    return any_(included("any", x, where, False), axis, keepdims=keepdims)


@further(all_)
def _all(x, axis=None, *, keepdims=False, where=True):
    return all_(included("all", x, where, True), axis, keepdims=keepdims)


# ---------------------------------------------------------------- extremes


def _least(dtype: np.dtype, sign: int) -> Any:
    """The value that is no extreme beside any other element of this dtype."""
    if dtype.kind == "i":
        return np.iinfo(dtype).min if sign > 0 else np.iinfo(dtype).max
    number = -sign * math.inf
    return {"b": sign < 0, "c": complex(number, number)}.get(dtype.kind, number)


def extreme_of(function: Any, sign: int, x: Any, axis: Any, keepdims: bool, initial: Any, where: Any) -> Tensor:
    name = function.__name__
    x = as_tensor(x, name, "x")
    axes, mask = axes_of(name, axis, x.aval), _mask(name, x, where)
    if initial is None and mask is not None:
        raise ValueError(located(
            f"{name}: of no element at all there is none: where= needs initial=",
            f"initial={_least(x.dtype, sign)} makes no difference",
        ))
    if mask is not None:
        skips = name.startswith("nan") and x.dtype.kind in "fc"
        x = choose(mask, x, cast_to(as_tensor(math.nan if skips else _least(x.dtype, sign)), x.dtype))
    if initial is None:
        return function(x, axes, keepdims=keepdims)
    rest = reduced_shape(x.shape, axes)
    last = moveaxis(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
    rows = reshaped(last, (*rest, math.prod([x.shape[a] for a in axes])))
    first = spread_to(reshaped(_start(name, initial, x.dtype), (1,) * rows.ndim), (*rest, 1))
    y = function(joined((rows, first), rows.ndim - 1), -1)
    return reshaped(y, kept(x.shape, axes)) if keepdims else y


@further(max_)
def _max(x, axis=None, *, keepdims=False, initial=None, where=True):
    return extreme_of(max_, 1, x, axis, keepdims, initial, where)


@further(min_)
def _min(x, axis=None, *, keepdims=False, initial=None, where=True):
    return extreme_of(min_, -1, x, axis, keepdims, initial, where)


# ---------------------------------------------------------------- means and spreads


def as_floats(name: str, x: Any, dtype: Any) -> Tensor:
    x = as_tensor(x, name, "x")
    if dtype is None:
        return floating(x, name)
    wanted = dtype_of(dtype, name)
    if name.startswith("nan") and x.dtype.kind in "fc" and wanted.kind in "ib":
        raise DTypeError(located(f"{name}: {wanted} has no nan, which {x.aval} may have"))
    return floating(cast_to(x, wanted), name)


@further(mean)
def _mean(x, axis=None, *, dtype=None, keepdims=False, where=True):
    x = as_tensor(x, "mean", "x")
    mask = _mask("mean", x, where)
    if mask is None:
        return mean(x, axis, dtype=dtype, keepdims=keepdims)
    x = as_floats("mean", x, dtype)
    count = _counted(x, mask, axes_of("mean", axis, x.aval), keepdims)
    y = divide(_sum(x, axis, keepdims=keepdims, where=mask), count)
    return y if dtype is None else cast_to(y, dtype_of(dtype, "mean"))


def _counted(x: Tensor, mask: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The number of elements of x that a mask includes, in the dtype of x."""
    return sum_(cast_to(spread_to(mask, x.shape), x.dtype), axes, keepdims=keepdims)


def spread_of(
    name: str, x: Any, axis: Any, dtype: Any, ddof: Any, correction: Any, keepdims: bool, where: Any, center: Any
) -> Tensor:
    """The variance of the elements where a mask is True, around `center`, or their mean.

    name   of the function: of one that begins with "nan" elements that are nan are left out
    """
    if correction is not None and ddof:
        raise ValueError(located(f"{name}: ddof and correction are two names of one thing; give one"))
    x = as_floats(name, x, dtype)
    axes, mask = axes_of(name, axis, x.aval), _mask(name, x, where)
    mask = spread_to(as_tensor(True) if mask is None else mask, x.shape)
    if name.startswith("nan"):
        mask = logical_and(mask, logical_not(isnan(x)))
    if center is None:
        count = _counted(x, mask, axes, keepdims=True)
        center = divide(sum_(choose(mask, x, 0), axes, keepdims=True), count)
    center = cast_to(as_tensor(center, name, "mean"), x.dtype)
    each = squared_size(choose(mask, subtract(x, center), 0))
    squares = sum_(each, axes, keepdims=keepdims)
    freedom = subtract(_counted(each, mask, axes, keepdims), float(ddof if correction is None else correction))
    none = math.nan if name.startswith("nan") else 0.0
    return divide(squares, choose(freedom > 0.0, freedom, none))


@further(var)
def _var(x, axis=None, *, dtype=None, ddof=0, correction=None, keepdims=False, where=True, mean=None):
    return spread_of("var", x, axis, dtype, ddof, correction, keepdims, where, mean)


@further(std)
def _std(x, axis=None, *, dtype=None, ddof=0, correction=None, keepdims=False, where=True, mean=None):
    return root_of_squares(spread_of("std", x, axis, dtype, ddof, correction, keepdims, where, mean))
