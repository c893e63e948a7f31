"""sinh, cosh, tanh and their inverses, by expm1 and log1p; and exp(-2|x|) beside tanh(x)."""

from __future__ import annotations

import math

from .code import FunctionCode, Lane
from .exp import expm1_reduced
from .log import log1p


def _is_tiny(k: FunctionCode, size: Lane) -> Lane:
    """True if an odd function of slope 1 equals its argument; steps on the way may lose bits of a subnormal."""
    return size < 2.0 ** -(k.mantissa // 2 + 2)


def sinh(k: FunctionCode, x: Lane) -> Lane:
    """The hyperbolic sine within 2.5 ulp."""
    size = k.abs(x)
    n, q = expm1_reduced(k, k.at_most(size, k.pick(710.5, 89.5)))
    # A quarter of E = exp(|x|) - 1, since 2**1025 is not representable; then (E + E / (E + 1)) / 2.
    fourth = k.power_of_two(n - 2)
    e = k.mad(fourth, q, fourth - 0.25)
    result = 2.0 * (e + e / (4.0 * e + 1.0))
    return k.with_sign(k.select(_is_tiny(k, size), size, result), k.sign_of(x))


def cosh(k: FunctionCode, x: Lane) -> Lane:
    """The hyperbolic cosine within 2 ulp."""
    n, q = expm1_reduced(k, k.at_most(k.abs(x), k.pick(710.5, 89.5)))
    fourth = k.power_of_two(n - 2)
    e = k.mad(fourth, q, fourth)
    return 2.0 * (e + 0.0625 / e)


def tanh(k: FunctionCode, x: Lane) -> Lane:
    """The hyperbolic tangent within 2.5 ulp."""
    n, q = expm1_reduced(k, k.at_most(k.abs(x), k.pick(22.0, 10.0)) * -2.0)  # tanh is 1 from there on
    return _tanh_of(k, x, k.power_of_two(n), q)


def joint_tanh(k: FunctionCode, x: Lane) -> Lane:
    """tanh(x) within 2.5 ulp, computed together with `exp_minus_twice_abs` of x."""
    return _tanh_of(k, x, *_exp_parts(k, x))


def _tanh_of(k: FunctionCode, x: Lane, scale: Lane, q: Lane) -> Lane:
    one_minus_exp = k.mad(scale, -q, 1.0 - scale)  # 1 - exp(-2|x|)
    return k.with_sign(one_minus_exp / (2.0 - one_minus_exp), k.sign_of(x))


def exp_minus_twice_abs(k: FunctionCode, x: Lane) -> Lane:
    """exp(-2|x|) within 1 ulp, computed together with tanh(x)."""
    scale, q = _exp_parts(k, x)
    return k.mad(scale, q, scale)


def _exp_parts(k: FunctionCode, x: Lane) -> tuple[Lane, Lane]:
    """(2**n, q) with exp(-2|x|) = 2**n (1 + q)."""
    size = k.at_most(k.abs(x), k.pick(373.0, 52.0))  # the result is 0 from there on
    n, q = expm1_reduced(k, size * -2.0)
    return k.power_of_two(n + 64) * 2.0**-64, q  # may be subnormal


def _large(k: FunctionCode) -> float:
    """The number from which on log1p(x) is log(x); x*x + 1 is x*x for smaller numbers already."""
    return 2.0 ** (k.mantissa + 2)


def asinh(k: FunctionCode, x: Lane) -> Lane:
    """The inverse hyperbolic sine within 3 ulp."""
    size = k.abs(x)
    large = size > _large(k)
    a = k.select(large, k.constant(1.0), size)  # its square must not overflow
    square = a * a
    # asinh(a) = log1p(a + (sqrt(1 + a*a) - 1)), the bracket without cancellation
    moderate = a + square / (1.0 + k.sqrt(square + 1.0))
    result = log1p(k, k.select(large, size, moderate)) + k.select(large, k.constant(math.log(2)), 0.0)
    return k.with_sign(k.select(_is_tiny(k, size), size, result), k.sign_of(x))


def acosh(k: FunctionCode, x: Lane) -> Lane:
    """The inverse hyperbolic cosine within 3 ulp; nan below 1."""
    large = x > _large(k)
    t = k.select(large, k.constant(1.0), x - 1.0)
    moderate = t + k.sqrt(t * (t + 2.0))
    result = log1p(k, k.select(large, x, moderate)) + k.select(large, k.constant(math.log(2)), 0.0)
    return k.select(x < 1.0, math.nan, result)


def atanh(k: FunctionCode, x: Lane) -> Lane:
    """The inverse hyperbolic tangent within 3 ulp; nan outside of [-1, 1]."""
    size = k.abs(x)
    twice = size + size
    # 2a / (1 - a); for small a with the part that is exact outside of the division.
    quotient = size / (1.0 - size)
    inner = k.mad(twice, quotient, twice)
    result = 0.5 * log1p(k, k.select(size < 0.5, inner, quotient + quotient))
    return k.with_sign(k.select(_is_tiny(k, size), size, result), k.sign_of(x))
