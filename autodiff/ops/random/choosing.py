"""Drawing from what there is: by weights, in another order, with and without putting back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...custom import function
from ...errors import ShapeError, caller
from ...tensor import Tensor
from ..arguments import axis_of
from ..arithmetic import add, multiply
from ..comparison import greater_equal
from ..conversion import as_tensor, cast_to
from ..creation import arange, extents_of
from ..elementwise import log
from ..gathering import take
from ..reductions import argmax, sum_
from ..scans import cumsum
from ..selection import minimum
from ..shaping import reshape
from ..slicing import part
from ..sorting import argsort
from ..statistics import floating
from .drawing import gumbel, randint, uniform
from .keys import bits

__all__ = ["categorical", "choice", "permutation"]


@function
def categorical(key, logits, axis=-1, shape=None):
    """The index of a class, drawn with the probabilities softmax(logits).

    key: i32[2], logits: f[..., n, ...]  →  i64[shape]

    `shape` (None: that of logits without the axis) ends in that of logits without the axis: more draws stand in
    front.  Raises ShapeError when it does not.

    >>> import autodiff as ad
    >>> ad.random.categorical(ad.random.key(0), [0.0, 50.0, 0.0], shape=(3,)).tolist()
    [1, 1, 1]
    """
    logits = floating(logits, "random.categorical")
    along = axis_of("random.categorical", axis, logits.aval)
    rest = (*logits.shape[:along], *logits.shape[along + 1 :])
    wanted = rest if shape is None else extents_of("random.categorical", shape)
    front = wanted[: len(wanted) - len(rest)]
    if (*front, *rest) != wanted:
        raise ShapeError(f"random.categorical: shape {wanted} does not end in {rest}\n  called at {caller()}")
    noise = gumbel(key, (*front, *logits.shape), logits.dtype)
    return argmax(add(noise, logits), axis=len(front) + along)


@function
def permutation(key, x, axis=0):
    """x in another order along an axis, or range(x) for an int.   key: i32[2], x: T[..., n, ...]  →  T[..., n, ...]

    Raises ShapeError when x has no such axis.

    >>> import autodiff as ad
    >>> sorted(ad.random.permutation(ad.random.key(0), 4).tolist())
    [0, 1, 2, 3]
    """
    items = arange(x) if type(x) is int else as_tensor(x, "random.permutation", "x")
    along = axis_of("random.permutation", axis, items.aval)
    return take(items, _order(key, items.shape[along]), axis=along)


def _order(key: Any, n: int) -> Tensor:
    """The numbers 0 to n - 1 shuffled: 64 random bits decide, so two are equal once in 2^64 / n² times."""
    return argsort(bits(key, (n,), np.int64))


@function
def choice(key, a, shape=(), replace=True, p=None, axis=0):
    """Elements of a (an int: of range(a)) along an axis, equally likely or as p says.

    key: i32[2], a: T[..., n, ...], p: f[n]  →  T[..., shape..., ...]

    Without `replace` none comes twice.  p is divided by its sum.  Raises ShapeError when more are wanted than there
    are, and when p is no f[n].

    >>> import autodiff as ad
    >>> sorted(ad.random.choice(ad.random.key(0), 3, (3,), replace=False).tolist())
    [0, 1, 2]
    """
    items = arange(a) if type(a) is int else as_tensor(a, "random.choice", "a")
    along = axis_of("random.choice", axis, items.aval)
    n, extents = items.shape[along], extents_of("random.choice", shape)
    size = math.prod(extents)
    if size > (n if not replace else size * n):
        raise ShapeError(
            f"random.choice: {size} of {n} cannot be chosen{'' if replace else ' without replace'}"
            f"\n  called at {caller()}"
        )
    weights = None if p is None else floating(p, "random.choice")
    if weights is not None and weights.shape != (n,):
        raise ShapeError(f"random.choice: p is f[{n}], a weight for each of a, got {weights.aval}"
                         f"\n  called at {caller()}")
    return take(items, _chosen(key, n, extents, replace, weights), axis=along)


def _chosen(key: Any, n: int, extents: tuple[int, ...], replace: bool, weights: Tensor | None) -> Tensor:
    """The numbers of the elements that are chosen."""
    if not replace:
        order = _order(key, n) if weights is None else _weighted_order(key, weights)
        return reshape(part(order, 0, 0, math.prod(extents)), extents)
    if weights is None:
        return randint(key, extents, 0, n)
    upto = cumsum(weights)
    u = multiply(uniform(key, (*extents, 1), weights.dtype), part(upto, 0, n - 1, n))
    passed = sum_(cast_to(greater_equal(u, upto), np.dtype(np.int64)), axis=-1)
    return minimum(passed, n - 1)


def _weighted_order(key: Any, weights: Tensor) -> Tensor:
    """All elements as drawn one after the other: the largest of log p + Gumbel's numbers come first."""
    return argsort(add(log(weights), gumbel(key, weights.shape, weights.dtype)), descending=True)
