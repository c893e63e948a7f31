"""The mean square of the largest eighth of each row, as in losses that skip easy examples: sort, and its gradient."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "mean of the largest eighth of each row, value and gradient"
CASES = ["10,000 rows of 32, f32", "100 rows of 2,000, f64", "1 row of 1,000,000, f32"]
TARGETS = [faster(2, "numpy"), faster(2, "jax"), faster(1, "torch")]


def inputs(case):
    many, n = (int(word.strip(",").replace(",", "")) for word in (case.split()[0], case.split()[-2]))
    dtype = np.dtype(case.split()[-1].replace("f", "float"))
    return (np.random.default_rng(0).normal(size=(many, n)).astype(dtype),)


def ours(x):
    import peers

    return peers.ours(lambda lib, x: (lib.sort(x, axis=-1)[:, -(x.shape[1] // 8) :] ** 2).mean(), (0,), (x,))


def jax(x):
    import peers

    return peers.jax(lambda lib, x: (lib.sort(x, axis=-1)[:, -(x.shape[1] // 8) :] ** 2).mean(), (0,), (x,))


def torch(x):
    import peers

    return peers.torch(lambda lib, x: (lib.sort(x, dim=-1)[0][:, -(x.shape[1] // 8) :] ** 2).mean(), (0,), (x,))


def numpy(x):
    k = x.shape[1] // 8

    def run():
        largest = np.argsort(x, axis=-1, kind="stable")[:, -k:]
        found = np.take_along_axis(x, largest, -1)
        gradient = np.zeros_like(x)
        np.put_along_axis(gradient, largest, 2 * found / found.size, -1)
        return (found * found).mean(), [gradient]

    return run


def reference(x):
    return numpy(wider(x))
