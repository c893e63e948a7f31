"""SEMANTICS 5: tensors are values; an in-place method rebinds this handle and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from custom_functions import parameter

import autodiff as ad


def test_a_slice_is_a_value_not_a_view():
    x = ad.tensor([1.0, 2.0, 3.0])
    s = x[1:]
    x[1] = 10.0
    assert s.tolist() == [2.0, 3.0] and x.tolist() == [1.0, 10.0, 3.0]
    s += 1.0
    assert x.tolist() == [1.0, 10.0, 3.0]


UPDATES = {
    "add_": lambda t: t.add_(1.0),
    "mul_": lambda t: t.mul_(2.0),
    "sub_": lambda t: t.sub_(1.0),
    "div_": lambda t: t.div_(2.0),
    "pow_": lambda t: t.pow_(2.0),
    "copy_": lambda t: t.copy_(np.array([7.0, 8.0, 9.0])),
    "fill_": lambda t: t.fill_(7.0),
    "zero_": lambda t: t.zero_(),
}


@pytest.mark.parametrize("name", UPDATES)
def test_an_in_place_method_returns_its_handle_with_the_new_value(name):
    expected = {
        "add_": [2, 3, 4], "mul_": [2, 4, 6], "sub_": [0, 1, 2], "div_": [0.5, 1, 1.5], "pow_": [1, 4, 9],
        "copy_": [7, 8, 9], "fill_": [7, 7, 7], "zero_": [0, 0, 0],
    }[name]
    t = ad.tensor([1.0, 2.0, 3.0])
    kept = t * 1.0
    other = t.detach()
    assert UPDATES[name](t) is t
    assert t.tolist() == expected
    assert kept.tolist() == [1.0, 2.0, 3.0] and other.tolist() == [1.0, 2.0, 3.0]


def test_every_augmented_operator_rebinds_its_handle():
    t = ad.tensor([8.0, 6.0, 4.0])
    first = t
    t += 1.0
    t -= ad.tensor([1.0, 1.0, 1.0])
    t *= 2.0
    t /= np.array([2.0, 2.0, 2.0])
    t //= 1.0
    t %= 5.0
    t **= 2.0
    assert t is first and t.tolist() == [9.0, 1.0, 16.0]
    m = ad.tensor(np.eye(2))
    m @= np.array([[1.0, 2.0], [3.0, 4.0]])
    assert m.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    k = ad.tensor([6, 5])
    k &= 3
    k |= 8
    k ^= 1
    k <<= 2
    k >>= 1
    assert k.tolist() == [22, 16]


def test_what_was_saved_before_keeps_its_value():
    @ad.function
    def square(t): ...

    @square.forward
    def _(ctx, t: ad.Tensor):
        ctx.save_for_backward(t=t)
        return t * t

    @square.backward
    def _(ctx, g):
        return g * 2.0 * ctx.saved_variables.t

    w = parameter()
    for _ in range(2):
        w.grad = None
        y = w * 1.0
        z = square(y)
        y += 100.0
        z.sum().backward()
        np.testing.assert_allclose(w.grad, [2.0, 4.0, 6.0])


def test_the_classic_modified_by_an_inplace_operation_cannot_arise():
    w = parameter()
    y = ad.exp(w)
    z = y * y
    y *= 0.0
    z.sum().backward()
    np.testing.assert_allclose(w.grad, 2 * np.exp(2 * np.array([1.0, 2, 3])))


def test_an_in_place_update_of_a_computed_tensor_is_differentiated():
    w = parameter()
    for run in range(2):
        w.grad = None
        y = w * 2.0
        y *= w
        y[0] = 5.0
        y[1:] += w[:2]
        y.sum().backward()
        np.testing.assert_allclose(w.grad, [1.0, 9.0, 12.0]), run


def test_an_update_at_indices_changes_this_handle_only():
    w = parameter(np.arange(6.0).reshape(2, 3))
    y = w * 1.0
    kept = y
    z = y + 0.0
    y[0, 1:] = ad.tensor([10.0, 20.0])
    y[1] = 0.0
    assert kept is y and z.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert y.tolist() == [[0, 10, 20], [0, 0, 0]]
    (y * y).sum().backward()
    np.testing.assert_allclose(w.grad, [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])


def test_rows_that_are_named_more_than_once_are_read_before_any_is_written(rng):
    def doubled(ns, x, at):
        w = ns.sin(x)
        w[at] += 2.0 * w[at]
        return ns.cos(w)

    x, at = rng.normal(size=(4, 3)), np.array([0, 3, 0, 0])
    np.testing.assert_allclose(ad.jit(lambda x, at: doubled(ad, x, at))(x, at), doubled(np, x, at), rtol=1e-12)
    np.testing.assert_allclose(doubled(ad, ad.tensor(x), at).numpy(), doubled(np, x, at), rtol=1e-12)
    plus = ad.jit(lambda x, at: ad.add_at(ad.sin(x), at, ad.sin(x)[at]))
    wanted = np.sin(x)
    np.add.at(wanted, at, np.sin(x)[at])
    np.testing.assert_allclose(plus(x, at), wanted, rtol=1e-12)


def test_a_leaf_that_requires_grad_is_not_updated_outside_of_no_grad():
    w = parameter()
    for update in (lambda: w.add_(1.0), lambda: w.__setitem__(0, 5.0), lambda: w.__iadd__(1.0), lambda: w.zero_()):
        with pytest.raises(ad.GradientError, match="no_grad"):
            update()
    assert w.tolist() == [1.0, 2.0, 3.0] and w.is_leaf


def test_under_no_grad_an_updated_leaf_stays_the_same_leaf():
    w = parameter()
    for k in range(4):
        (w * 1.0).sum().backward()
        with ad.no_grad():
            w -= 0.5 * w.grad
            w[0] = 1.0
        assert w.is_leaf and w.requires_grad
        np.testing.assert_allclose(w.grad, [k + 1.0] * 3)


def test_gradients_for_an_older_value_accumulate_in_the_same_grad():
    w = parameter()
    y = w * w
    with ad.no_grad():
        w -= 1.0
    z = w * w
    y.sum().backward()
    np.testing.assert_allclose(w.grad, [2.0, 4.0, 6.0])
    z.sum().backward()
    np.testing.assert_allclose(w.grad, [2.0, 6.0, 10.0])


@pytest.mark.smoke
def test_both_versions_in_one_backward_and_from_the_cache():
    w = parameter()
    for _ in range(4):
        w.grad = None
        with ad.no_grad():
            w.copy_([1.0, 2.0, 3.0])
        y = w * w
        with ad.no_grad():
            w -= 1.0
        (y + w * w).sum().backward()
        np.testing.assert_allclose(w.grad, [2.0, 6.0, 10.0])


def test_a_hook_of_a_leaf_survives_its_updates():
    w, seen = parameter(), []
    w.register_hook(lambda g: seen.append(1))
    with ad.no_grad():
        w += 1.0
    w.sum().backward()
    assert seen == [1]


@pytest.mark.parametrize(
    ("update", "error", "message"),
    [
        (lambda t: t.add_(np.ones(4)), ad.ShapeError, r"f64\[3\].*f64\[4\]|broadcast"),
        (lambda t: t.copy_(np.ones((2, 3))), ad.ShapeError, r"f64\[3\] cannot take f64\[2,3\]"),
        (lambda t: t.__setitem__(7, 1.0), IndexError, "7"),
        (lambda t: t.__setitem__(0, np.ones(2)), ad.ShapeError, r"f64\[2\]"),
    ],
)
def test_an_update_that_does_not_fit_is_refused_and_changes_nothing(update, error, message):
    t = ad.tensor([1.0, 2.0, 3.0])
    with pytest.raises(error, match=message):
        update(t)
    assert t.tolist() == [1.0, 2.0, 3.0]


def test_an_update_keeps_the_dtype_of_its_handle():
    t = ad.tensor([1.0, 2.0], dtype=ad.float32)
    t += np.array([0.5, 0.5])
    assert t.dtype == np.float32 and t.tolist() == [1.5, 2.5]
    k = ad.tensor([1, 2])
    with pytest.raises(ad.DTypeError, match=r"i64\[2\].*f64\[2\]"):
        k += 0.5
    assert k.tolist() == [1, 2]


def test_an_update_broadcasts_what_it_is_given():
    t = ad.tensor(np.zeros((2, 3)))
    t += np.array([1.0, 2.0, 3.0])
    t[:, 0] = 9.0
    assert t.tolist() == [[9.0, 2.0, 3.0]] * 2


def test_in_place_inside_jit_of_what_was_made_there_is_defined():
    @ad.jit
    def f(x):
        y = x * 2.0
        y += 1.0
        y[0] = 0.0
        return y

    for _ in range(2):
        assert f(np.array([1.0, 2.0])).tolist() == [0.0, 5.0]


def test_an_in_place_change_of_a_captured_tensor_inside_jit_is_an_error_at_that_line():
    w = ad.tensor([1.0, 2.0])

    @ad.jit
    def f(x):
        w.add_(1.0)
        return x * w

    with pytest.raises(ad.ConcretizationError, match=r"captured tensor.*\n.*test_in_place.py"):
        f(np.array([1.0, 2.0]))
    assert w.tolist() == [1.0, 2.0]


def test_an_in_place_change_of_an_argument_inside_jit_leaves_the_callers_value():
    @ad.jit
    def f(x):
        x += 1.0
        return x * 2.0

    a, t = np.array([1.0, 2.0]), ad.tensor([1.0, 2.0])
    for _ in range(2):
        assert f(a).tolist() == [4.0, 6.0] and a.tolist() == [1.0, 2.0]
        assert f(t).tolist() == [4.0, 6.0] and t.tolist() == [1.0, 2.0]


def test_setting_grad_and_backward_inside_jit_are_errors_at_that_line():
    w = parameter()

    def set_grad(x):
        w.grad = None
        return x

    def go_back(x):
        (x * w).sum().backward()
        return x

    for f in (set_grad, go_back):
        with pytest.raises(ad.GradientError, match=r"traced function(.|\n)*test_in_place.py"):
            ad.jit(f)(np.ones(3))
    assert w.grad is None


def test_numpy_views_are_read_only_and_copies_are_not():
    t = ad.tensor([1.0, 2.0])
    for view in (t.numpy(), np.asarray(t)):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 5.0
    copy = np.array(t)
    copy[0] = 5.0
    assert t.tolist() == [1.0, 2.0]


def test_tensor_copies_its_data():
    a = np.array([1.0, 2.0])
    t = ad.tensor(a)
    a[0] = 9.0
    assert t.tolist() == [1.0, 2.0]


def test_what_needs_no_summing_is_still_another_tensor():
    x = ad.tensor([1.0, 2.0])
    for f in (ad.unbroadcast, ad.project):
        y = f(x, x)
        y += 1.0
        np.testing.assert_array_equal(x.numpy(), [1.0, 2.0])
        np.testing.assert_array_equal(y.numpy(), [2.0, 3.0])
