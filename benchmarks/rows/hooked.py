"""A recorded loop with a hook: 50 elementwise operations, a hook on the 25th that clips the gradient, backward."""

import numpy as np
from targets import faster

TITLE = "50 recorded operations with a hook, and backward"
CASES = ["n = 100 f64"]
TARGETS = [faster(3, "torch")]
COPIES = True


def inputs(case):
    return (np.linspace(0.1, 1.0, 100),)


def _each_time(lib, leaf, clip):
    def run():
        y = leaf
        for i in range(50):
            y = y * 1.01 - 0.1 if i % 2 else lib.sin(y)
            if i == 25:
                y.register_hook(clip)
        y.sum().backward()
        found, leaf.grad = np.array(leaf.grad), None
        return found

    return run


def ours(x):
    import autodiff as ad

    return _each_time(ad, ad.tensor(x, requires_grad=True), lambda g: ad.clip(g, -0.01, 0.01))


def torch(x):
    import torch as t

    return _each_time(t, t.tensor(x, requires_grad=True), lambda g: t.clamp(g, -0.01, 0.01))


def numpy(x):
    def run():
        y, kept = x, []
        for i in range(50):
            kept.append(y)
            y = y * 1.01 - 0.1 if i % 2 else np.sin(y)
        g = np.ones_like(x)
        for i in reversed(range(50)):
            if i == 25:
                g = np.clip(g, -0.01, 0.01)
            g = g * 1.01 if i % 2 else g * np.cos(kept[i])
        return g

    return run
