"""Chebyshev series that special functions are made of, and the modified Bessel functions I0 and I1, which are such.

Fitted by interpolation of 50-digit values (mpmath) at 48 to 80 Chebyshev points; what is left off is below 1e-18 of
the largest coefficient.  Each is in a variable t from -1 to 1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..custom.function import Function
from ..tensor import Tensor
from .arithmetic import abs_, sign
from .conditions import where
from .declare import unary
from .elementwise import exp

#: log Γ(x) / ((x - 1) (x - 2)) from 1 to 2: t = 2 x - 3.
LGAMMA_12 = (
    0.49141539302938714, -0.07611416167043585, 0.008432324965932778, -0.001079493726328608, 0.00014900748003692963,
    -2.1512399888556784e-05, 3.1979329860862186e-06, -4.851693012139927e-07, 7.47148782116316e-08,
    -1.1638296700170518e-08, 1.829400437118668e-09, -2.8969180607129607e-10, 4.61570140620909e-11,
    -7.392810230497983e-12, 1.1894280008333085e-12, -1.9212068676522805e-13, 3.113975526387164e-14,
    -5.0628432984486114e-15, 8.254150281631144e-16, -1.3490578987574844e-16, 2.209876116782623e-17,
    -3.6274129549239766e-18, 5.965430068821522e-19,
)

#: log Γ(x) / (x - 2) from 2 to 3: t = 2 x - 5.
LGAMMA_23 = (
    0.5636908878138875, 0.1348298607757962, -0.005699828162861541, 0.0003495753602256195, -2.5137189748937367e-05,
    1.97244954332866e-06, -1.6338534257776144e-07, 1.40332127576137e-08, -1.2365298424440683e-09,
    1.1102184899836294e-10, -1.0111166895700247e-11, 9.31149919352796e-13, -8.651460058580329e-14,
    8.096490151727336e-15, -7.622664071896451e-16, 7.212908279780404e-17, -6.854714186514716e-18, 6.53870402015014e-19,
)

#: (1 + 2 x) exp(x²) erfc(x) from 0 on: t = (x - 3) / (x + 3).
ERFCX = (
    1.17756257419656, 0.005353904539615676, -0.09377550342284209, 0.05436652555744322, -0.018976596707845208,
    0.004453426061462712, -0.0006335531710553147, 1.7661719523171593e-05, 1.2841532864056671e-05,
    -2.0072285659059913e-06, -1.807522790414837e-07, 7.549828343825093e-08, 1.885668523838603e-09,
    -2.699519049798364e-09, -1.4600791199391057e-11, 1.0361607445969489e-10, 1.475715976623473e-12,
    -4.277340064396908e-12, -2.0792249285979267e-13, 1.8134502003177905e-13, 1.973425574545982e-14,
    -7.28794373757736e-15, -1.5169878690047626e-15, 2.351411226084245e-16, 1.0006111694119025e-16,
    -2.0572527918384397e-18, -5.6086081918478054e-18,
)

#: erf(x) / x up to 1/2: t = 8 x² - 1.
_ERF_NEAR = (
    1.083882205490613, -0.04367779108737525, 0.0008071118294133213, -1.191317951927046e-05, 1.440278733630302e-07,
    -1.467715582316901e-09, 1.2902439604484931e-11, -9.963857180158892e-14, 6.857505850501839e-16,
    -4.255370438044438e-18,
)

#: The value of erf(x) / x at t = 0 beyond its first power.
_FIRST_LOW = 1.040650742831479e-16

#: exp(-x) I0(x) from 0 to 8: t = x / 4 - 1.
BESSEL0_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08,
    2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12,
    -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15,
    -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18, 5.669178006921496e-19,
)

#: √x exp(-x) I0(x) from 8 on: t = 16 / x - 1.
BESSEL0_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14, -9.554846698828307e-15,
    3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18, 9.921475412173699e-19,
    1.193650890845982e-18,
)

#: exp(-x) I1(x) / x from 0 to 8: t = x / 4 - 1.
BESSEL1_NEAR = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758, -0.00016176081582589674,
    4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06, -8.568720264695455e-07,
    2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09, -1.8872497517228294e-09,
    3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11, -1.9839743977649436e-12,
    3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15, -1.1055969477353862e-15,
    1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18, -3.541581772542136e-19,
)

#: √x exp(-x) I1(x) from 8 on: t = 16 / x - 1.
BESSEL1_FAR = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06, -2.512236237870209e-07,
    -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10, -1.8974958123505413e-11,
    3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12, -7.198551776245908e-13,
    -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14, 1.0420276984128802e-14,
    -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16, 2.96262899764595e-16,
    -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18, 7.517296310842105e-18,
    -9.314178867326884e-19, -1.242193275194891e-18,
)


def series(k: Any, coefficients: tuple[float, ...], t: Any) -> Any:
    """The sum of a series whose powers do not cancel, by powers: half of the operations, which wait for few others.

    erfc of doubles 12.8, by powers 6.0 ns, gammaln 18, 14 (1e6 of them, one thread, Zen 3).
    """
    return halves(k, _powers(_told(k, coefficients, t)), t)


def halves(k: Any, powers: tuple[float, ...], t: Any) -> Any:
    """The sum of powers of t, the lowest first: even and odd ones, of which neither waits for the other."""
    square = t * t
    if len(powers) < 20:
        return horner(k, powers[1::2], square) * t + horner(k, powers[::2], square)
    a, b, c, d = [horner(k, powers[first::4], square * square) for first in range(4)]
    return (d * t + c) * square + (b * t + a)


def more_by_erf(k: Any, whole: Any, scale: Any, x: Any) -> Any:
    """whole + scale erf(x) / x, rounded once where that is from a half of `whole` to twice that; |x| up to 1/2."""
    t = 8.0 * (x * x) - 1.0
    first, *others = _powers(_told(k, _ERF_NEAR, t))
    high = float(np.float32(first)) if k.dtype(t) == "f32" else first
    low = (first - high) + _FIRST_LOW
    # The first power is two numbers, and what the sum with it is rounded by is added to the others.
    rest = halves(k, tuple(others), t) * t + low
    total = k.fma(scale, high, whole)
    return total + k.fma(scale, rest, k.fma(scale, high, whole - total))


def clenshaw(k: Any, coefficients: tuple[float, ...], t: Any) -> Any:
    """The sum of any series, by Clenshaw's recurrence."""
    terms = _told(k, coefficients, t)
    last, total = 0.0, k.constant(terms[-1], like=t)
    for c in reversed(terms[1:-1]):
        total, last = (t + t) * total - last + c, total
    return t * total - last + terms[0]


def _told(k: Any, coefficients: tuple[float, ...], t: Any) -> tuple[float, ...]:
    """The first terms: those that the dtype of t can tell."""
    least = max(map(abs, coefficients)) * (2.0**-27 if k.dtype(t) == "f32" else 0.0)
    count = len(coefficients)
    while abs(coefficients[count - 1]) < least:
        count -= 1
    return coefficients[:count]


@functools.cache
def _powers(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    """The coefficients of 1, t, t² ... of a series."""
    rows = [[1], [0, 1]]  # of Chebyshev's polynomials
    while len(rows) < len(coefficients):
        doubled, before = [0, *(2 * c for c in rows[-1])], [*rows[-2], 0, 0]
        rows.append([a - b for a, b in zip(doubled, before, strict=True)])
    terms = list(zip(coefficients, rows, strict=False))
    return tuple(math.fsum(c * row[j] for c, row in terms[j:]) for j in range(len(coefficients)))


def horner(k: Any, coefficients: Sequence[float], t: Any) -> Any:
    """The polynomial with these coefficients, the lowest first, of an element."""
    total = k.constant(coefficients[-1], like=t)
    for c in coefficients[-2::-1]:
        total = total * t + c
    return total


def polynomial(coefficients: Sequence[float], t: Tensor) -> Tensor:
    """The polynomial with these coefficients, the lowest first, of a tensor."""
    total: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = total * t + c
    return total



#: Below, I1(x) / x is the sum of (x/2)**2k / (2 k! (k+1)!), whose term of k = 7 is less than 1e-17 of it.
_NEAR = 0.5
_RATIO = tuple([0.5 / (4**n * math.factorial(n) * math.factorial(n + 1)) for n in range(7)])


def _scaled(k: Any, x: Any, near: tuple[float, ...], far: tuple[float, ...]) -> tuple[Any, Any, Any]:
    """|x|, whether it is below 8, and the series for it, in each its own variable; the far one over √|x|."""
    size = abs(x)
    is_near = size < 8.0
    t = k.select(is_near, size * 0.25 - 1.0, 16.0 / size - 1.0)
    # Powers of the near ones cancel where the scaled function has become small.
    return size, is_near, (clenshaw(k, near, t), series(k, far, t) / k.sqrt(size))


def _i0e(k: Any, x: Any) -> Any:
    _, is_near, (near, far) = _scaled(k, x, BESSEL0_NEAR, BESSEL0_FAR)
    return k.select(is_near, near, far)


def _i1e(k: Any, x: Any) -> Any:
    size, is_near, (near, far) = _scaled(k, x, BESSEL1_NEAR, BESSEL1_FAR)
    return k.copysign(k.select(is_near, size * near, far), x)


def _grown(k: Any, x: Any, scaled: Any) -> Any:
    """Times exp(|x|), in two steps, so that only what is too large overflows."""
    half = k.exp(abs(x) * 0.5)
    return k.select(k.isinf(x), k.copysign(math.inf, scaled), scaled * half * half)


def _over(y: Tensor, x: Tensor, *, scaled: bool) -> Tensor:
    """I1(x) / x, or of the scaled one; near 0, where its derivatives would cancel, by its series."""
    is_near = abs_(x) < _NEAR
    near = where(is_near, x, 0.0)
    total = polynomial(_RATIO, near * near)
    if scaled:
        total = total * exp(-abs_(near))
    return where(is_near, total, y / where(is_near, 1.0, x))


i0: Function = unary("i0", program=lambda k, x: _grown(k, x, _i0e(k, x)), partials=lambda y, x: (i1(x),),
    doc="The modified Bessel function of the first kind, of order 0.   f[...]  →  f[...]",
    example={"ad.special.i0([0.0, 1.0])": "f64[2] [1.         1.26606588]"})
i1: Function = unary("i1", program=lambda k, x: _grown(k, x, _i1e(k, x)),
    partials=lambda y, x: (i0(x) - _over(y, x, scaled=False),),
    doc="The modified Bessel function of the first kind, of order 1.   f[...]  →  f[...]",
    example={"ad.special.i1([0.0, 1.0])": "f64[2] [0.        0.5651591]"})


#: A function of its own, so that its slope at 0 is that of both sides.
i0e_turned: Function = unary("i0e_turned",
    program=lambda k, x: k.select(x == 0.0, 0.0, k.copysign(_i0e(k, x), x)),
    partials=lambda y, x: (abs_(i1e(x)) - i0e(x),),
    doc="sign(x) times `i0e`.   f[...]  →  f[...]",
)
i0e: Function = unary("i0e", program=_i0e, partials=lambda y, x: (i1e(x) - i0e_turned(x),),
    doc="""exp(-|x|) times `i0`: it does not overflow.   f[...]  →  f[...]     at 0, where it has a kink, derivative 0

    The second derivative there is 1.5, on which both sides agree.""",
    example={"ad.special.i0e([0.0, 1000.0])": "f64[2] [1.         0.01261724]"})
i1e: Function = unary("i1e", program=_i1e,
    partials=lambda y, x: (i0e(x) - (sign(x) * y + _over(y, x, scaled=True)),),
    doc="exp(-|x|) times `i1`: it does not overflow.   f[...]  →  f[...]",
    example={"ad.special.i1e([0.0, 1000.0])": "f64[2] [0.         0.01261093]"})
