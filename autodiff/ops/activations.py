"""Activation functions of networks, beside relu, sigmoid, tanh and softplus: compositions, so they fuse."""

from __future__ import annotations

import math

from codegen.lowering import Map

from ..custom import function
from .arithmetic import add, multiply, negative
from .arrays import on_arrays
from .conversion import as_tensor
from .declare import binary, unary
from .elementwise import expm1, sigmoid, softplus
from .logic import greater
from .power import power_to
from .selection import clip, where
from .special_normal import weighted
from .statistics import floating

__all__ = ["elu", "gelu", "leaky_relu", "log_sigmoid", "mish", "relu6", "selu", "silu"]


@function
def silu(x):
    """x sigmoid(x), which is also called swish.   f[...]  →  f[...]

    Source: Elfwing, Uchibe, Doya, "Sigmoid-Weighted Linear Units for Neural Network Function Approximation", 2017.

    >>> import autodiff as ad
    >>> ad.silu([0.0, 1.0])
    f64[2] [0.         0.73105858]
    >>> ad.grad(ad.silu)(ad.tensor(0.0))
    f64[] 0.5
    """
    x = floating(x, "silu")
    return multiply(x, sigmoid(x))


@function
def gelu(x, approximate=False):
    """x times the probability that a standard normal number is below it.   f[...]  →  f[...]     approximate: by tanh

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.

    >>> import autodiff as ad
    >>> ad.gelu([-1.0, 0.0, 1.0])
    f64[3] [-0.15865525  0.          0.84134475]
    >>> ad.gelu([1.0], approximate=True)
    f64[1] [0.84119199]
    """
    x = floating(x, "gelu")
    if approximate:
        # (1 + tanh(u)) / 2 is sigmoid(2 u), which has all its digits where it is small.  The cube is a square times x:
        # the derivative is a sum of three terms, and not of five.
        slope = 2 * math.sqrt(2 / math.pi)
        return multiply(x, sigmoid(multiply(x, add(slope, multiply(0.044715 * slope, power_to(x, 2))))))
    return weighted(x)


@function
def elu(x, alpha=1.0):
    """x above 0, alpha (exp(x) - 1) below.   f[...]  →  f[...]

    Source: Clevert, Unterthiner, Hochreiter, "Fast and Accurate Deep Network Learning by Exponential Linear Units",
    2015.

    >>> import autodiff as ad
    >>> ad.elu([-1000.0, 0.0, 2.0], alpha=0.5)
    f64[3] [-0.5  0.   2. ]
    """
    x = floating(x, "elu")
    above = greater(x, 0.0)
    return where(above, x, multiply(alpha, expm1(where(above, 0.0, x))))


@function
def selu(x):
    """`elu` scaled so that means and variances stay 0 and 1 through layers.   f[...]  →  f[...]

    Source: Klambauer, Unterthiner, Mayr, Hochreiter, "Self-Normalizing Neural Networks", 2017.

    >>> import autodiff as ad
    >>> ad.selu([-1.0, 0.0, 1.0])
    f64[3] [-1.11133074  0.          1.05070099]
    """
    return multiply(1.0507009873554804934193349852946, elu(x, 1.6732632423543772848170429916717))


@function
def leaky_relu(x, negative_slope=0.01):
    """x above 0, `negative_slope` times x below.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.leaky_relu([-1.0, 2.0])
    f64[2] [-0.01  2.  ]
    """
    x = floating(x, "leaky_relu")
    return where(greater(x, 0.0), x, multiply(x, negative_slope))


@function
def log_sigmoid(x):
    """log(sigmoid(x)), without underflow.   f[...]  →  f[...]

    >>> import autodiff as ad
    >>> ad.log_sigmoid([0.0, -50.0])
    f64[2] [ -0.69314718 -50.        ]
    """
    return negative(softplus(negative(floating(x, "log_sigmoid"))))


def _tanh_softplus(k, x):
    # (p² - 1) / (p² + 1) for p = 1 + e^x: where that is 1, e^x is cut off, so that nothing overflows.
    two, most = k.constant(2.0, like=x), k.constant(20.0, like=x)
    power = k.exp(k.select(k.gt(x, most), most, x))
    less = k.add(k.mul(power, power), k.add(power, power))
    return k.div(less, k.add(less, two))


def _tanh_softplus_slope(k, x, y):
    # 4 p e / (p² + 1)² for e = exp(x) and p = 1 + e, where x is above 0 in powers of exp(-x).
    # The 4 is there from the start: at the end it would multiply what a tiny share is rounded by.
    one, four = k.constant(1.0, like=x), k.constant(4.0, like=x)
    small, is_above = k.exp(k.neg(k.abs(x))), k.gt(x, k.constant(0.0, like=x))
    p, q = k.add(one, small), k.select(is_above, small, one)
    share = k.div(k.mul(q, k.mul(four, small)), k.add(k.mul(p, p), k.mul(q, q)))
    return k.div(k.mul(p, share), k.add(k.mul(p, p), k.mul(q, q)))


tanh_softplus_slope = binary("tanh_softplus_slope", on_arrays(_tanh_softplus_slope),
    partials=lambda s, x, y: (lambda: s * (sigmoid(-x) - 2 * (y * sigmoid(x))), None), lower=Map(_tanh_softplus_slope),
    doc="The derivative of tanh_softplus by x1, for x2 = tanh_softplus(x1), with all its digits.",
)
tanh_softplus = unary("tanh_softplus", on_arrays(_tanh_softplus), partials=lambda y, x: (tanh_softplus_slope(x, y),),
    lower=Map(_tanh_softplus),
    doc="tanh(softplus(x)), by one exponential.   f[...]  →  f[...]",
)


@function
def mish(x):
    """x tanh(softplus(x)).   f[...]  →  f[...]

    Source: Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.

    >>> import autodiff as ad
    >>> ad.mish([0.0, 1.0])
    f64[2] [0.         0.86509839]
    """
    x = floating(x, "mish")
    return multiply(x, tanh_softplus(x))


@function
def relu6(x):
    """x, but no less than 0 and no more than 6.   T[...]  →  T[...]

    >>> import autodiff as ad
    >>> ad.relu6([-1.0, 3.0, 9.0])
    f64[3] [0. 3. 6.]
    """
    return clip(as_tensor(x, "relu6", "x"), 0, 6)
