"""Unrolled Python loops, whose steps read one row of an array each, or the same elements of a parameter array."""

import numpy as np
from targets import faster

TITLE = "loops written out, value and gradient"
TARGETS = [faster(5, "jax")]
STEPS = 60


def _recurrence(lib, x, w):
    h = w * 0.0
    for t in range(len(x)):
        h = lib.tanh(h * w + x[t])
    return lib.sum(h)


def _orbit(lib, p):
    """The Lotka-Volterra equations, integrated by Euler's method."""
    x, y = p[0] * 0 + 1.0, p[0] * 0 + 1.0
    for _ in range(STEPS):
        x, y = x + 0.01 * (p[0] * x - p[1] * x * y), y + 0.01 * (p[2] * x * y - p[3] * y)
    return x + y


_CASES = {
    f"recurrence of {STEPS} rows of 16, f64": (
        _recurrence, (np.random.default_rng(0).normal(size=(STEPS, 16)), np.linspace(0.1, 0.9, 16))
    ),
    f"orbit of {STEPS} steps, four parameters, f64": (_orbit, (np.array([1.0, 0.5, 0.3, 0.2]),)),
}  # fmt: skip
CASES = [*_CASES]


def inputs(case):
    return (case, *_CASES[case][1])


def ours(case, *arrays):
    import peers

    return peers.ours(_CASES[case][0], range(len(arrays)), arrays)


def jax(case, *arrays):
    import peers

    return peers.jax(_CASES[case][0], range(len(arrays)), arrays)


def torch(case, *arrays):
    import peers

    return peers.torch(_CASES[case][0], range(len(arrays)), arrays)
