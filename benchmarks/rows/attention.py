"""Attention with four heads over 128 positions of 64 features: squared error, and gradients of the four matrices."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "attention, 128 places, 4 heads of 16"
CASES = ["f32"]
ARGNUMS = (1, 2, 3, 4)
TARGETS = [faster(1.2, "jax"), faster(1.5, "torch"), faster(1, "numpy")]
HEADS = 4


def inputs(case):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 128, 64))
    return tuple(a.astype(np.float32) for a in (x, *rng.normal(size=(4, 64, 64)) / 8, y))


def _heads(lib, x):
    places, width = x.shape
    return lib.swapaxes(x.reshape((places, HEADS, width // HEADS)), 0, 1)


def _softmax(lib, x):
    if hasattr(lib, "softmax"):
        return lib.softmax(x, -1)
    e = lib.exp(x - lib.max(x, axis=-1, keepdims=True))
    return e / lib.sum(e, axis=-1, keepdims=True)


def program(lib, x, wq, wk, wv, wo, y):
    q, k, v = (_heads(lib, x @ w) for w in (wq, wk, wv))
    weights = _softmax(lib, q @ lib.swapaxes(k, 1, 2) * (x.shape[1] // HEADS) ** -0.5)
    mixed = lib.swapaxes(weights @ v, 0, 1).reshape(x.shape)
    return lib.mean((mixed @ wo - y) ** 2)


def numpy(x, wq, wk, wv, wo, y):
    scale = x.dtype.type((x.shape[1] // HEADS) ** -0.5)

    def joined(heads):
        return heads.swapaxes(0, 1).reshape(x.shape)

    def run():
        q, k, v = (_heads(np, x @ w) for w in (wq, wk, wv))
        s = q @ k.swapaxes(1, 2) * scale
        p = np.exp(s - s.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        mixed = joined(p @ v)
        d = mixed @ wo - y
        g = d * d.dtype.type(2 / d.size)
        h = _heads(np, g @ wo.T)
        p_bar = h @ v.swapaxes(1, 2)
        s_bar = p * (p_bar - (p_bar * p).sum(axis=-1, keepdims=True)) * scale
        bars = s_bar @ k, s_bar.swapaxes(1, 2) @ q, p.swapaxes(1, 2) @ h
        return np.mean(d * d), [*[x.T @ joined(bar) for bar in bars], mixed.T @ g]

    return run


def reference(*arrays):
    return numpy(*map(wider, arrays))
