"""A Kalman filter over 500 observations, which solves a small system in each step: the negative log likelihood, and its
gradient in the transition and the noise."""

import numpy as np
from targets import faster

TITLE = "Kalman filter, 500 steps"
CASES = ["4 states", "8 states"]
TARGETS = [faster(4, "jax")]
ARGNUMS = (0, 1)


def inputs(case):
    n = int(case.split()[0])
    m = n // 2
    rng = np.random.default_rng(0)
    transition = 0.9 * np.eye(n) + 0.1 * rng.normal(size=(n, n)) / n
    return transition, np.array(-1.0), rng.normal(size=(m, n)), rng.normal(size=(500, m))


def _step(solve, transition, noise, watch, state, z):
    """The state after an observation, and the observation's part of the cost, without the determinant."""
    x, p = state
    x = transition @ x
    p = transition @ p @ transition.T + noise
    apart = z - watch @ x
    spread = watch @ p @ watch.T + _identity(watch)
    gain = solve(spread, watch @ p).T
    cost = 0.5 * (apart * solve(spread, apart[:, None])[:, 0]).sum()
    return (x + gain @ apart, p - gain @ watch @ p), cost


def _identity(watch):
    return np.eye(watch.shape[0])


def _program(exp, solve, scan):
    def program(lib, transition, log_noise, watch, seen):
        n = watch.shape[1]
        noise = exp(log_noise) * np.eye(n)

        def step(state, z):
            return _step(solve, transition, noise, watch, state, z)

        _, costs = scan(step, (np.zeros(n), np.eye(n)), seen)
        return costs.sum()

    return program


def ours(*arrays):
    import peers

    import autodiff as ad

    return peers.ours(_program(ad.exp, ad.linalg.solve, ad.scan), ARGNUMS, arrays)


def jax(*arrays):
    import jax
    import jax.numpy as jnp
    import peers

    return peers.jax(_program(jnp.exp, jnp.linalg.solve, jax.lax.scan), ARGNUMS, arrays)
