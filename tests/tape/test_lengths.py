"""Loops of fixed length are compiled whole, in their first two steps; those whose length changes are run in parts."""

import numpy as np
import pytest
from spied import tell_of_exact_keys, uncompared

import autodiff as ad

pytestmark = pytest.mark.usefixtures("patience")


def parameters(number, n=8):
    rng = np.random.default_rng(number)
    return [ad.tensor(rng.normal(size=(n, n)) / n, requires_grad=True) for _ in range(number)]


def elementwise():
    """Fifty operations, ten times the same five."""
    x, w, v = (ad.tensor(np.linspace(0.1, 1.0, 20) * k, requires_grad=True) for k in (1, 2, 3))

    def step():
        y = x
        for i in range(10):
            y = (y * w + v - x * 0.5) * (0.1 * (i + 1))
        ad.sum(y).backward()
        found = [t.grad.numpy() for t in (x, w, v)]
        x.grad = w.grad = v.grad = None
        return found

    return step


def perceptron():
    """Twelve layers alike, updated in place."""
    weights = parameters(12)
    data = np.ones((4, 8))

    def step():
        h = ad.tensor(data)
        for w in weights:
            h = ad.tanh(h @ w)
        loss = (h * h).mean()
        loss.backward()
        with ad.no_grad():
            for w in weights:
                w -= 0.01 * w.grad
                w.grad = None
        return loss.item()

    return step


def recurrent(steps=20):
    """A state that goes through one layer again and again."""
    (w,) = parameters(1)

    def step(steps=steps):
        h = ad.tensor(np.ones((4, 8)))
        for _ in range(steps):
            h = ad.tanh(h @ w + 0.1)
        (h * h).mean().backward()
        found, w.grad = w.grad.numpy(), None
        return found

    return step


@pytest.mark.parametrize("loop", [elementwise, perceptron, recurrent])
def test_a_loop_of_fixed_length_compiles_in_its_first_steps_only(taken_apart, loop):
    step = loop()
    for _ in range(4):
        step()
    before = ad.cache_info().compiles
    for _ in range(12):
        step()
    assert ad.cache_info().compiles == before
    assert taken_apart == []


@uncompared
@pytest.mark.parametrize("loop", [elementwise, perceptron, recurrent])
def test_a_loop_of_fixed_length_is_answered_by_one_check(monkeypatch, loop):
    step = loop()
    for _ in range(6):
        step()

    def looked_at():
        raise AssertionError("a recording was compared by its key")

    tell_of_exact_keys(monkeypatch, looked_at)
    for _ in range(3):
        step()


def test_a_loop_of_many_operations_is_compiled_whole_when_it_comes_again(taken_apart):
    step = recurrent(120)
    found = [step() for _ in range(6)]
    assert not taken_apart  # nor the first time: it is evaluated as it is
    before = ad.cache_info().compiles
    step()
    assert ad.cache_info().compiles == before
    for f in found:
        np.testing.assert_allclose(f, found[0], rtol=1e-12)


def test_from_the_second_length_on_a_loop_is_run_in_parts(taken_apart):
    step = recurrent()
    for steps in (20, 30, 25, 41, 33, 28):
        found = step(steps)
        ad.config.eager = True
        np.testing.assert_allclose(found, step(steps), rtol=1e-12)
        ad.config.eager = False
    assert len(taken_apart) == 5


def test_what_an_earlier_recording_left_is_computed_whatever_its_length():
    def chain(steps):
        y = x
        for _ in range(steps):
            y = y * 0.5
        return y

    x = ad.tensor(np.ones(5000))
    for steps in (13, 14):  # from now on the lengths of such recordings vary
        chain(steps).numpy()
    for steps in (4, 13):
        y = chain(steps)
        assert (ad.tensor(np.ones(3)) * 2.0).numpy().sum() == 6.0  # the recording ends; y is pending, and large
        assert (y + 1.0).numpy()[0] == 1.0 + 0.5**steps
