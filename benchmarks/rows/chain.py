"""A chain of expensive elementwise functions: value and gradient of sum(exp(-x²)·sin(x) + log1p(x²)·tanh(x))."""

import math

import c_kernel
import numpy as np
from precision import wider
from targets import faster, within

TITLE = "elementwise chain, value and gradient"
CASES = [f"n = {n:,} {dtype}" for n in (1000, 100_000, 10_000_000) for dtype in ("f32", "f64")]
ARGNUMS = (0,)
TARGETS = [faster(5, "jax"), within(1.2, "c")]


def inputs(case):
    n = int(case.split()[2].replace(",", ""))
    return (np.linspace(-2.0, 3.0, n).astype({"f32": np.float32, "f64": np.float64}[case[-3:]]),)


def program(lib, x):
    return lib.sum(lib.exp(-x * x) * lib.sin(x) + lib.log1p(x * x) * lib.tanh(x))


def by_hand(x):
    q, s = np.exp(-x * x), np.sin(x)
    t, p = np.tanh(x), np.log1p(x * x)
    return np.sum(q * s + p * t), q * np.cos(x) - 2 * x * q * s + p * (1 - t * t) + 2 * x / (1 + x * x) * t


def reference(x):
    x = wider(x)
    return lambda: by_hand(x)


def numpy(x):
    return lambda: by_hand(x)


def numba(x):
    import numba as nb

    @nb.njit(fastmath=True, parallel=x.size > 20_000)
    def run(x):
        gradient, total = np.empty_like(x), 0.0
        for i in nb.prange(x.size):
            v = x[i]
            q, s, t, p = math.exp(-v * v), math.sin(v), math.tanh(v), math.log1p(v * v)
            total += q * s + p * t
            gradient[i] = q * (math.cos(v) - 2 * v * s) + p * (1 - t * t) + 2 * v / (1 + v * v) * t
        return total, gradient

    return lambda: run(x)


def c(x):
    return c_kernel.limit("chain", (x,))


def plain_c(x):
    return c_kernel.limit("chain", (x,), plain=True)


def drjit(x):
    import peers

    return peers.drjit(program, ARGNUMS, (x,))
