"""Eigenvalues and eigenvectors of symmetric, or Hermitian, matrices.

Both are one operation, so a matrix is decomposed once: its result has the eigenvalues as a row above the vectors.

    a v = v diag(w)     dw = diag(vᴴ da v)     dv = v (f * (vᴴ da v))     f[i,j] = 1 / (w[j] - w[i]), 0 where i = j

Of eigenvalues that are equal but for the rounding of the matrix the vectors have no derivatives: what asks for them is
nan.  Eigenvalues, and functions of the vectors of others, have their gradients whatever is equal (see `spectral`).
"""

from __future__ import annotations

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Decompose
from codegen.records import NamedTuple

from ...custom import function
from ...errors import caller
from ...tape import record
from ...tensor import Tensor
from ..arithmetic import add, multiply
from ..batching import along
from ..complexes import real_part
from ..contraction import matmul
from ..conversion import cast_to
from ..forms import further
from ..joining import joined
from ..primitive import primitive
from ..shaping import reshaped
from ..slicing import part
from ..triangles import tril, triu
from .matrices import adjoint, first_refused, hermitian_part, square, square_aval
from .spectral import Gaps, diagonal_of, diagonal_row, moved_by_eigenvalues, of_all, of_columns, unknown, with_rule

__all__ = ["EighResult", "eigh", "eigvalsh"]


def _reference(a: np.ndarray) -> np.ndarray:
    try:
        w, v = np.linalg.eigh(a)
    except np.linalg.LinAlgError:
        mend = "look for very large and very small elements side by side, and scale the matrix"
        raise first_refused("eigh", a, np.linalg.eigh, "one whose eigenvalues do not converge", mend) from None
    return np.concatenate([w[..., None, :].astype(a.dtype), v], axis=-2)


def _infer(a: Aval) -> Aval:
    *batch, n, _ = square_aval("eigh", a).shape
    return a.with_shape((*batch, n + 1, n))


def _apart(y: Tensor) -> tuple[Tensor, Tensor]:
    """The row of eigenvalues, and the vectors."""
    n = y.shape[-1]
    return part(y, y.ndim - 2, 0, 1), part(y, y.ndim - 2, 1, n + 1)


def _vjp(y_bar, y, a):
    (w_bar, v_bar), (w, v) = _apart(y_bar), _apart(y)
    gaps = Gaps(w)
    inside = add(gaps.over_differences(matmul(adjoint(v), v_bar)), unknown(of_columns(v_bar), gaps.near))
    by_vectors = matmul(matmul(v, inside), adjoint(v))
    return (add(record(_pulled, (_with_values(v, w_bar), a, y, w_bar)), by_vectors),)


def _with_values(v: Tensor, row: Tensor) -> Tensor:
    """v diag(row) vᴴ."""
    return matmul(multiply(v, row), adjoint(v))


def _jvp(dxs, y, a):
    w, v = _apart(y)
    gaps, inside = Gaps(w), matmul(matmul(adjoint(v), dxs[0]), v)
    dv = matmul(v, add(gaps.over_differences(inside), unknown(of_all(inside), gaps.near)))
    return joined((diagonal_row(inside), dv), y.ndim - 2)


def _moved(y: Tensor, g: Tensor, change: Tensor, is_fixed: bool) -> tuple[Tensor, Tensor]:
    """The change of v diag(g) vᴴ with a, and vᴴ change v."""
    w, v = _apart(y)
    inside = matmul(matmul(adjoint(v), change), v)
    return matmul(matmul(v, moved_by_eigenvalues(Gaps(w), g, inside, is_fixed)), adjoint(v)), inside


def _pulled_vjp(c, _, value, a, y, g):
    """The change is a symmetric linear map: it is its own transpose."""
    a_bar, inside = _moved(y, g, c, not g.requires_grad)
    return (None, a_bar, None, diagonal_row(inside))


def _pulled_jvp(dxs, _, value, a, y, g):
    _, da, _, dg = dxs
    by_slopes = None if dg is None else _with_values(_apart(y)[1], dg)
    by_a = None if da is None else _moved(y, g, da, dg is None)[0]
    return by_slopes if by_a is None else by_a if by_slopes is None else add(by_a, by_slopes)


#: v diag(g) vᴴ, the gradient that slopes g of eigenvalues give: from it, a, its decomposition and the slopes.
_pulled = with_rule("eigh_pulled", _pulled_vjp, _pulled_jvp)


def _values_vjp(w_bar, _, value, a, y):
    row = cast_to(reshaped(w_bar, (*w_bar.shape[:-1], 1, w_bar.shape[-1])), a.dtype)
    return (None, record(_pulled, (_with_values(_apart(y)[1], row), a, y, row)), None)


def _values_jvp(dxs, w, value, a, y):
    v = _apart(y)[1]
    return reshaped(real_part(diagonal_row(matmul(matmul(adjoint(v), dxs[1]), v))), w.shape)


#: The eigenvalues, from a and its decomposition: they have their derivatives where the vectors have none.
_values = with_rule("eigh_values", _values_vjp, _values_jvp)

_eigh = primitive(
    "eigh",
    _reference,
    infer=_infer,
    vjp=_vjp,
    jvp=_jvp,
    lower=Decompose("eigh"),
    batch=along(),
    heavy=True,
    keeps_mask=False,
)


class EighResult(NamedTuple):
    """a @ eigenvectors = eigenvectors * eigenvalues."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _decomposed(name: str, a: object) -> tuple[Tensor, Tensor]:
    a = hermitian_part(square(name, a, "fc"))
    y = record(_eigh, (a,))
    w, v = _apart(y)
    return record(_values, (reshaped(real_part(w), (*w.shape[:-2], w.shape[-1])), a, y)), v


@function
def eigh(a) -> EighResult:
    """Eigenvalues, in rising order, and orthonormal eigenvectors, as columns, of symmetric or Hermitian matrices.

    a: T[..., n, n]  →  (eigenvalues: f[..., n], eigenvectors: T[..., n, n])     integers and bool give float64

    The symmetric part of a is taken (of complex numbers the Hermitian one), and its gradient is such too.  A vector is
    known up to its sign (of complex numbers up to a direction): what depends on the choice has no gradient to
    speak of.  The vectors of equal eigenvalues have none (nan); the eigenvalues themselves do, once.
    A matrix with nan gives nan.  Raises ShapeError for matrices that are not square; LinAlgError where LAPACK finds
    no eigenvalues, when the value is computed.

    UPLO   "L" or "U": only this triangle is read, and has the gradient

    >>> import autodiff as ad
    >>> ad.linalg.eigh([[2.0, 0.0], [0.0, 1.0]]).eigenvalues
    f64[2] [1. 2.]
    """
    return EighResult(*_decomposed("eigh", a))


@function
def eigvalsh(a):
    """The eigenvalues of symmetric or Hermitian matrices, in rising order.   T[..., n, n]  →  f[..., n]

    As `eigh` gives them: the symmetric part of a is taken.  Of equal ones the derivatives are those in the order of
    the vectors that were found; their sum, and what else does not tell them apart, has the right one.
    Second derivatives at equal ones are nan where they depend on how the function treats these.
    Raises ShapeError for matrices that are not square.

    UPLO   "L" or "U": only this triangle is read, and has the gradient

    >>> import autodiff as ad
    >>> ad.linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]])
    f64[2] [1. 3.]
    """
    return _decomposed("eigvalsh", a)[0]


def _triangle(name: str, a: object, UPLO: str) -> Tensor:
    """The Hermitian matrices that have these lower, or upper, triangles."""
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueError(f"{name}: UPLO is 'L' or 'U', not {UPLO!r}\n  called at {caller()}")
    a = square(name, a, "fc")
    half = triu(a, 1) if UPLO in "Uu" else tril(a, -1)
    return add(add(half, adjoint(half)), diagonal_of(cast_to(real_part(a), a.dtype)))


@further(eigh)
def _eigh_of_triangle(a, UPLO="L"):
    return eigh(_triangle("eigh", a, UPLO))


@further(eigvalsh)
def _eigvalsh_of_triangle(a, UPLO="L"):
    return eigvalsh(_triangle("eigvalsh", a, UPLO))
