"""Singular values and vectors, the pseudo-inverse, and norms of singular values.

The decomposition is one operation, so that a matrix is decomposed once; its result is u, the row of singular values and
v, one below the other.

    a = u diag(s) vᴴ     p = uᴴ da v = p₊ + p₋, its Hermitian and skew parts     ds = re diag(p)
    f[i,j] = 1 / (s[j] - s[i])     h[i,j] = 1 / (s[j] + s[i])     0 where i = j
    du = u (f * p₊ + h * p₋) + (1 - u uᴴ) da v / s     dv = v (f * p₊ - h * p₋) + (1 - v vᴴ) daᴴ u / s

If singular values are equal (up to the rounding error of the matrix), their vectors have no derivatives, and a gradient
through them is nan.  Gradients through the values are right all the same (see `eigen`).  For complex matrices the
imaginary part of p's diagonal is a change of phase, which is given to u alone.
Sources: Townsend, "Differentiating the singular value decomposition" (2016); for the pseudo-inverse Golub and Pereyra,
"The differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate" (1973).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...errors import ShapeError, located
from ...tape import constant, record
from ...tensor import Tensor
from ..arithmetic import conjugated, mul0, real_part
from ..conditions import where
from ..conversion import cast_to
from ..declare import number
from ..joining import joined
from ..primitive import added, spread_to, zero_of
from ..reductions import summed
from ..shaping import reshaped
from ..slicing import part
from ..template import public
from .eigen import (
    Gaps,
    change_by_singular_values,
    diagonal_of,
    diagonal_row,
    nan_where,
    outside,
    scaled_by,
    spectral_operations,
    sum_of_all,
    sum_of_columns,
)  # fmt: skip
from .factorization import completed
from .matrices import adjoint, given_hermitian, identity, matrices, matrix_op, matrix_rule, of_finite, scaled_matrices


def _stacked(a: np.ndarray) -> np.ndarray:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.concatenate([u, s[..., None, :], vh.swapaxes(-1, -2).conj()], axis=-2)


def parts(y: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(u, the row of singular values, v), which lie one below the other in the decomposition y of a."""
    axis, m = y.ndim - 2, a.shape[-2]
    return part(y, axis, 0, m), part(y, axis, m, m + 1), part(y, axis, m + 1, y.shape[-2])


def _skew(x: Tensor) -> Tensor:
    return x - adjoint(x)


def _vjp(y_bar, y, a):
    m, n = a.shape[-2:]
    (u_bar, s_bar, v_bar), (u, s, v) = parts(y_bar, a), parts(y, a)
    gaps, cotangent_sizes = Gaps(s), sum_of_columns(joined((u_bar, v_bar), y.ndim - 2))
    of_u, of_v = _skew(adjoint(u) @ u_bar), _skew(adjoint(v) @ v_bar)
    even, odd = (of_u + of_v) * 0.5, (of_u - of_v) * 0.5
    inside = gaps.over_differences(even) + cast_to(nan_where(cotangent_sizes, gaps.near), s.dtype)
    inside = inside + gaps.over_sums(odd - diagonal_of(odd))
    if a.dtype.kind == "c":
        inside = inside + gaps.over_values(diagonal_of(of_u * 0.5))
    a_bar = u @ inside @ adjoint(v)
    if m > n:
        a_bar = a_bar + gaps.over_values(outside(u_bar, u)) @ adjoint(v)
    if n > m:
        a_bar = a_bar + u @ adjoint(gaps.over_values(outside(v_bar, v)))
    return (a_bar + record(_pulled, (scaled_by(u, s_bar, v), a, y, s_bar)),)


def _jvp(dxs, y, a):
    (da,), (m, n) = dxs, a.shape[-2:]
    u, s, v = parts(y, a)
    gaps, moved = Gaps(s), da @ v
    p = adjoint(u) @ moved
    even, odd = (p + adjoint(p)) * 0.5, _skew(p) * 0.5
    both = gaps.over_differences(even) + cast_to(nan_where(sum_of_all(p), gaps.near), s.dtype)
    odd_part = gaps.over_sums(odd - diagonal_of(odd))
    turn = both + odd_part
    if a.dtype.kind == "c":
        turn = turn + gaps.over_values(diagonal_of(odd))
    du, dv = u @ turn, v @ (both - odd_part)
    if m > n:
        du = du + gaps.over_values(outside(moved, u))
    if n > m:
        dv = dv + gaps.over_values(outside(adjoint(da) @ u, v))
    return joined((du, diagonal_row(p), dv), y.ndim - 2)


def gradient_change(a: Tensor, y: Tensor, g: Tensor, change: Tensor, is_fixed: bool) -> tuple[Tensor, Tensor]:
    """(the change of u diag(g) vᴴ if a changes by `change`, uᴴ change v): see `spectral_operations`."""
    m, n = a.shape[-2:]
    u, s, v = parts(y, a)
    gaps, moved = Gaps(s), change @ v
    p = adjoint(u) @ moved
    found = u @ change_by_singular_values(gaps, g, p, is_fixed) @ adjoint(v)
    if m != n:
        outer_part = outside(moved, u) if m > n else outside(adjoint(change) @ u, v)
        turned = mul0(outer_part, gaps.over_values(g))
        if not is_fixed:
            turned = turned + nan_where(outer_part, gaps.tiny)
        found = found + (turned @ adjoint(v) if m > n else u @ adjoint(turned))
    return found, p


_pulled, _values = spectral_operations("svd_pulled", "singular_values", parts, gradient_change)

#: The result is u, the row of singular values and v, one below the other: see `parts`.
_svd = matrix_op(
    "svd",
    lambda a: of_finite(_stacked, a),
    lambda m, n: (m + 1 + n, min(m, n)),
    vjp=_vjp,
    jvp=_jvp,
)


class SVDResult(NamedTuple):
    """The result of `svd`: (U * S) @ Vh = a."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _decomposed(name: str, a: Any) -> tuple[Tensor, Tensor, Tensor]:
    a = matrices(name, a)
    y = record(_svd, (a,))
    u, s, v = parts(y, a)
    values = reshaped(real_part(s), (*s.shape[:-2], s.shape[-1]))
    return u, record(_values, (values, a, y)), v


@public(1)
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    """Singular values, in falling order, and orthonormal singular vectors: (U * S) @ Vh = a.

    a: T[..., m, n]  →  (U: T[..., m, k], S: f[..., k], Vh: T[..., k, n])     k = min(m, n); integers give float64

    full_matrices   True: k is m for U, n for Vh; the further vectors are arbitrary, a gradient through them an error
    compute_uv      False: return S alone

    A pair of vectors is determined up to a common sign (complex: phase); a function that depends on this choice has no
    meaningful gradient.  Vectors of equal singular values have the gradient nan; the values have a first derivative.
    A matrix with nan or infinities gives nan.  Raises ShapeError for less than two axes; GradientError for a gradient
    through all vectors of a matrix that is not square.

    hermitian   True: the symmetric (Hermitian) part of a is taken

    >>> ad.linalg.svd([[3.0, 0.0], [0.0, 4.0]]).S
    f64[2] [4. 3.]
    """
    u, s, v = _decomposed("svd", given_hermitian("svd", a, hermitian))
    if not compute_uv:
        return s
    if full_matrices:
        u, v = completed(u), completed(v)
    return SVDResult(u, s, adjoint(v))


@public(1)
def svdvals(a):
    """The singular values of matrices, in falling order.   T[..., m, n]  →  f[..., min(m, n)]

    The gradient of a value of 0, which is a kink, is that of one side.  Second derivatives are nan if they depend on
    how the function treats equal values.
    Raises ShapeError for less than two axes.

    >>> ad.linalg.svdvals([[3.0, 0.0], [4.0, 0.0]])
    f64[2] [5. 0.]
    """
    return _decomposed("svdvals", a)[1]


def _pinv_vjp(y_bar, y, a, *, tolerance):
    turned, adj = adjoint(y), adjoint(y_bar)
    a_bar = -(turned @ y_bar @ turned)
    left = adj @ y @ turned
    right = turned @ (y @ adj)
    a_bar = a_bar + (left - a @ (y @ left))
    return (a_bar + (right - right @ y @ a),)


_pinv = matrix_op(
    "pinv",
    lambda a, *, tolerance: of_finite(lambda x: np.linalg.pinv(x, tolerance), a),
    lambda m, n: (n, m),
    params=("tolerance",),
    vjp=_pinv_vjp,
)


def tolerance(a: Tensor, given: float | None) -> float:
    """The limit, relative to the largest singular value, up to which singular values count as zero."""
    return float(max(a.shape[-2:]) * np.finfo(a.dtype).eps) if given is None else number(given, "pinv", "rcond")


@public(1, _pinv)
def pinv(a, rcond=None, hermitian=False, *, rtol=None):
    """The pseudo-inverse of each matrix.   T[..., m, n]  →  T[..., n, m]     float or complex; integers give float64

    rcond   singular values up to rcond times the largest count as zero; None: max(m, n) times the epsilon of a's dtype

    The gradient assumes that the rank does not change.  A matrix with nan or infinities gives nan.
    Raises ShapeError for less than two axes.

    hermitian   True: the symmetric (Hermitian) part of a is taken; rtol   another name of rcond

    >>> ad.linalg.pinv([[2.0], [0.0]])
    f64[1,2] [[0.5 0. ]]
    """
    if rcond is not None and rtol is not None:
        raise ValueError(located("pinv: rcond and rtol are two names of one thing; give one"))
    a = matrices("pinv", given_hermitian("pinv", a, hermitian))
    return record(_pinv, (a,), (tolerance(a, rcond if rtol is None else rtol),))


# ---------------------------------------------------------------- norms that are sums of singular values
#
#     |a| = sum(g s)     d|a| = sum(g re diag(uᴴ da v))     for known slopes g: 1, or 0, or shared by equal values
#
# So the gradient is u diag(g) vᴴ, and its change has a limit at equal values that do not share a slope (see `eigen`).
# At a kink (equal values that share a slope, or a value of 0 whose slope is not 0) the gradient lies between those of
# the sides, as for `max` and `abs`, and second derivatives are nan.


def _known_slopes(s: Tensor, slopes: Tensor) -> Tensor:
    """The slopes, replaced by nan for singular values of 0 whose slope is not 0."""
    is_kink = Gaps(s).tiny & (real_part(slopes) != zero_of(real_part(slopes).dtype))
    return where(is_kink, constant(np.nan, s.dtype), slopes)


def _gradient(seed: Tensor, a: Tensor, y: Tensor, shares: Tensor, slopes: Tensor) -> Tensor:
    """The seed times u diag(shares) vᴴ, without the shares of zero values: exact zeros, or several tiny ones."""
    u, s, v = parts(y, a)
    is_zero = (s == zero_of(s.dtype)) | (Gaps(s).tiny & (slopes != slopes))
    row = where(is_zero, zero_of(s.dtype), shares)
    return record(_norm_pulled, (scaled_matrices(cast_to(seed, a.dtype), scaled_by(u, row, v)), seed, a, y, slopes))


def _norm_pulled_vjp(c, _, value, seed, a, y, slopes):
    moved, p = gradient_change(a, y, slopes, c, True)
    by_values = mul0(diagonal_row(p), _known_slopes(parts(y, a)[1], slopes))
    seed_bar = summed(real_part(by_values), (p.ndim - 2, p.ndim - 1))
    return (None, seed_bar, scaled_matrices(cast_to(seed, a.dtype), moved), None, None)


def _norm_pulled_jvp(dxs, _, value, seed, a, y, slopes):
    _, dseed, da, _, _ = dxs
    by_a = None if da is None else scaled_matrices(cast_to(seed, a.dtype), gradient_change(a, y, slopes, da, True)[0])
    if dseed is None:
        return by_a
    u, s, v = parts(y, a)
    by_seed = scaled_matrices(cast_to(dseed, a.dtype), scaled_by(u, _known_slopes(s, slopes), v))
    return added(by_a, by_seed)


#: The gradient of a norm; inputs: its value, the seed, a, the decomposition of a, slopes (nan for values that share).
_norm_pulled = matrix_rule("norm_pulled", _norm_pulled_vjp, jvp=_norm_pulled_jvp)


def _norm_jvp(dxs, _, value, a, y, shares, slopes):
    one = spread_to(constant(1.0, value.dtype), value.shape)
    products = conjugated(_gradient(one, a, y, shares, slopes)) * dxs[1]
    return real_part(summed(products, (a.ndim - 2, a.ndim - 1)))


#: A norm; inputs: its value, a, the decomposition of a, each value's share of the gradient, slopes of `_norm_pulled`.
_norm = matrix_rule(
    "spectral_norm",
    lambda y_bar, _, value, a, y, shares, slopes: (None, _gradient(y_bar, a, y, shares, slopes), None, None, None),
    jvp=_norm_jvp,
)


def spectral_norm(a: Tensor, ord: Any) -> Tensor:
    """The largest singular value of each matrix (ord 2), the smallest (-2), or the sum of all ("nuc").

    Raises ShapeError for 2 and -2 of matrices without elements, which have no singular values.
    """
    if ord != "nuc" and 0 in a.shape[-2:]:
        raise ShapeError(located(f"norm: {a.aval} is of matrices without elements, which have no singular values"))
    y = record(_svd, (a,))
    _, s, _ = parts(y, a)
    row = real_part(s)
    if ord == "nuc":
        value = summed(row, (row.ndim - 2, row.ndim - 1))
        shares = slopes = spread_to(constant(1.0, s.dtype), s.shape)
    else:
        at = 0 if ord == 2 else row.shape[-1] - 1
        value = reshaped(part(row, row.ndim - 1, at, at + 1), row.shape[:-2])
        equals = part(cast_to(Gaps(s).near, row.dtype) + identity(row), row.ndim - 2, at, at + 1)
        count = reshaped(summed(equals, (row.ndim - 1,)), (*row.shape[:-1], 1))
        shares = cast_to(equals / count, s.dtype)
        slopes = where(shares * shares == shares, shares, constant(np.nan, s.dtype))
    return record(_norm, (value, a, y, shares, slopes))
