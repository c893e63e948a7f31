"""Families: graphs that differ only in extents, such as those of one training step at many batch sizes.

    the first size      a program with constant extents
    the second          a program for any extents (`sized_code`): the numbers that differ become unknowns
    every other         the program of the second size, with other numbers: no planning, no LLVM

Two graphs are of one family if they are equal except for the numbers in their shapes and parameters.  A number that
differs between two graphs of a family is an unknown if it is the extent of an input, or follows from one (2 n, n - 1).
That it follows is checked for each graph, and so are the conditions on which planning relied.  A graph that fails
either check gets a program with constant extents, and so does a graph that calls Python between steps.  The number of
steps of a loop is treated like an extent.
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
from .numbers import SeparatedGraph, separate_numbers, with_numbers
from .records import NamedTuple
from .runtime.cache import LRU
from .runtime.executable import Executable, may_refuse
from .runtime.kernels import KernelTable
from .symbols import LEAST, NotSymbolic, Symbol, conditions_function, numbers_function, symbol

if TYPE_CHECKING:
    from . import sized_code as codes
else:  # imported at the first use: most graphs get programs with constant extents
    codes = later("codegen.sized_code")

#: From this number of short rows on, code for their known length repays its compilation if it runs often: the sums of
#: 100,000 rows of 4 take 320 us, and 110 if the length 4 is known; of 50,000 rows of 8 166 and 57.
_MANY_ROWS = 1000

#: The most attempts to plan one family for any size.
_MOST_ATTEMPTS = 3


class Families:
    """The cache of families, the last used ones."""

    def __init__(self, kernels: KernelTable) -> None:
        self._kernels = kernels
        self._table = LRU(256)

    def find(self, graph: Graph) -> Executable | None:
        """The executable of a graph, if its family has a program for any extents."""
        try:
            found = separate_numbers(graph)
        except NotSymbolic:
            return None
        key = (modes.fast_math, found.digest)
        family = self._table.get(key)
        if family is None:
            self._table.put(key, _Family(found.numbers))
            return None
        return family.find(graph, found, self._kernels)

    def clear(self) -> None:
        """Drop all families."""
        self._table.clear()


class _Family:
    def __init__(self, first: tuple[int, ...]) -> None:
        self.samples = [first]
        self.program: _AnySizeProgram | None = None

    def find(self, graph: Graph, separated: SeparatedGraph, kernels: KernelTable) -> Executable | None:
        """The executable of a graph, which `separated` holds as numbers and digest; None if there is none."""
        numbers = separated.numbers
        if self.program is not None:
            if _has_short_rows(graph, self.program.unknowns):
                return None
            found = self.program.at(numbers, graph)
            if found is not None:
                return found
        if numbers in self.samples or len(self.samples) > _MOST_ATTEMPTS:
            return None
        extents = range(sum(len(i.aval.shape) for i in graph.inputs))  # positions: extents of inputs come first
        unknowns = fit_unknowns([*self.samples, numbers], [*extents, *separated.lengths])
        is_known = self.program is not None and self.program.unknowns == unknowns
        if is_known or (unknowns is not None and _has_short_rows(graph, unknowns)):
            return None
        self.samples.append(numbers)
        if unknowns is None:
            return None
        program = _any_size_program(graph, unknowns, kernels)
        if program is None:
            self.samples += [numbers] * _MOST_ATTEMPTS  # another attempt would fail likewise
            return None
        self.program = program
        return program.at(numbers, graph)


def _has_short_rows(graph: Graph, unknowns: Unknowns) -> bool:
    """True if an input has many short rows of unknown length: with a known length their loop is unrolled."""
    end = 0
    for shape in (i.aval.shape for i in graph.inputs):
        end += len(shape)
        is_short = len(shape) > 1 and shape[-1] <= SMALL and math.prod(shape[:-1]) >= _MANY_ROWS
        if is_short and type(unknowns.numbers[end - 1]) is not int:
            return True
    return False


def _sums_few_elements(loop: Node) -> bool:
    """True if each step of a loop reduces an unknown but small number of elements, which is slow like short rows."""
    bodies = [p.graph for p in loop.params if isinstance(p, Region)]
    for node in [node for body in bodies for node in body.nodes]:
        if isinstance(node.op.lower, Reduce):
            shape = node.inputs[0].aval.shape
            size = math.prod([shape[axis] for axis in node.keywords["axis"]])
            if type(size) is Symbol and size <= SMALL:
                return True
        elif _sums_few_elements(node):
            return True
    return False


# ---------------------------------------------------------------- programs for any extents


class _AnySizeProgram:
    """The program of a family for any extents.

    unknowns    the numbers of a graph that are unknown, and the formulas of the others
    """

    def __init__(self, unknowns: Unknowns, found: codes.SizedProgram, kernels: KernelTable) -> None:
        self.unknowns = unknowns
        self._found, self._kernels = found, kernels
        self._expected = numbers_function(unknowns.example([LEAST] * len(unknowns.names)), unknowns.names)
        self._is_fit = conditions_function({**found.conditions, **found.limits}, unknowns.names)
        self._code: codes.SizedCode | None = None  # made for the first graph that fits

    def at(self, numbers: tuple[int, ...], graph: Graph) -> Executable | None:
        """The executable of a graph with these numbers; None if the program is not valid for them."""
        values = [numbers[p] for p in self.unknowns.positions]
        if min(values) < LEAST or self._expected(*values) != numbers or not self._is_fit(*values):
            return None
        if self._code is None:
            self._code = codes.SizedCode(self._found, self.unknowns.names, self._kernels)
        return Executable.of(self._code.plan(values, graph), graph if may_refuse(self._found.program) else None)


def _any_size_program(graph: Graph, unknowns: Unknowns, kernels: KernelTable) -> _AnySizeProgram | None:
    """The program of a graph's family; None if it depends on the unknowns in a way that no formula expresses."""

    def example(values: Sequence[int]) -> Graph:
        made = with_numbers(graph, iter(unknowns.example(values)))
        if any(map(_sums_few_elements, made.nodes)):
            raise NotSymbolic("the number of a few elements is worth to be known")
        return made

    found = codes.sized_program(example)
    return None if found is None else _AnySizeProgram(unknowns, found, kernels)


# ---------------------------------------------------------------- the unknowns of a family, and formulas of them
#
#     (8, 3, 8, 24) and (9, 3, 9, 27)      n0 is the first number; the four numbers are n0, 3, n0, 3 n0
#
# The formulas are guessed from samples, and checked for each graph (`_AnySizeProgram.at`).


#: The most unknowns of a program for any extents.
_MOST_UNKNOWNS = 4

#: The largest constant r in a formula c n + r for a number that follows from an extent n: windows, differences.
_LARGEST_REST = 4

#: The most unknowns in a product from which a number may follow.
_MOST_FACTORS = 3


class Unknowns(NamedTuple):
    """The names of the unknowns, the position of each among the numbers, and for every number its value if it is known,
    or (names, factor, rest) for factor times the product of these unknowns, plus rest.
    """

    names: list[str]
    positions: list[int]
    numbers: list[tuple[tuple[str, ...], int, int] | int]

    def example(self, values: Sequence[int]) -> list[int]:
        """All numbers, as formulas of symbols whose examples are these values, one for each unknown."""
        symbols = {name: symbol(name, value) for name, value in zip(self.names, values, strict=False)}
        return [
            n if isinstance(n, int) else math.prod([symbols[name] for name in n[0]]) * n[1] + n[2] for n in self.numbers
        ]


def fit_unknowns(samples: Sequence[tuple[int, ...]], places: Iterable[int], name: str = "n") -> Unknowns | None:
    """The unknowns among the numbers at these places, which explain all differences between samples; None if none do.

    name    the beginning of the names of the unknowns
    """
    columns = list(zip(*samples, strict=True))
    found = Unknowns([], [], [])
    bases: list[tuple[int, ...]] = []
    for position in sorted(places, key=lambda p: columns[p]):
        column = columns[position]
        if len(set(column)) > 1 and not any(_linear_fit(column, base) for base in bases):
            if len(bases) == _MOST_UNKNOWNS:
                return None
            found.names.append(f"{name}{len(bases)}")
            found.positions.append(position)
            bases.append(column)
    for column in columns:
        number = column[0] if len(set(column)) == 1 else _formula_of(column, dict(zip(found.names, bases, strict=True)))
        if number is None:
            return None
        found.numbers.append(number)
    return found if bases else None


def _formula_of(column: tuple[int, ...], bases: dict[str, tuple[int, ...]]) -> tuple[tuple[str, ...], int, int] | None:
    """The formula of a number in an unknown or in a product of unknowns; None if there is none."""
    for count in range(1, _MOST_FACTORS + 1):
        for names in combinations_with_replacement(bases, count):
            fit = _linear_fit(column, tuple(map(math.prod, zip(*[bases[name] for name in names], strict=True))))
            if fit:
                return names, *fit
    return None


def _linear_fit(column: tuple[int, ...], base: tuple[int, ...]) -> tuple[int, int] | None:
    """(factor, rest) such that column = factor * base + rest in every sample; None if there are none."""
    low, high = (base.index(extreme(base)) for extreme in (min, max))
    if low == high:
        return None  # a product of unknowns that is equal in all samples
    factor, remainder = divmod(column[high] - column[low], base[high] - base[low])
    rest = column[0] - factor * base[0]
    if remainder or factor < 1 or abs(rest) > _LARGEST_REST:
        return None
    is_so = all(c == factor * b + rest for c, b in zip(column, base, strict=True))
    return (factor, rest) if is_so else None
