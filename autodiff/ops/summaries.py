"""Weighted means, covariances, ranges, counts and products of vectors: compositions, which the compiler fuses."""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.symbols import as_float

from ..errors import ConcretizationError, ShapeError, located
from ..tensor import Tensor
from .arithmetic import abs_, conj, multiply
from .conditions import maximum
from .conversion import as_tensor, cast_to, dtype_of, known_value
from .declare import axes_of, axis_of, elements_of, in_common_dtype, integer
from .diagonals import diagonal
from .extremes import max_, min_
from .joining import stack
from .numpy_parameters import along_axes, weights_along
from .primitive import I64, spread_to, zero_of
from .reductions import sum_, summed
from .rows import segment_sum
from .shaping import expand_dims, matrix_transpose, moveaxis, reshaped
from .stacking import vstack
from .statistics import floating, mean, root_of_squares
from .template import public


@public(1)
def average(x, axis=None, weights=None, returned=False, *, keepdims=False) -> Any:
    """The mean weighted by `weights`.

    x: f[..., n, ...]  weights: f[n], or of x's shape; None: equal weights  →  f[..., ...]

    Raises ShapeError when the weights have neither the shape of x nor that of the axes.

    returned   True: return (averages, sums of weights)

    >>> ad.average([1.0, 5.0], weights=[3.0, 1.0])
    f64[] 2.0
    """
    if weights is None:
        x, w = as_tensor(x, "average", "x"), as_tensor(1.0)
        axes = axes_of("average", axis, x.aval)
        y = mean(x, axes, keepdims=keepdims)
    else:
        x, w = in_common_dtype("average", (("x", x), ("weights", weights)), "fc")
        axes = axes_of("average", axis, x.aval)
        w = weights_along("average", w, x, axis)
        y = sum_(x * w, axes, keepdims=keepdims) / sum_(w, axes, keepdims=keepdims)
    return (y, cast_to(sum_(spread_to(w, x.shape), axes, keepdims=keepdims), y.dtype)) if returned else y


@public(1, takes="T")
def ptp(x, axis=None, *, keepdims=False):
    """The range, from the smallest to the largest element.   x: T[..., n, ...]  →  T[..., ...]

    Raises ShapeError when x has no such axis, or no elements along the axis.

    >>> ad.ptp([[1, 5], [2, 3]], axis=1)
    i64[2] [4 1]
    """
    axes = axes_of("ptp", axis, x.aval)
    return max_(x, axes, keepdims=keepdims) - min_(x, axes, keepdims=keepdims)


@public(1)
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    """The covariances of rows of observations (`rowvar` False: of columns).   T[k, n]  →  f[k, k]     of one row: f[]

    y       more variables, as further rows
    ddof    sums are divided by n - ddof; None: 1, or 0 if `bias` is True

    Raises ShapeError for more than two axes.

    fweights, aweights   frequency and importance of each observation: f[n]; gradients flow to both
    dtype                the dtype to compute in; None: the dtype of m

    >>> ad.cov([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]])
    f64[2,2]
    [[ 1. -2.]
     [-2.  4.]]
    """
    x = _rows("cov", m, y, rowvar, dtype)
    lost = int(not bias) if ddof is None else integer(ddof, "cov", "ddof")
    weights = [_weights(w, x) for w in (fweights, aweights) if w is not None]
    if not weights:
        freedom = as_float(max(x.shape[1] - lost, 0))
        x = x - mean(x, 1, keepdims=True)
        found = x @ conj(matrix_transpose(x)) / freedom
    else:
        w = multiply(*weights) if len(weights) == 2 else weights[0]
        total = sum_(w)
        share = None if aweights is None else sum_(w * weights[-1]) / total
        freedom = total - (float(lost) if share is None else share * float(lost))
        x = x - expand_dims(sum_(x * w, 1) / total, 1)
        found = (x * w) @ conj(matrix_transpose(x)) / maximum(freedom, 0.0)
    return reshaped(found, ()) if found.size == 1 else found


def _rows(name: str, m: Any, y: Any, rowvar: bool, dtype: Any) -> Tensor:
    """The variables of m and y as rows of observations."""
    rows = [floating(x, name) for x in ((m,) if y is None else (m, y))]
    if any([x.ndim > 2 for x in rows]):
        raise ShapeError(located(f"{name}: takes a row or a matrix, not {rows[-1].aval}"))
    rows = [x if rowvar or x.ndim < 2 else matrix_transpose(x) for x in rows]
    x = vstack(rows)
    return floating(cast_to(x, dtype_of(dtype, name, x.dtype)), name)


def _weights(weights: Any, x: Tensor) -> Tensor:
    """The weights of observations, in the real dtype of |x|.  Raises ShapeError unless there is one for each."""
    w = as_tensor(weights, "cov", "weights")
    if w.shape != x.shape[1:]:
        raise ShapeError(located(f"cov: {w.aval} is no weight for each of {x.shape[1]} observations"))
    return cast_to(w, abs_(x).dtype)


@public(1)
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    """The correlation coefficients of rows of observations: `cov` over both standard deviations.   T[k, n]  →  f[k, k]

    Raises ShapeError for more than two axes.

    y, rowvar, dtype   as for `cov`

    >>> ad.corrcoef([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]])
    f64[2,2]
    [[ 1. -1.]
     [-1.  1.]]
    """
    c = cov(_rows("corrcoef", x, y, rowvar, dtype))
    if not c.ndim:
        return c / c
    spread = root_of_squares(abs_(diagonal(c)))
    return c / expand_dims(spread, 1) / expand_dims(spread, 0)


@public(2, takes="fic", operands=2)
def vdot(a, b):
    """The sum of products of all elements, a conjugated.   T[...], T[...]  →  T[]     a and b are flattened

    Raises ShapeError when a and b differ in size.

    >>> ad.vdot([1j, 1.0], [1j, 1.0])
    c128[] (2+0j)
    """
    if a.size != b.size:
        raise ShapeError(located(f"vdot: {a.aval} and {b.aval} are not of one size"))
    return reshaped(conj(a), (a.size,)) @ reshaped(b, (b.size,))


@public(2)
def vecdot(a, b, *, axis=-1, axes=None, keepdims=False):
    """The sums of products along an axis, with a conjugated.   T[..., n], T[..., n]  →  T[...]

    Raises ShapeError when a or b has no such axis, the extents differ, or the other axes do not broadcast.

    axes   a list: the axes of a, of b and of the result; None: the last axes

    >>> ad.vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0])
    f64[2] [3. 7.]
    """
    if axes is not None:
        axes = elements_of(axes, "vecdot", "axes")
        axis = axes[2 if keepdims and len(axes) > 2 else 0] if axes else axis
        axis = axis[0] if isinstance(axis, tuple) and axis else axis
        y = along_axes(vecdot, (1, 1), (a, b), axes[:2] if keepdims else axes)
    else:
        a, b = in_common_dtype("vecdot", (("a", a), ("b", b)), "fic")
        along = [axis_of("vecdot", axis, x.aval) for x in (a, b)]
        if a.shape[along[0]] != b.shape[along[1]]:
            raise ShapeError(located(f"vecdot: {a.aval} and {b.aval} are of two lengths along axis {axis}"))
        if along[0] - a.ndim != along[1] - b.ndim:  # an axis counted from the front, and ranks differ
            a, b = [moveaxis(x, at, -1) for x, at in zip((a, b), along, strict=True)]
            along = [a.ndim - 1, b.ndim - 1]
        y = summed(conj(a) * b, (max(along),))
    return expand_dims(y, axis) if keepdims else y


def _matrix_and_vector(name: str, matrix: Any, its: str, vector: Any, other: str) -> tuple[Tensor, Tensor]:
    matrix, vector = as_tensor(matrix, name, its), as_tensor(vector, name, other)
    if matrix.ndim < 2 or not vector.ndim:
        raise ShapeError(located(
            f"{name}: {its} is a matrix and {other} a vector, or several, not {matrix.aval} and {vector.aval}"
        ))
    return matrix, vector


@public(2)
def matvec(a, b, *, axes=None):
    """The products of matrices with vectors.   T[..., m, n], T[..., n]  →  T[..., m]     ShapeError for others

    axes   a list: the axes of a, of b and of the result; None: the last axes

    >>> ad.matvec([[1, 2], [3, 4]], [[1, 0], [1, 1]])
    i64[2,2]
    [[1 3]
     [3 7]]
    """
    if axes is not None:
        return along_axes(matvec, (2, 1), (a, b), axes)
    a, b = _matrix_and_vector("matvec", a, "a", b, "b")
    return (a @ expand_dims(b, -1))[..., 0]


@public(2)
def vecmat(a, b, *, axes=None):
    """The products of vectors, conjugated, with matrices.

    T[..., m], T[..., m, n]  →  T[..., n]     ShapeError for others

    axes   a list: the axes of a, of b and of the result; None: the last axes

    >>> ad.vecmat([1, 1], [[1, 2], [3, 4]])
    i64[2] [4 6]
    """
    if axes is not None:
        return along_axes(vecmat, (1, 2), (a, b), axes)
    b, a = _matrix_and_vector("vecmat", b, "b", a, "a")
    return (expand_dims(conj(a), -2) @ b)[..., 0, :]


@public(2, takes="fic", operands=2)
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """The vector product of vectors of three numbers along an axis.   T[..., 3], T[..., 3]  →  T[..., 3]

    Raises ShapeError for vectors of another length, and when the other axes do not broadcast.

    axisa, axisb, axisc   the axes of a, b and the result; `axis` stands for all three

    >>> ad.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    f64[3] [0. 0. 1.]
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    rows = []
    for name, x, given in (("a", a, axisa), ("b", b, axisb)):
        along = axis_of("cross", given, x.aval)
        if x.shape[along] != 3:
            raise ShapeError(located(f"cross: {name} has {x.shape[along]} numbers in a vector, not 3"))
        x = moveaxis(x, along, -1)
        rows.append([x[..., j] for j in range(3)])
    (a0, a1, a2), (b0, b1, b2) = rows
    pairs = ((a1, b2, a2, b1), (a2, b0, a0, b2), (a0, b1, a1, b0))
    parts = [p * q - r * s for p, q, r, s in pairs]
    return stack(parts, axis=axis_of("cross", axisc, parts[0].aval, parts[0].ndim + 1))


@public(2, takes="fic", operands=2)
def kron(a, b):
    """The Kronecker product: each element of a times all of b.   T[m, n], T[p, q]  →  T[m·p, n·q]     any rank

    >>> ad.kron([1, 10], [1, 2, 3])
    i64[6] [ 1  2  3 10 20 30]
    """
    rank = max(a.ndim, b.ndim)
    m, p = ((1,) * (rank - x.ndim) + x.shape for x in (a, b))
    a = reshaped(a, tuple([n for extent in m for n in (extent, 1)]))
    b = reshaped(b, tuple([n for extent in p for n in (1, extent)]))
    return reshaped(a * b, tuple([i * j for i, j in zip(m, p, strict=True)]))


@public(1, takes="T")
def count_nonzero(x, axis=None, *, keepdims=False):
    """The number of elements that are not zero.   x: T[..., n, ...]  →  i64[..., ...]

    Raises ShapeError when x has no such axis.

    >>> ad.count_nonzero([[0, 1], [2, 3]], axis=0)
    i64[2] [1 2]
    """
    axes = axes_of("count_nonzero", axis, x.aval)
    return sum_(cast_to(x != zero_of(x.dtype), I64), axes, keepdims=keepdims)


@public(takes="T")
def bincount(x, weights=None, minlength=0, *, length=None):
    """Counts of each integer from 0 on, or sums of their weights.   x: i64[n]  weights: f[n]  →  i64[k], or f[k]

    length    the number k; None: the largest of x plus one, at least `minlength`.  This evaluates x: not under `jit`

    Gradients flow to the weights.  Raises IndexError for a number out of range; with `length`, -1 counts as the last
    index, as in `segment_sum`.

    >>> ad.bincount([0, 2, 2])
    i64[3] [1 0 2]
    """
    if length is None:
        known = known_value(x) if x.size else np.full(1, -1)
        if known is None:
            raise ConcretizationError(located("bincount: the largest number has no value in a trace", "give length="))
        if x.size and known.min() < 0:
            raise IndexError(located(f"bincount: {x.aval} has negative numbers"))
        length = max(integer(minlength, "bincount", "minlength"), int(known.max()) + 1)
    if weights is None:
        return segment_sum(np.ones(x.shape, np.int64), x, length)
    return segment_sum(floating(as_tensor(weights, "bincount", "weights"), "bincount"), x, length)
