"""The peak memory of value and gradient besides the inputs, for the chain, whose gradient alone is 76 MB, and for a
perceptron.

Each is measured in a fresh process after a run with fewer rows, so that the library's own memory is not counted."""

import gc
import importlib

from absence import Absent
from peers import GENERIC
from sizes import begin_peak_mb, peak_mb
from targets import faster, within

TITLE = "memory beyond inputs"
CASES = ["chain, n = 10,000,000 f64", "mlp, 784-256-128-10, batch 8192, f32"]
FIGURES = {"": "MB"}
TARGETS = {"chain": [faster(4, "jax"), within(1.1, "limit")]}


def inputs(case):
    row, _, own_case = case.partition(", ")
    module = importlib.import_module(f"rows.{row}")
    return module, module.inputs(own_case)


def _few(arrays):
    """The arrays, with an eighth of the rows of those that have the most rows."""
    rows = max(len(a) for a in arrays)
    return [a[: rows // 8].copy() if len(a) == rows else a for a in arrays]


def _measured(peer):
    """The function of a row that measures the memory of one peer."""

    def prepared(module, arrays):
        def program(arrays):
            own = getattr(module, peer, None)
            if own is None and peer not in GENERIC:
                raise Absent("takes no part in this work")
            return own(*arrays) if own else GENERIC[peer](module.program, module.ARGNUMS, arrays)

        few = program(_few(arrays))
        few()
        few()  # by the second call at the latest, a library allocates the memory that it keeps for all further calls

        def run():
            large = program(arrays)
            gc.collect()
            before = begin_peak_mb()
            large()
            large()
            return {"": peak_mb() - before}

        return run

    return prepared


ours, numpy, numba, c, jax, torch, torch_compile, drjit, autograd = map(
    _measured, ("ours", "numpy", "numba", "c", "jax", "torch", "torch_compile", "drjit", "autograd")
)


def limit(module, arrays):
    """The size of the gradients alone."""
    return lambda: {"": sum(arrays[i].nbytes for i in module.ARGNUMS) / 2**20}
