"""One epoch of training a perceptron 20-32-1 on mini-batches X[i:i+32], with updates; the last batch is shorter.

JAX's step is compiled by `jit`; PyTorch's and ours are recorded each time."""

import numpy as np
from precision import wider

TITLE = "epoch of mini-batches X[i:i+32], 20-32-1"
CASES = ["1,000 rows f64"]
BATCH, RATE = 32, 0.05
COPIES = True


def inputs(case):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 20))
    w = [rng.normal(size=(20, 32)) / 5, np.zeros(32), rng.normal(size=(32, 1)) / 6, np.zeros(1)]
    return x, np.sin(x[:, :1]), w


def loss(lib, w, x, y):
    return lib.mean((lib.tanh(x @ w[0] + w[1]) @ w[2] + w[3] - y) ** 2)


def ours(x, y, start, after_each=lambda: None):
    """One epoch; `after_each` is called after each step."""
    import autodiff as ad

    X, Y = ad.tensor(x), ad.tensor(y)

    def run():
        w = [ad.tensor(a, requires_grad=True) for a in start]
        for i in range(0, len(x), BATCH):
            loss(ad, w, X[i : i + BATCH], Y[i : i + BATCH]).backward()
            with ad.no_grad():
                for p in w:
                    p -= RATE * p.grad
                    p.grad = None
            after_each()
        return [p.detach().numpy() for p in w]

    return run


def torch(x, y, start):
    import torch as t

    X, Y = t.from_numpy(x), t.from_numpy(y)

    def run():
        w = [t.tensor(a, requires_grad=True) for a in start]
        for i in range(0, len(x), BATCH):
            loss(t, w, X[i : i + BATCH], Y[i : i + BATCH]).backward()
            with t.no_grad():
                for p in w:
                    p -= RATE * p.grad
                    p.grad = None
        return [p.detach().numpy() for p in w]

    return run


def jax(x, y, start):
    import jax as j

    j.config.update("jax_enable_x64", True)

    @j.jit
    def step(w, x, y):
        return [p - RATE * g for p, g in zip(w, j.grad(lambda w: loss(j.numpy, w, x, y))(w), strict=True)]

    def run():
        w = start
        for i in range(0, len(x), BATCH):
            w = step(w, x[i : i + BATCH], y[i : i + BATCH])
        return [np.asarray(p) for p in w]

    return run


def numpy(x, y, start):
    def run():
        w1, b1, w2, b2 = [a.copy() for a in start]
        for i in range(0, len(x), BATCH):
            a = x[i : i + BATCH]
            h = np.tanh(a @ w1 + b1)
            d = (h @ w2 + b2 - y[i : i + BATCH]) * (2 / len(a))
            g = (d @ w2.T) * (1 - h * h)
            w2 -= RATE * (h.T @ d)
            b2 -= RATE * d.sum(axis=0)
            w1 -= RATE * (a.T @ g)
            b1 -= RATE * g.sum(axis=0)
        return [w1, b1, w2, b2]

    return run


def reference(x, y, start):
    return numpy(wider(x), wider(y), list(map(wider, start)))
