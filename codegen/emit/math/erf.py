"""The error function.

    |x| <= 1.25     x + x P(x*x)
    beyond          1 - exp(-a*a) Q(a - centre),  a = |x|

Both are computed and one is chosen.  The square in the exponent is rounded, which the smallness of
the exponential makes harmless.
"""

from __future__ import annotations

from .code import Code, Term
from .coefficients import ERF_F32, ERF_F64, ERFC_F32, ERFC_F64
from .exp import expm1_reduced

__all__ = ["erf"]


def erf(k: Code, x: Term) -> Term:
    """The error function within 2 ulp."""
    centre, end = k.pick((3.625, 6.0), (2.625, 4.0))  # of the fit; erf is 1 from `end` on
    size = k.abs(x)
    near = k.mad(size, k.polynomial(size * size, k.pick(ERF_F64, ERF_F32)), size)
    a = k.at_most(size, end)
    n, q = expm1_reduced(k, -(a * a))
    scale = k.power_of_two(n)
    complement = k.mad(scale, q, scale) * k.polynomial(a - centre, k.pick(ERFC_F64, ERFC_F32))
    return k.with_sign(k.select(size < 1.25, near, 1.0 - complement), k.sign_of(x))
