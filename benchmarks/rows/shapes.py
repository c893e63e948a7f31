"""Compilations when shapes change: the mini-batches of an epoch, and many batch sizes of one step of a perceptron.

`--full` tries ten thousand batch sizes."""

import time

import numpy as np
from absence import Absent
from sizes import TABLES_FULL, often, resident_mb
from targets import at_most

from rows import epoch

TITLE = "compiled"
SIZES = often(600, 10_000)
CASES = ["epoch of X[i:i+32] after two steps", f"{SIZES:,} batch sizes through one MLP step"]
FIGURES = {
    "graphs": "", "LLVM runs": "", "LLVM runs for more than 32 rows": "", "memory grown": "MB", "a new size": "ms",
    "a new size, recorded": "ms",
}  # fmt: skip
TARGETS = {
    "epoch of X[i:i+32] after two steps, graphs": [at_most(1)],
    "one MLP step, LLVM runs": [at_most(5)],
    "one MLP step, memory grown": [at_most(50)],
}


def inputs(case):
    return (case,)


def ours(case):
    return _epoch if case.startswith("epoch") else _batch_sizes


def _epoch():
    from codegen.compiler import counts

    seen = []
    epoch.ours(*epoch.inputs(""), after_each=lambda: seen.append(counts()))()
    return {"graphs": seen[-1].compiles - seen[1].compiles, "LLVM runs": seen[-1].modules - seen[1].modules}


def _batch_sizes():
    import autodiff as ad
    from codegen.compiler import counts

    rng = np.random.default_rng(0)
    w = [rng.normal(size=s) / 4 for s in ((20, 32), (32,), (32, 1), (1,))]
    x, y = rng.normal(size=(SIZES, 20)), rng.normal(size=(SIZES, 1))
    recorded = ad.value_and_grad(lambda w, x, y: epoch.loss(ad, w, x, y))
    step = ad.jit(recorded)
    start, first, large, before = time.perf_counter(), counts(), 0, resident_mb()
    for i, n in enumerate(rng.permutation(SIZES) + 1):
        if i == min(TABLES_FULL, SIZES // 2):
            before = resident_mb()
        modules = counts().modules
        step(w, x[:n], y[:n])
        large += counts().modules - modules if n > 32 else 0
    last, seconds, again = counts(), time.perf_counter() - start, time.perf_counter()
    for n in rng.permutation(SIZES) + 1:
        recorded(w, x[:n], y[:n])
    return {
        "graphs": last.compiles - first.compiles,
        "LLVM runs": last.modules - first.modules,
        "LLVM runs for more than 32 rows": large,
        "memory grown": resident_mb() - before,
        "a new size": 1e3 * seconds / SIZES,
        "a new size, recorded": 1e3 * (time.perf_counter() - again) / SIZES,
    }


def jax(case):
    """JAX compiles each batch size, so only twenty of them are tried."""
    import jax as j

    if case.startswith("epoch"):
        raise Absent("does not count what it compiles")
    j.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    w = [rng.normal(size=s) / 4 for s in ((20, 32), (32,), (32, 1), (1,))]
    x, y = rng.normal(size=(SIZES, 20)), rng.normal(size=(SIZES, 1))
    step = j.jit(j.value_and_grad(lambda w, x, y: epoch.loss(j.numpy, w, x, y)))

    def run():
        step(w, x, y)
        start = time.perf_counter()
        tried = rng.permutation(SIZES - 1)[:20] + 1
        for n in tried:
            step(w, x[:n], y[:n])
        return {"a new size": 1e3 * (time.perf_counter() - start) / len(tried)}

    return run
