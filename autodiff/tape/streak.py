"""Graphs that do not repeat: after several in a row that were used once, a new one waits to be compiled.

Episodes of random length, trees, a batch of every size: each makes a new graph shape, and compiling costs
more than running it once.  So while the last `config.patience` shapes that were compiled were used once
only, a new shape is evaluated operation by operation with NumPy, and compiled when it is seen again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.compiler import compile_graph, is_known
from codegen.ir import Graph, evaluate
from codegen.runtime.cache import LRU

from ..config import config

__all__ = ["WHEN_REPEATED", "Waiting", "clear_streak", "executable_of", "note_compiled", "note_repeated"]


class Waiting:
    """Stands for the executable of a graph that was met once."""

    __slots__ = ("__weakref__", "_compiled", "_graph", "_uses")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._compiled: Any = None
        self._uses = 0

    def call(self, *values: Any) -> tuple:
        """As `Executable.call`: the first time by the reference of each operation."""
        if self._compiled is None:
            self._uses += 1
            if self._uses == 1:
                arrays = [np.asarray(v, n.aval.dtype) for v, n in zip(values, self._graph.inputs, strict=True)]
                with np.errstate(all="ignore"):
                    return evaluate(self._graph, *arrays)
            self._compiled = compile_graph(self._graph)
        return self._compiled.call(*values)

    def __repr__(self) -> str:
        return f"<Waiting {self._graph.name}, {len(self._graph.nodes)} operations>"


#: Graphs that were met once and wait, by shape.
_waiting = LRU(512)
#: Plans whose graphs were compiled last.
_latest: deque[Any] = deque(maxlen=64)


#: Called once, when a graph is asked for again: what repeats is worth being made faster.
WHEN_REPEATED: list[Callable[[], None]] = []


def note_repeated() -> None:
    """A plan was found by its key."""
    while WHEN_REPEATED:
        WHEN_REPEATED.pop()()


def executable_of(graph: Graph) -> Any:
    """What runs a graph: its executable, or a stand-in while shapes do not repeat."""
    if is_known(graph):
        return compile_graph(graph)
    waiting = _waiting.get(graph.key)
    if waiting is not None:
        return waiting
    patience = config.patience
    if patience and len(_latest) >= patience and not any([p.uses for p in list(_latest)[-patience:]]):
        waiting = Waiting(graph)
        _waiting.put(graph.key, waiting)
        return waiting
    return compile_graph(graph)


def note_compiled(plan: Any) -> None:
    """Remember a plan whose graph was new: whether it is used again tells if shapes repeat."""
    _latest.append(plan)


def clear_streak() -> None:
    """Forget what waits, and the plans that were looked at."""
    _waiting.clear()
    _latest.clear()
