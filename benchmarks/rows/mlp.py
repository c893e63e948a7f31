"""Perceptrons with tanh and squared error: a large one and a very small one."""

import math
from itertools import pairwise

import c_kernel
import numpy as np
from absence import Absent
from precision import wider
from targets import faster, within

TITLE = "MLP, value and gradient"
CASES = ["784-256-128-10, batch 128, f32", "2-16-16-1, batch 32, f64"]
ARGNUMS = (0, 1, 2, 3, 4, 5)
TARGETS = {"784-": [faster(1.6, "jax"), faster(1, "numpy")], "2-16-": [faster(6, "jax"), within(1.2, "numba")]}


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
    return numpy(*map(wider, arrays))


def _check_small(w1):
    if len(w1) > 2:
        raise Absent("loops by hand: the small one only")


def numba(*arrays):
    import numba as nb

    _check_small(arrays[0])

    @nb.njit(fastmath=True)
    def run(w1, b1, w2, b2, w3, b3, x, y):
        n, width = len(x), len(b1)
        g1, g2, g3 = np.zeros_like(w1), np.zeros_like(w2), np.zeros_like(w3)
        c1, c2, c3 = np.zeros_like(b1), np.zeros_like(b2), np.zeros_like(b3)
        h1, h2, e = np.empty(width), np.empty(width), np.empty(width)
        value = 0.0
        for i in range(n):
            for j in range(width):
                h1[j] = math.tanh(b1[j] + x[i, 0] * w1[0, j] + x[i, 1] * w1[1, j])
            h2[:] = b2
            for k in range(width):
                for j in range(width):
                    h2[j] += h1[k] * w2[k, j]
            out = b3[0] - y[i, 0]
            for j in range(width):
                h2[j] = math.tanh(h2[j])
                out += h2[j] * w3[j, 0]
            value += out * out
            d = 2 * out / n
            c3[0] += d
            for j in range(width):
                g3[j, 0] += h2[j] * d
                e[j] = d * w3[j, 0] * (1 - h2[j] * h2[j])
                c2[j] += e[j]
            for k in range(width):
                back = 0.0
                for j in range(width):
                    g2[k, j] += h1[k] * e[j]
                    back += e[j] * w2[k, j]
                back *= 1 - h1[k] * h1[k]
                c1[k] += back
                g1[0, k] += x[i, 0] * back
                g1[1, k] += x[i, 1] * back
        return value / n, (g1, c1, g2, c2, g3, c3)

    return lambda: run(*arrays)


def c(*arrays):
    _check_small(arrays[0])
    return c_kernel.limit("mlp", arrays)
