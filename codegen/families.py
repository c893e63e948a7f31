"""Families: graphs that differ in extents alone, as those of one training step at many batch sizes do.

    the first size      planned and compiled for itself: its extents are constants
    the second          planned for any (`sized_program`): what has changed is unknown from now on
    every other         the same kernels with other numbers: no planning, no LLVM

What changed is seen by comparing: graphs are of one family if they are equal but for the numbers in their shapes
and parameters, and a number that differs between two of them is an unknown, if it is the extent of an input, or
follows from one (2 n, n - 1). That it does is checked each time; so are the conditions that planning relied on.
A graph for which either fails is planned for itself, as is one that steps through Python.  How many steps a loop has
is a number like any extent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .ir import Graph, Node
from .ir.graph import Region
from .kernel.arguments import SMALL
from .lazily import later
from .lowering import Reduce
from .modes import modes
from .numbers import Apart, apart, with_numbers
from .program import BufferProgram
from .records import record
from .runtime.cache import LRU
from .runtime.executable import Pieces
from .runtime.kernels import KernelTable
from .symbols import LEAST, NotSymbolic, Symbol, checked, evaluated
from .unknowns import Unknowns, fitted

if TYPE_CHECKING:
    from . import sized_program as sized_programs
else:
    sized_programs = later("codegen.sized_program")  # most graphs are planned for themselves, by who finds no family

__all__ = ["Families"]

#: The number of rows of unknown length that take longer than to compile them for theirs saves, if they run often: a sum
#: of 100,000 rows of 4 takes 320 us, and 110 where 4 is known; of 50,000 rows of 8 166 and 57.
_MANY_ROWS = 1000

#: The times that planning for any size is tried for one family.
_TRIES = 3


class Families:
    """The families of graphs that were used last."""

    def __init__(self, kernels: KernelTable) -> None:
        self._kernels = kernels
        self._table = LRU(256)

    def find(self, graph: Graph) -> tuple[BufferProgram, Pieces] | None:
        """The program of a graph with its kernels, if its family has one for any extents."""
        try:
            found = apart(graph)
        except NotSymbolic:
            return None
        key = (modes.fast_math, found.digest)
        family = self._table.get(key)
        if family is None:
            self._table.put(key, _Family(found.numbers))
            return None
        return family.find(graph, found, self._kernels)

    def clear(self) -> None:
        """Forget all of them."""
        self._table.clear()


class _Family:
    def __init__(self, first: tuple[int, ...]) -> None:
        self.samples = [first]
        self.general: _General | None = None

    def find(self, graph: Graph, taken: Apart, kernels: KernelTable) -> tuple[BufferProgram, Pieces] | None:
        """The program of a graph that was taken apart."""
        numbers = taken.numbers
        if self.general is not None:
            if _has_short_rows(graph, self.general.unknowns):
                return None
            found = self.general.at(numbers, graph)
            if found is not None:
                return found
        if numbers in self.samples or len(self.samples) > _TRIES:
            return None
        extents = range(sum(len(i.aval.shape) for i in graph.inputs))  # of inputs: they come first among the numbers
        unknowns = fitted([*self.samples, numbers], [*extents, *taken.lengths])
        is_known = self.general is not None and self.general.unknowns == unknowns
        if is_known or (unknowns is not None and _has_short_rows(graph, unknowns)):
            return None
        self.samples.append(numbers)
        if unknowns is None:
            return None
        general = _general(graph, unknowns, kernels)
        if general is None:
            self.samples += [numbers] * _TRIES  # it will not do better next time
            return None
        self.general = general
        return general.at(numbers, graph)


def _has_short_rows(graph: Graph, unknowns: Unknowns) -> bool:
    """True if the length of many short rows is unknown: of a known length they are straight code."""
    end = 0
    for shape in (i.aval.shape for i in graph.inputs):
        end += len(shape)
        is_short = len(shape) > 1 and shape[-1] <= SMALL and math.prod(shape[:-1]) >= _MANY_ROWS
        if is_short and type(unknowns.numbers[end - 1]) is not int:
            return True
    return False


def _sums_little(loop: Node) -> bool:
    """True if each step of a loop reduces an unknown number of elements, of which there are few: like short rows."""
    bodies = [p.graph for p in loop.params if isinstance(p, Region)]
    for node in [node for body in bodies for node in body.nodes]:
        if isinstance(node.op.lower, Reduce):
            shape = node.inputs[0].aval.shape
            size = math.prod([shape[axis] for axis in node.keywords["axis"]])
            if type(size) is Symbol and size <= SMALL:
                return True
        elif _sums_little(node):
            return True
    return False


# ---------------------------------------------------------------- programs for any extents


@record(frozen=True)
class _General:
    """A program for any extents.

    unknowns    which numbers of a graph they are       expected   all numbers of a graph, from the unknowns
    is_fit      whether planning would decide the same  program    the program of a graph, from these
    """

    unknowns: Unknowns
    expected: Callable[..., tuple[int, ...]]
    is_fit: Callable[..., bool]
    program: Callable[..., tuple[BufferProgram, Pieces] | None]

    def at(self, numbers: tuple[int, ...], graph: Graph) -> tuple[BufferProgram, Pieces] | None:
        """The program for these numbers; None where it would be wrong."""
        values = [numbers[p] for p in self.unknowns.positions]
        if min(values) < LEAST or self.expected(*values) != numbers or not self.is_fit(*values):
            return None
        return self.program(graph, *values)


def _general(graph: Graph, unknowns: Unknowns, kernels: KernelTable) -> _General | None:
    """The program of a graph's family; None where it depends on the numbers in ways that no formula says."""

    def example(values: Sequence[int]) -> Graph:
        made = with_numbers(graph, iter(unknowns.example(values)))
        if any(map(_sums_little, made.nodes)):
            raise NotSymbolic("the number of a few elements is worth to be known")
        return made

    found = sized_programs.sized_program(example)
    if found is None:
        return None
    program, conditions = found
    numbers = unknowns.example([LEAST] * len(unknowns.names))
    return _General(
        unknowns,
        evaluated(numbers, unknowns.names),
        checked(conditions, unknowns.names),
        program.at(unknowns.names, kernels),
    )
