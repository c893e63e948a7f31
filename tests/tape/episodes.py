"""Episodes of a policy, of any length: for tests of recordings that are taken apart."""

import numpy as np

import autodiff as ad


def step_by_step(play, *given):
    """The result where every operation is evaluated at once, and every rule runs."""
    ad.config.eager = True
    try:
        return play(*given)
    finally:
        ad.config.eager = False


def policy(length, seed, asks=True, dtype=np.float64, keeps=False):
    """One episode of a two-layer policy: gradients, and what was kept on the way."""
    rng = np.random.default_rng(seed)
    w = ad.tensor((rng.normal(size=(5, 3)) / 2).astype(dtype), requires_grad=True)
    b = ad.tensor(np.zeros(5, dtype), requires_grad=True)
    v = ad.tensor((rng.normal(size=(2, 5)) / 2).astype(dtype), requires_grad=True)
    state, loss, kept = np.ones(3, dtype), 0.0, []
    for t in range(length):
        hidden = ad.tanh(w @ state + b)
        z = v @ hidden
        log_p = z - ad.logsumexp(z)
        action = int(rng.random() > np.exp(log_p.detach().numpy()[0])) if asks else t % 2
        loss = loss - log_p[action] * 0.99**t
        state = (np.roll(state, 1) * 0.9 + 0.1 * action).astype(dtype)
        if keeps:
            kept += [hidden, log_p]
    loss.backward()
    return [w.grad.numpy(), b.grad.numpy(), v.grad.numpy(), *[k.detach().numpy() for k in kept]]


def assert_all_close(found, expected, rtol=1e-12):
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * np.abs(y).max())
