"""A function so small that the overhead of the call dominates: value and gradient of sum(tanh(x·w))·b, n = 8."""

import math

import c_kernel
import numpy as np
from precision import wider
from targets import faster, within

TITLE = "tiny function, value and gradient"
CASES = ["n = 8 f64"]
ARGNUMS = (0,)
TARGETS = [faster(15, "jax"), within(1.5, "c")]


def inputs(case):
    return np.linspace(-1.0, 1.0, 8), np.linspace(0.5, 2.0, 8), np.array(0.7)


def program(lib, x, w, b):
    return lib.sum(lib.tanh(x * w)) * b


def numpy(x, w, b):
    def run():
        t = np.tanh(x * w)
        return np.sum(t) * b, (1 - t * t) * w * b

    return run


def numba(x, w, b):
    import numba as nb

    @nb.njit(fastmath=True)
    def run(x, w, b):
        gradient, total = np.empty_like(x), 0.0
        for i in range(x.size):
            t = math.tanh(x[i] * w[i])
            total += t
            gradient[i] = (1 - t * t) * w[i] * b[()]
        return total * b[()], gradient

    return lambda: run(x, w, b)


def c(*arrays):
    return c_kernel.limit("tiny", arrays)


def drjit(*arrays):
    import peers

    return peers.drjit(program, ARGNUMS, arrays)


def reference(*arrays):
    return numpy(*map(wider, arrays))
