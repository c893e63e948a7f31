"""Linear algebra (public as `ad.linalg`): what NumPy has in `np.linalg`, as far as it is served.

    solving         solve, solve_triangular, inv        factorization   cholesky
    determinant     det, slogdet                        eigen           eigh, eigvalsh
    orthogonal      qr                                  singular        svd, svdvals, pinv
    least_squares   lstsq
    derived         matrix_power, multi_dot, matrix_rank, cond, and of last axes norms, diagonal and trace
    and what stands in `ad` as well
"""

from typing import Any

import numpy as np

from ...errors import located
from ..contraction import matmul, outer, tensordot
from ..forms import further
from ..norms import norm
from ..protocols import counterparts
from ..shaping import matrix_transpose
from ..summaries import cross, vecdot
from .derived import cond, diagonal, lstsq, matrix_norm, matrix_power, matrix_rank, multi_dot, trace, vector_norm
from .determinant import det, slogdet
from .eigen import eigh, eigvalsh
from .factorization import cholesky, qr
from .matrices import adjoint, hermitian_part, square
from .singular import pinv, svd, svdvals
from .solving import inv, solve, solve_triangular

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve",
    "solve_triangular", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

counterparts(("cross", "vecdot"), globals())  # which have more parameters there
counterparts(__all__, globals(), np.linalg)



# ---------------------------------------------------------------- what NumPy says of the matrices


@further(cholesky)
def _cholesky(a, *, upper=False):
    factor = cholesky(a)
    return adjoint(factor) if upper else factor


@further(svd)
def _svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    return svd(_hermitian("svd", a, hermitian), full_matrices, compute_uv)


@further(pinv)
def _pinv(a, rcond=None, hermitian=False, *, rtol=None):
    if rcond is not None and rtol is not None:
        raise ValueError(located("pinv: rcond and rtol are two names of one thing; give one"))
    return pinv(_hermitian("pinv", a, hermitian), rcond if rtol is None else rtol)


@further(matrix_rank)
def _matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    return matrix_rank(_hermitian("matrix_rank", A, hermitian), tol, rtol=rtol)


def _hermitian(name: str, a: Any, is_hermitian: bool) -> Any:
    """Matrices that are Hermitian, as somebody says: then so is the gradient."""
    return hermitian_part(square(name, a, "fc")) if is_hermitian else a
