"""Rows read from the diagonal on, as operations: all windows of a row, and what they are added up to.

    slant      y[..., i, k] = x[..., i, i + k]
    unslant    x[..., i, i + k] = y[..., i, k], zero elsewhere      the transpose of slant

A row broadcast to n rows and slanted has its windows as columns, x[i + k], which nothing stores: a sum of products of
them is a loop over windows that reads x.  In an array of places, which says the same to `take`, each must be checked.
"""

from __future__ import annotations

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Move

from ..tape import record
from ..tensor import Tensor
from .batching import with_examples
from .primitive import linear, spread_to

__all__ = ["slant", "unslant", "windows"]


def _slant_aval(x: Aval, *, count: int) -> Aval:
    assert x.ndim > 1 and x.shape[-2] + count - 1 <= x.shape[-1], f"slant: no {count} from each diagonal on in {x}"
    return x.with_shape((*x.shape[:-1], count))


def _slant_reference(x: np.ndarray, *, count: int) -> np.ndarray:
    rows, places = np.ogrid[: x.shape[-2], :count]
    return x[..., rows, rows + places]


def _slant_element(k, index, x, *, count):
    *others, i, place = index
    return x(*others, i, k.add(i, place))


def _unslant_aval(y: Aval, *, extent: int) -> Aval:
    assert y.ndim > 1 and y.shape[-2] + y.shape[-1] - 1 <= extent, f"unslant: {y} is not within {extent}"
    return y.with_shape((*y.shape[:-1], extent))


def _unslant_reference(y: np.ndarray, *, extent: int) -> np.ndarray:
    x = np.zeros((*y.shape[:-1], extent), y.dtype)
    rows, places = np.ogrid[: y.shape[-2], : y.shape[-1]]
    x[..., rows, rows + places] = y
    return x


def _unslant_element(k, index, y, *, extent):
    *others, i, place = index
    ahead, count = k.sub(place, i), y.shape[-1]
    inside = k.logical_and(k.ge(ahead, k.index(0)), k.lt(ahead, k.index(count)))
    value = y(*others, i, k.minimum(k.maximum(ahead, k.index(0)), k.index(max(count - 1, 0))))
    return k.select(inside, value, k.constant(0, like=value))


def _slant_transpose(y_bar, y, x, *, count):
    return (record(unslant, (y_bar,), (x.shape[-1],)),)


def _unslant_transpose(x_bar, x, y, *, extent):
    return (record(slant, (x_bar,), (y.shape[-1],)),)


def _each(op, size, xs, mapped, **params):
    """The last two axes are those of each example."""
    return record(op, with_examples(size, xs, mapped), tuple(params.values()))


slant = linear(
    "slant",
    _slant_reference,
    infer=_slant_aval,
    transpose=_slant_transpose,
    lower=Move(_slant_element),
    params=("count",),
    traits=("move",),
    batch=_each,
)

#: Zeros, with each row from its diagonal on.
unslant = linear(
    "unslant",
    _unslant_reference,
    infer=_unslant_aval,
    transpose=_unslant_transpose,
    lower=Move(_unslant_element, free=False),
    params=("extent",),
    batch=_each,
)


def windows(x: Tensor, n: int) -> Tensor:
    """All windows of n elements of a row, as columns.   T[m]  →  T[n,m-n+1]"""
    (m,) = x.shape
    return record(slant, (spread_to(x, (n, m)),), (m - n + 1,))
