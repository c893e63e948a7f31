"""sin, cos and tan.

    |x| = n pi/2 + r,  |r| <= pi/4,     then polynomials of r, chosen and signed by n modulo 4

n times pi/2 is subtracted in parts (Cody and Waite), whose products are exact: with a fused multiply-add
always, else because a part has few bits.  The reduction is right to about the last bit for |x| up to
`LIMITS`; `is_far` tests for larger |x|, for which the caller must use another function.
"""

from __future__ import annotations

import math

from .code import FunctionCode, Lane
from .coefficients import COS_F32, COS_F64, SIN_F32, SIN_F64
from .exp import magic

#: pi/2 in full parts, for fused multiply-adds.
_HALF_PI = {
    "f64": ("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54", "-0x1.f1976b7ed8fbcp-110"),
    "f32": ("0x1.921fb6p+0", "-0x1.777a5cp-25", "-0x1.ee59dap-50"),
}
#: pi/2 in parts of 33 bits, whose products with n < 2**20 are exact doubles.  The nearest that a
#: double gets to a multiple of pi/2 is some 2**-60: four parts for doubles, two for floats.
_HALF_PI_SHORT = {
    "f64": ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2ep-69", "0x1.b839a252049c1p-104"),
    "f32": ("0x1.921fb544p+0", "0x1.0b4611a626331p-34"),
}
#: The argument from which n could be wrong by more than the polynomials allow, with and without fused multiply-adds.
LIMITS = {("f64", True): 2.0**40, ("f64", False): 2.0**20, ("f32", True): 2.0**18, ("f32", False): 2.0**18}


def is_far(k: FunctionCode, x: Lane) -> Lane:
    """True if x is finite, and too large for the reduction here."""
    size = k.abs(x)
    return (size > LIMITS[k.suffix, k.has_fma]) & (size < math.inf)


def _reduced(k: FunctionCode, x: Lane) -> tuple[Lane, Lane, Lane | None]:
    """(n, r, the rounding error of r) for x >= 0; n are the low bits, as an integer of the
    function's width; r is nan for inf."""
    if not k.has_fma:
        return *_reduced_by_exact_products(k, x), None
    shifted = k.mad(x, 2 / math.pi, magic(k))
    n = shifted - magic(k)
    first, second, third = (-float.fromhex(part) for part in _HALF_PI[k.suffix])
    # This difference is exact: its last bit is no less than that of the first part.
    rough = k.fma(n, first, x)
    step = n * second
    r = rough + step
    error = (step - (r - rough)) + k.fma(n, second, -step)
    return k.bits(shifted), r, k.fma(n, third, error)


def _reduced_by_exact_products(k: FunctionCode, x: Lane) -> tuple[Lane, Lane]:
    """(n, r) without fused multiply-adds.  Floats are reduced as doubles."""
    shift = 1.5 * 2.0**52
    r = x if k.double else k.convert(x, "double")
    shifted = k.mad(r, 2 / math.pi, shift)
    n = shifted - shift
    for part in _HALF_PI_SHORT[k.suffix]:
        r = r - n * float.fromhex(part)
    low = k.bits(shifted)
    return (low, r) if k.double else (k.convert(low, "i32"), k.convert(r, "float"))


def _sin_cos(k: FunctionCode, r: Lane, error: Lane | None) -> tuple[Lane, Lane]:
    """The sine and the cosine of r + error, for |r + error| <= pi/4."""
    if error is not None:
        (sine, sine_low), (cosine, cosine_low) = _parts(k, r, error)
        return sine + sine_low, cosine + cosine_low
    z = r * r
    sine, cosine = k.polynomial(z, k.pick(SIN_F64, SIN_F32)), k.polynomial(z, k.pick(COS_F64, COS_F32))
    half = z * 0.5
    head = 1.0 - half
    # (1 - head) - half is the rounding error of the head.
    return k.mad(r * z, sine, r), head + k.mad(z * z, cosine, (1.0 - head) - half)


def _parts(k: FunctionCode, r: Lane, error: Lane) -> tuple[tuple[Lane, Lane], tuple[Lane, Lane]]:
    """The sine and the cosine of r + error, |r + error| <= pi/4, each as an exact large part and a small one."""
    z = r * r
    sine, cosine = k.polynomial(z, k.pick(SIN_F64, SIN_F32)), k.polynomial(z, k.pick(COS_F64, COS_F32))
    half = r * -0.5
    head = k.fma(half, r, 1.0)
    tail = k.fma(half, r, 1.0 - head) - r * error
    # sin(r + error) = sin r + error cos r, and cos(r + error) = cos r - error sin r.
    return (r, k.mad(r * z, sine, error * head)), (head, k.mad(z * z, cosine, tail))


def _is_odd(n: Lane) -> Lane:
    return (n & 1).differs(0)


def _signed_by_half(k: FunctionCode, value: Lane, n: Lane, sign: Lane | None = None) -> Lane:
    """-value where bit 1 of n is set, else value; times the sign, if it is given."""
    flip = (n & 2) << (k.mantissa + (10 if k.double else 7))
    return k.with_sign(value, flip if sign is None else flip ^ sign)


def sin(k: FunctionCode, x: Lane) -> Lane:
    """The sine within 1.5 ulp where x is not far, 0.75 where multiply-adds are fused."""
    # The sign is taken off and put back, which keeps that of a zero.
    n, r, error = _reduced(k, k.abs(x))
    sine, cosine = _sin_cos(k, r, error)
    return _signed_by_half(k, k.select(_is_odd(n), cosine, sine), n, k.sign_of(x))


def cos(k: FunctionCode, x: Lane) -> Lane:
    """The cosine within 1.5 ulp where x is not far, 0.75 where multiply-adds are fused."""
    n, r, error = _reduced(k, k.abs(x))
    sine, cosine = _sin_cos(k, r, error)
    return _signed_by_half(k, k.select(_is_odd(n), sine, cosine), n + 1)


def tan(k: FunctionCode, x: Lane) -> Lane:
    """The tangent within 3 ulp where x is not far, 1 where multiply-adds are fused."""
    n, r, error = _reduced(k, k.abs(x))
    odd = _is_odd(n)
    if error is None:
        sine, cosine = _sin_cos(k, r, error)
        return k.with_sign(k.select(odd, -cosine, sine) / k.select(odd, sine, cosine), k.sign_of(x))
    sines, cosines = _parts(k, r, error)
    above, above_low = _rounded(*[k.select(odd, -c, s) for s, c in zip(sines, cosines, strict=True)])
    below, below_low = _rounded(*[k.select(odd, s, c) for s, c in zip(sines, cosines, strict=True)])
    inverse = 1.0 / below
    ratio = above * inverse
    rest = k.fma(-ratio, below, above) + k.mad(-ratio, below_low, above_low)
    return k.with_sign(k.mad(rest, inverse, ratio), k.sign_of(x))


def _rounded(large: Lane, small: Lane) -> tuple[Lane, Lane]:
    """The sum of two parts, and its rounding error."""
    total = large + small
    return total, (large - total) + small
