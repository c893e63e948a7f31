"""Custom functions of a number, and how often their rules run."""

from __future__ import annotations

import sys

import numpy as np

import autodiff as ad

X = np.array([1.0, -2.0, 3.0])


def pair(backward, forward=None):
    """A function of a tensor and anything, whose backward is given; forward saves the number as c."""

    @ad.function
    def f(x, c=None): ...

    def saving(ctx, x, c=None):
        ctx.save_for_backward(c=c)
        return x * 1.0

    f.forward(ad.Tensor)(forward or saving)
    f.backward(ad.Tensor)(backward)
    return f


def slope(f, *c, x=X):
    """The gradient of f(x, *c).sum()."""
    t = ad.tensor(x, requires_grad=True)
    f(t, *c).sum().backward()
    return t.grad.numpy()


def runs_of(function, work):
    """The number of times a Python function was entered while `work()` ran."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call" and frame.f_code is function.__code__

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
