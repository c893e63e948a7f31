"""Custom functions whose gradient is one number, for tests of what a rule reads."""

from __future__ import annotations

import numpy as np

import autodiff as ad

__all__ = ["X", "pair", "slope"]

X = np.array([1.0, -2.0, 3.0])


def pair(backward, forward=lambda ctx, x, c: x * 1.0):
    """A custom function of a tensor and anything."""

    @ad.function
    def f(x, c=None): ...

    f.forward(ad.Tensor)(forward)
    f.backward(ad.Tensor)(backward)
    return f


def slope(f, *c):
    """The gradient of f(x, *c).sum(), which is the same in every entry."""
    x = ad.tensor(X, requires_grad=True)
    f(x, *c).sum().backward()
    (value,) = set(x.grad.numpy().tolist())
    return value
