"""Matrices that are a part of a stored square matrix: symmetric ones (one with a Cholesky factor), triangular ones."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..mode import MODE
from ..ops import linalg
from ..ops.declare import in_common_dtype
from ..ops.diagonals import lower_part, upper_part
from ..ops.linalg.determinant import SlogdetResult, log_det_factored
from ..ops.linalg.factorization import factored
from ..ops.linalg.matrices import right_side, symmetric_part
from ..ops.linalg.matrices import square as floats
from ..ops.linalg.solving import solved_factored
from ..tensor import Tensor
from .base import PartOfSquare, cotangent_of, of_rank, order_of


class SelfAdjoint(PartOfSquare):
    """A type that stores a square matrix and stands for its symmetric part, `.matrix`."""

    __slots__ = ()
    part = staticmethod(symmetric_part)

    def __init__(self, x: Any) -> None:
        super().__init__(in_common_dtype(type(self).__name__, (("x", x),), "fc")[0])


class Symmetric(SelfAdjoint):
    """The symmetric part, (x + xᵀ) / 2, of a matrix.   f[n,n]  →  f[n,n]

    `.matrix` is that part; if x is symmetric, it equals x to the last bit.  Its gradient is the symmetric part
    of the dense gradient.
    Raises ShapeError for an x that is no square matrix.

    >>> import autodiff as ad
    >>> S = ad.Symmetric([[1.0, 4.0], [0.0, 1.0]])
    >>> S.matrix
    f64[2,2]
    [[1. 2.]
     [2. 1.]]
    """

    __slots__ = ()


linalg.inv.method(Symmetric)(lambda a: Symmetric(linalg.inv(a.matrix)))
linalg.cholesky.method(Symmetric)(lambda a: LowerTriangular(factored(floats("cholesky", a.matrix))))


class LowerTriangular(PartOfSquare):
    """The lower triangle of a matrix, its diagonal included.   f[n,n]  →  f[n,n]

    Elements of x above the diagonal are not read, and the gradient has zeros there.  `.matrix` is the triangle.
    Raises ShapeError for an x that is no square matrix.

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
    Raises ShapeError for an x that is no square matrix.

    >>> import autodiff as ad
    >>> ad.linalg.solve(ad.UpperTriangular([[2.0, 1.0], [9.0, 1.0]]), [5.0, 1.0])
    f64[2] [2. 1.]
    """

    __slots__ = ()
    part = staticmethod(upper_part)


_TRIANGULAR = LowerTriangular | UpperTriangular


@ops.transpose.method(_TRIANGULAR)
def _(x, axes=None):
    across = UpperTriangular if isinstance(x, LowerTriangular) else LowerTriangular
    return across(x.stored.T) if order_of(x, axes) else x


@ops.diagonal.method(_TRIANGULAR)
def _(x, offset=0, axis1=0, axis2=1):
    return ops.diagonal(x.matrix if offset else x.stored, offset, axis1, axis2)


@linalg.solve.method(_TRIANGULAR, Tensor)
def _(a, b):
    return linalg.solve_triangular(a.stored, b, lower=isinstance(a, LowerTriangular))


@linalg.inv.method(_TRIANGULAR)
def _(a):
    identity = ops.eye(a.shape[0], dtype=a.dtype)
    return type(a)(linalg.solve_triangular(a.stored, identity, lower=isinstance(a, LowerTriangular)))


class Cholesky(SelfAdjoint):
    """A symmetric positive definite matrix that is factorised once.   f[n,n]  →  f[n,n]

    `.matrix` is the symmetric part of x, `.factor` the L with L Lᵀ = matrix.  `ad.linalg.solve`, `inv`, `det` and
    `slogdet` use the factor, and so do their gradients, which flow to the matrix itself: the matrix is factorised
    only once, and the factorisation is not differentiated.
    Raises ShapeError for an x that is no square matrix; LinAlgError for a matrix that is not positive definite, when
    the factor is computed.

    >>> import autodiff as ad
    >>> C = ad.Cholesky([[4.0, 2.0], [2.0, 5.0]])
    >>> ad.linalg.solve(C, [8.0, 12.0])
    f64[2] [1. 2.]
    """

    __slots__ = ("_cached_factor",)
    _cached_factor: tuple[tuple[Any, bool], Tensor]

    def __init__(self, x: Any) -> None:
        super().__init__(floats("Cholesky", of_rank("Cholesky", x, 2)))

    @property
    def factor(self) -> LowerTriangular:
        """The lower triangular factor."""
        # The cached factor is valid for the same node and grad mode, and until a backward releases its history.
        now = self.stored.node, MODE.get().tracks
        of, made = getattr(self, "_cached_factor", (None, self.stored))
        if of != now or made.node.kind.released:
            made = factored(self.matrix)
            self._cached_factor = now, made
        return LowerTriangular(made)

    def _lower(self) -> Tensor:
        """The factor without history: gradients flow to the matrix, not through the factor."""
        return self.factor.stored.detach()


@ops.project.method(object, Symmetric | Cholesky | _TRIANGULAR)
def _(g, like):
    cls = type(like)
    return cls(cls.part(cotangent_of(g, like)))


linalg.cholesky.method(Cholesky)(lambda a: a.factor)


@linalg.solve.method(Cholesky, Tensor)
def _(a, b):
    matrix, b, restored = right_side("solve", a.matrix, b)
    factor = ops.broadcast_to(ops.astype(a._lower(), matrix.dtype), matrix.shape)
    return restored(solved_factored(matrix, factor, b))


@linalg.inv.method(Cholesky)
def _(a):
    return Symmetric(solved_factored(a.matrix, a._lower(), ops.eye(a.shape[0], dtype=a.dtype)))


@linalg.slogdet.method(Cholesky)
def _(a):
    return SlogdetResult(ops.ones((), dtype=a.dtype), log_det_factored(a.matrix, a._lower()))


linalg.det.method(Cholesky)(lambda a: ops.exp(linalg.slogdet(a).logabsdet))
