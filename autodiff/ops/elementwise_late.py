"""Elementwise functions that many programs never use: roots and powers, degrees, sinc, and activation functions.

Operations are written once, as element programs; the other functions record several operations, which fuse.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..custom.function import Function
from ..tape import record
from ..tensor import Tensor
from .arithmetic import abs_, imaginary, imaginary_part, multiply, real_part
from .conditions import clip, isnan, where
from .declare import binary, composed, unary
from .elementwise import cos, expm1, sigmoid, sin, softplus
from .power import power, power_to
from .primitive import elementwise
from .special_normal import polynomial, weighted
from .template import public


def _sinc(k, x):
    angle = math.pi * k.select(x == 0.0, 1.0, x)
    return k.select(x == 0.0, 1.0, k.sin(angle) / angle)


def _sinc_slope(x: Tensor) -> Tensor:
    """(cos πx - sinc x) / x; near 0, where the difference cancels, its series."""
    is_near = abs_(x) < 0.02
    far = where(is_near, 1.0, x)
    angle = far * math.pi
    square = x * x * math.pi**2
    terms = [(-1) ** j * 2 * j / math.factorial(2 * j + 1) for j in range(1, 6)]
    near = polynomial(terms, square) * x * math.pi**2
    return where(is_near, near, (cos(angle) - sin(angle) / angle) / far)


exp2: Function = unary(
    "exp2",
    # The slope is less than 2 to the x, so it may be finite where that overflows: it is computed from 2 to the x - 1.
    slope=lambda y, x: exp2(x - 1.0) * (2 * math.log(2)),
    doc="2 to the x.   f[...]  →  f[...]     integers and bool give float64",
    example=">>> ad.exp2([3, -1])\nf64[2] [8.  0.5]",
)
cbrt = unary("cbrt", slope=lambda y, x: power(y, -2.0) / 3.0,
    doc="The cube root, also of negative numbers.   f[...]  →  f[...]     its derivative at 0 is inf",
    example=">>> ad.cbrt([-8.0, 27.0])\nf64[2] [-2.  3.]")
sinc = unary("sinc", slope=lambda y, x: _sinc_slope(x), lower=_sinc,
    doc="sin(πx) / (πx), and 1 at 0.   f[...]  →  f[...]     integers and bool give float64",
    example=">>> ad.sinc([0.0, 0.5])\nf64[2] [1.         0.63661977]")


heaviside = binary("heaviside", partials=lambda z, x, y: (None, lambda: x == 0.0),
    lower=lambda k, x, y: k.select(k.isnan(x), x, k.select(x < 0.0, 0.0, k.select(x > 0.0, 1.0, y))),
    doc="0 for negative x1, 1 for positive, x2 where it is 0.   f[...], f[...]  →  f[...]     the gradient is x2's",
    example=">>> ad.heaviside([-1.0, 0.0, 2.0], 0.5)\nf64[3] [0.  0.5 1. ]")


deg2rad = radians = composed("deg2rad", lambda x: multiply(x, math.pi / 180),
    "Degrees as radians.   f[...]  →  f[...]", ">>> ad.deg2rad([180.0, -90.0])\nf64[2] [ 3.14159265 -1.57079633]")
rad2deg = degrees = composed("rad2deg", lambda x: multiply(x, 180 / math.pi),
    "Radians as degrees.   f[...]  →  f[...]", ">>> ad.rad2deg(ad.pi)\nf64[] 180.0")


@public(1, takes="T")
def nan_to_num(x, *, nan=0.0, posinf=None, neginf=None):
    """x with `nan`, `posinf` and `neginf` for nan and infinities; None: the largest numbers.   T[...]  →  T[...]

    Both parts of complex numbers are replaced.  A replaced element gets a gradient of exactly 0.

    >>> ad.nan_to_num([ad.nan, ad.inf, 1.0], posinf=9.0)
    f64[3] [0. 9. 1.]
    """
    if x.dtype.kind == "c":
        parts = [_finite(f(x), nan, posinf, neginf) for f in (real_part, imaginary_part)]
        return parts[0] + record(imaginary, (parts[1],))
    return _finite(x, nan, posinf, neginf) if x.dtype.kind == "f" else x


def _finite(x: Tensor, nan: Any, posinf: Any, neginf: Any) -> Tensor:
    most = float(np.finfo(x.dtype).max)
    x = where(x == math.inf, most if posinf is None else posinf, x)
    return where(x == -math.inf, -most if neginf is None else neginf, where(isnan(x), nan, x))


silu = composed("silu", lambda x: x * sigmoid(x),
    """x sigmoid(x), which is also called swish.   f[...]  →  f[...]

    Source: Elfwing, Uchibe, Doya, "Sigmoid-Weighted Linear Units for Neural Network Function Approximation", 2017.""",
    ">>> ad.silu([0.0, 1.0])\nf64[2] [0.         0.73105858]", 1, "fc")


@public(1, takes="fc")
def gelu(x, approximate=False):
    """x times the probability that a standard normal number is below it.   f[...]  →  f[...]     approximate: by tanh

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.

    >>> ad.gelu([-1.0, 0.0, 1.0])
    f64[3] [-0.15865525  0.          0.84134475]
    >>> ad.gelu([1.0], approximate=True)
    f64[1] [0.84119199]
    """
    if approximate:
        # (1 + tanh(u)) / 2 is sigmoid(2 u), which has all its digits where it is small.  With the cube as x times a
        # square the derivative is a sum of three terms, not of five.
        slope = 2 * math.sqrt(2 / math.pi)
        return x * sigmoid(x * (slope + 0.044715 * slope * power_to(x, 2)))
    return weighted(x)


@public(1, takes="fc")
def elu(x, alpha=1.0):
    """x above 0, alpha (exp(x) - 1) below.   f[...]  →  f[...]

    Source: Clevert, Unterthiner, Hochreiter, "Fast and Accurate Deep Network Learning by Exponential Linear Units",
    2015.

    >>> ad.elu([-1000.0, 0.0, 2.0], alpha=0.5)
    f64[3] [-0.5  0.   2. ]
    """
    above = x > 0.0
    return where(above, x, multiply(alpha, expm1(where(above, 0.0, x))))


selu = composed("selu", lambda x: 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717),
    """`elu` scaled so that means and variances stay 0 and 1 through layers.   f[...]  →  f[...]

    Source: Klambauer, Unterthiner, Mayr, Hochreiter, "Self-Normalizing Neural Networks", 2017.""",
    ">>> ad.selu([-1.0, 0.0, 1.0])\nf64[3] [-1.11133074  0.          1.05070099]")


@public(1, takes="fc")
def leaky_relu(x, negative_slope=0.01):
    """x above 0, `negative_slope` times x below.   f[...]  →  f[...]

    >>> ad.leaky_relu([-1.0, 2.0])
    f64[2] [-0.01  2.  ]
    """
    return where(x > 0.0, x, multiply(x, negative_slope))


log_sigmoid = composed("log_sigmoid", lambda x: -softplus(-x),
    "log(sigmoid(x)), without underflow.   f[...]  →  f[...]",
    ">>> ad.log_sigmoid([0.0, -50.0])\nf64[2] [ -0.69314718 -50.        ]", 1, "fc")
relu6 = composed("relu6", lambda x: clip(x, 0, 6),
    "x, but no less than 0 and no more than 6.   T[...]  →  T[...]",
    ">>> ad.relu6([-1.0, 3.0, 9.0])\nf64[3] [0. 3. 6.]", 1, "T")


def _tanh_softplus(k, x):
    # (p² - 1) / (p² + 1) for p = 1 + e^x.  Above 20 the quotient is 1 and x is cut off, so that nothing overflows.
    power = k.exp(k.select(x > 20.0, 20.0, x))
    less = power * power + (power + power)
    return less / (less + 2.0)


def _tanh_softplus_slope(k, x, y):
    # 4 p e / (p² + 1)² for e = exp(x) and p = 1 + e; for x above 0 in powers of exp(-x).
    # The factor 4 comes first: at the end it would multiply the rounding error of a tiny quotient as well.
    small = k.exp(-abs(x))
    p, q = 1.0 + small, k.select(x > 0.0, small, 1.0)
    length = p * p + q * q
    return p * (q * (4.0 * small) / length) / length


#: The derivative of tanh_softplus by x, for y = tanh_softplus(x), with all its digits.
tanh_softplus_slope = elementwise("tanh_softplus_slope", program=_tanh_softplus_slope,
    partials=lambda s, x, y: (lambda: s * (sigmoid(-x) - 2 * (y * sigmoid(x))), None))
#: tanh(softplus(x)), by one exponential.
tanh_softplus = elementwise("tanh_softplus", program=_tanh_softplus, slope=lambda y, x: tanh_softplus_slope(x, y))


mish = composed("mish", lambda x: x * tanh_softplus(x),
    """x tanh(softplus(x)).   f[...]  →  f[...]

    Source: Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.""",
    ">>> ad.mish([0.0, 1.0])\nf64[2] [0.         0.86509839]", 1, "fc")
