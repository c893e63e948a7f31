"""log, log1p, log2 and log10.

    x = 2**e m,  sqrt(1/2) <= m < sqrt(2),   f = m - 1,   s = f / (2 + f)
    log(m) = log((1+s) / (1-s)) = f - s (f - R),    R = z P(z),  z = s*s

The formula with f outside keeps the part that is known exactly out of the division.

For the other bases log(m) is kept in two parts, and so is the factor 1 / log(base), so that the
powers of the base come out whole (the way of FreeBSD's e_log10.c).
"""

from __future__ import annotations

import math
import struct

from .code import Code, Term
from .coefficients import LOG_F32, LOG_F64
from .exp import LN2

__all__ = ["decompose", "log", "log1p", "log2", "log10"]

#: The bits of sqrt(1/2): a mantissa below it belongs to the exponent before.
_SQRT_HALF_BITS = {
    "f64": struct.unpack("<q", struct.pack("<d", math.sqrt(0.5)))[0],
    "f32": struct.unpack("<i", struct.pack("<f", math.sqrt(0.5)))[0],
}


#: 1 / log(base), the first part short: its product with a number of as many bits is exact.
_PER_LOG = {
    (2, "f64"): ("0x1.7154765200000p+0", "0x1.705fc2eefa200p-33"),
    (2, "f32"): ("0x1.714p+0", "0x1.47652cp-12"),
    (10, "f64"): ("0x1.bcb7b152p-2", "0x1.b9438ca9aadd5p-36"),
    (10, "f32"): ("0x1.bcap-2", "0x1.7b1526p-14"),
}
#: log10(2), the first part short: its product with an exponent is exact.
_LOG10_2 = {
    "f64": ("0x1.34413509f78p-2", "0x1.fef311f12b358p-46"),
    "f32": ("0x1.344p-2", "0x1.3509f8p-18"),
}


def decompose(k: Code, x: Term) -> tuple[Term, Term]:
    """(e, m) with x = 2**e m and m in [sqrt(1/2), sqrt(2)), e as a float; x positive and finite."""
    if k.fills_registers:
        whole, part = k.exponent(x), k.mantissa_of(x)
        is_upper = part >= math.sqrt(2.0)
        return k.select(is_upper, whole + 1.0, whole), k.select(is_upper, part * 0.5, part)
    smallest_normal, lift = 2.0 ** (1 - k.bias), k.mantissa + 2
    is_subnormal = x < smallest_normal
    bits = k.bits(k.select(is_subnormal, x * 2.0**lift, x))
    biased = bits - (_SQRT_HALF_BITS[k.suffix] - (k.bias << k.mantissa))
    # The exponent becomes a float as the low bits of 2**mantissa.
    shift = 2.0**k.mantissa
    e = k.from_bits((biased >> k.mantissa) | k.bits(k.constant(shift)))
    e = e - k.select(is_subnormal, k.constant(shift + k.bias + lift), shift + k.bias)
    m = k.from_bits(bits - (biased & -(1 << k.mantissa)) + (k.bias << k.mantissa))
    return e, m


def _series(k: Code, f: Term) -> tuple[Term, Term, Term]:
    """(s, h, R) with log(1 + f) = f - (h - s (h + R)),  h = f*f/2."""
    s = f / (f + 2.0)
    z = s * s
    return s, f * f * 0.5, z * k.polynomial(z, k.pick(LOG_F64, LOG_F32))


def _log(k: Code, e: Term, f: Term, correction: Term | None = None) -> Term:
    """e log(2) + log(1 + f + correction), the correction below an ulp of 1 + f."""
    high, low = LN2[k.suffix]
    s, half_square, rest = _series(k, f)
    small = e * low
    if correction is not None:
        # d log(m) = dm / m, and 1 / m = (1 - s) / (1 + s), here to a percent.
        small = small + correction * k.mad(s, k.mad(s, 2.0, -2.0), 1.0)
    return k.mad(e, high, f - (half_square - k.mad(s, half_square + rest, small)))


def _edges(k: Code, x: Term, result: Term, zero: float) -> Term:
    """The logarithm outside of its range: -inf at `zero`, nan below, inf and nan themselves."""
    result = k.select(x < math.inf, result, x)
    result = k.select(x < zero, math.nan, result)
    return k.select(x.equals(zero), -math.inf, result)


def log(k: Code, x: Term) -> Term:
    """The natural logarithm within 1 ulp."""
    e, m = decompose(k, x)
    return _edges(k, x, _log(k, e, m - 1.0), 0.0)


def log1p(k: Code, x: Term) -> Term:
    """log(1 + x) within 1.5 ulp, also near 0."""
    u = 1.0 + x
    # What rounding lost, exactly: x = (u - 1) + lost.
    added = u - 1.0
    lost = (1.0 - (u - added)) + (x - added)
    e, m = decompose(k, u)
    # 2**-e, of which only exponents up to the precision matter.
    scale = k.from_bits(k.bits(k.constant(1.0)) + k.bits(m) - k.bits(u))
    scale = k.select(u < 2.0 ** (k.mantissa + 2), scale, 0.0)
    result = _log(k, e, m - 1.0, lost * scale)
    result = k.select(k.abs(x) < 2.0 ** -(k.mantissa + 2), x, result)
    return _edges(k, x, result, -1.0)


def _log_to_base(k: Code, x: Term, base: int) -> Term:
    """log(x) / log(base)."""
    e, m = decompose(k, x)
    f = m - 1.0
    s, half_square, rest = _series(k, f)
    # log(m) = high + low, high of half as many bits.
    high = k.from_bits(k.bits(f - half_square) & -(1 << k.pick(32, 12)))
    low = k.mad(s, half_square + rest, (f - high) - half_square)
    per_high, per_low = map(float.fromhex, _PER_LOG[base, k.suffix])
    product = high * per_high
    rest = k.mad(low + high, per_low, low * per_high)
    whole = e
    if base != 2:
        two_high, two_low = map(float.fromhex, _LOG10_2[k.suffix])
        whole, rest = e * two_high, k.mad(e, two_low, rest)
    total = whole + product
    return _edges(k, x, total + (((whole - total) + product) + rest), 0.0)


def log2(k: Code, x: Term) -> Term:
    """The logarithm to base 2 within 1 ulp; powers of 2 give whole numbers."""
    return _log_to_base(k, x, 2)


def log10(k: Code, x: Term) -> Term:
    """The logarithm to base 10 within 1 ulp; powers of 10 give whole numbers."""
    return _log_to_base(k, x, 10)
