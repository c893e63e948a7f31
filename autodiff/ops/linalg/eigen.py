"""Eigenvalues and eigenvectors of symmetric, or Hermitian, matrices; derivatives of functions of them.

A symmetric function of eigenvalues, or of singular values, is smooth where values are equal, though their vectors are
not.  With the slopes g = df/ds,

    a = u diag(s) vᴴ     df/da = u diag(g) vᴴ     p = uᴴ da v = p₊ + p₋, its Hermitian and skew parts
    d(df/da) = u (A * p₊ + B * p₋ + diag(dg)) vᴴ     A[i,j] = (g[j] - g[i]) / (s[j] - s[i])     B with + for both -

and of a Hermitian matrix the same with u = v, whose p has no skew part.  Where two values are equal A is 0 / 0: its
limit is known for slopes that do not change with the values (norms), else nan meets p₊ as a strong zero.  Values
that differ by less than the rounding of the matrix count as equal.
Source: Lewis and Sendov, "Twice differentiable spectral functions", SIAM J. Matrix Anal. 23 (2001).

Eigenvalues and vectors are one operation, so a matrix is decomposed once: its result has the values as a row above:

    a v = v diag(w)     dw = diag(vᴴ da v)     dv = v (f * (vᴴ da v))     f[i,j] = 1 / (w[j] - w[i]), 0 where i = j

Of eigenvalues that are equal but for the rounding of the matrix the vectors have no derivatives: what asks for them is
nan.  Eigenvalues, and functions of the vectors of others, have their gradients whatever is equal.
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
from ..extremes import in_range, max_
from ..joining import joined
from ..primitive import OwnPrimitive, added, spread_to, zero_of
from ..reductions import summed
from ..shaping import reshaped
from ..slicing import part
from ..template import public
from .matrices import adjoint, hermitian_part, identity, of_known, of_matrices, refusing, shaped, square

# ---------------------------------------------------------------- functions of eigenvalues and singular values


def scaled_by(u: Tensor, row: Tensor, v: Tensor) -> Tensor:
    """u diag(row) vᴴ."""
    return (u * row) @ adjoint(v)


def of_values(
    pulled_name: str,
    values_name: str,
    apart: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]],
    moved: Callable[[Tensor, Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor]],
) -> tuple[OwnPrimitive, OwnPrimitive]:
    """Of matrices a with a decomposition y, and a function of their values whose slopes are g, a row: two operations.

    The gradient u diag(g) vᴴ, from it, a, y and g; and the values, from them, a and y: they have their derivatives
    where the vectors have none.

    apart   apart(y, a): u, the row of values, v
    moved   moved(a, y, g, change, is_fixed): the change of the gradient with a, and uᴴ change v
    """

    def together(a, y, row):
        u, _, v = apart(y, a)
        return scaled_by(u, row, v)

    def pulled_vjp(c, _, value, a, y, g):
        """The change is a symmetric linear map: it is its own transpose."""
        a_bar, p = moved(a, y, g, c, not g.requires_grad)
        return (None, a_bar, None, diagonal_row(p))

    def pulled_jvp(dxs, _, value, a, y, g):
        _, da, _, dg = dxs
        by_a = None if da is None else moved(a, y, g, da, dg is None)[0]
        return added(by_a, None if dg is None else together(a, y, dg))

    def values_vjp(bar, _, value, a, y):
        row = cast_to(reshaped(bar, (*bar.shape[:-1], 1, bar.shape[-1])), a.dtype)
        return (None, record(pulled, (together(a, y, row), a, y, row)), None)

    def values_jvp(dxs, values, _, a, y):
        u, _, v = apart(y, a)
        return reshaped(real_part(diagonal_row(adjoint(u) @ dxs[1] @ v)), values.shape)

    pulled = of_known(pulled_name, pulled_vjp, jvp=pulled_jvp)
    return pulled, of_known(values_name, values_vjp, jvp=values_jvp)


def column(row: Tensor) -> Tensor:
    """A row of each matrix as a column."""
    return reshaped(row, (*row.shape[:-2], row.shape[-1], 1))


def diagonal_of(row: Tensor) -> Tensor:
    """The matrices that have a row on their diagonal."""
    return row * identity(row)


def diagonal_row(x: Tensor) -> Tensor:
    """The real part of each diagonal as a row, in the same dtype."""
    row = summed(x * identity(x), (x.ndim - 2,))
    return cast_to(real_part(reshaped(row, (*x.shape[:-2], 1, x.shape[-1]))), x.dtype)


def outside(x: Tensor, u: Tensor) -> Tensor:
    """The part of x's columns that the orthonormal columns u do not span."""
    return x - u @ (adjoint(u) @ x)


class Gaps:
    """The differences and sums of the values of each matrix, which are a row.  No quotient leaves the range on the way.

    near   where two values differ by no more than the rounding of the matrix, the diagonal left out
    tiny   where a value is no larger than that, as a row
    """

    def __init__(self, values: Tensor) -> None:
        row = real_part(values)
        n, dtype = row.shape[-1], row.dtype
        still = abs_(record(DETACH, (row,)))
        top = max_(still, -1, keepdims=True) if n else still
        self._scale, _ = in_range(top)
        self._row = row * self._scale
        self._limit = top * self._scale * (n * float(np.finfo(dtype).eps))
        self._differences = self._row - column(self._row)
        self._is_near = abs_(self._differences) <= self._limit
        self.near = self._is_near & ~eye(n, dtype=np.dtype(bool))
        self.tiny = abs_(self._row) <= self._limit

    def over_differences(self, x: Tensor) -> Tensor:
        """x[i, j] / (s[j] - s[i]), 0 where they are near."""
        return self._over(x, self._differences, self._is_near)

    def over_sums(self, x: Tensor) -> Tensor:
        """x[i, j] / (s[j] + s[i]); where both are tiny nan, and 0 for 0."""
        sums = self._row + column(self._row)
        return self._over(x, sums, sums <= self._limit, is_known=False)

    def over_values(self, x: Tensor) -> Tensor:
        """x[i, j] / s[j]; where it is tiny nan, and 0 for 0."""
        return self._over(x, self._row, self.tiny, is_known=False)

    def _over(self, x: Tensor, by: Tensor, is_none: Tensor, is_known: bool = True) -> Tensor:
        over = self._scale / where(is_none, 1.0, by)
        return mul0(x, cast_to(where(is_none, 0.0 if is_known else constant(np.nan, by.dtype), over), x.dtype))


def unknown(x: Tensor, condition: Tensor) -> Tensor:
    """Nan where a condition holds and x is not 0, else 0."""
    real = real_part(x).dtype
    return mul0(x, cast_to(where(condition, constant(np.nan, real), zero_of(real)), x.dtype))


def of_columns(x: Tensor) -> Tensor:
    """The sizes of all elements in columns i and j, added, at [i, j]: numbers without a gradient."""
    sizes = summed(abs_(record(DETACH, (x,))), (x.ndim - 2,))
    row = reshaped(sizes, (*x.shape[:-2], 1, x.shape[-1]))
    return row + column(row)


def of_all(x: Tensor) -> Tensor:
    """The sizes of all elements of each square matrix, added, at every place: a number without a gradient."""
    sizes = summed(abs_(record(DETACH, (x,))), (x.ndim - 2, x.ndim - 1))
    return spread_to(reshaped(sizes, (*x.shape[:-2], 1, 1)), x.shape)


def moved_by_eigenvalues(gaps: Gaps, g: Tensor, p: Tensor, is_fixed: bool) -> Tensor:
    """A * p for Hermitian matrices and the slopes g, a row.  `is_fixed`: they do not change with the values."""
    row = real_part(g)
    found = mul0(p, cast_to(gaps.over_differences(row - column(row)), p.dtype))
    return found + unknown(p, _not_known(gaps, row, is_fixed))


def _not_known(gaps: Gaps, row: Tensor, is_fixed: bool) -> Tensor:
    """The places where A has no limit, or none that is known: of fixed slopes it is 0 where they are the same."""
    return gaps.near & (row != column(row)) if is_fixed else gaps.near


def moved_by_singular_values(gaps: Gaps, g: Tensor, p: Tensor, is_fixed: bool) -> Tensor:
    """A * p₊ + B * p₋ for the slopes g, a row.  `is_fixed`: they do not change with the values.

    A value that is 0 has a slope only as |x| has one there: what it meets has no limit.
    """
    row, turned = real_part(g), adjoint(p)
    even, odd = (p + turned) * 0.5, (p - turned) * 0.5
    found = mul0(even, cast_to(gaps.over_differences(row - column(row)), p.dtype))
    found = found + mul0(odd, cast_to(gaps.over_sums(row + column(row)), p.dtype))
    sizes = abs_(row)
    few = summed(sizes, (row.ndim - 1,)) * float(np.finfo(row.dtype).eps) ** 0.5
    bent = gaps.tiny & (sizes > reshaped(few, (*row.shape[:-1], 1)))
    found = found + unknown(p, bent | column(bent))
    found = found + unknown(even, _not_known(gaps, row, is_fixed))
    return found if is_fixed else found + unknown(odd, gaps.tiny & column(gaps.tiny))


# ---------------------------------------------------------------- eigenvalues and eigenvectors


def _reference(a: np.ndarray) -> np.ndarray:
    w, v = np.linalg.eigh(a)
    return np.concatenate([w[..., None, :], v], axis=-2)


def _apart(y: Tensor, _: object = None) -> tuple[Tensor, Tensor, Tensor]:
    """The vectors, the row of eigenvalues, and the vectors again, which stand on both sides."""
    n = y.shape[-1]
    row, v = part(y, y.ndim - 2, 0, 1), part(y, y.ndim - 2, 1, n + 1)
    return v, row, v


def _vjp(y_bar, y, a):
    (v_bar, w_bar, _), (v, w, _) = _apart(y_bar), _apart(y)
    gaps = Gaps(w)
    inside = gaps.over_differences(adjoint(v) @ v_bar) + unknown(of_columns(v_bar), gaps.near)
    by_vectors = v @ inside @ adjoint(v)
    return (record(_pulled, (scaled_by(v, w_bar, v), a, y, w_bar)) + by_vectors,)


def _jvp(dxs, y, a):
    v, w, _ = _apart(y)
    gaps, inside = Gaps(w), adjoint(v) @ dxs[0] @ v
    dv = v @ (gaps.over_differences(inside) + unknown(of_all(inside), gaps.near))
    return joined((diagonal_row(inside), dv), y.ndim - 2)


def _moved(a: Tensor, y: Tensor, g: Tensor, change: Tensor, is_fixed: bool) -> tuple[Tensor, Tensor]:
    v, w, _ = _apart(y)
    inside = adjoint(v) @ change @ v
    return v @ moved_by_eigenvalues(Gaps(w), g, inside, is_fixed) @ adjoint(v), inside


_pulled, _values = of_values("eigh_pulled", "eigh_values", _apart, _moved)

_eigh = of_matrices(
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
    """a @ eigenvectors = eigenvectors * eigenvalues."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _decomposed(name: str, a: object, UPLO: str | None) -> tuple[Tensor, Tensor]:
    a = hermitian_part(square(name, a, "fc") if UPLO is None else _triangle(name, a, UPLO))
    y = record(_eigh, (a,))
    v, w, _ = _apart(y)
    return record(_values, (reshaped(real_part(w), (*w.shape[:-2], w.shape[-1])), a, y)), v


@public()
def eigh(a, UPLO: str | None = None) -> EighResult:
    """Eigenvalues, in rising order, and orthonormal eigenvectors, as columns, of symmetric or Hermitian matrices.

    a: T[..., n, n]  →  (eigenvalues: f[..., n], eigenvectors: T[..., n, n])     integers and bool give float64

    The symmetric part of a is taken (of complex numbers the Hermitian one), and its gradient is such too.  A vector is
    known up to its sign (of complex numbers up to a direction): what depends on the choice has no gradient to
    speak of.  The vectors of equal eigenvalues have none (nan); the eigenvalues themselves do, once.
    A matrix with nan gives nan.  Raises ShapeError for matrices that are not square; LinAlgError where LAPACK finds
    no eigenvalues, when the value is computed.

    UPLO   None: the symmetric part of a;  "L" or "U": only this triangle is read, and has the gradient

    >>> ad.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues
    f64[2] [1. 2.]
    """
    return EighResult(*_decomposed("eigh", a, UPLO))


@public()
def eigvalsh(a, UPLO: str | None = None):
    """The eigenvalues of symmetric or Hermitian matrices, in rising order.   T[..., n, n]  →  f[..., n]

    As `eigh` gives them: the symmetric part of a is taken.  Of equal ones the derivatives are those in the order of
    the vectors that were found; their sum, and what else does not tell them apart, has the right one.
    Second derivatives at equal ones are nan where they depend on how the function treats these.
    Raises ShapeError for matrices that are not square.

    UPLO   None: the symmetric part of a;  "L" or "U": only this triangle is read, and has the gradient

    >>> ad.linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]])
    f64[2] [1. 3.]
    """
    return _decomposed("eigvalsh", a, UPLO)[0]


def _triangle(name: str, a: object, UPLO: str) -> Tensor:
    """The Hermitian matrices that have these lower, or upper, triangles."""
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueError(located(f"{name}: UPLO is 'L' or 'U', not {UPLO!r}"))
    a = square(name, a, "fc")
    half = triu(a, 1) if UPLO in "Uu" else tril(a, -1)
    return half + adjoint(half) + diagonal_of(cast_to(real_part(a), a.dtype))
