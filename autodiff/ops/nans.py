"""Products, running sums and spreads of all that is not nan: compositions, so they fuse."""

from __future__ import annotations

from typing import Any

from ..custom import function
from ..tensor import Tensor
from .arguments import axes_of
from .arithmetic import multiply
from .conditions import from_start, included, spread_of
from .conversion import as_tensor
from .forms import further
from .logic import isnan
from .scans import cumprod, cumsum, prod
from .selection import where
from .statistics import root_of_squares

__all__ = ["nancumprod", "nancumsum", "nanprod", "nanstd", "nanvar"]


def _filled(name: str, x: Any, axis: Any, value: float) -> Tensor:
    """x with a value for nan.  Raises ShapeError, naming the function, when x has no such axis."""
    x = as_tensor(x, name, "x")
    axes_of(name, axis, x.aval)
    return where(isnan(x), value, x) if x.dtype.kind in "fc" else x


@function
def nanprod(x, axis=None, *, keepdims=False):
    """The product of the elements that are not nan; nan gets a gradient of exactly 0.   T[..., n, ...]  →  T[..., ...]

    Raises ShapeError when x has no such axis.

    initial   a number to begin with
    where     a mask of the elements that count; all others are left out, with a gradient of 0

    >>> import autodiff as ad
    >>> ad.nanprod([2.0, ad.nan, 3.0])
    f64[] 6.0
    >>> ad.grad(ad.nanprod)(ad.tensor([2.0, ad.nan, 3.0]))
    f64[3] [3. 0. 2.]
    """
    return prod(_filled("nanprod", x, axis, 1.0), axis, keepdims=keepdims)


@further(nanprod)
def _nanprod(x, axis=None, *, dtype=None, keepdims=False, initial=None, where=True):
    x = included("nanprod", _filled("nanprod", x, axis, 1.0), where, 1)
    return from_start("nanprod", prod(x, axis, dtype=dtype, keepdims=keepdims), initial, multiply)


@function
def nancumsum(x, axis=None):
    """Sums up to each element, nan taken for 0.   T[..., n, ...]  →  T[..., n, ...]

    Raises ShapeError when x has no such axis.

    >>> import autodiff as ad
    >>> ad.nancumsum([2.0, ad.nan, 3.0])
    f64[3] [2. 2. 5.]
    """
    return cumsum(_filled("nancumsum", x, axis, 0.0), axis)


@further(nancumsum)
def _nancumsum(x, axis=None, *, dtype=None):
    return cumsum(_filled("nancumsum", x, axis, 0.0), axis, dtype=dtype)


@function
def nancumprod(x, axis=None):
    """Products up to each element, nan taken for 1.   T[..., n, ...]  →  T[..., n, ...]

    Raises ShapeError when x has no such axis.

    >>> import autodiff as ad
    >>> ad.nancumprod([2.0, ad.nan, 3.0])
    f64[3] [2. 2. 6.]
    """
    return cumprod(_filled("nancumprod", x, axis, 1.0), axis)


@further(nancumprod)
def _nancumprod(x, axis=None, *, dtype=None):
    return cumprod(_filled("nancumprod", x, axis, 1.0), axis, dtype=dtype)


@function
def nanvar(x, axis=None, *, ddof=0, keepdims=False):
    """The variance of the elements that are not nan, as `var` otherwise; nan where all are nan.

    x: f[..., n, ...]  →  f[..., ...]

    A nan element gets a gradient of exactly 0.  Raises ShapeError when x has no such axis.

    where, mean   as of `var`

    >>> import autodiff as ad
    >>> ad.nanvar([1.0, ad.nan, 3.0], ddof=1)
    f64[] 2.0
    """
    return spread_of("nanvar", x, axis, None, ddof, None, keepdims, True, None)


@further(nanvar)
def _nanvar(x, axis=None, *, dtype=None, ddof=0, correction=None, keepdims=False, where=True, mean=None):
    return spread_of("nanvar", x, axis, dtype, ddof, correction, keepdims, where, mean)


@function
def nanstd(x, axis=None, *, ddof=0, keepdims=False):
    """The standard deviation without nan elements: the square root of `nanvar`.   f[..., n, ...]  →  f[..., ...]

    Raises ShapeError when x has no such axis.

    where, mean   as of `var`

    >>> import autodiff as ad
    >>> ad.nanstd([1.0, ad.nan, 3.0])
    f64[] 1.0
    """
    return root_of_squares(spread_of("nanstd", x, axis, None, ddof, None, keepdims, True, None))


@further(nanstd)
def _nanstd(x, axis=None, *, dtype=None, ddof=0, correction=None, keepdims=False, where=True, mean=None):
    return root_of_squares(spread_of("nanstd", x, axis, dtype, ddof, correction, keepdims, where, mean))
