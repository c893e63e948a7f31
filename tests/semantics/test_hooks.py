"""SEMANTICS 6: hooks on tensors, after accumulation, retained gradients, what made a tensor."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest
from custom_functions import parameter

import autodiff as ad

# ---------------------------------------------------------------- on tensors


@pytest.mark.smoke
def test_a_hook_gets_the_gradient_and_may_replace_it():
    x, seen = parameter(), []
    for _ in range(3):
        x.grad = None
        y = x * 2.0

        def halve(g):
            seen.append(g.numpy())
            return g * 0.5

        y.register_hook(halve)
        (y * 3.0).sum().backward()
        np.testing.assert_allclose(x.grad, [3.0] * 3)
    np.testing.assert_allclose(seen, np.full((3, 3), 3.0))


def test_a_hook_that_returns_none_keeps_the_gradient():
    x, seen = parameter(), []
    y = x * 2.0
    y.register_hook(lambda g: seen.append(1))
    y.sum().backward()
    np.testing.assert_allclose(x.grad, [2.0] * 3)
    assert seen == [1]


def test_hooks_run_in_order_of_registration():
    for t in (lambda x: x, lambda x: x * 1.0):
        x, order = parameter(), []
        y = t(x)
        y.register_hook(lambda g, o=order: o.append("a"))
        y.register_hook(lambda g, o=order: (o.append("b"), g * 2.0)[1])
        y.register_hook(lambda g, o=order: o.append(g.tolist()))
        (y * 1.0).sum().backward()
        assert order == ["a", "b", [2.0, 2.0, 2.0]]


def test_a_hook_on_a_leaf_sees_the_sum_over_all_uses():
    x, seen = parameter(), []
    x.register_hook(lambda g: seen.append(g.tolist()))
    for _ in range(2):
        (x * 2.0 + x * x).sum().backward()
    assert seen == [[4.0, 6.0, 8.0]] * 2


def test_a_hook_registered_after_its_tensor_was_used_is_called():
    x, seen = parameter(), []
    y = x * 2.0
    loss = (y * y).sum()
    y.register_hook(lambda g: (seen.append(g.tolist()), g * 10.0)[1])
    loss.backward()
    assert seen == [[4.0, 8.0, 12.0]]
    np.testing.assert_allclose(x.grad, [80.0, 160.0, 240.0])


def test_a_hook_registered_after_its_tensor_was_computed_is_called():
    x, seen = parameter(), []
    y = x * 2.0
    loss = (y * y).sum()
    loss.item()
    y.register_hook(lambda g: seen.append(1))
    assert y.detach().tolist() == [2.0, 4.0, 6.0]
    loss.backward()
    assert seen == [1]


def test_adding_or_removing_a_hook_between_two_runs_is_honoured_by_cached_code():
    x, calls = parameter(), []
    got = []
    handle = None
    for i in range(9):
        x.grad = None
        if i == 3:
            handle = x.register_hook(lambda g: (calls.append(1), g * 2.0)[1])
        if i == 6:
            handle.remove()
            handle.remove()
        ad.sin(x * 3.0).sum().backward()
        got.append(x.grad.numpy() / (3 * np.cos(3 * x.detach().numpy())))
    np.testing.assert_allclose([g[0] for g in got], [1, 1, 1, 2, 2, 2, 1, 1, 1])
    assert len(calls) == 3


def test_a_hook_that_removes_itself_leaves_nothing_in_the_cache():
    for leaf in (True, False):
        seen = []

        def backward(hook, leaf=leaf):
            x = parameter()
            y = x * 2.0
            (x if leaf else y).register_hook(hook)
            y.sum().backward()
            return x.grad.tolist()

        for _ in range(3):
            x = parameter()
            y = x * 2.0
            handles = []
            handles.append((x if leaf else y).register_hook(lambda g, h=handles: h[0].remove()))
            y.sum().backward()
            assert backward(lambda g, s=seen: (s.append(1), g * 3.0)[1]) == [6.0] * 3
        assert len(seen) == 3


def test_a_hook_on_an_inner_tensor_is_honoured_by_cached_code():
    x, calls = parameter(), []
    for i in range(9):
        x.grad = None
        y = x * 3.0
        if i % 3 == 2:
            y.register_hook(lambda g: (calls.append(1), g * 2.0)[1])
        ad.sin(y).sum().backward()
        factor = 2 if i % 3 == 2 else 1
        np.testing.assert_allclose(x.grad, factor * 3 * np.cos(3 * x.detach().numpy()))
    assert len(calls) == 3


@pytest.mark.parametrize("wrong", [np.ones(4), np.ones((3, 1)), np.ones(3, np.float32), 2.0])
def test_a_hook_that_changes_the_aval_is_an_error_that_names_both(wrong):
    x = parameter()

    def widen(g):
        return ad.asarray(wrong)

    x.register_hook(widen)
    with pytest.raises(ad.GradientError, match=r"'widen' \(registered at test_hooks.py.*f64\[3\] into f"):
        x.sum().backward()
    assert x.grad is None


def test_a_hook_that_returns_no_array_is_an_error():
    x = parameter()
    x.register_hook(lambda g: "gradient")
    with pytest.raises(ad.Error, match="hook"):
        x.sum().backward()
    assert x.grad is None


def test_a_hook_on_a_constant_is_an_error():
    with pytest.raises(ad.GradientError, match="requires grad"):
        ad.tensor([1.0]).register_hook(print)


def test_a_hook_registered_while_a_function_is_traced_or_differentiated_is_called():
    def f(x):
        y = x * 2.0
        y.register_hook(lambda g: g * 10.0)
        x.register_hook(lambda g: g + 1.0)
        return (y * y).sum()

    for run in (ad.grad(f), ad.jit(ad.grad(f)), ad.grad(ad.jit(f))):
        for _ in range(2):
            np.testing.assert_allclose(run(np.ones(2)), [81.0, 81.0])
    jitted, w = ad.jit(f), parameter(np.ones(2))
    for _ in range(2):
        w.grad = None
        jitted(w).backward()
        np.testing.assert_allclose(w.grad, [81.0, 81.0])


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("made", [ad.sin, ad.jit(ad.sin), lambda x: x[1:], lambda x: x])
def test_the_gradient_by_a_tensor_is_the_one_that_its_hooks_leave(made, create_graph):
    for _ in range(3):
        y = made(parameter())
        z = y * 3.0
        hook = y.register_hook(lambda g: g * 10.0)
        for factor in (10.0, 1.0):
            (found,) = ad.grad((z * z).sum(), [y], create_graph=create_graph, retain_graph=True)
            np.testing.assert_allclose(found.detach(), factor * 18.0 * y.detach().numpy())
            hook.remove()


@pytest.mark.parametrize("late", [lambda y: y.register_hook(lambda g: g), lambda y: y.retain_grad()])
def test_a_hook_may_join_another_one_after_the_backward_pass(late):
    y = parameter() * 2.0
    y.register_hook(lambda g: g)
    y.sum().backward()
    late(y)


def test_a_hook_on_one_of_several_outputs_of_a_custom_function_is_honoured():
    @ad.function
    def both(t): ...

    both.forward(ad.Tensor)(lambda ctx, t: (t * 1.0, t * 2.0))
    both.backward(ad.Tensor)(lambda ctx, a, b: a + 2.0 * b)
    x = parameter()
    for i in range(6):
        x.grad = None
        a, b = both(x)
        loss = (a * b).sum()
        if i % 2:
            b.register_hook(lambda g: g * 10.0)
        loss.backward()
        np.testing.assert_allclose(x.grad, (22.0 if i % 2 else 4.0) * np.array([1.0, 2.0, 3.0]))


def test_a_hook_may_ask_for_values():
    x = parameter()

    def clip(g):
        norm = float(ad.sqrt((g * g).sum()))
        return g * (1.0 / max(norm, 1.0))

    x.register_hook(clip)
    for k in (1.0, 100.0):
        x.grad = None
        (x * k).sum().backward()
        np.testing.assert_allclose(np.linalg.norm(x.grad.numpy()), 1.0)


def test_what_a_hook_computes_compiles_once():
    x = parameter(np.ones(10))
    for i in range(5):
        x.grad = None
        y = x * float(i)
        y.register_hook(lambda g: g * 0.5 + 1.0)
        ad.sin(y).sum().backward()
        if i == 1:
            compiles = ad.cache_info().compiles
    assert ad.cache_info().compiles == compiles


def test_a_hook_under_create_graph_is_differentiated_through():
    x = parameter()
    y = x * x
    y.register_hook(lambda g: g * x)
    g = ad.grad(y.sum(), x, create_graph=True)
    np.testing.assert_allclose(g.detach(), 2 * np.array([1.0, 2, 3]) ** 2)
    np.testing.assert_allclose(ad.grad(g.sum(), x), 4 * np.array([1.0, 2, 3]))


def test_a_hook_that_uses_a_tracking_tensor_leaves_a_plain_gradient():
    x = parameter()
    y = x * 2.0
    y.register_hook(lambda g: g * x)
    y.sum().backward()
    assert not x.grad.requires_grad


def test_a_hook_may_call_backward():
    x, z = parameter(), parameter()
    for _ in range(2):
        y = x * 2.0
        y.register_hook(lambda g: (z * z).sum().backward())
        y.sum().backward()
    np.testing.assert_allclose(x.grad, [4.0] * 3)
    np.testing.assert_allclose(z.grad, [4.0, 8.0, 12.0])


def test_hooks_nest_200_deep():
    depth = [0]

    def go_deeper(g):
        if depth[0] < 200:
            depth[0] += 1
            x = parameter()
            y = x * 1.0
            y.register_hook(go_deeper)
            y.sum().backward()
            assert x.grad is not None

    go_deeper(None)
    assert depth[0] == 200


AT_THE_END = """
import atexit, threading
import autodiff as ad

def nested(depth):
    x = ad.tensor(2.0, requires_grad=True)
    y = x * x
    if depth:
        y.register_hook(lambda g: (nested(depth - 1), g)[1])
    y.backward()
    if depth == 60:
        print(x.grad.item())

def after_the_main_thread():
    threading.main_thread().join()
    nested(60)

threading.Thread(target=after_the_main_thread).start()
atexit.register(nested, 60)
"""


def test_hooks_nest_when_the_main_thread_has_ended_and_at_exit(sharing):
    command = [sys.executable, "-c", AT_THE_END]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=sharing)
    assert (ran.stdout.split(), ran.stderr) == (["4.0", "4.0"], "")


def test_a_tensor_with_a_hook_is_freed_without_the_collector():
    gc.disable()
    try:
        x = parameter(np.ones(1000))
        y = x * 2.0
        y.register_hook(lambda g: None)
        y.retain_grad()
        y.sum().backward()
        seen = weakref.ref(x.node.leaf)
        del x, y
        assert seen() is None
    finally:
        gc.enable()


# ---------------------------------------------------------------- after accumulation


def test_post_accumulate_hooks_run_after_every_grad_is_written_in_order():
    a, b, seen = parameter(), parameter(), []
    a.register_post_accumulate_grad_hook(lambda t: seen.append(("a1", t.grad.tolist(), b.grad is not None)))
    a.register_post_accumulate_grad_hook(lambda t: seen.append(("a2", t is a)))
    b.register_post_accumulate_grad_hook(lambda t: seen.append(("b", t is b)))
    for k in (1.0, 2.0):
        seen.clear()
        (a * b).sum().backward()
        assert seen == [("a1", [k, 2 * k, 3 * k], True), ("a2", True), ("b", True)]


def test_a_post_accumulate_hook_may_update_its_leaf_and_drop_the_gradient():
    w = parameter()

    def step(t):
        with ad.no_grad():
            t -= 0.1 * t.grad
        t.grad = None

    w.register_post_accumulate_grad_hook(step)
    for _ in range(5):
        (w * w).sum().backward()
    np.testing.assert_allclose(w.detach(), np.array([1.0, 2, 3]) * 0.8**5)
    assert w.grad is None and w.is_leaf and w.requires_grad


def test_a_removed_post_accumulate_hook_is_not_called():
    x, seen = parameter(), []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append(1))
    for i in range(6):
        if i == 3:
            handle.remove()
        x.sum().backward()
    assert len(seen) == 3


def test_a_post_accumulate_hook_is_not_called_for_a_leaf_that_was_not_reached():
    a, b, seen = parameter(), parameter(), []
    b.register_post_accumulate_grad_hook(seen.append)
    a.sum().backward()
    (a + b).sum().backward(inputs=[a])
    assert seen == []


def test_a_post_accumulate_hook_outlives_the_handle_that_registered_it():
    seen = []
    for _ in range(5):  # once it is known, too
        x = parameter()
        x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
        y = x * 2.0
        del x
        y.sum().backward()
    assert seen == [[2.0, 2.0, 2.0]] * 5


def test_a_post_accumulate_hook_on_what_is_no_leaf_is_an_error():
    with pytest.raises(ad.GradientError, match="leaf"):
        (parameter() * 2.0).register_post_accumulate_grad_hook(print)


@pytest.mark.parametrize("room", [lambda y: y.register_hook(lambda g: None), lambda y: y.retain_grad()])
@pytest.mark.parametrize("is_early", [False, True])
def test_a_gradient_by_a_tensor_with_hooks_keeps_the_history_below_it(room, is_early):
    """Readers that were recorded before the hook, too, reach the tensor through a node of their own."""
    w = parameter()
    for _ in range(4):
        y, w.grad = w * 3.0, None
        if not is_early:
            room(y)
        first, second, third = ad.sum(y * 2.0), ad.sum(y * y), ad.sum(y)
        if is_early:
            room(y)
        np.testing.assert_array_equal(ad.grad(first, y), np.full(w.shape, 2.0))
        np.testing.assert_array_equal(ad.grad(second, y), 2.0 * y.detach().numpy())
        third.backward()
        np.testing.assert_array_equal(w.grad, np.full(w.shape, 3.0))
        with pytest.raises(ad.GradientError, match="second backward"):
            ad.grad(third, y)


def test_retain_grad_and_hooks_within_the_forward_of_a_function_are_no_changes_in_place():
    @ad.function
    def doubled(x): ...

    seen = []

    @doubled.forward(ad.Tensor)
    def _(ctx, x):
        x.retain_grad()
        x.register_hook(lambda g: seen.append(g.detach().numpy()))
        return x * 2.0

    @doubled.backward(ad.Tensor)
    def _(ctx, g):
        return g * 2.0

    w = parameter()
    for _ in range(3):
        w.grad = None
        ad.sum(doubled(w * 3.0)).backward()
        np.testing.assert_array_equal(w.grad, np.full(w.shape, 6.0))
        np.testing.assert_array_equal(seen.pop(), np.full(w.shape, 2.0))
