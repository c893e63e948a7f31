"""The backward of a new program: each call records another random program of a given number of operations.

Users whose program differs at each step, as in a search over random structures, pay this time at every step."""

import itertools

import numpy as np
from targets import faster

TITLE = "backward of a new program, recorded"
CASES = [f"{n} operations{kind}" for kind in ("", ", some with kinks") for n in ("10", "100", "1,000")]
TARGETS = [faster(1, "torch")]
IS_COLD, LOADED = True, False


def inputs(case):
    return int(case.split()[0].replace(",", "")), "kinks" in case, np.linspace(0.1, 1.0, 100)


def _random(lib, seed, length, has_kinks, x):
    """A random program of about `length` operations."""
    rng = np.random.default_rng(seed)
    steps = (
        lambda a, b: lib.sin(a) * 0.5, lambda a, b: lib.tanh(a * b), lambda a, b: lib.exp(-a * a),
        lambda a, b: a * b + 0.5, lambda a, b: a - 0.3 * b,
    )  # fmt: skip
    if has_kinks:
        steps = *steps, lambda a, b: lib.maximum(a, 0.4 * b), lambda a, b: lib.abs(a - 0.5 * b)
    values = [x]
    for choice in rng.integers(len(steps), size=length // 2):  # each value takes about two operations
        values.append(steps[choice](values[-1], values[rng.integers(len(values))]))
    return values[-1].sum()


def _each_time(leaf, lib, *program):
    """A function that runs a new program at each call, and returns the gradient of the first, for comparison."""
    seeds = itertools.count(1)

    def backward(seed):
        _random(lib, seed, *program, leaf).backward()
        found, leaf.grad = np.array(leaf.grad), None
        return found

    first = backward(0)

    def run():
        backward(next(seeds))
        return first

    return run


def ours(length, has_kinks, x):
    import autodiff as ad

    return _each_time(ad.tensor(x, requires_grad=True), ad, length, has_kinks)


def torch(length, has_kinks, x):
    import torch as t

    return _each_time(t.tensor(x, requires_grad=True), t, length, has_kinks)
