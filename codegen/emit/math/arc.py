"""asin, acos, atan and atan2."""

from __future__ import annotations

import math

from .code import FunctionCode, Lane
from .coefficients import ASIN_F32, ASIN_F64, ATAN_F32, ATAN_F64

#: pi/4 in two parts.  The first ends in zeros, so that its product with 3 is exact.
_QUARTER_PI = {
    "f64": (float.fromhex("0x1.921fb54442d18p-1"), float.fromhex("0x1.1a62633145c07p-55")),
    "f32": (float.fromhex("0x1.921fbp-1"), float.fromhex("0x1.5110b4p-23")),
}


def _half_arc(k: FunctionCode, size: Lane) -> tuple[Lane, Lane, Lane, Lane]:
    """(outer, s, tail, s*s): s + tail = asin(size) for size <= 1/2, else asin(sqrt((1 - size) / 2)), acos(size) / 2."""
    outer = size > 0.5
    halved = (1.0 - size) * 0.5
    z = k.select(outer, halved, size * size)
    s = k.select(outer, k.sqrt(halved), size)
    return outer, s, s * z * k.polynomial(z, k.pick(ASIN_F64, ASIN_F32)), halved


def asin(k: FunctionCode, x: Lane) -> Lane:
    """The arc sine within 2.5 ulp, 1.5 where multiply-adds are fused; nan outside of [-1, 1]."""
    high, low = _QUARTER_PI[k.suffix]
    outer, s, tail, halved = _half_arc(k, k.abs(x))
    # pi/2 - 2 (s + tail): the rounding errors of the difference and of the root are added to the small terms.
    near = 2.0 * high - 2.0 * s
    rest = ((2.0 * high - near) - 2.0 * s) + 2.0 * low
    if k.has_fma:
        # The root lacks (halved - s s) / 2s, which matters only for s from .3 to .5: there 1/s is nearly linear.
        rest = k.mad(k.fma(s, s, -halved), k.mad(s, -5.72, 4.86), rest)
    far = near + k.mad(tail, -2.0, rest)
    return k.with_sign(k.select(outer, far, s + tail), k.sign_of(x))


def acos(k: FunctionCode, x: Lane) -> Lane:
    """The arc cosine within 1.5 ulp; nan outside of [-1, 1]."""
    high, low = _QUARTER_PI[k.suffix]
    outer, s, tail, _ = _half_arc(k, k.abs(x))
    # Inside pi/2 - asin(x); outside 2 (s + tail), or pi minus that if x is negative.
    negative = x < 0.0
    turns = k.select(outer, k.select(negative, k.constant(4.0), 0.0), 2.0)
    scale = k.select(outer, k.select(negative, k.constant(-2.0), 2.0), k.select(negative, k.constant(1.0), -1.0))
    whole, step = turns * high, scale * s
    total = whole + step
    rest = ((whole - total) + step) + turns * low
    return total + k.mad(tail, scale, rest)


def _angle(k: FunctionCode, quarters: Lane, t: Lane, error: Lane | float) -> Lane:
    """quarters pi/4 + atan(t + error),  |t| <= tan(pi/8); the rounding error of the first sum is in the small terms."""
    high, low = _QUARTER_PI[k.suffix]
    z = t * t
    whole = quarters * high
    total = whole + t
    rest = k.mad(quarters, low, ((whole - total) + t) + error)
    return total + k.mad(t * z, k.polynomial(z, k.pick(ATAN_F64, ATAN_F32)), rest)


def atan(k: FunctionCode, x: Lane) -> Lane:
    """The arc tangent within 2 ulp, 1 where multiply-adds are fused."""
    size = k.at_most(k.abs(x), 2.0**100)  # a number that has a reciprocal
    steep, middle = size > math.tan(3 * math.pi / 8), size > math.tan(math.pi / 8)
    # One division for the three cases: a, (a - 1) / (a + 1) from pi/4, -1 / a from pi/2.
    above = k.select(steep, -1.0, k.select(middle, size - 1.0, size))
    below = k.select(steep, size, k.select(middle, size + 1.0, k.constant(1.0)))
    quarters = k.select(steep, 2.0, k.select(middle, k.constant(1.0), 0.0))
    t = above / below
    if not k.has_fma:
        return k.with_sign(_angle(k, quarters, t, 0.0), k.sign_of(x))
    # The rounding error of the quotient, and in the middle of its operands, is rest / below.  1 / below is (1 - t) / 2
    # in the middle, and -t in the steep case; elsewhere there is no rest.
    taken = k.mad(-t, size - (below - 1.0), size - (above + 1.0))
    rest = k.fma(-t, below, above) + k.select(middle ^ steep, taken, 0.0)
    inverse = k.select(steep, -t, k.mad(t, -0.5, 0.5))
    return k.with_sign(_angle(k, quarters, t, rest * inverse), k.sign_of(x))


def atan2(k: FunctionCode, y: Lane, x: Lane) -> Lane:
    """The angle of the point (x, y) within 2 ulp, for all points: infinite, zero, of either sign."""
    across, up = k.abs(x), k.abs(y)
    swapped = up > across
    large, small = k.select(swapped, up, across), k.select(swapped, across, up)
    # Scaled down, because sums of the largest numbers must not overflow; a small number loses only bits that do not
    # count.  Scaled up, because the smallest numbers have no reciprocal.
    scale = k.select(large < 2.0 ** (4 - k.bias), k.constant(2.0**60), 1.0)
    scale = k.select(large > 2.0 ** (k.bias - 3), 2.0**-60, scale)
    large, small = large * scale, small * scale
    # The angle to the nearer axis is atan(small / large), computed from 0, or from pi/4 near the diagonal.
    both_infinite = small.equals(math.inf)
    diagonal = (small > large * math.tan(math.pi / 8)) | both_infinite
    above = k.select(diagonal, small - large, small)
    below = k.select(diagonal, small + large, large)
    above = k.select(both_infinite, 0.0, above)  # not inf - inf
    below = k.select(large.equals(0.0), k.constant(1.0), below)
    if k.has_fma:
        # The rounding error of the quotient, and near the diagonal of its operands.
        inverse = 1.0 / below
        t = above * inverse
        taken = k.select(diagonal, k.mad(-t, small - (below - large), small - (above + large)), 0.0)
        error = k.select(large < math.inf, (k.fma(-t, below, above) + taken) * inverse, 0.0)
    else:
        t, error = above / below, k.constant(0.0)
    quarters = k.select(diagonal, k.constant(1.0), 0.0)
    # If y is the nearer axis, the angle is pi/2 minus this one; if x is negative, pi minus that.
    quarters = k.select(swapped, 2.0 - quarters, quarters)
    backwards = k.bits(x) < 0
    quarters = k.select(backwards, 4.0 - quarters, quarters)
    t, error = [k.select(swapped ^ backwards, -part, part) for part in (t, error)]
    result = k.with_sign(k.abs(_angle(k, quarters, t, error)), k.sign_of(y))
    return k.select(x.is_nan() | y.is_nan(), x + y, result)
