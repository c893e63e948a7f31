"""Reductions and running sums of all elements that are not nan: compositions, so they fuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..custom.function import Function
from ..tensor import Tensor
from .arguments import axes_of, axis_of
from .arithmetic import add, divide, multiply
from .conditions import isnan
from .conditions import where as choose
from .conversion import as_tensor, cast_to, dtype_of
from .extremes import argmax, argmin, max_, min_
from .numpy_parameters import as_floats, included, of_masked, of_masked_extreme, spread_of
from .primitive import zero_of
from .reductions import all_, sum_
from .scans import cumprod, cumsum, prod
from .statistics import root_of_squares
from .template import public

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum",
    "nanvar",
]  # fmt: skip

def _filled(name: str, x: Any, axis: Any, value: float) -> Tensor:
    """x with a value for nan.  Raises ShapeError, naming the function, when x has no such axis."""
    x = as_tensor(x, name, "x")
    axes_of(name, axis, x.aval)
    return choose(isnan(x), value, x) if x.dtype.kind in "fc" else x


@public(1)
def nansum(x, axis=None, *, dtype=None, keepdims=False):
    """The sum of the elements that are not nan, as `sum` otherwise.   T[..., n, ...]  →  T[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis.

    initial   a number to begin with
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> ad.nansum([1.0, ad.nan])
    f64[] 1.0
    >>> ad.nansum([ad.nan])
    f64[] 0.0
    """
    return sum_(_filled("nansum", x, axis, 0.0), axis, dtype=dtype, keepdims=keepdims)


of_masked(nansum, 0, add)


@public(1)
def nanmean(x, axis=None, *, dtype=None, keepdims=False, where=True):
    """The mean of the elements that are not nan, as `mean` otherwise; nan where all are nan.

    x: f[..., n, ...]  →  f[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis.

    dtype, keepdims, where   as of `mean`; elements that `where` leaves out have a gradient of 0

    >>> ad.grad(ad.nanmean)(ad.tensor([1.0, ad.nan, 3.0]))
    f64[3] [0.5 0.  0.5]
    """
    x = included("nanmean", as_floats("nanmean", x, dtype), where, math.nan)
    axes = axes_of("nanmean", axis, x.aval)
    is_nan = isnan(x)
    counted = cast_to(choose(is_nan, 0.0, 1.0), x.dtype)
    y = divide(sum_(choose(is_nan, 0.0, x), axes, keepdims=keepdims), sum_(counted, axes, keepdims=keepdims))
    return y if dtype is None else cast_to(y, dtype_of(dtype, "nanmean"))


def _nan_extreme(name: str, word: str, extreme: Function, start: float, sign: int, example: str) -> Function:
    doc = f"""The {word} element that is not nan, as `{extreme.__name__}` otherwise; nan where all are nan.

    x: T[..., n, ...]  →  T[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis, or nothing along it.

    initial   a number that is one more element; needed for `where`
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    {example}
    """

    def body(x, axis=None, *, keepdims=False):
        x = as_tensor(x, name, "x")
        if x.dtype.kind != "f":
            return extreme(x, axis, keepdims=keepdims)
        axes = axes_of(name, axis, x.aval)
        is_nan = isnan(x)
        y = extreme(choose(is_nan, start, x), axes, keepdims=keepdims)
        return choose(all_(is_nan, axes, keepdims=keepdims), add(zero_of(x.dtype), np.nan), y)

    made: Function = public(1, name=name, doc=doc)(body)
    of_masked_extreme(made, sign)
    return made


nanmax = _nan_extreme("nanmax", "largest", max_, -np.inf, 1, """>>> ad.nanmax([1.0, ad.nan, 3.0])
    f64[] 3.0
    >>> ad.nanmax([ad.nan])
    f64[] nan""")
nanmin = _nan_extreme(
    "nanmin", "smallest", min_, np.inf, -1, """>>> ad.nanmin([[1.0, ad.nan], [ad.nan, ad.nan]], axis=1)
    f64[2] [ 1. nan]""",
)


@public()
def nanprod(x, axis=None, *, keepdims=False):
    """The product of the elements that are not nan; nan gets a gradient of exactly 0.   T[..., n, ...]  →  T[..., ...]

    Raises ShapeError when x has no such axis.

    initial   a number to begin with
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> ad.nanprod([2.0, ad.nan, 3.0])
    f64[] 6.0
    >>> ad.grad(ad.nanprod)(ad.tensor([2.0, ad.nan, 3.0]))
    f64[3] [3. 0. 2.]
    """
    return prod(_filled("nanprod", x, axis, 1.0), axis, keepdims=keepdims)


of_masked(nanprod, 1, multiply, lambda x, axis, **more: prod(_filled("nanprod", x, axis, 1.0), axis, **more))


@public()
def nancumsum(x, axis=None, *, dtype=None):
    """Sums up to each element, nan taken for 0.   T[..., n, ...]  →  T[..., n, ...]

    Raises ShapeError when x has no such axis.

    dtype   as of `cumsum`

    >>> ad.nancumsum([2.0, ad.nan, 3.0])
    f64[3] [2. 2. 5.]
    """
    return cumsum(_filled("nancumsum", x, axis, 0.0), axis, dtype=dtype)


@public()
def nancumprod(x, axis=None, *, dtype=None):
    """Products up to each element, nan taken for 1.   T[..., n, ...]  →  T[..., n, ...]

    Raises ShapeError when x has no such axis.

    dtype   as of `cumprod`

    >>> ad.nancumprod([2.0, ad.nan, 3.0])
    f64[3] [2. 2. 6.]
    """
    return cumprod(_filled("nancumprod", x, axis, 1.0), axis, dtype=dtype)


@public()
def nanvar(x, axis=None, *, dtype=None, ddof=0, correction=None, keepdims=False, where=True, mean=None):
    """The variance of the elements that are not nan, as `var` otherwise; nan where all are nan.

    x: f[..., n, ...]  →  f[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis.

    dtype, ddof, correction, keepdims, where, mean   as of `var`

    >>> ad.nanvar([1.0, ad.nan, 3.0], ddof=1)
    f64[] 2.0
    """
    return spread_of("nanvar", x, axis, dtype, ddof, correction, keepdims, where, mean)


@public()
def nanstd(x, axis=None, *, dtype=None, ddof=0, correction=None, keepdims=False, where=True, mean=None):
    """The standard deviation without nan elements: the square root of `nanvar`.   f[..., n, ...]  →  f[..., ...]

    Raises ShapeError when x has no such axis.

    dtype, ddof, correction, keepdims, where, mean   as of `var`

    >>> ad.nanstd([1.0, ad.nan, 3.0])
    f64[] 1.0
    """
    return root_of_squares(spread_of("nanstd", x, axis, dtype, ddof, correction, keepdims, where, mean))


def _nan_place(name: str, word: str, place: Function, fill: float, example: str) -> Function:
    doc = f"""Index of the first {word} element along an axis (None: in x flattened), nan taken for {fill}.

    x: T[..., n, ...]  →  i64[..., ...]     0 where all are nan, which NumPy refuses: a value would have to be known

    Raises ShapeError when x has no such axis, or nothing along it.

    {example}
    """

    def body(x, axis=None, *, keepdims=False):
        x = as_tensor(x, name, "x")
        axis = None if axis is None else axis_of(name, axis, x.aval)
        return place(choose(isnan(x), fill, x) if x.dtype.kind == "f" else x, axis, keepdims=keepdims)

    made: Function = public(name=name, doc=doc)(body)
    return made


nanargmax = _nan_place("nanargmax", "largest", argmax, -np.inf, """>>> ad.nanargmax([1.0, ad.nan, 2.0])
    i64[] 2""")
nanargmin = _nan_place("nanargmin", "smallest", argmin, np.inf, """>>> ad.nanargmin([ad.nan, 1.0, 2.0])
    i64[] 1""")
