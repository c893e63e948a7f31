"""The Cholesky factor of a positive definite matrix, and the QR factorisation a = q r.

QR is one operation, for matrices with at least as many rows as columns: its result is q with r below it, so a matrix is
decomposed once.  Of a wider matrix the first columns are decomposed; the rest of r is qᴴ times the other columns.

    da r⁻¹ = q c + ...     c = qᴴ da r⁻¹     w = low(c) - low(c)ᴴ     dr = (c - w) r     dq = (da r⁻¹ - q c) + q w

low(c) is c below its diagonal; for complex matrices w has the diagonal's imaginary part, too, since the diagonal of
LAPACK's r is real.  Source: Walter and Lehmann, "Algorithmic differentiation of linear algebra functions" (2010).
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from codegen.lowering import Dense
from codegen.records import NamedTuple

from ...errors import DispatchError, GradientError, located
from ...tape import record
from ...tensor import Tensor
from ..arithmetic import real_part
from ..conversion import cast_to
from ..diagonals import halved_lower, upper_part
from ..forms import further
from ..joining import joined
from ..primitive import zeros_of
from ..slicing import part
from ..template import public
from .matrices import (
    adjoint,
    hermitian_part,
    identity,
    matrices,
    matrix_op,
    of_finite,
    refusing,
    square,
)
from .solving import solved_triangular


def _divided(x: Tensor, y: Tensor) -> Tensor:
    """y⁻ᴴ x y⁻¹ for a lower triangular y."""
    turned = adjoint(y)
    left = solved_triangular(turned, x, False)
    return adjoint(solved_triangular(turned, adjoint(left), False))


#: The rule is equation 10 of Murray, "Differentiation of the Cholesky decomposition" (2016).
_cholesky = matrix_op(
    "cholesky",
    refusing(
        "cholesky", np.linalg.cholesky, "not positive definite",
        "a small multiple of the identity, added, makes a matrix that is nearly so definite",
    ),
    vjp=lambda y_bar, y, a: (_divided(halved_lower(adjoint(y) @ y_bar), y),),
    lower=Dense("cholesky"),
)


def factored(a: Tensor) -> Tensor:
    """The Cholesky factor of matrices that are symmetric, or Hermitian."""
    return record(_cholesky, (a,))


@public(1, _cholesky)
def cholesky(a):
    """The lower triangular y with y @ yᴴ = a, for positive definite matrices: symmetric, or Hermitian.

    a: T[..., n, n]  →  T[..., n, n]     T float or complex; integers and bool give float64

    The symmetric (Hermitian) part of a is taken, and the gradient of a is symmetric (Hermitian), too.
    Raises ShapeError for matrices that are not square; LinAlgError for a matrix that is not positive definite,
    when the value is computed.

    upper   True: return the conjugate transpose of y, which is upper triangular

    >>> ad.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
    f64[2,2]
    [[2. 0.]
     [1. 2.]]
    """
    return factored(hermitian_part(square("cholesky", a, "fc")))


@further(cholesky)
def _cholesky_of_numpy(a, *, upper=False):
    return adjoint(cholesky(a)) if upper else cholesky(a)


def _refused(*_: object) -> NoReturn:
    raise GradientError(located(
        "the vectors that complete an orthonormal basis are any, and have no derivative",
        "svd(a, full_matrices=False) and qr(a) give those that have one",
    ))


_complement = matrix_op(
    "complement",
    lambda q: of_finite(lambda q: np.linalg.qr(q, mode="complete")[0][..., q.shape[-1] :], q),
    lambda m, k: (m, m - k),
    vjp=_refused,
    jvp=_refused,
)


def completed(q: Tensor) -> Tensor:
    """q extended by further orthonormal columns to a square matrix."""
    m, k = q.shape[-2:]
    return q if k == m else joined((q, record(_complement, (q,))), q.ndim - 1)


def _parts(y: Tensor) -> tuple[Tensor, Tensor]:
    """(q, r), which lie one below the other in y."""
    rows, n = y.shape[-2:]
    return part(y, y.ndim - 2, 0, rows - n), part(y, y.ndim - 2, rows - n, rows)


def _qr_vjp(y_bar, y, a):
    (q_bar, r_bar), (q, r) = _parts(y_bar), _parts(y)
    inside = r_bar @ adjoint(r) - adjoint(q) @ q_bar
    above = upper_part(inside, 1)
    diagonal = cast_to(real_part(inside), a.dtype) * identity(inside)
    symmetric = above + adjoint(above) + diagonal
    moved = q_bar + q @ symmetric
    return (adjoint(solved_triangular(r, adjoint(moved), False, refuses=False)),)


_qr = matrix_op(
    "qr",
    lambda a: np.concatenate(np.linalg.qr(a), axis=-2),
    lambda m, n: (m + n, n),
    vjp=_qr_vjp,
)


class QRResult(NamedTuple):
    """The result of `qr`: Q @ R = a."""

    Q: Tensor
    R: Tensor


@public(1)
def qr(a, mode="reduced"):
    """Orthonormal columns Q and an upper triangle R with Q @ R = a.

    a: T[..., m, n]  →  (Q: T[..., m, k], R: T[..., k, n])     k = min(m, n); integers and bool give float64

    mode   "reduced"; "r": R alone; "complete": k = m, with arbitrary further orthonormal columns in Q, through which a
           gradient is an error, and rows of zeros in R

    The gradient assumes that the first k columns of a are independent; it is nan if R has a zero on its diagonal.
    Raises ShapeError for less than two axes, DispatchError for another mode.

    >>> abs(ad.linalg.qr([[3.0], [4.0]]).R)
    f64[1,1] [[5.]]
    """
    if mode not in ("reduced", "r", "complete"):
        raise DispatchError(located(
            f"qr: mode is 'reduced', 'complete' or 'r', not {mode!r}",
            "np.linalg.qr(t.detach().numpy(), mode) gives the others, without a gradient",
        ))
    a = matrices("qr", a)
    m, n = a.shape[-2:]
    if m >= n:
        q, r = _parts(record(_qr, (a,)))
    else:
        q, first = _parts(record(_qr, (part(a, a.ndim - 1, 0, m),)))
        r = joined((first, adjoint(q) @ part(a, a.ndim - 1, m, n)), a.ndim - 1)
    if mode == "complete" and m > n:
        q, r = completed(q), joined((r, zeros_of(r.aval.with_shape((*r.shape[:-2], m - n, n)))), a.ndim - 2)
    return r if mode == "r" else QRResult(q, r)
