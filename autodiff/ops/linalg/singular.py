"""Singular values and vectors, the pseudo-inverse, and least squares.

The decomposition is one operation, so a matrix is decomposed once: its result has u, the row of singular values, and v
one below the other.

    a = u diag(s) vᴴ     p = uᴴ da v     ds = re diag(p)     f[i,j] = 1 / (s[j]² - s[i]²), 0 where i = j
    du = u (f * (p s + s pᴴ)) + (1 - u uᴴ) da v / s     dv = v (f * (s p + pᴴ s)) + (1 - v vᴴ) daᴴ u / s

Of equal singular values the vectors have no derivatives: f is infinite there, and meets what does not want it as a
strong zero, as in `eigen`.  Of complex numbers u alone turns with the imaginary part of p's diagonal.
Sources: Townsend, "Differentiating the singular value decomposition" (2016); of the pseudo-inverse, Golub and Pereyra,
"The differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate" (1973).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Call, Decompose

from ...custom import function
from ...errors import ShapeError, caller
from ...tape import record
from ...tensor import Tensor
from ..arguments import records
from ..arithmetic import abs_, add, divide, mul0, multiply, negative, subtract
from ..batching import along
from ..comparison import greater
from ..complexes import real_part
from ..contraction import matmul
from ..conversion import cast_to
from ..creation import eye
from ..joining import joined
from ..primitive import expect, primitive
from ..promotion import common
from ..reductions import max_, summed
from ..shaping import reshaped
from ..slicing import part
from .complement import completed
from .matrices import adjoint, matrices

__all__ = ["LstsqResult", "SVDResult", "lstsq", "pinv", "svd", "svdvals"]


def _of_sound(run: Callable[[np.ndarray], np.ndarray], a: np.ndarray) -> np.ndarray:
    """What NumPy finds for finite matrices, nan for the others, of which LAPACK would find nothing."""
    is_sound = np.isfinite(a).all((-1, -2), keepdims=True)
    if is_sound.all():
        return run(a)
    return np.where(is_sound, run(np.where(is_sound, a, a.dtype.type(0))), a.dtype.type(np.nan))


# ---------------------------------------------------------------- decomposition


def _stacked(a: np.ndarray) -> np.ndarray:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.concatenate([u, s[..., None, :].astype(a.dtype), vh.swapaxes(-1, -2).conj()], axis=-2)


def _infer(a: Aval) -> Aval:
    expect("svd", (a,), "fc")
    *batch, m, n = a.shape
    return a.with_shape((*batch, m + 1 + n, min(m, n)))


def _apart(y: Tensor, m: int) -> tuple[Tensor, Tensor, Tensor]:
    """u, of m rows, the row of singular values, and v."""
    axis, rows = y.ndim - 2, y.shape[-2]
    return part(y, axis, 0, m), part(y, axis, m, m + 1), part(y, axis, m + 1, rows)


def _identity(x: Tensor) -> Tensor:
    return eye(x.shape[-1], dtype=x.dtype)


def _column(row: Tensor) -> Tensor:
    return reshaped(row, (*row.shape[:-2], row.shape[-1], 1))


def _inverse_gaps(s: Tensor) -> Tensor:
    """f, from the row of singular values."""
    row = real_part(s)
    column, same = _column(row), _identity(row)
    gaps = add(multiply(subtract(row, column), add(row, column)), same)
    return cast_to(divide(subtract(1.0, same), gaps), s.dtype)


def _skew(x: Tensor) -> Tensor:
    return subtract(x, adjoint(x))


def _outside(x: Tensor, u: Tensor) -> Tensor:
    """What of x's columns u does not span."""
    return subtract(x, matmul(u, matmul(adjoint(u), x)))


def _vjp(y_bar, y, a):
    m, n = a.shape[-2:]
    (u_bar, s_bar, v_bar), (u, s, v) = _apart(y_bar, m), _apart(y, m)
    gaps, over = _inverse_gaps(s), divide(1.0, s)
    of_u, of_v = _skew(matmul(adjoint(u), u_bar)), _skew(matmul(adjoint(v), v_bar))
    inside = add(mul0(multiply(of_u, s), gaps), mul0(multiply(_column(s), of_v), gaps))
    inside = add(inside, multiply(cast_to(real_part(s_bar), s.dtype), _identity(s)))
    if a.dtype.kind == "c":
        inside = add(inside, mul0(multiply(multiply(of_u, _identity(s)), 0.5), over))
    a_bar = matmul(matmul(u, inside), adjoint(v))
    if m > n:
        a_bar = add(a_bar, matmul(mul0(_outside(u_bar, u), over), adjoint(v)))
    if n > m:
        a_bar = add(a_bar, matmul(u, adjoint(mul0(_outside(v_bar, v), over))))
    return (a_bar,)


def _jvp(dxs, y, a):
    (da,), (m, n) = dxs, a.shape[-2:]
    u, s, v = _apart(y, m)
    gaps, over = _inverse_gaps(s), divide(1.0, s)
    moved = matmul(da, v)
    p = matmul(adjoint(u), moved)
    by_column, by_row = multiply(p, s), multiply(_column(s), p)
    turn = mul0(add(by_column, adjoint(by_column)), gaps)
    if a.dtype.kind == "c":
        turn = add(turn, mul0(multiply(multiply(_skew(p), _identity(s)), 0.5), over))
    du = matmul(u, turn)
    dv = matmul(v, mul0(add(by_row, adjoint(by_row)), gaps))
    if m > n:
        du = add(du, mul0(_outside(moved, u), over))
    if n > m:
        dv = add(dv, mul0(_outside(matmul(adjoint(da), u), v), over))
    ds = cast_to(real_part(summed(multiply(p, _identity(s)), (p.ndim - 2,))), s.dtype)
    return joined((du, reshaped(ds, s.shape), dv), y.ndim - 2)


_svd = primitive(
    "svd",
    lambda a: _of_sound(_stacked, a),
    infer=_infer,
    vjp=_vjp,
    jvp=_jvp,
    lower=Decompose("svd"),
    batch=along(),
    heavy=True,
    keeps_mask=False,
)


class SVDResult(NamedTuple):
    """(U * S) @ Vh = a."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _decomposed(name: str, a: Any) -> tuple[Tensor, Tensor, Tensor]:
    a = matrices(name, a)
    u, s, v = _apart(record(_svd, (a,)), a.shape[-2])
    return u, reshaped(real_part(s), (*s.shape[:-2], s.shape[-1])), v


@function
def svd(a, full_matrices=True, compute_uv=True):
    """Singular values, in falling order, and orthonormal singular vectors: (U * S) @ Vh = a.

    a: T[..., m, n]  →  (U: T[..., m, k], S: f[..., k], Vh: T[..., k, n])     k = min(m, n); integers give float64

    full_matrices   k is m for U, n for Vh: the further vectors are any, and a gradient through them is an error
    compute_uv      False: S alone

    Vectors are known up to a sign (of complex numbers up to a direction) for both of a pair: what depends on the choice
    has no gradient to speak of.  The vectors of equal singular values have none (nan); the values themselves do, once.
    A matrix with nan or infinities gives nan.  Raises ShapeError for less than two axes; GradientError for a gradient
    through all vectors of a matrix that is not square.

    hermitian   whether the matrices are symmetric, or Hermitian

    >>> import autodiff as ad
    >>> ad.linalg.svd([[3.0, 0.0], [0.0, 4.0]]).S
    f64[2] [4. 3.]
    """
    u, s, v = _decomposed("svd", a)
    if not compute_uv:
        return s
    if full_matrices:
        u, v = completed(u), completed(v)
    return SVDResult(u, s, adjoint(v))


@function
def svdvals(a):
    """The singular values of matrices, in falling order.   T[..., m, n]  →  f[..., min(m, n)]

    As `svd` gives them.  Second derivatives at equal ones are nan: they go through the vectors.
    Raises ShapeError for less than two axes.

    >>> import autodiff as ad
    >>> ad.linalg.svdvals([[3.0, 0.0], [4.0, 0.0]])
    f64[2] [5. 0.]
    """
    return _decomposed("svdvals", a)[1]


# ---------------------------------------------------------------- pseudo-inverse


def _pinv_infer(a: Aval, *, tolerance: float) -> Aval:
    expect("pinv", (a,), "fc")
    *batch, m, n = a.shape
    return a.with_shape((*batch, n, m))


def _pinv_reference(a: np.ndarray, *, tolerance: float) -> np.ndarray:
    return _of_sound(lambda x: np.linalg.pinv(x, tolerance), a)


def _pinv_vjp(y_bar, y, a, *, tolerance):
    turned, adj = adjoint(y), adjoint(y_bar)
    a_bar = negative(matmul(matmul(turned, y_bar), turned))
    left = matmul(matmul(adj, y), turned)
    right = matmul(turned, matmul(y, adj))
    a_bar = add(a_bar, subtract(left, matmul(a, matmul(y, left))))
    return (add(a_bar, subtract(right, matmul(matmul(right, y), a))),)


def _pinv_jvp(dxs, y, a, *, tolerance):
    (da,) = dxs
    turned, adj = adjoint(y), adjoint(da)
    dy = negative(matmul(matmul(y, da), y))
    left = matmul(matmul(y, turned), adj)
    right = matmul(adj, matmul(turned, y))
    dy = add(dy, subtract(left, matmul(matmul(left, a), y)))
    return add(dy, subtract(right, matmul(y, matmul(a, right))))


_pinv = primitive(
    "pinv",
    _pinv_reference,
    infer=_pinv_infer,
    vjp=_pinv_vjp,
    jvp=_pinv_jvp,
    lower=Call(),
    params=("tolerance",),
    batch=along(),
    heavy=True,
    keeps_mask=False,
)


def _tolerance(a: Tensor, given: float | None) -> float:
    return float(max(a.shape[-2:]) * np.finfo(a.dtype).eps) if given is None else float(given)


@records(_pinv)
def pinv(a, rcond=None):
    """The pseudo-inverse of each matrix.   T[..., m, n]  →  T[..., n, m]     float or complex; integers give float64

    rcond   singular values below so many times the largest one count as zero; None: max(m, n) times the rounding of a

    The gradient is that of matrices of the same rank.  A matrix with nan or infinities gives nan.
    Raises ShapeError for less than two axes.

    hermitian   whether the matrices are symmetric, or Hermitian; rtol   another name of rcond

    >>> import autodiff as ad
    >>> ad.linalg.pinv([[2.0], [0.0]])
    f64[1,2] [[0.5 0. ]]
    """
    a = matrices("pinv", a)
    return record(_pinv, (a,), (_tolerance(a, rcond),))


class LstsqResult(NamedTuple):
    """As NumPy has it; the residuals are there whatever the rank is."""

    x: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@function
def lstsq(a, b, rcond=None):
    """The x for which |b - a @ x| is least, of the least norm if there are several.

    a: T[..., m, n]  b: T[..., m, k] or T[m]  →  (x: T[..., n, k] or T[n], residuals: f[..., k], rank: i64[...],
    singular_values: f[..., min(m, n)])

    residuals   the sums of squares of b - a @ x: without an axis for a vector b
    rcond       as of `pinv`; the gradient is that of matrices of the same rank

    Raises ShapeError for matrices that do not fit.

    >>> import autodiff as ad
    >>> ad.linalg.lstsq([[1.0], [1.0]], [1.0, 3.0]).x
    f64[1] [2.]
    """
    a, b = common("lstsq", (("a", a), ("b", b)), "fc")
    a = matrices("lstsq", a)
    is_vector = b.ndim == 1
    if not b.ndim or b.shape[0 if is_vector else -2] != a.shape[-2]:
        raise ShapeError(
            f"lstsq: {a.aval} and {b.aval} have no common size\n"
            f"  called at {caller()}\n"
            f"  the right-hand side has as many rows as the matrix: {a.shape[-2]}"
        )
    columns = reshaped(b, (*b.shape, 1)) if is_vector else b
    x = matmul(pinv(a, rcond), columns)
    rest = abs_(subtract(columns, matmul(a, x)))
    residuals = summed(multiply(rest, rest), (rest.ndim - 2,))
    s = svdvals(a)
    bound = multiply(max_(s, axis=-1, keepdims=True), _tolerance(a, rcond)) if s.shape[-1] else s
    rank = summed(cast_to(greater(s, bound), np.dtype(np.int64)), (s.ndim - 1,))
    if is_vector:
        x, residuals = reshaped(x, x.shape[:-1]), reshaped(residuals, residuals.shape[:-1])
    return LstsqResult(x, residuals, rank, s)
