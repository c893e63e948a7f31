"""Running extremes along an axis, and reductions that leave nan out.

A running maximum has plateaus.  As of `max`, elements that attain it together share its derivative evenly: at each
place those of its plateau up to there.

    x      1  3  2  3  4        attained  1  1  0  1  1
    y      1  3  3  3  4        count     1  1  1  2  1        of a plateau so far
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.lowering import Scan

from ..custom import function
from ..tape import record
from ..tensor import Tensor
from .arguments import axes_of, axis_of, records
from .arithmetic import add, divide, mul0, multiply, subtract
from .batching import along
from .conversion import as_tensor, cast_to
from .joining import joined
from .logic import greater_equal, isnan
from .primitive import Operation, primitive, times, zero_of
from .reductions import all_, max_, min_, sum_
from .scans import recurrence, running_aval
from .selection import maximum, where
from .shaping import reshaped
from .slicing import part
from .template import remembered
from .winners import runs

__all__ = ["cummax", "cummin", "nanmax", "nanmean", "nanmin", "nansum"]


def _backwards(b: Tensor, goes_on: Tensor, axis: int) -> Tensor:
    """The sums from each element to the end of its plateau."""
    return recurrence(b, goes_on, axis)


def _forwards(b: Tensor, goes_on: Tensor, axis: int) -> Tensor:
    """The sums from the beginning of its plateau to each element."""
    n = goes_on.shape[axis]
    follows = joined((part(goes_on, axis, n - 1, n), part(goes_on, axis, 0, n - 1)), axis)  # the last is 0
    return recurrence(b, follows, axis, reverse=False)


def _shares(runs: Operation, x: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """The elements that attain the extreme (1, others 0), the places whose plateau goes on, each place's share."""
    found = record(runs, (x,), (axis,))
    goes_on = cast_to(greater_equal(found, 2.0), x.dtype)
    attained = subtract(found, multiply(goes_on, 2.0))
    return attained, goes_on, divide(1.0, maximum(_forwards(attained, goes_on, axis), 1.0))


def _running(name: str, numpy: np.ufunc, monoid: str) -> Operation:
    plateaus = runs(name, numpy)

    def pull(y_bar, y, xs, params, masked):
        (x,), (axis,) = xs, params
        if not x.size:
            return (y_bar,)
        attained, goes_on, share = _shares(plateaus, x, axis)
        return (mul0(attained, _backwards(times(y_bar, share, masked), goes_on, axis)),)

    def jvp(dxs, y, x, *, axis):
        (dx,) = dxs
        if dx is None or not x.size:
            return dx
        attained, goes_on, share = _shares(plateaus, x, axis)
        return multiply(_forwards(mul0(attained, dx), goes_on, axis), share)

    return primitive(
        name,
        lambda x, *, axis: numpy.accumulate(x, axis),
        infer=running_aval(name, "fi"),
        pull=pull,
        jvp=jvp,
        lower=Scan(monoid),
        params=("axis",),
        heavy=True,
        batch=along("axis"),
    )


_cummax = _running("cummax", np.maximum, "max")
_cummin = _running("cummin", np.minimum, "min")


def _recorded(operation: Operation, x: Any, axis: int | None) -> Tensor:
    x = as_tensor(x, operation.name, "x")
    if axis is None:
        x, axis = reshaped(x, (x.size,)), 0
    return record(operation, (x,), (axis_of(operation.name, axis, x.aval),))


@records(_cummax)
@remembered(1)
def cummax(x, axis=None):
    """The largest of all elements up to each along an axis (None: of x flattened); nan from the first nan on.

    x: T[..., n, ...]  →  T[..., n, ...]     what attains it together shares the gradient evenly

    Raises ShapeError when x has no such axis.

    >>> import autodiff as ad
    >>> ad.cummax([1.0, 3.0, 2.0, ad.nan, 5.0])
    f64[5] [ 1.  3.  3. nan nan]
    """
    return _recorded(_cummax, x, axis)


@records(_cummin)
@remembered(1)
def cummin(x, axis=None):
    """The smallest of all elements up to each along an axis (None: of x flattened); nan from the first nan on.

    x: T[..., n, ...]  →  T[..., n, ...]     what attains it together shares the gradient evenly

    Raises ShapeError when x has no such axis.

    >>> import autodiff as ad
    >>> ad.cummin([[3.0, 1.0], [2.0, 4.0]], axis=0)
    f64[2,2]
    [[3. 1.]
     [2. 1.]]
    """
    return _recorded(_cummin, x, axis)


# ---------------------------------------------------------------- without nan


def _without(x: Tensor, value: float) -> tuple[Tensor, Tensor | None]:
    """x with a value for each nan, and where they were (None: it can hold none)."""
    if x.dtype.kind not in "fc":
        return x, None
    is_nan = isnan(x)
    return where(is_nan, value, x), is_nan


@function
@remembered(1)
def nansum(x, axis=None, *, dtype=None, keepdims=False):
    """The sum of the elements that are not nan, as `sum` otherwise.   T[..., n, ...]  →  T[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis.

    initial   a number to begin with
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> import autodiff as ad
    >>> ad.nansum([1.0, ad.nan])
    f64[] 1.0
    >>> ad.nansum([ad.nan])
    f64[] 0.0
    """
    x = as_tensor(x, "nansum", "x")
    axes = axes_of("nansum", axis, x.aval)
    found, _ = _without(x, 0.0)
    return sum_(found, axes, dtype=dtype, keepdims=keepdims)


@function
@remembered(1)
def nanmean(x, axis=None, *, keepdims=False):
    """The mean of the elements that are not nan, as `mean` otherwise; nan where all are nan.

    x: f[..., n, ...]  →  f[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis.

    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> import autodiff as ad
    >>> ad.grad(ad.nanmean)(ad.tensor([1.0, ad.nan, 3.0]))
    f64[3] [0.5 0.  0.5]
    """
    x = as_tensor(x, "nanmean", "x")
    x = x if x.dtype.kind in "fc" else cast_to(x, np.dtype(np.float64))
    axes = axes_of("nanmean", axis, x.aval)
    found, is_nan = _without(x, 0.0)
    assert is_nan is not None, "floats may be nan"
    counted = cast_to(where(is_nan, 0.0, 1.0), x.dtype)
    return divide(sum_(found, axes, keepdims=keepdims), sum_(counted, axes, keepdims=keepdims))


def _nan_extreme(name: str, extreme: Callable[..., Tensor], start: float, x: Any, axis: Any, keepdims: bool) -> Tensor:
    x = as_tensor(x, name, "x")
    if x.dtype.kind != "f":
        return extreme(x, axis, keepdims=keepdims)
    axes = axes_of(name, axis, x.aval)
    found, is_nan = _without(x, start)
    y = extreme(found, axes, keepdims=keepdims)
    return where(all_(is_nan, axes, keepdims=keepdims), add(zero_of(x.dtype), np.nan), y)


@function
@remembered(1)
def nanmax(x, axis=None, *, keepdims=False):
    """The largest element that is not nan, as `max` otherwise; nan where all are nan.

    x: T[..., n, ...]  →  T[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis, or nothing along it.

    initial   a number that is one more element; needed for `where`
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> import autodiff as ad
    >>> ad.nanmax([1.0, ad.nan, 3.0])
    f64[] 3.0
    >>> ad.nanmax([ad.nan])
    f64[] nan
    """
    return _nan_extreme("nanmax", max_, -np.inf, x, axis, keepdims)


@function
@remembered(1)
def nanmin(x, axis=None, *, keepdims=False):
    """The smallest element that is not nan, as `min` otherwise; nan where all are nan.

    x: T[..., n, ...]  →  T[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis, or nothing along it.

    initial   a number that is one more element; needed for `where`
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> import autodiff as ad
    >>> ad.nanmin([[1.0, ad.nan], [ad.nan, ad.nan]], axis=1)
    f64[2] [ 1. nan]
    """
    return _nan_extreme("nanmin", min_, np.inf, x, axis, keepdims)
