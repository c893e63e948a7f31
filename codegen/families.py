"""Families: graphs that differ in extents alone, as those of one training step at many batch sizes do.

    the first size      planned and compiled for itself: its extents are constants
    the second          planned for any (`symbols`): what has changed is unknown from now on
    every other         the same kernels with other numbers: no planning, no LLVM

What changed is seen by comparing: graphs are of one family if they are equal but for the numbers in their shapes
and parameters, and a number that differs between two of them is an unknown, if it is the extent of an input, or
follows from one (2 n, n - 1). That it does is checked each time; so are the conditions that planning relied on.
A graph for which either fails is planned for itself, as is one that steps through Python.  How many steps a loop has
is a number like any extent.

Planning is done for two examples. Whatever took the number itself, where no formula follows it, differs then.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .ir import Aval, Graph, Node
from .ir.graph import Region
from .kernel.arguments import SMALL
from .lazily import later
from .lowering import Reduce
from .modes import modes
from .numbers import Apart, apart, with_numbers
from .program import Branch, Gemm, Kernel, Loop, Program, While
from .records import record, replace
from .runtime.cache import LRU
from .runtime.executable import Pieces
from .runtime.kernels import KernelTable, NativeKernel, text_of
from .symbols import LEAST, Conditions, NotSymbolic, Symbol, checked, evaluated, formula, watched
from .unknowns import Unknowns, fitted

if TYPE_CHECKING:
    from . import amounts as of_nests
    from . import passes
    from .passes import caches, plan
    from .passes.plan import Planned
    from .runtime import share
    from .runtime.share import Piece
else:
    of_nests = later("codegen.amounts")  # loops and branches only
    # Most graphs are planned for themselves, by who finds no family.
    caches, passes, plan = later("codegen.passes.caches"), later("codegen.passes"), later("codegen.passes.plan")
    share = later("codegen.runtime.share")

__all__ = ["Families", "Sketch", "sketched"]

#: Primes that are no extents of anybody's: what unknowns are in the two examples.
_EXAMPLES = ((10007, 12011, 14009, 16033), (11003, 13007, 15013, 17011))
_FEW = ((103, 107, 109, 113), (107, 109, 113, 127))

#: So many rows of unknown length take longer than to compile them for theirs saves, if they run often: a sum of
#: 100,000 rows of 4 takes 320 us, and 110 where 4 is known; of 50,000 rows of 8 166 and 57.
_MANY_ROWS = 1000

#: How often planning for any is tried for one family.
_TRIES = 3


class Families:
    """The families of graphs that were used last."""

    def __init__(self, kernels: KernelTable) -> None:
        self._kernels = kernels
        self._table = LRU(256)

    def find(self, graph: Graph) -> tuple[Program, Pieces] | None:
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

    def find(self, graph: Graph, taken: Apart, kernels: KernelTable) -> tuple[Program, Pieces] | None:
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
        if unknowns is not None and (_has_short_rows(graph, unknowns) or self.is_known(unknowns)):
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

    def is_known(self, unknowns: Unknowns) -> bool:
        """True if the program for any such numbers is there."""
        return self.general is not None and self.general.unknowns == unknowns


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
    is_fit      whether planning would decide the same  amounts    all numbers of the program, in order
    native      its kernels, compiled when they are first wanted
    """

    unknowns: Unknowns
    expected: Callable[..., tuple[int, ...]]
    is_fit: Callable[..., bool]
    amounts: Callable[..., tuple[int, ...]]
    planned: Planned
    pieces: dict[int, list[Piece]]
    nests: dict[int, of_nests.Nest]
    native: Callable[[], dict[int, NativeKernel]]

    def at(self, numbers: tuple[int, ...], graph: Graph) -> tuple[Program, Pieces] | None:
        """The program for these numbers; None where it would be wrong."""
        values = [numbers[p] for p in self.unknowns.positions]
        if min(values) < LEAST or self.expected(*values) != numbers or not self.is_fit(*values):
            return None
        amounts, native = iter(self.amounts(*values)), self.native()
        avals = {key: Aval(_filled_in(aval.shape, amounts), aval.dtype) for key, aval in self.planned.avals.items()}
        drafts, code = [], Pieces({}, dict(native), {})
        for work, used in self.planned.drafts:
            if isinstance(work, Kernel):
                if caches.is_beyond_caches([avals[key].nbytes for key in used]):
                    return None
                function, extents = work.function, tuple([next(amounts) for _ in work.extents])
                work = replace(work, extents=extents)
                code.parts[id(work)] = [share.sized(piece, function, extents) for piece in self.pieces[id(function)]]
            elif isinstance(work, Gemm):
                m, n, k, batch, *strides = [next(amounts) for _ in range(_GEMM)]
                work = replace(work, m=m, n=n, k=k, batch=batch, strides=tuple(strides))
            else:
                work = self.nests[id(work)].at(amounts, native, code)
                if work is None:
                    return None
            drafts.append((work, used))
        return plan.place(replace(self.planned, graph=graph), drafts, avals), code


#: Numbers of a product.
_GEMM = 7


def _filled_in(shape: Sequence[int], amounts: Iterator[int]) -> tuple[int, ...]:
    return tuple([next(amounts) for _ in shape])


def _general(graph: Graph, unknowns: Unknowns, kernels: KernelTable) -> _General | None:
    """The program of a graph's family; None where it depends on the numbers in ways that no formula says."""
    found = sketched(lambda values: with_numbers(graph, iter(unknowns.example(values))))
    if found is None:
        return None
    first, conditions = found
    functions: list[Any] = [piece.function for pieces in first.pieces.values() for piece in pieces]
    functions += [function for nest in first.nests.values() for function in nest.functions]
    return _General(
        unknowns,
        evaluated(unknowns.example(_EXAMPLES[0]), unknowns.names),
        checked(conditions, unknowns.names),
        evaluated(first.amounts, unknowns.names),
        first.planned,
        first.pieces,
        first.nests,
        functools.cache(lambda: kernels.load(functions)),
    )


class Sketch(NamedTuple):
    """The plan of an example: its numbers; pieces of kernels, by the function; nests; all else as text."""

    planned: Planned
    amounts: list[int]
    pieces: dict[int, list[Piece]]
    nests: dict[int, of_nests.Nest]
    text: Hashable


def sketched(
    graph: Callable[[Sequence[int]], Graph], is_small: bool = False
) -> tuple[Sketch, Conditions] | None:
    """The plan for any values of unknowns, and the conditions on them; None where no formula says it.

    graph      a graph in which these values, which are symbols' examples, stand for the unknowns
    is_small   the examples are some hundred: where planning decides by size, as for few
    """
    examples = _FEW if is_small else _EXAMPLES
    try:
        with watched() as conditions:
            first = _sketched(graph(examples[0]))
        second = _sketched(graph(examples[1]))
    except Exception:  # whatever wants the very number: each graph is planned for itself then
        return None
    if first is None or second is None or first.text != second.text:
        return None
    return first, conditions


def _sketched(example: Graph) -> Sketch | None:
    """Plan a graph for an example."""
    if any([_sums_little(n) for n in example.nodes]):
        return None
    found = plan.planned(passes.optimize(example))
    place_of = {key: i for i, key in enumerate(found.avals)}
    amounts = [n for aval in found.avals.values() for n in aval.shape]
    pieces: dict[int, list[Piece]] = {}
    nests: dict[int, of_nests.Nest] = {}
    text: list[Hashable] = [tuple([aval.dtype for aval in found.avals.values()])]
    for work, used in found.drafts:
        text.append(tuple([place_of[key] for key in used]))
        if isinstance(work, Kernel):
            amounts += work.extents
            own = pieces[id(work.function)] = share.shared(work.function, work.extents)
            text.append((work.updates, *[(text_of(piece.function), piece.form) for piece in own]))
        elif isinstance(work, Gemm):
            amounts += (work.m, work.n, work.k, work.batch, *work.strides)
            text.append((work.dtype, work.transpose_a, work.transpose_b))
        elif isinstance(work, Loop | While | Branch):
            nest = nests[id(work)] = of_nests.nest_of(work, len(used))
            amounts += nest.amounts
            text.append(nest.text)
        else:
            return None
    ends = tuple([place_of[key] for key in (*found.ends.inputs, *found.ends.outputs)])
    return Sketch(found, amounts, pieces, nests, (ends, *text, *map(formula, amounts)))
