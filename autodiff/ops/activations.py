"""What networks bend their values by, beside relu, sigmoid, tanh and softplus: compositions, so they fuse."""

from __future__ import annotations

import math

from codegen.lowering import Map

from ..custom import function
from .arithmetic import add, multiply, negative
from .arrays import on_arrays
from .comparison import greater
from .conversion import as_tensor
from .declare import unary
from .elementwise import erf, expm1, sigmoid, softplus
from .power import power_to
from .selection import clip, where
from .statistics import floating

__all__ = ["elu", "gelu", "leaky_relu", "log_sigmoid", "mish", "relu6", "selu", "silu"]


@function
def silu(x):
    """x sigmoid(x), which is also called swish.   f[...]  →  f[...]"""
    x = floating(x, "silu")
    return multiply(x, sigmoid(x))


@function
def gelu(x, approximate=False):
    """x times the probability that a normal number is below it.   f[...]  →  f[...]     approximate: by tanh"""
    x = floating(x, "gelu")
    if approximate:
        # (1 + tanh(u)) / 2 is sigmoid(2 u), which has all its digits where it is small.  The cube is a square times x:
        # the derivative is a sum of three terms, and not of five.
        slope = 2 * math.sqrt(2 / math.pi)
        return multiply(x, sigmoid(multiply(x, add(slope, multiply(0.044715 * slope, power_to(x, 2))))))
    return multiply(multiply(0.5, x), add(1.0, erf(multiply(x, math.sqrt(0.5)))))


@function
def elu(x, alpha=1.0):
    """x above 0, alpha (exp(x) - 1) below.   f[...]  →  f[...]"""
    x = floating(x, "elu")
    above = greater(x, 0.0)
    return where(above, x, multiply(alpha, expm1(where(above, 0.0, x))))


@function
def selu(x):
    """`elu` scaled so that means and variances stay 0 and 1 through layers.   f[...]  →  f[...]

    Source: Klambauer, Unterthiner, Mayr, Hochreiter, "Self-Normalizing Neural Networks", 2017.
    """
    return multiply(1.0507009873554804934193349852946, elu(x, 1.6732632423543772848170429916717))


@function
def leaky_relu(x, negative_slope=0.01):
    """x above 0, `negative_slope` times x below.   f[...]  →  f[...]"""
    x = floating(x, "leaky_relu")
    return where(greater(x, 0.0), x, multiply(x, negative_slope))


@function
def log_sigmoid(x):
    """log(sigmoid(x)), without underflow.   f[...]  →  f[...]"""
    return negative(softplus(negative(floating(x, "log_sigmoid"))))


def _tanh_softplus(k, x):
    # (p² - 1) / (p² + 1) for p = 1 + e^x: where that is 1, e^x is cut off, so that nothing overflows.
    two, most = k.constant(2.0, like=x), k.constant(20.0, like=x)
    power = k.exp(k.select(k.gt(x, most), most, x))
    less = k.add(k.mul(power, power), k.add(power, power))
    return k.div(less, k.add(less, two))


tanh_softplus = unary(
    "tanh_softplus",
    on_arrays(_tanh_softplus),
    partials=lambda y, x: ((1 - y * y) * sigmoid(x),),
    lower=Map(_tanh_softplus),
    doc="tanh(softplus(x)), by one exponential.   f[...]  →  f[...]",
)


@function
def mish(x):
    """x tanh(softplus(x)).   f[...]  →  f[...]"""
    x = floating(x, "mish")
    return multiply(x, tanh_softplus(x))


@function
def relu6(x):
    """x, but no less than 0 and no more than 6.   T[...]  →  T[...]"""
    return clip(as_tensor(x, "relu6", "x"), 0, 6)
