"""Parts of floats, and functions that depend on their sign, remainder or nan.

    copysign signbit nextafter     sign and neighbours        frexp ldexp modf     parts of a number
    fmod divmod float_power fabs   C's arithmetic             fmax fmin            extremes that ignore nan
    angle isposinf isneginf isreal iscomplex                  angles of complex numbers, and tests
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..custom.function import Function
from ..errors import DTypeError, located
from ..tensor import Tensor
from .arithmetic import abs_, floor_divide, imaginary_part, mod, real_part, sign
from .conditions import isinf, isnan, maximum, minimum, where
from .conversion import as_tensor, cast_to
from .declare import binary, composed, unary
from .elementwise import arctan2, rint, trunc
from .power import power
from .primitive import BOOL, C128, F64, I64, zero_of, zeros_of
from .statistics import floating
from .template import public

copysign: Function = binary("copysign", partials=lambda y, a, b: (lambda: sign(a) * sign(y), None),
    doc="""|x1| with the sign of x2, also that of -0.0 and nan.   f[...], f[...]  →  f[...]

    The derivative by x1 is 0 at 0, as that of `abs`; none flows to x2.""",
    example=">>> ad.copysign([1.0, -2.0], -0.0)\nf64[2] [-1. -2.]")
signbit = unary("signbit", result="bool",
    lower=lambda k, x: k.copysign(1.0, x) < 0.0,
    doc="True for elements with the sign bit: numbers below 0, and -0.0.   f[...]  →  bool[...]",
    example=">>> ad.signbit([0.0, -0.0])\nbool[2] [False  True]")


def _nextafter(k, x, y):
    """The next float after x towards y.  Away from 0 it has the bits of x, read as an integer, plus 1."""
    bits = k.bits(x)
    moved = k.from_bits(k.select((y > x) == (x > 0.0), bits + 1, bits - 1))
    moved = k.select(x == 0.0, k.copysign(k.from_bits(k.constant(1, like=bits)), y), moved)
    return k.select(k.isnan(x) | k.isnan(y), x + y, k.select(x == y, y, moved))


nextafter = binary("nextafter", partials=lambda y, a, b: (1, None), lower=_nextafter,
    doc="The next float after x1 in the direction of x2.   f[...], f[...]  →  f[...]     the gradient is x1's",
    example=">>> ad.nextafter(1.0, 2.0) - 1.0\nf64[] 2.220446049250313e-16")


#: The layout of a float: the number of bits of its fraction, the bias of its exponent, the largest biased exponent (all
#: bits set); and an exponent of two by which every subnormal number becomes a normal one.
_LAYOUT = {"f64": (52, 1023, 0x7FF, 54), "f32": (23, 127, 0xFF, 25)}


def _scaled(k: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """(bits, power, biased exponent, True for a special x: 0, infinite or nan).

    A subnormal x is multiplied by 2**power first; for any other x power is 0.
    """
    fraction, _, most, power = _LAYOUT[k.dtype(x)]
    is_small = abs(x) < float(np.finfo(np.float64 if fraction == 52 else np.float32).tiny)
    bits = k.bits(k.select(is_small, x * 2.0**power, x))
    biased = k.bit_and(k.shift_right(bits, fraction), most)
    return bits, k.select(is_small, power, k.constant(0, like=bits)), biased, (x == 0.0) | (biased == most)


def _mantissa(k, x):
    fraction, bias, most, _ = _LAYOUT[k.dtype(x)]
    bits, _, _, is_special = _scaled(k, x)
    others = k.bit_not(k.constant(most << fraction, like=bits))
    return k.select(is_special, x, k.from_bits(k.bit_or(k.bit_and(bits, others), (bias - 1) << fraction)))


def _exponent(k, x):
    _, added, biased, is_special = _scaled(k, x)
    return k.cast(k.select(is_special, 0, biased - (_LAYOUT[k.dtype(x)][1] - 1) - added), "i32")


_exponent_of = unary("frexp_exponent", lambda x: np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int32),
    result="i32", lower=_exponent,
    doc="The exponent that `frexp` gives.   f[...]  →  i32[...]",
)
_mantissa_of = unary("frexp_mantissa", lambda x: np.frexp(x)[0],
    slope=lambda y, x: _ldexp(1.0, cast_to(-_exponent_of(x), x.dtype)), lower=_mantissa,
    doc="The mantissa that `frexp` gives.   f[...]  →  f[...]",
)


@public(1, takes="f")
def frexp(x) -> tuple[Tensor, Tensor]:
    """(mantissa, exponent) with x = mantissa · 2**exponent and 1/2 <= |mantissa| < 1.   f[...]  →  f[...], i32[...]

    Zero, infinities and nan are their own mantissas, with exponent 0.  No gradient flows through the exponent.

    >>> ad.frexp(6.0)
    (f64[] 0.75, i32[] 3)
    """
    return _mantissa_of(x), _exponent_of(x)


def _times_power(k, x, n):
    """x 2ⁿ for a whole n, by three factors that are normal floats.

    A step down before the last one leaves room for all digits: so a subnormal result is rounded once, and only a
    result that is next to zero loses digits before.
    """
    fraction, bias, _, _ = _LAYOUT[k.dtype(x)]
    least, most = float(1 - bias), float(bias)
    for _ in range(2):
        step = k.select(n < least, float(fraction + 2 - bias), k.minimum(n, most))
        x, n = x * _power_of_two(k, step), n - step
    return x * _power_of_two(k, k.maximum(k.minimum(n, most), least))


def _power_of_two(k, n):
    """2ⁿ for a whole n, where 2ⁿ is a normal float."""
    fraction, bias, _, _ = _LAYOUT[k.dtype(n)]
    whole = k.cast(n, "i64" if fraction == 52 else "i32")
    return k.from_bits(k.shift_left(whole + bias, fraction))


_ldexp: Function = binary("ldexp", lambda x, n: np.ldexp(x, np.clip(n, -(2**30), 2**30).astype(np.int32)),
    partials=lambda y, x, n: (lambda: _ldexp(1.0, n), None), lower=_times_power,
    doc="x1 · 2**x2, of floats that are whole.   f[...], f[...]  →  f[...]",
)


@public(2)
def ldexp(x1, x2):
    """x1 · 2**x2, rounded once.   f[...], i[...]  →  f[...]

    Raises DTypeError for an exponent that is no integer.

    >>> ad.ldexp(0.75, [3, -1])
    f64[2] [6.    0.375]
    """
    x1, x2 = floating(x1, "ldexp"), as_tensor(x2, "ldexp", "x2")
    if x2.dtype.kind not in "ib" or x1.dtype.kind != "f":
        raise DTypeError(located(
            f"ldexp: takes floats and integer exponents, got {x1.aval} and {x2.aval}",
            "x1 * 2.0 ** x2 is for other exponents",
        ))
    return _ldexp(x1, cast_to(x2, x1.dtype))


@public(1, takes="f")
def modf(x) -> tuple[Tensor, Tensor]:
    """The fractional and the integer part of x, both with its sign.   f[...]  →  f[...], f[...]

    No gradient flows through the integer part.

    >>> ad.modf(-2.5)
    (f64[] -0.5, f64[] -2.0)
    """
    whole = trunc(x)
    # A difference of equals is 0.0; the negative of one, for a negative x, is -0.0.
    below = -(-x - -whole)
    fraction = where(isinf(x), copysign(zero_of(x.dtype), x), where(signbit(x), below, x - whole))
    return fraction, whole


fmod: Function = binary("fmod", accepts="fi", partials=lambda y, a, b: (1, lambda: rint((y - a) / b)),
    on_bool=lambda a, b: fmod(cast_to(a, I64), cast_to(b, I64)),
    doc="""x1 - trunc(x1 / x2) * x2, with the sign of x1, exactly; `mod` has that of x2.   T[...], T[...]  →  T[...]

    Integers by 0 give 0, floats by 0 give nan.""",
    example=">>> ad.fmod(-5.0, 3.0), ad.mod(-5.0, 3.0)\n(f64[] -2.0, f64[] 1.0)")


@public()
def divmod(x1, x2) -> tuple[Tensor, Tensor]:
    """(x1 // x2, x1 % x2), as in Python.   T[...], T[...]  →  T[...], T[...]     no gradient through the quotient

    >>> ad.divmod(-7, 3)
    (i64[] -3, i64[] 2)
    """
    return floor_divide(x1, x2), mod(x1, x2)


@public(2, takes="T", operands=2)
def float_power(x1, x2):
    """x1 to the power x2 in float64 or complex128, so 2 to the -1 is 0.5.   T[...], T[...]  →  f64[...]

    >>> ad.float_power(2, -1)
    f64[] 0.5
    """
    wide = C128 if "c" in (x1.dtype.kind, x2.dtype.kind) else F64
    return power(cast_to(x1, wide), cast_to(x2, wide))


fabs = composed("fabs", lambda x: abs_(x),
    "|x| as a float, of integers too.   f[...]  →  f[...]     the derivative at 0 is 0",
    ">>> ad.fabs(-2)\nf64[] 2.0", takes="f")

#: Another name of `trunc`, as in NumPy.
fix = trunc


def _without_nan(name: str, word: str, extreme: Function, shown: str) -> Any:
    """Declare fmax or fmin; `shown`: the output of its example."""
    doc = f"""The {word} of two elements; where one is nan, the other.   T[...], T[...]  →  T[...]

    Where they are equal each gets half of the gradient, and beside nan the number gets all of it.

    >>> ad.{name}([1.0, ad.nan], 0.5)
    f64[2] {shown}
    """

    def body(x1, x2):
        found = extreme(x1, x2)
        return found if x1.dtype.kind != "f" else where(isnan(x1), x2, where(isnan(x2), x1, found))

    return public(2, name=name, doc=doc, takes="fib", operands=2)(body)


fmax = _without_nan("fmax", "larger", maximum, "[1.  0.5]")
fmin = _without_nan("fmin", "smaller", minimum, "[0.5 0.5]")


@public(1, takes="fc")
def angle(z, deg=False):
    """The angle of complex numbers in (-π, π], or with `deg` in degrees; π of negative real ones.   T[...]  →  f[...]

    The gradient at 0 is nan, as for `arctan2`; real numbers get none.

    >>> ad.angle([1j, -1.0], deg=True)
    f64[2] [ 90. 180.]
    """
    if z.dtype.kind == "c":
        found = arctan2(imaginary_part(z), real_part(z))
    else:
        found = where(isnan(z), z, where(signbit(z), math.pi, zero_of(z.dtype)))
    return found * (180 / math.pi) if deg else found


def _infinite(name: str, sign: str, shown: str) -> Any:
    """Declare the test for one infinity; `shown`: the output of its example."""

    def body(x):
        return isinf(x) & (signbit(x) if sign == "-" else ~signbit(x))

    doc = f"""True for elements that are {sign}inf.   f[...]  →  bool[...]

    >>> ad.{name}([ad.inf, -ad.inf])
    bool[2] {shown}
    """
    return public(name=name, doc=doc, takes="f")(body)


isposinf = _infinite("isposinf", "+", "[ True False]")
isneginf = _infinite("isneginf", "-", "[False  True]")


@public(1, takes="T")
def iscomplex(x):
    """True for elements whose imaginary part is not 0.   T[...]  →  bool[...]

    >>> ad.iscomplex([1j, 2.0])
    bool[2] [ True False]
    """
    return imaginary_part(x) != 0.0 if x.dtype.kind == "c" else zeros_of(x.aval.with_dtype(BOOL))


isreal = composed("isreal", lambda x: ~iscomplex(x),
    "True for elements without an imaginary part, or with one of 0.   T[...]  →  bool[...]",
    ">>> ad.isreal([1j, 2.0])\nbool[2] [False  True]")
