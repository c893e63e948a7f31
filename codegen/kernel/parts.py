"""The loops of a sweep over a group's domain: one per set of axes, long ones in blocks.

    sum of 10,000,000      blocks of 4,096, each added up by itself; then the blocks' sums

Within a block, rows that are reduced to one number are added up in runs: the sum of 3,000 rows of 8 doubles then errs
by .5 of its last bit, and by 1.3 if it is formed row by row.

Blocks depend only on extents, so a sum has the same bits on every machine and for any number of threads.  Its error
is little more than that of pairwise summation.

Where rows share accumulators in memory, several rows are done at a time:

    for i in 0..n, j in 0..m:  acc[j] += x[i,j]        an accumulator is loaded and stored for each element,
                                                       and each row waits for what the one before has stored
    for i in 0..n // 4, j in 0..m:  acc[j] += (x[4i,j] + x[4i+1,j]) + (x[4i+2,j] + x[4i+3,j])
    for i in n // 4 * 4..n, j in 0..m:  acc[j] += x[i,j]

A reduction that has an accumulator for each row is still combined row by row.
The sum of 100,000 rows of 8 floats takes 354 us row by row, and 60 with several rows at a time.

Rows that are also stored are done one by one if they fill vectors: done together, each store would be followed by
loads of other rows, which wait for it if both are at the same offset in their pages (three times as long).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from ..symbols import smaller, typical
from .arguments import SMALL, SMALL_INSIDE
from .elements import element_type
from .group import Positions, Root
from .index import Index, constant_index
from .monoids import Accumulator, combine, is_sum
from .nest import INDEX, ScalarType, Value
from .scalar import Scalar

#: Elements of one block of a long sum.  With some thirty partial sums side by side, the longest chain of additions is
#: as long as in NumPy's pairwise blocks.
BLOCK = 4096

#: The minimum rows, elements and additions of a block whose rows share accumulators in memory: the rows must outweigh
#: the block's own accumulators, and its start, 20 ns.
ROWS, ELEMENTS, ADDITIONS = 64, 1024, BLOCK

#: Rows of up to this many elements are done side by side, in the lanes of vectors (`emit.short_rows`).
SIDE_BY_SIDE = 4

#: The minimum rows of a run: each run is summed separately, so that the rows of a block are no long chain of additions.
_RUN = 16

#: The elements of a block of rows that are reduced to single numbers, if these are fewer than ROWS rows: threads divide
#: the blocks (value and gradient of logsumexp, 10 x 100,000 floats: 658 us instead of 1,261).
_LONG_ROWS = 1 << 15

#: The additions of one block, and the minimum of its elements: threads divide the blocks.
WORK, SHORTEST = 1 << 18, 64


def block_of(cost: int) -> int:
    """The elements of one block of a long reduction; an element costs `cost` additions."""
    wanted = max(SHORTEST, WORK // max(1, cost))
    return min(BLOCK, 1 << wanted.bit_length() - 1)


def rows_in_block(elements_of_row: int, cost: int, *, of_numbers: bool) -> int:
    """The number of rows of a column reduction that share accumulators; an element costs `cost` additions.

    of_numbers    the accumulators are single numbers
    """
    least = max(1, min(ROWS, _LONG_ROWS // elements_of_row)) if of_numbers else ROWS
    # In sixteens, so that whole runs make a block.
    return max(least & -16 or least, max(ELEMENTS, ADDITIONS // max(1, cost)) // max(1, elements_of_row) & -16)


class Part:
    """A loop to open over some axes: over their elements, or over blocks of `step` elements.

    whole      the number of elements along the axes
    outer      the loop over larger blocks that this one is in;   first   the index of its first element
    is_run     its iterations are runs of rows, each of which `Accumulators` sums separately
    is_independent   its iterations share nothing: each stores its partial results of reductions in a place of its own
    """

    __slots__ = ("axes", "counter", "extent", "first", "is_independent", "is_run", "outer", "step", "whole")

    def __init__(
        self, axes: tuple[int, ...], whole: int, step: int, outer: Part | None,
        *, is_independent: bool, is_run: bool = False,
    ) -> None:  # fmt: skip
        self.axes = axes
        self.whole = whole
        self.step = step
        self.outer = outer
        self.is_independent = is_independent
        self.is_run = is_run
        self.first = constant_index(0)
        #: The maximum number of its iterations.
        self.extent = -(-(outer.step if outer else whole) // step)
        self.counter = constant_index(0)

    @property
    def is_block(self) -> bool:
        """True if an iteration covers more than one element."""
        return self.step > 1

    def index(self) -> Index:
        """The first element of the current iteration."""
        own = self.counter.times(self.step).plus(self.first)
        return self.outer.index().plus(own) if self.outer else own

    def length(self, k: Scalar) -> int | Value:
        """The number of iterations in the current outer block: the last block may be shorter."""
        length = self.index_length(k)
        return length.constant if length.is_constant else k.value_of(length)

    def index_length(self, k: Scalar) -> Index:
        """The number of iterations as an index."""
        if self.outer is None or (self.outer.step <= SMALL_INSIDE and self.whole % self.outer.step == 0):
            return constant_index(self.extent)
        rest = constant_index(self.whole).plus(self.outer.index().times(-1))
        # The last block is always treated as possibly shorter, so that the code is the same for every extent.
        rest = Index(rest.terms, rest.constant, 1, rest.high)
        rest = k.minimum(rest, constant_index(self.outer.step))
        return rest.plus(constant_index(self.step - 1)).floordiv(self.step)


class LoopPiece(Part):
    """The part of a loop from element `begin` to `end`; of a loop in a block, the part that is also in that block."""

    __slots__ = ("begin", "end")

    def __init__(self, part: Part, begin: int, end: int) -> None:
        super().__init__(part.axes, end - begin, 1, part.outer, is_independent=False)
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
        # The first index stays one value in the loop, with a narrower range than the start of the block.
        self.first = k.maximum(start, constant_index(self.begin))
        return k.maximum(end.plus(self.first.times(-1)), constant_index(0))


def pieces(part: Part, turns: Sequence[int]) -> list[Part]:
    """Cut a loop at the places `turns` into several loops, one after the other."""
    return [LoopPiece(part, begin, end) for begin, end in pairwise((0, *turns, part.whole))]


def plan_parts(
    loops: Sequence[tuple[int, ...]],
    roots: Sequence[Root],
    positions: Positions,
    *,
    top: bool,
    rows: int | None = None,
    run: int | None = None,
) -> list[Part]:
    """The loops over these axes, outermost first.

    top    no loop is around these: a long reduction to one number is then split into independent blocks
    rows   the rows of the outermost axes in one block, where reductions have accumulators in memory
    run    the rows of the last axes but one that are summed separately, as a run
    """
    parts: list[Part] = []
    reductions = [r for r in roots if r.is_reduction]
    axes_of_all = {a for axes in loops for a in axes}
    for level, axes in enumerate(loops):
        whole = positions.extent(axes)
        size = typical(whole)
        within = typical(math.prod([positions.extent(a) for a in loops[level + 1 :]]))
        steps = [1]
        independent = top and level == 0 and (rows or any(positions.reduced(r) == axes_of_all for r in reductions))
        block = BLOCK
        if independent and rows:
            block = typical(rows)
        elif independent:
            block = max(1, block_of(positions.group.cost) // within)
            block = block & -_RUN or block  # whole runs make a block, too
        is_long = size > block > 1 and (independent or any(_adds_rows(r, (axes,), positions) for r in reductions))
        if is_long:
            steps.insert(0, block)
        is_run = run is not None and level == len(loops) - 2 and run < (steps[0] if len(steps) > 1 else size)
        if run is not None and is_run:
            steps.insert(-1, run)
        elif any(_adds_rows(r, loops[level:], positions) for r in reductions) and (block > 1 or not independent):
            steps[-1:-1] = _run(block if is_long else size, is_block=bool(is_long)) if within > SIDE_BY_SIDE else []
        outer = None
        for step in steps:
            is_block = bool(independent) and step == block < size
            outer = Part(axes, whole, step, outer, is_independent=is_block, is_run=is_run and step == run)
            parts.append(outer)
    return parts


def _run(chain: int, *, is_block: bool) -> list[int]:
    """The length of the runs into which a chain of so many additions is split, as a list; [] for a short chain."""
    if chain < 2 * _RUN:
        return []
    run = max(_RUN, 1 << round(math.log2(chain) / 2))
    # A block is a whole number of runs: a run that is left over would reach into the next block.
    while is_block and chain % run:
        run //= 2
    return [run]


def first_carrying(root: Root, parts: Sequence[Part], positions: Positions) -> int:
    """The outermost loop from which on `root` reduces over every loop; len(parts) if it keeps the innermost one."""
    reduced = positions.reduced(root)
    first = len(parts)
    while first > 0 and parts[first - 1].axes[0] in reduced:
        first -= 1
    return first


def is_short(part: Part) -> bool:
    """True if a loop has so few iterations that iterations of the loop around it are done side by side."""
    return isinstance(part.extent, int) and part.extent <= SIDE_BY_SIDE


def type_of(root: Root) -> ScalarType:
    """The type of the elements reduced."""
    return element_type(root.node.inputs[0])


def _adds_rows(root: Root, loops: Sequence[tuple[int, ...]], positions: Positions) -> bool:
    """True if `root` is a sum over all these loops, so that the first one adds up the sums of those inside it."""
    is_carried = all(axes[0] in positions.reduced(root) for axes in loops)
    return is_carried and is_sum(root.node.op.lower.monoid, type_of(root))


# ---------------------------------------------------------------- several rows at a time


#: (maximum cost of an element in additions, number of rows done together).
_COSTS = ((8, 8), (24, 4))

#: Rows of this length have enough independent vectors: fewer are done together (1024 x 1024 doubles: 335 us, not 614).
_FULL_ROW, _FULL_ROWS_TOGETHER = 32, 4

#: Rows of this length fill vectors: accumulators are loaded as the vectors that were stored, so no load waits.
_FILLS = 16


def rows_at_a_time(parts: Sequence[Part], roots: Sequence[Root], innermost: Sequence[Root], cost: int) -> int:
    """The number of iterations of the last loop but one that are done together; 1 where that would not help.

    innermost   the roots whose accumulators in memory each element is combined into
    """
    *_, rows, columns = parts
    if rows.is_block or columns.is_block:
        return 1
    if not innermost or any(r.is_reduction and r not in innermost for r in roots):
        return 1
    length = typical(columns.extent)
    if length >= _FILLS and any(r.stored and not r.is_reduction for r in roots):
        return 1
    most_rows = _FULL_ROWS_TOGETHER if length >= _FULL_ROW else typical(rows.extent) // 2
    return next((min(n, most_rows) for most, n in _COSTS if cost <= most and typical(rows.extent) >= 2 * n), 1)


def rows_together(
    k: Scalar,
    positions: Positions,
    parts: Sequence[Part],
    count: int,
    body: Callable[[], dict[Root, Accumulator]],
    enter: Callable[[Root, Accumulator], None],
    sharing: Sequence[Root],
) -> None:
    """Write the last two loops, the outer one with `count` iterations at a time.

    body      computes one element of each root
    enter     combines the result of one row, or of several rows, into an accumulator
    sharing   the roots whose rows meet in one accumulator for each column
    """
    *_, rows, columns = parts
    length = rows.index_length(k)
    whole = length.floordiv(count)
    rest = length.plus(whole.times(-count))
    rest = Index(rest.terms, rest.constant, 0, count - 1)
    _loops(k, positions, rows, columns, whole, count, lambda i: i.times(count), body, enter, sharing)
    # The loop over the rest is written even if it is empty, when another extent of the same code may leave a rest.
    if not rest.is_constant or rest.constant or typical(rows.whole) > SMALL:
        first = whole.times(count)
        _loops(k, positions, rows, columns, rest, 1, first.plus, body, enter, sharing)


def _loops(
    k: Scalar, positions: Positions, rows: Part, columns: Part, length: Index, count: int,
    first: Callable[[Index], Index], body: Callable[[], dict[Root, Accumulator]],
    enter: Callable[[Root, Accumulator], None], sharing: Sequence[Root],
) -> None:
    # A loop with one iteration has a counter too, because the same code may run it more often for another extent.
    extent = k.literal(length.constant, INDEX, varies=True) if length.is_constant else k.value_of(length)
    high = max(length.high - 1, 0)
    with k.loop(extent, high=high) as outer, k.loop(columns.length(k), high=columns.extent - 1) as inner:
        # Each column has its own accumulators, and each element its own place.
        inner.independent_except_carried = True
        columns.counter = inner.index
        positions.enter(columns.axes, columns.index())
        found: list[dict[Root, Accumulator]] = []
        for row in range(count):
            rows.counter = first(outer.index).plus(constant_index(row))
            positions.enter(rows.axes, rows.index())
            found.append(body())
            for root in found[-1]:
                if root not in sharing:
                    enter(root, found[-1][root])
        for root in sharing:
            enter(root, _tree(k, root.node.op.lower.monoid, [f[root] for f in found]))


def _tree(k: Scalar, monoid: str, rows: list[Accumulator]) -> Accumulator:
    """Combine neighbouring rows in pairs until one accumulator is left."""
    while len(rows) > 1:
        rows = [combine(k, monoid, a, b, free_order=False) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    return rows[0]
