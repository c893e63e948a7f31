"""A recurrent network: 1,000 steps of a 64-unit tanh cell, batch 16; mean square of the last state and gradients.

The gradient vanishes: after a hundred steps back it is below 1e-38, where Intel's multiply-adds take 150 cycles.  JAX
always flushes such numbers to zero; our library and PyTorch do so on request, which is the second case.
"""

import numpy as np
from targets import faster

TITLE = "recurrent scan, 1,000 steps of 64 units, batch 16"
CASES = ["f32", "f32, subnormal numbers flushed"]
ARGNUMS = (0, 1, 2)
TARGETS = [faster(1.2, "jax")]


def inputs(case):
    rng = np.random.default_rng(0)
    w, u = rng.normal(size=(2, 64, 64)) / 10
    arrays = [a.astype(np.float32) for a in (w, u, np.zeros(64), rng.normal(size=(1000, 16, 64)))]
    return *arrays, "flushed" in case


def ours(*inputs):
    import peers

    import autodiff as ad

    *arrays, flushes = inputs

    def program(_, w, u, b, xs):
        def cell(h, x):
            return ad.tanh(h @ w + x @ u + b), 0.0

        last, _ = ad.scan(cell, ad.zeros((16, 64), dtype=ad.float32), xs)
        return ad.mean(last * last)

    f = peers.ours(program, ARGNUMS, arrays)

    def run():
        before, ad.config.flush_subnormals = ad.config.flush_subnormals, flushes
        try:
            return f()
        finally:
            ad.config.flush_subnormals = before

    return run


def jax(*inputs):
    import jax as j
    import jax.numpy as jnp
    import peers

    def program(_, w, u, b, xs):
        def cell(h, x):
            return jnp.tanh(h @ w + x @ u + b), None

        last, _ = j.lax.scan(cell, jnp.zeros((16, 64), jnp.float32), xs)
        return jnp.mean(last * last)

    return peers.jax(program, ARGNUMS, inputs[:-1])


def torch(*inputs):
    import peers
    import torch as t

    *arrays, flushes = inputs
    t.set_flush_denormal(flushes)

    def program(_, w, u, b, xs):
        h = t.zeros(16, 64)
        for x in xs:
            h = t.tanh(h @ w + x @ u + b)
        return (h * h).mean()

    return peers.torch(program, ARGNUMS, arrays)


def numpy(w, u, b, xs, flushes):
    def run():
        h, states = np.zeros((16, 64), w.dtype), []
        for x in xs:
            before, h = h, np.tanh(h @ w + x @ u + b)
            states.append((before, h))
        value = np.mean(h * h)
        g = h * w.dtype.type(2 / h.size)
        gw, gu, gb = np.zeros_like(w), np.zeros_like(u), np.zeros_like(b)
        for x, (before, h) in zip(xs[::-1], states[::-1], strict=True):
            g = g * (1 - h * h)
            gw += before.T @ g
            gu += x.T @ g
            gb += g.sum(axis=0)
            g = g @ w.T
        return value, [gw, gu, gb]

    return run


def reference(*inputs):
    *arrays, flushes = inputs
    return numpy(*[a.astype(np.float64) for a in arrays], flushes)
