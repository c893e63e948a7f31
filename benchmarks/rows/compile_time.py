"""The time of the first call of a new function: its gradient is traced, compiled, and run on a thousand elements.
Each call makes a new random function."""

import itertools

import numpy as np
from targets import faster

TITLE = "first call of a new function"
CASES = ["10 operations", "100 operations", "500 operations"]
TARGETS = [faster(3, "jax")]
IS_COLD, LOADED = True, False


def inputs(case):
    return int(case.split()[0]), np.linspace(0.1, 1.0, 1000)


def _random(lib, seed, length, x):
    """A random program of about `length` operations."""
    rng = np.random.default_rng(seed)
    steps = (
        lambda a, b: lib.sin(a), lambda a, b: lib.tanh(a * b), lambda a, b: lib.exp(-a * a), lambda a, b: a * b + 0.5,
        lambda a, b: a - 0.3 * b,
    )  # fmt: skip
    values = [x]
    while len(values) < length / 2:  # each value takes about two operations
        values.append(steps[rng.integers(5)](values[-1], values[rng.integers(len(values))]))
    return lib.sum(values[-1])


def _each_time(compiled, lib, length, x):
    """A function that runs a new program at each call, and returns the result of the first program, for comparison."""
    seeds = itertools.count()
    f = compiled(lambda x: _random(lib, 0, length, x))
    value, gradient = f(x)
    kept = np.asarray(value), np.asarray(gradient)

    def run():
        seed = 1 + next(seeds)
        f = compiled(lambda x: _random(lib, seed, length, x))
        value, gradient = f(x)
        np.asarray(value), np.asarray(gradient)
        return kept

    return run


def ours(length, x):
    import autodiff as ad

    return _each_time(lambda f: ad.jit(ad.value_and_grad(f)), ad, length, x)


def jax(length, x):
    import jax as j

    j.config.update("jax_enable_x64", True)
    return _each_time(lambda f: j.jit(j.value_and_grad(f)), j.numpy, length, x)
