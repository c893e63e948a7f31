"""The loss of a regression, as a custom function, and random numbers for it."""

from __future__ import annotations

import numpy as np

import autodiff as ad

RNG = np.random.default_rng(5)


@ad.function
def squared_error(prediction, target): ...


@squared_error.forward
def _(ctx, prediction: ad.Tensor, target: ad.Tensor):
    difference = prediction - target
    ctx.save_for_backward(difference=difference)
    return (difference * difference).mean()


@squared_error.backward
def _(ctx, g):
    d = ctx.saved_variables.difference
    return {"prediction": g * d * (2.0 / d.size), "target": None}
