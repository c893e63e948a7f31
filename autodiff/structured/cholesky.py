"""A matrix with its Cholesky factor: factorised once, then solved with any number of times, backwards too."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..mode import MODE
from ..ops import linalg
from ..ops.linalg.determinant import SlogdetResult, log_det_factored
from ..ops.linalg.factorization import factored
from ..ops.linalg.matrices import right_side
from ..ops.linalg.matrices import square as floats
from ..ops.linalg.solving import solved_factored
from ..tensor import Tensor
from .base import of_rank
from .symmetric import SelfAdjoint, Symmetric
from .triangular import LowerTriangular

__all__ = ["Cholesky"]


class Cholesky(SelfAdjoint):
    """A symmetric positive definite matrix that is factorised once.   f[n,n]  →  f[n,n]

    `.matrix` is the symmetric part of x, `.factor` the L with L Lᵀ = matrix.  `ad.linalg.solve`, `inv`, `det` and
    `slogdet` use the factor, and so do their gradients, which flow to the matrix itself: nothing is
    factorised, and no factorisation is differentiated, a second time.
    Raises ShapeError for anything but a square matrix; LinAlgError for one that is not positive definite, when
    the factor is computed.

    >>> import autodiff as ad
    >>> C = ad.Cholesky([[4.0, 2.0], [2.0, 5.0]])
    >>> ad.linalg.solve(C, [8.0, 12.0])
    f64[2] [1. 2.]
    """

    __slots__ = ("_factors",)
    _factors: dict[bool, Tensor]

    def __init__(self, x: Any) -> None:
        super().__init__(floats("Cholesky", of_rank("Cholesky", x, 2)))

    @property
    def factor(self) -> LowerTriangular:
        """The lower triangular factor."""
        return LowerTriangular(self._lower())

    def _lower(self) -> Tensor:
        """The factor as a tensor; one that was made without gradients does not serve where they are tracked."""
        made = getattr(self, "_factors", None)
        if made is None:
            made = self._factors = {}
        mode = MODE.get().tracks
        if mode not in made:
            made[mode] = factored(self.matrix)
        return made[mode]


@linalg.cholesky.method(Cholesky)
def _(a):
    return a.factor


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


@linalg.det.method(Cholesky)
def _(a):
    return ops.exp(linalg.slogdet(a).logabsdet)
