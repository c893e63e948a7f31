"""The way out of a host rule's missing second derivative: the factor that it needs, as a function of its own."""

import math

import numpy as np
import pytest

import autodiff as ad


@ad.function
def sine(x):
    """sin(x), by NumPy."""


@sine.forward(ad.Tensor, host=True)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return np.sin(x)


@sine.backward(ad.Tensor)
def _(ctx, grad_output):
    return grad_output * cosine(ctx.saved_variables.x)


@ad.function
def cosine(x):
    """cos(x), by NumPy."""


@cosine.forward(ad.Tensor, host=True)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return np.cos(x)


@cosine.backward(ad.Tensor)
def _(ctx, grad_output):
    return -grad_output * sine(ctx.saved_variables.x)


@ad.function
def peeked(x):
    """x³, by a rule that looks at a value."""


@peeked.forward(ad.Tensor)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return x**3


@peeked.backward(ad.Tensor)
def _(ctx, grad_output):
    x = ctx.saved_variables.x
    cosine(x)  # bounded, so it does not excuse what comes next
    return grad_output * 3 * x * float(x)


def test_a_rule_made_of_host_functions_with_rules_is_differentiable_to_any_order():
    f = sine
    for expected in (math.sin, math.cos, lambda x: -math.sin(x), lambda x: -math.cos(x)):
        assert float(f(0.7)) == pytest.approx(expected(0.7), rel=1e-12)
        f = ad.grad(f)


def test_a_rule_that_looks_at_a_value_itself_has_no_second_derivative_still():
    assert ad.grad(peeked)(2.0) == 12.0
    with pytest.raises(ad.GradientError, match="peeked"):
        ad.grad(ad.grad(peeked))(2.0)
