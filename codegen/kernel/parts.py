"""The loops of a sweep over a group's domain: one per set of axes, long ones in blocks and tiles.

    sum of 10,000,000      blocks of 4,096, each added up by itself; then the blocks' sums
    a cut sweep            tiles, in each of which several loops run one after the other

Rows that are carried on to one number are added up in runs within a block: the sum of 3,000 rows of 8 doubles errs by
1.3 of its last bit one by one, by .5 so.

Blocks depend on nothing but extents, so a sum has the same bits on every machine and for any number of
threads, and errs little more than one by pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from ..symbols import smaller, typical
from .arguments import SMALL_INSIDE
from .elements import element_type
from .group import Root
from .index import Index, constant_index
from .monoids import is_sum
from .nest import ScalarType, Value
from .positions import Positions
from .scalar import Scalar

__all__ = [
    "BLOCK", "SIDE_BY_SIDE", "Part", "first_carrying", "is_short", "pieces", "plan_parts", "rows_in_block", "type_of",
]  # fmt: skip

#: Elements of one block of a long sum: in its loop some thirty partial sums run side by side, so the longest
#: chain of additions is that of NumPy's pairwise blocks; and the loop is long enough that its start costs nothing.
BLOCK = 4096

#: The least rows, elements and additions of a block where rows meet in accumulators in memory: each block has its own
#: accumulators, so the rows must outweigh them, and its start costs some 20 ns (100,000 x 8 doubles added up by
#: columns in blocks of 1,024: 54 us, of 4,096: 43).  What rows add one after the other must be no long chain.
ROWS, ELEMENTS, ADDITIONS = 64, 1024, BLOCK

#: Rows of so many elements are done side by side, in the lanes of vectors (`emit.unroll`): these are as many partial
#: sums, and half as many lanes would cost more than they gain.
SIDE_BY_SIDE = 4

#: So many rows make a run: their sums are added up by themselves, so that those of a block are no long chain.
_RUN = 16

#: Rows that meet in single numbers are done in blocks of so many elements, where that is fewer rows: threads share
#: blocks (value and gradient of logsumexp, us: 10 x 100,000 floats 1,261, so 658; 30 x 30,000 1,100, 546; 100 x 10,000
#: 736, 636).
_LONG_ROWS = 1 << 15

#: Where nothing is rounded, blocks are longer: the end of a search costs as much as some hundred elements
#: (argmax of a million floats 80 us, so 72).
_LONG_SEARCH = 4

#: The additions of one block, if that leaves it at least so many elements: blocks are what threads share.
WORK, SHORTEST = 1 << 18, 64


def block_of(cost: int, longest: int = BLOCK) -> int:
    """Elements of one block of a long reduction of elements of this cost in additions."""
    wanted = max(SHORTEST, WORK // max(1, cost))
    return min(longest, 1 << wanted.bit_length() - 1)


def rows_in_block(elements_of_row: int, cost: int, *, of_numbers: bool) -> int:
    """The number of rows of a column reduction that share accumulators; an element costs so many additions.

    of_numbers    the accumulators are single numbers
    """
    least = max(1, min(ROWS, _LONG_ROWS // elements_of_row)) if of_numbers else ROWS
    # In sixteens, so that whole runs make a block.
    return max(least & -16 or least, max(ELEMENTS, ADDITIONS // max(1, cost)) // max(1, elements_of_row) & -16)


class Part:
    """A loop to open over some axes: over their elements, or over blocks of `step` elements.

    whole      elements of the axes
    outer      the loop over larger blocks that this one is in
    is_apart   its iterations share nothing: each puts its results of reductions beside those of the others
    is_run     its iterations are runs of rows, which `Accumulators` adds up by themselves
    first      where it begins
    """

    __slots__ = ("axes", "counter", "extent", "first", "is_apart", "is_run", "outer", "step", "whole")

    def __init__(
        self, axes: tuple[int, ...], whole: int, step: int, outer: Part | None, *, is_apart: bool, is_run: bool = False
    ) -> None:
        self.axes = axes
        self.whole = whole
        self.step = step
        self.outer = outer
        self.is_apart = is_apart
        self.is_run = is_run
        self.first = constant_index(0)
        #: The most iterations it makes.
        self.extent = -(-(outer.step if outer else whole) // step)
        self.counter = constant_index(0)

    @property
    def is_block(self) -> bool:
        """True if an iteration is more than one element."""
        return self.step > 1

    def index(self) -> Index:
        """The first element of the present iteration."""
        own = self.counter.times(self.step).plus(self.first)
        return self.outer.index().plus(own) if self.outer else own

    def length(self, k: Scalar) -> int | Value:
        """The number of iterations here: the last block may be shorter."""
        length = self.index_length(k)
        return length.constant if length.is_constant else k.value_of(length)

    def index_length(self, k: Scalar) -> Index:
        """The number of iterations as an index."""
        if self.outer is None or (self.outer.step <= SMALL_INSIDE and self.whole % self.outer.step == 0):
            return constant_index(self.extent)
        rest = constant_index(self.whole).plus(self.outer.index().times(-1))
        # As if the last block could be shorter, also where none is: so that it is the same code for every extent.
        rest = Index(rest.terms, rest.constant, 1, rest.high)
        rest = k.minimum(rest, constant_index(self.outer.step))
        return rest.plus(constant_index(self.step - 1)).floordiv(self.step)


class LoopPiece(Part):
    """The work of a loop over elements from one place to another; of a loop in a block the share in that block."""

    __slots__ = ("begin", "end")

    def __init__(self, part: Part, begin: int, end: int) -> None:
        super().__init__(part.axes, end - begin, 1, part.outer, is_apart=False)
        self.begin, self.end = begin, end
        if part.outer is None:
            self.first = constant_index(begin)
        else:
            self.whole = part.whole
            self.extent = smaller(part.extent, end - begin)

    def index(self) -> Index:
        if self.outer is None:
            return super().index()
        return self.first.plus(self.counter).within(self.begin, self.end - 1)

    def index_length(self, k: Scalar) -> Index:
        if self.outer is None:
            return super().index_length(k)
        start = self.outer.index()
        end = k.minimum(start.plus(super().index_length(k)), constant_index(self.end))
        # Where it begins stays in the loop as one number, of which more is known than of the block's.
        self.first = k.maximum(start, constant_index(self.begin))
        return k.maximum(end.plus(self.first.times(-1)), constant_index(0))


def pieces(part: Part, turns: Sequence[int]) -> list[Part]:
    """A loop as several, one after the other, that begin at these places."""
    return [LoopPiece(part, begin, end) for begin, end in pairwise((0, *turns, part.whole))]


def plan_parts(
    loops: Sequence[tuple[int, ...]],
    roots: Sequence[Root],
    positions: Positions,
    tile: int | None,
    *,
    top: bool,
    rows: int | None = None,
    run: int | None = None,
) -> list[Part]:
    """The loops over these axes, outermost first.

    tile   the elements of a tile of the last axes, where the sweep is cut
    top    nothing is around these loops: those of a long reduction to one number are blocks apart
    rows   of the outermost axes, where reductions meet in memory: those in one block
    run    of the last axes but one: those that are added up by themselves
    """
    parts: list[Part] = []
    reductions = [r for r in roots if r.is_reduction]
    axes_of_all = {a for axes in loops for a in axes}
    is_search = not any(is_sum(r.node.op.lower.monoid, type_of(r)) for r in reductions)
    longest = _LONG_SEARCH * BLOCK if is_search else BLOCK
    for level, axes in enumerate(loops):
        whole = positions.extent(axes)
        size = typical(whole)
        within = typical(math.prod([positions.extent(a) for a in loops[level + 1 :]]))
        steps = [1]
        if tile is not None and level == len(loops) - 1 and tile < size:
            steps.insert(0, tile)
        apart = top and level == 0 and (rows or any(positions.reduced(r) == axes_of_all for r in reductions))
        # Both are powers of two: whole tiles make a block.
        block = BLOCK
        if apart and rows:
            block = typical(rows)
        elif apart:
            block = max(1, tile or 1, block_of(positions.group.cost, longest) // within)
            block = block & -_RUN or block  # whole runs make a block, too
        is_long = size > block > 1 and (apart or any(_adds_up(r, axes, positions) for r in reductions))
        if is_long:
            steps.insert(0, block)
        is_run = run is not None and level == len(loops) - 2 and run < (steps[0] if len(steps) > 1 else size)
        if run is not None and is_run:
            steps.insert(-1, run)
        elif any(_adds_rows(r, loops[level:], positions) for r in reductions) and (block > 1 or not apart):
            steps[-1:-1] = _run(block if is_long else size, is_block=bool(is_long)) if within > SIDE_BY_SIDE else []
        outer = None
        for step in steps:
            is_block = bool(apart) and step == block < size
            outer = Part(axes, whole, step, outer, is_apart=is_block, is_run=is_run and step == run)
            parts.append(outer)
    return parts


def _run(chain: int, *, is_block: bool) -> list[int]:
    """The numbers of additions, of so many one after the other, that are done by themselves: [] where they are few."""
    if chain < 2 * _RUN:
        return []
    run = max(_RUN, 1 << round(math.log2(chain) / 2))
    # Whole runs make a block: what is left of one would reach into the next.
    while is_block and chain % run:
        run //= 2
    return [run]


def first_carrying(root: Root, parts: Sequence[Part], positions: Positions) -> int:
    """The outermost of the innermost run of loops that `root` reduces over."""
    reduced = positions.reduced(root)
    first = len(parts)
    while first > 0 and parts[first - 1].axes[0] in reduced:
        first -= 1
    return first


def is_short(part: Part) -> bool:
    """True if a loop runs so few times that iterations of the loop around it are done side by side."""
    return isinstance(part.extent, int) and part.extent <= SIDE_BY_SIDE


def type_of(root: Root) -> ScalarType:
    """The type of the elements reduced."""
    return element_type(root.node.inputs[0])


def _adds_rows(root: Root, loops: Sequence[tuple[int, ...]], positions: Positions) -> bool:
    """True if the first of these loops adds up what those in it carry to it."""
    is_carried = all(axes[0] in positions.reduced(root) for axes in loops)
    return is_carried and is_sum(root.node.op.lower.monoid, type_of(root))


def _adds_up(root: Root, axes: tuple[int, ...], positions: Positions) -> bool:
    return is_sum(root.node.op.lower.monoid, type_of(root)) and axes[0] in positions.reduced(root)
