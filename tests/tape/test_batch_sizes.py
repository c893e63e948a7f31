"""A training step at many batch sizes: what another size costs."""

import numpy as np

import autodiff as ad
from codegen import compiler


def step(weights, x, y):
    """One gradient of a small network; what is left of it are numbers."""
    w1, b1, w2 = weights
    z = ad.tanh(x @ w1 + b1) @ w2
    loss = ad.mean((z - y) ** 2)
    loss.backward()
    found = [w.grad.numpy().copy() for w in weights]
    for w in weights:
        w.grad = None
    return loss.item(), found


def by_hand(weights, x, y):
    w1, b1, w2 = (w.detach().numpy() for w in weights)
    h = np.tanh(x @ w1 + b1)
    error = h @ w2 - y
    z_bar = 2 * error / error.size
    a_bar = z_bar @ w2.T * (1 - h * h)
    return np.mean(error**2), [x.T @ a_bar, a_bar.sum(axis=0), h.T @ z_bar]


def test_batch_sizes_up_to_ten_thousand_run_llvm_three_times_at_most(monkeypatch):
    monkeypatch.setattr(ad.config, "patience", 0)
    rng = np.random.default_rng(7)
    weights = [ad.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((3, 17), (17,), (17, 2))]
    before = compiler.counts().modules
    small = (33, 34, 40, 63, 64, 65, 100, 128, 129, 255, 500, 963, 964, 1000)
    for n in (*small, 1926, 1927, 2891, 4096, 5000, 8191, 10_000):
        x, y = rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
        loss, gradients = step(weights, ad.tensor(x), ad.tensor(y))
        expected, right = by_hand(weights, x, y)
        np.testing.assert_allclose(loss, expected, rtol=1e-12)
        for ours, theirs in zip(gradients, right, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-13)
    assert compiler.counts().modules - before <= 3
