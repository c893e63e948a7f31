"""Random numbers from keys (public as `ad.random`): a key gives the same numbers at every call and on every machine.

    key = ad.random.key(0)
    key, now = ad.random.split(key)
    noise = ad.random.normal(now, (32, 10))

    keys        key, split, fold_in             basic         bits, uniform, randint, bernoulli
    continuous  normal, truncated_normal, exponential, gumbel, laplace, logistic
    choosing    categorical, choice, permutation

A key is an i32[2] and a run-time argument: one graph serves all keys, `ad.vmap` over keys works, and the kernels that
use random numbers compute them in place.  Element i of an array is Threefry-2x32 with 20 rounds
(Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, 2011) of i under the key, so it depends on
neither threads nor neighbours.  Keys, bits and uniform numbers equal those of `jax.random`, bit for bit.

No gradient flows to a key.  Gradients flow to the bounds, means and scales by which numbers are shifted and scaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError, located
from ..tape import constant
from ..tensor import Tensor
from .conditions import clip, minimum, where
from .conversion import as_tensor, cast_to, dtype_of
from .creation import arange, extents_of
from .declare import axis_of, documented, in_common_dtype
from .elementwise import erf, expm1, log, log1p, sqrt
from .extremes import argmax
from .gathering import take
from .primitive import F64, I64, Ints, reduced_shape
from .random_keys import bits, fold_in, fraction, key, numbered, of_key, split
from .reductions import cumsum, sum_
from .rows import argsort
from .shaping import reshape
from .special_normal import erfinv, log_ndtr, mills
from .statistics import floating
from .template import public

__all__ = [
    "bernoulli", "bits", "categorical", "choice", "exponential", "fold_in", "gumbel", "key", "laplace", "logistic",
    "normal", "permutation", "randint", "split", "truncated_normal", "uniform",
]

_ROOT = math.sqrt(2.0)


def _float(name: str, dtype: Any) -> np.dtype:
    dtype = dtype_of(dtype, f"random.{name}")
    if dtype.kind != "f":
        raise DTypeError(located(f"random.{name}: numbers are float32 or float64, not {dtype}"))
    return dtype


@public(1)
def _unit(key: Any, shape: Any, dtype: Any, name: str) -> Tensor:
    """Uniform numbers in [0, 1), multiples of 2^-23 (f32) or 2^-52 (f64)."""
    dtype = _float(name, dtype)
    return fraction(numbered(of_key(name, key), extents_of(f"random.{name}", shape), f"i{8 * dtype.itemsize}"))


def _inside(key: Any, shape: Any, dtype: Any, name: str) -> Tensor:
    """Uniform numbers in (0, 1): the least normal number is added, so that none is 0."""
    u = _unit(key, shape, dtype, name)
    return u + constant(float(np.finfo(u.dtype).tiny), u.dtype)


def _signed(key: Any, shape: Any, dtype: Any, name: str) -> Tensor:
    """Uniform numbers in (-1, 1)."""
    u = _unit(key, shape, dtype, name)
    least = float(np.nextafter(u.dtype.type(-1), u.dtype.type(0)))
    return u * constant(2.0, u.dtype) + constant(least, u.dtype)


def _number(name: str, argument: str, x: Any, dtype: np.dtype) -> Tensor:
    return cast_to(as_tensor(x, f"random.{name}", argument), dtype)


def _fits(name: str, result: Tensor, shape: Ints) -> Tensor:
    """The result, if it has the wanted shape.  Raises ShapeError if the parameters broadcast it to a larger one."""
    if result.shape != shape:
        raise ShapeError(located(
            f"random.{name}: parameters that broadcast to {result.shape} do not fit shape {shape}"
        ))
    return result


@public(1)
def uniform(key, shape=(), dtype=np.float64, minval=0.0, maxval=1.0):
    """Uniform numbers in [minval, maxval), which broadcast to shape.   key: i32[2]  →  dtype[shape]

    Differentiable in the bounds.  Raises ShapeError when the bounds do not broadcast to shape.

    >>> ad.random.uniform(ad.random.key(0), (2,)).shape
    (2,)
    """
    u = _unit(key, shape, dtype, "uniform")
    if type(minval) is float and type(maxval) is float and minval == 0.0 and maxval == 1.0:
        return u
    least, most = (_number("uniform", n, x, u.dtype) for n, x in (("minval", minval), ("maxval", maxval)))
    return _fits("uniform", u * (most - least) + least, u.shape)


@public(1)
def randint(key, shape, minval, maxval, dtype=np.int64):
    """Integers in [minval, maxval), which broadcast to shape.   key: i32[2]  →  dtype[shape]     dtype: int32 or int64

    A number is the remainder of one of 2^63 equally likely integers, so relative probabilities differ by at most
    (maxval - minval) / 2^63.  An empty range gives minval.  Bounds given as arrays are clipped to the dtype's range,
    and to fewer than 2^63 integers between them.
    Raises TypeError for a key that is no array, DTypeError for another dtype, ShapeError when the bounds do not
    broadcast, OverflowError for bounds that are ints outside the dtype's range, or 2^63 or more apart.

    >>> set(ad.random.randint(ad.random.key(0), (100,), 0, 3).tolist())
    {0, 1, 2}
    """
    dtype = dtype_of(dtype, "random.randint")
    if dtype.kind != "i":
        raise DTypeError(located(f"random.randint: numbers are int32 or int64, not {dtype}"))
    info, are_ints = np.iinfo(dtype), type(minval) is int and type(maxval) is int
    if are_ints and minval < maxval and (minval < info.min or maxval - 1 > info.max or maxval - minval >= 1 << 63):
        raise OverflowError(located(
            f"random.randint: {dtype} has not all numbers from {minval} to {maxval}, or these are 2**63 or more",
            "ad.random.bits draws from all integers of a dtype",
        ))
    extents, i64 = extents_of("random.randint", shape), I64
    least, end = (_number("randint", n, x, i64) for n, x in (("minval", minval), ("maxval", maxval)))
    drawn = numbered(of_key("randint", key), extents, "i64") >> 1
    if not are_ints:
        least, end = clip(least, info.min, info.max), clip(end, info.min, info.max + (dtype != I64))
    span = end - least
    if not are_ints:
        span = where((span < 0) & (end > least), info.max, span)  # the difference has wrapped around
    drawn = where(span > 0, drawn % span, 0)
    return _fits("randint", cast_to(drawn + least, dtype), extents)


@public(1)
def bernoulli(key, p=0.5, shape=None):
    """True with probability p, which broadcasts to shape (None: p's).   key: i32[2], p: f[...]  →  bool[shape]

    Raises TypeError for a key that is no array, ShapeError when p does not broadcast to shape.

    >>> ad.random.bernoulli(ad.random.key(0), [0.0, 1.0])
    bool[2] [False  True]
    """
    (p,) = in_common_dtype("random.bernoulli", [("p", p)], "f")
    u = _unit(key, p.shape if shape is None else shape, p.dtype, "bernoulli")
    return _fits("bernoulli", u < p, u.shape)


@public(1)
def truncated_normal(key, lower, upper, shape=None, dtype=np.float64):
    """Normal numbers between two bounds, which broadcast to shape (None: theirs).   key: i32[2]  →  dtype[shape]

    Raises TypeError for a key that is no array, DTypeError for a dtype that is not float, ShapeError when the bounds
    do not broadcast to shape.

    >>> x = ad.random.truncated_normal(ad.random.key(0), 0.0, 1.0, (1000,))
    >>> bool(ad.min(x) >= 0) and bool(ad.max(x) <= 1)
    True
    """
    dtype = _float("truncated_normal", dtype)
    a, b = (_number("truncated_normal", n, x, dtype) for n, x in (("lower", lower), ("upper", upper)))
    low, high = erf(a / _ROOT), erf(b / _ROOT)
    width = high - low
    u = _unit(key, width.shape if shape is None else shape, dtype, "truncated_normal")
    is_low = b < 0.0
    near, far = where(is_low, -b, a), where(is_low, -a, b)
    start = 4.0 if dtype == F64 else 2.0
    tail = _truncated_tail(where(is_low, 1.0 - u, u), clip(near, start, 1e8), far)
    found = where(near > start, where(is_low, -tail, tail), erfinv(u * width + low) * _ROOT)
    return _fits("truncated_normal", clip(found, a, b), u.shape)


def _truncated_tail(u: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """Normal numbers between `near`, far above 0, and `far`, at shares u of the probability between the two bounds.

    x solves log Q(x) = log Q(near) + t, where Q is the distribution's tail.  Q(x) / Q(near) is exp((near² - x²) / 2)
    times a slowly varying ratio, first taken from Laplace's fraction; one step of Halley's method gives full precision.
    """
    at_near = log_ndtr(-near)
    t = log1p(u * expm1(log_ndtr(-clip(far, near, near + 40.0)) - at_near))
    x = sqrt(near * near - 2.0 * t)
    for _ in range(2):
        x = sqrt(near * near - 2.0 * (t - log(_laplace(x) / _laplace(near))))
    error, slope = log_ndtr(-x) - (at_near + t), mills(-x)
    return x + 2.0 * error / (2.0 * slope + error * (slope - x))


def _laplace(x: Tensor) -> Tensor:
    """Mills' ratio, the normal distribution's tail over its density, by first terms of Laplace's continued fraction."""
    square = x * x
    return x * (square + 5.0) / (square * (square + 6.0) + 3.0)


def _sampler(name: str, summary: str, draw: Callable[..., Tensor], of: Callable[[Tensor], Tensor], example: str) -> Any:
    """Declare the public function of a distribution whose numbers are functions of uniform numbers.

    draw    draws the uniform numbers: `_unit`, `_inside` or `_signed`;  of: the function of a uniform number
    """
    doc = documented(
        example, f"{summary}   key: i32[2]  →  dtype[shape]",
        "Raises TypeError for a value that is no key, DTypeError for a dtype that is not float, "
        "ShapeError for a negative extent.",
    )

    def body(key, shape=(), dtype=np.float64):
        return of(draw(key, shape, dtype, name))

    return public(1, name=name, doc=doc)(body)


normal = _sampler(
    "normal", "Normal numbers of mean 0 and variance 1.", _signed,
    lambda u: erfinv(u) * constant(_ROOT, u.dtype),
    ">>> x = ad.random.normal(ad.random.key(0), (1000,))\n>>> bool(abs(ad.mean(x)) < 0.1)\nTrue",
)
exponential = _sampler(
    "exponential", "Exponential numbers of mean 1.", _unit, lambda u: -log1p(-u),
    ">>> bool(abs(ad.mean(ad.random.exponential(ad.random.key(0), (1000,))) - 1) < 0.1)\nTrue",
)
gumbel = _sampler(
    "gumbel", "Gumbel's numbers, -log(-log u); the largest of logits + these is a draw.", _inside,
    lambda u: -log(-log(u)),
    ">>> logits = ad.log([0.0, 1.0])\n"
    ">>> ad.argmax(logits + ad.random.gumbel(ad.random.key(0), (3, 2)), axis=1)\ni64[3] [1 1 1]",
)
laplace = _sampler(
    "laplace", "Laplace's numbers, of density exp(-|x|)/2.", _signed,
    lambda u: where(u < constant(0.0, u.dtype), log1p(u), -log1p(-u)),
    ">>> bool(abs(ad.mean(ad.random.laplace(ad.random.key(0), (1000,)))) < 0.2)\nTrue",
)
logistic = _sampler(
    "logistic", "Logistic numbers, log(u / (1 - u)).", _inside, lambda u: log(u) - log1p(-u),
    ">>> u = ad.sigmoid(ad.random.logistic(ad.random.key(0), (1000,)))\n>>> bool(abs(ad.mean(u) - 0.5) < 0.05)\nTrue",
)


@public()
def categorical(key, logits, axis=-1, shape=None):
    """The index of a class, drawn with the probabilities softmax(logits).

    key: i32[2], logits: f[..., n, ...]  →  i64[shape]

    `shape` must end in the shape of logits without the axis (None: is this shape); leading extents mean more draws.
    Raises ShapeError when it does not.

    >>> ad.random.categorical(ad.random.key(0), [0.0, 50.0, 0.0], shape=(3,)).tolist()
    [1, 1, 1]
    """
    logits = floating(logits, "random.categorical")
    along = axis_of("random.categorical", axis, logits.aval)
    rest = reduced_shape(logits.shape, (along,))
    wanted = rest if shape is None else extents_of("random.categorical", shape)
    front = wanted[: len(wanted) - len(rest)]
    if (*front, *rest) != wanted:
        raise ShapeError(located(f"random.categorical: shape {wanted} does not end in {rest}"))
    noise = gumbel(key, (*front, *logits.shape), logits.dtype)
    return argmax(noise + logits, axis=len(front) + along)


@public(1)
def permutation(key, x, axis=0):
    """x in another order along an axis, or range(x) for an int.   key: i32[2], x: T[..., n, ...]  →  T[..., n, ...]

    Raises ShapeError when x has no such axis.

    >>> sorted(ad.random.permutation(ad.random.key(0), 4).tolist())
    [0, 1, 2, 3]
    """
    items = arange(x) if type(x) is int else as_tensor(x, "random.permutation", "x")
    along = axis_of("random.permutation", axis, items.aval)
    return take(items, _order(key, items.shape[along]), axis=along)


def _order(key: Any, n: int) -> Tensor:
    """The numbers 0 to n - 1, shuffled by sorting 64 random bits of each; equal bits occur once in 2^64 / n² calls."""
    return argsort(bits(key, (n,), np.int64))


@public(1)
def choice(key, a, shape=(), replace=True, p=None, axis=0):
    """Elements of a (an int: of range(a)) along an axis, equally likely or as p says.

    key: i32[2], a: T[..., n, ...], p: f[n]  →  T[..., shape..., ...]

    Without `replace` no element is chosen twice.  p is divided by its sum.  Raises ShapeError when more elements are
    to be chosen than a has, and when p is not of shape [n].

    >>> sorted(ad.random.choice(ad.random.key(0), 3, (3,), replace=False).tolist())
    [0, 1, 2]
    """
    items = arange(a) if type(a) is int else as_tensor(a, "random.choice", "a")
    along = axis_of("random.choice", axis, items.aval)
    n, extents = items.shape[along], extents_of("random.choice", shape)
    size = math.prod(extents)
    if size > (n if not replace else size * n):
        raise ShapeError(located(
            f"random.choice: {size} of {n} cannot be chosen{'' if replace else ' without replace'}"
        ))
    weights = None if p is None else floating(p, "random.choice")
    if weights is not None and weights.shape != (n,):
        raise ShapeError(located(f"random.choice: p is f[{n}], a weight for each of a, got {weights.aval}"))
    chosen = _chosen(key, n, extents, replace, weights)
    return chosen if type(a) is int else take(items, chosen, axis=along)


@public(1)
def _chosen(key: Any, n: int, extents: Ints, replace: bool, weights: Tensor | None) -> Tensor:
    """The indices of the chosen elements."""
    if not replace:
        if weights is None:
            order = _order(key, n)
        else:  # sorting log p + Gumbel's numbers is like drawing one after the other without replacement
            order = argsort(log(weights) + gumbel(key, weights.shape, weights.dtype), descending=True)
        return reshape(order[: math.prod(extents)], extents)
    if weights is None:
        return randint(key, extents, 0, n)
    upto = cumsum(weights)
    u = uniform(key, (*extents, 1), weights.dtype) * upto[-1:]
    passed = sum_(cast_to(u >= upto, I64), axis=-1)
    return minimum(passed, n - 1)
