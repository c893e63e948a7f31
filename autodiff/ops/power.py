"""Powers.  Exponents that are small integers or ±0.5 are part of the graph; others are run-time arguments.

    x ** 2, x ** -1, x ** 0.5     power_static: products, a division, a square root
    x ** 2.7, x ** t, 2 ** t      power
    integers ** integers          integer_power, by NumPy, which refuses negative exponents
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.lowering import Call
from codegen.runtime.record_table import RecordedProgram

from ..errors import caller
from ..tape import another, record
from ..tensor import Tensor
from .arithmetic import mul0, real_part
from .conditions import where
from .conversion import cast_to
from .declare import OneNode, common, is_simple
from .elementwise import inverse_root, log, sqrt
from .primitive import I64, elementwise
from .template import public

#: Integer exponents up to this size are static: beyond, products of rounded products lose more than
#: the library function does (n / 2 ulps, against one).
STATIC_LIMIT = 16


def _static_reference(x: np.ndarray, *, exponent: float) -> np.ndarray:
    if exponent == 0.5:
        return np.sqrt(x)
    if exponent == -0.5 and x.dtype.kind == "c":
        return 1 / np.sqrt(x)
    return np.power(x, x.dtype.type(exponent))


def _static_partials(y: Any, x: Any, *, exponent: float) -> tuple:
    if exponent in (0, 1):
        return (1 if exponent else None,)
    if exponent == 0.5:
        return (lambda: 0.5 / (y + 0.0),)  # as that of sqrt
    return (lambda: exponent * power_to(x, exponent - 1) if exponent != -0.5 else -0.5 * y * (y * y),)


def _static_scalar(k, x, *, exponent):
    if exponent == 0.5:
        return k.sqrt(x)
    if exponent == -0.5:
        size = abs(x)
        return k.select((x >= 0.0) | (size == np.inf), inverse_root(k, size), np.nan)  # of -inf, too
    # (1 / x)ⁿ rather than 1 / xⁿ, which would overflow where the result is still a number.
    factor = 1 / x if exponent < 0 else x
    product, n = None, abs(int(exponent))
    while n:
        if n & 1:
            product = factor if product is None else product * factor
        n >>= 1
        if n:
            factor = factor * factor
    return k.constant(1, like=x) if product is None else product


_power_static = elementwise(
    "power_static",
    _static_reference,
    accepts="fic",
    partials=_static_partials,
    lower=_static_scalar,
    params=("exponent",),
)


def power_to(x: Any, exponent: float) -> Any:
    """x to a known power, a small integer or ±0.5: part of the graph."""
    if exponent == 1:
        return another(x)
    return record(_power_static, (x,), (exponent,))


def _power_partials(y: Tensor, x: Tensor, p: Tensor) -> tuple:
    def by_base():
        # x⁰ is constant, also at 0, where x⁻¹ is infinite.  A strong product, no choice: its derivative by p is x⁻¹.
        return mul0(p, record(_lower_power, (x, p - 1)))

    def by_exponent():
        # 0ᵖ is constant for p > 0: there y is 0.  At p = 0 it jumps, and 0 is taken, that of the root of 0, whose slope
        # is infinite as that of log x.  Up to p = 1 log x is seen by the derivative by x, which is infinite there.
        is_zero = x == 0
        jumps = is_zero & (p == 0)
        logarithm = where(jumps, sqrt(x), log(x))
        return mul0(y, where(is_zero & (real_part(p) > 1), 0, logarithm))

    return by_base, by_exponent


def _lower_power_partials(y: Tensor, x: Tensor, p: Tensor) -> tuple:
    # As of `power`, but for 0⁰: this one is the derivative of 0¹, whose own derivative by the exponent is infinite.
    is_flat = (x == 0) & (real_part(p) > 0)
    return lambda: mul0(p, record(_lower_power, (x, p - 1))), lambda: mul0(y, where(is_flat, 0, log(x)))


_power, _lower_power = [
    elementwise(name, np.power, accepts="fc", partials=partials, lower="pow")
    for name, partials in (("power", _power_partials), ("lower_power", _lower_power_partials))
]


def _integer_power_reference(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    if np.any(p < 0):
        raise _negative_power(f"asked at {caller()}")
    return np.power(x, p)


def _negative_power(where: str) -> ValueError:
    return ValueError(
        f"power: integers to negative powers are no integers\n  {where}\n"
        "  make the base float: ad.astype(x, ad.float64)"
    )


#: NumPy is called: a negative exponent that is known only at run time is an error.
_integer_power = elementwise("integer_power", _integer_power_reference, accepts="i", lower=Call())


#: The parameters of `power_static` for the exponents that are static.  2.0 is found as 2.
_STATIC: dict[float, tuple[float]] = {n: (n,) for n in (0.5, -0.5, *range(-STATIC_LIMIT, STATIC_LIMIT + 1))}


def _natively(args: tuple, y: Tensor, keywords: dict) -> RecordedProgram | None:
    """The program of a base and this very exponent, where that is a number; else of two tensors (see `OneNode`)."""
    x1, x2 = args
    if not (isinstance(x1, Tensor) and is_simple(type(x1), type(x2))):
        return _of_tensors(args, y, keywords)
    node = y.node
    if node.kind.op is not _power_static or node.inputs != (x1.node,):
        return None
    return RecordedProgram(1, ((node.kind, None, (0,)),))


_of_tensors = OneNode(_power)


def _refuse_negative(exponent: Any) -> None:
    """Raise ValueError for integer exponents that are known and negative, as NumPy does."""
    known = exponent.node.value
    if known is not None and np.any(np.less(known, 0)):
        raise _negative_power(f"called at {caller()}")


@public(records=_power, natively=_natively)
def power(x1, x2):
    """x1 ** x2.   T[...], T[...]  →  T[...]

    An exponent that is a Python number, and ±0.5 or an integer up to 16, is part of the graph: x ** 2 is a
    product, x ** 0.5 a square root (so (-inf) ** 0.5 is nan, as in NumPy) and x ** -0.5 one over that of |x|, but nan
    of negative numbers.  Any other is a run-time argument.

    By the base, the derivative of x ** 0 is 0 everywhere; by the exponent, that of 0 ** p is 0 for p >= 0,
    and nan for negative bases.  Raises ValueError for integers to negative powers.

    >>> ad.power([2.0, 9.0], [3.0, 0.5])
    f64[2] [8. 3.]
    >>> ad.grad(lambda x: x**0)(ad.tensor(0.0))
    f64[] 0.0
    """
    static = _STATIC.get(x2) if type(x2) in (int, float) else None
    base, exponent = common("power", (("x1", x1), ("x2", x2)), "fibc")
    if base.dtype == np.bool_:
        base, exponent = cast_to(base, I64), cast_to(exponent, I64)
    if base.dtype.kind in "fc":
        return power_to(base, *static) if static else record(_power, (base, exponent))
    _refuse_negative(exponent)
    return power_to(base, *static) if static else record(_integer_power, (base, exponent))


power.takes_watched = False  # which operation it is depends on the exponent


@public(1, _power_static, takes="fic")
def square(x):
    """x * x.   T[...]  →  T[...]

    >>> ad.grad(ad.square)(ad.tensor(3.0))
    f64[] 6.0
    """
    return power_to(x, 2)
