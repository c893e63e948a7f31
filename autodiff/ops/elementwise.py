"""The functions of one and two real numbers: exponentials, logarithms, angles, roundings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.lowering import Map

from ..custom.function import Function, function
from ..tape import another
from .arithmetic import divide, multiply
from .conversion import as_tensor, cast_to
from .declare import binary, unary
from .slopes import arc_slope, arccosh_slope, arcsinh_slope, arctanh_slope, turn

__all__ = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "expm1",
    "floor",
    "log",
    "log1p",
    "log2",
    "log10",
    "rint",
    "round_",
    "sigmoid",
    "sin",
    "sinh",
    "softplus",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]

# ---------------------------------------------------------------- exponentials and logarithms

exp = unary(
    "exp",
    np.exp,
    accepts="fc",
    partials=lambda y, x: (y,),
    lower=Map(lambda k, x: k.exp(x)),
    doc="e to the power x.   f[...]  →  f[...]",
)
expm1 = unary(
    "expm1",
    np.expm1,
    partials=lambda y, x: (y + 1,),
    lower=Map(lambda k, x: k.expm1(x)),
    doc="exp(x) - 1, accurate near 0.   f[...]  →  f[...]",
)
log = unary(
    "log",
    np.log,
    accepts="fc",
    partials=lambda y, x: (1 / x,),
    lower=Map(lambda k, x: k.log(x)),
    doc="The natural logarithm.   f[...]  →  f[...]     -inf at 0, nan below",
)
log1p = unary(
    "log1p",
    np.log1p,
    partials=lambda y, x: (1 / (1 + x),),
    lower=Map(lambda k, x: k.log1p(x)),
    doc="log(1 + x), accurate near 0.   f[...]  →  f[...]     -inf at -1, nan below",
)
log2 = unary(
    "log2",
    np.log2,
    partials=lambda y, x: (1 / math.log(2) / x,),
    lower=Map(lambda k, x: k.log2(x)),
    doc="The logarithm to base 2.   f[...]  →  f[...]",
)
log10 = unary(
    "log10",
    np.log10,
    partials=lambda y, x: (math.log10(math.e) / x,),  # 1 / log(10) is rounded twice
    lower=Map(lambda k, x: k.log10(x)),
    doc="The logarithm to base 10.   f[...]  →  f[...]",
)
sqrt = unary(
    "sqrt",
    np.sqrt,
    accepts="fc",
    partials=lambda y, x: (0.5 / y,),
    lower=Map(lambda k, x: k.sqrt(x)),
    doc="The square root.   f[...]  →  f[...]     nan below 0; the derivative at 0 is inf",
)

# ---------------------------------------------------------------- angles

sin = unary(
    "sin",
    np.sin,
    accepts="fc",
    partials=lambda y, x: (cos(x),),
    lower=Map(lambda k, x: k.sin(x)),
    doc="The sine of x in radians.   f[...]  →  f[...]",
)
cos: Function = unary(
    "cos",
    np.cos,
    accepts="fc",
    partials=lambda y, x: (-sin(x),),
    lower=Map(lambda k, x: k.cos(x)),
    doc="The cosine of x in radians.   f[...]  →  f[...]",
)
tan = unary(
    "tan",
    np.tan,
    accepts="fc",
    partials=lambda y, x: (1 + y * y,),
    lower=Map(lambda k, x: k.tan(x)),
    doc="The tangent of x in radians.   f[...]  →  f[...]",
)
arcsin = unary(
    "arcsin",
    np.arcsin,
    partials=lambda y, x: (arc_slope(x),),
    lower=Map(lambda k, x: k.asin(x)),
    doc="The angle in [-π/2, π/2] whose sine is x.   f[...]  →  f[...]     nan outside [-1, 1]",
)
arccos = unary(
    "arccos",
    np.arccos,
    partials=lambda y, x: (-arc_slope(x),),
    lower=Map(lambda k, x: k.acos(x)),
    doc="The angle in [0, π] whose cosine is x.   f[...]  →  f[...]     nan outside [-1, 1]",
)
arctan = unary(
    "arctan",
    np.arctan,
    partials=lambda y, x: (1 / (1 + x * x),),
    lower=Map(lambda k, x: k.atan(x)),
    doc="The angle in [-π/2, π/2] whose tangent is x.   f[...]  →  f[...]",
)
arctan2 = binary(
    "arctan2",
    np.arctan2,
    partials=lambda y, a, b: (lambda: turn(b, a), lambda: -turn(a, b)),
    lower=Map(lambda k, a, b: k.atan2(a, b)),
    doc="""The angle of the point (x2, x1), in [-π, π].   f[...], f[...]  →  f[...]

    The derivative at (0, 0) is nan: the angle jumps there.
    """,
)


# ---------------------------------------------------------------- hyperbolic functions

sinh = unary(
    "sinh",
    np.sinh,
    accepts="fc",
    partials=lambda y, x: (cosh(x),),
    lower=Map(lambda k, x: k.sinh(x)),
    doc="The hyperbolic sine.   f[...]  →  f[...]",
)
cosh: Function = unary(
    "cosh",
    np.cosh,
    accepts="fc",
    partials=lambda y, x: (sinh(x),),
    lower=Map(lambda k, x: k.cosh(x)),
    doc="The hyperbolic cosine.   f[...]  →  f[...]",
)
tanh = unary(
    "tanh",
    np.tanh,
    accepts="fc",
    partials=lambda y, x: (1 - y * y,),
    lower=Map(lambda k, x: k.tanh(x)),
    doc="The hyperbolic tangent.   f[...]  →  f[...]",
)
arcsinh = unary(
    "arcsinh",
    np.arcsinh,
    partials=lambda y, x: (arcsinh_slope(x),),
    lower=Map(lambda k, x: k.asinh(x)),
    doc="The inverse hyperbolic sine.   f[...]  →  f[...]",
)
arccosh = unary(
    "arccosh",
    np.arccosh,
    partials=lambda y, x: (arccosh_slope(x),),
    lower=Map(lambda k, x: k.acosh(x)),
    doc="The inverse hyperbolic cosine, not negative.   f[...]  →  f[...]     nan below 1",
)
arctanh = unary(
    "arctanh",
    np.arctanh,
    partials=lambda y, x: (arctanh_slope(x),),
    lower=Map(lambda k, x: k.atanh(x)),
    doc="The inverse hyperbolic tangent.   f[...]  →  f[...]     nan outside [-1, 1]",
)

# ---------------------------------------------------------------- functions of statistics and learning


def _erf_reference(x: np.ndarray) -> np.ndarray:
    """The C library's erf, element by element: about 60 ns each, right to less than one ulp."""
    return np.fromiter(map(math.erf, x.ravel().tolist()), x.dtype, x.size).reshape(x.shape)


erf = unary(
    "erf",
    _erf_reference,
    partials=lambda y, x: (2 / math.sqrt(math.pi) * exp(-(x * x)),),
    lower=Map(lambda k, x: k.erf(x)),
    doc="The error function, 2/√π ∫₀ˣ exp(-t²) dt.   f[...]  →  f[...]",
)


def _sigmoid_reference(x: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, x.dtype.type(1)) / (1 + small)


def _sigmoid_scalar(k, x):
    one = k.constant(1, like=x)
    small = k.exp(k.neg(k.abs(x)))
    # 1 / (1 + small) is 1 less a share, small / (1 + small) is small less one of it: what the sum and the quotient
    # are rounded by counts as little as the share does.
    share = k.div(small, k.add(one, small))
    whole = k.select(k.lt(x, k.constant(0, like=x)), small, one)
    return k.sub(whole, k.mul(whole, share))


sigmoid: Function = unary(
    "sigmoid",
    _sigmoid_reference,
    # Of the rounded y: then 1 / (1 - y) of a cross-entropy behind it cancels it exactly.
    partials=lambda y, x: (y * (1 - y),),
    lower=Map(_sigmoid_scalar),
    doc="1 / (1 + exp(-x)), without overflow.   f[...]  →  f[...]",
)


def _softplus_reference(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, x.dtype.type(0)) + np.log1p(np.exp(-np.abs(x)))


softplus = unary(
    "softplus",
    _softplus_reference,
    partials=lambda y, x: (sigmoid(x),),
    lower=Map(lambda k, x: k.add(k.maximum(x, k.constant(0, like=x)), k.log1p(k.exp(k.neg(k.abs(x)))))),
    doc="log(1 + exp(x)), without overflow.   f[...]  →  f[...]",
)

# ---------------------------------------------------------------- roundings


def _rounding(name: str, reference: Callable[..., Any], lower: Map, doc: str) -> Function:
    """A step function of floats; integers and bool are whole already and stay as they are."""
    return unary(name, reference, accepts="fib", partials=None, lower=lower, doc=doc)


floor = _rounding(
    "floor",
    np.floor,
    Map(lambda k, x: k.floor(x)),
    "The largest integer not above x, in x's dtype.   T[...]  →  T[...]     no gradient flows",
)
ceil = _rounding(
    "ceil",
    np.ceil,
    Map(lambda k, x: k.ceil(x)),
    "The smallest integer not below x, in x's dtype.   T[...]  →  T[...]     no gradient flows",
)
trunc = _rounding(
    "trunc",
    np.trunc,
    Map(lambda k, x: k.trunc(x)),
    "x without its fraction, in its dtype.   T[...]  →  T[...]     no gradient flows",
)
rint = unary(
    "rint",
    np.rint,
    partials=None,
    lower=Map(lambda k, x: k.roundeven(x)),
    doc="The integer nearest to x, halves to even.   f[...]  →  f[...]     integers give float64; no gradient flows",
)


@function
def round_(x, decimals=0):
    """x rounded to a number of decimals, halves to even.   T[...]  →  T[...]     no gradient flows

    As in NumPy, decimals are reached by scaling, so the last digit of the result may differ from what exact
    decimal rounding gives.  Integers are rounded only by negative `decimals`.
    """
    x = as_tensor(x, "round", "x")
    if decimals >= 0 and x.dtype.kind in "ib":
        return another(x)
    if decimals == 0:
        return rint(x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return divide(rint(multiply(x, scale)), scale)
    return cast_to(multiply(rint(divide(x, scale)), scale), x.dtype)
