"""Elementwise functions: exponentials, logarithms, circular and hyperbolic ones, activations, rounding.

A derivative is a separate operation where the derivative of a product or quotient would be inf - inf or inf * 0 at an
end of the domain (the second derivative of arcsin at 1), or where its intermediate results would round or overflow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..custom.function import Function
from ..tensor import Tensor
from .conditions import isinf, where
from .conversion import cast_to
from .declare import binary, integer, unary
from .primitive import OwnPrimitive, elementwise, named, zero_of
from .template import public


def inverse_root(k: Any, a: Any, low: Any = None, root: Any = None) -> Any:
    """1 / sqrt(a), nearly correctly rounded: one step of Newton's method removes the errors of root and quotient.

    low     the rounding error of a, if it is known: the exact argument is a + low
    root    the square root, if the caller has a better one than sqrt(a), which may overflow
    """
    first = 1.0 / (k.sqrt(a) if root is None else root)
    product = a * first
    rest = k.fma(a, first, -product)
    rest = rest if low is None else k.fma(low, first, rest)
    lack = k.fma(-first, rest, k.fma(-product, first, 1.0))
    better = k.fma(first * 0.5, lack, first)
    return k.select(abs(lack) < 1.0, better, first)  # for a = 0 and inf the step gives nan


#: Above this size x² and x² ± 1 are the same float, in f32 and f64; the squares of still larger numbers overflow.
_LARGE = 2.0**28


def _root_near(k, size, square):
    """The square root of `square`, a number close to size²; the size itself where it is large."""
    return k.select(size > _LARGE, size, k.sqrt(square))


def _arcsinh_slope(k, x):
    square = k.fma(x, x, 1.0)
    return inverse_root(k, square, k.fma(x, x, 1.0 - square), _root_near(k, abs(x), square))


def _arccosh_slope(k, x):
    square = k.fma(x, x, -1.0)
    return k.select(x < 1.0, math.nan, inverse_root(k, square, root=_root_near(k, x, square)))


#: 1 / sqrt(1 - x²), the derivative of arcsin.  The fma rounds 1 - x² once, so it has all digits near 1 and -1.
arc_slope = elementwise("arc_slope", lambda x: 1 / np.sqrt((1 - x) * (1 + x)), slope=lambda y, x: x * y * y * y,
    lower=lambda k, x: inverse_root(k, k.fma(-x, x, 1.0)))
#: 1 / sqrt(x² + 1), the derivative of arcsinh.
arcsinh_slope = elementwise("arcsinh_slope", lambda x: 1 / np.hypot(x, x.dtype.type(1)),
    slope=lambda y, x: -(x * y) * y * y, lower=_arcsinh_slope)
#: 1 / sqrt(x² - 1), the derivative of arccosh.
arccosh_slope = elementwise("arccosh_slope", lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)),
    slope=lambda y, x: -(x * y) * y * y, lower=_arccosh_slope)
#: 1 / (1 - x²), the derivative of arctanh.
arctanh_slope = elementwise("arctanh_slope", lambda x: 1 / ((1 - x) * (1 + x)), slope=lambda y, x: 2 * x * y * y,
    lower=lambda k, x: 1.0 / k.fma(-x, x, 1.0))


#: Exponents of 2 by dtype: (limit, scale) for a large number, then for a small one.  Two numbers of which the larger is
#: beyond a limit are multiplied by the scale; then the sum of their squares neither overflows nor loses digits.
_SCALING = {"f64": ((500, -600), (-450, 600)), "f32": ((60, -70), (-45, 90))}


def _turn(k, a, b):
    (most, down), (least, up) = [[2.0**n for n in pair] for pair in _SCALING[k.dtype(a)]]
    size = k.maximum(abs(a), abs(b))
    scale = k.select(size > most, down, k.select(size < least, up, k.constant(1.0, like=a)))
    a, b = a * scale, b * scale
    return a / k.fma(a, a, b * b) * scale


def _turn_reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    length = np.hypot(a, b)
    return a / length / length


#: a / (a² + b²) without overflow, the derivative of arctan2.
turn: OwnPrimitive = elementwise("turn", _turn_reference,
    partials=lambda y, a, b: (lambda: turn(b, a) ** 2 - y * y, lambda: -2 * (y * turn(b, a))), lower=_turn)


# ---------------------------------------------------------------- slopes of functions with horizontal asymptotes
#
# These slopes take x and the function's value y, which is known whenever the slope is needed.  They count as functions
# of x alone: the partial by x is the whole derivative, the partial by y is zero.


def _tanh_slope(k, x, y):
    # 1 - |y| is exp(-2|x|) (1 + |y|).
    size, above = abs(x), 1.0 + abs(y)
    return k.exp(-(size + size)) * (above * above)


def _sigmoid_slope(k, x, y):
    # 1 - y is exp(-x) y.
    return y * k.select(x < 0.0, 1.0 - y, k.exp(-abs(x)) * y)


#: 1 / cosh(x)² for y = tanh(x), with all its digits.
tanh_slope = elementwise("tanh_slope", program=_tanh_slope, partials=lambda s, x, y: (lambda: -2 * (y * s), None))
#: y (1 - y) for y = sigmoid(x), with all its digits.
sigmoid_slope = elementwise(
    "sigmoid_slope",
    program=_sigmoid_slope,
    # 1 - 2y is -tanh(x / 2), which has its digits near 0 too.
    partials=lambda s, x, y: (lambda: -(named("tanh")(0.5 * x) * s), None),
)


exp = unary("exp", accepts="fc", slope=lambda y, x: y,
    doc="e to the power x.   f[...]  →  f[...]", example=">>> ad.exp([0.0, -ad.inf])\nf64[2] [1. 0.]")
expm1 = unary("expm1", slope=lambda y, x: exp(x),
    doc="exp(x) - 1, accurate near 0.   f[...]  →  f[...]",
    example=">>> ad.expm1(1e-20)\nf64[] 1e-20\n>>> ad.exp(1e-20) - 1\nf64[] 0.0")
log = unary("log", accepts="fc", slope=lambda y, x: 1 / x,
    doc="The natural logarithm.   f[...]  →  f[...]     -inf at 0, nan below",
    example=">>> ad.log([1.0, 0.0, -1.0])\nf64[3] [  0. -inf  nan]\n>>> ad.log(-1 + 0j)\nc128[] 3.141592653589793j")
log1p = unary("log1p", slope=lambda y, x: 1 / (1 + x),
    doc="log(1 + x), accurate near 0.   f[...]  →  f[...]     -inf at -1, nan below",
    example=">>> ad.log1p(1e-20)\nf64[] 1e-20\n>>> ad.log(1 + 1e-20)\nf64[] 0.0")
log2 = unary("log2", slope=lambda y, x: 1 / math.log(2) / x,
    doc="The logarithm to base 2.   f[...]  →  f[...]", example=">>> ad.log2([8.0, 0.0])\nf64[2] [  3. -inf]")
log10 = unary(
    "log10",
    slope=lambda y, x: math.log10(math.e) / x,  # 1 / log(10) is rounded twice
    doc="The logarithm to base 10.   f[...]  →  f[...]",
    example=">>> ad.log10([1000.0, 0.0])\nf64[2] [  3. -inf]",
)
sqrt = unary(
    "sqrt",
    accepts="fc",
    slope=lambda y, x: 0.5 / (y + 0.0),  # sqrt(-0.0) is -0.0; adding 0.0 makes the slope there inf, not -inf
    doc="The square root.   f[...]  →  f[...]     nan below 0; the derivative at 0 is inf",
    example=">>> ad.sqrt([4.0, -1.0])\nf64[2] [ 2. nan]\n>>> ad.grad(ad.sqrt)(ad.tensor(0.0))\nf64[] inf",
)


def _erf_reference(x: np.ndarray) -> np.ndarray:
    """The C library's erf, element by element: about 60 ns each, right to less than one ulp."""
    return np.fromiter(map(math.erf, x.ravel().tolist()), x.dtype, x.size).reshape(x.shape)


erf = unary("erf", _erf_reference, slope=lambda y, x: 2 / math.sqrt(math.pi) * exp(-(x * x)),
    doc="The error function, 2/√π ∫₀ˣ exp(-t²) dt.   f[...]  →  f[...]",
    example=">>> ad.erf([0.0, ad.inf])\nf64[2] [0. 1.]")


def _sigmoid_scalar(k, x):
    small = k.exp(-abs(x))
    # Both branches are whole - whole * share, with share = small / (1 + small).  The rounding errors of the share are
    # scaled down by the share itself, so they hardly count.
    whole = k.select(x < 0.0, small, 1.0)
    return whole - whole * (small / (1.0 + small))


sigmoid: Function = unary("sigmoid", program=_sigmoid_scalar, slope=lambda y, x: sigmoid_slope(x, y),
    doc="1 / (1 + exp(-x)), without overflow.   f[...]  →  f[...]",
    example=">>> ad.sigmoid([0.0, 1000.0])\nf64[2] [0.5 1. ]")


softplus = unary("softplus", slope=lambda y, x: sigmoid(x),
    program=lambda k, x: k.maximum(x, 0.0) + k.log1p(k.exp(-abs(x))),
    doc="log(1 + exp(x)), without overflow.   f[...]  →  f[...]",
    example=">>> ad.softplus([0.0, 50.0])\nf64[2] [ 0.69314718 50.        ]")

sin = unary("sin", accepts="fc", slope=lambda y, x: cos(x),
    doc="The sine of x in radians.   f[...]  →  f[...]",
    example=">>> ad.grad(ad.grad(ad.sin))(ad.tensor(ad.pi / 2))\nf64[] -1.0")
cos: Function = unary("cos", accepts="fc", slope=lambda y, x: -sin(x),
    doc="The cosine of x in radians.   f[...]  →  f[...]",
    example=">>> ad.grad(ad.cos)(ad.tensor(ad.pi / 2))\nf64[] -1.0")
tan = unary("tan", accepts="fc", slope=lambda y, x: 1 + y * y,
    doc="The tangent of x in radians.   f[...]  →  f[...]", example=">>> ad.grad(ad.tan)(ad.tensor(0.0))\nf64[] 1.0")
arcsin = unary("arcsin", slope=lambda y, x: arc_slope(x), lower="asin",
    doc="The angle in [-π/2, π/2] whose sine is x.   f[...]  →  f[...]     nan outside [-1, 1]",
    example=">>> ad.arcsin([1.0, 2.0])\nf64[2] [1.57079633        nan]")
arccos = unary("arccos", slope=lambda y, x: -arc_slope(x), lower="acos",
    doc="The angle in [0, π] whose cosine is x.   f[...]  →  f[...]     nan outside [-1, 1]",
    example=">>> ad.arccos([1.0, -1.0, 2.0])\nf64[3] [0.         3.14159265        nan]")
arctan = unary("arctan", slope=lambda y, x: 1 / (1 + x * x), lower="atan",
    doc="The angle in [-π/2, π/2] whose tangent is x.   f[...]  →  f[...]",
    example=">>> ad.arctan([1.0, ad.inf])\nf64[2] [0.78539816 1.57079633]")
arctan2 = binary("arctan2", partials=lambda y, a, b: (lambda: turn(b, a), lambda: -turn(a, b)), lower="atan2",
    doc="""The angle of the point (x2, x1), in [-π, π].   f[...], f[...]  →  f[...]

    The derivative at (0, 0) is nan: the angle jumps there.""",
    example=">>> ad.arctan2([1.0, -1.0], [-1.0, -1.0])\nf64[2] [ 2.35619449 -2.35619449]")


sinh = unary("sinh", accepts="fc", slope=lambda y, x: cosh(x),
    doc="The hyperbolic sine.   f[...]  →  f[...]", example=">>> ad.grad(ad.sinh)(ad.tensor(0.0))\nf64[] 1.0")
cosh: Function = unary("cosh", accepts="fc", slope=lambda y, x: sinh(x),
    doc="The hyperbolic cosine.   f[...]  →  f[...]", example=">>> ad.cosh(0.0)\nf64[] 1.0")
tanh = unary("tanh", accepts="fc", slope=lambda y, x: tanh_slope(x, y) if x.dtype.kind == "f" else 1 - y * y,
    doc="The hyperbolic tangent.   f[...]  →  f[...]", example=">>> ad.tanh([0.0, 1000.0])\nf64[2] [0. 1.]")
arcsinh = unary("arcsinh", slope=lambda y, x: arcsinh_slope(x), lower="asinh",
    doc="The inverse hyperbolic sine.   f[...]  →  f[...]",
    example=">>> ad.grad(ad.arcsinh)(ad.tensor(0.0))\nf64[] 1.0")
arccosh = unary("arccosh", slope=lambda y, x: arccosh_slope(x), lower="acosh",
    doc="The inverse hyperbolic cosine, not negative.   f[...]  →  f[...]     nan below 1",
    example=">>> ad.arccosh([1.0, 0.5])\nf64[2] [ 0. nan]")
arctanh = unary("arctanh", slope=lambda y, x: arctanh_slope(x), lower="atanh",
    doc="The inverse hyperbolic tangent.   f[...]  →  f[...]     nan outside [-1, 1]",
    example=">>> ad.arctanh([0.5, 1.0, 2.0])\nf64[3] [0.54930614        inf        nan]")


def _distance(a: Tensor, b: Tensor) -> Tensor:
    """a - b, but 0 for two equal infinities, so that both get half of the gradient."""
    return where((a == b) & isinf(a), zero_of(a.dtype), a - b)


logaddexp = binary("logaddexp",
    partials=lambda y, a, b: (lambda: sigmoid(_distance(a, b)), lambda: sigmoid(_distance(b, a))),
    # inf - inf is nan, so equal numbers are handled separately, as in NumPy.
    lower=lambda k, a, b: k.select(a == b, a + math.log(2.0), k.maximum(a, b) + k.log1p(k.exp(-abs(a - b)))),
    traits=("commutative",),
    doc="""log(exp(x1) + exp(x2)) without overflow.   f[...], f[...]  →  f[...]     integers and bool give float64

    An argument of -inf adds nothing; equal ones share the gradient evenly, infinite ones too.""",
    example=">>> ad.logaddexp([1000.0, 0.0], [1000.0, -ad.inf])\nf64[2] [1000.69314718    0.        ]")


def _logaddexp2(k, x, y):
    is_less = x < y
    large, small = k.select(is_less, y, x), k.select(is_less, x, y)
    more = k.log1p(k.exp2(small - large)) * (1 / math.log(2))
    return k.select(k.isnan(x), x, large + k.select(x == y, 1.0, more))


def _share2(k, x):
    small = k.exp2(-abs(x))
    return k.select(x < 0.0, small, 1.0) / (1.0 + small)


#: 1 / (1 + 2**-x), the share of 2**x in 2**x + 1.
share2: OwnPrimitive = elementwise("share2", program=_share2, slope=lambda y, x: y * share2(-x) * math.log(2))


logaddexp2 = binary("logaddexp2",
    partials=lambda z, x, y: (lambda: share2(_distance(x, y)), lambda: share2(_distance(y, x))),
    lower=_logaddexp2, traits=("commutative",),
    doc="log2(2**x1 + 2**x2) without overflow.   f[...], f[...]  →  f[...]     equal ones share the gradient evenly",
    example=">>> ad.logaddexp2(1000.0, 1000.0)\nf64[] 1001.0")


floor = unary("floor", accepts="fib",
    doc="The largest integer not above x, in x's dtype.   T[...]  →  T[...]     no gradient flows",
    example=">>> ad.floor([1.7, -1.2])\nf64[2] [ 1. -2.]")
ceil = unary("ceil", accepts="fib",
    doc="The smallest integer not below x, in x's dtype.   T[...]  →  T[...]     no gradient flows",
    example=">>> ad.ceil([1.2, -1.2])\nf64[2] [ 2. -1.]")
trunc = unary("trunc", accepts="fib",
    doc="x without its fraction, in its dtype.   T[...]  →  T[...]     no gradient flows",
    example=">>> ad.trunc([1.7, -1.7])\nf64[2] [ 1. -1.]")
rint = unary("rint", lower="roundeven",
    doc="The integer nearest to x, halves to even.   f[...]  →  f[...]     integers give float64; no gradient flows",
    example=">>> ad.rint([0.5, 1.5, 2.5])\nf64[3] [0. 2. 2.]")


@public(1, takes="fib")
def round_(x, decimals=0):
    """x rounded to a number of decimals, halves to even.   T[...]  →  T[...]     no gradient flows

    As in NumPy, decimals are reached by scaling, so the last digit of the result may differ from what exact
    decimal rounding gives.  Integers change only for negative `decimals`.
    Raises TypeError if `decimals` is not an integer, DTypeError for complex x: round its parts.

    >>> ad.round([0.5, 1.5, 2.345])
    f64[3] [0. 2. 2.]
    >>> ad.round(2.345, 1)
    f64[] 2.3
    >>> ad.round(1250, -2)
    i64[] 1200
    """
    decimals = integer(decimals, "round", "decimals")
    if decimals >= 0 and x.dtype.kind in "ib":
        return x
    if decimals == 0:
        return rint(x)
    scale = 10.0 ** abs(decimals) if abs(decimals) < 309 else math.inf
    if decimals > 0:
        return rint(x * scale) / scale
    return cast_to(rint(x / scale) * scale, x.dtype)
