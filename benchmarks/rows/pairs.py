"""The energy of 300 bodies that attract each other, as a sum over all pairs: value and forces."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "energy of 300 bodies"
CASES = ["f64", "f32"]
ARGNUMS = (0,)
TARGETS = [faster(1.3, "jax"), faster(2, "torch"), faster(1, "numpy")]


def inputs(case):
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(300, 3)), rng.uniform(0.5, 2, size=300)
    return tuple(a.astype({"f32": np.float32, "f64": np.float64}[case]) for a in arrays)


def program(lib, x, mass):
    apart = x[:, None, :] - x[None, :, :]
    return -0.5 * lib.sum(mass[:, None] * mass / lib.sqrt(lib.sum(apart * apart, 2) + 0.01))


def numpy(x, mass):
    def run():
        apart = x[:, None, :] - x[None, :, :]
        near = (apart * apart).sum(2) + apart.dtype.type(0.01)
        energy = mass[:, None] * mass / np.sqrt(near)
        return apart.dtype.type(-0.5) * energy.sum(), [np.einsum("ij,ijk->ik", energy / near, apart)]

    return run


def reference(*arrays):
    return numpy(*map(wider, arrays))
