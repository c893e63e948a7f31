"""Rounding to integers, and to decimals: step functions, through which no gradient flows."""

from __future__ import annotations

from ..custom.function import function
from ..tape import another
from .arguments import integer
from .arithmetic import divide, multiply
from .conversion import cast_to
from .declare import unary
from .promotion import common

__all__ = ["ceil", "floor", "rint", "round_", "trunc"]

floor = unary("floor", accepts="fib", partials=None,
    doc="""The largest integer not above x, in x's dtype.   T[...]  →  T[...]     no gradient flows

    >>> import autodiff as ad
    >>> ad.floor([1.7, -1.2])
    f64[2] [ 1. -2.]
    >>> ad.floor(3)
    i64[] 3
    """)
ceil = unary("ceil", accepts="fib", partials=None,
    doc="""The smallest integer not below x, in x's dtype.   T[...]  →  T[...]     no gradient flows

    >>> import autodiff as ad
    >>> ad.ceil([1.2, -1.2])
    f64[2] [ 2. -1.]
    """)
trunc = unary("trunc", accepts="fib", partials=None,
    doc="""x without its fraction, in its dtype.   T[...]  →  T[...]     no gradient flows

    >>> import autodiff as ad
    >>> ad.trunc([1.7, -1.7])
    f64[2] [ 1. -1.]
    """)
rint = unary("rint", partials=None, lower="roundeven",
    doc="""The integer nearest to x, halves to even.   f[...]  →  f[...]     integers give float64; no gradient flows

    >>> import autodiff as ad
    >>> ad.rint([0.5, 1.5, 2.5])
    f64[3] [0. 2. 2.]
    """)


@function
def round_(x, decimals=0):
    """x rounded to a number of decimals, halves to even.   T[...]  →  T[...]     no gradient flows

    As in NumPy, decimals are reached by scaling, so the last digit of the result may differ from what exact
    decimal rounding gives.  Integers are rounded only by negative `decimals`.
    Raises TypeError for `decimals` that are no integer, DTypeError for complex x: round its parts.

    >>> import autodiff as ad
    >>> ad.round([0.5, 1.5, 2.345])
    f64[3] [0. 2. 2.]
    >>> ad.round(2.345, 1)
    f64[] 2.3
    >>> ad.round(1250, -2)
    i64[] 1200
    """
    (x,), decimals = common("round", [("x", x)], "fib"), integer(decimals, "round", "decimals")
    if decimals >= 0 and x.dtype.kind in "ib":
        return another(x)
    if decimals == 0:
        return rint(x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return divide(rint(multiply(x, scale)), scale)
    return cast_to(multiply(rint(divide(x, scale)), scale), x.dtype)
