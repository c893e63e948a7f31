"""Training steps as they are written in a loop: a recorded loss, backward, and every parameter updated in place.  A
call is a step; the loss is looked at, and one of the parameters."""

import numpy as np
from targets import faster

TITLE = "a recorded step, parameters updated in place"
CASES = ["momentum, 20 arrays of 10", "Adam, 100 arrays of 10"]
TARGETS = [faster(3, "torch")]
RATE, KEPT, SQUARES, TINY = 0.01, 0.9, 0.99, 1e-8


def inputs(case):
    rng = np.random.default_rng(0)
    return case.startswith("Adam"), [rng.normal(size=10) for _ in range(int(case.split()[1]))], rng.normal(size=10)


def _trained(w, moments, squares, g, sqrt):
    """One parameter moves on; what is kept of its gradients does, too."""
    moments *= KEPT
    moments += (1 - KEPT) * g
    if squares is None:
        w -= RATE * moments
        return
    squares *= SQUARES
    squares += (1 - SQUARES) * g * g
    w -= RATE * moments / (sqrt(squares) + TINY)


def ours(is_adam, arrays, target):
    import autodiff as ad

    parameters = [ad.tensor(a, requires_grad=True) for a in arrays]
    moments = [ad.zeros(a.shape) for a in arrays]
    squares = [ad.zeros(a.shape) if is_adam else None for a in arrays]

    def run():
        loss = sum(((w - target) ** 2).sum() for w in parameters)
        loss.backward()
        with ad.no_grad():
            for w, m, v in zip(parameters, moments, squares, strict=True):
                _trained(w, m, v, w.grad, ad.sqrt)
                w.grad = None
        return loss.item(), parameters[-1].detach().numpy()

    return run


def torch(is_adam, arrays, target):
    import torch as t

    goal = t.from_numpy(target)
    parameters = [t.tensor(a, requires_grad=True) for a in arrays]
    moments = [t.zeros_like(w) for w in parameters]
    squares = [t.zeros_like(w) if is_adam else None for w in parameters]

    def run():
        loss = sum(((w - goal) ** 2).sum() for w in parameters)
        loss.backward()
        with t.no_grad():
            for w, m, v in zip(parameters, moments, squares, strict=True):
                _trained(w, m, v, w.grad, t.sqrt)
                w.grad = None
        return loss.item(), parameters[-1].detach().numpy().copy()

    return run


def numpy(is_adam, arrays, target):
    parameters = [a.copy() for a in arrays]
    moments = [np.zeros_like(a) for a in arrays]
    squares = [np.zeros_like(a) if is_adam else None for a in arrays]

    def run():
        apart = [w - target for w in parameters]
        loss = sum((d * d).sum() for d in apart)
        for w, m, v, d in zip(parameters, moments, squares, apart, strict=True):
            _trained(w, m, v, 2 * d, np.sqrt)
        return loss, parameters[-1].copy()

    return run
