"""Steps of a training loop: a recorded loss, backward, and an in-place update of every parameter.  A call is one step,
after which the program reads the loss and one of the parameters."""

import numpy as np
from targets import faster

TITLE = "a recorded step, parameters updated in place"
CASES = ["momentum, 20 arrays of 10", "Adam, 100 arrays of 10"]
TARGETS = [faster(3, "torch")]
RATE, KEPT, SQUARES, TINY = 0.01, 0.9, 0.99, 1e-8
COPIES = True


def inputs(case):
    rng = np.random.default_rng(0)
    return case.startswith("Adam"), [rng.normal(size=10) for _ in range(int(case.split()[1]))], rng.normal(size=10)


def _trained(w, moments, squares, g, sqrt):
    """Update one parameter and its moving averages of gradients, in place."""
    moments *= KEPT
    moments += (1 - KEPT) * g
    if squares is None:
        w -= RATE * moments
        return
    squares *= SQUARES
    squares += (1 - SQUARES) * g * g
    w -= RATE * moments / (sqrt(squares) + TINY)


def _recorded(lib, leaf, array, is_adam, arrays, target):
    """A training step for a library that records operations."""
    parameters, goal = [leaf(a) for a in arrays], array(target)
    moments = [array(np.zeros_like(a)) for a in arrays]
    squares = [array(np.zeros_like(a)) if is_adam else None for a in arrays]

    def run():
        loss = sum(((w - goal) ** 2).sum() for w in parameters)
        loss.backward()
        with lib.no_grad():
            for w, m, v in zip(parameters, moments, squares, strict=True):
                _trained(w, m, v, w.grad, lib.sqrt)
                w.grad = None
        return loss.item(), np.array(parameters[-1].detach())

    return run


def ours(*given):
    import autodiff as ad

    return _recorded(ad, lambda a: ad.tensor(a, requires_grad=True), ad.tensor, *given)


def torch(*given):
    import torch as t

    return _recorded(t, lambda a: t.tensor(a, requires_grad=True), t.tensor, *given)


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
