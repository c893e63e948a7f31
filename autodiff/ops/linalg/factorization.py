"""The Cholesky factor of a symmetric positive definite matrix."""

from __future__ import annotations

import numpy as np

from codegen.lowering import Call

from ...tape import record
from ...tensor import Tensor
from ..arguments import records
from ..batching import along
from ..contraction import matmul
from ..primitive import primitive
from ..triangles import halved_lower
from .matrices import first_refused, flipped_axes, square, square_aval, symmetric_part
from .solving import solved_triangular

__all__ = ["cholesky", "factored"]


def _reference(a: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        mend = "a small multiple of the identity, added, makes a matrix that is nearly so definite"
        raise first_refused("cholesky", a, np.linalg.cholesky, "not positive definite", mend) from None


def _divided(x: Tensor, y: Tensor) -> Tensor:
    """y⁻ᵀ x y⁻¹ for a lower triangle y."""
    turned = flipped_axes(y)
    left = solved_triangular(turned, x, False)
    return flipped_axes(solved_triangular(turned, flipped_axes(left), False))


def _jvp(dxs, y, a):
    left = solved_triangular(y, dxs[0], True)
    both = flipped_axes(solved_triangular(y, flipped_axes(left), True))
    return matmul(y, halved_lower(both))


#: Both rules: Murray, "Differentiation of the Cholesky decomposition" (2016), equations 8 and 10.
_cholesky = primitive(
    "cholesky",
    _reference,
    infer=lambda a: square_aval("cholesky", a),
    vjp=lambda y_bar, y, a: (_divided(halved_lower(matmul(flipped_axes(y), y_bar)), y),),
    jvp=_jvp,
    lower=Call(),
    batch=along(),
    heavy=True,
    keeps_mask=False,
)


def factored(a: Tensor) -> Tensor:
    """The Cholesky factor of matrices that are symmetric."""
    return record(_cholesky, (a,))


@records(_cholesky)
def cholesky(a):
    """The lower triangular y with y @ yᵀ = a, for symmetric positive definite matrices.

    a: f[..., n, n]  →  f[..., n, n]     integers and bool give float64

    The symmetric part of a is taken, so its gradient is symmetric.
    Raises ShapeError for matrices that are not square; LinAlgError for one that is not positive definite,
    when the value is computed.

    >>> import autodiff as ad
    >>> ad.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
    f64[2,2]
    [[2. 0.]
     [1. 2.]]
    """
    return factored(symmetric_part(square("cholesky", a)))
