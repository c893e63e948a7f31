"""Powers.  Exponents that are small integers or ±0.5 are part of the graph; other exponents are run-time arguments.

    x ** 2, x ** -1, x ** 0.5     power_static: products, a division, a square root
    x ** 2.7, x ** t, 2 ** t      power
    integers ** integers          integer_power: calls NumPy, and refuses negative exponents
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.lowering import Call

from ..errors import caller
from ..tape import as_new_result, record
from ..tensor import Tensor
from .arithmetic import mul0, real_part
from .conditions import where
from .conversion import cast_to
from .declare import in_common_dtype
from .elementwise import inverse_root, log, sqrt
from .primitive import I64, elementwise
from .template import public

#: Integer exponents up to this magnitude are static: beyond it, repeated products lose more digits (n / 2 ulps)
#: than the library function (one ulp).
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
        return (lambda: 0.5 / (y + 0.0),)  # as the derivative of sqrt
    return (lambda: exponent * power_to(x, exponent - 1) if exponent != -0.5 else -0.5 * y * (y * y),)


def _static_scalar(k, x, *, exponent):
    if exponent == 0.5:
        return k.sqrt(x)
    if exponent == -0.5:
        size = abs(x)
        return k.select((x >= 0.0) | (size == np.inf), inverse_root(k, size), np.nan)  # -inf, too, gives 0
    # (1 / x)ⁿ, not 1 / xⁿ: xⁿ may overflow although the result is still a number.
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
    """x to a static exponent (a small integer or ±0.5), which is part of the graph."""
    if exponent == 1:
        return as_new_result(x)
    return record(_power_static, (x,), (exponent,))


def _power_partials(y: Tensor, x: Tensor, p: Tensor) -> tuple:
    def by_base():
        # x⁰ is constant, also at 0, where x⁻¹ is infinite: `mul0` gives 0 at p = 0.  No `where`: d/dp must be x⁻¹.
        return mul0(p, record(_lower_power, (x, p - 1)))

    def by_exponent():
        # 0ᵖ is 0 for all p > 0, so its derivative is 0.  At p = 0 it jumps; sqrt(0) = 0 stands for log 0, since both
        # slopes are infinite.  Up to p = 1 log x stays, for its derivative by x, which is infinite at 0.
        is_zero = x == 0
        jumps = is_zero & (p == 0)
        logarithm = where(jumps, sqrt(x), log(x))
        return mul0(y, where(is_zero & (real_part(p) > 1), 0, logarithm))

    return by_base, by_exponent


def _lower_power_partials(y: Tensor, x: Tensor, p: Tensor) -> tuple:
    # The partials of `power`, except at 0⁰, which is the derivative of x¹ at 0: that by the exponent is infinite.
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


#: Calls NumPy at run time, so that a negative exponent that is not known before can raise.
_integer_power = elementwise("integer_power", _integer_power_reference, accepts="i", lower=Call())


#: Parameters of `power_static` by static exponent.  The key 2 also finds 2.0.
_STATIC: dict[float, tuple[float]] = {n: (n,) for n in (0.5, -0.5, *range(-STATIC_LIMIT, STATIC_LIMIT + 1))}


def _refuse_negative(exponent: Any) -> None:
    """Raise ValueError, as NumPy does, if integer exponents have a value and one of them is negative."""
    known = exponent.node.value
    if known is not None and np.any(np.less(known, 0)):
        raise _negative_power(f"called at {caller()}")


@public(records=_power, takes_numbers=True)
def power(x1, x2):
    """x1 ** x2.   T[...], T[...]  →  T[...]

    An exponent that is a Python number, and ±0.5 or an integer from -16 to 16, is part of the graph: x ** 2 is a
    product, x ** 0.5 a square root (so (-inf) ** 0.5 is nan, as in NumPy), x ** -0.5 the inverse of a square root
    (nan for negative x, but 0 for -inf).  Any other exponent is a run-time argument.

    The derivative of x ** 0 by the base is 0 everywhere.  The derivative by the exponent is 0 for 0 ** p with p >= 0,
    and nan for negative bases.  Raises ValueError for integers to negative powers.

    >>> ad.power([2.0, 9.0], [3.0, 0.5])
    f64[2] [8. 3.]
    >>> ad.grad(lambda x: x**0)(ad.tensor(0.0))
    f64[] 0.0
    """
    static = _STATIC.get(x2) if type(x2) in (int, float) else None
    base, exponent = in_common_dtype("power", (("x1", x1), ("x2", x2)), "fibc")
    if base.dtype == np.bool_:
        base, exponent = cast_to(base, I64), cast_to(exponent, I64)
    if base.dtype.kind in "fc":
        return power_to(base, *static) if static else record(_power, (base, exponent))
    _refuse_negative(exponent)
    return power_to(base, *static) if static else record(_integer_power, (base, exponent))


power.takes_watched = False  # the exponent's value decides which operation is recorded


@public(1, _power_static, takes="fic")
def square(x):
    """x * x.   T[...]  →  T[...]

    >>> ad.grad(ad.square)(ad.tensor(3.0))
    f64[] 6.0
    """
    return power_to(x, 2)
