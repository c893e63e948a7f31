"""Recording of a thousand operations, of which the program evaluates one.  Peers compute all of them, in one call each;
PyTorch also records them for gradients.

products            products of two arrays of 100
slices and sums     X[i : i + 32].sum(axis=0), 500 slices and 500 sums"""

import numpy as np
from precision import wider

TITLE = "1,000 operations recorded"
CASES = ["products, n = 100 f64", "slices and sums, 128 x 20 f64"]
ARGNUMS = ()
WITHOUT = ("autograd",)
COPIES = True


def inputs(case):
    if "products" in case:
        return np.linspace(-1.0, 1.0, 100), np.linspace(0.5, 2.0, 100)
    return np.linspace(-1.0, 1.0, 2560).reshape(128, 20), np.ones(20)


def _thousand(a, b):
    if a.ndim == 1:
        for _ in range(999):
            a * b
        return a * b
    for i in range(499):
        a[i % 96 : i % 96 + 32].sum(axis=0)
    return a[7:39].sum(axis=0)


def ours(x, w):
    import autodiff as ad

    a, b = ad.tensor(x, requires_grad=True), ad.tensor(w)
    return lambda: (_thousand(a, b).detach().numpy(), [])


def numpy(x, w):
    return lambda: (_thousand(x, w), [])


def reference(x, w):
    return numpy(wider(x), wider(w))


def torch(x, w):
    import torch as t

    a, b = t.tensor(x, requires_grad=True), t.tensor(w)
    return lambda: (_thousand(a, b).detach().numpy(), [])


def jax(x, w):
    import jax as j

    j.config.update("jax_enable_x64", True)
    a, b = j.numpy.asarray(x), j.numpy.asarray(w)
    return lambda: (np.asarray(_thousand(a, b)), [])
