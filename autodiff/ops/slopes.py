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


def inverse_root(k: Any, a: Any, low: Any = None, root: Any = None) -> Any:
    """1 / sqrt(a), rounded as if once: a step of Newton's makes good what the root and the quotient were rounded by.

    low     what a lacks, if that is known
    root    the square root, where it is not that of a: a may overflow
    """
    first = 1.0 / (k.sqrt(a) if root is None else root)
    product = a * first
    rest = k.fma(a, first, -product)
    rest = rest if low is None else k.fma(low, first, rest)
    lack = k.fma(-first, rest, k.fma(-product, first, 1.0))
    better = k.fma(first * 0.5, lack, first)
    return k.select(abs(lack) < 1.0, better, first)  # of 0 and inf the first


#: From here on x² and x² ± 1 are one float, of either type; squares of larger ones overflow sooner or later.
_LARGE = 2.0**28


def _leg(k: Any, size: Any, square: Any) -> Any:
    """The root of a number that is size², or nearly."""
    return k.select(size > _LARGE, size, k.sqrt(square))


def _arcsinh_slope(k: Any, x: Any) -> Any:
    square = k.fma(x, x, 1.0)
    return inverse_root(k, square, k.fma(x, x, 1.0 - square), _leg(k, abs(x), square))


def _arccosh_slope(k: Any, x: Any) -> Any:
    square = k.fma(x, x, -1.0)
    return k.select(x < 1.0, math.nan, inverse_root(k, square, root=_leg(k, x, square)))


# The program 1 - x² is rounded once: it has all its digits near 1 and -1.
arc_slope = unary("arc_slope", lambda x: 1 / np.sqrt((1 - x) * (1 + x)), partials=lambda y, x: (x * y * y * y,),
    lower=lambda k, x: inverse_root(k, k.fma(-x, x, 1.0)),
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
    lower=lambda k, x: 1.0 / k.fma(-x, x, 1.0),
    doc="1 / (1 - x²), the derivative of arctanh.   f[...]  →  f[...]",
)


#: Powers of 2: where the larger of two numbers is large, and is small, and what it is multiplied by there, so that the
#: sum of their squares is a number with all its digits.
_FAR = {"f64": ((500, -600), (-450, 600)), "f32": ((60, -70), (-45, 90))}


def _turn(k: Any, a: Any, b: Any) -> Any:
    (most, down), (least, up) = [[2.0**n for n in pair] for pair in _FAR[k.dtype(a)]]
    size = k.maximum(abs(a), abs(b))
    scale = k.select(size > most, down, k.select(size < least, up, k.constant(1.0, like=a)))
    a, b = a * scale, b * scale
    return a / k.fma(a, a, b * b) * scale


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
    size, above = abs(x), 1.0 + abs(y)
    return k.exp(-(size + size)) * (above * above)


def _sigmoid_slope(k: Any, x: Any, y: Any) -> Any:
    # 1 - y is exp(-x) y.
    return y * k.select(x < 0.0, 1.0 - y, k.exp(-abs(x)) * y)


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
