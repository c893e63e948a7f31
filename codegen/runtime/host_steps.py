"""Steps in Python: the references of operations that have no machine code, among them the user's functions.

    step = host_step(node, slots)         a native step that calls Python (`run_steps.call_host`)
    WithFallback(graph)                   a callable that falls back to the references if a kernel refuses its numbers

The references raise an error that names the singular matrix, and its place; or they round differently and succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from ..blas import one_thread
from ..garbage import ignoring
from ..ir import Graph, Node, evaluate
from ..ir.evaluate import error_observers, evaluate_op
from . import loops
from .launcher import NativeStep, Refused, Specs, checked_arguments
from .native import pooled


class WithFallback:
    """`f(*arguments)`: `call` on machine code, and if that refuses the numbers, NumPy's evaluation of the graph."""

    __slots__ = ("__weakref__", "_graph", "call")

    call: Any

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __call__(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        try:
            return self.call(*arguments)
        except Refused:
            pass  # outside of the handler, so that `Refused` is not the context of what NumPy raises below
        graph = self._graph
        try:
            return evaluate(graph, *checked_arguments(arguments, [i.aval for i in graph.inputs], graph.name))
        except Exception as error:  # reported here: if machine code is the caller, no Python code further out sees it
            for tell in error_observers:
                tell(error)
            raise


def host_step(node: Node, slots: tuple[int, ...]) -> tuple[NativeStep, tuple[Callable[..., np.ndarray], Specs]]:
    """The step that calls a node's reference, and the objects that must live as long as the step."""
    value = partial(evaluate_op, node.op, node.params, node.aval)
    # A user's function may keep its arguments, whose memory is reused after the step.
    keeps = "host" in node.op.traits

    def run(*arrays: np.ndarray) -> np.ndarray:
        """The result for read-only arrays over the memory of the step."""
        try:
            with one_thread(), ignoring(all="ignore"):
                if not keeps:
                    try:
                        return value(arrays)
                    except Exception:
                        pass  # an exception's frames hold the arrays: called again on copies, it may outlive the memory
                return value(_copies(arrays))
        except Exception as error:  # as in `WithFallback`
            for tell in error_observers:
                tell(error)
            raise

    avals = [n.aval for n in (*node.inputs, node)]
    specs = Specs(avals, [(0, 0)] * len(avals))
    words = id(run), id(np.ndarray), specs.address, len(node.inputs)
    return NativeStep(loops.addresses()["call_host"], slots, words), (run, specs)


def _copies(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Read-only copies; if they are large, in memory of the pool, which need not be paged in again."""
    is_large = sum([array.nbytes for array in arrays]) > _LARGE
    with pooled() if is_large else nullcontext():
        copies = tuple([array.copy() for array in arrays])
    for copy in copies:
        copy.flags.writeable = False
    return copies


#: The size in bytes from which on fresh pages from the system take longer than using the pool: see
#: `recorder_arrays.POOLED`.
_LARGE = 1 << 16
