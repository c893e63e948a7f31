"""Linear algebra (public as `ad.linalg`): the functions of `np.linalg` that this library has.

    solving         solve, solve_triangular, inv        factorization   cholesky, qr
    determinant     det, slogdet
    eigen           eigh, eigvalsh                      singular        svd, svdvals, pinv
    derived         lstsq, matrix_power, multi_dot, matrix_rank, cond; norms, diagonal and trace of the last axes
    also in `ad`    cross, matmul, matrix_transpose, norm, outer, tensordot, vecdot
"""

import numpy as np

from ..contraction import matmul, outer, tensordot
from ..protocols import counterparts
from ..shaping import matrix_transpose
from ..statistics import norm
from ..summaries import cross, vecdot
from .derived import cond, diagonal, lstsq, matrix_norm, matrix_power, matrix_rank, multi_dot, trace, vector_norm
from .determinant import det, slogdet
from .eigen import eigh, eigvalsh
from .factorization import cholesky, qr
from .singular import pinv, svd, svdvals
from .solving import inv, solve, solve_triangular

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve",
    "solve_triangular", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

counterparts(("cross", "vecdot"), globals())  # np.cross and np.vecdot have more parameters than np.linalg's
counterparts(__all__, globals(), np.linalg)

