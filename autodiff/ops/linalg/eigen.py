"""Eigenvalues and eigenvectors of symmetric, or Hermitian, matrices.

Both are one operation, so a matrix is decomposed once: its result has the eigenvalues as a row above the vectors.

    a v = v diag(w)     dw = diag(vᴴ da v)     dv = v (f * (vᴴ da v))     f[i,j] = 1 / (w[j] - w[i]), 0 where i = j

Of equal eigenvalues the vectors have no derivatives: f is infinite there, and meets what does not want it as a
strong zero, so that eigenvalues, and functions of distinct ones, have their gradients whatever the others are.
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
from ..arithmetic import add, divide, mul0, multiply, subtract
from ..batching import along
from ..complexes import real_part
from ..contraction import matmul
from ..conversion import cast_to
from ..creation import eye
from ..forms import further
from ..joining import joined
from ..primitive import primitive
from ..reductions import summed
from ..shaping import reshaped
from ..slicing import part
from ..triangles import tril, triu
from .matrices import adjoint, first_refused, hermitian_part, square, square_aval

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


def _identity(v: Tensor) -> Tensor:
    return eye(v.shape[-1], dtype=v.dtype)


def _inverse_gaps(w: Tensor, v: Tensor) -> Tensor:
    """f, from the row of eigenvalues."""
    w, same = real_part(w), real_part(_identity(v))
    column = reshaped(w, (*w.shape[:-2], w.shape[-1], 1))
    gaps = add(subtract(w, column), same)
    return cast_to(divide(subtract(1.0, same), gaps), v.dtype)


def _vjp(y_bar, y, a):
    (w_bar, v_bar), (w, v) = _apart(y_bar), _apart(y)
    inside = add(multiply(w_bar, _identity(v)), mul0(matmul(adjoint(v), v_bar), _inverse_gaps(w, v)))
    return (matmul(matmul(v, inside), adjoint(v)),)


def _jvp(dxs, y, a):
    w, v = _apart(y)
    inside = matmul(matmul(adjoint(v), dxs[0]), v)
    dw = summed(multiply(inside, _identity(v)), (inside.ndim - 2,))
    dv = matmul(v, mul0(inside, _inverse_gaps(w, v)))
    return joined((reshaped(dw, w.shape), dv), y.ndim - 2)


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
    w, v = _apart(record(_eigh, (hermitian_part(square(name, a, "fc")),)))
    return reshaped(real_part(w), (*w.shape[:-2], w.shape[-1])), v


@function
def eigh(a):
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
    Second derivatives at equal ones are nan: they go through the vectors.
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
    return add(add(half, adjoint(half)), multiply(cast_to(real_part(a), a.dtype), _identity(a)))


@further(eigh)
def _eigh_of_triangle(a, UPLO="L"):
    return eigh(_triangle("eigh", a, UPLO))


@further(eigvalsh)
def _eigvalsh_of_triangle(a, UPLO="L"):
    return eigvalsh(_triangle("eigvalsh", a, UPLO))
