"""Least squares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...custom import function
from ...errors import ShapeError, caller
from ...tensor import Tensor
from ..arithmetic import abs_, multiply, subtract
from ..comparison import greater
from ..contraction import matmul
from ..conversion import cast_to
from ..promotion import common
from ..reductions import max_, summed
from ..shaping import reshaped
from .matrices import matrices
from .singular import pinv, svdvals, tolerance

__all__ = ["LstsqResult", "lstsq"]


class LstsqResult(NamedTuple):
    """The result of `lstsq` as in NumPy; the residuals are there whatever the rank is."""

    x: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@function
def lstsq(a, b, rcond=None) -> LstsqResult:
    """The least-squares solution: x of the least |b - a @ x|, of the least norm if there are several.

    a: T[..., m, n]  b: T[..., m, k] or T[m]  →  (x: T[..., n, k] or T[n], residuals: f[..., k], rank: i64[...],
    singular_values: f[..., min(m, n)])

    residuals   the sums of squares of b - a @ x: without an axis for a vector b
    rcond       as of `pinv`; the gradient is that of matrices of the same rank

    Raises ShapeError for matrices that do not fit.

    >>> import autodiff as ad
    >>> ad.linalg.lstsq([[1.0], [1.0]], [1.0, 3.0]).x
    f64[1] [2.]
    """
    a, b = common("lstsq", (("a", a), ("b", b)), "fc")
    a = matrices("lstsq", a)
    is_vector = b.ndim == 1
    if not b.ndim or b.shape[0 if is_vector else -2] != a.shape[-2]:
        raise ShapeError(
            f"lstsq: {a.aval} and {b.aval} have no common size\n"
            f"  called at {caller()}\n"
            f"  the right-hand side has as many rows as the matrix: {a.shape[-2]}"
        )
    columns = reshaped(b, (*b.shape, 1)) if is_vector else b
    x = matmul(pinv(a, rcond), columns)
    rest = abs_(subtract(columns, matmul(a, x)))
    residuals = summed(multiply(rest, rest), (rest.ndim - 2,))
    s = svdvals(a)
    bound = multiply(max_(s, axis=-1, keepdims=True), tolerance(a, rcond)) if s.shape[-1] else s
    rank = summed(cast_to(greater(s, bound), np.dtype(np.int64)), (s.ndim - 1,))
    if is_vector:
        x, residuals = reshaped(x, x.shape[:-1]), reshaped(residuals, residuals.shape[:-1])
    return LstsqResult(x, residuals, rank, s)
