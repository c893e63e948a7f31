"""Functions under `jit` that close over a parameter, whose gradient is lost."""

import numpy as np

import autodiff as ad


def parameter():
    return ad.tensor(np.ones(3), requires_grad=True)


def summed(w):
    @ad.jit
    def f(x):
        return (w * x).sum()

    return f


def product(w):
    @ad.jit
    def f(x):
        return w * x

    return f
