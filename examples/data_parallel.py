"""Logistic regression on data that lie with other processes: the loss is a sum over shards.

Each process loads its shards, computes the loss and the gradient there, and sends these back: a few numbers, whatever
the length of the data.  Then a worker is killed, and the step is the same to the last bit.

    python examples/data_parallel.py                     two processes of this machine
    python examples/data_parallel.py tcp://host:8786     the workers of a Dask scheduler
"""

import os
import pickle
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context

import numpy as np

import autodiff as ad

ROWS, COLUMNS, SHARDS = 20_000, 20, 4


def load(key):
    """One shard: drawn here, where a program of yours reads a file."""
    rng = np.random.default_rng(key)
    x = rng.normal(size=(ROWS, COLUMNS))
    odds = x @ np.linspace(-1, 1, COLUMNS) + 0.5
    return x, np.where(rng.uniform(size=ROWS) < 1 / (1 + np.exp(-odds)), 1.0, -1.0)


def losses(model, x, y):
    """The sum of the losses of one shard, and their number."""
    return ad.sum(ad.softplus(-y * (x @ model["slope"] + model["offset"]))), len(y)


def mean_of(total):
    """The mean loss, from two sums, with a small penalty."""

    def mean(model):
        loss, count = total(model)
        return loss / count + 1e-3 * ad.sum(model["slope"] ** 2)

    return mean


def descend(mean, steps=20):
    """The model after a few steps, and the seconds that a step took."""
    step = ad.jit(ad.value_and_grad(mean))
    model = {"slope": np.zeros(COLUMNS), "offset": 0.0}
    value, _ = step(model)
    start = time.perf_counter()
    for _ in range(steps):
        value, slope = step(model)
        model = ad.tree.map(lambda p, g: p - 2.0 * g, model, slope)
    return model, value, (time.perf_counter() - start) / steps


def main():
    pools = []

    def pool():
        pools.append(ProcessPoolExecutor(2, mp_context=get_context("spawn")))
        return pools[-1]

    workers = pool
    if len(sys.argv) > 1:
        workers = import_module("dask.distributed").Client(sys.argv[1])

    alone = mean_of(ad.sum_over(losses, ad.shards(load, range(SHARDS))))
    with ad.shards(load, range(SHARDS), on=workers) as shards:
        spread = mean_of(ad.sum_over(losses, shards))
        model, value, seconds = descend(spread)
        expected, _, here = descend(alone)
        print(f"loss {value:.6f}; a step takes {seconds * 1e3:.1f} ms with workers, {here * 1e3:.1f} ms here")
        sent, kept = len(pickle.dumps(model)), sum(a.nbytes for a in load(0))
        print(f"bytes for each shard and step: {sent} there and some more back; {kept:,} stay where they are")
        for ours, theirs in zip(ad.tree.leaves(model), ad.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(ours, theirs)

        step = ad.jit(ad.value_and_grad(spread))  # under jit, a function has the same bits from its first call on
        before = step(model)
        if pools:
            os.kill(next(iter(pools[-1]._processes)), signal.SIGKILL)
        after = step(model)
        assert all(np.array_equal(a, b) for a, b in zip(ad.tree.leaves(before), ad.tree.leaves(after), strict=True))
        print("a worker was killed: the same bits")
        print(f"curvature along the slope: {ad.hvp(spread, (model,), (model,))['offset']:.6f}")


if __name__ == "__main__":
    main()
