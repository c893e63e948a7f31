"""Second derivatives of loops in branches in loops: the time of `hvp` relative to that of `grad`, at each depth.

The first calls record bodies and compile ("at first"); later calls find cached programs ("again")."""

import time

import numpy as np
from targets import at_most

TITLE = "hvp of loops in branches in loops"
CASES = [f"depth {depth}" for depth in (1, 2, 3, 4)]
FIGURES = {"grad": "ms", "hvp": "ms", "first grad": "ms", "first hvp": "ms", "again": "", "at first": ""}
TARGETS = {"again": [at_most(4)], "at first": [at_most(5)]}


def inputs(case):
    return int(case.split()[-1]), np.linspace(0.1, 0.9, 4), np.ones(4)


def _nest(ad, depth):
    """A function with a `while_loop` over a branch with a `while_loop` ..., nested to this depth."""

    def inside(x):
        return _nest(ad, depth - 1)(x) if depth > 1 else ad.sin(x) * 1.1

    def step(c):
        return c[0] + 1, ad.cond(ad.sum(c[1]) > -1e9, inside, lambda x: x, c[1])

    return lambda x: ad.while_loop(lambda c: c[0] < 3, step, (0, x))[1]


def ours(depth, x, v):
    import autodiff as ad

    def f(x):
        return ad.sum(_nest(ad, depth)(x))

    def program():
        ad.grad(f)(x[:3]), ad.hvp(f, x[:3], v[:3])  # warm up: the first program of a process takes longer
        ad.clear_cache()
        first = _seconds(lambda: ad.grad(f)(x)), _seconds(lambda: ad.hvp(f, x, v))
        for _ in range(12):  # enough calls for both programs to be compiled
            ad.grad(f)(x), ad.hvp(f, x, v)
        again = [min([_seconds(g) for _ in range(20)]) for g in (lambda: ad.grad(f)(x), lambda: ad.hvp(f, x, v))]
        return {
            "grad": 1e3 * again[0], "hvp": 1e3 * again[1], "first grad": 1e3 * first[0], "first hvp": 1e3 * first[1],
            "again": again[1] / again[0], "at first": first[1] / first[0],
        }  # fmt: skip

    return program


def _seconds(f):
    start = time.perf_counter()
    f()
    return time.perf_counter() - start
