"""Families: graphs that differ in extents alone, as those of one training step at many batch sizes do.

    the first size      planned and compiled for itself: its extents are constants
    the second          planned for any (`symbols`): what has changed is unknown from now on
    every other         the same kernels with other numbers: no planning, no LLVM

What changed is seen by comparing: graphs are of one family if they are equal but for the numbers in their shapes
and parameters, and a number that differs between two of them is an unknown, if it is the extent of an input, or
follows from one (2 n, n - 1). That it does is checked each time; so are the conditions that planning relied on.
A graph for which either fails is planned for itself, as is one that steps through Python or loops.

Planning is done for two examples. Whatever took the number itself, where no formula follows it, differs then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from .ir import CONSTANT, INPUT, Aval, Graph, Node
from .kernel.arguments import SMALL
from .passes import optimize
from .passes.plan import Planned, place, planned
from .program import Gemm, Kernel, Program
from .records import record, replace
from .runtime.cache import LRU
from .runtime.disk import blake2b
from .runtime.executable import Pieces
from .runtime.kernels import KernelTable, NativeKernel, text_of
from .runtime.share import Piece, shared, sized
from .symbols import LEAST, NotSymbolic, Symbol, SymbolicFloat, checked, evaluated, formula, symbol, watched

__all__ = ["Families"]

#: Primes that are no extents of anybody's: what unknowns are in the two examples.
_EXAMPLES = ((10007, 12011, 14009, 16033), (11003, 13007, 15013, 17011))

#: What a number may differ by from a multiple of an extent and still be taken to follow from it: windows, differences.
_NEAR = 4

#: So many rows of unknown length take longer than to compile them for theirs saves, if they run often: a sum of
#: 100,000 rows of 4 takes 320 us, and 110 where 4 is known; of 50,000 rows of 8 166 and 57.
_MANY_ROWS = 1000

#: How often planning for any is tried for one family.
_TRIES = 3

#: What stands where a number stood: of no class that a parameter is of.
_INT, _FLOAT = int, float


class Families:
    """What is known of families of graphs, those used last."""

    def __init__(self, kernels: KernelTable) -> None:
        self._kernels = kernels
        self._table = LRU(256)

    def find(self, graph: Graph) -> tuple[Program, Pieces] | None:
        """The program of a graph with its kernels, if its family has one for any extents."""
        numbers: list[int] = []
        try:
            text = repr(_apart(graph, numbers))
        except NotSymbolic:
            return None
        # The text takes 50 to 65 bytes a node (a chain of functions, a perceptron), and is only compared.
        skeleton = blake2b(text.encode(), digest_size=16).digest()
        family = self._table.get(skeleton)
        if family is None:
            self._table.put(skeleton, _Family(tuple(numbers)))
            return None
        return family.find(graph, tuple(numbers), self._kernels)

    def clear(self) -> None:
        """Forget all of them."""
        self._table.clear()


class _Family:
    def __init__(self, first: tuple[int, ...]) -> None:
        self.samples = [first]
        self.general: _General | None = None

    def find(self, graph: Graph, numbers: tuple[int, ...], kernels: KernelTable) -> tuple[Program, Pieces] | None:
        """The program of a graph of these numbers."""
        if self.general is not None:
            if _has_short_rows(graph, self.general.unknowns):
                return None
            found = self.general.at(numbers, graph)
            if found is not None:
                return found
        if numbers in self.samples or len(self.samples) > _TRIES:
            return None
        unknowns = _fitted(graph, [*self.samples, numbers])
        if unknowns is not None and _has_short_rows(graph, unknowns):
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


# ---------------------------------------------------------------- numbers of a graph


def _apart(graph: Graph, numbers: list[int]) -> Hashable:
    """A graph without its numbers, which are put in the list, in a fixed order."""
    place_of = {node: i for i, node in enumerate((*graph.inputs, *graph.nodes))}
    inputs = [(_without(i.aval.shape, numbers), i.aval.dtype.str) for i in graph.inputs]
    nodes = [
        (
            n.op.name,
            _without(n.params, numbers) if n.op is not CONSTANT else _constant_without(n.params, numbers),
            _without(n.aval.shape, numbers),
            n.aval.dtype.str,
            *[place_of[i] for i in n.inputs],
        )
        for n in graph.nodes
    ]
    return tuple(inputs), tuple(nodes), tuple([place_of[o] for o in graph.outputs])


def _without(value: Any, numbers: list[int]) -> Hashable:
    kind = type(value)
    if kind is int:
        numbers.append(value)
        return _INT
    if kind is tuple:
        return tuple([_without(v, numbers) for v in value])
    if kind not in _PLAIN:
        raise NotSymbolic(f"{value!r} is compared by more than its text")
    return value


#: Classes of parameters whose text says all.
_PLAIN = frozenset((bool, float, str, type(None)))


def _constant_without(params: tuple, numbers: list[int]) -> Hashable:
    """Of a constant: a float that is a whole number may be the count of a mean."""
    value, dtype = params
    if type(value) is float and value.is_integer() and value != 0:
        numbers.append(int(value))
        return _FLOAT, dtype
    return repr(value), dtype  # -0.0 is another constant than 0.0


def _with(graph: Graph, numbers: Iterator[int]) -> Graph:
    """The graph with other numbers."""
    new: dict[Node, Node] = {}
    for i in graph.inputs:
        new[i] = Node(INPUT, (), (), Aval(_filled(i.aval.shape, numbers), i.aval.dtype))
    for n in graph.nodes:
        fill = _constant_filled if n.op is CONSTANT else _filled
        params = fill(n.params, numbers)
        aval = Aval(_filled(n.aval.shape, numbers), n.aval.dtype)
        new[n] = Node(n.op, [new[i] for i in n.inputs], params, aval)
    inputs, nodes, outputs = ([new[x] for x in xs] for xs in (graph.inputs, graph.nodes, graph.outputs))
    return Graph(inputs, nodes, outputs, graph.name)


def _filled(value: Any, numbers: Iterator[int]) -> Any:
    if type(value) is int:
        return next(numbers)
    return tuple([_filled(v, numbers) for v in value]) if type(value) is tuple else value


def _constant_filled(params: tuple, numbers: Iterator[int]) -> tuple:
    value, dtype = params
    if type(value) is float and value.is_integer() and value != 0:
        number = next(numbers)
        value = float(number)
        if isinstance(number, Symbol):
            value = SymbolicFloat(value)
            value.count = number
    return value, dtype


# ---------------------------------------------------------------- unknowns


class _Unknowns(NamedTuple):
    """names, and the positions of the numbers that they are; for every number (name, factor, rest), or itself."""

    names: list[str]
    positions: list[int]
    numbers: list[tuple[str, int, int] | int]

    def example(self, which: int) -> list[int]:
        """The numbers of one of the examples."""
        symbols = {name: symbol(name, _EXAMPLES[which][k]) for k, name in enumerate(self.names)}
        return [n if isinstance(n, int) else symbols[n[0]] * n[1] + n[2] for n in self.numbers]


def _fitted(graph: Graph, samples: Sequence[tuple[int, ...]]) -> _Unknowns | None:
    """What has changed between samples, from the extents of inputs that have; None if something else has."""
    extents = sum(len(i.aval.shape) for i in graph.inputs)  # of inputs: they come first among the numbers
    columns = list(zip(*samples, strict=True))
    found = _Unknowns([], [], [])
    bases: list[tuple[int, ...]] = []
    for position in sorted(range(extents), key=lambda p: columns[p]):
        column = columns[position]
        if len(set(column)) == len(column) and not any(_follows(column, base) for base in bases):
            if len(bases) == len(_EXAMPLES[0]):
                return None
            found.names.append(f"n{len(bases)}")
            found.positions.append(position)
            bases.append(column)
    for column in columns:
        if len(set(column)) == 1:
            found.numbers.append(column[0])
            continue
        fits = ((name, fit) for name, base in zip(found.names, bases, strict=True) if (fit := _follows(column, base)))
        name, fit = next(fits, (None, None))
        if name is None or fit is None:
            return None
        found.numbers.append((name, *fit))
    return found if bases else None


def _has_short_rows(graph: Graph, unknowns: _Unknowns) -> bool:
    """Whether the length of many short rows is unknown: of a known one they are straight code."""
    end = 0
    for shape in (i.aval.shape for i in graph.inputs):
        end += len(shape)
        is_short = len(shape) > 1 and shape[-1] <= SMALL and math.prod(shape[:-1]) >= _MANY_ROWS
        if is_short and type(unknowns.numbers[end - 1]) is not int:
            return True
    return False


def _follows(column: tuple[int, ...], base: tuple[int, ...]) -> tuple[int, int] | None:
    """(factor, rest) such that column = factor * base + rest in every sample."""
    factor, remainder = divmod(column[1] - column[0], base[1] - base[0])
    rest = column[0] - factor * base[0]
    if remainder or factor < 1 or abs(rest) > _NEAR:
        return None
    is_so = all(c == factor * b + rest for c, b in zip(column, base, strict=True))
    return (factor, rest) if is_so else None


# ---------------------------------------------------------------- programs for any extents


@record(frozen=True)
class _General:
    """A program for any extents.

    unknowns    which numbers of a graph they are       expected   all numbers of a graph, from the unknowns
    is_fit      whether planning would decide the same  amounts    all numbers of the program, in order
    """

    unknowns: _Unknowns
    expected: Callable[..., tuple[int, ...]]
    is_fit: Callable[..., bool]
    amounts: Callable[..., tuple[int, ...]]
    planned: Planned
    pieces: dict[int, list[Piece]]
    native: dict[int, NativeKernel]

    def at(self, numbers: tuple[int, ...], graph: Graph) -> tuple[Program, Pieces] | None:
        """The program for these numbers; None where it would be wrong."""
        values = [numbers[p] for p in self.unknowns.positions]
        if min(values) < LEAST or self.expected(*values) != numbers or not self.is_fit(*values):
            return None
        amounts = iter(self.amounts(*values))
        avals = {key: Aval(_filled_in(aval.shape, amounts), aval.dtype) for key, aval in self.planned.avals.items()}
        drafts, parts = [], {}
        for work, used in self.planned.drafts:
            if isinstance(work, Kernel):
                function, extents = work.function, tuple([next(amounts) for _ in work.extents])
                work = replace(work, extents=extents)
                parts[id(work)] = [sized(piece, function, extents) for piece in self.pieces[id(function)]]
            elif isinstance(work, Gemm):
                m, n, k, batch, *strides = [next(amounts) for _ in range(_GEMM)]
                work = replace(work, m=m, n=n, k=k, batch=batch, strides=tuple(strides))
            drafts.append((work, used))
        return place(replace(self.planned, graph=graph), drafts, avals), Pieces(parts, self.native)


#: Numbers of a product.
_GEMM = 7


def _filled_in(shape: Sequence[int], amounts: Iterator[int]) -> tuple[int, ...]:
    return tuple([next(amounts) for _ in shape])


def _general(graph: Graph, unknowns: _Unknowns, kernels: KernelTable) -> _General | None:
    """The program of a graph's family; None where it depends on the numbers in ways that no formula says."""
    try:
        with watched() as conditions:
            first = _sketched(graph, unknowns.example(0))
        second = _sketched(graph, unknowns.example(1))
    except Exception:  # whatever wants the very number: each graph is planned for itself then
        return None
    if first is None or second is None or first.text != second.text:
        return None
    functions = [piece.function for pieces in first.pieces.values() for piece in pieces]
    return _General(
        unknowns,
        evaluated(unknowns.example(0), unknowns.names),
        checked(conditions, unknowns.names),
        evaluated(first.amounts, unknowns.names),
        first.planned,
        first.pieces,
        kernels.load(functions),
    )


class _Sketch(NamedTuple):
    """What was planned for an example: its numbers, the pieces of its kernels by the function, all else as text."""

    planned: Planned
    amounts: list[int]
    pieces: dict[int, list[Piece]]
    text: Hashable


def _sketched(graph: Graph, numbers: list[int]) -> _Sketch | None:
    """Plan a graph for an example."""
    found = planned(optimize(_with(graph, iter(numbers))))
    place_of = {key: i for i, key in enumerate(found.avals)}
    amounts = [n for aval in found.avals.values() for n in aval.shape]
    pieces: dict[int, list[Piece]] = {}
    text: list[Hashable] = [tuple([aval.dtype for aval in found.avals.values()])]
    for work, used in found.drafts:
        text.append(tuple([place_of[key] for key in used]))
        if isinstance(work, Kernel):
            amounts += work.extents
            own = pieces[id(work.function)] = shared(work.function, work.extents)
            text.append((work.updates, *[(text_of(piece.function), piece.is_even) for piece in own]))
        elif isinstance(work, Gemm):
            amounts += (work.m, work.n, work.k, work.batch, *work.strides)
            text.append((work.dtype, work.transpose_a, work.transpose_b))
        else:
            return None
    ends = tuple([place_of[key] for key in (*found.ends.inputs, *found.ends.outputs)])
    return _Sketch(found, amounts, pieces, (ends, *text, *map(formula, amounts)))
