"""The gamma function, its logarithm, the logarithm's derivatives, and functions composed of these.

For positive x: from 1 to 3 by Chebyshev series that are exact at the zeros of the logarithm; from there to the start of
Stirling's series by the recurrence Γ(x + 1) = x Γ(x).  For negative x: by reflection,

    Γ(x) Γ(-x) = -π / (x sin πx)        ψ(1 - x) - ψ(x) = π cot πx

Source of the series: NIST Digital Library of Mathematical Functions, 5.11 and 5.15.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

from ..errors import DispatchError, located
from ..tape import record
from .conditions import where
from .declare import check_parts, composed, in_common_dtype, integer, unary
from .primitive import OwnPrimitive, elementwise
from .special_normal import LGAMMA_12, LGAMMA_23, polynomial, series
from .template import public

#: Bernoulli numbers of even index, from the second.
_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330, 854513 / 138,
)  # fmt: skip

#: The floats nearest to the exact constants; computing them from rounded numbers would be less precise.
_ROOT_2PI = 2.5066282746310007
_HALF_LOG_2PI_LESS_HALF = 0.4189385332046727
#: For x from this to 0 no reflection is used: Γ(x) is -Γ(-x) to full precision, and x sin πx may underflow.
_REFLECT_BELOW = -1e-18


def stirling(x: Any) -> Any:
    """The correction of Stirling's formula for log Γ: Σ B[2j] / (2j (2j - 1) x^(2j-1)), for x from 8 on."""
    inverse = 1.0 / x
    terms = [b / (2 * j * (2 * j - 1)) for j, b in enumerate(_BERNOULLI[:9], 1)]
    return polynomial(terms, inverse * inverse) * inverse


def _from_nearest_integer(k, x):
    """The signed distance of x from the nearest integer, between -1/2 and 1/2; exact for x >= 0."""
    rest = x - k.floor(x)
    return k.select(rest > 0.5, rest - 1.0, rest)


def _lowered(k: Any, x: Any, steps: int) -> tuple[Any, Any]:
    """(z, Γ(x) / Γ(z)): z is x minus an integer, between 2 and 3, for x up to 3 + steps."""
    product = k.constant(1.0, like=x)
    for _ in range(steps):
        is_above, below = x >= 3.0, x - 1.0
        product = k.select(is_above, product * below, product)
        x = k.select(is_above, below, x)
    return x, product


def _log_between(k, x):
    """log Γ(x) for x from 2 to 3."""
    return (x - 2.0) * series(k, LGAMMA_23, x + x - 5.0)


def _gammaln(k, x):
    size = abs(x)
    # Below 2 by a series from 1 to 2; below 1 as log Γ(size + 1) - log(size).
    is_least = size < 1.0
    first = k.select(is_least, size, size - 1.0)
    second = first - 1.0
    low = first * second * series(k, LGAMMA_12, first + second) + 0.0  # 0.0, not -0.0, at 1
    low = k.select(is_least, low - k.log(size), low)
    between, product = _lowered(k, size, 5)
    middle = k.log(product) + _log_between(k, between)
    high = (size - 0.5) * (k.log(size) - 1.0) + (_HALF_LOG_2PI_LESS_HALF + stirling(size))
    found = k.select(size < 2.0, low, k.select(size < 8.0, middle, high))
    away = _from_nearest_integer(k, size)
    reflected = k.log(math.pi / (size * abs(k.sin(math.pi * away)))) - found
    is_pole = (away == 0.0) | k.isinf(x)
    return k.select(k.isinf(x), math.inf, k.select(x < _REFLECT_BELOW, k.select(is_pole, math.inf, reflected), found))


def _gamma(k, x):
    size = abs(x)
    # Up to 12 by the recurrence: numbers below 2 go up by one or two steps, numbers above 3 go down.
    up = k.select(size < 1.0, size * (size + 1.0), k.select(size < 2.0, size, 1.0))
    raised = k.select(size < 1.0, size + 2.0, k.select(size < 2.0, size + 1.0, size))
    between, product = _lowered(k, raised, 10)
    low = k.exp(_log_between(k, between)) * product / up
    # The power is split into two factors, so that only a result out of range overflows.
    root = k.pow(size, 0.5 * (size - 0.5))
    high = root * k.exp(-size) * root * (_ROOT_2PI * k.exp(stirling(size)))
    high = k.select(k.isinf(root), root, high)  # exp(-size) may be 0: avoid inf · 0
    found = k.select(size == 0.0, math.inf, k.select(size < 12.0, low, high))
    away = _from_nearest_integer(k, size)
    half = (size - away) * 0.5
    is_odd = half - k.floor(half) > 0.0
    sine = k.sin(math.pi * away) * k.select(is_odd, -1.0, k.constant(1.0, like=x))
    reflected = -(math.pi / (size * sine)) / found
    # Below -190 all values are zeros, of either sign, or poles.
    reflected = k.select((away == 0.0) | k.isinf(x), math.nan, reflected)
    return k.select(x < _REFLECT_BELOW, reflected, k.copysign(found, x))


def _cotangent_derivative(order: int) -> list[float]:
    """The derivative of cot of this order, as the coefficients of a polynomial in cot, lowest first."""
    found = [0.0, 1.0]
    for _ in range(order):
        slope = [j * c for j, c in enumerate(found)][1:]
        found = [0.0] * (len(slope) + 2)
        for j, c in enumerate(slope):
            found[j] -= c
            found[j + 2] -= c
    return found


def _polygamma(k: Any, x: Any, *, n: int) -> Any:
    is_low = x < 0.0
    at = k.select(is_low, 1.0 - x, x)
    limit = 12 + n
    terms = []
    for _ in range(limit):
        is_below = at < float(limit)
        terms.append(k.select(is_below, float(math.factorial(n)) / _whole_power(at, n + 1), 0.0))
        at = k.select(is_below, at + 1.0, at)
    # The first term is the largest and is added last: the rounding errors of the other sums are small beside it.
    total = functools.reduce(operator.add, reversed(terms), _tail(k, at, n))
    found = -total if n % 2 == 0 else total
    away = -_from_nearest_integer(k, -x)
    angle = math.pi * away
    cotangent = k.cos(angle) / k.sin(angle)
    turned = math.pi ** (n + 1) * polynomial(_cotangent_derivative(n), cotangent)
    reflected = (-found if n % 2 else found) - turned
    at_pole = math.inf if n % 2 else math.nan
    return k.select(is_low, k.select(away == 0.0, at_pole, reflected), found)


def _tail(k: Any, x: Any, n: int) -> Any:
    """n! Σ 1 / (x + j)^(n+1) over j from 0 on, for large x; for n = 0, whose sum is infinite, the finite part."""
    inverse = 1.0 / x
    terms = [b * math.factorial(2 * j + n - 1) / math.factorial(2 * j) for j, b in enumerate(_BERNOULLI, 1)]
    rest = (0.5 * math.factorial(n) + polynomial(terms, inverse * inverse) * inverse) * inverse
    return rest - k.log(x) if n == 0 else (float(math.factorial(n - 1)) + rest) * _whole_power(inverse, n)


def _whole_power(x: Any, n: int) -> Any:
    return functools.reduce(operator.mul, [x] * n)


_polygamma_operation: OwnPrimitive = elementwise(
    "polygamma",
    program=_polygamma,
    partials=lambda y, x, *, n: (lambda: record(_polygamma_operation, (x,), (n + 1,)),),
    params=("n",),
)

gammaln = unary("gammaln", program=_gammaln,
    slope=lambda y, x: record(_polygamma_operation, (x,), (0,)),
    doc="""The logarithm of |Γ(x)|, inf at its poles.   f[...]  →  f[...]     integers and bool give float64

    Source: NIST Digital Library of Mathematical Functions, 5.11.""",
    example=">>> ad.special.gammaln([1000.0, 0.0])\nf64[2] [5905.22042321           inf]")
gamma = unary("gamma", program=_gamma,
    slope=lambda y, x: y * record(_polygamma_operation, (x,), (0,)),
    doc="""The gamma function, (x - 1)! of whole numbers; nan at negative ones.   f[...]  →  f[...]

    Source: NIST Digital Library of Mathematical Functions, 5.11.""",
    example=">>> ad.special.gamma([5.0, 0.5, -1.0])\nf64[3] [24.          1.77245385         nan]")

#: The largest order: beyond it factorials leave the range of float32.
_MAX_ORDER = 30


digamma = composed("digamma", lambda x: record(_polygamma_operation, (x,), (0,)),
    """The derivative of `gammaln`; nan at negative whole numbers, -inf at 0.   f[...]  →  f[...]

    Source: NIST Digital Library of Mathematical Functions, 5.11.""",
    ">>> ad.special.digamma([1.0, 0.0, -1.0])\nf64[3] [-0.57721566        -inf         nan]", takes="f")


@public()
def polygamma(n, x):
    """The derivative of `digamma` of order n, an int from 0 to 30.   f[...]  →  f[...]

    Raises TypeError for an n that is no integer, DispatchError for an n outside 0 to 30.
    Source: NIST Digital Library of Mathematical Functions, 5.15.

    >>> ad.special.polygamma(1, [1.0, 0.5])
    f64[2] [1.64493407 4.9348022 ]
    """
    order = integer(n, "polygamma", "the order")
    if not 0 <= order <= _MAX_ORDER:
        raise DispatchError(located(f"polygamma: the order is from 0 to {_MAX_ORDER}, not {order}"))
    (x,) = in_common_dtype("polygamma", (("x", x),), "f")
    return record(_polygamma_operation, (x,), (order,))


def _factorial(x):
    is_large = x >= 1.0  # as x Γ(x): Γ(x + 1) would magnify the rounding of x + 1 by x log x
    return where(is_large, x, 1.0) * gamma(where(is_large, x, x + 1.0))


factorial = composed("factorial", _factorial,
    """Γ(x + 1): x! of whole numbers.   f[...]  →  f[...]     integers give float64

    At -1 the result is inf, at whole numbers below -1 nan.""",
    ">>> ad.special.factorial([0, 5, -1, -2])\nf64[4] [  1. 120.  inf  nan]", takes="f")


@public(1, takes="f")
def multigammaln(a, d):
    """The logarithm of the gamma function of d dimensions, a > (d - 1) / 2.   f[...]  →  f[...]     d: an int

    Raises TypeError for a d that is no integer, DispatchError for a d below 1.

    >>> ad.special.multigammaln([3.0, 4.0], 2)
    f64[2] [1.55019499 3.56509801]
    """
    d = integer(d, "multigammaln", "d")
    if d < 1:
        raise DispatchError(located(f"multigammaln: d is a positive int, not {d!r}"))
    check_parts("multigammaln", d)
    total = gammaln(a)
    for j in range(1, d):
        total = total + gammaln(a - 0.5 * j)
    return total + 0.25 * d * (d - 1) * math.log(math.pi)
