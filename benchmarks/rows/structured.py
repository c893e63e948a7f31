"""A diagonal matrix times a matrix, 2000 x 2000 by 2000 x 200: sum of squares and gradient of the diagonal, with the
type Diagonal, or as a dense matrix (`dense`).  Peers multiply rows, as a user would by hand."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "Diagonal @ X, n = 2000, m = 200"
CASES = ["f64"]
ARGNUMS = (0,)
TARGETS = [faster(10, "dense"), faster(1, "numpy")]
COPIES = True


def inputs(case):
    rng = np.random.default_rng(0)
    return rng.normal(size=2000), rng.normal(size=(2000, 200))


def program(lib, d, x):
    return lib.sum((d[:, None] * x) ** 2)


def _product(ad):
    return ad.jit(ad.value_and_grad(lambda d, x: ad.sum((d @ x) ** 2)))


def ours(d, x):
    import autodiff as ad

    f, given = _product(ad), ad.Diagonal(d)

    def run():
        value, gradient = f(given, x)
        return value, np.asarray(gradient.diagonal)

    return run


def dense(d, x):
    import autodiff as ad

    f, given = _product(ad), np.diag(d)

    def run():
        value, gradient = f(given, x)
        return value, gradient.diagonal()

    return run


def numpy(d, x):
    def run():
        y = d[:, None] * x
        return np.sum(y * y), 2 * np.einsum("ij,ij->i", y, x)

    return run


def reference(d, x):
    return numpy(wider(d), wider(x))
