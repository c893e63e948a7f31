"""A perceptron 256-512-10 with layer normalisation and the activation x sigmoid(x), batch 64: squared error, and the
gradients of all parameters."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "MLP 256-512-10 with layer normalisation, batch 64"
CASES = ["f32"]
ARGNUMS = (1, 2, 3, 4, 5, 6)
TARGETS = [faster(1.3, "jax"), faster(1.3, "torch"), faster(1, "numpy")]


def inputs(case):
    rng = np.random.default_rng(0)
    arrays = (
        rng.normal(size=(64, 256)), rng.normal(size=(256, 512)) / 16, rng.normal(size=512) / 10,
        rng.uniform(0.5, 1.5, size=512), rng.normal(size=512) / 10,
        rng.normal(size=(512, 10)) / 22, rng.normal(size=10), rng.normal(size=(64, 10)),
    )  # fmt: skip
    return tuple(a.astype(np.float32) for a in arrays)


def program(lib, x, w, b, gain, shift, v, c, y):
    h = x @ w + b
    d = h - h.mean(-1)[:, None]
    h = d / lib.sqrt((d * d).mean(-1) + 1e-5)[:, None] * gain + shift
    return lib.mean((h / (1 + lib.exp(-h)) @ v + c - y) ** 2)


def numpy(x, w, b, gain, shift, v, c, y):
    def run():
        h = x @ w + b
        d = h - h.mean(-1, keepdims=True)
        scale = 1 / np.sqrt((d * d).mean(-1, keepdims=True) + d.dtype.type(1e-5))
        z = d * scale
        n = z * gain + shift
        s = 1 / (1 + np.exp(-n))
        a = n * s
        e = a @ v + c - y
        g = e * e.dtype.type(2 / e.size)
        n_bar = g @ v.T * (s + a * (1 - s))
        z_bar = n_bar * gain
        h_bar = scale * (z_bar - z_bar.mean(-1, keepdims=True) - z * (z_bar * z).mean(-1, keepdims=True))
        sums = h_bar.sum(0), (n_bar * z).sum(0), n_bar.sum(0)
        return np.mean(e * e), [x.T @ h_bar, *sums, a.T @ g, g.sum(0)]

    return run


def reference(*arrays):
    return numpy(*map(wider, arrays))
