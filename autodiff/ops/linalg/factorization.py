"""The Cholesky factor of a positive definite matrix, symmetric or Hermitian."""

from __future__ import annotations

import numpy as np

from codegen.lowering import Dense

from ...tape import record
from ...tensor import Tensor
from ..arguments import records
from ..batching import along
from ..contraction import matmul
from ..primitive import primitive
from ..triangles import halved_lower
from .matrices import adjoint, first_refused, hermitian_part, square, square_aval
from .solving import solved_triangular

__all__ = ["cholesky", "factored"]


def _reference(a: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        mend = "a small multiple of the identity, added, makes a matrix that is nearly so definite"
        raise first_refused("cholesky", a, np.linalg.cholesky, "not positive definite", mend) from None


def _divided(x: Tensor, y: Tensor) -> Tensor:
    """y⁻ᴴ x y⁻¹ for a lower triangle y."""
    turned = adjoint(y)
    left = solved_triangular(turned, x, False)
    return adjoint(solved_triangular(turned, adjoint(left), False))


def _jvp(dxs, y, a):
    left = solved_triangular(y, dxs[0], True)
    both = adjoint(solved_triangular(y, adjoint(left), True))
    return matmul(y, halved_lower(both))


#: Both rules: Murray, "Differentiation of the Cholesky decomposition" (2016), equations 8 and 10.
_cholesky = primitive(
    "cholesky",
    _reference,
    infer=lambda a: square_aval("cholesky", a),
    vjp=lambda y_bar, y, a: (_divided(halved_lower(matmul(adjoint(y), y_bar)), y),),
    jvp=_jvp,
    lower=Dense("cholesky"),
    batch=along(),
    heavy=True,
    keeps_mask=False,
)


def factored(a: Tensor) -> Tensor:
    """The Cholesky factor of matrices that are symmetric, or Hermitian."""
    return record(_cholesky, (a,))


@records(_cholesky)
def cholesky(a):
    """The lower triangular y with y @ yᴴ = a, for positive definite matrices: symmetric, or Hermitian.

    a: T[..., n, n]  →  T[..., n, n]     T float or complex; integers and bool give float64

    The symmetric part of a is taken (of complex numbers the Hermitian one), and its gradient is such too.
    Raises ShapeError for matrices that are not square; LinAlgError for one that is not positive definite,
    when the value is computed.

    upper   whether the other factor is given, the conjugate transpose

    >>> import autodiff as ad
    >>> ad.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
    f64[2,2]
    [[2. 0.]
     [1. 2.]]
    """
    return factored(hermitian_part(square("cholesky", a, "fc")))
