"""fmod: what a division leaves.

    q = floor(|x / y|),  r = |x| - q |y|

As long as q is a number of few enough bits, it is the whole part of the exact quotient, or, where rounding made that
whole, one more; and r, which a fused multiply-add gives, is exact.  Larger quotients are libm's.
"""

from __future__ import annotations

import math

from .code import FunctionCode, Lane

__all__ = ["fmod", "is_large_quotient"]


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
    # Of x / y, not of their sizes: who asks for the remainder often asks for that, too.
    return k.floor(k.abs(x / y))
