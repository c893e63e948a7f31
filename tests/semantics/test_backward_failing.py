"""SEMANTICS 6: a backward that fails changes nothing; one inside of another, and in several threads."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from custom_functions import pair, parameter

import autodiff as ad


def failing(error=ZeroDivisionError):
    """A custom function whose backward raises."""

    def explode(ctx, g):
        raise error("boom")

    return pair(lambda ctx, x: x * 1.0, explode)


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
    assert "f (backward at test_backward_failing.py" in notes and "in test_an_exception_in_a_rule_names" in notes


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
    assert "test_backward_failing.py" in "\n".join(caught.value.__notes__)
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


@pytest.fixture
def hasty():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("size", [5, 100_000])
@pytest.mark.parametrize("way", ["backward", "grad"])
def test_of_two_threads_that_go_through_one_history_at_the_same_moment_one_gets_the_error(way, size, hasty):
    for trial in range(30):
        x = ad.tensor(np.linspace(0.0, 1.0, size), requires_grad=True)
        y = x
        for _ in range(1 + trial % 4):
            y = ad.sin(y) * y
        loss = y.sum()
        both = threading.Barrier(2)
        told = []

        def go(loss=loss, x=x, both=both, told=told):
            both.wait()
            try:
                loss.backward() if way == "backward" else ad.grad(loss, [x])
                told.append("")
            except Exception as error:
                told.append(f"{type(error).__name__}: {error}")

        threads = [threading.Thread(target=go) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert min(told) == "", told
        assert max(told).startswith("GradientError: second backward through the same graph"), told


def test_two_threads_that_keep_the_history_both_give_its_gradient(hasty):
    for _ in range(20):
        x = ad.tensor(np.linspace(0.0, 1.0, 1000), requires_grad=True)
        loss = (ad.sin(x) * x).sum()
        threads = [threading.Thread(target=loss.backward, kwargs={"retain_graph": True}) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = 2 * (np.cos(x.detach().numpy()) * x.detach().numpy() + np.sin(x.detach().numpy()))
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)
