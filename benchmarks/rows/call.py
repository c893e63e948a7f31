"""A call of a compiled function of three small arrays: x·y + z, n = 8.  NumPy and PyTorch compute it in two calls."""

import numpy as np

TITLE = "jit call, three arrays"
CASES = ["n = 8 f64"]
ARGNUMS = ()
WITHOUT = ("autograd",)


def inputs(case):
    return np.linspace(-1.0, 1.0, 8), np.linspace(0.5, 2.0, 8), np.ones(8)


def _program(x, y, z):
    return x * y + z


def ours(x, y, z):
    import autodiff as ad

    f = ad.jit(_program)
    return lambda: (f(x, y, z), [])


def numpy(x, y, z):
    return lambda: (_program(x, y, z), [])


def torch(x, y, z):
    import torch as t

    return lambda: (_program(t.from_numpy(x), t.from_numpy(y), t.from_numpy(z)).numpy(), [])


def jax(x, y, z):
    import jax as j

    j.config.update("jax_enable_x64", True)
    f = j.jit(_program)
    return lambda: (np.asarray(f(x, y, z)), [])
