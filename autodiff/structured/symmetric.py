"""Symmetric matrices: transposing, sums, multiples and inverses keep the structure, and so does the gradient."""

from __future__ import annotations

from typing import Any

from codegen.ir import Aval

from .. import ops
from ..ops import linalg
from ..ops.linalg.factorization import factored
from ..ops.linalg.matrices import symmetric_part
from ..tensor import Tensor
from .base import StructuredMatrix, cotangent_of, order_of, square
from .triangular import LowerTriangular

__all__ = ["SelfAdjoint", "Symmetric"]


class SelfAdjoint(StructuredMatrix):
    """What stands for the symmetric part, `.matrix`, of the square matrix that it stores."""

    __slots__ = ("stored",)
    holds = ("stored",)

    def __init__(self, x: Any) -> None:
        self.stored = square(type(self).__name__, x)

    @property
    def aval(self) -> Aval:
        """Shape and dtype of the matrix."""
        return self.stored.aval

    @property
    def matrix(self) -> Tensor:
        """The matrix it stands for."""
        return symmetric_part(self.stored)


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


@ops.dense.method(SelfAdjoint)
def _(x):
    return x.matrix


@ops.project.method(object, SelfAdjoint)
def _(gradient, like):
    return type(like)(symmetric_part(cotangent_of(gradient, like)))


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
