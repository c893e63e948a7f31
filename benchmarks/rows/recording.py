"""Recording: a thousand products of arrays of 100, of which one is asked for.  Peers compute all of them, one call
each; PyTorch records for gradients as well."""

import numpy as np

TITLE = "1,000 operations recorded"
CASES = ["n = 100 f64"]
ARGNUMS = ()
WITHOUT = ("autograd",)


def inputs(case):
    return np.linspace(-1.0, 1.0, 100), np.linspace(0.5, 2.0, 100)


def _thousand(a, b):
    for _ in range(999):
        a * b
    return a * b


def ours(x, w):
    import autodiff as ad

    a, b = ad.tensor(x, requires_grad=True), ad.tensor(w)
    return lambda: (_thousand(a, b).detach().numpy(), [])


def numpy(x, w):
    return lambda: (_thousand(x, w), [])


def torch(x, w):
    import torch as t

    a, b = t.tensor(x, requires_grad=True), t.tensor(w)
    return lambda: (_thousand(a, b).detach().numpy(), [])


def jax(x, w):
    import jax as j

    j.config.update("jax_enable_x64", True)
    a, b = j.numpy.asarray(x), j.numpy.asarray(w)
    return lambda: (np.asarray(_thousand(a, b)), [])
