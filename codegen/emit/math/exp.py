"""exp, exp2 and expm1, and the reduction of their argument, which sinh, cosh and tanh use too.

    x = n log(2) + r,  |r| <= log(2)/2,      exp(x) = 2**n exp(r)

Adding 1.5 * 2**52 to x / log(2) rounds it to n, and leaves n in the low bits of the sum.

A machine that looks up tables in registers takes n in 16ths (for floats 32nds), and their powers of 2 from a table:

    exp(x) = 2**floor(n) root (1 + error + r + r**2 P(r)),   |r| <= log(2)/32,   root (1 + error) = 2**(n - floor(n))

P has 5 terms instead of 11, and the sum added to 1 is small: f64 .48 ns instead of .59, .61 ulp instead of .93 (Zen 4).
"""

from __future__ import annotations

import math

from .code import FunctionCode, Lane
from .coefficients import EXP2, EXP2_F32, EXP_F32, EXP_F64
from .tables import EXP_NEAR_F32, EXP_NEAR_F64, POW_ROOTS_F32, POW_ROOTS_F64

#: log(2) in two parts, the first short: its product with an exponent is exact.
LN2 = {
    "f64": (float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45")),
    "f32": (float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cp-20")),
}


def magic(k: FunctionCode) -> float:
    """A number whose sum with a float of moderate size has the float, rounded to an integer, in its low bits."""
    return 1.5 * 2.0**k.mantissa


def expm1_reduced(k: FunctionCode, x: Lane) -> tuple[Lane, Lane]:
    """(n, q) with exp(x) = 2**n (1 + q), n an integer term; |x| less than about 1e5."""
    shifted, q = _reduced(k, x)
    return k.bits(shifted) - k.bits(k.constant(magic(k))), q


def _reduced(k: FunctionCode, x: Lane) -> tuple[Lane, Lane]:
    """(n + magic, q) with exp(x) = 2**n (1 + q)."""
    high, low = LN2[k.suffix]
    shifted = k.mad(x, 1 / math.log(2), magic(k))
    n = shifted - magic(k)
    r = k.mad(n, -low, k.mad(n, -high, x))
    return shifted, k.mad(r * r, k.polynomial(r, k.pick(EXP_F64, EXP_F32)), r)


def scaled(k: FunctionCode, x: Lane, shifted: Lane) -> Lane:
    """x * 2**n, correct also if that overflows or is subnormal, for n + magic = `shifted`, |n| <= 2 bias."""
    if k.fills_registers:
        return k.scaled(x, shifted - magic(k))
    # In two steps, the first by half of n rounded down: the shift that halves n must not get a negative number.
    n = k.bits(shifted) - k.bits(k.constant(magic(k)))
    half = ((n + 4 * k.bias) >> 1) - 2 * k.bias
    return x * k.power_of_two(half) * k.power_of_two(n - half)


def exp(k: FunctionCode, x: Lane) -> Lane:
    """e**x within 1 ulp."""
    if not k.fills_registers:
        return joint_exp(k, x)
    x, (high, low), whole = _clamped(k, x), LN2[k.suffix], magic(k) / k.pick(16, 32)
    shifted = k.mad(x, 1 / math.log(2), whole)
    n = shifted - whole
    return _of_parts(k, shifted, n, k.mad(n, -low, k.mad(n, -high, x)))


def joint_exp(k: FunctionCode, x: Lane) -> Lane:
    """e**x within 1 ulp, computed together with expm1(x)."""
    shifted, q = _reduced(k, _clamped(k, x))
    return scaled(k, 1.0 + q, shifted)


def _clamped(k: FunctionCode, x: Lane) -> Lane:
    """x, clamped to bounds at which e**x is 0 or infinite already."""
    low, high = k.pick((-746.0, 710.0), (-104.0, 89.0))
    return k.at_least(k.at_most(x, high), low)


def _of_parts(k: FunctionCode, shifted: Lane, n: Lane, r: Lane) -> Lane:
    """2**n e**r, for n in 16ths (for floats 32nds) and `shifted`, which has the number of these in its low bits."""
    index = k.bits(shifted)
    root, error = (k.lookup(part, index) for part in k.pick(POW_ROOTS_F64, POW_ROOTS_F32))
    rest = k.mad(r * r, k.polynomial(r, k.pick(EXP_NEAR_F64, EXP_NEAR_F32)), r + error)
    # The instruction rounds n down: the tables have 2**(n - floor(n)).
    return k.scaled(k.mad(root, rest, root), n)


def exp2(k: FunctionCode, x: Lane) -> Lane:
    """2**x within 1 ulp; exact where x is whole."""
    low, high = k.pick((-1076.0, 1025.0), (-151.0, 129.0))
    x = k.at_least(k.at_most(x, high), low)
    whole = magic(k) / k.pick(16, 32) if k.fills_registers else magic(k)
    shifted = x + whole
    n = shifted - whole
    f = x - n
    if k.fills_registers:
        return _of_parts(k, shifted, n, f * math.log(2))
    return scaled(k, k.mad(f, k.polynomial(f, k.pick(EXP2, EXP2_F32)), 1.0), shifted)


def expm1(k: FunctionCode, x: Lane) -> Lane:
    """e**x - 1 within 1.5 ulp, also near 0."""
    low, high = k.pick((-40.0, 710.0), (-20.0, 89.0))
    return _less_one(k, x, *expm1_reduced(k, k.at_least(k.at_most(x, high), low)))


def joint_expm1(k: FunctionCode, x: Lane) -> Lane:
    """e**x - 1 within 1.5 ulp, computed together with exp(x)."""
    shifted, q = _reduced(k, _clamped(k, x))
    # For n of -64 and below the result is -1.
    n = k.bits(k.at_least(shifted, magic(k) - 64.0)) - k.bits(k.constant(magic(k)))
    return _less_one(k, x, n, q)


def _less_one(k: FunctionCode, x: Lane, n: Lane, q: Lane) -> Lane:
    """2**n (1 + q) - 1, which is expm1(x)."""
    # 2**n q + (2**n - 1), all halved, because 2**1024 is not representable.
    half = k.power_of_two(n - 1)
    result = k.mad(half, q, half - 0.5) * 2.0
    # Halving loses a bit of a subnormal, and the sum the sign of a zero.
    return k.select(k.abs(x) < 2.0 ** -(k.mantissa + 2), x, result)
