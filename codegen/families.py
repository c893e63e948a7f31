"""Families: graphs that differ in extents alone, as those of one training step at many batch sizes do.

    the first size      planned and compiled for itself: its extents are constants
    the second          planned for any (`sized_code`): what has changed is unknown from now on
    every other         the same kernels with other numbers: no planning, no LLVM

What changed is seen by comparing: graphs are of one family if they are equal but for the numbers in their shapes
and parameters, and a number that differs between two of them is an unknown, if it is the extent of an input, or
follows from one (2 n, n - 1). That it does is checked each time; so are the conditions that planning relied on.
A graph for which either fails is planned for itself, as is one that steps through Python.  How many steps a loop has
is a number like any extent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

from .ir import Graph, Node
from .ir.graph import Region
from .kernel.arguments import SMALL
from .lazily import later
from .lowering import Reduce
from .modes import modes
from .numbers import Apart, apart, with_numbers
from .records import NamedTuple
from .runtime.cache import LRU
from .runtime.executable import Executable, may_refuse
from .runtime.kernels import KernelTable
from .symbols import LEAST, NotSymbolic, Symbol, checked, evaluated, symbol

if TYPE_CHECKING:
    from . import sized_code as codes
else:  # most graphs are planned for themselves, by who finds no family
    codes = later("codegen.sized_code")

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

    def find(self, graph: Graph) -> Executable | None:
        """The executable of a graph, if its family has a program for any extents."""
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

    def find(self, graph: Graph, taken: Apart, kernels: KernelTable) -> Executable | None:
        """The executable of a graph that was taken apart."""
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


class _General:
    """A program for any extents.

    unknowns    which numbers of a graph they are
    """

    def __init__(self, unknowns: Unknowns, found: codes.SizedProgram, kernels: KernelTable) -> None:
        self.unknowns = unknowns
        self._found, self._kernels = found, kernels
        self._expected = evaluated(unknowns.example([LEAST] * len(unknowns.names)), unknowns.names)
        self._is_fit = checked({**found.conditions, **found.limits}, unknowns.names)
        self._code: codes.SizedCode | None = None  # made for the first graph that it is right for

    def at(self, numbers: tuple[int, ...], graph: Graph) -> Executable | None:
        """The executable of a graph with these numbers; None where the program would be wrong."""
        values = [numbers[p] for p in self.unknowns.positions]
        if min(values) < LEAST or self._expected(*values) != numbers or not self._is_fit(*values):
            return None
        if self._code is None:
            self._code = codes.SizedCode(self._found, self.unknowns.names, self._kernels)
        return Executable.of(self._code.plan(values, graph), graph if may_refuse(self._found.program) else None)


def _general(graph: Graph, unknowns: Unknowns, kernels: KernelTable) -> _General | None:
    """The program of a graph's family; None where it depends on the numbers in ways that no formula says."""

    def example(values: Sequence[int]) -> Graph:
        made = with_numbers(graph, iter(unknowns.example(values)))
        if any(map(_sums_little, made.nodes)):
            raise NotSymbolic("the number of a few elements is worth to be known")
        return made

    found = codes.sized_program(example)
    return None if found is None else _General(unknowns, found, kernels)


# ---------------------------------------------------------------- which numbers change, and how others follow
#
#     (8, 3, 8, 24) and (9, 3, 9, 27)      n0 = the first;  n0, 3, n0, 3 n0
#
# The rule is guessed from samples and checked wherever it is used (`Unknowns.numbers`).


#: Of a program with more unknowns nothing is said.
MOST = 4

#: The most that a number which follows from an extent may be away from a multiple of it: windows, differences.
_NEAR = 4

#: A number may follow from a product of so many unknowns.
_MOST_FACTORS = 3


class Unknowns(NamedTuple):
    """names, and the positions of the numbers that they are; for every number (names, factor, rest), or itself:
    factor times their product, and the rest.
    """

    names: list[str]
    positions: list[int]
    numbers: list[tuple[tuple[str, ...], int, int] | int]

    def example(self, values: Sequence[int]) -> list[int]:
        """The numbers for an example, which has a value for each of at most `MOST` unknowns."""
        symbols = {name: symbol(name, value) for name, value in zip(self.names, values, strict=False)}
        return [
            n if isinstance(n, int) else math.prod([symbols[name] for name in n[0]]) * n[1] + n[2] for n in self.numbers
        ]


def fitted(samples: Sequence[tuple[int, ...]], places: Iterable[int], name: str = "n") -> Unknowns | None:
    """The unknowns that changed between samples, by the numbers at these places; None if something else changed.

    name    what the names of unknowns begin with
    """
    columns = list(zip(*samples, strict=True))
    found = Unknowns([], [], [])
    bases: list[tuple[int, ...]] = []
    for position in sorted(places, key=lambda p: columns[p]):
        column = columns[position]
        if len(set(column)) > 1 and not any(_follows(column, base) for base in bases):
            if len(bases) == MOST:
                return None
            found.names.append(f"{name}{len(bases)}")
            found.positions.append(position)
            bases.append(column)
    for column in columns:
        number = column[0] if len(set(column)) == 1 else _from(column, dict(zip(found.names, bases, strict=True)))
        if number is None:
            return None
        found.numbers.append(number)
    return found if bases else None


def _from(column: tuple[int, ...], bases: dict[str, tuple[int, ...]]) -> tuple[tuple[str, ...], int, int] | None:
    """The formula of a number in an unknown, or in a product of some."""
    for count in range(1, _MOST_FACTORS + 1):
        for names in combinations_with_replacement(bases, count):
            fit = _follows(column, tuple(map(math.prod, zip(*[bases[name] for name in names], strict=True))))
            if fit:
                return names, *fit
    return None


def _follows(column: tuple[int, ...], base: tuple[int, ...]) -> tuple[int, int] | None:
    """(factor, rest) such that column = factor * base + rest in every sample."""
    low, high = (base.index(extreme(base)) for extreme in (min, max))
    if low == high:
        return None  # a product of unknowns that is the same in all samples
    factor, remainder = divmod(column[high] - column[low], base[high] - base[low])
    rest = column[0] - factor * base[0]
    if remainder or factor < 1 or abs(rest) > _NEAR:
        return None
    is_so = all(c == factor * b + rest for c, b in zip(column, base, strict=True))
    return (factor, rest) if is_so else None
