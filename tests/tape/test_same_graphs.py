"""Whoever records, Python or machine code: graphs are the same, so nothing is compiled when one takes over."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.ops import recorder
from autodiff.tape.cut import segments
from codegen.runtime.native import is_native

pytestmark = pytest.mark.skipif(not is_native(), reason="no native launcher here")

RNG = np.random.default_rng(0)


def tracked(*shape):
    return ad.tensor(RNG.normal(size=shape), requires_grad=True)


def descend(*parameters):
    with ad.no_grad():
        for p in parameters:
            p -= 0.05 * p.grad
            p.grad = None


def momentum_over_mini_batches():
    w, b = tracked(5, 4), tracked(4)
    velocity = {p: ad.zeros(p.shape) for p in (w, b)}
    total, x = ad.tensor(0.0), ad.tensor(RNG.normal(size=(64, 5)))
    for i in range(0, 64, 8):
        loss = ad.mean((x[i : i + 8] @ w + b) ** 2)
        loss.backward()
        with ad.no_grad():
            for p, v in velocity.items():
                v *= 0.9
                v += p.grad
                p -= 0.1 * v
                p.grad = None
        total += loss.detach()
    total.item()


def adam_with_powers_of_the_step():
    p, m, s = tracked(10), ad.zeros(10), ad.zeros(10)
    for t in range(1, 8):
        ad.sum(ad.exp(p) * ad.sin(p)).backward()
        with ad.no_grad():
            m, s = 0.9 * m + 0.1 * p.grad, 0.99 * s + 0.01 * p.grad * p.grad
            p -= 0.01 * (m / (1 - 0.9**t)) / (ad.sqrt(s / (1 - 0.99**t)) + 1e-8)
            p.grad = None
    p.detach().numpy()


def losses_looked_at():
    w = tracked(7)
    for _ in range(6):
        loss = ad.sum(ad.log_softmax(w) * np.arange(7.0))
        loss.item()
        loss.backward()
        w = (w - 0.1 * w.grad).detach().requires_grad_()


def arrays_and_numbers_of_numpy():
    w = tracked(3, 2)
    for _ in range(6):
        x, y = RNG.normal(size=(8, 3)), RNG.normal(size=8)
        h = ad.tanh(x @ w)
        (ad.mean((h[:, 0] * 2 - y) ** 2) + ad.sum(h[0]) * np.float64(0.5) + (3 * h).mean()).backward()
        descend(w)


def sequences_of_many_lengths():
    w = tracked(4, 4)
    for n in (3, 4, 5, 6, 5, 4, 3):
        h, losses = ad.zeros(4), []
        for t in range(n):
            h = ad.tanh(h @ w * 0.3 + np.full(4, t / 10))
            losses.append(ad.sum(h * h))
        (sum(losses) / n).backward()
        descend(w)


def rows_looked_up():
    e, b = tracked(20, 3), tracked(3)
    for _ in range(6):
        rows = RNG.integers(0, 20, 5)
        (ad.sum(ad.relu(e[rows] + b) ** 2) + ad.max(e[rows[0]]) - b[1]).backward()
        descend(e, b)


def parts_changed_in_place():
    w = tracked(5)
    for _ in range(6):
        y = ad.zeros(5)
        y[1:4] = w[1:4] * 2
        y += w
        y[0] = 1.0
        (ad.sum(y**2) + ad.stack([w, y]).sum() + ad.concatenate([w[:2], y[3:]]).mean()).backward()
        w.grad = None


def one_number():
    x = tracked()
    for i in range(8):
        y = x * x * i + 2**x - x / 3 + abs(x) - (-x) + x**2 + 1 / x
        y.backward()
        float(y.detach())
        descend(x)


def gradients_of_gradients():
    x = tracked(4)
    for _ in range(5):
        g = ad.grad(ad.sum(ad.sin(x) * x), x, create_graph=True)
        ad.sum(g * g).backward()
        x.grad = None


LOOPS = [
    momentum_over_mini_batches, adam_with_powers_of_the_step, losses_looked_at, arrays_and_numbers_of_numpy,
    sequences_of_many_lengths, rows_looked_up, parts_changed_in_place, one_number, gradients_of_gradients,
]  # fmt: skip


@pytest.fixture
def from_python(monkeypatch):
    """Python records, until the test says otherwise; as it was afterwards."""
    was_installed = recorder.is_installed()
    monkeypatch.setattr(ad.config, "patience", 0)
    recorder.uninstall()
    yield
    (recorder.install if was_installed else recorder.uninstall)()


@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
def test_machine_code_that_takes_over_compiles_nothing(from_python, loop):
    for _ in range(3):
        loop()
    before = ad.cache_info().compiles
    loop()
    assert ad.cache_info().compiles == before
    recorder.install()
    segments.clear()
    for _ in range(3):
        loop()
    assert ad.cache_info().compiles == before
