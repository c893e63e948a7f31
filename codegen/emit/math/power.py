"""pow, by exp2(y log2(x)).

For doubles the logarithm is a double-double: |y log2(x)| may be a thousand, and its error is the
relative error of the result, so that it must be right to some 2^-64.  Floats are computed as
doubles, whose precision is enough for them.

The cube root.

    |x| = 2**(3 n) a,  a = 2**j m,   j = -1, 0 or 1,  sqrt(1/2) <= m < sqrt(2)

    r = P(m) 2**(-j/3)                    1 / cbrt(a), to 13 bits (for floats 8)
    r <- r (1 + e/3 + 2/9 e**2)           e = 1 - a r**3:  to three times as many bits
    y = a r**2
    cbrt(x) = 2**n (y + r**2 / 3 (a - y**3))

There is no division: 1.9 ns per double, Zen 3; x**(1/3) and one step of Newton's method take 13.

fmod: the remainder of a division.

    q = floor(|x / y|),  r = |x| - q |y|

If q has few enough bits, it is the whole part of the exact quotient, or one more if the division was rounded up to a
whole number; r, by a fused multiply-add, is then exact.  For larger quotients libm is called.
"""

from __future__ import annotations

import math

from .code import FunctionCode, Lane
from .coefficients import ATANH_TAIL, CBRT_F32, CBRT_F64, EXP2, EXP2_SHORT, LOG_SHORT
from .exp import magic, scaled
from .log import decompose
from .tables import (
    POW_EXP2_F32,
    POW_EXP2_F64,
    POW_INVERSES_F32,
    POW_INVERSES_F64,
    POW_LOG_F32,
    POW_LOG_F64,
    POW_LOGS_F32,
    POW_LOGS_F64,
    POW_ROOTS_F32,
    POW_ROOTS_F64,
)

#: 1 / log(2) in two parts.
_PER_LN2 = {
    "f64": (float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.777d0ffda0d24p-56")),
    "f32": (float.fromhex("0x1.715476p+0"), float.fromhex("0x1.4ae0c0p-26")),
}
#: For |n| beyond these (f64, f32), 2**n is 0 or inf, even times a factor below 2.
_EXPONENTS = (1100.0, 200.0)
#: 2 / log(2) and 1/3 in two parts.
_TWO_PER_LN2 = (float.fromhex("0x1.71547652b82fep+1"), float.fromhex("0x1.777d0ffda0d24p-55"))
_THIRD = (float.fromhex("0x1.5555555555555p-2"), float.fromhex("0x1.5555555555555p-56"))

Pair = tuple[Lane, Lane]


def pow_(k: FunctionCode, x: Lane, y: Lane) -> Lane:
    """x**y within 1.5 ulp, with C's and NumPy's rules for zeros, infinities, nan and negative x."""
    if k.fills_registers:
        return _signed(k, x, y, _magnitude_by_tables(k, k.abs(x), y))
    if not k.double:
        wide = k.of_doubles()
        size, exponent = k.convert(k.abs(x), "double"), k.convert(y, "double")
        size.code = exponent.code = wide
        magnitude = wide.convert(_magnitude_short(wide, size, exponent), "float")
        magnitude.code = k
        return _specials(k, x, y, magnitude)
    return _specials(k, x, y, _magnitude(k, k.abs(x), y))


def _specials(k: FunctionCode, x: Lane, y: Lane, magnitude: Lane) -> Lane:
    """The power with its sign, also where the logarithm is not finite."""
    size = k.abs(x)
    degenerate = size.equals(0.0) | size.equals(math.inf)
    vanishes = size.equals(0.0) ^ (y < 0.0)
    result = k.select(degenerate, k.select(vanishes, k.constant(0.0), math.inf), magnitude)
    return _signed(k, x, y, k.select(x.is_nan() | y.is_nan(), x + y, result))


def _signed(k: FunctionCode, x: Lane, y: Lane, magnitude: Lane) -> Lane:
    """The power with its sign, from a magnitude that is right for zeros and infinities, and nan if x or y is nan."""
    result = k.select(k.abs(x).equals(1.0) | y.equals(0.0), k.constant(1.0), magnitude)
    # Half of a large number is whole, so large numbers are even; so is inf.
    half = y * 0.5
    whole = k.floor(y).equals(y)
    odd = whole & k.floor(half).differs(half)
    result = k.select(odd, k.with_sign(result, k.sign_of(x)), result)
    # Also (-1)**nan is nan, which the first line made 1.
    return k.select((x < 0.0) & (x > -math.inf) & k.floor(y).differs(y), math.nan, result)


def _magnitude_by_tables(k: FunctionCode, size: Lane, y: Lane) -> Lane:
    """size**y; nan where y log2(size) is 0 * inf, for which the caller sets the result 1."""
    count = k.pick(16, 32)
    high, low = _log2_by_tables(k, size, count)
    product = y * high
    rest = k.mad(y, low, k.fma(y, high, -product))
    # The second part is nan if the first is infinite.
    beyond = k.abs(product) > k.pick(*_EXPONENTS)
    # The sum's last bits are the number of a root of 2.  The second part may be 2^-11 of the first.
    shift = magic(k) / count
    shifted = k.select(beyond, product, k.mad(y, low, product)) + shift
    whole = shifted - shift
    f = k.select(beyond, 0.0, (product - whole) + rest)
    root, lacks = (k.lookup(part, k.bits(shifted)) for part in k.pick(POW_ROOTS_F64, POW_ROOTS_F32))
    more = k.mad(f, k.polynomial(f, k.pick(POW_EXP2_F64, POW_EXP2_F32)), lacks)
    return k.scaled(k.mad(root, more, root), whole)


def _log2_by_tables(k: FunctionCode, size: Lane, count: int) -> Pair:
    """log2(size) in two parts; for 0 and inf the first part is infinite."""
    m = k.mantissa_near_one(size)
    e = k.exponent(size) - k.exponent(m)
    nearest = k.bits(k.mad(m, float(count), magic(k)))
    r = k.mad(m, k.lookup(k.pick(POW_INVERSES_F64, POW_INVERSES_F32), nearest), -1.0)
    log2, log2_low = (k.lookup(part, nearest) for part in k.pick(POW_LOGS_F64, POW_LOGS_F32))
    # log(1 + r) = short + rest, the first term of the tail is the largest that is not exact
    square = r * r
    square_low = k.fma(r, r, -square)
    short = k.mad(square, -0.5, r)
    rest = k.mad(square, -0.5, r - short)
    tail = k.mad(square * r, k.polynomial(r, k.pick(POW_LOG_F64, POW_LOG_F32)), k.mad(square_low, -0.5, rest))
    factor, factor_low = _PER_LN2[k.suffix]
    near = short * factor
    near_low = k.mad(tail, factor, k.mad(short, factor_low, k.fma(short, factor, -near)))
    high, low = _sum_ordered(e + log2, near)
    return high, low + (near_low + log2_low)


def _bounded(k: FunctionCode, y: Lane) -> Lane:
    """y, clamped to 2^65: |log2(x)| is 2^-53 or more unless it is 0, so at that bound the power overflows already."""
    return k.at_least(k.at_most(y, 2.0**65), -(2.0**65))


def _exp2(k: FunctionCode, high: Lane, low: Lane, polynomial: tuple[float, ...]) -> Lane:
    """2**(high + low)."""
    bound = 1100.0
    beyond = k.abs(high) > bound
    low = k.select(beyond, 0.0, low)
    high = k.at_least(k.at_most(high, bound), -bound)
    shifted = high + magic(k)
    f = (high - (shifted - magic(k))) + low
    return scaled(k, k.mad(f, k.polynomial(f, polynomial), 1.0), shifted)


def _magnitude_short(k: FunctionCode, size: Lane, y: Lane) -> Lane:
    """size**y to some 35 bits, in doubles."""
    e, m = decompose(k, size)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    log2 = k.mad(s * k.mad(z, k.polynomial(z, LOG_SHORT), 2.0), 1 / math.log(2), e)
    return _exp2(k, _bounded(k, y) * log2, k.constant(0.0), EXP2_SHORT)


def _magnitude(k: FunctionCode, size: Lane, y: Lane) -> Lane:
    """size**y for finite positive size."""
    e, m = decompose(k, size)
    log2 = _log2_mantissa(k, m)
    high, low = _sum_ordered(e, log2[0])
    high, low = _sum_ordered(high, low + log2[1])
    y = _bounded(k, y)
    product = y * high
    rest = k.mad(y, low, _product_rest(k, y, high, product))
    return _exp2(k, product, rest, EXP2)


def _log2_mantissa(k: FunctionCode, m: Lane) -> Pair:
    """log2(m) for m in [sqrt(1/2), sqrt(2)).

    s = (m - 1) / (m + 1),  z = s*s:    2/log(2) (s + s z (1/3 + z P(z)))
    All terms are double-doubles but P, whose share is below 2^-12.
    """
    f, d = m - 1.0, m + 1.0
    d_low = m - (d - 1.0)
    s = f / d
    # The rest of the division: f - s d, exactly.
    p = s * d
    s_low = (((f - p) - _product_rest(k, s, d, p)) - s * d_low) / d
    z = s * s
    z_low = k.mad(s + s, s_low, _product_rest(k, s, s, z))
    # third = 1/3 + z P(z)
    third, third_low = _sum_ordered(k.constant(_THIRD[0]), k.mad(z, k.polynomial(z, ATANH_TAIL), _THIRD[1]))
    # factor = 1 + z third
    a = z * third
    a_low = k.mad(z, third_low, k.mad(z_low, third, _product_rest(k, z, third, a)))
    factor, factor_low = _sum_ordered(k.constant(1.0), a)
    factor_low = factor_low + a_low
    c = k.constant(_TWO_PER_LN2[0])
    scale = factor * c
    scale_low = k.mad(factor, _TWO_PER_LN2[1], k.mad(factor_low, c, _product_rest(k, factor, c, scale)))
    high = s * scale
    return high, k.mad(s, scale_low, k.mad(s_low, scale, _product_rest(k, s, scale, high)))


def _sum_ordered(a: Lane, b: Lane) -> Pair:
    """a + b exactly, for |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def _product_rest(k: FunctionCode, a: Lane, b: Lane, product: Lane) -> Lane:
    """a * b - product exactly, for the rounded product."""
    if k.has_fma:
        return k.fma(a, b, -product)
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a: Lane) -> Pair:
    """Two halves of 26 bits, whose products are exact (Veltkamp)."""
    scaled_up = a * (2.0**27 + 1.0)
    high = scaled_up - (scaled_up - a)
    return high, a - high


# ---------------------------------------------------------------- the cube root


def cbrt(k: FunctionCode, x: Lane) -> Lane:
    """The cube root within 1 ulp, also of negative numbers."""
    size = k.abs(x)
    e, m = decompose(k, size)
    shifted = k.mad(e, 1 / 3, magic(k))
    j = k.mad(shifted - magic(k), -3.0, e)
    is_more, is_less = j > 0.5, j < -0.5
    a = k.select(is_more, m + m, k.select(is_less, m * 0.5, m))
    factor = k.select(is_more, k.constant(2 ** (-1 / 3)), k.select(is_less, k.constant(2 ** (1 / 3)), 1.0))
    r = k.polynomial(m - 1.0, k.pick(CBRT_F64, CBRT_F32)) * factor
    residual = k.mad(-(a * r), r * r, 1.0)
    r = k.mad(r * residual, k.mad(residual, 2 / 9, 1 / 3), r)
    square = r * r
    y = a * square
    y = k.mad(square * (1 / 3), k.mad(-(y * y), y, a), y)
    n = k.bits(shifted) - k.bits(k.constant(magic(k)))
    is_plain = k.select(size < math.inf, size, 0.0) > 0.0
    return k.with_sign(k.select(is_plain, y * k.power_of_two(n), size), k.sign_of(x))


# ---------------------------------------------------------------- the remainder


def fmod(k: FunctionCode, x: Lane, y: Lane) -> Lane:
    """x - y trunc(x / y) as if computed without rounding: within 0 ulp.  The sign is that of x."""
    if not k.has_fma:
        return k.append(f"frem {k.spelled(k.float)} {x.name}, {y.name}", k.float)
    size, by = k.abs(x), k.abs(y)
    rest = k.fma(-_quotient(k, x, y), by, size)
    rest = k.select(rest < 0.0, rest + by, rest)
    return k.with_sign(k.select(size < by, size, rest), k.sign_of(x))


def is_large_quotient(k: FunctionCode, x: Lane, y: Lane) -> Lane:
    """True if the quotient of two numbers has more bits than a float; False where the remainder is nan."""
    return (_quotient(k, x, y) >= 2.0**k.mantissa) & (k.abs(x) < math.inf) & (k.abs(y) > 0.0)


def _quotient(k: FunctionCode, x: Lane, y: Lane) -> Lane:
    # The quotient is x / y, not |x| / |y|: a loop that needs the remainder often computes x / y too.
    return k.floor(k.abs(x / y))
