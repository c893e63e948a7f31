"""Triangular matrices: systems with them are solved by substitution; products and inverses stay triangular."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..ops import linalg
from ..ops.diagonals import lower_part, upper_part
from ..ops.linalg.determinant import SlogdetResult
from ..tensor import Tensor
from .base import PartOfSquare, check_inner, cotangent_of, order_of

__all__ = ["LowerTriangular", "UpperTriangular"]


class LowerTriangular(PartOfSquare):
    """The lower triangle of a matrix, its diagonal included.   f[n,n]  →  f[n,n]

    Elements of x above the diagonal are not read, and the gradient has zeros there.  `.matrix` is the triangle.
    Raises ShapeError for anything but a square matrix.

    >>> import autodiff as ad
    >>> L = ad.LowerTriangular([[2.0, 9.0], [1.0, 1.0]])
    >>> ad.linalg.solve(L, [2.0, 3.0])
    f64[2] [1. 2.]
    """

    __slots__ = ()
    part = staticmethod(lower_part)


class UpperTriangular(PartOfSquare):
    """The upper triangle of a matrix, its diagonal included.   f[n,n]  →  f[n,n]

    Elements of x below the diagonal are not read, and the gradient has zeros there.  `.matrix` is the triangle.
    Raises ShapeError for anything but a square matrix.

    >>> import autodiff as ad
    >>> ad.linalg.solve(ad.UpperTriangular([[2.0, 1.0], [9.0, 1.0]]), [5.0, 1.0])
    f64[2] [2. 1.]
    """

    __slots__ = ()
    part = staticmethod(upper_part)


_TRIANGULAR = LowerTriangular | UpperTriangular


def _across(x: Any) -> type:
    """The type of its transpose."""
    return UpperTriangular if isinstance(x, LowerTriangular) else LowerTriangular


@ops.project.method(object, _TRIANGULAR)
def _(g, like):
    return type(like)(type(like)(cotangent_of(g, like)).matrix)


@ops.transpose.method(_TRIANGULAR)
def _(x, axes=None):
    return _across(x)(x.stored.T) if order_of(axes) else x


@ops.matrix_transpose.method(_TRIANGULAR)
def _(x):
    return _across(x)(x.stored.T)


@ops.diagonal.method(_TRIANGULAR)
def _(x, offset=0, axis1=0, axis2=1):
    return ops.diagonal(x.matrix if offset else x.stored, offset, axis1, axis2)


@ops.trace.method(_TRIANGULAR)
def _(x, offset=0, axis1=0, axis2=1):
    return ops.trace(x.matrix if offset else x.stored, offset, axis1, axis2)


def _product(x1: Any, x2: Any) -> Any:
    check_inner("matmul", x1, x2)
    return type(x1)(ops.matmul(x1.matrix, x2.matrix))


@ops.matmul.method(LowerTriangular, LowerTriangular)
def _(x1, x2):
    return _product(x1, x2)


@ops.matmul.method(UpperTriangular, UpperTriangular)
def _(x1, x2):
    return _product(x1, x2)


@linalg.solve.method(_TRIANGULAR, Tensor)
def _(a, b):
    return linalg.solve_triangular(a.stored, b, lower=isinstance(a, LowerTriangular))


@linalg.inv.method(_TRIANGULAR)
def _(a):
    identity = ops.eye(a.shape[0], dtype=a.dtype)
    return type(a)(linalg.solve_triangular(a.stored, identity, lower=isinstance(a, LowerTriangular)))


@linalg.det.method(_TRIANGULAR)
def _(a):
    return ops.prod(ops.diagonal(a.stored))


@linalg.slogdet.method(_TRIANGULAR)
def _(a):
    d = ops.diagonal(a.stored)
    return SlogdetResult(ops.prod(ops.sign(d)), ops.sum(ops.log(ops.abs(d))))
