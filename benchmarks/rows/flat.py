"""Memory that must not grow during many small calls, many new graphs, or many episodes.

Growth is counted from the time when the tables are full.  `--full` runs all repetitions that issue 4 asks for."""

import gc

import numpy as np
from sizes import TABLES_FULL, often, resident_mb
from targets import at_most

from rows import episodes

TITLE = "memory grown"
GRAPHS, CALLS, EPISODES = often(600, 5000), often(2_000_000, 10_000_000), often(1000, 20_000)
CASES = [f"{GRAPHS:,} graphs compiled and dropped", f"{CALLS:,} calls", f"{EPISODES:,} episodes of random length"]
FIGURES = {"": "MB"}
TARGETS = [at_most(50)]


def inputs(case):
    return (case,)


def _grown(step, times, first):
    """A function that returns the growth of memory over `times` steps, without the first ones."""

    def run():
        for _ in range(first):
            step()
        gc.collect()
        before = resident_mb()
        for _ in range(times - first):
            step()
        gc.collect()
        return {"": resident_mb() - before}

    return run


def _new_graphs():
    """A step that makes a new function, different from all earlier ones, calls it, and drops it."""
    import autodiff as ad

    x = np.linspace(0.1, 1.0, 100)
    operations = (ad.sin, ad.exp, ad.tanh, ad.sqrt, ad.cos, lambda y: y * 0.5, lambda y: y + 1.0, lambda y: y * y)
    number = iter(range(10**9))

    def step():
        digits = next(number)

        def program(x):
            y, rest = x, digits
            for _ in range(6):
                y, rest = operations[rest % 8](y) + 0.1 * x, rest // 8
            return ad.sum(y)

        ad.jit(ad.value_and_grad(program))(x)

    return step


def _calls():
    """A step of a thousand calls of one function."""
    import autodiff as ad

    f = ad.jit(lambda x, y: x * y + 1.0)
    x, y = np.ones(8), np.full(8, 2.0)

    def step():
        for _ in range(1000):
            f(x, y)

    return step


def ours(case):
    if "graphs" in case:
        return _grown(_new_graphs(), GRAPHS, TABLES_FULL)
    if "calls" in case:
        return _grown(_calls(), CALLS // 1000, 10)
    return _grown(episodes.ours(*episodes.inputs("")), EPISODES // 10, EPISODES // 40)
