"""A loop in which something is asked at each step."""

import numpy as np

import autodiff as ad


def steps(read, count=12, w=None):
    """The values that are read at each step of a loop with a loss beside, and the gradient at its end."""
    w = ad.tensor(np.linspace(-1.0, 1.0, 5), requires_grad=True) if w is None else w
    found, total = [], 0.0
    for i in range(count):
        z = ad.sum(w * (0.1 * i + 1.0)) + 0.5
        found.append(read(z))
        total = total + ad.exp(z)
    total.backward()
    gradient, w.grad = w.grad.numpy(), None
    return found, gradient
