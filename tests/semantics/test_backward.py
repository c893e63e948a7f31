"""SEMANTICS 6: the backward engine.  Seeds, accumulation, order, errors, grad of tensors, depth, threads."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref

import numpy as np
import pytest
from custom_functions import pair, parameter
from work_done import work

import autodiff as ad

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


@pytest.mark.smoke
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
    with pytest.raises(ad.GradientError, match="2 tensors but 1 grad_tensors"):
        ad.backward([x.sum(), x.sum()], x.detach())
    with pytest.raises(ad.GradientError, match="2 tensors but 1 grad_outputs"):
        ad.grad([x.sum(), x.sum()], x, np.ones(3))


def test_the_seed_of_a_list_of_one_result_may_stand_by_itself():
    for seed in (np.array([1.0, 10.0, 100.0]), ad.tensor([1.0, 10.0, 100.0])):
        x = parameter()
        ad.backward([x * 2], seed)
        np.testing.assert_array_equal(x.grad, [2.0, 20.0, 200.0])
        np.testing.assert_array_equal(ad.grad([x * 2], [x], seed)[0], [2.0, 20.0, 200.0])


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


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickle.dumps])
def test_copies_of_a_tensor_with_history_are_refused_with_advice(duplicate):
    y = parameter() * 2.0
    with pytest.raises(ad.GradientError, match=r"called at test_backward.py:\d+, in test_copies.*\n.*t.detach\(\)"):
        duplicate(y)


def test_copy_of_a_tensor_with_history_has_the_same_history():
    x = parameter()
    y = x * 2.0
    other = copy.copy(y)
    assert other is not y
    other += 1.0  # another handle: y stays as it is
    np.testing.assert_array_equal(y.detach(), 2.0 * x.detach())
    other.sum().backward()
    np.testing.assert_array_equal(x.grad, np.full(x.shape, 2.0))


def test_a_pickled_tensor_of_a_refined_class_comes_back_as_that_class():
    t = pickle.loads(pickle.dumps({"w": ad.tensor(np.ones((2, 2)), requires_grad=True)}))["w"]
    assert type(t) is ad.Tensor[ad.float64, 2]
    assert pickle.loads(pickle.dumps(ad.Tensor[ad.float32, 1])) is ad.Tensor[ad.float32, 1]


# ---------------------------------------------------------------- once, unless retained


@pytest.mark.smoke
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


# ---------------------------------------------------------------- values at the edges of derivatives


#: A function, a point, and the derivative there that is decided on.
KINKS = {
    "abs": (ad.abs, 0.0, 0.0),
    "sqrt": (ad.sqrt, 0.0, np.inf),
    "clip at its lower edge": (lambda x: ad.clip(x, 0.0, 1.0), 0.0, 1.0),
    "clip at its upper edge": (lambda x: ad.clip(x, 0.0, 1.0), 1.0, 1.0),
    "clip outside": (lambda x: ad.clip(x, 0.0, 1.0), 1.5, 0.0),
    "norm": (ad.linalg.norm, [0.0, 0.0], [0.0, 0.0]),
    "maximum": (lambda x: ad.maximum(x, 1.0), 1.0, 0.5),
    "minimum": (lambda x: ad.minimum(1.0, x), 1.0, 0.5),
    "maximum of two": (lambda x: ad.maximum(x[0], x[1]), [2.0, 2.0], [0.5, 0.5]),
    "max": (ad.max, [1.0, 3.0, 3.0, 3.0], [0.0, 1 / 3, 1 / 3, 1 / 3]),
    "min of columns": (lambda x: ad.min(x, axis=0).sum(), [[1.0, 2.0], [1.0, 3.0]], [[0.5, 1.0], [0.5, 0.0]]),
    "where": (lambda x: ad.where(x > 0, ad.log(x), 0.0), 0.0, 0.0),
}


@pytest.mark.parametrize("run", [lambda f: f, ad.jit], ids=["recorded", "compiled"])
@pytest.mark.parametrize("name", KINKS)
def test_kinks_have_the_stated_values(name, run):
    f, x, slope = KINKS[name]
    g = run(ad.grad(f))
    for _ in range(3):
        np.testing.assert_array_equal(g(np.asarray(x)), slope)


def test_a_known_backward_runs_no_rule():
    x = parameter()
    for i in range(4):
        x.grad = None
        (ad.sin(x) * x).sum().backward()
        if i == 1:
            rules = work().rules
    assert work().rules == rules
