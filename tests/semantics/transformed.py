"""Functions that transformations are tried on."""

from __future__ import annotations

import numpy as np

import autodiff as ad

RNG = np.random.default_rng(3)
X = RNG.uniform(0.5, 1.5, size=4)
A = RNG.normal(size=(3, 4))


@ad.function
def cube(t): ...


@cube.forward
def _(ctx, t: ad.Tensor):
    square = t * t
    ctx.save_for_backward(t=t, square=square)
    return square * t


@cube.backward
def _(ctx, g):
    return g * (ctx.saved_variables.square * 3.0)


def close(a, b, rtol=1e-9):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-12)
