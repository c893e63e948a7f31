"""Special functions (public as `ad.special`), by the names of scipy.special and jax.scipy.special.

    gamma functions     gamma, gammaln, digamma, polygamma, factorial, beta, betaln, multigammaln
    error functions     erf, erfc, erfinv, ndtr, log_ndtr
    of probabilities    expit, logit, entr, rel_entr, kl_div, xlogy, xlog1py, logsumexp, softmax, log_softmax
    Bessel functions    i0, i0e, i1, i1e

Those that are operations are written once, as programs for an element; the others are made of them.
"""

from __future__ import annotations

import math
from typing import Any

from codegen.lowering import Map

from ..custom import function
from ..errors import DispatchError, caller
from ..tensor import Tensor
from .arguments import integer
from .arithmetic import add, divide, mul0, multiply, negative, subtract
from .arrays import on_arrays
from .comparison import equal, greater, greater_equal, less, logical_and
from .declare import binary, unary
from .elementwise import erf, exp, log, log1p, sigmoid
from .inverse_error import erfinv
from .promotion import common
from .selection import maximum, minimum, where
from .special_bessel import i0, i0e, i1, i1e
from .special_gamma import digamma, gamma, gammaln, polygamma
from .special_series import ERFCX, more_by_erf, series
from .statistics import log_softmax, logsumexp, softmax

__all__ = [
    "beta", "betaln", "digamma", "entr", "erf", "erfc", "erfinv", "expit", "factorial", "gamma", "gammaln", "i0", "i0e",
    "i1", "i1e", "kl_div", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "polygamma",
    "rel_entr", "softmax", "xlog1py", "xlogy",
]  # fmt: skip

expit = sigmoid

#: From here on so many terms of Stirling's series are exact.
_STIRLING = 10.0
_TERMS = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


def _floats(name: str, **given: Any) -> list[Tensor]:
    return common(name, tuple(given.items()), "f")


# ---------------------------------------------------------------- of gamma functions


@function
def factorial(x):
    """Γ(x + 1): x! of whole numbers.   f[...]  →  f[...]     integers give float64

    Of -1 it is inf, of whole numbers below nan.

    >>> import autodiff as ad
    >>> ad.special.factorial([0, 5, -1, -2])
    f64[4] [  1. 120.  inf  nan]
    """
    (x,) = _floats("factorial", x=x)
    return gamma(add(x, 1.0))


@function
def betaln(a, b):
    """log |Γ(a) Γ(b) / Γ(a + b)|.   f[...], f[...]  →  f[...]

    Where both are large the difference loses digits: of 1e6 and 1e6 one.
    Source: NIST Digital Library of Mathematical Functions, 5.11 and 5.12.

    >>> import autodiff as ad
    >>> ad.special.betaln([200.0], [300.0])
    f64[1] [-337.98011307]
    """
    a, b = _floats("betaln", a=a, b=b)
    small, large = minimum(a, b), maximum(a, b)
    is_far = logical_and(greater(small, 0.0), greater_equal(large, _STIRLING))
    far = _lost(where(is_far, small, 1.0), where(is_far, large, _STIRLING))
    near = where(is_far, 1.0, large)
    return add(gammaln(small), where(is_far, far, subtract(gammaln(near), gammaln(add(small, near)))))


def _lost(p: Tensor, q: Tensor) -> Tensor:
    """log Γ(q) / Γ(p + q) for q from 10 on, by Stirling's series: what is common to both is not there to cancel."""
    both = add(p, q)
    steep = multiply(subtract(both, 0.5), log1p(divide(p, q)))
    return subtract(add(subtract(p, multiply(p, log(q))), subtract(_beyond(q), _beyond(both))), steep)


def _beyond(x: Tensor) -> Tensor:
    """What Stirling's series adds to (x - 1/2) log x - x + log(2π) / 2."""
    inverse = divide(1.0, x)
    square, total = multiply(inverse, inverse), _TERMS[-1]
    for c in _TERMS[-2::-1]:
        total = add(multiply(total, square), c)
    return multiply(total, inverse)


@function
def beta(a, b):
    """Γ(a) Γ(b) / Γ(a + b) of positive numbers.   f[...], f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.special.beta([2.0, 0.5], [3.0, 0.5])
    f64[2] [0.08333333 3.14159265]
    """
    return exp(betaln(a, b))


@function
def multigammaln(a, d):
    """The logarithm of the gamma function of d dimensions, a > (d - 1) / 2.   f[...]  →  f[...]     d: an int

    Raises TypeError for a d that is no integer, DispatchError for one below 1.

    >>> import autodiff as ad
    >>> ad.special.multigammaln([3.0, 4.0], 2)
    f64[2] [1.55019499 3.56509801]
    """
    (a,) = _floats("multigammaln", a=a)
    d = integer(d, "multigammaln", "d")
    if d < 1:
        raise DispatchError(f"multigammaln: d is a positive int, not {d!r}\n  called at {caller()}")
    total = gammaln(a)
    for j in range(1, d):
        total = add(total, gammaln(subtract(a, 0.5 * j)))
    return add(total, 0.25 * d * (d - 1) * math.log(math.pi))


# ---------------------------------------------------------------- of the normal distribution


def _scaled_tail(k: Any, x: Any) -> Any:
    """exp(x²) erfc(x) of a number from 0 on."""
    three, two, one = (k.constant(c, like=x) for c in (3.0, 2.0, 1.0))
    t = k.select(k.isinf(x), one, k.div(k.sub(x, three), k.add(x, three)))
    return k.div(series(k, ERFCX, t), k.add(one, k.mul(two, x)))


def _bell(k: Any, x: Any, scale: float = 1.0) -> Any:
    """exp(-scale x²), with what x² is rounded by.   scale: a power of two"""
    square, factor = k.mul(x, x), k.constant(scale, like=x)
    rest = k.fma(x, x, k.neg(square))
    bell = k.exp(k.neg(k.mul(factor, square)))
    return k.select(k.eq(bell, k.constant(0.0, like=x)), bell, k.sub(bell, k.mul(bell, k.mul(factor, rest))))


def _erfc(k: Any, x: Any) -> Any:
    size = k.abs(x)
    tail = k.mul(_bell(k, x), _scaled_tail(k, size))  # of x, whose square the gradient has too
    zero, half, one, two = (k.constant(c, like=x) for c in (0.0, 0.5, 1.0, 2.0))
    near = more_by_erf(k, one, k.neg(x), x)
    return k.select(k.lt(size, half), near, k.select(k.lt(x, zero), k.sub(two, tail), tail))


erfc = unary(
    "erfc",
    on_arrays(_erfc),
    partials=lambda y, x: (multiply(-2 / math.sqrt(math.pi), exp(negative(multiply(x, x)))),),
    lower=Map(_erfc),
    doc="""1 - erf(x), with all its digits where it is small.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.special.erfc([10.0])
    f64[1] [2.08848758e-45]
    >>> 1 - ad.erf([10.0])
    f64[1] [0.]
    """,
)

_ROOT_HALF = math.sqrt(0.5)


def _ndtr(k: Any, x: Any) -> Any:
    scaled = k.mul(x, k.constant(_ROOT_HALF, like=x))
    size = k.abs(scaled)
    zero, half, one = (k.constant(c, like=x) for c in (0.0, 0.5, 1.0))
    tail = k.mul(half, k.mul(_bell(k, x, 0.5), _scaled_tail(k, size)))
    near = more_by_erf(k, half, k.mul(half, scaled), scaled)
    return k.select(k.lt(size, half), near, k.select(k.lt(x, zero), tail, k.sub(one, tail)))


ndtr = unary(
    "ndtr",
    on_arrays(_ndtr),
    partials=lambda y, x: (multiply(1 / math.sqrt(2 * math.pi), exp(multiply(-0.5, multiply(x, x)))),),
    lower=Map(_ndtr),
    doc="""The probability that a normal number is below x.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.special.ndtr([0.0, -1.96])
    f64[2] [0.5       0.0249979]
    """,
)


def _mills(k: Any, x: Any) -> Any:
    """φ(x) / Φ(x), the normal density over the probability."""
    zero, half, one, two = (k.constant(c, like=x) for c in (0.0, 0.5, 1.0, 2.0))
    scaled = k.mul(x, k.constant(_ROOT_HALF, like=x))
    size = k.abs(scaled)
    tail, bell = _scaled_tail(k, size), _bell(k, x, 0.5)
    # Twice the probability, over the bell where x is low.
    near = more_by_erf(k, one, scaled, scaled)
    is_near = k.lt(size, half)
    is_low = k.logical_and(k.lt(x, zero), k.logical_not(is_near))
    twice = k.select(is_low, tail, k.select(is_near, near, k.sub(two, k.mul(bell, tail))))
    found = k.div(k.mul(k.constant(math.sqrt(2 / math.pi), like=x), k.select(is_low, one, bell)), twice)
    return k.select(k.logical_and(is_low, k.isinf(x)), k.neg(x), found)


#: 1 - t + 6t² - ..., t = 1/x²: what x + φ/Φ is multiplied by φ/Φ, far below 0 (the product of two series of Laplace's).
_SLOPE = (1.0, -1.0, 6.0, -50.0, 518.0, -6354.0)


def _mills_slope(x: Tensor, y: Tensor) -> Tensor:
    """-y (x + y); far below 0, where x + y is a small difference, by its series: within 1e-11, or 1e-4 of floats."""
    is_far = less(x, -12.0 if x.dtype.itemsize == 4 else -60.0)
    distant = where(is_far, x, 1.0)
    t = divide(1.0, multiply(distant, distant))
    far: Any = _SLOPE[-1]
    for c in reversed(_SLOPE[:-1]):
        far = add(multiply(far, t), c)
    return negative(where(is_far, far, multiply(y, add(where(is_far, 0.0, x), y))))


mills = unary(
    "mills",
    on_arrays(_mills),
    partials=lambda y, x: (_mills_slope(x, y),),
    lower=Map(_mills),
    doc="The density of the normal distribution over its probability: the derivative of log_ndtr.   f[...]  →  f[...]",
)


#: erf(x / √2) / x by (x / √2)²: up to 1/4 the next term is less than 1e-17.
_ERF = [math.sqrt(2 / math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(12)]


def _log_ndtr(k: Any, x: Any) -> Any:
    zero, half = k.constant(0.0, like=x), k.constant(0.5, like=x)
    scaled = k.mul(k.abs(x), k.constant(_ROOT_HALF, like=x))
    tail = _scaled_tail(k, scaled)
    low = k.sub(k.log(k.mul(half, tail)), k.mul(half, k.mul(x, x)))
    # Near 0 from one half, which is exact: 1 + erf, by the series at 0.
    is_middle = k.lt(scaled, half)
    square, inner = k.mul(scaled, scaled), k.constant(_ERF[-1], like=x)
    for c in reversed(_ERF[:-1]):
        inner = k.add(k.mul(inner, square), k.constant(c, like=x))
    rest = k.neg(k.mul(half, k.mul(_bell(k, x, 0.5), tail)))
    high = k.log1p(k.select(is_middle, k.mul(x, inner), rest))
    middle = k.sub(high, k.constant(math.log(2.0), like=x))
    return k.select(is_middle, middle, k.select(k.lt(x, zero), k.select(k.isinf(x), x, low), high))


log_ndtr = unary(
    "log_ndtr",
    on_arrays(_log_ndtr),
    partials=lambda y, x: (lambda: mills(x),),
    lower=Map(_log_ndtr),
    doc="""The logarithm of `ndtr`, without underflow.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.special.log_ndtr([-10.0, 0.0])
    f64[2] [-53.23128515  -0.69314718]
    >>> ad.log(ad.special.ndtr(-50.0))
    f64[] -inf
    """,
)


# ---------------------------------------------------------------- of probabilities


def _logit(k: Any, x: Any) -> Any:
    one, eighth = k.constant(1.0, like=x), k.constant(0.125, like=x)
    beyond, other = k.sub(x, k.constant(0.5, like=x)), k.sub(one, x)
    odds = k.div(x, other)
    # Near 1/2 odds are nearly 1: what they are beyond that is known better than they are themselves.
    lost = k.sub(k.div(k.add(beyond, beyond), other), k.sub(odds, one))
    is_near = k.lt(k.abs(beyond), eighth)
    return k.add(k.log(odds), k.select(is_near, k.div(lost, odds), k.constant(0.0, like=x)))


def _logit_slope(k: Any, x: Any) -> Any:
    one = k.constant(1.0, like=x)
    return k.div(one, k.mul(x, k.sub(one, x)))


logit_slope = unary(
    "logit_slope",
    on_arrays(_logit_slope),
    partials=lambda y, x: (multiply(multiply(subtract(add(x, x), 1.0), y), y),),
    lower=Map(_logit_slope),
    doc="1 / (x (1 - x)), the derivative of logit.   f[...]  →  f[...]",
)
logit = unary(
    "logit",
    on_arrays(_logit),
    partials=lambda y, x: (logit_slope(x),),
    lower=Map(_logit),
    doc="""log(x / (1 - x)), the inverse of expit.   f[...]  →  f[...]     -inf at 0, inf at 1, nan outside [0, 1]

    >>> import autodiff as ad
    >>> ad.special.logit([0.5, 0.0, 2.0])
    f64[3] [  0. -inf  nan]
    """,
)


def _weighted(k: Any, x: Any, y: Any, logarithm: Any) -> Any:
    zero = k.constant(0.0, like=x)
    is_nothing = k.logical_and(k.eq(x, zero), k.logical_not(k.isnan(y)))
    return k.select(is_nothing, zero, k.mul(x, logarithm))


def _xlogy(k: Any, x: Any, y: Any) -> Any:
    return _weighted(k, x, y, k.log(y))


def _xlog1py(k: Any, x: Any, y: Any) -> Any:
    return _weighted(k, x, y, k.log1p(y))


xlogy = binary(
    "xlogy",
    on_arrays(_xlogy),
    partials=lambda z, x, y: (lambda: log(y), lambda: mul0(x, divide(1.0, y))),
    lower=Map(_xlogy),
    doc="""x log(y), and 0 where x is 0, whatever number y is.   f[...], f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.special.xlogy([0.0, 2.0], [0.0, 1.0])
    f64[2] [0. 0.]
    """,
)
xlog1py = binary(
    "xlog1py",
    on_arrays(_xlog1py),
    partials=lambda z, x, y: (lambda: log1p(y), lambda: mul0(x, divide(1.0, add(1.0, y)))),
    lower=Map(_xlog1py),
    doc="""x log(1 + y), and 0 where x is 0, whatever number y is.   f[...], f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.special.xlog1py([0.0, 1.0], [-1.0, 1e-20])
    f64[2] [0.e+00 1.e-20]
    """,
)


@function
def entr(x):
    """-x log(x), the share of an entropy: 0 at 0, -inf below.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.special.entr([0.5, 0.0, -1.0])
    f64[3] [0.34657359 0.               -inf]
    """
    (x,) = _floats("entr", x=x)
    return where(less(x, 0.0), -math.inf, xlogy(negative(x), where(less(x, 0.0), 1.0, x)))


@function
def rel_entr(x, y):
    """x log(x / y), the share of a relative entropy: 0 where x is 0 and y is not negative; inf outside of its domain.

    f[...], f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.special.rel_entr([0.5, 0.0, 1.0], [0.25, 1.0, 0.0])
    f64[3] [0.34657359 0.                inf]
    """
    x, y = _floats("rel_entr", x=x, y=y)
    is_inside = logical_and(greater(x, 0.0), greater(y, 0.0))
    inside = multiply(x, log(divide(where(is_inside, x, 1.0), where(is_inside, y, 1.0))))
    is_nothing = logical_and(equal(x, 0.0), greater_equal(y, 0.0))
    return where(is_nothing, 0.0, where(is_inside, inside, math.inf))


@function
def kl_div(x, y):
    """x log(x / y) - x + y: convex, and never negative.   f[...], f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.special.kl_div([1.0, 0.0], [1.0, 2.0])
    f64[2] [0. 2.]
    """
    x, y = _floats("kl_div", x=x, y=y)
    return add(subtract(rel_entr(x, y), x), y)
