"""Derivatives of functions of eigenvalues and singular values: what `eigen`, `singular` and norms share.

A symmetric function of them is smooth where values are equal, though their vectors are not.  With the slopes g = df/ds,

    a = u diag(s) vᴴ     df/da = u diag(g) vᴴ     p = uᴴ da v = p₊ + p₋, its Hermitian and skew parts
    d(df/da) = u (A * p₊ + B * p₋ + diag(dg)) vᴴ     A[i,j] = (g[j] - g[i]) / (s[j] - s[i])     B with + for both -

and of a Hermitian matrix the same with u = v, whose p has no skew part.  Where two values are equal A is 0 / 0: its
limit is known for slopes that do not change with the values (norms), else nan meets p₊ as a strong zero.  Values
that differ by less than the rounding of the matrix count as equal.
Source: Lewis and Sendov, "Twice differentiable spectral functions", SIAM J. Matrix Anal. 23 (2001).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir import dtype_name
from codegen.lowering import Call

from ...tape import DETACH, constant, record
from ...tensor import Tensor
from ..arithmetic import abs_, add, divide, mul0, multiply, subtract
from ..batching import along
from ..comparison import greater, less_equal, logical_and, logical_not, logical_or, not_equal
from ..complexes import real_part
from ..contraction import matmul
from ..conversion import cast_to
from ..creation import eye
from ..primitive import Operation, primitive, spread_to, zero_of
from ..reductions import max_, summed
from ..selection import where
from ..shaping import reshaped
from ..statistics import in_range
from .matrices import adjoint

__all__ = [
    "Gaps", "column", "diagonal_of", "diagonal_row", "identity", "moved_by_eigenvalues", "moved_by_singular_values",
    "of_all", "of_columns", "outside", "unknown", "with_rule",
]  # fmt: skip


def with_rule(name: str, vjp: Callable[..., tuple], jvp: Callable[..., Any], params: tuple[str, ...] = ()) -> Operation:
    """An operation whose value is its first input; the rules say how it follows from the others."""
    return primitive(
        name,
        lambda value, *_, **__: value,
        infer=lambda value, *_, **__: value,
        vjp=vjp,
        jvp=jvp,
        lower=Call(),
        params=params,
        batch=along(),
        keeps_mask=False,
        written=lambda operands, params, aval: operands[0],
    )


def identity(x: Tensor) -> Tensor:
    """The identity of as many columns."""
    return eye(x.shape[-1], dtype=x.dtype)


def column(row: Tensor) -> Tensor:
    """A row of each matrix as a column."""
    return reshaped(row, (*row.shape[:-2], row.shape[-1], 1))


def diagonal_of(row: Tensor) -> Tensor:
    """The matrices that have a row on their diagonal."""
    return multiply(row, identity(row))


def diagonal_row(x: Tensor) -> Tensor:
    """The real part of each diagonal as a row, in the same dtype."""
    row = summed(multiply(x, identity(x)), (x.ndim - 2,))
    return cast_to(real_part(reshaped(row, (*x.shape[:-2], 1, x.shape[-1]))), x.dtype)


def outside(x: Tensor, u: Tensor) -> Tensor:
    """The part of x's columns that the orthonormal columns u do not span."""
    return subtract(x, matmul(u, matmul(adjoint(u), x)))


class Gaps:
    """The differences and sums of the values of each matrix, which are a row.  No quotient leaves the range on the way.

    near   where two values differ by no more than the rounding of the matrix, the diagonal left out
    tiny   where a value is no larger than that, as a row
    """

    def __init__(self, values: Tensor) -> None:
        row = real_part(values)
        n, dtype = row.shape[-1], row.dtype
        still = abs_(record(DETACH, (row,)))
        top = max_(still, -1, keepdims=True) if n else still
        self._scale, _ = in_range(top)
        self._row = multiply(row, self._scale)
        self._limit = multiply(multiply(top, self._scale), n * float(np.finfo(dtype).eps))
        self._differences = subtract(self._row, column(self._row))
        self._is_near = less_equal(abs_(self._differences), self._limit)
        self.near = logical_and(self._is_near, logical_not(eye(n, dtype=np.dtype(bool))))
        self.tiny = less_equal(abs_(self._row), self._limit)

    def over_differences(self, x: Tensor) -> Tensor:
        """x[i, j] / (s[j] - s[i]), 0 where they are near."""
        return self._over(x, self._differences, self._is_near)

    def over_sums(self, x: Tensor) -> Tensor:
        """x[i, j] / (s[j] + s[i]); where both are tiny nan, and 0 for 0."""
        sums = add(self._row, column(self._row))
        return self._over(x, sums, less_equal(sums, self._limit), is_known=False)

    def over_values(self, x: Tensor) -> Tensor:
        """x[i, j] / s[j]; where it is tiny nan, and 0 for 0."""
        return self._over(x, self._row, self.tiny, is_known=False)

    def _over(self, x: Tensor, by: Tensor, is_none: Tensor, is_known: bool = True) -> Tensor:
        over = divide(self._scale, where(is_none, 1.0, by))
        return mul0(x, cast_to(where(is_none, 0.0 if is_known else _nan(by.dtype), over), x.dtype))


def _nan(dtype: np.dtype) -> Tensor:
    return constant(np.nan, dtype_name(dtype))


def unknown(x: Tensor, condition: Tensor) -> Tensor:
    """Nan where a condition holds and x is not 0, else 0."""
    real = real_part(x).dtype
    return mul0(x, cast_to(where(condition, _nan(real), zero_of(real)), x.dtype))


def of_columns(x: Tensor) -> Tensor:
    """The sizes of all elements in columns i and j, added, at [i, j]: numbers without a gradient."""
    sizes = summed(abs_(record(DETACH, (x,))), (x.ndim - 2,))
    row = reshaped(sizes, (*x.shape[:-2], 1, x.shape[-1]))
    return add(row, column(row))


def of_all(x: Tensor) -> Tensor:
    """The sizes of all elements of each square matrix, added, at every place: a number without a gradient."""
    sizes = summed(abs_(record(DETACH, (x,))), (x.ndim - 2, x.ndim - 1))
    return spread_to(reshaped(sizes, (*x.shape[:-2], 1, 1)), x.shape)


def moved_by_eigenvalues(gaps: Gaps, g: Tensor, p: Tensor, is_fixed: bool) -> Tensor:
    """A * p for Hermitian matrices and the slopes g, a row.  `is_fixed`: they do not change with the values."""
    row = real_part(g)
    found = mul0(p, cast_to(gaps.over_differences(subtract(row, column(row))), p.dtype))
    return add(found, unknown(p, _not_known(gaps, row, is_fixed)))


def _not_known(gaps: Gaps, row: Tensor, is_fixed: bool) -> Tensor:
    """The places where A has no limit, or none that is known: of fixed slopes it is 0 where they are the same."""
    return logical_and(gaps.near, not_equal(row, column(row))) if is_fixed else gaps.near


def moved_by_singular_values(gaps: Gaps, g: Tensor, p: Tensor, is_fixed: bool) -> Tensor:
    """A * p₊ + B * p₋ for the slopes g, a row.  `is_fixed`: they do not change with the values.

    A value that is 0 has a slope only as |x| has one there: what it meets has no limit.
    """
    row, turned = real_part(g), adjoint(p)
    even, odd = multiply(add(p, turned), 0.5), multiply(subtract(p, turned), 0.5)
    found = add(
        mul0(even, cast_to(gaps.over_differences(subtract(row, column(row))), p.dtype)),
        mul0(odd, cast_to(gaps.over_sums(add(row, column(row))), p.dtype)),
    )
    sizes = abs_(row)
    few = multiply(summed(sizes, (row.ndim - 1,)), float(np.finfo(row.dtype).eps) ** 0.5)
    bent = logical_and(gaps.tiny, greater(sizes, reshaped(few, (*row.shape[:-1], 1))))
    found = add(found, unknown(p, logical_or(bent, column(bent))))
    found = add(found, unknown(even, _not_known(gaps, row, is_fixed)))
    return found if is_fixed else add(found, unknown(odd, logical_and(gaps.tiny, column(gaps.tiny))))
