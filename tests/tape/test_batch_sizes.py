"""A training step at many batch sizes: what another size costs."""

import numpy as np
import pytest
from work_done import work

import autodiff as ad


def step(weights, x, y, activation):
    """One gradient of a small network; what is left of it are numbers."""
    w1, b1, w2 = weights
    z = activation(x @ w1 + b1) @ w2
    loss = ad.mean((z - y) ** 2)
    loss.backward()
    found = [w.grad.numpy().copy() for w in weights]
    for w in weights:
        w.grad = None
    return loss.item(), found


def by_hand(weights, x, y, activation):
    w1, b1, w2 = (w.detach().numpy() for w in weights)
    z = x @ w1 + b1
    h, slope = (np.tanh(z), 1 - np.tanh(z) ** 2) if activation is ad.tanh else (np.maximum(z, 0), z > 0)
    error = h @ w2 - y
    z_bar = 2 * error / error.size
    a_bar = z_bar @ w2.T * slope
    return np.mean(error**2), [x.T @ a_bar, a_bar.sum(axis=0), h.T @ z_bar]


@pytest.mark.parametrize("activation", [ad.tanh, ad.relu])
def test_any_batch_sizes_run_llvm_three_times_at_most(monkeypatch, activation):
    monkeypatch.setattr(ad.config, "patience", 0)
    rng = np.random.default_rng(7)
    weights = [ad.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((3, 17), (17,), (17, 2))]
    before = work().modules
    sizes = [*range(1, 70), *rng.integers(70, 10_000, size=100), 100, 128, 129, 255, 963, 964, 1926, 1927, 4096, 8191]
    for n in (32, *rng.permutation(sizes)):
        x, y = rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
        loss, gradients = step(weights, ad.tensor(x), ad.tensor(y), activation)
        expected, right = by_hand(weights, x, y, activation)
        np.testing.assert_allclose(loss, expected, rtol=1e-12)
        for ours, theirs in zip(gradients, right, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-13)
    assert work().modules - before <= 3
