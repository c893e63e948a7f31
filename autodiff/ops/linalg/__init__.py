"""Linear algebra (public as `ad.linalg`): what NumPy has in `np.linalg`, as far as it is served.

    solving         solve, solve_triangular, inv        factorization   cholesky
    determinant     det, slogdet                        eigen           eigh, eigvalsh
    orthogonal      qr                                  singular        svd, svdvals, pinv, lstsq
    and what stands in `ad` as well
"""

import numpy as np

from ..contraction import matmul, outer, tensordot
from ..linalg_basic import norm
from ..protocols import serves
from ..shaping import matrix_transpose
from .determinant import det, slogdet
from .eigen import eigh, eigvalsh
from .factorization import cholesky
from .orthogonal import qr
from .singular import lstsq, pinv, svd, svdvals
from .solving import inv, solve, solve_triangular

__all__ = [
    "cholesky", "det", "eigh", "eigvalsh", "inv", "lstsq", "matmul", "matrix_transpose", "norm", "outer", "pinv", "qr",
    "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensordot",
]  # fmt: skip

for _function in (cholesky, det, eigh, eigvalsh, inv, lstsq, pinv, qr, slogdet, solve, svd, svdvals):
    _numpy = getattr(np.linalg, _function.__name__, None)
    if _numpy is not None:  # svdvals is younger than the oldest NumPy we run with
        serves(_function, _numpy)
