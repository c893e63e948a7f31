"""The gamma function, its logarithm, and the derivatives of that.

Of positive numbers: from 1 to 3 by Chebyshev series that are exact at the zeros of the logarithm; up to where
Stirling's series is exact by the recurrence Γ(x + 1) = x Γ(x).  Of negative numbers: by reflection,

    Γ(x) Γ(-x) = -π / (x sin πx)        ψ(1 - x) - ψ(x) = π cot πx

Source of the series: NIST Digital Library of Mathematical Functions, 5.11 and 5.15.
"""

from __future__ import annotations

import math
from typing import Any

from ..errors import DispatchError, located
from ..tape import record
from ..tensor import Tensor
from .arguments import common, integer
from .arithmetic import multiply
from .declare import unary
from .primitive import OwnPrimitive, elementwise
from .special_series import LGAMMA_12, LGAMMA_23, horner, series
from .template import public

__all__ = ["digamma", "gamma", "gammaln", "polygamma"]

#: Bernoulli numbers of even index, from the second.
_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330, 854513 / 138,
)  # fmt: skip

#: Nearest to what they are, unlike what rounded functions of rounded numbers give.
_ROOT_2PI = 2.5066282746310007
_HALF_LOG_2PI_LESS_HALF = 0.4189385332046727


def _stirling(k: Any, x: Any) -> Any:
    """The rest of Stirling's formula for log Γ: Σ B[2j] / (2j (2j - 1) x^(2j-1)), of x from 8 on."""
    inverse = k.div(k.constant(1.0, like=x), x)
    square = k.mul(inverse, inverse)
    terms = [b / (2 * j * (2 * j - 1)) for j, b in enumerate(_BERNOULLI[:9], 1)]
    return k.mul(horner(k, terms, square), inverse)


def _from_pole(k: Any, x: Any) -> Any:
    """The distance of x from the next whole number: exact for x from 0 on, from -1/2 to 1/2."""
    rest = k.sub(x, k.floor(x))
    return k.select(k.gt(rest, k.constant(0.5, like=x)), k.sub(rest, k.constant(1.0, like=x)), rest)


def _lowered(k: Any, x: Any, steps: int) -> tuple[Any, Any]:
    """A number from 2 to 3 that x is whole steps above, and Γ(x) over its Γ."""
    one, three = k.constant(1.0, like=x), k.constant(3.0, like=x)
    product = one
    for _ in range(steps):
        is_above = k.ge(x, three)
        below = k.sub(x, one)
        product = k.select(is_above, k.mul(product, below), product)
        x = k.select(is_above, below, x)
    return x, product


def _log_between(k: Any, x: Any) -> Any:
    """log Γ from 2 to 3."""
    two, five = k.constant(2.0, like=x), k.constant(5.0, like=x)
    return k.mul(k.sub(x, two), series(k, LGAMMA_23, k.sub(k.add(x, x), five)))


def _gammaln(k: Any, x: Any) -> Any:
    zero, half, one, two, eight = (k.constant(c, like=x) for c in (0.0, 0.5, 1.0, 2.0, 8.0))
    size = k.abs(x)
    # Below 2: of size + 1 if it is below 1, and the logarithm of size less.
    is_least = k.lt(size, one)
    first = k.select(is_least, size, k.sub(size, one))
    second = k.sub(first, one)
    # 0 is added so that it is not -0.0 at 1.
    low = k.add(k.mul(k.mul(first, second), series(k, LGAMMA_12, k.add(first, second))), zero)
    low = k.select(is_least, k.sub(low, k.log(size)), low)
    between, product = _lowered(k, size, 5)
    middle = k.add(k.log(product), _log_between(k, between))
    high = k.mul(k.sub(size, half), k.sub(k.log(size), one))
    high = k.add(high, k.add(k.constant(_HALF_LOG_2PI_LESS_HALF, like=x), _stirling(k, size)))
    found = k.select(k.lt(size, two), low, k.select(k.lt(size, eight), middle, high))
    away = _from_pole(k, size)
    pi, infinity = k.constant(math.pi, like=x), k.constant(math.inf, like=x)
    reflected = k.sub(k.log(k.div(pi, k.mul(size, k.abs(k.sin(k.mul(pi, away)))))), found)
    is_pole = k.logical_or(k.eq(away, zero), k.isinf(x))
    found = k.select(k.lt(x, zero), k.select(is_pole, infinity, reflected), found)
    return k.select(k.isinf(x), infinity, found)


def _gamma(k: Any, x: Any) -> Any:
    zero, half, one, two = (k.constant(c, like=x) for c in (0.0, 0.5, 1.0, 2.0))
    size = k.abs(x)
    # Up to 12 by products.  Below 2 the recurrence goes up, by one or two steps.
    up = k.select(k.lt(size, one), k.mul(size, k.add(size, one)), k.select(k.lt(size, two), size, one))
    raised = k.select(k.lt(size, one), k.add(size, two), k.select(k.lt(size, two), k.add(size, one), size))
    between, product = _lowered(k, raised, 10)
    low = k.div(k.mul(k.exp(_log_between(k, between)), product), up)
    # In two factors, so that only what is too large overflows.
    root = k.pow(size, k.mul(half, k.sub(size, half)))
    scale = k.mul(k.constant(_ROOT_2PI, like=x), k.exp(_stirling(k, size)))
    high = k.mul(k.mul(k.mul(root, k.exp(k.neg(size))), root), scale)
    high = k.select(k.isinf(root), root, high)  # exp(-size) may be 0 there
    found = k.select(k.lt(size, k.constant(12.0, like=x)), low, high)
    found = k.select(k.eq(size, zero), k.constant(math.inf, like=x), found)
    pi, away = k.constant(math.pi, like=x), _from_pole(k, size)
    is_odd = k.gt(_from_odd(k, k.sub(size, away)), zero)
    sine = k.mul(k.sin(k.mul(pi, away)), k.select(is_odd, k.constant(-1.0, like=x), one))
    reflected = k.div(k.neg(k.div(pi, k.mul(size, sine))), found)
    # Below -190 there is nothing but zeros, of either sign, and poles.
    reflected = k.select(k.logical_or(k.eq(away, zero), k.isinf(x)), k.constant(math.nan, like=x), reflected)
    found = k.select(k.lt(x, zero), reflected, found)
    return k.select(k.eq(x, zero), k.copysign(found, x), found)


def _from_odd(k: Any, whole: Any) -> Any:
    """1 for odd whole numbers, 0 for even ones."""
    half = k.mul(whole, k.constant(0.5, like=whole))
    return k.sub(half, k.floor(half))


def _cotangent_derivative(order: int) -> list[float]:
    """The derivative of cot, of some order, as a polynomial in cot."""
    found = [0.0, 1.0]
    for _ in range(order):
        slope = [j * c for j, c in enumerate(found)][1:]
        found = [0.0] * (len(slope) + 2)
        for j, c in enumerate(slope):
            found[j] -= c
            found[j + 2] -= c
    return found


def _polygamma(k: Any, x: Any, *, n: int) -> Any:
    zero, one = k.constant(0.0, like=x), k.constant(1.0, like=x)
    is_low = k.lt(x, zero)
    at = k.select(is_low, k.sub(one, x), x)
    limit = 12 + n
    bound, factorial = k.constant(float(limit), like=x), float(math.factorial(n))
    terms = []
    for _ in range(limit):
        term = k.div(k.constant(factorial, like=x), _whole_power(k, at, n + 1))
        is_below = k.lt(at, bound)
        terms.append(k.select(is_below, term, zero))
        at = k.select(is_below, k.add(at, one), at)
    total = _tail(k, at, n)
    # The first is the largest: it is added last, so that what is left of the others' rounding is little beside it.
    for term in reversed(terms):
        total = k.add(total, term)
    found = k.neg(total) if n % 2 == 0 else total
    away = k.neg(_from_pole(k, k.neg(x)))
    angle = k.mul(k.constant(math.pi, like=x), away)
    cotangent = k.div(k.cos(angle), k.sin(angle))
    turned = k.mul(k.constant(math.pi ** (n + 1), like=x), horner(k, _cotangent_derivative(n), cotangent))
    reflected = k.sub(k.neg(found) if n % 2 else found, turned)
    at_pole = k.constant(math.inf if n % 2 else math.nan, like=x)
    return k.select(is_low, k.select(k.eq(away, zero), at_pole, reflected), found)


def _tail(k: Any, x: Any, n: int) -> Any:
    """The sum from x on, n! Σ 1 / (x + j)^(n+1), of large x; of n = 0 what is left of it without its infinite part."""
    inverse = k.div(k.constant(1.0, like=x), x)
    square = k.mul(inverse, inverse)
    terms = [b * math.factorial(2 * j + n - 1) / math.factorial(2 * j) for j, b in enumerate(_BERNOULLI, 1)]
    rest = k.add(k.constant(0.5 * math.factorial(n), like=x), k.mul(horner(k, terms, square), inverse))
    rest = k.mul(rest, inverse)
    if n == 0:
        return k.sub(rest, k.log(x))
    return k.mul(k.add(k.constant(float(math.factorial(n - 1)), like=x), rest), _whole_power(k, inverse, n))


def _whole_power(k: Any, x: Any, n: int) -> Any:
    found = x
    for _ in range(n - 1):
        found = k.mul(found, x)
    return found


_polygamma_operation: OwnPrimitive = elementwise(
    "polygamma",
    program=_polygamma,
    partials=lambda y, x, *, n: (lambda: record(_polygamma_operation, (x,), (n + 1,)),),
    params=("n",),
)

gammaln = unary("gammaln", program=_gammaln,
    partials=lambda y, x: (lambda: record(_polygamma_operation, (x,), (0,)),),
    doc="""The logarithm of |Γ(x)|, inf at its poles.   f[...]  →  f[...]     integers and bool give float64

    Source: NIST Digital Library of Mathematical Functions, 5.11.

    >>> ad.special.gammaln([1000.0, 0.0])
    f64[2] [5905.22042321           inf]
    """)
gamma = unary("gamma", program=_gamma,
    partials=lambda y, x: (lambda: multiply(y, record(_polygamma_operation, (x,), (0,))),),
    doc="""The gamma function, (x - 1)! of whole numbers; nan at negative ones.   f[...]  →  f[...]

    Source: NIST Digital Library of Mathematical Functions, 5.11.

    >>> ad.special.gamma([5.0, 0.5, -1.0])
    f64[3] [24.          1.77245385         nan]
    """)

#: The largest order: beyond it factorials leave the range of float32.
_MOST = 30


def _of_order(x: Any, n: int, name: str) -> Tensor:
    (x,) = common(name, (("x", x),), "f")
    return record(_polygamma_operation, (x,), (n,))


@public()
def digamma(x):
    """The derivative of `gammaln`; nan at negative whole numbers, -inf at 0.   f[...]  →  f[...]

    Source: NIST Digital Library of Mathematical Functions, 5.11.

    >>> ad.special.digamma([1.0, 0.0, -1.0])
    f64[3] [-0.57721566        -inf         nan]
    """
    return _of_order(x, 0, "digamma")


@public()
def polygamma(n, x):
    """The derivative of `digamma` of order n, an int from 0 to 30.   f[...]  →  f[...]

    Raises TypeError for an n that is no integer, DispatchError for one that is not from 0 to 30.
    Source: NIST Digital Library of Mathematical Functions, 5.15.

    >>> ad.special.polygamma(1, [1.0, 0.5])
    f64[2] [1.64493407 4.9348022 ]
    """
    order = integer(n, "polygamma", "the order")
    if not 0 <= order <= _MOST:
        raise DispatchError(located(f"polygamma: the order is from 0 to {_MOST}, not {order}"))
    return _of_order(x, order, "polygamma")
