"""asin, acos, atan and atan2."""

from __future__ import annotations

import math

from .code import Code, Term
from .coefficients import ASIN_F32, ASIN_F64, ATAN_F32, ATAN_F64

__all__ = ["acos", "asin", "atan", "atan2"]

#: pi/4 in two parts.  The first ends in zeros, so that three of it are exact.
_QUARTER_PI = {
    "f64": (float.fromhex("0x1.921fb54442d18p-1"), float.fromhex("0x1.1a62633145c07p-55")),
    "f32": (float.fromhex("0x1.921fbp-1"), float.fromhex("0x1.5110b4p-23")),
}


def _half_arc(k: Code, size: Term) -> tuple[Term, Term]:
    """(outer, p): p = asin(size) for size <= 1/2, else asin(sqrt((1 - size) / 2)), which is acos(size) / 2."""
    outer = size > 0.5
    halved = (1.0 - size) * 0.5
    z = k.select(outer, halved, size * size)
    s = k.select(outer, k.sqrt(halved), size)
    return outer, k.mad(s * z, k.polynomial(z, k.pick(ASIN_F64, ASIN_F32)), s)


def asin(k: Code, x: Term) -> Term:
    """The arc sine within 2.5 ulp; nan outside of [-1, 1]."""
    high, low = _QUARTER_PI[k.suffix]
    outer, p = _half_arc(k, k.abs(x))
    # pi/2 - 2p
    far = 2.0 * high - (2.0 * p - 2.0 * low)
    return k.with_sign(k.select(outer, far, p), k.sign_of(x))


def acos(k: Code, x: Term) -> Term:
    """The arc cosine within 1.5 ulp; nan outside of [-1, 1]."""
    high, low = _QUARTER_PI[k.suffix]
    outer, p = _half_arc(k, k.abs(x))
    negative = x < 0.0
    # Inside pi/2 - asin(x); outside 2p, or pi - 2p of a negative x.
    near = 2.0 * high - (k.with_sign(p, k.sign_of(x)) - 2.0 * low)
    far = k.select(negative, 4.0 * high - (2.0 * p - 4.0 * low), 2.0 * p)
    return k.select(outer, far, near)


def _atan_small(k: Code, t: Term) -> Term:
    """atan(t) - t for |t| <= tan(pi/8)."""
    z = t * t
    return t * z * k.polynomial(z, k.pick(ATAN_F64, ATAN_F32))


def atan(k: Code, x: Term) -> Term:
    """The arc tangent within 2 ulp."""
    high, low = _QUARTER_PI[k.suffix]
    size = k.abs(x)
    steep, middle = size > math.tan(3 * math.pi / 8), size > math.tan(math.pi / 8)
    # One division for the three cases: a, (a - 1) / (a + 1) from pi/4, -1 / a from pi/2.
    above = k.select(steep, -1.0, k.select(middle, size - 1.0, size))
    below = k.select(steep, size, k.select(middle, size + 1.0, k.constant(1.0)))
    quarters = k.select(steep, 2.0, k.select(middle, k.constant(1.0), 0.0))
    t = above / below
    result = quarters * high + (t + (_atan_small(k, t) + quarters * low))
    return k.with_sign(result, k.sign_of(x))


def atan2(k: Code, y: Term, x: Term) -> Term:
    """The angle of the point (x, y) within 2 ulp, for all points: infinite, zero, of either sign."""
    high, low = _QUARTER_PI[k.suffix]
    across, up = k.abs(x), k.abs(y)
    swapped = up > across
    large, small = k.select(swapped, up, across), k.select(swapped, across, up)
    # Sums of the largest numbers must not overflow.  What this does to a small one is lost anyway.
    shrink = k.select(large > 2.0 ** (k.bias - 3), k.constant(2.0**-60), 1.0)
    large, small = large * shrink, small * shrink
    # The angle to the nearer axis is atan(small / large): from 0, or by way of the diagonal from pi/4.
    both_infinite = small.equals(math.inf)
    diagonal = (small > large * math.tan(math.pi / 8)) | both_infinite
    above = k.select(diagonal, small - large, small)
    below = k.select(diagonal, small + large, large)
    above = k.select(both_infinite, 0.0, above)  # not inf - inf
    t = above / k.select(large.equals(0.0), k.constant(1.0), below)
    quarters = k.select(diagonal, k.constant(1.0), 0.0)
    # From the other axis the angle is pi/2 - it; from the other side pi - that.
    quarters = k.select(swapped, 2.0 - quarters, quarters)
    backwards = k.bits(x) < 0
    quarters = k.select(backwards, 4.0 - quarters, quarters)
    t = k.select(swapped ^ backwards, -t, t)
    result = quarters * high + (t + (_atan_small(k, t) + quarters * low))
    result = k.with_sign(k.abs(result), k.sign_of(y))
    return k.select(x.is_nan() | y.is_nan(), x + y, result)
