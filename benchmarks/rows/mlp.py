"""Perceptrons with tanh and squared error: a large one and a very small one."""

from itertools import pairwise

import numpy as np

TITLE = "MLP, value and gradient"
CASES = ["784-256-128-10, batch 128, f32", "2-16-16-1, batch 32, f64"]
ARGNUMS = (0, 1, 2, 3, 4, 5)


def inputs(case):
    rng = np.random.default_rng(0)
    sizes, batch, dtype = case.split(", ")
    sizes, n = [int(s) for s in sizes.split("-")], int(batch.split()[1])
    arrays = []
    for fan_in, fan_out in pairwise(sizes):
        arrays += [rng.normal(size=(fan_in, fan_out)) / np.sqrt(fan_in), rng.normal(size=fan_out) / 10]
    arrays += [rng.normal(size=(n, sizes[0])), rng.normal(size=(n, sizes[-1]))]
    return tuple(a.astype({"f32": np.float32, "f64": np.float64}[dtype]) for a in arrays)


def program(lib, w1, b1, w2, b2, w3, b3, x, y):
    h = lib.tanh(x @ w1 + b1)
    h = lib.tanh(h @ w2 + b2)
    return lib.mean((h @ w3 + b3 - y) ** 2)


def numpy(w1, b1, w2, b2, w3, b3, x, y):
    def run():
        h1 = np.tanh(x @ w1 + b1)
        h2 = np.tanh(h1 @ w2 + b2)
        d = h2 @ w3 + b3 - y
        value = np.mean(d * d)
        g3 = d * d.dtype.type(2 / d.size)
        g2 = (g3 @ w3.T) * (1 - h2 * h2)
        g1 = (g2 @ w2.T) * (1 - h1 * h1)
        return value, [x.T @ g1, g1.sum(axis=0), h1.T @ g2, g2.sum(axis=0), h2.T @ g3, g3.sum(axis=0)]

    return run


def reference(*arrays):
    return numpy(*[a.astype(np.float64) for a in arrays])
