"""Solving triangular systems by substitution, with NumPy alone: the reference of `solve_triangular`.

By blocks: each diagonal block is solved for itself, then its part is taken from the rows that follow by
one product, so nearly all the work is matrix products.  LAPACK's LU factorisation of an *upper* triangular
block is the block itself, without pivoting; so `np.linalg.solve` on it is back substitution, and lower
triangles are turned round first.
"""

from __future__ import annotations

import numpy as np

from ...errors import LinAlgError, caller

__all__ = ["substituted"]

#: Rows that are solved at once.  Of 16, 32, 64, 128, 256 the fastest or close to it for n = 200 to 2,000 with
#: one to n columns, where it takes a half to a tenth of the time of an LU solution (NumPy 2.4, OpenBLAS, Zen 4).
BLOCK = 64


def substituted(a: np.ndarray, b: np.ndarray, *, lower: bool) -> np.ndarray:
    """x with triangle(a) @ x = b.   f[..., n, n], f[..., n, m]  →  f[..., n, m]

    What a has on the other side of its diagonal is not read.  Raises LinAlgError for a zero on the diagonal.
    """
    try:
        if lower:
            return _back(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]
        return _back(a, b)
    except np.linalg.LinAlgError:
        raise _refused(a) from None


def _back(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Back substitution in an upper triangle, the last block of rows first."""
    n = a.shape[-1]
    if n <= BLOCK:
        return np.linalg.solve(_upper(a), b)
    x = np.array(b)
    for stop in range(n, 0, -BLOCK):
        start = max(stop - BLOCK, 0)
        rows = slice(start, stop)
        x[..., rows, :] = np.linalg.solve(_upper(a[..., rows, rows]), x[..., rows, :])
        if start:
            x[..., :start, :] -= a[..., :start, rows] @ x[..., rows, :]
    return x


def _upper(a: np.ndarray) -> np.ndarray:
    """The upper triangle, zeros below: `np.triu` takes as long as solving by a small one does."""
    n = a.shape[-1]
    return np.where(_IS_UPPER[:n, :n], a, a.dtype.type(0))


#: The mask of the upper triangle of a block.
_IS_UPPER = np.triu(np.ones((BLOCK, BLOCK), bool))


def _refused(a: np.ndarray) -> LinAlgError:
    """The error for a triangle that LAPACK found singular."""
    diagonal = np.diagonal(a, axis1=-2, axis2=-1)
    where = [int(i) for i in np.argwhere(diagonal == 0)[0]]
    return LinAlgError(
        f"solve_triangular: the matrix is singular: element {where[-1]} of "
        f"the diagonal{f' of matrix {where[:-1]}' if where[:-1] else ''} is 0\n"
        f"  asked at {caller()}"
    )
