"""Eigenvalues and eigenvectors of symmetric, or Hermitian, matrices; derivatives of functions of these.

A symmetric function f of eigenvalues, or of singular values, is smooth even if some values are equal, although the
vectors are not.  With the slopes g = df/ds,

    a = u diag(s) vᴴ     df/da = u diag(g) vᴴ     p = uᴴ da v = p₊ + p₋, its Hermitian and skew parts
    d(df/da) = u (A * p₊ + B * p₋ + diag(dg)) vᴴ     A[i,j] = (g[j] - g[i]) / (s[j] - s[i])     B with + for both -

and for a Hermitian matrix the same with u = v, where p has no skew part.  For two equal values A is 0 / 0: the limit
is known if the slopes do not depend on the values (norms); else A is nan, and A * p₊ is nan unless p₊ is 0.  Values
that differ by less than the rounding error of the matrix count as equal.
Source: Lewis and Sendov, "Twice differentiable spectral functions", SIAM J. Matrix Anal. 23 (2001).

Eigenvalues and vectors are one operation, so that a matrix is decomposed once; its result is w, a row, above v:

    a v = v diag(w)     dw = diag(vᴴ da v)     dv = v (f * (vᴴ da v))     f[i,j] = 1 / (w[j] - w[i]), 0 where i = j

If eigenvalues are equal (up to the rounding error of the matrix), their vectors have no derivatives, and a gradient
through these vectors is nan.  Gradients through eigenvalues, and through the other vectors, are right all the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codegen.records import NamedTuple

from ...errors import located
from ...tape import DETACH, constant, record
from ...tensor import Tensor
from ..arithmetic import abs_, mul0, real_part
from ..conditions import where
from ..conversion import cast_to
from ..creation import eye
from ..diagonals import tril, triu
from ..extremes import max_, safe_scaling
from ..joining import joined
from ..primitive import OwnPrimitive, added, spread_to, zero_of
from ..reductions import summed
from ..shaping import reshaped
from ..slicing import part
from ..template import public
from .matrices import adjoint, hermitian_part, identity, matrix_op, matrix_rule, refusing, shaped, square

# ---------------------------------------------------------------- functions of eigenvalues and singular values


def scaled_by(u: Tensor, row: Tensor, v: Tensor) -> Tensor:
    """u diag(row) vᴴ."""
    return (u * row) @ adjoint(v)


def spectral_operations(
    pulled_name: str,
    values_name: str,
    parts: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]],
    gradient_change: Callable[[Tensor, Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor]],
) -> tuple[OwnPrimitive, OwnPrimitive]:
    """Declare two operations on matrices a with a decomposition y: (pulled, values).

    pulled(u diag(g) vᴴ, a, y, g) returns its first input, the gradient of a function of the values with slopes g, a
    row; values(s, a, y) returns the values.  Their rules need no derivative of a vector, so equal values do not matter.

    parts             parts(y, a) -> u, the row of values, v
    gradient_change   gradient_change(a, y, g, da, is_fixed) -> the gradient's change if a changes by da, uᴴ da v"""

    def together(a, y, row):
        u, _, v = parts(y, a)
        return scaled_by(u, row, v)

    def pulled_vjp(c, _, value, a, y, g):
        """The change of the gradient is a symmetric linear map of the change of a, so it is its own transpose."""
        a_bar, p = gradient_change(a, y, g, c, not g.requires_grad)
        return (None, a_bar, None, diagonal_row(p))

    def pulled_jvp(dxs, _, value, a, y, g):
        _, da, _, dg = dxs
        by_a = None if da is None else gradient_change(a, y, g, da, dg is None)[0]
        return added(by_a, None if dg is None else together(a, y, dg))

    def values_vjp(bar, _, value, a, y):
        row = cast_to(reshaped(bar, (*bar.shape[:-1], 1, bar.shape[-1])), a.dtype)
        return (None, record(pulled, (together(a, y, row), a, y, row)), None)

    def values_jvp(dxs, values, _, a, y):
        u, _, v = parts(y, a)
        return reshaped(real_part(diagonal_row(adjoint(u) @ dxs[1] @ v)), values.shape)

    pulled = matrix_rule(pulled_name, pulled_vjp, jvp=pulled_jvp)
    return pulled, matrix_rule(values_name, values_vjp, jvp=values_jvp)


def column(row: Tensor) -> Tensor:
    """A row [..., 1, n] as a column [..., n, 1]."""
    return reshaped(row, (*row.shape[:-2], row.shape[-1], 1))


def diagonal_of(row: Tensor) -> Tensor:
    """The diagonal matrices with these rows on their diagonals."""
    return row * identity(row)


def diagonal_row(x: Tensor) -> Tensor:
    """The real part of each matrix's diagonal, as a row in x's dtype."""
    row = summed(x * identity(x), (x.ndim - 2,))
    return cast_to(real_part(reshaped(row, (*x.shape[:-2], 1, x.shape[-1]))), x.dtype)


def outside(x: Tensor, u: Tensor) -> Tensor:
    """x without its projection on the span of the orthonormal columns u."""
    return x - u @ (adjoint(u) @ x)


class Gaps:
    """The differences and sums of the values s, a row of each matrix.  s is scaled, so that no quotient overflows.

    near   at [i, j]: True if s[i] and s[j] differ by no more than the rounding error of the matrix; False for i = j
    tiny   a row: True for a value no larger than this rounding error
    """

    def __init__(self, values: Tensor) -> None:
        row = real_part(values)
        n, dtype = row.shape[-1], row.dtype
        still = abs_(record(DETACH, (row,)))
        top = max_(still, -1, keepdims=True) if n else still
        self._scale, _ = safe_scaling(top)
        self._row = row * self._scale
        self._limit = top * self._scale * (n * float(np.finfo(dtype).eps))
        self._differences = self._row - column(self._row)
        self._is_near = abs_(self._differences) <= self._limit
        self.near = self._is_near & ~eye(n, dtype=np.dtype(bool))
        self.tiny = abs_(self._row) <= self._limit

    def over_differences(self, x: Tensor) -> Tensor:
        """x[i, j] / (s[j] - s[i]); 0 if the two values are near."""
        return self._over(x, self._differences, self._is_near)

    def over_sums(self, x: Tensor) -> Tensor:
        """x[i, j] / (s[j] + s[i]); if both values are tiny, nan, or 0 for an x of 0."""
        sums = self._row + column(self._row)
        return self._over(x, sums, sums <= self._limit, is_known=False)

    def over_values(self, x: Tensor) -> Tensor:
        """x[i, j] / s[j]; if the value is tiny, nan, or 0 for an x of 0."""
        return self._over(x, self._row, self.tiny, is_known=False)

    def _over(self, x: Tensor, by: Tensor, is_none: Tensor, is_known: bool = True) -> Tensor:
        over = self._scale / where(is_none, 1.0, by)
        return mul0(x, cast_to(where(is_none, 0.0 if is_known else constant(np.nan, by.dtype), over), x.dtype))


def nan_where(x: Tensor, condition: Tensor) -> Tensor:
    """nan at elements where `condition` is True and x is not 0, else 0."""
    real = real_part(x).dtype
    return mul0(x, cast_to(where(condition, constant(np.nan, real), zero_of(real)), x.dtype))


def sum_of_columns(x: Tensor) -> Tensor:
    """At [i, j] the sum of |x| over columns i and j, without a gradient."""
    sizes = summed(abs_(record(DETACH, (x,))), (x.ndim - 2,))
    row = reshaped(sizes, (*x.shape[:-2], 1, x.shape[-1]))
    return row + column(row)


def sum_of_all(x: Tensor) -> Tensor:
    """At each element the sum of |x| over its square matrix, without a gradient."""
    sizes = summed(abs_(record(DETACH, (x,))), (x.ndim - 2, x.ndim - 1))
    return spread_to(reshaped(sizes, (*x.shape[:-2], 1, 1)), x.shape)


def change_by_eigenvalues(gaps: Gaps, g: Tensor, p: Tensor, is_fixed: bool) -> Tensor:
    """A * p for Hermitian matrices and slopes g, a row.  `is_fixed`: g does not depend on the values."""
    row = real_part(g)
    found = mul0(p, cast_to(gaps.over_differences(row - column(row)), p.dtype))
    return found + nan_where(p, _not_known(gaps, row, is_fixed))


def _not_known(gaps: Gaps, row: Tensor, is_fixed: bool) -> Tensor:
    """True at elements where A has no known limit: at near values; if slopes are fixed, only where they differ."""
    return gaps.near & (row != column(row)) if is_fixed else gaps.near


def change_by_singular_values(gaps: Gaps, g: Tensor, p: Tensor, is_fixed: bool) -> Tensor:
    """A * p₊ + B * p₋ for slopes g, a row.  `is_fixed`: g does not depend on the values.

    A singular value of 0 is a kink, like |x| at 0: if its slope is not 0, the terms with this value are nan.
    """
    row, turned = real_part(g), adjoint(p)
    even, odd = (p + turned) * 0.5, (p - turned) * 0.5
    found = mul0(even, cast_to(gaps.over_differences(row - column(row)), p.dtype))
    found = found + mul0(odd, cast_to(gaps.over_sums(row + column(row)), p.dtype))
    sizes = abs_(row)
    few = summed(sizes, (row.ndim - 1,)) * float(np.finfo(row.dtype).eps) ** 0.5
    bent = gaps.tiny & (sizes > reshaped(few, (*row.shape[:-1], 1)))
    found = found + nan_where(p, bent | column(bent))
    found = found + nan_where(even, _not_known(gaps, row, is_fixed))
    return found if is_fixed else found + nan_where(odd, gaps.tiny & column(gaps.tiny))


# ---------------------------------------------------------------- eigenvalues and eigenvectors


def _reference(a: np.ndarray) -> np.ndarray:
    w, v = np.linalg.eigh(a)
    return np.concatenate([w[..., None, :], v], axis=-2)


def _parts(y: Tensor, _: object = None) -> tuple[Tensor, Tensor, Tensor]:
    """(v, the row of eigenvalues, v), as `spectral_operations` expects: the left and right vectors are the same."""
    n = y.shape[-1]
    row, v = part(y, y.ndim - 2, 0, 1), part(y, y.ndim - 2, 1, n + 1)
    return v, row, v


def _vjp(y_bar, y, a):
    (v_bar, w_bar, _), (v, w, _) = _parts(y_bar), _parts(y)
    gaps = Gaps(w)
    inside = gaps.over_differences(adjoint(v) @ v_bar) + nan_where(sum_of_columns(v_bar), gaps.near)
    by_vectors = v @ inside @ adjoint(v)
    return (record(_pulled, (scaled_by(v, w_bar, v), a, y, w_bar)) + by_vectors,)


def _jvp(dxs, y, a):
    v, w, _ = _parts(y)
    gaps, inside = Gaps(w), adjoint(v) @ dxs[0] @ v
    dv = v @ (gaps.over_differences(inside) + nan_where(sum_of_all(inside), gaps.near))
    return joined((diagonal_row(inside), dv), y.ndim - 2)


def _gradient_change(a: Tensor, y: Tensor, g: Tensor, change: Tensor, is_fixed: bool) -> tuple[Tensor, Tensor]:
    v, w, _ = _parts(y)
    inside = adjoint(v) @ change @ v
    return v @ change_by_eigenvalues(Gaps(w), g, inside, is_fixed) @ adjoint(v), inside


_pulled, _values = spectral_operations("eigh_pulled", "eigh_values", _parts, _gradient_change)

_eigh = matrix_op(
    "eigh",
    refusing(
        "eigh", _reference, "one whose eigenvalues do not converge",
        "look for very large and very small elements side by side, and scale the matrix",
    ),
    infer=shaped("eigh", lambda n, _: (n + 1, n), is_square=True),
    vjp=_vjp,
    jvp=_jvp,
)


class EighResult(NamedTuple):
    """The result of `eigh`: a @ eigenvectors = eigenvectors * eigenvalues."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _decomposed(name: str, a: object, UPLO: str | None) -> tuple[Tensor, Tensor]:
    a = hermitian_part(square(name, a, "fc") if UPLO is None else _triangle(name, a, UPLO))
    y = record(_eigh, (a,))
    v, w, _ = _parts(y)
    return record(_values, (reshaped(real_part(w), (*w.shape[:-2], w.shape[-1])), a, y)), v


@public(1)
def eigh(a, UPLO: str | None = None) -> EighResult:
    """Eigenvalues, in rising order, and orthonormal eigenvectors, as columns, of symmetric or Hermitian matrices.

    a: T[..., n, n]  →  (eigenvalues: f[..., n], eigenvectors: T[..., n, n])     integers and bool give float64

    The symmetric (Hermitian) part of a is taken, and the gradient of a is symmetric (Hermitian), too.  A vector is
    determined only up to its sign (a complex one up to its phase); a function that depends on this choice has no
    meaningful gradient.  Vectors of equal eigenvalues have the gradient nan; the eigenvalues have a first derivative.
    A matrix with nan gives nan.  Raises ShapeError for matrices that are not square; LinAlgError if LAPACK does not
    converge, when the value is computed.

    UPLO   None: the symmetric part of a;  "L" or "U": only this triangle is read, and has the gradient

    >>> ad.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues
    f64[2] [1. 2.]
    """
    return EighResult(*_decomposed("eigh", a, UPLO))


@public(1)
def eigvalsh(a, UPLO: str | None = None):
    """The eigenvalues of symmetric or Hermitian matrices, in rising order.   T[..., n, n]  →  f[..., n]

    The symmetric part of a is taken, as by `eigh`.  The derivative of one of several equal eigenvalues follows the
    vector that LAPACK chose; for their sum, and any function that is symmetric in them, it does not depend on this.
    Second derivatives are nan if they depend on how the function treats equal eigenvalues.
    Raises ShapeError for matrices that are not square.

    UPLO   None: the symmetric part of a;  "L" or "U": only this triangle is read, and has the gradient

    >>> ad.linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]])
    f64[2] [1. 3.]
    """
    return _decomposed("eigvalsh", a, UPLO)[0]


def _triangle(name: str, a: object, UPLO: str) -> Tensor:
    """The Hermitian matrices whose lower, or upper, triangle is that of a."""
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueError(located(f"{name}: UPLO is 'L' or 'U', not {UPLO!r}"))
    a = square(name, a, "fc")
    half = triu(a, 1) if UPLO in "Uu" else tril(a, -1)
    return half + adjoint(half) + diagonal_of(cast_to(real_part(a), a.dtype))
