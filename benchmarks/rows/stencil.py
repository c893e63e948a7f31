"""The heat equation on 256 x 256 points, four explicit steps: squared distance from a target, and its gradient in the
initial state.  Neighbours are read by slices with a border of zeros, or by `roll`."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "heat equation, 4 steps on 256 x 256 f64"
CASES = ["slices, border of zeros", "roll, periodic"]
ARGNUMS = (0,)
TARGETS = [faster(1.5, "jax"), faster(1.5, "torch"), faster(1, "numpy")]
STEPS, RATE = 4, 0.1


def inputs(case):
    rng = np.random.default_rng(0)
    u, y = rng.normal(size=(2, 256, 256))
    return (u, y, np.array(case.startswith("roll")))


def _pad(lib, x):
    return lib.nn.functional.pad(x, (1, 1, 1, 1)) if hasattr(lib, "nn") else lib.pad(x, ((1, 1), (1, 1)))


def _bordered(lib, u, y, pad=_pad):
    for _ in range(STEPS):
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        u = pad(lib, u[1:-1, 1:-1] + RATE * around)
    return lib.mean((u - y) ** 2)


def _periodic(lib, u, y):
    for _ in range(STEPS):
        around = lib.roll(u, 1, 0) + lib.roll(u, -1, 0) + lib.roll(u, 1, 1) + lib.roll(u, -1, 1) - 4 * u
        u = u + RATE * around
    return lib.mean((u - y) ** 2)


def _of(peer):
    def programs(u, y, is_periodic):
        import peers

        return getattr(peers, peer)(_periodic if is_periodic else _bordered, ARGNUMS, (u, y))

    return programs


ours, jax, torch, torch_compile = map(_of, ("ours", "jax", "torch", "torch_compile"))


def numpy(u, y, is_periodic):
    def around(u):
        if is_periodic:
            return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u
        found = -4 * u
        found[1:] += u[:-1]
        found[:-1] += u[1:]
        found[:, 1:] += u[:, :-1]
        found[:, :-1] += u[:, 1:]
        return found

    def inside(u):
        """The array with zeros at the border, whose points neither contribute nor get a gradient."""
        if is_periodic:
            return u
        found = np.zeros_like(u)
        found[1:-1, 1:-1] = u[1:-1, 1:-1]
        return found

    rate = u.dtype.type(1) * RATE

    def run():
        v = u
        for _ in range(STEPS):
            v = inside(v + rate * around(v))
        d = v - y
        g = d * (2 / d.size)
        for _ in range(STEPS):
            g = inside(g)
            g = g + rate * around(g)
        return np.mean(d * d), [g]

    return run


def reference(u, y, is_periodic):
    return numpy(wider(u), wider(y), is_periodic)
