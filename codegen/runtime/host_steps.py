"""Steps in Python: the references of operations that machine code does not do, the user's functions among them.

    step = host_step(node, slots)         a native step as any other, which calls Python (`run_steps.call_host`)
    Decided(graph)                        what may refuse numbers: then its graph is evaluated by the references

References raise what says which matrix is singular, and where; or they give the value, where they round otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..blas import one_thread
from ..garbage import ignoring
from ..ir import Graph, Node, evaluate
from ..ir.evaluate import error_observers, evaluator_of
from . import loops
from .launcher import NativeStep, Refused, Specs, checked_arguments
from .native import pooled


class Decided:
    """`f(*arguments)`; `call` is what is called first."""

    __slots__ = ("__weakref__", "_graph", "call")

    call: Any

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __call__(self, *arguments: Any) -> tuple[np.ndarray, ...]:
        try:
            return self.call(*arguments)
        except Refused:
            pass  # what is raised now has nothing to do with it
        graph = self._graph
        try:
            return evaluate(graph, *checked_arguments(arguments, [i.aval for i in graph.inputs], graph.name))
        except Exception as error:  # machine code may have called, around which there is no other place for it
            for tell in error_observers:
                tell(error)
            raise


def host_step(node: Node, slots: tuple[int, ...]) -> tuple[NativeStep, tuple[Callable[..., np.ndarray], Specs]]:
    """The step that calls a node's reference, and what has to live as long."""
    value = evaluator_of(node)
    # A function of the user's may keep what it is given, and the memory is used again.
    keeps = "host" in node.op.traits

    def run(*arrays: np.ndarray) -> np.ndarray:
        """The result for read-only arrays over the memory of the step."""
        try:
            with one_thread(), ignoring(all="ignore"):
                if not keeps:
                    try:
                        return value(*arrays)
                    except Exception:
                        pass  # its frames hold the arrays: what is raised below may live longer than their memory
                return value(*_copies(arrays))
        except Exception as error:  # as above
            for tell in error_observers:
                tell(error)
            raise

    avals = [n.aval for n in (*node.inputs, node)]
    specs = Specs(avals, [(0, 0)] * len(avals))
    words = id(run), id(np.ndarray), specs.address, len(node.inputs)
    return NativeStep(loops.addresses()["call_host"], slots, words), (run, specs)


def _copies(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Read-only copies, in memory of the pool, which is there already, if they are large."""
    is_large = sum([array.nbytes for array in arrays]) > _LARGE
    with pooled() if is_large else nullcontext():
        copies = tuple([array.copy() for array in arrays])
    for copy in copies:
        copy.flags.writeable = False
    return copies


#: Bytes of copies, from which on new pages of the system's cost more than finding the pool: see
#: `recorder_arrays.POOLED`.
_LARGE = 1 << 16
