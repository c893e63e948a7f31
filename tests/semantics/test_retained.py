"""SEMANTICS 6: gradients of computed tensors that are kept, and what made a tensor."""

from __future__ import annotations

import numpy as np
import pytest
from custom_functions import parameter
from work_done import work

import autodiff as ad

# ---------------------------------------------------------------- retained gradients


def test_retain_grad_keeps_the_gradient_of_a_computed_tensor():
    x = parameter()
    for _ in range(4):
        x.grad = None
        y = x * 2.0
        y.retain_grad()
        (y * y).sum().backward()
        np.testing.assert_allclose(y.grad, [4.0, 8.0, 12.0])
        np.testing.assert_allclose(x.grad, [8.0, 16.0, 24.0])


def test_retain_grad_after_use_and_after_a_cached_run_is_honoured():
    x = parameter()
    for i in range(6):
        x.grad = None
        y = x * 2.0
        loss = (y * y).sum()
        if i >= 3:
            y.retain_grad()
        loss.backward()
        if i >= 3:
            assert y.grad is not None
        np.testing.assert_allclose(x.grad, [8.0, 16.0, 24.0])


def test_a_retained_gradient_accumulates_and_may_be_dropped():
    x = parameter()
    y = x * 2.0
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    np.testing.assert_allclose(y.grad, [2.0] * 3)
    y.grad = None
    assert y.grad is None


def test_a_retained_gradient_runs_no_rule_when_the_shape_is_known():
    x = parameter()
    for i in range(4):
        y = x * 2.0
        y.retain_grad()
        y.sum().backward()
        x.grad = None
        if i == 1:
            rules = work().rules
    assert work().rules == rules


def test_a_retained_gradient_is_what_the_hooks_made():
    x = parameter()
    y = x * 2.0
    y.retain_grad()
    y.register_hook(lambda g: g * 10.0)
    y.sum().backward()
    np.testing.assert_allclose(y.grad, [10.0] * 3)


def test_a_hook_on_a_retained_tensor_is_honoured_by_cached_code():
    x = parameter()
    for i in range(6):
        y = x * 2.0
        if i >= 3:
            y.retain_grad()
            y.register_hook(lambda g: g * 10.0)
        x.grad = None
        y.sum().backward()
        np.testing.assert_allclose(x.grad, [20.0 if i >= 3 else 2.0] * 3)


def test_grad_of_tensors_accumulates_no_retained_gradient():
    x = parameter()
    y = x * 2.0
    y.retain_grad()
    loss = (y * y).sum()
    ad.grad(loss, x, retain_graph=True)
    assert y.grad is None
    loss.backward()
    np.testing.assert_allclose(y.grad, [4.0, 8.0, 12.0])


def test_retain_grad_of_a_leaf_does_nothing_and_of_a_constant_is_an_error():
    x = parameter()
    x.retain_grad()
    x.sum().backward()
    np.testing.assert_allclose(x.grad, [1.0] * 3)
    with pytest.raises(ad.GradientError, match="requires grad"):
        ad.tensor([1.0]).retain_grad()


def test_a_failing_backward_leaves_retained_gradients_too():
    x = parameter()

    @ad.function
    def f(t): ...

    @f.forward
    def _(ctx, t: ad.Tensor):
        return t * 1.0

    @f.backward
    def _(ctx, g):
        raise ZeroDivisionError

    y = f(x)
    z = y * 2.0
    z.retain_grad()
    with pytest.raises(ZeroDivisionError):
        z.sum().backward()
    assert z.grad is None and x.grad is None


@pytest.mark.parametrize(
    "traced",
    [
        lambda f, x: ad.jit(f)(x[0]),
        lambda f, x: ad.vmap(f)(x),
        lambda f, x: ad.vmap(ad.grad(f))(x),
        lambda f, x: ad.checkpoint(f)(x[0]),
    ],
    ids=["jit", "vmap", "vmap of grad", "checkpoint"],
)
def test_retain_grad_inside_a_traced_function_is_an_error_that_says_so(traced):
    def f(x):
        y = x * 2.0
        y.retain_grad()
        return (y * y).sum()

    x = ad.tensor([[1.0, -2.0], [3.0, 4.0]], requires_grad=True)
    with pytest.raises(ad.GradientError, match=r"retain_grad\(\) inside a traced function[\s\S]*test_retained.py"):
        traced(f, x)
    f(x[0]).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[8.0, -16.0], [0.0, 0.0]])


def test_without_retain_grad_a_computed_tensor_has_no_grad():
    x = parameter()
    y = x * 2.0
    y.sum().backward()
    with pytest.warns(UserWarning, match="is not kept"):
        assert y.grad is None


# ---------------------------------------------------------------- grad_fn


def test_grad_fn_names_what_made_a_tensor():
    @ad.function
    def twice(t): ...

    @twice.forward
    def _(ctx, t: ad.Tensor):
        return t * 2.0

    @twice.backward
    def _(ctx, g):
        return g * 2.0

    x = parameter()
    assert x.grad_fn is None
    assert ad.tensor([1.0]).grad_fn is None
    assert (x * 2.0).detach().grad_fn is None
    y = ad.exp(x)
    assert y.grad_fn.name() == "exp"
    assert y.grad_fn == y.grad_fn and hash(y.grad_fn) == hash(y.grad_fn) and y.grad_fn != (y * 1.0).grad_fn
    assert twice(x).grad_fn.name() == "twice"
    assert repr(twice(x).grad_fn).startswith("<backward of twice, recorded at test_retained.py:")
    y.register_hook(print)
    assert y.grad_fn.name() == "exp"
    with ad.no_grad():
        assert (x * 2.0).grad_fn is None
