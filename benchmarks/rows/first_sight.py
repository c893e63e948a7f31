"""A backward of a program that was never met: each call records another one, of so many operations.

Programs that differ at each step, such as those of a search or of random structure, meet this cost every time."""

import itertools

import numpy as np
from targets import faster

TITLE = "backward of a new program, recorded"
CASES = ["10 operations", "100 operations", "1,000 operations"]
TARGETS = [faster(1, "torch")]
IS_COLD, LOADED = True, False


def inputs(case):
    return int(case.split()[0].replace(",", "")), np.linspace(0.1, 1.0, 100)


def _random(lib, seed, length, x):
    """A program of about so many operations."""
    rng = np.random.default_rng(seed)
    steps = (
        lambda a, b: lib.sin(a) * 0.5, lambda a, b: lib.tanh(a * b), lambda a, b: lib.exp(-a * a),
        lambda a, b: a * b + 0.5, lambda a, b: a - 0.3 * b,
    )  # fmt: skip
    values = [x]
    for choice in rng.integers(5, size=length // 2):  # two operations each, about
        values.append(steps[choice](values[-1], values[rng.integers(len(values))]))
    return values[-1].sum()


def _each_time(leaf, lib, length):
    """Another program at each call; the gradient of the first stays, to compare."""
    seeds = itertools.count(1)

    def backward(seed):
        _random(lib, seed, length, leaf).backward()
        found, leaf.grad = np.array(leaf.grad), None
        return found

    first = backward(0)

    def run():
        backward(next(seeds))
        return first

    return run


def ours(length, x):
    import autodiff as ad

    return _each_time(ad.tensor(x, requires_grad=True), ad, length)


def torch(length, x):
    import torch as t

    return _each_time(t.tensor(x, requires_grad=True), t, length)
