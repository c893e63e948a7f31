"""SEMANTICS 6: the backward engine.  Seeds, accumulation, order, errors, grad of tensors, depth, threads."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest

import autodiff as ad
from autodiff.tape.plan import COUNTS


def parameter(value=(1.0, 2.0, 3.0)):
    return ad.tensor(value, requires_grad=True)


def pair(forward, backward):
    """A custom function of one tensor, from two functions."""

    @ad.function
    def f(x): ...

    f.forward(forward)
    f.backward(backward)
    return f


def failing(error=ZeroDivisionError):
    """A custom function whose backward raises."""

    def explode(ctx, g):
        raise error("boom")

    return pair(lambda ctx, x: x * 1.0, explode)


# ---------------------------------------------------------------- seeds


def test_a_non_scalar_without_a_seed_is_an_error_that_names_the_shape():
    x = parameter(np.ones((2, 3)))
    with pytest.raises(ad.GradientError, match=r"f64\[2,3\], not a scalar.*\n.*test_backward.py"):
        (x * 2.0).backward()
    assert x.grad is None


def test_a_seed_of_another_shape_is_an_error_that_names_both():
    x = parameter(np.ones((2, 3)))
    with pytest.raises(ad.ShapeError, match=r"f64\[2,3\].*f64\[3,2\]"):
        (x * 2.0).backward(np.ones((3, 2)))
    with pytest.raises(ad.GradientError):
        (x * 2.0).backward(np.ones(3))


def test_a_seed_of_another_dtype_is_an_error_that_names_both():
    x = parameter(np.ones(3))
    with pytest.raises(ad.DTypeError, match=r"f64\[3\].*f32\[3\]"):
        (x * 2.0).backward(np.ones(3, np.float32))
    with pytest.raises(ad.GradientError):
        (x * 2.0).backward(np.ones(3, np.int64))


def test_a_seed_weighs_the_results():
    x = parameter()
    for _ in range(2):
        x.grad = None
        (x * x).backward(np.array([1.0, 10.0, 100.0]))
        np.testing.assert_allclose(x.grad, [2.0, 40.0, 600.0])


def test_a_scalar_may_be_seeded_by_a_number():
    x = parameter()
    for k in (1, 2.5):
        x.grad = None
        x.sum().backward(k)
        np.testing.assert_allclose(x.grad, [k] * 3)


def test_a_one_element_result_needs_no_seed():
    x = parameter([[3.0]])
    (x * x).backward()
    np.testing.assert_allclose(x.grad, [[6.0]])


def test_several_results_go_back_together():
    x = parameter()
    for _ in range(2):
        x.grad = None
        ad.backward([x.sum(), x * x], [None, np.ones(3)])
        np.testing.assert_allclose(x.grad, 1 + 2 * np.array([1.0, 2, 3]))


def test_as_many_seeds_as_results():
    x = parameter()
    with pytest.raises(ad.GradientError, match="2 tensors but 1 grad_tensors"):
        ad.backward([x.sum(), x.sum()], [None])


def test_backward_of_a_constant_is_an_error():
    with pytest.raises(ad.GradientError, match="does not require grad"):
        ad.tensor([1.0]).sum().backward()
    x = parameter()
    with ad.no_grad():
        y = x.sum()
    with pytest.raises(ad.GradientError, match="no_grad"):
        y.backward()


# ---------------------------------------------------------------- pickle and deepcopy


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda t: pickle.loads(pickle.dumps(t))])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_of_a_leaf_keep_value_dtype_and_requires_grad(duplicate, dtype):
    for flag in (True, False):
        t = ad.tensor([1.0, 2.0], dtype=dtype, requires_grad=flag)
        other = duplicate(t)
        assert other is not t and type(other) is type(t)
        assert (other.dtype, other.requires_grad, other.is_leaf) == (t.dtype, flag, True)
        np.testing.assert_array_equal(other.detach(), [1.0, 2.0])
        if flag:
            (other * other).sum().backward()
            assert t.grad is None and other.grad is not None


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, pickle.dumps])
def test_copies_of_a_tensor_with_history_are_refused_with_advice(duplicate):
    y = parameter() * 2.0
    with pytest.raises(ad.GradientError, match="detach"):
        duplicate(y)


def test_a_pickled_tensor_of_a_refined_class_comes_back_as_that_class():
    t = pickle.loads(pickle.dumps({"w": ad.tensor(np.ones((2, 2)), requires_grad=True)}))["w"]
    assert type(t) is ad.Tensor[ad.float64, 2]
    assert pickle.loads(pickle.dumps(ad.Tensor[ad.float32, 1])) is ad.Tensor[ad.float32, 1]


# ---------------------------------------------------------------- once, unless retained


@pytest.mark.parametrize("asked_before", [False, True])
def test_a_second_backward_is_an_error_whether_or_not_anything_was_saved(asked_before):
    x = parameter()
    for f in (lambda x: x.sum(), lambda x: (x * x).sum(), lambda x: (x + 1.0).sum()):
        y = f(x)
        if asked_before:
            y.item()
        y.backward()
        before = x.grad.numpy()
        for _ in range(2):
            with pytest.raises(ad.GradientError, match="retain_graph=True"):
                y.backward()
        np.testing.assert_array_equal(x.grad, before)


def test_a_retained_graph_goes_back_again_and_leaves_accumulate():
    x = parameter()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad, [6.0, 12.0, 18.0])
    with pytest.raises(ad.GradientError):
        y.backward()


def test_leaves_accumulate_across_calls():
    x = parameter()
    for k in range(1, 5):
        (x * 2.0).sum().backward()
        np.testing.assert_allclose(x.grad, [2.0 * k] * 3)


def test_create_graph_retains_and_gives_a_gradient_with_history():
    x = parameter()
    y = (x * x * x).sum()
    y.backward(create_graph=True)
    g = x.grad
    assert g.requires_grad
    x.grad = None
    g.sum().backward()
    np.testing.assert_allclose(x.grad, [6.0, 12.0, 18.0])


# ---------------------------------------------------------------- order and depth


def test_rules_run_in_reverse_order_of_creation():
    order = []

    def named(name):
        def backward(ctx, g):
            order.append(name)
            return g * 1.0

        return pair(lambda ctx, x: x * 1.0, backward)

    a, b, c = named("a"), named("b"), named("c")
    x = parameter()
    (b(a(x)) + c(x)).sum().backward()
    assert order == ["c", "b", "a"]


def test_a_chain_of_20000_nodes_is_recorded_differentiated_and_dropped_without_recursion():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        x = parameter([0.5, 0.25])
        y = x
        for _ in range(20_000):
            y = y + x
        y.sum().backward()
        np.testing.assert_array_equal(x.grad, [20_001.0, 20_001.0])
        y = x
        for _ in range(20_000):
            y = y + x
        del y
    finally:
        sys.setrecursionlimit(limit)


def test_a_diamond_is_gone_through_once_with_the_summed_cotangent():
    calls = []

    def backward(ctx, g):
        calls.append(1)
        return g * 2.0

    f = pair(lambda ctx, x: x * 2.0, backward)
    x = parameter()
    h = f(x)
    (h * 3.0 + h * 4.0).sum().backward()
    assert len(calls) == 1
    np.testing.assert_allclose(x.grad, [14.0] * 3)


def test_a_dropped_graph_is_freed_at_once_after_backward():
    gc.disable()
    try:
        x = parameter(np.ones(1000))
        y = ad.sin(x * 2.0).sum()
        y.backward()
        seen = weakref.ref(x.node.leaf)
        del x, y
        assert seen() is None
    finally:
        gc.enable()


# ---------------------------------------------------------------- all or nothing


def test_an_exception_in_a_rule_leaves_every_grad_and_keeps_its_type():
    a, b = parameter(), parameter()
    f = failing(KeyError)
    for _ in range(2):
        with pytest.raises(KeyError, match="boom"):
            (a.sum() + f(b).sum() + (a * 2.0).sum()).backward()
        assert a.grad is None and b.grad is None


def test_an_exception_in_a_rule_names_the_function_and_the_users_line():
    x = parameter()
    f = failing()
    y = f(x).sum()
    with pytest.raises(ZeroDivisionError) as caught:
        y.backward()
    notes = "\n".join(caught.value.__notes__)
    assert "f (backward at test_backward.py" in notes and "in test_an_exception_in_a_rule_names" in notes


def test_an_exception_restores_recording_mode_and_position():
    x = parameter()
    with pytest.raises(ZeroDivisionError):
        failing()(x).sum().backward()
    assert ad.is_grad_enabled()
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad, [2.0, 4.0, 6.0])


def test_a_failed_backward_can_be_done_again():
    x, broken = parameter(), [True]

    def backward(ctx, g):
        if broken[0]:
            raise OSError("not now")
        return g * 2.0

    f = pair(lambda ctx, x: x * 2.0, backward)
    y = f(x).sum()
    with pytest.raises(OSError, match="not now"):
        y.backward()
    broken[0] = False
    y.backward()
    np.testing.assert_allclose(x.grad, [2.0] * 3)


def test_a_raising_hook_leaves_every_grad():
    a, b = parameter(), parameter()

    def refuse(g):
        raise LookupError("no")

    y = a * b
    y.register_hook(refuse)
    with pytest.raises(LookupError) as caught:
        (y.sum() + a.sum()).backward()
    assert a.grad is None and b.grad is None
    assert "refuse" in "\n".join(caught.value.__notes__)
    assert "test_backward.py" in "\n".join(caught.value.__notes__)
    assert ad.is_grad_enabled()


def test_a_raising_post_accumulate_hook_leaves_the_committed_gradients():
    a, b = parameter(), parameter()

    def refuse(t):
        raise LookupError("late")

    a.register_post_accumulate_grad_hook(refuse)
    for k in (1, 2):
        with pytest.raises(LookupError, match="late") as caught:
            (a * 2.0 + b * 3.0).sum().backward()
        np.testing.assert_allclose(a.grad, [2.0 * k] * 3)
        np.testing.assert_allclose(b.grad, [3.0 * k] * 3)
        assert "refuse" in "\n".join(caught.value.__notes__)


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
    with pytest.raises(ad.ShapeError, match=r"f64\[3\].*f64\[4\]"):
        x.grad = ad.tensor(np.ones(4))
    with pytest.raises(ad.GradientError, match=r"f64\[3\].*f32\[3\]"):
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


def test_inputs_that_are_no_leaves_are_refused():
    a = parameter()
    y = a * 2.0
    with pytest.raises(ad.GradientError, match="inputs="):
        y.sum().backward(inputs=[y])


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


# ---------------------------------------------------------------- re-entrance and threads


def test_re_entrant_backward_200_deep():
    depth = [0]

    def backward(ctx, g):
        if depth[0] < 200:
            depth[0] += 1
            inner = ad.tensor([1.0], requires_grad=True)
            with ad.enable_grad():
                f(inner).sum().backward()
            assert inner.grad is not None
        return g * 2.0

    f = pair(lambda ctx, x: x * 2.0, backward)
    x = parameter()
    f(x).sum().backward()
    assert depth[0] == 200
    np.testing.assert_allclose(x.grad, [2.0] * 3)


def test_a_rule_may_call_backward_into_the_same_leaf():
    x = parameter()

    def backward(ctx, g):
        with ad.enable_grad():
            (x * 10.0).sum().backward()
        return g

    f = pair(lambda ctx, x: x * 1.0, backward)
    for k in range(1, 7):  # from the third on, the backward inside is a known one
        f(x).sum().backward()
        np.testing.assert_allclose(x.grad, [11.0 * k] * 3)


def test_four_threads_on_one_leaf_sum_exactly():
    x = parameter([1.0, 2.0])
    failures = []

    def work():
        try:
            for _ in range(1000):
                (x * 3.0).sum().backward()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[:1]
    np.testing.assert_array_equal(x.grad, [12000.0, 12000.0])


# ---------------------------------------------------------------- values at the edges of derivatives


@pytest.mark.parametrize("run", [lambda f: f, ad.jit])
def test_kinks_have_the_stated_values(run):
    def slope(f, x):
        return run(ad.grad(f))(np.asarray(x))

    assert slope(ad.abs, 0.0) == 0.0
    assert slope(lambda x: ad.sqrt(x), 0.0) == np.inf
    assert slope(lambda x: ad.clip(x, 0.0, 1.0), 0.0) == 1.0
    assert slope(lambda x: ad.clip(x, 0.0, 1.0), 1.0) == 1.0
    assert slope(lambda x: ad.clip(x, 0.0, 1.0), 1.5) == 0.0
    assert slope(lambda x: ad.where(x > 0, ad.log(x), 0.0), 0.0) == 0.0
    np.testing.assert_array_equal(slope(lambda x: x.max(), [1.0, 3.0, 3.0]), [0, 0.5, 0.5])
    np.testing.assert_array_equal(slope(lambda x: ad.maximum(x, 3.0).sum(), [1.0, 3.0, 4.0]), [0, 0.5, 1])


def test_a_known_backward_runs_no_rule():
    x = parameter()
    for i in range(4):
        x.grad = None
        (ad.sin(x) * x).sum().backward()
        if i == 1:
            rules = COUNTS.rules
    assert COUNTS.rules == rules
