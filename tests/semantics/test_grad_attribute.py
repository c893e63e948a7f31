"""SEMANTICS 6: `.grad`, `inputs=`, and `ad.grad` of tensors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from custom_functions import pair, parameter

import autodiff as ad

# ---------------------------------------------------------------- .grad


def test_grad_may_be_none_or_a_tensor_of_the_same_aval():
    x = parameter()
    x.grad = ad.tensor([1.0, 1.0, 1.0])
    x.sum().backward()
    np.testing.assert_allclose(x.grad, [2.0] * 3)
    x.grad *= 0.5
    np.testing.assert_allclose(x.grad, [1.0] * 3)
    x.sum().backward()
    np.testing.assert_allclose(x.grad, [2.0] * 3)
    x.grad = None
    assert x.grad is None


def test_grad_of_another_aval_is_an_error_naming_both():
    x = parameter()
    with pytest.raises(ad.ShapeError, match=r"f64\[4\].*f64\[3\]"):
        x.grad = ad.tensor(np.ones(4))
    with pytest.raises(ad.GradientError, match=r"f32\[3\].*f64\[3\]"):
        x.grad = ad.tensor(np.ones(3), dtype=ad.float32)
    assert x.grad is None


def test_grad_of_what_is_no_leaf_cannot_be_set():
    with pytest.raises(ad.GradientError, match="leaves"):
        (parameter() * 2.0).grad = None


def test_a_new_gradient_is_a_new_value():
    x = parameter()
    x.sum().backward()
    old = x.grad
    kept = old.numpy()
    x.sum().backward()
    np.testing.assert_array_equal(kept, [1.0] * 3)
    np.testing.assert_array_equal(old, [1.0] * 3)
    np.testing.assert_array_equal(x.grad, [2.0] * 3)


def test_two_leaves_with_one_gradient_do_not_share_it():
    a, b = parameter(), parameter()
    for _ in range(3):
        a.grad = b.grad = None
        (a + b).sum().backward()
        assert a.grad is not b.grad
        assert not np.shares_memory(a.grad.numpy(), b.grad.numpy())


def test_an_existing_grad_that_is_the_other_leafs_gradient_is_added_right():
    a, b = parameter(), parameter()
    (a * 2.0).sum().backward()
    b.grad = a.grad
    (a * 3.0 + b * 4.0).sum().backward()
    np.testing.assert_allclose(a.grad, [5.0] * 3)
    np.testing.assert_allclose(b.grad, [6.0] * 3)


def test_the_gradient_of_the_gradient_accumulates_into_a_grad_with_history():
    x = parameter()
    (x * x).sum().backward(create_graph=True)
    (x * 2.0).sum().backward()
    np.testing.assert_allclose(x.grad.detach(), [4.0, 6.0, 8.0])


# ---------------------------------------------------------------- inputs=


def test_inputs_limits_which_leaves_get_gradients():
    a, b = parameter(), parameter()
    for _ in range(2):
        a.grad = None
        (a * b).sum().backward(inputs=[a])
        np.testing.assert_allclose(a.grad, [1.0, 2.0, 3.0])
        assert b.grad is None


def test_inputs_that_are_no_leaves_and_none_at_all_are_refused():
    a = parameter()
    y = a * 2.0
    for inputs in ([y], y, [np.ones(3)], 3, "a", []):
        with pytest.raises(ad.GradientError, match="inputs="):
            y.sum().backward(inputs=inputs)


def test_a_rule_is_not_called_when_nothing_below_was_asked_for():
    def never(ctx, g):
        raise AssertionError("called")

    f = pair(lambda ctx, x: x * 2.0, never)
    a, b = parameter(), parameter()
    (a + f(b)).sum().backward(inputs=[a])
    np.testing.assert_allclose(a.grad, [1.0] * 3)
    y = (a + f(b)).sum()
    np.testing.assert_allclose(ad.grad(y, a), [1.0] * 3)


# ---------------------------------------------------------------- ad.grad of tensors


def test_grad_of_tensors_keeps_the_nesting_of_xs():
    a, b = parameter(), parameter()
    for _ in range(2):
        got = ad.grad((a * b).sum(), {"a": a, "rest": [b]})
        np.testing.assert_allclose(got["a"], [1.0, 2.0, 3.0])
        np.testing.assert_allclose(got["rest"][0], [1.0, 2.0, 3.0])
        assert a.grad is None and b.grad is None


def test_an_unused_input_is_an_error_or_none_with_allow_unused():
    a, b = parameter(), parameter()
    with pytest.raises(ad.GradientError, match=r"input 1 \(f64\[3\]\).*not used"):
        ad.grad(a.sum(), [a, b])
    got = ad.grad(a.sum(), [a, b], allow_unused=True)
    np.testing.assert_allclose(got[0], [1.0] * 3)
    assert got[1] is None


def test_grad_with_respect_to_an_updated_leaf_is_that_of_all_its_values():
    w = parameter()
    for _ in range(3):
        y = (w * w).sum()
        before = w.detach().numpy()
        with ad.no_grad():
            w -= 1.0
        np.testing.assert_allclose(ad.grad(y + (w * w).sum(), w), 2 * before + 2 * (before - 1))


def test_hooks_of_a_leaf_see_the_gradient_that_grad_returns():
    x, seen = parameter(), []
    x.register_hook(lambda g: (seen.append(1), g * 10.0)[1])
    for _ in range(2):
        np.testing.assert_allclose(ad.grad((x * x).sum(), x), [20.0, 40.0, 60.0])
    assert seen == [1, 1]


def test_grad_takes_as_many_grad_outputs_as_results():
    x = parameter()
    np.testing.assert_allclose(ad.grad([x * x, x.sum()], x, [np.ones(3), 2.0]), [4.0, 6.0, 8.0])
    with pytest.raises(ad.GradientError, match="2 tensors but 1 grad_outputs"):
        ad.grad([x.sum(), x.sum()], x, [None])


def test_grad_that_refuses_an_unused_input_releases_nothing():
    a, b = parameter(), parameter()
    y = (a * a).sum()
    with pytest.raises(ad.GradientError, match="not used"):
        ad.grad(y, [a, b])
    y.backward()
    np.testing.assert_allclose(a.grad, [2.0, 4.0, 6.0])


def test_non_leaf_inputs_are_fine():
    x = parameter()
    for _ in range(2):
        h = x * 3.0
        k = ad.sin(h)
        gh, gk = ad.grad((k * k).sum(), [h, k])
        np.testing.assert_allclose(gk, 2 * np.sin(3 * x.detach().numpy()))
        np.testing.assert_allclose(gh, np.sin(6 * x.detach().numpy()))


def test_grad_of_an_input_that_does_not_require_grad_is_an_error():
    x = parameter()
    with pytest.raises(ad.GradientError, match="does not require grad"):
        ad.grad((x * ad.tensor([1.0, 2.0, 3.0])).sum(), ad.tensor([1.0, 2.0, 3.0]))


def test_a_structurally_zero_second_derivative_is_zero_not_an_error():
    for _ in range(2):
        x = parameter()
        g = ad.grad((x * 2.0).sum(), x, create_graph=True)
        np.testing.assert_array_equal(g.detach().numpy(), np.full(3, 2.0))
        h = ad.grad(g.sum(), x, create_graph=True)
        np.testing.assert_array_equal(h.detach().numpy(), np.zeros(3))
        np.testing.assert_array_equal(ad.grad(h.sum(), x).numpy(), np.zeros(3))
        (x * 2.0).sum().backward(create_graph=True)
        g, x.grad = x.grad, None
        (g * g).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.zeros(3))
    zero = ad.grad(lambda x: ad.grad(lambda x: (x * 2.0).sum())(x).sum())(np.ones(3))
    np.testing.assert_array_equal(zero, np.zeros(3))


def test_perturbations_are_not_confused():
    for x in (3.0, np.float64(3.0), np.array(3.0)):
        assert ad.grad(lambda x: ad.grad(lambda y: x * y)(x))(x) == 1.0
        assert ad.jit(ad.grad(lambda x: x * ad.grad(lambda y: x * y)(x)))(x) == 6.0


def test_the_grad_of_a_computed_tensor_warns_once_a_line_that_it_is_not_kept():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.sum().backward()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            assert y.grad is None
        assert (y + 1).grad is None
        assert y.detach().grad is None and x.grad is not None and ad.tensor([1.0]).grad is None
    assert [(w.category, w.filename) for w in seen] == [(UserWarning, __file__)] * 2
    assert "t.retain_grad() before backward()" in str(seen[0].message)


def test_the_grad_of_a_computed_tensor_that_retains_it_warns_of_nothing():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.retain_grad()
    assert y.grad is None
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]
