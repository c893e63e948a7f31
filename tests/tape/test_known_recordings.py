"""A recording that is known is answered by machine code, and only that: see `autodiff.tape.known`."""

import threading

import numpy as np
import pytest

import autodiff as ad
from autodiff.tape import families, known, machine


class Spied:
    """Machine code of which it is noted whether it answered each ask, in order."""

    def __init__(self, asks, found):
        self.asks, self.found = asks, found

    def __getattr__(self, name):
        return getattr(self.asks, name)

    def ask(self, *given):
        found = self.asks.ask(*given)
        self.found.append(found is not None)
        return found


@pytest.fixture
def answers(native, monkeypatch):
    """True for each ask from now on that machine code answered, in order."""
    found = []
    ad.clear_cache()
    monkeypatch.setattr(machine, "asks", Spied(machine.asks, found))
    yield found
    ad.clear_cache()


def leaf(values=(1.0, 2.0, 3.0)):
    return ad.tensor(np.asarray(values, float), requires_grad=True)


def loss(w, b, x):
    return ad.sum(ad.exp(x * w * 0.1) + b)


def test_a_loop_is_accepted(answers):
    w, b, x = leaf(), leaf(), ad.tensor(np.ones(3))
    for _ in range(6):
        w.grad = b.grad = None
        loss(w, b, x).backward()
    assert answers[-2:] == [True, True]
    np.testing.assert_allclose(w.grad.numpy(), 0.1 * np.exp(0.1 * w.detach().numpy()))


def test_gradients_accumulate(answers):
    w, b, x = leaf(), leaf(), ad.tensor(np.ones(3))
    for _ in range(7):
        loss(w, b, x).backward()
    assert answers[-1]
    assert b.grad.tolist() == [7.0] * 3
    w.grad = None
    loss(w, b, x).backward()
    assert answers[-1] and b.grad.tolist() == [8.0] * 3
    held = w.grad, b.grad
    before = [g.tolist() for g in held]
    loss(w, b, x).backward()
    assert answers[-1] and b.grad.tolist() == [9.0] * 3
    assert [g.tolist() for g in held] == before  # each sum is another tensor


def test_other_leaves_are_accepted_and_the_same_leaf_twice_is_not(answers):
    w, b, x = leaf(), leaf(), ad.tensor(np.ones(3))
    for _ in range(5):
        w.grad = b.grad = None
        loss(w, b, x).backward()
    c, d = leaf((4.0, 5.0, 6.0)), leaf()
    loss(d, c, x).backward()
    assert answers[-1] and c.grad.tolist() == [1.0] * 3
    c.grad = None
    loss(c, c, x).backward()
    assert not answers[-1]
    np.testing.assert_allclose(c.grad.numpy(), 1 + 0.1 * np.exp(0.1 * c.detach().numpy()))


def test_hooks_are_seen(answers):
    w, b, x = leaf(), leaf(), ad.tensor(np.ones(3))
    for _ in range(5):
        w.grad = b.grad = None
        loss(w, b, x).backward()
    seen = []
    hook = b.register_hook(lambda g: g * 2)
    after = w.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    b.grad = None
    loss(w, b, x).backward()
    assert not answers[-1] and b.grad.tolist() == [2.0] * 3 and len(seen) == 1
    hook.remove()
    b.grad = w.grad = None
    loss(w, b, x).backward()
    assert answers[-1] and b.grad.tolist() == [1.0] * 3 and seen[-1] == w.grad.tolist()
    after.remove()


def test_a_second_backward_is_an_error(answers):
    w, b, x = leaf(), leaf(), ad.tensor(np.ones(3))
    for _ in range(5):
        y = loss(w, b, x)
        w.grad = b.grad = None
        y.backward()
    assert answers[-1]
    with pytest.raises(ad.GradientError, match="second backward"):
        y.backward()


def test_a_history_that_is_retained_can_be_gone_through_again(answers):
    w, b, x = leaf(), leaf(), ad.tensor(np.ones(3))
    for _ in range(5):
        y = loss(w, b, x)
        w.grad = b.grad = None
        y.backward(retain_graph=True)
        y.backward()
    assert b.grad.tolist() == [2.0] * 3
    with pytest.raises(ad.GradientError, match="second backward"):
        y.backward()


def test_live_results_decide(answers):
    w, b, x = leaf(), leaf(), ad.tensor(np.ones(3))
    kept = []
    for step in range(12):
        w.grad = b.grad = None
        hidden = ad.exp(x * w)
        metric = ad.sum(hidden)
        if step % 3 == 2:
            kept.append(metric)
        y = metric + ad.sum(b)
        del hidden, metric
        y.backward()
    assert answers.count(True) > 3
    assert all(m.node.value is not None for m in kept)


def test_values_are_asked_for_in_a_loop(answers):
    x = ad.tensor(np.ones(3))
    for step in range(8):
        y = ad.sum(ad.exp(x * float(step)))
        assert abs(y.tolist() - 3 * np.exp(step)) < 1e-9 * np.exp(step)
    assert answers[-1]


def test_a_boundary_is_asked_in_python(native):
    @ad.function
    def twice(x): ...

    @twice.forward(ad.Tensor)
    def _(ctx, x):
        return x * 2.0

    @twice.backward(ad.Tensor)
    def _(ctx, g):
        return g * 2.0

    w = leaf()
    for _ in range(6):
        w.grad = None
        ad.sum(twice(w) * w).backward()
    assert w.grad.tolist() == [4.0, 8.0, 12.0]


def test_one_gradient_for_two_leaves_is_in_two_places(way):
    a, b = leaf(), leaf()
    for _ in range(5):
        a.grad = b.grad = None
        ad.sum((a + b) * 3.0).backward()
    assert a.grad.tolist() == b.grad.tolist() == [3.0] * 3
    assert not np.shares_memory(a.grad.numpy(), b.grad.numpy())


def test_an_ask_that_machine_code_leaves_to_python_is_walked_over_twice_where_no_sizes_vary(native, monkeypatch):
    """By the ask, and by what Python reads of it: a form can be found by its hash once there is one of any size."""
    walks = []

    def described(*given):
        walks.append(given)
        return machine_described(*given)

    machine_described = known.described
    monkeypatch.setattr(known, "described", described)
    monkeypatch.setattr(families._answered_forms, "any", False)
    w, b, g = leaf(), leaf(), ad.tensor(np.ones(3))
    for _ in range(5):
        w.grad = b.grad = None
        walks.clear()
        (ad.sin(w) + b).backward(g)  # the gradient of b is no result of its own
    assert len(walks) == 1 and b.grad.tolist() == [1.0] * 3


def test_gradients_of_one_leaf_from_several_threads_add_up(way):
    w, b, x = leaf(), leaf(), ad.tensor(np.ones(3))

    def work():
        for _ in range(100):
            loss(w, b, x).backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert b.grad.tolist() == [400.0] * 3


def test_an_index_out_of_range_in_a_known_run_names_the_line(way):
    x = leaf()
    for k in (0, 1, 2, 0):
        x.grad = None
        ad.sum(ad.take(x, ad.tensor([k]))).backward()
    x.grad = None
    with pytest.raises(IndexError, match=r"test_known_recordings\.py"):
        ad.sum(ad.take(x, ad.tensor([7]))).backward()
    assert x.grad is None
