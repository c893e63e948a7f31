"""A convolution of 8 pictures of 28 x 28 x 3 with 16 filters of 3 x 3, as a product with concatenated slices: relu,
mean over positions, squared error, and the gradients of filters and bias."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "convolution 3 x 3 by slices, 8 pictures of 28 x 28 x 3"
CASES = ["f32"]
ARGNUMS = (1, 2)
TARGETS = [faster(1.5, "jax"), faster(1.5, "torch"), faster(1, "numpy")]


def inputs(case):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(8, 28, 28, 3)), rng.normal(size=(27, 16)) / 5
    return tuple(a.astype(np.float32) for a in (x, w, rng.normal(size=16) / 10, rng.normal(size=(8, 16))))


def _windows(lib, x):
    _, height, width, _ = x.shape
    slices = [x[:, i : height - 2 + i, j : width - 2 + j, :] for i in range(3) for j in range(3)]
    return lib.concatenate(slices, -1)


def program(lib, x, w, b, y):
    h = _windows(lib, x) @ w + b
    return lib.mean((lib.where(h > 0, h, 0.0).mean((1, 2)) - y) ** 2)


def numpy(x, w, b, y):
    def run():
        windows = _windows(np, x)
        h = windows @ w + b
        is_on = h > 0
        d = np.mean(h * is_on, axis=(1, 2)) - y
        g = d * d.dtype.type(2 / d.size / (h.shape[1] * h.shape[2]))
        h_bar = (is_on * g[:, None, None, :]).reshape(-1, len(b))
        return np.mean(d * d), [windows.reshape(-1, len(w)).T @ h_bar, h_bar.sum(axis=0)]

    return run


def reference(*arrays):
    return numpy(*map(wider, arrays))
