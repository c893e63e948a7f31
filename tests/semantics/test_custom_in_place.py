"""SEMANTICS 5: a forward that changes an input handle declares it, returns it, and the caller's handle follows."""

from __future__ import annotations

import numpy as np
import pytest
from three_ways import gradients

import autodiff as ad

X = np.array([1.0, -2.0, 3.0])


def doubling(declare=True, give_back=True, extra=lambda ctx, x: None):
    """x *= 2 in place, with a rule that is told apart from the body's: 20 instead of 2."""

    @ad.function
    def double_(x): ...

    @double_.forward(ad.Tensor)
    def _(ctx, x):
        if declare:
            ctx.mark_dirty(x)
        extra(ctx, x)
        x *= 2.0
        return x if give_back else x * 1.0

    @double_.backward(ad.Tensor)
    def _(ctx, g):
        return g * 20.0

    return double_


def test_the_caller_s_handle_carries_the_new_value_and_this_function_s_history():
    double_ = doubling()

    def loss(x):
        y = x * 1.0
        z = double_(y)
        assert z is y
        return (y + z).sum()

    (g,) = gradients(loss, X)
    np.testing.assert_array_equal(g, np.full(3, 40.0))
    x = ad.tensor(X, requires_grad=True)
    y = x * 1.0
    double_(y)
    np.testing.assert_array_equal(y.detach().numpy(), 2 * X)
    np.testing.assert_array_equal(x.detach().numpy(), X)


def test_what_was_captured_before_keeps_its_value():
    double_ = doubling()
    x = ad.tensor(X, requires_grad=True)
    y = x * 1.0
    before, other = y * y, y.detach()
    double_(y)
    np.testing.assert_array_equal(before.detach().numpy(), X * X)
    np.testing.assert_array_equal(other.numpy(), X)
    (before.sum() + y.sum()).backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * X + 20.0)


def test_a_dirty_input_without_history_is_rebound_too():
    y = ad.tensor(X)
    assert doubling()(y) is y and not y.requires_grad
    np.testing.assert_array_equal(y.numpy(), 2 * X)


def test_an_undeclared_change_is_an_error_and_the_caller_s_handle_keeps_its_value():
    double_ = doubling(declare=False)
    for ask in (lambda y: double_(y), lambda y: ad.jit(lambda x: double_(x * 1.0))(X)):
        y = ad.tensor(X, requires_grad=True) * 1.0
        with pytest.raises(ad.GradientError, match=r"double_: .* input 0 \(f64\[3\]\) in place.*\n  called at test_"):
            ask(y)
        np.testing.assert_array_equal(y.detach().numpy(), X)


def test_a_declared_input_that_is_not_returned_is_an_error():
    double_ = doubling(give_back=False)
    y = ad.tensor(X, requires_grad=True) * 1.0
    with pytest.raises(ad.GradientError, match=r"double_: .*f64\[3\] is marked dirty.*\n  called at test_"):
        double_(y)
    np.testing.assert_array_equal(y.detach().numpy(), X)


def test_a_leaf_that_requires_grad_is_refused():
    x = ad.tensor(X, requires_grad=True)
    with pytest.raises(ad.GradientError, match="leaf that requires grad"):
        doubling()(x)

    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: (ctx.mark_dirty(x), x)[1])
    f.backward(ad.Tensor)(lambda ctx, g: g)
    with pytest.raises(ad.GradientError, match=r"f: forward changes a leaf that requires grad.*\n  called at test_"):
        f(x)
    np.testing.assert_array_equal(x.numpy() if not x.requires_grad else x.detach().numpy(), X)


def test_under_no_grad_a_leaf_stays_the_same_leaf():
    x = ad.tensor(X, requires_grad=True)
    old = (x * 3.0).sum()
    with ad.no_grad():
        assert doubling()(x) is x
    assert x.is_leaf and x.requires_grad
    np.testing.assert_array_equal(x.detach().numpy(), 2 * X)
    (x * 5.0).sum().backward()
    old.backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 8.0))


def test_marking_what_is_no_input_is_an_error():
    double_ = doubling(extra=lambda ctx, x: ctx.mark_dirty(x * 3.0))
    with pytest.raises(ad.GradientError, match=r"double_: mark_dirty of something that is no input.*\n  called at"):
        double_(ad.tensor(X, requires_grad=True) * 1.0)


def test_one_of_several_inputs_and_outputs_may_be_dirty():
    @ad.function
    def update_(state, x): ...

    @update_.forward(ad.Tensor, ad.Tensor)
    def _(ctx, state, x):
        ctx.mark_dirty(state)
        ctx.save_for_backward(x=x)
        state += x * x
        return x * 2.0, state

    @update_.backward(ad.Tensor, ad.Tensor)
    def _(ctx, g, g_state):
        return {"state": g_state, "x": 2.0 * g + 2.0 * g_state * ctx.saved_variables.x}

    def loss(s, x):
        state = s * 1.0
        y, new = update_(state, x)
        assert new is state
        y, _ = update_(state, y)
        return (state * 1.0 + y).sum()

    gs, gx = gradients(loss, np.zeros(3), X)
    np.testing.assert_array_equal(gs, np.ones(3))
    np.testing.assert_allclose(gx, 2 * X + 8 * X + 4)


def test_a_captured_tensor_cannot_be_made_dirty_inside_a_trace():
    double_ = doubling()
    y = ad.tensor(X)
    with pytest.raises(ad.Error, match="inside a traced function"):
        ad.jit(lambda x: x + double_(y))(X)
    np.testing.assert_array_equal(y.numpy(), X)
