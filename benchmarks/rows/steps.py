"""A loop of tiny steps: 1,000 steps of Newton's law of cooling for four numbers, value and gradient in the rate."""

import numpy as np

TITLE = "scan, 1,000 steps of four numbers"
CASES = ["f64"]
ARGNUMS = (0, 1)
STEPS = 1000


def inputs(case):
    return np.array(0.7), np.linspace(1.0, 2.0, 4)


def ours(*arrays):
    import peers

    import autodiff as ad

    def program(_, rate, start):
        last, _ = ad.scan(lambda x, t: (x - 0.001 * rate * ad.sin(x), 0.0), start, length=STEPS)
        return ad.sum(last)

    return peers.ours(program, ARGNUMS, arrays)


def jax(*arrays):
    import jax as j
    import peers

    def program(lib, rate, start):
        last, _ = j.lax.scan(lambda x, t: (x - 0.001 * rate * lib.sin(x), None), start, length=STEPS)
        return lib.sum(last)

    return peers.jax(program, ARGNUMS, arrays)


def torch(*arrays):
    import peers

    def program(lib, rate, x):
        for _ in range(STEPS):
            x = x - 0.001 * rate * lib.sin(x)
        return x.sum()

    return peers.torch(program, ARGNUMS, arrays)


def _by_hand(rate, start):
    states = np.empty((STEPS, len(start)))
    x = start
    for t in range(STEPS):
        states[t] = x
        x = x - 0.001 * rate * np.sin(x)
    g, of_rate = np.ones_like(start), 0.0
    for t in range(STEPS):
        x_t = states[STEPS - 1 - t]
        of_rate -= 0.001 * np.sum(g * np.sin(x_t))
        g = g * (1 - 0.001 * rate * np.cos(x_t))
    return np.sum(x), of_rate, g


def numpy(rate, start):
    return lambda: _by_hand(rate, start)


def numba(rate, start):
    import numba as nb

    run = nb.njit(fastmath=True)(_by_hand)
    return lambda: run(float(rate), start)
