"""Linear systems, one or many: the sum of squares of the solutions, and its gradient in matrices and right sides."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "linear systems, value and gradient"
#: How many, and their rows.
CASES = ["1 of 4", "1 of 50", "1 of 200", "10000 of 4", "500 of 16"]
TARGETS = [faster(1, "jax"), faster(1, "torch"), faster(1, "numpy")]
ARGNUMS = (0, 1)


def inputs(case):
    many, n = map(int, case.split(" of "))
    rng = np.random.default_rng(0)
    shape = (many, n) if many > 1 else (n,)
    return rng.normal(size=(*shape, n)) + 2 * np.sqrt(n) * np.eye(n), rng.normal(size=(*shape, 1))


def program(lib, a, b):
    return (lib.linalg.solve(a, b) ** 2).sum()


def numpy(a, b):
    def run():
        x = np.linalg.solve(a, b)
        b_bar = np.linalg.solve(a.swapaxes(-1, -2), 2 * x)
        return (x * x).sum(), [-b_bar @ x.swapaxes(-1, -2), b_bar]

    return run


def reference(a, b):
    """With x87 numbers: systems that are nearly singular lose some digits in any order of additions."""

    def run():
        wide, side = wider(a), wider(b)
        x = _solved(wide, side)
        b_bar = _solved(wide.swapaxes(-1, -2), 2 * x)
        return (x * x).sum(), [-b_bar @ x.swapaxes(-1, -2), b_bar]

    return run


def _solved(a, b):
    """Gauss's elimination by rows of largest pivots, which NumPy's own has for doubles alone."""
    n, shape = a.shape[-1], b.shape
    rows = np.concatenate([a, b], -1).reshape(-1, n, n + shape[-1])
    each = np.arange(len(rows))
    for c in range(n):
        pivot = c + np.argmax(abs(rows[:, c:, c]), 1)
        chosen = rows[each, pivot]
        rows[each, pivot] = rows[:, c]
        rows[:, c] = chosen / chosen[:, c, None]
        factors = rows[:, :, c].copy()
        factors[:, c] = 0
        rows -= factors[:, :, None] * rows[:, c, None]
    return rows[:, :, n:].reshape(shape)
