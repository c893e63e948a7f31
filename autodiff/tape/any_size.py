"""What runs a graph of unknown extents: NumPy, until that has taken as long as compiling it for all extents would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.compiler import compile_sized

from .misses import note
from .node import new_number
from .tier import LATE, prices, why_now

if TYPE_CHECKING:
    from codegen.sized import SizedGraph
    from codegen.sized_code import SizedCode

__all__ = ["AnySize"]

#: Extents below this are small: where planning decides by size, it mostly does at 256.
SMALL = 257

_OTHERWISE = "for small extents they are planned otherwise than for large ones"


class AnySize:
    """A graph of unknown extents, and how it is run.

    operations    how many there are       at    the graph for some extents
    is_compiled   whether machine code runs it
    """

    __slots__ = (
        "__weakref__", "_codes", "_graph", "_number", "_runs", "_seconds", "_tried", "at", "is_compiled", "operations",
    )  # fmt: skip

    def __init__(self, graph: SizedGraph) -> None:
        self._graph = graph
        self._codes: list[SizedCode] = []
        self._tried: set[bool] = set()
        self.is_compiled = False
        self._runs, self._seconds = 0, 0.0
        self._number = new_number()
        self.at, self.operations = graph.at, graph.operations

    def run(self, values: Sequence[int], arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The results for these extents."""
        since = None if self.is_compiled else prices.now()
        found = self._natively(values, arrays) if since is None else None
        if found is not None:
            return found
        results = self._graph.evaluate(values, arrays)
        if since is not None and not self._tried:
            self._runs += 1
            self._seconds += prices.now() - since
            why = why_now(self, (), self._seconds, self._runs, self.operations)
            if why:
                self._compile(values, why)
        return results

    def _natively(self, values: Sequence[int], arrays: Sequence[Any]) -> tuple[np.ndarray, ...] | None:
        for code in self._codes:
            found = code.call(values, arrays)
            if found is not None:
                return found
        if self._compile(values, _OTHERWISE):
            return self._codes[-1].call(values, arrays)
        return None

    def _compile(self, values: Sequence[int], why: str) -> bool:
        """Compile it as for these extents, if that was not tried."""
        is_small = max(values) < SMALL
        if is_small in self._tried:
            return False
        self._tried.add(is_small)
        code = compile_sized(self._graph, is_small)
        if code is not None:
            self._codes.append(code)
            for block in LATE:
                block.note(self._number, 1)
        note(f"{self.operations} operations of any size", why)
        self.is_compiled = bool(self._codes)
        return code is not None
