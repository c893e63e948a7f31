"""A function so small that only the call counts: value and gradient of sum(tanh(x·w))·b, n = 8."""

import numpy as np

TITLE = "tiny function, value and gradient"
CASES = ["n = 8 f64"]
ARGNUMS = (0,)


def inputs(case):
    return np.linspace(-1.0, 1.0, 8), np.linspace(0.5, 2.0, 8), np.array(0.7)


def program(lib, x, w, b):
    return lib.sum(lib.tanh(x * w)) * b


def numpy(x, w, b):
    def run():
        t = np.tanh(x * w)
        return np.sum(t) * b, (1 - t * t) * w * b

    return run
