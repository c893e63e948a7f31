"""Norms of matrices that are sums of some of their singular values: the largest, the smallest, or all.

    |a| = sum(g s)     d|a| = sum(g re diag(uᴴ da v))     for known slopes g: 1, or 0, or shared by equal values

So the gradient is u diag(g) vᴴ, and its change has a limit where values are equal that do not share (see `eigen`).
At a kink, where they share, or where a value that counts is 0, the gradient is one between its sides, as of `max` and
`abs`, and second derivatives are nan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.ir import dtype_name

from ...tape import constant, record
from ...tensor import Tensor
from ..arithmetic import add, divide, mul0, multiply
from ..complexes import conjugated, real_part
from ..conditions import equal, logical_and, not_equal, where
from ..conversion import cast_to
from ..primitive import added, spread_to, zero_of
from ..reductions import summed
from ..shaping import reshaped
from ..slicing import part
from .eigen import Gaps, diagonal_row, identity, with_rule
from .singular import apart, decomposition, moved_gradient, scaled_by

__all__ = ["spectral_norm"]


def _number(x: Tensor, a: Tensor) -> Tensor:
    """A number for each matrix, in the dtype of the matrices."""
    return cast_to(reshaped(x, (*x.shape, 1, 1)), a.dtype)


def _known_slopes(s: Tensor, slopes: Tensor) -> Tensor:
    """The slopes, nan at kinks."""
    is_kink = logical_and(Gaps(s).tiny, not_equal(real_part(slopes), zero_of(real_part(slopes).dtype)))
    return where(is_kink, _nan(s.dtype), slopes)


def _nan(dtype: np.dtype) -> Tensor:
    return constant(np.nan, dtype_name(dtype))


def _gradient(seed: Tensor, a: Tensor, y: Tensor, shares: Tensor, slopes: Tensor) -> Tensor:
    """The seed times u diag(shares) vᴴ, without the values that are 0."""
    u, s, v = apart(y, a.shape[-2])
    row = where(equal(s, zero_of(s.dtype)), zero_of(s.dtype), shares)
    return record(_pulled, (multiply(_number(seed, a), scaled_by(u, row, v)), seed, a, y, slopes))


def _pulled_vjp(c, _, value, seed, a, y, slopes):
    moved, p = moved_gradient(a, y, slopes, c, True)
    by_values = mul0(diagonal_row(p), _known_slopes(apart(y, a.shape[-2])[1], slopes))
    seed_bar = summed(real_part(by_values), (p.ndim - 2, p.ndim - 1))
    return (None, seed_bar, multiply(_number(seed, a), moved), None, None)


def _pulled_jvp(dxs, _, value, seed, a, y, slopes):
    _, dseed, da, _, _ = dxs
    by_a = None if da is None else multiply(_number(seed, a), moved_gradient(a, y, slopes, da, True)[0])
    if dseed is None:
        return by_a
    u, s, v = apart(y, a.shape[-2])
    by_seed = multiply(_number(dseed, a), scaled_by(u, _known_slopes(s, slopes), v))
    return added(by_a, by_seed)


#: The gradient of a norm: from it, its seed, a, the decomposition of a, and slopes that are nan where values share.
_pulled = with_rule("norm_pulled", _pulled_vjp, _pulled_jvp)


def _norm_vjp(y_bar, _, value, a, y, shares, slopes):
    return (None, _gradient(y_bar, a, y, shares, slopes), None, None, None)


def _norm_jvp(dxs, _, value, a, y, shares, slopes):
    one = spread_to(constant(1.0, dtype_name(value.dtype)), value.shape)
    products = multiply(conjugated(_gradient(one, a, y, shares, slopes)), dxs[1])
    return real_part(summed(products, (a.ndim - 2, a.ndim - 1)))


#: A norm: from it, a, the decomposition of a, the share of each value in the gradient, and the slopes of `_pulled`.
_norm = with_rule("spectral_norm", _norm_vjp, _norm_jvp)


def spectral_norm(a: Tensor, ord: Any) -> Tensor:
    """The largest singular value of each matrix (ord 2), the smallest (-2), or the sum of all ("nuc")."""
    y = decomposition(a)
    _, s, _ = apart(y, a.shape[-2])
    row = real_part(s)
    if ord == "nuc":
        value = summed(row, (row.ndim - 2, row.ndim - 1))
        shares = slopes = spread_to(constant(1.0, dtype_name(s.dtype)), s.shape)
    else:
        at = 0 if ord == 2 else row.shape[-1] - 1
        value = reshaped(part(row, row.ndim - 1, at, at + 1), row.shape[:-2])
        equals = part(add(cast_to(Gaps(s).near, row.dtype), identity(row)), row.ndim - 2, at, at + 1)
        count = reshaped(summed(equals, (row.ndim - 1,)), (*row.shape[:-1], 1))
        shares = cast_to(divide(equals, count), s.dtype)
        slopes = where(equal(multiply(shares, shares), shares), shares, _nan(s.dtype))
    return record(_norm, (value, a, y, shares, slopes))
