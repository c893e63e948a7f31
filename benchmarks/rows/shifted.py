"""Programs that read slices of one array: Rosenbrock's function of 1,000 numbers, a filter of 16 taps over 20,000, and
a sum of terms for 60 rows, made by a Python loop over the rows."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "shifted slices, f64"
CASES = ["Rosenbrock, n = 1,000", "filter of 16, n = 20,000", "a term for each of 60 rows of 1,000"]
TARGETS = [faster(2, "jax"), faster(2, "torch"), faster(1, "numpy")]


def inputs(case):
    rng = np.random.default_rng(0)
    if case.startswith("Rosenbrock"):
        return (rng.normal(size=1000),)
    if case.startswith("a term"):
        return rng.normal(size=(60, 1000)), rng.uniform(0.5, 2.0, 60)
    return rng.normal(size=20_000), rng.normal(size=16), rng.normal(size=20_000 - 15)


def _rosenbrock(lib, x):
    return lib.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def _filtered(lib, x, taps, y):
    found = 0.0
    for i in range(16):
        found = found + taps[i] * x[i : i + len(y)]
    return lib.mean((found - y) ** 2)


def _by_rows(lib, x, pitch):
    found = 0.0
    for i in range(len(x)):
        found = found + lib.sum(lib.sin(x[i] * pitch[i]))
    return found


#: The program of a case and its differentiated arguments, by the number of the case's arrays.
_PROGRAMS = {1: (_rosenbrock, (0,)), 2: (_by_rows, (0, 1)), 3: (_filtered, (0, 1))}


def _of(peer):
    def programs(*arrays):
        import peers

        program, argnums = _PROGRAMS[len(arrays)]
        return getattr(peers, peer)(program, argnums, arrays)

    return programs


ours, jax, torch, torch_compile, autograd = map(_of, ("ours", "jax", "torch", "torch_compile", "autograd"))


def numpy(*arrays):
    def rosenbrock():
        (x,) = arrays
        d, e = x[1:] - x[:-1] ** 2, 1 - x[:-1]
        g = np.zeros_like(x)
        g[1:] = 200 * d
        g[:-1] -= 400 * d * x[:-1] + 2 * e
        return np.sum(100 * d * d + e * e), [g]

    def by_rows():
        x, pitch = arrays
        z = x * pitch[:, None]
        slope = np.cos(z)
        return np.sin(z).sum(), [slope * pitch[:, None], (slope * x).sum(1)]

    def filtered():
        x, taps, y = arrays
        d = np.correlate(x, taps, "valid") - y
        g = d * (2 / d.size)
        return np.mean(d * d), [np.convolve(g, taps), np.correlate(x, g, "valid")]

    return {1: rosenbrock, 2: by_rows, 3: filtered}[len(arrays)]


def reference(*arrays):
    return numpy(*map(wider, arrays))
