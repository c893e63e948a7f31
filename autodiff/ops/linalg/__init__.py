"""Linear algebra (public as `ad.linalg`): what NumPy has in `np.linalg`, as far as it is served.

    solving         solve, solve_triangular, inv        factorization   cholesky
    determinant     det, slogdet                        eigen           eigh, eigvalsh
    and what stands in `ad` as well
"""

from ..contraction import matmul, outer, tensordot
from ..linalg_basic import norm
from ..shaping import matrix_transpose
from .determinant import det, slogdet
from .eigen import eigh, eigvalsh
from .factorization import cholesky
from .solving import inv, solve, solve_triangular

__all__ = [
    "cholesky", "det", "eigh", "eigvalsh", "inv", "matmul", "matrix_transpose", "norm", "outer", "slogdet", "solve",
    "solve_triangular", "tensordot",
]
