"""Special functions (public as `ad.special`), by the names of scipy.special and jax.scipy.special.

    gamma functions     gamma, gammaln, digamma, polygamma, factorial, beta, betaln, multigammaln
    error functions     erf, erfc, erfinv, ndtr, log_ndtr
    of probabilities    expit, logit, entr, rel_entr, kl_div, xlogy, xlog1py, logsumexp, softmax, log_softmax
    Bessel functions    i0, i0e, i1, i1e

Those that are operations are written once, as programs for an element; the others are made of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..errors import DispatchError, located
from ..tensor import Tensor
from .arithmetic import divide, mul0
from .conditions import where
from .declare import binary, check_parts, common, composed, integer, unary
from .elementwise import erf, exp, log, log1p, sigmoid
from .primitive import elementwise
from .protocols import counterparts
from .special_gamma import digamma, gamma, gammaln, polygamma
from .special_normal import erfc, erfinv, log_ndtr, ndtr
from .special_normal import mills as mills
from .special_series import horner, i0, i0e, i1, i1e, polynomial
from .statistics import log_softmax, logsumexp, softmax
from .template import public

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


factorial = composed("factorial", lambda x: gamma(_floats("factorial", x=x)[0] + 1.0),
    """Γ(x + 1): x! of whole numbers.   f[...]  →  f[...]     integers give float64

    Of -1 it is inf, of whole numbers below nan.""",
    {"ad.special.factorial([0, 5, -1, -2])": "f64[4] [  1. 120.  inf  nan]"})


@public()
def betaln(a, b):
    """log |Γ(a) Γ(b) / Γ(a + b)|.   f[...], f[...]  →  f[...]

    Where both are large the difference loses digits: of 1e6 and 1e6 one.
    Source: NIST Digital Library of Mathematical Functions, 5.11 and 5.12.

    >>> ad.special.betaln([200.0], [300.0])
    f64[1] [-337.98011307]
    """
    a, b = _floats("betaln", a=a, b=b)
    is_less = a < b  # not `minimum` and `maximum`, which share where a is b: here one is the one, one the other
    small, large = where(is_less, a, b), where(is_less, b, a)
    is_far = (small > 0.0) & (large >= _STIRLING)
    far = _lost(where(is_far, small, 1.0), where(is_far, large, _STIRLING))
    near = where(is_far, 1.0, large)
    return gammaln(small) + where(is_far, far, gammaln(near) - gammaln(small + near))


def _lost(p: Tensor, q: Tensor) -> Tensor:
    """log Γ(q) / Γ(p + q) for q from 10 on, by Stirling's series: what is common to both is not there to cancel."""
    both = p + q
    steep = (both - 0.5) * log1p(p / q)
    return p - p * log(q) + (_beyond(q) - _beyond(both)) - steep


def _beyond(x: Tensor) -> Tensor:
    """The sum that Stirling's series adds to (x - 1/2) log x - x + log(2π) / 2."""
    inverse = 1.0 / x
    return polynomial(_TERMS, inverse * inverse) * inverse


beta = composed("beta", lambda a, b: exp(betaln(a, b)),
    "Γ(a) Γ(b) / Γ(a + b) of positive numbers.   f[...], f[...]  →  f[...]",
    {"ad.special.beta([2.0, 0.5], [3.0, 0.5])": "f64[2] [0.08333333 3.14159265]"})


@public()
def multigammaln(a, d):
    """The logarithm of the gamma function of d dimensions, a > (d - 1) / 2.   f[...]  →  f[...]     d: an int

    Raises TypeError for a d that is no integer, DispatchError for one below 1.

    >>> ad.special.multigammaln([3.0, 4.0], 2)
    f64[2] [1.55019499 3.56509801]
    """
    (a,) = _floats("multigammaln", a=a)
    d = integer(d, "multigammaln", "d")
    if d < 1:
        raise DispatchError(located(f"multigammaln: d is a positive int, not {d!r}"))
    check_parts("multigammaln", d)
    total = gammaln(a)
    for j in range(1, d):
        total = total + gammaln(a - 0.5 * j)
    return total + 0.25 * d * (d - 1) * math.log(math.pi)


def _logit(k: Any, x: Any) -> Any:
    beyond, other = x - 0.5, 1.0 - x
    odds = x / other
    # Near 1/2 odds are nearly 1: what they are beyond that is known better than they are themselves.
    lost = (beyond + beyond) / other - (odds - 1.0)
    return k.log(odds) + k.select(abs(beyond) < 0.125, lost / odds, 0.0)


logit_slope = unary(
    "logit_slope",
    program=lambda k, x: 1.0 / (x * (1.0 - x)),
    partials=lambda y, x: ((x + x - 1.0) * y * y,),
    doc="1 / (x (1 - x)), the derivative of logit.   f[...]  →  f[...]",
)
logit = unary("logit", program=_logit, partials=lambda y, x: (logit_slope(x),),
    doc="log(x / (1 - x)), the inverse of expit.   f[...]  →  f[...]     -inf at 0, inf at 1, nan outside [0, 1]",
    example={"ad.special.logit([0.5, 0.0, 2.0])": "f64[3] [  0. -inf  nan]"})


def _weighted(k: Any, x: Any, y: Any, logarithm: Any) -> Any:
    return k.select((x == 0.0) & ~k.isnan(y), 0.0, x * logarithm)


def _over(x: Tensor, y: Tensor) -> Tensor:
    """x / y, and 0 where x is 0."""
    return where(x == 0.0, mul0(x, 1.0 / y), x / y)


xlogy = binary("xlogy", program=lambda k, x, y: _weighted(k, x, y, k.log(y)),
    partials=lambda z, x, y: (lambda: log(y), lambda: _over(x, y)),
    doc="x log(y), and 0 where x is 0, whatever number y is.   f[...], f[...]  →  f[...]",
    example={"ad.special.xlogy([0.0, 2.0], [0.0, 1.0])": "f64[2] [0. 0.]"})
xlog1py = binary("xlog1py", program=lambda k, x, y: _weighted(k, x, y, k.log1p(y)),
    partials=lambda z, x, y: (lambda: log1p(y), lambda: _over(x, 1.0 + y)),
    doc="x log(1 + y), and 0 where x is 0, whatever number y is.   f[...], f[...]  →  f[...]",
    example={"ad.special.xlog1py([0.0, 1.0], [-1.0, 1e-20])": "f64[2] [0.e+00 1.e-20]"})


def _entr_slope(x: Tensor) -> Tensor:
    is_below = x < 0.0
    return where(is_below, 0.0, -1.0 - log(where(is_below, 1.0, x)))


entr = unary("entr", partials=lambda y, x: (lambda: _entr_slope(x),),
    program=lambda k, x: k.select(x < 0.0, -math.inf, k.select(x == 0.0, 0.0, -x * k.log(x))),
    doc="-x log(x), the share of an entropy: 0 at 0, -inf below.   f[...]  →  f[...]",
    example={"ad.special.entr([0.5, 0.0, -1.0])": "f64[3] [0.34657359 0.               -inf]"})

#: Powers of two between which a quotient has all its digits.
_PLAIN = {"f64": 1000, "f32": 120}


def _log_ratio(k: Any, x: Any, y: Any) -> Any:
    ratio, most = x / y, 2.0 ** _PLAIN[k.dtype(x)]
    is_plain = (ratio > 1.0 / most) & (ratio < most)
    far = k.log(k.select(is_plain, ratio, x)) - k.log(k.select(is_plain, 1.0, y))
    # Of numbers within a factor of two the difference is exact.
    return k.select((ratio > 0.5) & (ratio < 2.0), k.log1p((x - y) / y), far)


def _at_the_edge(k: Any, x: Any, y: Any, inside: Any, at_zero: Any) -> Any:
    """A share of an entropy: `at_zero` where x is 0, inf outside of its domain, nan of nan."""
    total = x + y
    outside = k.select(k.isnan(total), total, math.inf)
    return k.select((x == 0.0) & (y >= 0.0), at_zero, k.select((x > 0.0) & (y > 0.0), inside, outside))


def _kl_div(k: Any, x: Any, y: Any) -> Any:
    apart = x - y
    # With s = (x - y) / (x + y), log(x / y) is 2 (s + s³/3 + ...): for s up to 1/5 by that, where the sum cancels.
    s = apart * 0.5 / (x * 0.5 + y * 0.5)
    square = s * s
    rest = horner(k, [1 / n for n in range(3, 27, 2)], square)
    near = square + (1.0 + s) * (square * s) * rest
    near = (near + near) / (1.0 - s) * y
    inside = k.select(abs(s) < 0.2, near, x * _log_ratio(k, x, y) - apart)
    return _at_the_edge(k, x, y, inside, y)


def _slope_of_entropy(k: Any, x: Any, y: Any, inside: Any, at_zero: float) -> Any:
    return k.select((x == 0.0) & (y >= 0.0), at_zero, k.select((x > 0.0) & (y > 0.0), inside, 0.0))


def _of_domain(x: Tensor, y: Tensor, slope: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """A derivative of second order: the limit at the edges of the domain, 0 outside of it."""
    is_there = (x >= 0.0) & (y >= 0.0)
    return where(is_there, slope(where(is_there, x, 1.0), where(is_there, y, 1.0)), 0.0)


def _by_both(x: Tensor, y: Tensor) -> Tensor:
    return _of_domain(x, y, lambda x, y: -1.0 / y)


#: The derivatives of `kl_div` (more = 0) and `rel_entr` (more = 1).  Where x is 0 that by x is taken for `more` less 1,
#: though it is -inf: what does not occur counts for nothing.  Its own derivatives are the limits there: inf by x.
entropy_by_x = elementwise(
    "entropy_by_x",
    program=lambda k, x, y, *, more: _slope_of_entropy(k, x, y, _log_ratio(k, x, y) + more, more - 1.0),
    partials=lambda z, x, y, *, more: (lambda: _of_domain(x, y, lambda x, y: 1.0 / x), lambda: _by_both(x, y)),
    params=("more",),
)
entropy_by_y = elementwise(
    "entropy_by_y",
    # more - 1 - x / y, of which the lack has all digits near 0.
    program=lambda k, x, y, *, more: _slope_of_entropy(k, x, y, -(x / y) if more else (y - x) / y, 1.0 - more),
    partials=lambda z, x, y, *, more: (
        lambda: _by_both(x, y),
        lambda: (_of_domain(x, y, divide), _of_domain(x, y, lambda x, y: 1.0 / y)),
    ),
    params=("more",),
)


rel_entr = binary(
    "rel_entr",
    program=lambda k, x, y: _at_the_edge(k, x, y, x * _log_ratio(k, x, y), 0.0),
    partials=lambda z, x, y: (lambda: entropy_by_x(x, y, more=1.0), lambda: entropy_by_y(x, y, more=1.0)),
    doc="""x log(x / y), the share of a relative entropy: 0 where x is 0 and y >= 0, inf outside of its domain.

    f[...], f[...]  →  f[...]""",
    example={"ad.special.rel_entr([0.5, 0.0, 1.0], [0.25, 1.0, 0.0])": "f64[3] [0.34657359 0.                inf]"})
kl_div = binary("kl_div", program=_kl_div,
    partials=lambda z, x, y: (lambda: entropy_by_x(x, y, more=0.0), lambda: entropy_by_y(x, y, more=0.0)),
    doc="x log(x / y) - x + y: convex, and never negative.   f[...], f[...]  →  f[...]",
    example={"ad.special.kl_div([1.0, 0.0], [1.0, 2.0])": "f64[2] [0. 2.]"})
counterparts(("i0",), globals())
