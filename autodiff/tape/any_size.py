"""Machine code of a graph of unknown extents: planned for small ones, and for large ones, as they are met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.compiler import compile_sized, counts

from .misses import note
from .node import new_number
from .tier import LATE, Tier, prices

if TYPE_CHECKING:
    from codegen.sized import SizedGraph
    from codegen.sized_code import SizedCode

__all__ = ["AnySize"]

#: Extents below this are small: where planning decides by size, it mostly does at 256.
SMALL = 257

#: Extents that are remembered as met.
_MET = 64

_OTHERWISE = "for small extents they are planned otherwise than for large ones"


class AnySize:
    """A graph of unknown extents, which `SizedTier` evaluates, and compiles."""

    __slots__ = ("__weakref__", "_codes", "_graph", "_met", "_number", "evaluate")

    def __init__(self, graph: SizedGraph) -> None:
        self._graph = graph
        #: By "is for small extents": None where no formula says what runs.
        self._codes: dict[bool, SizedCode | None] = {}
        self.evaluate = graph.evaluate
        self._met: set[tuple[int, ...]] = set()
        self._number = new_number()

    def compiled(self, extents: Sequence[int], inputs: Sequence[Any]) -> AnySize:
        """This, with machine code for extents like these."""
        self._compile(max(extents) < SMALL)
        return self

    def call(self, extents: Sequence[int], inputs: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The results at these extents, by machine code; by NumPy where there is none for them."""
        code = self._code(extents)
        return self._graph.evaluate(extents, inputs) if code is None else code.call(extents, inputs)

    def at(self, extents: tuple[int, ...]) -> Any:
        """An executable for these extents alone: of the same machine code, with their numbers written in.

        Where there is none for them, a tier of the graph at these.
        """
        code = self._code(extents)
        if code is not None:
            return code.at(extents)
        graph = self._graph
        return Tier(
            graph.operations,
            lambda *_: prices.compiled(graph.at(extents)),
            lambda *inputs: graph.evaluate(extents, inputs),
        )

    def is_met(self, extents: tuple[int, ...]) -> bool:
        """True if these extents were asked for before, of late."""
        if extents in self._met:
            return True
        if len(self._met) >= _MET:
            self._met.clear()
        self._met.add(extents)
        return False

    def _code(self, extents: Sequence[int]) -> SizedCode | None:
        for code in list(self._codes.values()):
            if code is not None and code.is_fit(*extents):
                return code
        is_small = max(extents) < SMALL
        if is_small in self._codes:
            return None
        before = counts().compiles
        code = self._compile(is_small)
        for block in LATE:
            block.note(self._number, counts().compiles - before)
        note(f"a program of {self._graph.operations} operations of any size", _OTHERWISE)
        return code if code is not None and code.is_fit(*extents) else None

    def _compile(self, is_small: bool) -> SizedCode | None:
        code = self._codes[is_small] = compile_sized(self._graph, is_small)
        return code
