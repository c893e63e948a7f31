"""Special functions (public as `ad.special`), by the names of scipy.special and jax.scipy.special.

    gamma functions     gamma, gammaln, digamma, polygamma, factorial, beta, betaln, multigammaln
    error functions     erf, erfc, erfinv, ndtr, log_ndtr
    probabilities       expit, logit, entr, rel_entr, kl_div, xlogy, xlog1py, logsumexp, softmax, log_softmax
    Bessel functions    i0, i0e, i1, i1e

Functions that are operations are written once, as the computation of one element; the others are composed of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..custom.function import Function
from ..tensor import Tensor
from .arithmetic import abs_, divide, mul0
from .conditions import minimum, where
from .declare import binary, unary
from .elementwise import erf, exp, floor, log, log1p, sigmoid
from .primitive import elementwise
from .protocols import counterparts
from .special_gamma import digamma, factorial, gamma, gammaln, multigammaln, polygamma, stirling
from .special_normal import erfc, erfinv, log_ndtr, ndtr, polynomial, series, truncated
from .special_normal import mills as mills
from .statistics import log_softmax, logsumexp, softmax
from .template import public

__all__ = [
    "beta", "betaln", "digamma", "entr", "erf", "erfc", "erfinv", "expit", "factorial", "gamma", "gammaln", "i0", "i0e",
    "i1", "i1e", "kl_div", "log_ndtr", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "polygamma",
    "rel_entr", "softmax", "xlog1py", "xlogy",
]  # fmt: skip

expit = sigmoid

#: From this x on the terms of Stirling's series give full precision.
_STIRLING = 10.0


@public(takes="f", operands=2)
def betaln(a, b):
    """log |Γ(a) Γ(b) / Γ(a + b)|.   f[...], f[...]  →  f[...]

    If a and b are large, the difference loses digits: one digit for 1e6 and 1e6.
    Source: NIST Digital Library of Mathematical Functions, 5.11 and 5.12.

    >>> ad.special.betaln([200.0], [300.0])
    f64[1] [-337.98011307]
    """
    is_less = a < b  # no `minimum` and `maximum`: they split the gradient at a tie; here a and b each have one role
    small, large = where(is_less, a, b), where(is_less, b, a)
    is_far = (small > 0.0) & (large >= _STIRLING)
    far = _log_gamma_quotient(where(is_far, small, 1.0), where(is_far, large, _STIRLING))
    near = where(is_far, 1.0, large)
    return gammaln(small) + where(is_far, far, gammaln(near) - gammaln(small + near))


def _log_gamma_quotient(p: Tensor, q: Tensor) -> Tensor:
    """log(Γ(q) / Γ(p + q)) for q from 10 on, by Stirling's series with the common terms removed, so none cancel."""
    both = p + q
    steep = (both - 0.5) * log1p(p / q)
    return p - p * log(q) + (stirling(q) - stirling(both)) - steep


@public(takes="f", operands=2)
def beta(a, b):
    """Γ(a) Γ(b) / Γ(a + b).   f[...], f[...]  →  f[...]

    >>> ad.special.beta([2.0, 0.5], [3.0, 0.5])
    f64[2] [0.08333333 3.14159265]
    """
    # Γ is negative between -1 and 0, between -3 and -2, and so on: if the floor is odd.
    floors = [floor(minimum(x, 0.0)) for x in (a, b, a + b)]
    size = exp(betaln(a, b))
    return where((floors[0] + floors[1] + floors[2]) % 2.0 == 0.0, size, -size)


def _logit(k, x):
    beyond, other = x - 0.5, 1.0 - x
    odds = x / other
    # Near 1/2 the odds are nearly 1, and odds - 1 = 2 (x - 1/2) / (1 - x) is more precise: add what rounding lost.
    lost = (beyond + beyond) / other - (odds - 1.0)
    return k.log(odds) + k.select(abs(beyond) < 0.125, lost / odds, 0.0)


#: 1 / (x (1 - x)), the derivative of logit.
logit_slope = elementwise(
    "logit_slope", program=lambda k, x: 1.0 / (x * (1.0 - x)), slope=lambda y, x: (x + x - 1.0) * y * y
)
logit = unary("logit", program=_logit, slope=lambda y, x: logit_slope(x),
    doc="log(x / (1 - x)), the inverse of expit.   f[...]  →  f[...]     -inf at 0, inf at 1, nan outside [0, 1]",
    example=">>> ad.special.logit([0.5, 0.0, 2.0])\nf64[3] [  0. -inf  nan]")


def _weighted(k, x, y, logarithm):
    return k.select((x == 0.0) & ~k.isnan(y), 0.0, x * logarithm)


def _over(x: Tensor, y: Tensor) -> Tensor:
    """x / y, or 0 for x = 0."""
    return where(x == 0.0, mul0(x, 1.0 / y), x / y)


xlogy = binary("xlogy", program=lambda k, x, y: _weighted(k, x, y, k.log(y)),
    partials=lambda z, x, y: (lambda: log(y), lambda: _over(x, y)),
    doc="x log(y), and 0 where x is 0, whatever number y is.   f[...], f[...]  →  f[...]",
    example=">>> ad.special.xlogy([0.0, 2.0], [0.0, 1.0])\nf64[2] [0. 0.]")
xlog1py = binary("xlog1py", program=lambda k, x, y: _weighted(k, x, y, k.log1p(y)),
    partials=lambda z, x, y: (lambda: log1p(y), lambda: _over(x, 1.0 + y)),
    doc="x log(1 + y), and 0 where x is 0, whatever number y is.   f[...], f[...]  →  f[...]",
    example=">>> ad.special.xlog1py([0.0, 1.0], [-1.0, 1e-20])\nf64[2] [0.e+00 1.e-20]")


def _entr_slope(x: Tensor) -> Tensor:
    is_below = x < 0.0
    return where(is_below, 0.0, -1.0 - log(where(is_below, 1.0, x)))


entr = unary("entr", slope=lambda y, x: _entr_slope(x),
    program=lambda k, x: k.select(x < 0.0, -math.inf, k.select(x == 0.0, 0.0, -x * k.log(x))),
    doc="-x log(x), one term of an entropy: 0 at 0, -inf below 0.   f[...]  →  f[...]",
    example=">>> ad.special.entr([0.5, 0.0, -1.0])\nf64[3] [0.34657359 0.               -inf]")

#: By dtype, n such that a quotient between 2**-n and 2**n has full precision.
_SAFE_EXPONENT = {"f64": 1000, "f32": 120}


def _log_ratio(k, x, y):
    ratio, most = x / y, 2.0 ** _SAFE_EXPONENT[k.dtype(x)]
    is_plain = (ratio > 1.0 / most) & (ratio < most)
    far = k.log(k.select(is_plain, ratio, x)) - k.log(k.select(is_plain, 1.0, y))
    # If x and y differ by less than a factor of two, x - y is exact.
    return k.select((ratio > 0.5) & (ratio < 2.0), k.log1p((x - y) / y), far)


def _at_the_edge(k, x, y, inside, at_zero):
    """`inside` for x, y > 0; `at_zero` for x = 0 and y >= 0; nan for nan; inf outside of this domain."""
    total = x + y
    outside = k.select(k.isnan(total), total, math.inf)
    return k.select((x == 0.0) & (y >= 0.0), at_zero, k.select((x > 0.0) & (y > 0.0), inside, outside))


def _kl_div(k, x, y):
    apart = x - y
    # With s = (x - y) / (x + y), log(x / y) = 2 (s + s³/3 + ...): used for |s| < 1/5, as x log(x / y) - x + y cancels.
    s = apart * 0.5 / (x * 0.5 + y * 0.5)
    square = s * s
    rest = polynomial([1 / n for n in range(3, 27, 2)], square)
    near = square + (1.0 + s) * (square * s) * rest
    near = (near + near) / (1.0 - s) * y
    inside = k.select(abs(s) < 0.2, near, x * _log_ratio(k, x, y) - apart)
    return _at_the_edge(k, x, y, inside, y)


def _slope_of_entropy(k: Any, x: Any, y: Any, inside: Any, at_zero: float) -> Any:
    return k.select((x == 0.0) & (y >= 0.0), at_zero, k.select((x > 0.0) & (y > 0.0), inside, 0.0))


def _of_domain(x: Tensor, y: Tensor, slope: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """A second derivative: slope(x, y) for x, y >= 0, which gives the limit at 0; 0 outside of this domain."""
    is_there = (x >= 0.0) & (y >= 0.0)
    return where(is_there, slope(where(is_there, x, 1.0), where(is_there, y, 1.0)), 0.0)


def _by_both(x: Tensor, y: Tensor) -> Tensor:
    return _of_domain(x, y, lambda x, y: -1.0 / y)


#: The derivatives of `kl_div` (more = 0) and `rel_entr` (more = 1).  At x = 0 the derivative by x is set to more - 1
#: instead of -inf: an event of probability 0 should not count.  Its own derivatives at 0 are the limits: inf by x.
entropy_by_x = elementwise(
    "entropy_by_x",
    program=lambda k, x, y, *, more: _slope_of_entropy(k, x, y, _log_ratio(k, x, y) + more, more - 1.0),
    partials=lambda z, x, y, *, more: (lambda: _of_domain(x, y, lambda x, y: 1.0 / x), lambda: _by_both(x, y)),
    params=("more",),
)
entropy_by_y = elementwise(
    "entropy_by_y",
    # 1 - more - x / y; for more = 0 as (y - x) / y, which has full precision near 0.
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
    doc="""x log(x / y), one term of a relative entropy: 0 where x is 0 and y >= 0, inf outside of its domain.

    f[...], f[...]  →  f[...]""",
    example=">>> ad.special.rel_entr([0.5, 0.0, 1.0], [0.25, 1.0, 0.0])\nf64[3] [0.34657359 0.                inf]")
kl_div = binary("kl_div", program=_kl_div,
    partials=lambda z, x, y: (lambda: entropy_by_x(x, y, more=0.0), lambda: entropy_by_y(x, y, more=0.0)),
    doc="x log(x / y) - x + y: convex, and never negative.   f[...], f[...]  →  f[...]",
    example=">>> ad.special.kl_div([1.0, 0.0], [1.0, 2.0])\nf64[2] [0. 2.]")


#: The Chebyshev series of exp(-x) I0(x) for x from 0 to 8, in t = x / 4 - 1.
BESSEL0_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08,
    2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12,
    -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15,
    -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18, 5.669178006921496e-19,
)

#: The Chebyshev series of √x exp(-x) I0(x) for x from 8 on, in t = 16 / x - 1.
BESSEL0_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14, -9.554846698828307e-15,
    3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18, 9.921475412173699e-19,
    1.193650890845982e-18,
)

#: The Chebyshev series of exp(-x) I1(x) / x for x from 0 to 8, in t = x / 4 - 1.
BESSEL1_NEAR = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758, -0.00016176081582589674,
    4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06, -8.568720264695455e-07,
    2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09, -1.8872497517228294e-09,
    3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11, -1.9839743977649436e-12,
    3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15, -1.1055969477353862e-15,
    1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18, -3.541581772542136e-19,
)

#: The Chebyshev series of √x exp(-x) I1(x) for x from 8 on, in t = 16 / x - 1.
BESSEL1_FAR = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06, -2.512236237870209e-07,
    -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10, -1.8974958123505413e-11,
    3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12, -7.198551776245908e-13,
    -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14, 1.0420276984128802e-14,
    -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16, 2.96262899764595e-16,
    -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18, 7.517296310842105e-18,
    -9.314178867326884e-19, -1.242193275194891e-18,
)

#: The Chebyshev series of (2 + x)^(3/2) exp(-x) (I0(x) - I1(x)) for x from 0 to 8, in t = x / 4 - 1.
GAP_NEAR = (
    0.8723251585337211, -0.9474375752221484, 0.5665496738752996, -0.28512866305982437, 0.11784626668749443,
    -0.0373926285338943, 0.006891493243890833, 0.001280855941963343, -0.0019735861805213056, 0.0011552415466829164,
    -0.0004963495143973643, 0.0001738093483799529, -5.074708113964862e-05, 1.2029439166297249e-05,
    -2.0047052108011412e-06, 2.393286722948137e-08, 1.6394130669896272e-07, -9.274059745994333e-08,
    3.745650434736246e-08, -1.307146631795693e-08, 4.211232049871356e-09, -1.2978455829030129e-09,
    3.917727890556354e-10, -1.1780555283797467e-10, 3.5695374690194846e-11, -1.097215926495915e-11,
    3.430839604244673e-12, -1.0912411786073952e-12, 3.525101616631612e-13, -1.1540764238920554e-13,
    3.821286845844957e-14, -1.2773970231908203e-14, 4.304901767889131e-15, -1.4609474358058406e-15,
    4.988354010525454e-16, -1.7124842215341764e-16, 5.907385042187582e-17, -2.0467217264735398e-17,
    7.119424841529019e-18, -2.4854581825781272e-18,
)

#: The Chebyshev series of (2 + x)^(3/2) exp(-x) (I0(x) - I1(x)) for x from 8 on, in t = 16 / x - 1.
GAP_FAR = (
    0.2452816333997797, 0.04710494265696416, 0.0013274843118768903, 3.5690370542671876e-05, 2.9488704731585372e-06,
    3.3956200817227034e-07, 5.2868848148166735e-08, 6.612832589509321e-09, -6.060462110596263e-10,
    -7.748712536590082e-10, -2.3951403340670137e-10, -7.309747119959032e-12, 2.2363442347242282e-11,
    6.774612022905611e-12, -1.011685213132231e-12, -1.0370160460292359e-12, -5.083895478061332e-14,
    1.3200347475273886e-13, 2.301876407320274e-14, -1.69954411792493e-14, -4.674239746802594e-15, 2.416024331508762e-15,
    8.118391702154496e-16, -3.940189099346245e-16, -1.3131947149987364e-16, 7.294498624323937e-17,
    1.9411703134323568e-17, -1.4649824166456176e-17, -2.293655601202123e-18, 3.0191018796823664e-18,
)


def clenshaw(k: Any, coefficients: tuple[float, ...], t: Any) -> Any:
    """The sum of a Chebyshev series by Clenshaw's recurrence, which suits any coefficients (see `series`)."""
    terms = truncated(k, coefficients, t)
    last, total = 0.0, k.constant(terms[-1], like=t)
    for c in reversed(terms[1:-1]):
        total, last = (t + t) * total - last + c, total
    return t * total - last + terms[0]


#: For |x| below this, I1(x) / x is the sum of (x/2)**2k / (2 k! (k+1)!); the term k = 7 is relatively below 1e-17.
_NEAR = 0.5
_RATIO = tuple([0.5 / (4**n * math.factorial(n) * math.factorial(n + 1)) for n in range(7)])


def _scaled(k: Any, x: Any, near: tuple[float, ...], far: tuple[float, ...]) -> tuple[Any, Any, Any]:
    """(|x|, True if |x| is below 8, (the sum of the series `near`, the sum of `far`))."""
    size = abs(x)
    is_near = size < 8.0
    t = k.select(is_near, size * 0.25 - 1.0, 16.0 / size - 1.0)
    # Clenshaw's recurrence for `near`: powers of t would cancel where the scaled function is small.
    return size, is_near, (clenshaw(k, near, t), series(k, far, t))


def _i0e(k, x):
    size, is_near, (near, far) = _scaled(k, x, BESSEL0_NEAR, BESSEL0_FAR)
    return k.select(is_near, near, far / k.sqrt(size))


def _i1e(k, x):
    size, is_near, (near, far) = _scaled(k, x, BESSEL1_NEAR, BESSEL1_FAR)
    return k.copysign(k.select(is_near, size * near, far / k.sqrt(size)), x)


def _gap(k, x):
    size, is_near, found = _scaled(k, x, GAP_NEAR, GAP_FAR)
    gap = k.select(is_near, *found) / (size + 2.0) / k.sqrt(size + 2.0)
    return k.select(x == 0.0, 0.0, k.copysign(gap, x))


def _times_exp(k, x, scaled):
    """scaled · exp(|x|), multiplied in two steps, so that only a result out of range overflows."""
    half = k.exp(abs(x) * 0.5)
    return k.select(k.isinf(x), k.copysign(math.inf, scaled), scaled * half * half)


def _ratio(y: Tensor, x: Tensor, *, scaled: bool) -> Tensor:
    """y / x for y = i1(x), or i1e(x) if `scaled`; near 0 by a series, since the quotient's derivatives would cancel."""
    is_near = abs_(x) < _NEAR
    near = where(is_near, x, 0.0)
    total = polynomial(_RATIO, near * near)
    if scaled:
        total = total * exp(-abs_(near))
    return where(is_near, total, y / where(is_near, 1.0, x))


def _abs_gap(gap: Tensor, x: Tensor) -> Tensor:
    """i0e(x) - |i1e(x)|, given `i0e_gap` at x; the value at 0 is 1."""
    return where(x == 0.0, 1.0, abs_(gap))


i0: Function = unary("i0", program=lambda k, x: _times_exp(k, x, _i0e(k, x)), slope=lambda y, x: i1(x),
    doc="The modified Bessel function of the first kind, of order 0.   f[...]  →  f[...]",
    example=">>> ad.special.i0([0.0, 1.0])\nf64[2] [1.         1.26606588]")
i1: Function = unary("i1", program=lambda k, x: _times_exp(k, x, _i1e(k, x)),
    slope=lambda y, x: i0(x) - _ratio(y, x, scaled=False),
    doc="The modified Bessel function of the first kind, of order 1.   f[...]  →  f[...]",
    example=">>> ad.special.i1([0.0, 1.0])\nf64[2] [0.        0.5651591]")


#: sign(x) (i0e(x) - |i1e(x)|), by its own series, since the difference would cancel.  It is 0 at 0 and ±1 beside 0; the
#: slope at 0 is the one on which both sides agree.
i0e_gap = elementwise("i0e_gap", program=_gap, slope=lambda y, x: _ratio(i1e(x), x, scaled=True) - 2.0 * _abs_gap(y, x))
i0e: Function = unary("i0e", program=_i0e, slope=lambda y, x: -i0e_gap(x),
    doc="""exp(-|x|) times `i0`: it does not overflow.   f[...]  →  f[...]     at 0, where it has a kink, derivative 0

    The second derivative there is 1.5, on which both sides agree.""",
    example=">>> ad.special.i0e([0.0, 1000.0])\nf64[2] [1.         0.01261724]")
i1e: Function = unary("i1e", program=_i1e,
    slope=lambda y, x: _abs_gap(i0e_gap(x), x) - _ratio(y, x, scaled=True),
    doc="exp(-|x|) times `i1`: it does not overflow.   f[...]  →  f[...]",
    example=">>> ad.special.i1e([0.0, 1000.0])\nf64[2] [0.         0.01261093]")


counterparts(("i0",), globals())
