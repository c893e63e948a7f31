"""Weighted means, covariances, ranges, counts, and what is left of them without nan: compositions, so they fuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..custom import function
from ..errors import ShapeError, caller
from ..tensor import Tensor
from .arguments import axes_of, axis_of, integer
from .arithmetic import abs_, divide, multiply, subtract
from .comparison import isnan, logical_not, not_equal
from .complexes import conj
from .contraction import matmul
from .conversion import as_tensor, cast_to
from .extremes import nanmean
from .linalg_basic import diagonal
from .primitive import zero_of
from .products import prod
from .promotion import common
from .protocols import serves
from .reductions import max_, min_, sum_, summed
from .scans import cumprod, cumsum
from .segments import segment_sum
from .selection import where
from .shaping import expand_dims, matrix_transpose, reshaped
from .stacking import vstack
from .statistics import floating, mean, root_of_squares

__all__ = [
    "average", "bincount", "corrcoef", "count_nonzero", "cov", "matvec", "nancumprod", "nancumsum", "nanprod", "nanstd",
    "nanvar", "ptp", "vdot", "vecdot", "vecmat",
]  # fmt: skip


@function
def average(x, axis=None, weights=None, *, keepdims=False):
    """The mean, in which each element counts as much as its weight.

    x: f[..., n, ...]  weights: f[n], or of x's shape; None: all the same  →  f[..., ...]

    Raises ShapeError where weights fit neither x nor its axis.

    >>> import autodiff as ad
    >>> ad.average([1.0, 5.0], weights=[3.0, 1.0])
    f64[] 2.0
    """
    if weights is None:
        x = as_tensor(x, "average", "x")
        return mean(x, axes_of("average", axis, x.aval), keepdims=keepdims)
    x, w = common("average", (("x", x), ("weights", weights)), "fc")
    axes = axes_of("average", axis, x.aval)
    if w.shape != x.shape:
        if not isinstance(axis, int) or w.shape != (x.shape[axes[0]],):
            raise ShapeError(
                f"average: weights {w.aval} are not for {x.aval} along axis {axis}\n  called at {caller()}"
            )
        w = reshaped(w, (w.size, *(1,) * (x.ndim - 1 - axes[0])))
        scale = sum_(w)
    else:
        scale = sum_(w, axes, keepdims=keepdims)
    return divide(sum_(multiply(x, w), axes, keepdims=keepdims), scale)


@function
def ptp(x, axis=None, *, keepdims=False):
    """The range, from the smallest to the largest element.   x: T[..., n, ...]  →  T[..., ...]

    Raises ShapeError when x has no such axis, or nothing along it.

    >>> import autodiff as ad
    >>> ad.ptp([[1, 5], [2, 3]], axis=1)
    i64[2] [4 1]
    """
    x = as_tensor(x, "ptp", "x")
    axes = axes_of("ptp", axis, x.aval)
    return subtract(max_(x, axes, keepdims=keepdims), min_(x, axes, keepdims=keepdims))


@function
def cov(m, y=None, rowvar=True, bias=False, ddof=None):
    """The covariances of rows of observations (`rowvar` False: of columns).   T[k, n]  →  f[k, k]     of one row: f[]

    y       more variables, as further rows
    ddof    sums are divided by n - ddof: 1, with `bias` 0, unless it is given

    Raises ShapeError for more than two axes.

    >>> import autodiff as ad
    >>> ad.cov([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]])
    f64[2,2]
    [[ 1. -2.]
     [-2.  4.]]
    """
    rows = [floating(x, "cov") for x in ((m,) if y is None else (m, y))]
    if any([x.ndim > 2 for x in rows]):
        raise ShapeError(f"cov: takes a row or a matrix, not {rows[-1].aval}\n  called at {caller()}")
    rows = [x if rowvar or x.ndim < 2 else matrix_transpose(x) for x in rows]
    x = vstack(rows)
    freedom = x.shape[1] - (integer(ddof, "cov", "ddof") if ddof is not None else 0 if bias else 1)
    x = subtract(x, mean(x, 1, keepdims=True))
    found = divide(matmul(x, conj(matrix_transpose(x))), float(freedom) if freedom > 0 else math.nan)
    return reshaped(found, ()) if found.size == 1 else found


@function
def corrcoef(x, y=None, rowvar=True):
    """The correlations of rows of observations: covariances, as of `cov`, over both spreads.   T[k, n]  →  f[k, k]

    Raises ShapeError for more than two axes.

    >>> import autodiff as ad
    >>> ad.corrcoef([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]])
    f64[2,2]
    [[ 1. -1.]
     [-1.  1.]]
    """
    c = cov(x, y, rowvar)
    if not c.ndim:
        return divide(c, c)
    spread = root_of_squares(abs_(diagonal(c)))
    return divide(divide(c, expand_dims(spread, 1)), expand_dims(spread, 0))


@function
def vdot(a, b):
    """The sum of products of all elements, those of a conjugated.   T[...], T[...]  →  T[]     as one row each

    Raises ShapeError when a and b differ in size.

    >>> import autodiff as ad
    >>> ad.vdot([1j, 1.0], [1j, 1.0])
    c128[] (2+0j)
    """
    a, b = common("vdot", (("a", a), ("b", b)), "fic")
    if a.size != b.size:
        raise ShapeError(f"vdot: {a.aval} and {b.aval} are not of one size\n  called at {caller()}")
    return matmul(reshaped(conj(a), (a.size,)), reshaped(b, (b.size,)))


@function
def vecdot(a, b, axis=-1):
    """The sums of products along an axis, elements of a conjugated.   T[..., n], T[..., n]  →  T[...]

    Raises ShapeError when one has no such axis, and when the two do not broadcast.

    >>> import autodiff as ad
    >>> ad.vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
    f64[2] [3. 7.]
    """
    a, b = common("vecdot", (("a", a), ("b", b)), "fic")
    product = multiply(conj(a), b)
    return summed(product, (axis_of("vecdot", axis, product.aval),))


def _matrix_and_vector(name: str, matrix: Any, its: str, vector: Any, other: str) -> tuple[Tensor, Tensor]:
    matrix, vector = as_tensor(matrix, name, its), as_tensor(vector, name, other)
    if matrix.ndim < 2 or not vector.ndim:
        raise ShapeError(
            f"{name}: {its} is a matrix and {other} a vector, or several, not {matrix.aval} and {vector.aval}\n"
            f"  called at {caller()}"
        )
    return matrix, vector


@function
def matvec(a, b):
    """The products of matrices with vectors.   T[..., m, n], T[..., n]  →  T[..., m]     or ShapeError

    >>> import autodiff as ad
    >>> ad.matvec([[1, 2], [3, 4]], [[1, 0], [1, 1]])
    i64[2,2]
    [[1 3]
     [3 7]]
    """
    a, b = _matrix_and_vector("matvec", a, "a", b, "b")
    return matmul(a, expand_dims(b, -1))[..., 0]


@function
def vecmat(a, b):
    """The products of vectors, conjugated, with matrices.   T[..., m], T[..., m, n]  →  T[..., n]     or ShapeError

    >>> import autodiff as ad
    >>> ad.vecmat([1, 1], [[1, 2], [3, 4]])
    i64[2] [4 6]
    """
    b, a = _matrix_and_vector("vecmat", b, "b", a, "a")
    return matmul(expand_dims(conj(a), -2), b)[..., 0, :]


# ---------------------------------------------------------------- counts


@function
def count_nonzero(x, axis=None, *, keepdims=False):
    """How many elements are not zero.   x: T[..., n, ...]  →  i64[..., ...]

    Raises ShapeError when x has no such axis.

    >>> import autodiff as ad
    >>> ad.count_nonzero([[0, 1], [2, 3]], axis=0)
    i64[2] [1 2]
    """
    x = as_tensor(x, "count_nonzero", "x")
    axes = axes_of("count_nonzero", axis, x.aval)
    return sum_(cast_to(not_equal(x, zero_of(x.dtype)), np.dtype(np.int64)), axes, keepdims=keepdims)


@function
def bincount(x, weights=None, minlength=0, *, length=None):
    """How often each number occurs, or the sum of its weights.   x: i64[n]  weights: f[n]  →  i64[k], or f[k]

    length    what k is; None: one more than the largest number, which is asked for (so not under `jit`), or `minlength`

    Gradients flow to the weights.  Raises IndexError for a number outside; with `length`, -1 is the last, as in
    `segment_sum`.

    >>> import autodiff as ad
    >>> ad.bincount([0, 2, 2])
    i64[3] [1 0 2]
    """
    x = as_tensor(x, "bincount", "x")
    if length is None:
        least = integer(minlength, "bincount", "minlength")
        if x.size and int(min_(x).item()) < 0:
            raise IndexError(f"bincount: {x.aval} has negative numbers\n  called at {caller()}")
        length = max(least, int(max_(x).item()) + 1) if x.size else least
    if weights is None:
        weights = np.ones(x.shape, np.int64)
    return segment_sum(weights, x, length)


# ---------------------------------------------------------------- without nan


def _filled(name: str, x: Any, axis: Any, value: float) -> Tensor:
    """x with a value for nan.  Raises ShapeError, naming the function, when x has no such axis."""
    x = as_tensor(x, name, "x")
    axes_of(name, axis, x.aval)
    return where(isnan(x), value, x) if x.dtype.kind in "fc" else x


@function
def nanprod(x, axis=None, *, keepdims=False):
    """The product of all that is not nan; what is nan gets a gradient of exactly 0.   T[..., n, ...]  →  T[..., ...]

    Raises ShapeError when x has no such axis.

    >>> import autodiff as ad
    >>> ad.nanprod([2.0, ad.nan, 3.0])
    f64[] 6.0
    >>> ad.grad(ad.nanprod)(ad.tensor([2.0, ad.nan, 3.0]))
    f64[3] [3. 0. 2.]
    """
    return prod(_filled("nanprod", x, axis, 1.0), axis, keepdims=keepdims)


@function
def nancumsum(x, axis=None):
    """Sums up to each element, nan taken for 0.   T[..., n, ...]  →  T[..., n, ...]

    Raises ShapeError when x has no such axis.

    >>> import autodiff as ad
    >>> ad.nancumsum([2.0, ad.nan, 3.0])
    f64[3] [2. 2. 5.]
    """
    return cumsum(_filled("nancumsum", x, axis, 0.0), axis)


@function
def nancumprod(x, axis=None):
    """Products up to each element, nan taken for 1.   T[..., n, ...]  →  T[..., n, ...]

    Raises ShapeError when x has no such axis.

    >>> import autodiff as ad
    >>> ad.nancumprod([2.0, ad.nan, 3.0])
    f64[3] [2. 2. 6.]
    """
    return cumprod(_filled("nancumprod", x, axis, 1.0), axis)


@function
def nanvar(x, axis=None, *, ddof=0, keepdims=False):
    """The variance of all that is not nan, as `var` otherwise; of nothing else it is nan.

    x: f[..., n, ...]  →  f[..., ...]

    What is nan gets a gradient of exactly 0.  Raises ShapeError when x has no such axis.

    >>> import autodiff as ad
    >>> ad.nanvar([1.0, ad.nan, 3.0], ddof=1)
    f64[] 2.0
    """
    x = floating(x, "nanvar")
    axes = axes_of("nanvar", axis, x.aval)
    is_there = logical_not(isnan(x))
    deviation = where(is_there, subtract(x, nanmean(x, axes, keepdims=True)), 0.0)
    size = abs_(deviation) if x.dtype.kind == "c" else deviation
    count = sum_(cast_to(is_there, size.dtype), axes, keepdims=keepdims)
    freedom = subtract(count, float(ddof))
    freedom = where(freedom > 0.0, freedom, math.nan)
    return divide(sum_(multiply(size, size), axes, keepdims=keepdims), freedom)


@function
def nanstd(x, axis=None, *, ddof=0, keepdims=False):
    """The standard deviation of all that is not nan: the square root of `nanvar`.   f[..., n, ...]  →  f[..., ...]

    Raises ShapeError when x has no such axis.

    >>> import autodiff as ad
    >>> ad.nanstd([1.0, ad.nan, 3.0])
    f64[] 1.0
    """
    x = floating(x, "nanstd")
    return root_of_squares(nanvar(x, axes_of("nanstd", axis, x.aval), ddof=ddof, keepdims=keepdims))


for _function in (average, corrcoef, count_nonzero, cov, nancumprod, nancumsum, nanprod, nanstd, nanvar, ptp, vdot):
    serves(_function, getattr(np, _function.__name__))
for _function in (matvec, vecdot, vecmat):
    if hasattr(np, _function.__name__):  # from NumPy 2.0 and 2.2 on
        serves(_function, getattr(np, _function.__name__))
