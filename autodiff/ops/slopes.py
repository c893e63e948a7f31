"""Derivatives that are operations of their own.

Where that of a product or quotient would be inf - inf or inf * 0 at an end, as the second derivative of arcsin at 1,
or where steps on the way would be rounded, or overflow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..custom.function import Function
from .declare import binary, unary
from .primitive import named

__all__ = [
    "arc_slope", "arccosh_slope", "arcsinh_slope", "arctanh_slope", "inverse_root", "sigmoid_slope",
    "tanh_slope", "turn",
]


def _one(k: Any, x: Any) -> Any:
    return k.constant(1.0, like=x)


def _one_less_square(k: Any, x: Any) -> Any:
    """1 - x², rounded once: with all its digits near 1 and -1."""
    return k.fma(k.neg(x), x, _one(k, x))


def inverse_root(k: Any, a: Any, low: Any = None, root: Any = None) -> Any:
    """1 / sqrt(a), rounded as if once: a step of Newton's makes good what the root and the quotient were rounded by.

    low     what a lacks, if that is known
    root    the square root, where it is not that of a: a may overflow
    """
    one = _one(k, a)
    first = k.div(one, k.sqrt(a) if root is None else root)
    product = k.mul(a, first)
    rest = k.fma(a, first, k.neg(product))
    rest = rest if low is None else k.fma(low, first, rest)
    lack = k.fma(k.neg(first), rest, k.fma(k.neg(product), first, one))
    better = k.fma(k.mul(first, k.constant(0.5, like=a)), lack, first)
    return k.select(k.lt(k.abs(lack), one), better, first)  # of 0 and inf the first


#: From here on x² and x² ± 1 are one float, of either type; squares of larger ones overflow sooner or later.
_LARGE = 2.0**28


def _leg(k: Any, size: Any, square: Any) -> Any:
    """The root of a number that is size², or nearly."""
    return k.select(k.gt(size, k.constant(_LARGE, like=size)), size, k.sqrt(square))


def _arcsinh_slope(k: Any, x: Any) -> Any:
    one = _one(k, x)
    square = k.fma(x, x, one)
    return inverse_root(k, square, k.fma(x, x, k.sub(one, square)), _leg(k, k.abs(x), square))


def _arccosh_slope(k: Any, x: Any) -> Any:
    square = k.fma(x, x, k.constant(-1.0, like=x))
    slope = inverse_root(k, square, root=_leg(k, x, square))
    return k.select(k.lt(x, _one(k, x)), k.constant(math.nan, like=x), slope)


arc_slope = unary("arc_slope", lambda x: 1 / np.sqrt((1 - x) * (1 + x)), partials=lambda y, x: (x * y * y * y,),
    lower=lambda k, x: inverse_root(k, _one_less_square(k, x)),
    doc="1 / sqrt(1 - x²), the derivative of arcsin.   f[...]  →  f[...]",
)
arcsinh_slope = unary("arcsinh_slope", lambda x: 1 / np.hypot(x, x.dtype.type(1)),
    partials=lambda y, x: (-(x * y) * y * y,), lower=_arcsinh_slope,
    doc="1 / sqrt(x² + 1), the derivative of arcsinh.   f[...]  →  f[...]",
)
arccosh_slope = unary("arccosh_slope", lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)),
    partials=lambda y, x: (-(x * y) * y * y,), lower=_arccosh_slope,
    doc="1 / sqrt(x² - 1), the derivative of arccosh.   f[...]  →  f[...]",
)
arctanh_slope = unary("arctanh_slope", lambda x: 1 / ((1 - x) * (1 + x)), partials=lambda y, x: (2 * x * y * y,),
    lower=lambda k, x: k.div(_one(k, x), _one_less_square(k, x)),
    doc="1 / (1 - x²), the derivative of arctanh.   f[...]  →  f[...]",
)


#: Powers of 2: where the larger of two numbers is large, and is small, and what it is multiplied by there, so that the
#: sum of their squares is a number with all its digits.
_FAR = {"f64": ((500, -600), (-450, 600)), "f32": ((60, -70), (-45, 90))}


def _turn(k: Any, a: Any, b: Any) -> Any:
    large, small = [[k.constant(2.0**n, like=a) for n in pair] for pair in _FAR[k.dtype(a)]]
    size = k.maximum(k.abs(a), k.abs(b))
    scale = k.select(k.gt(size, large[0]), large[1], k.select(k.lt(size, small[0]), small[1], _one(k, a)))
    a, b = k.mul(a, scale), k.mul(b, scale)
    return k.mul(k.div(a, k.fma(a, a, k.mul(b, b))), scale)


def _turn_reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    length = np.hypot(a, b)
    return a / length / length


turn: Function = binary("turn", _turn_reference,
    partials=lambda y, a, b: (lambda: turn(b, a) ** 2 - y * y, lambda: -2 * (y * turn(b, a))), lower=_turn,
    doc="x1 / (x1² + x2²) without overflow, the derivative of arctan2.   f[...], f[...]  →  f[...]",
)


# ---------------------------------------------------------------- of functions that end level
#
# Beside x they are given the function's value y, which is known: where the slope is asked so is y.  As a function of
# x alone it has its derivative by x.


def _tanh_slope(k: Any, x: Any, y: Any) -> Any:
    # 1 - |y| is exp(-2|x|) (1 + |y|).
    size, above = k.abs(x), k.add(_one(k, x), k.abs(y))
    return k.mul(k.exp(k.neg(k.add(size, size))), k.mul(above, above))


def _sigmoid_slope(k: Any, x: Any, y: Any) -> Any:
    # 1 - y is exp(-x) y.
    rest = k.select(k.lt(x, k.constant(0.0, like=x)), k.sub(_one(k, x), y), k.mul(k.exp(k.neg(k.abs(x))), y))
    return k.mul(y, rest)


tanh_slope: Function = binary("tanh_slope", program=_tanh_slope,
    partials=lambda s, x, y: (lambda: -2 * (y * s), None),
    doc="1 / cosh(x1)² for x2 = tanh(x1), with all its digits.   f[...], f[...]  →  f[...]",
)
sigmoid_slope: Function = binary(
    "sigmoid_slope",
    program=_sigmoid_slope,
    # 1 - 2y is -tanh(x / 2), which has its digits near 0 too.
    partials=lambda s, x, y: (lambda: -(named("tanh")(0.5 * x) * s), None),
    doc="x2 (1 - x2) for x2 = sigmoid(x1), with all its digits.   f[...], f[...]  →  f[...]",
)
