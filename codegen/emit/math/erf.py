"""The error function.

    |x| <= 1.25     x + x P(x*x)
    beyond          1 - exp(-a*a) Q(a - centre),  a = |x|

Both are computed and one is chosen.  The square in the exponent is rounded, which the smallness of
the exponential makes harmless.

A machine that looks up coefficients in registers has a polynomial for each of 16 (of floats: 32)
intervals instead, which are a third of the operations (f64 1.25 against 2.1 ns, f32 .3 against .6, Zen 4):

    erf(centre) + t P(t),    t = a - centre,  which is a itself in the interval around 0
"""

from __future__ import annotations

from .code import Code, Term
from .coefficients import ERF_F32, ERF_F64, ERFC_F32, ERFC_F64
from .exp import expm1_reduced, magic
from .tables import ERF_OFFSETS_F32, ERF_OFFSETS_F64, ERF_TABLES_F32, ERF_TABLES_F64

__all__ = ["erf"]


def erf(k: Code, x: Term) -> Term:
    """The error function within 2 ulp."""
    if k.fills_registers:
        return _by_tables(k, x)
    centre, end = k.pick((3.625, 6.0), (2.625, 4.0))  # of the fit; erf is 1 from `end` on
    size = k.abs(x)
    near = k.mad(size, k.polynomial(size * size, k.pick(ERF_F64, ERF_F32)), size)
    a = k.at_most(size, end)
    n, q = expm1_reduced(k, -(a * a))
    scale = k.power_of_two(n)
    complement = k.mad(scale, q, scale) * k.polynomial(a - centre, k.pick(ERFC_F64, ERFC_F32))
    return k.with_sign(k.select(size < 1.25, near, 1.0 - complement), k.sign_of(x))


def _by_tables(k: Code, x: Term) -> Term:
    width, last = k.pick((0.390625, 15.49), (0.126953125, 31.49))
    size = k.abs(x)
    a = k.at_most(size, width * last)  # erf is 1 from there on
    shifted = k.mad(a, 1 / width, magic(k))
    t = k.mad(shifted - magic(k), -width, a)
    interval = k.bits(shifted)
    offset, rest = k.pick(ERF_OFFSETS_F64, ERF_OFFSETS_F32)
    *others, highest = k.pick(ERF_TABLES_F64, ERF_TABLES_F32)
    total = k.lookup(highest, interval)
    for table in (*reversed(others), rest):
        total = k.mad(total, t, k.lookup(table, interval))
    return k.with_sign(total + k.lookup(offset, interval), k.sign_of(x))
