"""A function of twenty small arrays with twenty gradients: the time to pass many arguments and results."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "20 arrays in, 20 gradients out"
CASES = ["n = 8 f64"]
ARGNUMS = tuple(range(20))
TARGETS = [faster(15, "jax")]


def inputs(case):
    return tuple(np.random.default_rng(0).normal(size=(20, 8)))


def program(lib, *arrays):
    total = arrays[0]
    for a in arrays[1:]:
        total = total * 0.5 + a * a
    return lib.sum(total)


def numpy(*arrays):
    def run():
        total = arrays[0]
        for a in arrays[1:]:
            total = total * 0.5 + a * a
        scale, gradients = 1.0, []
        for a in arrays[:0:-1]:
            gradients.append(2 * scale * a)
            scale *= 0.5
        return np.sum(total), [np.full_like(arrays[0], scale), *gradients[::-1]]

    return run


def reference(*arrays):
    return numpy(*map(wider, arrays))
