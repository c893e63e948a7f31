"""Training while data arrives: the loss of each step covers all rows so far, so each recording has another size.
A call is 100 steps, from one row to 100; each call has one more column of data than the last, from 8 to 39."""

import numpy as np
from targets import faster

TITLE = "100 steps on 1, 2, 3 ... rows of data, recorded"
CASES = ["a layer of 16 f64"]
TARGETS = [faster(1, "torch")]
COLUMNS = range(8, 40)
COPIES = True


def inputs(case):
    rng = np.random.default_rng(0)
    n = COLUMNS.stop
    return rng.normal(size=(100, n)), rng.normal(size=100), rng.normal(size=(n, 16)) / n, rng.normal(size=16) / 4


def _each(steps):
    """A function that calls `steps(columns)`, with another number of columns each time."""
    count = 0

    def run():
        nonlocal count
        count += 1
        return steps(COLUMNS[count % len(COLUMNS)])

    return run


def _recorded(lib, leaf, no_grad, x, y, w, v):
    def steps(columns):
        rows, parameters = x[:, :columns], [leaf(w[:columns].copy()), leaf(v)]
        a, b = parameters
        for n in range(1, len(x) + 1):
            apart = lib.tanh(rows[:n] @ a) @ b - y[:n]
            (apart * apart).mean().backward()
            with no_grad():
                for p in parameters:
                    p -= 0.01 * p.grad
                    p.grad = None
        return [p.detach().numpy() for p in parameters]

    return _each(steps)


def ours(x, y, w, v):
    import autodiff as ad

    return _recorded(ad, lambda a: ad.tensor(a, requires_grad=True), ad.no_grad, ad.tensor(x), ad.tensor(y), w, v)


def torch(x, y, w, v):
    import torch as t

    return _recorded(t, lambda a: t.tensor(a, requires_grad=True), t.no_grad, t.from_numpy(x), t.from_numpy(y), w, v)


def numpy(x, y, w, v):
    def steps(columns):
        rows, a, b = x[:, :columns], w[:columns].copy(), v.copy()
        for n in range(1, len(x) + 1):
            h = np.tanh(rows[:n] @ a)
            bar = (h @ b - y[:n]) * (2 / n)
            h_bar = bar[:, None] * b * (1 - h * h)
            a -= 0.01 * (rows[:n].T @ h_bar)
            b -= 0.01 * (h.T @ bar)
        return [a, b]

    return _each(steps)
