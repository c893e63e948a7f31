"""Linear systems, one or many: the sum of squares of the solutions, and its gradient in matrices and right sides."""

import numpy as np
from precision import solved, wider
from targets import faster

TITLE = "linear systems, value and gradient"
#: The number of matrices, and the number of rows of each.
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
    """The solutions in x87 numbers: nearly singular systems lose some digits of f64 in any order of additions."""

    def run():
        wide, side = wider(a), wider(b)
        x = solved(wide, side)
        b_bar = solved(wide.swapaxes(-1, -2), 2 * x)
        return (x * x).sum(), [-b_bar @ x.swapaxes(-1, -2), b_bar]

    return run

