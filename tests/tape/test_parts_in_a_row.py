"""Parts that follow each other in the same way: values and gradients are those of one graph."""

import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from spied import try_at_the_first_time

import autodiff as ad


@pytest.fixture(autouse=True)
def at_the_first_time(monkeypatch, patience, native):
    """Recordings are taken apart at the first time already, by code that is compiled at once."""
    try_at_the_first_time(monkeypatch)
    monkeypatch.setattr("autodiff.tape.tier.prices.seconds", lambda count: 1e-9, raising=False)


@pytest.fixture
def whole(monkeypatch):
    """A context in which recordings are one graph each."""

    @contextmanager
    def one_graph():
        with monkeypatch.context() as patch:
            patch.setattr("autodiff.tape.parts.ending_of", lambda *_: None)
            yield

    return one_graph


def both(play, whole, *given):
    """The same in parts and as one graph."""
    found = play(*given)
    with whole():
        expected = play(*given)
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)
    return found


def start(seed=0, n=4):
    rng = np.random.default_rng(seed)
    return ad.tensor(rng.normal(size=(n, n)) / 2, requires_grad=True), ad.tensor(rng.normal(size=n), requires_grad=True)


def asked(length):
    w, v = start()
    state, total, chances = np.ones(4), 0.0, np.random.default_rng(length)
    for _ in range(length):
        y = v @ ad.tanh(w @ ad.tensor(state))
        sign = 1.0 if chances.random() < 1 / (1 + np.exp(-float(y))) else -1.0
        total = total + ad.log1p(ad.exp(-sign * y))
        state = np.roll(state, 1) * 0.9 + 0.1 * sign
    total.backward()
    return [w.grad.numpy(), v.grad.numpy(), total.detach().numpy()]


def carried(length):
    w, v = start()
    h, total = ad.tensor(np.ones(4)), 0.0
    for t in range(length):
        h = ad.tanh(w @ h + float(t) * 0.01)
        total = total + (v @ h) ** 2.0
    total.backward()
    return [w.grad.numpy(), v.grad.numpy(), h.detach().numpy(), total.detach().numpy()]


def two_states(length):
    """Two states that change places, each read twice."""
    w, v = start()
    a, b = v * 1.0, v * 0.5
    for _ in range(length):
        a, b = ad.sin(w @ b) + a * 0.1, a * b
    (a + b).sum().backward()
    return [w.grad.numpy(), v.grad.numpy()]


def with_an_old_gradient(length):
    w, v = start()
    ad.sum(w * 3.0).backward()
    h = v * 1.0
    for _ in range(length):
        h = ad.where(h > 0.0, ad.log(ad.abs(h) + 1.0), h * 0.5) + w @ h * 0.1
    h.sum().backward()
    return [w.grad.numpy(), v.grad.numpy()]


@pytest.mark.parametrize("play", [asked, carried, two_states, with_an_old_gradient])
def test_gradients_are_those_of_one_graph(play, whole, taken_apart):
    for length in (30, 41, 17, 52, 33, 30):
        both(play, whole, length)
    assert taken_apart and max(taken_apart) >= 10


def test_gradients_agree_with_differences(taken_apart):
    rng = np.random.default_rng(3)
    w0 = rng.normal(size=(3, 3)) / 2

    def loss(w, steps):
        h = ad.tensor(np.ones(3))
        for _ in range(steps):
            h = ad.tanh(w @ h + 0.1)
        return (h * h).sum()

    for steps in (25, 31, 38):
        w = ad.tensor(w0, requires_grad=True)
        loss(w, steps).backward()
        for i in range(3):
            dw = np.zeros((3, 3))
            dw[i, 0] = 1e-6
            with ad.no_grad():
                up, down = (float(loss(ad.tensor(w0 + d), steps)) for d in (dw, -dw))
            np.testing.assert_allclose(w.grad.numpy()[i, 0], (up - down) / 2e-6, rtol=1e-6, atol=1e-9)
    assert taken_apart


def test_retained_history_is_gone_through_again(taken_apart):
    for length in (30, 37, 44):
        w, v = start()
        h = v * 1.0
        for _ in range(length):
            h = ad.tanh(w @ h)
        loss = h.sum()
        loss.backward(retain_graph=True)
        once = w.grad.numpy().copy()
        loss.backward()
        np.testing.assert_allclose(w.grad.numpy(), 2.0 * once, rtol=1e-13)
        with pytest.raises(ad.GradientError, match="second backward"):
            loss.backward()
    assert taken_apart


def test_a_hook_in_the_middle_is_called(taken_apart):
    for length in (30, 37, 44):
        w, v = start()
        h, seen = v * 1.0, []
        for t in range(length):
            h = ad.tanh(w @ h)
            if t == length // 2:
                h.register_hook(lambda g, seen=seen: seen.append(g.numpy()) or g * 0.0)
        h.sum().backward()
        assert len(seen) == 1 and v.grad.tolist() == [0.0] * 4


def test_an_index_out_of_range_in_a_step_changes_nothing(taken_apart):
    x = ad.tensor(np.arange(4.0), requires_grad=True)
    for bad in (None, None, 20):
        total = 0.0
        for t in range(40):
            place = ad.tensor(np.array([9 if t == bad else t % 4])) + 0
            total = total + ad.sum(ad.take(x, place) * 0.5)
        if bad is None:
            x.grad = None
            total.backward()
            assert x.grad.tolist() == [5.0] * 4
        else:
            before = x.grad
            with pytest.raises(IndexError):
                total.backward()
            assert x.grad is before
    assert taken_apart


def test_memory_stays_flat(taken_apart):
    def counted():
        w, v = start()
        h = v * 1.0
        for _ in range(40):
            h = ad.tanh(w @ h)
        h.sum().backward()
        return [sys.getrefcount(o) for o in (w.node, w.node.kind, w.node.value, v.node.kind, None.__class__)]

    for _ in range(4):
        expected = counted()
    for _ in range(20):
        assert counted() == expected
    assert taken_apart


def test_threads_run_parts_beside_each_other(taken_apart):
    expected = {length: asked(length) for length in (20, 31, 45)}
    wrong = []

    def run(k):
        for length in (20, 31, 45, 31):
            for x, y in zip(asked(length), expected[length], strict=True):
                if not np.allclose(x, y, rtol=1e-10):
                    wrong.append((k, length))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(k,)) for k in range(3)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    finally:
        sys.setswitchinterval(interval)
    assert not wrong and taken_apart


def listed(length):
    """Values that do not read each other: asked for, then gone back through."""
    w, v = start()
    ys = [ad.log1p(ad.exp(v @ ad.tanh(w @ np.full(4, 0.1 * t)))) for t in range(length)]
    found = [y.item() for y in ys]
    (ad.stack(ys) * np.linspace(-1.0, 1.0, length)).sum().backward()
    return [np.array(found), w.grad.numpy(), v.grad.numpy()]


def listed_with_others(length):
    """Two values of each step, some of another sort, and one that all of them read, wanted too."""
    w, _ = start()
    shared = ad.sin(w).detach()
    ys, zs = [], []
    for t in range(length):
        h = shared @ np.full(4, 0.1 * t)
        ys.append(h.sum() if t % 7 else (h * h).sum())
        zs.append(ad.cos(h)[t % 4])
    return [np.array([y.item() for y in ys]), np.array([z.item() for z in zs]), shared.numpy()]


@pytest.mark.parametrize("play", [listed, listed_with_others])
def test_values_that_do_not_read_each_other_are_those_of_one_graph(play, whole, taken_apart):
    for length in (30, 41, 17, 52, 33, 30):
        both(play, whole, length)
    assert len([parts for parts in taken_apart if parts >= 15]) >= 5
