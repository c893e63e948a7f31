"""Multinomial logistic regression, 256 x 784 x 10: mean cross-entropy and its gradients."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "logistic regression 256 x 784 x 10"
CASES = ["f32"]
ARGNUMS = (0, 1)
TARGETS = [faster(2.5, "jax"), faster(1, "numpy")]


def inputs(case):
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(784, 10)) / 28, rng.normal(size=10)
    x, y = rng.normal(size=(256, 784)), np.eye(10)[rng.integers(10, size=256)]
    return tuple(a.astype(np.float32) for a in (w, b, x, y))


def program(lib, w, b, x, y):
    s = x @ w + b
    s = s - lib.amax(s, axis=1)[:, None] if hasattr(lib, "amax") else s - lib.max(s, axis=1)[:, None]
    return lib.mean(lib.log(lib.sum(lib.exp(s), axis=1)) - lib.sum(s * y, axis=1))


def numpy(w, b, x, y):
    def run():
        s = x @ w + b
        s -= s.max(axis=1, keepdims=True)
        e = np.exp(s)
        total = e.sum(axis=1, keepdims=True)
        value = np.mean(np.log(total[:, 0]) - np.sum(s * y, axis=1))
        g = (e / total - y) / np.float32(len(x))
        return value, [x.T @ g, g.sum(axis=0)]

    return run


def reference(*arrays):
    return numpy(*map(wider, arrays))
