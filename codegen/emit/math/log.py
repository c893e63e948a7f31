"""log, log1p, log2 and log10.

    x = 2**e m,  sqrt(1/2) <= m < sqrt(2),   f = m - 1,   s = f / (2 + f)
    log(m) = log((1+s) / (1-s)) = f - s (f - R),    R = z P(z),  z = s*s

The formula with f outside keeps the part that is known exactly out of the division.

For the other bases log(m) is kept in two parts, and so is the factor 1 / log(base), so that the
logarithms of powers of the base are whole (as in FreeBSD's e_log10.c).

A machine that looks up tables in registers finds 1/c near 1/m, and log(c), by the first bits of the mantissa m:

    log(x) = e log(2) + log(c) + log(1 + r),   r = m/c - 1 with one rounding,  |r| <= 1/16

This needs no division, and no special cases: the machine's exponent and mantissa of 0, inf, nan and negative numbers
lead to the right result.  The first two terms have a short first part each, whose sum is exact; c is 1 if x is near 1.
"""

from __future__ import annotations

import math

from .code import FunctionCode, Lane
from .coefficients import LOG_F32, LOG_F64
from .exp import LN2
from .tables import (
    LOG_INVERSES_F32,
    LOG_INVERSES_F64,
    LOG_NEAR_F32,
    LOG_NEAR_F64,
    LOGS_2_F32,
    LOGS_2_F64,
    LOGS_10_F32,
    LOGS_10_F64,
    LOGS_E_F32,
    LOGS_E_F64,
)  # fmt: skip

#: 1 / log(base), the first part short: its product with a number of as many bits is exact.
_PER_LOG = {
    (2, "f64"): ("0x1.7154765200000p+0", "0x1.705fc2eefa200p-33"),
    (2, "f32"): ("0x1.714p+0", "0x1.47652cp-12"),
    (10, "f64"): ("0x1.bcb7b152p-2", "0x1.b9438ca9aadd5p-36"),
    (10, "f32"): ("0x1.bcap-2", "0x1.7b1526p-14"),
}
#: 1 / log(base), the first part with all its bits: for fused multiply-adds.
_PER_LOG_FULL = {
    (2, "f64"): ("0x1.71547652b82fep+0", "0x1.777d0ffda0d24p-56"),
    (2, "f32"): ("0x1.715476p+0", "0x1.4ae0c0p-26"),
    (10, "f64"): ("0x1.bcb7b1526e50ep-2", "0x1.95355baaafad3p-57"),
    (10, "f32"): ("0x1.bcb7b2p-2", "-0x1.5b235ep-27"),
}
#: log10(2), the first part short: its product with an exponent is exact.
_LOG10_2 = {
    "f64": ("0x1.34413509f78p-2", "0x1.fef311f12b358p-46"),
    "f32": ("0x1.344p-2", "0x1.3509f8p-18"),
}


def decompose(k: FunctionCode, x: Lane) -> tuple[Lane, Lane]:
    """(e, m) with x = 2**e m and m in [sqrt(1/2), sqrt(2)), e as a float; x positive and finite."""
    if k.fills_registers:
        whole, part = k.exponent(x), k.mantissa_of(x)
        is_upper = part >= math.sqrt(2.0)
        return k.select(is_upper, whole + 1.0, whole), k.select(is_upper, part * 0.5, part)
    lift = k.mantissa + 2
    is_subnormal = x < 2.0 ** (1 - k.bias)
    e, m = _decompose_normal(k, k.select(is_subnormal, x * 2.0**lift, x))
    return e - k.select(is_subnormal, k.constant(lift), 0.0), m


def _decompose_normal(k: FunctionCode, x: Lane) -> tuple[Lane, Lane]:
    """(e, m) of `decompose`, for x that is not subnormal."""
    bits = k.bits(x)
    # A mantissa below sqrt(1/2) belongs to the exponent before.
    biased = bits - k.bits(k.constant(math.sqrt(0.5))) + (k.bias << k.mantissa)
    # The exponent becomes a float as the low bits of 2**mantissa.
    shift = 2.0**k.mantissa
    e = k.from_bits((biased >> k.mantissa) | k.bits(k.constant(shift))) - (shift + k.bias)
    return e, k.from_bits(bits - (biased & -(1 << k.mantissa)) + (k.bias << k.mantissa))


def _series(k: FunctionCode, m: Lane) -> tuple[Lane, Lane, Lane, Lane]:
    """(f, s, h, h + R) with log(m) = f - (h - s (h + R)),  f = m - 1,  h = f*f/2."""
    f = m - 1.0
    s = f / (m + 1.0)
    z, half_square = s * s, f * f * 0.5
    return f, s, half_square, k.mad(z, k.polynomial(z, k.pick(LOG_F64, LOG_F32)), half_square)


def _log(k: FunctionCode, e: Lane, m: Lane, correction: Lane | None = None) -> Lane:
    """e log(2) + log(m) + correction, the correction below an ulp."""
    high, low = LN2[k.suffix]
    f, s, half_square, inner = _series(k, m)
    small = e * low if correction is None else k.mad(e, low, correction)
    return k.mad(e, high, f - (half_square - k.mad(s, inner, small)))


def _edges(k: FunctionCode, x: Lane, result: Lane, zero: float) -> Lane:
    """The result, replaced where x is not in its range: -inf at `zero`, nan below; inf and nan give themselves."""
    result = k.select(x < math.inf, result, x)
    result = k.select(x < zero, math.nan, result)
    return k.select(x.equals(zero), -math.inf, result)


def _by_tables(k: FunctionCode, x: Lane, base: int = 0, error: Lane | None = None) -> Lane:
    """The logarithm of x + error to a base (0: the natural logarithm), for error below an ulp of x."""
    m = k.mantissa_near_one(x)
    of_x, of_m = k.exponent(x), k.exponent(m)
    e = of_x - of_m
    first_bits = k.bits(m) >> k.pick(48, 18)
    inverse = k.lookup(k.pick(LOG_INVERSES_F64, LOG_INVERSES_F32), first_bits)
    r = k.mad(m, inverse, -1.0)
    logs = {0: (LOGS_E_F64, LOGS_E_F32), 2: (LOGS_2_F64, LOGS_2_F32), 10: (LOGS_10_F64, LOGS_10_F32)}[base]
    high, low = (k.lookup(part, first_bits) for part in k.pick(*logs))
    of_two = {0: LN2[k.suffix], 2: (1.0, 0.0), 10: tuple(map(float.fromhex, _LOG10_2[k.suffix]))}[base]
    high = e + high if of_two[0] == 1.0 else k.mad(e, of_two[0], high)
    low = k.mad(e, of_two[1], low) if of_two[1] else low
    if error is not None:
        # The derivative is 1/m = (1 - r) / c to some 8 bits.  The error is 0 where x is 0; nan where it is infinite.
        added = k.select(k.abs(error) > 0.0, k.scaled(error * inverse, of_m - of_x), 0.0)
        low = low + k.mad(added, -r, added)
    tail = k.polynomial(r, k.pick(LOG_NEAR_F64, LOG_NEAR_F32)) * (r * r)
    if not base:
        return high + (r + (tail + low))
    per = tuple(map(float.fromhex, _PER_LOG_FULL[base, k.suffix]))
    return high + k.mad(r, per[0], k.mad(r, per[1], k.mad(tail, per[0], low)))


def log(k: FunctionCode, x: Lane) -> Lane:
    """The natural logarithm within 1 ulp."""
    if k.fills_registers:
        return _by_tables(k, x)
    e, m = decompose(k, x)
    return _edges(k, x, _log(k, e, m), 0.0)


def log1p(k: FunctionCode, x: Lane) -> Lane:
    """log(1 + x) within 1.5 ulp, also near 0."""
    u = 1.0 + x
    # The rounding error of u, exactly: x = (u - 1) + error.
    added = u - 1.0
    error = (1.0 - (u - added)) + (x - added)
    if k.fills_registers:
        return k.select(k.abs(x) < 2.0 ** -(k.mantissa + 2), x, _by_tables(k, u, error=error))
    e, m = _decompose_normal(k, u)
    # The derivative is 1/u, which a gradient computes too.  The sum loses the sign of a zero.
    result = _log(k, e, m, error * (1.0 / u))
    return _edges(k, x, k.select(x.equals(0.0), x, result), -1.0)


def _log_to_base(k: FunctionCode, x: Lane, base: int) -> Lane:
    """log(x) / log(base)."""
    if k.fills_registers:
        return _by_tables(k, x, base)
    e, m = decompose(k, x)
    f, s, half_square, inner = _series(k, m)
    # log(m) = high + low, high of half as many bits.
    high = k.from_bits(k.bits(f - half_square) & -(1 << k.pick(32, 12)))
    low = k.mad(s, inner, (f - high) - half_square)
    per_high, per_low = map(float.fromhex, _PER_LOG[base, k.suffix])
    product = high * per_high
    rest = k.mad(low + high, per_low, low * per_high)
    whole = e
    if base != 2:
        two_high, two_low = map(float.fromhex, _LOG10_2[k.suffix])
        whole, rest = e * two_high, k.mad(e, two_low, rest)
    total = whole + product
    return _edges(k, x, total + (((whole - total) + product) + rest), 0.0)


def log2(k: FunctionCode, x: Lane) -> Lane:
    """The logarithm to base 2 within 1 ulp; powers of 2 give whole numbers."""
    return _log_to_base(k, x, 2)


def log10(k: FunctionCode, x: Lane) -> Lane:
    """The logarithm to base 10 within 1 ulp; powers of 10 give whole numbers."""
    return _log_to_base(k, x, 10)
