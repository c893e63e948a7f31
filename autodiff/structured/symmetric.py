"""Symmetric matrices: transposing, sums, multiples and inverses keep the structure, and so does the gradient."""

from __future__ import annotations

from .. import ops
from ..ops import linalg
from ..ops.linalg.factorization import factored
from ..ops.linalg.matrices import symmetric_part
from .base import PartOfSquare, cotangent_of, order_of
from .triangular import LowerTriangular

__all__ = ["SelfAdjoint", "Symmetric"]


class SelfAdjoint(PartOfSquare):
    """A type that stands for the symmetric part, `.matrix`, of the square matrix that it stores."""

    __slots__ = ()
    part = staticmethod(symmetric_part)


class Symmetric(SelfAdjoint):
    """The symmetric part, (x + xᵀ) / 2, of a matrix.   f[n,n]  →  f[n,n]

    `.matrix` is that part: x itself, to the last bit, where x is symmetric.  Its gradient is the symmetric part
    of the dense gradient.
    Raises ShapeError for anything but a square matrix.

    >>> import autodiff as ad
    >>> S = ad.Symmetric([[1.0, 4.0], [0.0, 1.0]])
    >>> S.matrix
    f64[2,2]
    [[1. 2.]
     [2. 1.]]
    """

    __slots__ = ()


@ops.project.method(object, SelfAdjoint)
def _(g, like):
    return type(like)(symmetric_part(cotangent_of(g, like)))


@ops.transpose.method(SelfAdjoint)
def _(x, axes=None):
    order_of(axes)
    return x


@ops.matrix_transpose.method(SelfAdjoint)
def _(x):
    return x


@linalg.inv.method(Symmetric)
def _(a):
    return Symmetric(linalg.inv(a.matrix))


@linalg.cholesky.method(Symmetric)
def _(a):
    return LowerTriangular(factored(linalg.matrices.square("cholesky", a.matrix)))
