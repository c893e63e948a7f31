"""Reductions with accumulators in memory, such as the sum over rows of each column.

    bias_bar = sum(z_bar, axis=0)     for each row i, for each column j: acc[j] += z_bar[i, j]

Rows that share accumulators are split into blocks: each block has accumulators of its own, so blocks
are independent, and the accumulators of all blocks are added up at the end, in order.

Within a block (or all rows, if there is one block), each run of rows is summed separately, and its sums are added to
the accumulators of the block: 64 rows are then a chain of 16 additions and one of 4.  Sums of columns of 64 numbers err
by .4 of their last bit in runs, by .9 row by row.

A sum to one number has one accumulator, to which each row adds the sum of its own loop.  The accumulator is an f64
also for floats, so that the error of thousands of rows is no more than that of one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import numpy as np

from ..ir import Aval, Node
from ..records import record
from ..symbols import typical
from .elements import Elements, Temporary
from .group import KernelGroup, Positions, Root
from .index import Index, constant_index
from .monoids import Accumulator, combine, start, sum_and_rest, with_rest
from .nest import F32, F64, ScalarType, Value
from .parts import SIDE_BY_SIDE, rows_in_block, type_of
from .scalar import Scalar

_ZERO = constant_index(0)

#: The additions of f32 to one accumulator beyond which it is an f64: so many similar floats err by 1e-6 of their sum.
_MANY_ADDITIONS = 1024

#: The minimum additions to one accumulator that are split into runs, and the minimum length of a row: shorter rows
#: stay in registers.
_RUNS, _SHORT = 32, 8

#: The minimum length of a row that adds only one number: shorter rows may run side by side.
_BY_ITSELF = 17

#: The number of blocks whose sums, added one after another, err as much as the sum of one block.
_MANY_BLOCKS = 16


@record(eq=False, slots=True)
class _Gathered:
    """A reduction with accumulators in memory.

    type     the type of the accumulators
    places   the memory of the accumulators: two for argmax and argmin, else one
    count    the number of blocks of rows
    blocks   the memory of the accumulators of each block, block after block; () if rows are not split into blocks
    inside   the axes of a row that the reduction keeps
    runs     the memory of the accumulators of the current run of rows in each block; () if there are no runs
    """

    root: Root
    type: ScalarType
    monoid: str
    places: tuple[Value, ...]
    count: int = 1
    blocks: tuple[Value, ...] = ()
    inside: tuple[int, ...] = ()
    runs: tuple[Value, ...] = ()

    @property
    def size(self) -> int:
        """The number of accumulators."""
        return self.root.node.aval.size

    @property
    def of_block(self) -> tuple[Value, ...]:
        """The memory of the accumulators that the rows of a block are combined into."""
        return self.blocks or self.places


def fill(k: Scalar, places: Sequence[Value], values: Sequence[Value], size: int, first: Index = _ZERO) -> None:
    """Set `size` elements of each memory to its value, from the place `first` on."""
    with k.loop(size) if size != 1 else nullcontext() as loop:
        for memory, value in zip(places, values, strict=True):
            k.store(value, memory, first.plus(loop.index) if loop else first)


class Accumulators:
    """The accumulators in memory of the kernel being built.

    written   the reductions that have accumulators, and temporaries of the kernel
    """

    def __init__(self, k: Scalar, elements: Elements, positions: Positions) -> None:
        self.k = k
        self.elements = elements
        self.positions = positions
        self.written: list[Node | Temporary] = []
        self._reductions: dict[Root, _Gathered] = {}
        # The index of the block of rows that the loops are in.
        self._block = _ZERO
        self._outermost: tuple[int, ...] = ()

    def __contains__(self, root: Root) -> bool:
        return root in self._reductions

    def add(self, root: Root, outermost: tuple[int, ...]) -> None:
        """Give a reduction its accumulators, and start them; `outermost` are the axes of the first loop."""
        self.k.node = root.node
        self._outermost = outermost
        monoid, avals = root.node.op.lower.monoid, [root.node.aval]
        if monoid.startswith("arg"):
            # The extreme itself is not a result of the node, so it needs memory besides that of the positions.
            avals.insert(0, root.node.aval.with_dtype(root.node.inputs[0].aval.dtype))
        type, last = type_of(root), self.elements.place(root.node)
        extent = self.positions.extent(outermost)
        in_blocks = self._is_long(extent) and self._shares(root, outermost)
        blocks = -(-extent // self._rows_in_block(extent)) if in_blocks else 1
        if self._is_wide(root, blocks):
            type, avals = F64, [root.node.aval.with_dtype(np.dtype(np.float64))]
            last = self.temporary(avals[0])
        places = [*[self.temporary(a) for a in avals[:-1]], last]
        reduction = _Gathered(root, type, monoid, tuple(places), blocks)
        if in_blocks:
            reduction.blocks = tuple([self.temporary(a.with_shape((blocks * a.size,))) for a in avals])
        fill(self.k, reduction.places, start(self.k, monoid, reduction.type), reduction.size)
        self._reductions[root] = reduction
        self.written.append(root.node)

    def temporary(self, aval: Aval) -> Value:
        """Add memory for the kernel's own use."""
        temporary = Temporary(aval)
        self.written.append(temporary)
        return self.elements.place(temporary)

    def rows(self, outermost: tuple[int, ...]) -> int | None:
        """The number of iterations of the first loop that share accumulators; None if no iterations do."""
        if any(r.blocks for r in self._reductions.values()):
            return self._rows_in_block(self.positions.extent(outermost))
        return self.positions.extent(outermost) if any(self._shares(r, outermost) for r in self._reductions) else None

    def enter(self, root: Root, accumulator: Accumulator) -> None:
        """Combine a result into the accumulator of the current element."""
        reduction = self._reductions[root]
        if reduction.type is not type_of(root):
            accumulator = tuple([self.k.cast(x, "f64") for x in accumulator])
        self._combine(reduction, reduction.runs or reduction.of_block, self._at(reduction), accumulator)

    def _at(self, reduction: _Gathered) -> Index:
        """The place of the accumulator of the current element."""
        at = self.positions.kept(reduction.root)
        return at.plus(self._block.times(reduction.size)) if reduction.blocks else at

    def run(self, rows: tuple[int, ...], inside: Sequence[int], together: int) -> int | None:
        """The number of iterations over the axes `rows` in a run, `together` at a time; None where there are no runs.

        inside   the axes of the loops inside those over rows
        """
        in_blocks = self.rows(rows) if rows == self._outermost and any(self._in_blocks()) else None
        chain = typical(in_blocks or self.positions.extent(rows))
        found = None
        for r in self._reductions.values() if chain >= _RUNS * together else ():
            is_sum = r.monoid == "add" and r.type.is_float and r.type is type_of(r.root)
            # A root that is evaluated once per row has none of the axes within rows.
            own = [a for a in inside if not r.root.row or a < self.positions.group.outer_axes]
            inside_of_it = tuple([a for a in own if a not in self.positions.reduced(r.root)])
            is_short = typical(self.positions.extent(tuple(inside))) < (_SHORT if inside_of_it else _BY_ITSELF)
            if is_sum and not is_short and self._shares(r.root, rows):
                r.inside, r.runs = inside_of_it, (self.temporary(r.root.node.aval.with_shape((r.count * r.size,))),)
                # The rounding errors within runs and of their sums are together least with (2 chain)^(1/3) runs.
                found = together << round(math.log2(chain // together) * 2 / 3 - 1 / 3)
        # A block is a whole number of runs: a run that is left over would reach into the next block.
        while found and in_blocks and in_blocks % found:
            found //= 2
        return found

    def begin_run(self) -> None:
        """Begin a run of rows: start its accumulators."""
        for r, at in self._of_run():
            for memory, value in zip(r.runs, start(self.k, r.monoid, r.type), strict=True):
                self.k.store(value, memory, at)

    def end_run(self) -> None:
        """End a run of rows: add its sums to the accumulators of its block."""
        for r, at in self._of_run():
            self._combine(r, r.of_block, at, tuple([self.k.load(memory, at, stable=False) for memory in r.runs]))

    def _of_run(self) -> Iterator[tuple[_Gathered, Index]]:
        """Each reduction done in runs, with the place of its accumulator; if it has many, inside a loop over them."""
        for r in self._reductions.values():
            if r.runs and not r.inside:
                yield r, self._at(r)
            elif r.runs:
                with self.k.loop(self.positions.extent(r.inside)) as loop:
                    loop.independent_except_carried = True
                    self.positions.enter(r.inside, loop.index)
                    yield r, self._at(r)

    def begin(self, block: Index) -> None:
        """Begin a block of rows: start its accumulators."""
        self._block = block
        for r in self._in_blocks():
            fill(self.k, r.blocks, start(self.k, r.monoid, r.type), r.size, block.times(r.size))

    def end(self, blocks: int) -> None:
        """Combine the accumulators of all blocks, in order, after the loop over blocks."""
        k = self.k
        for r in self._in_blocks():
            errors = self._rounding_errors(r, blocks)
            with k.loop(blocks, varies=True) as outer, k.loop(r.size) as inner:
                at = outer.index.times(r.size).plus(inner.index)
                block = tuple([k.load(memory, at, stable=False) for memory in r.blocks])
                if errors:
                    _add_exactly(k, r.places[0], errors, inner.index, block[0])
                else:
                    self._combine(r, r.places, inner.index, block)
            if errors:
                with k.loop(r.size) as loop:
                    _add_errors(k, r.places[0], errors, loop.index)

    def _rounding_errors(self, r: _Gathered, blocks: int) -> Value | None:
        """Memory for the rounding error of each sum over many blocks; None if it is small, or zero."""
        if typical(blocks) < _MANY_BLOCKS or r.monoid != "add" or not r.type.is_float or r.type is not type_of(r.root):
            return None
        dtype = np.dtype(f"f{r.type.bits // 8}")
        memory = self.temporary(r.root.node.aval.with_dtype(dtype))
        fill(self.k, (memory,), start(self.k, r.monoid, r.type), r.size)
        return memory

    def finish(self) -> None:
        """Round sums of floats that were accumulated as an f64 to the result, after all loops."""
        k = self.k
        for r in self._reductions.values():
            if r.type is not type_of(r.root):
                (total,) = r.places
                with k.loop(r.size) if r.size != 1 else nullcontext() as loop:
                    at = loop.index if loop else _ZERO
                    k.store(k.cast(k.load(total, at, stable=False), "f32"), self.elements.place(r.root.node), at)

    def _is_wide(self, root: Root, blocks: int) -> bool:
        """True if a sum of floats is accumulated as an f64: a sum to one number to which each row adds the sum of its
        own loop, and a sum with very many elements in one accumulator of a block."""
        if type_of(root) is not F32 or root.node.op.lower.monoid != "add":
            return False
        group, size = self.positions.group, root.node.aval.size
        if size == 1:
            return group.inner is not None and (typical(group.inner) > SIDE_BY_SIDE or _stores_in_rows(group))
        return typical(group.total) > _MANY_ADDITIONS * typical(size) * typical(blocks)

    def _rows_in_block(self, extent: int) -> int:
        return self._block_of(extent, self.positions.group.cost)

    def _is_long(self, extent: int) -> bool:
        """True if there are enough rows to split into blocks, even if their elements cost little."""
        return self._block_of(extent, 1) < typical(extent)

    def _block_of(self, extent: int, cost: int) -> int:
        group = self.positions.group
        sharing = [r for r in group.roots if r.is_reduction and self._shares(r, self._outermost)]
        of_numbers = all([r.node.aval.size == 1 for r in sharing])
        return rows_in_block(typical(group.total // extent), cost, of_numbers=of_numbers)

    def _in_blocks(self) -> list[_Gathered]:
        return [r for r in self._reductions.values() if r.blocks]

    def _shares(self, root: Root, axes: tuple[int, ...]) -> bool:
        """True if iterations over these axes are combined into the same accumulators."""
        return not self.positions.reduced(root).isdisjoint(axes)

    def _combine(self, reduction: _Gathered, places: tuple[Value, ...], at: Index, accumulator: Accumulator) -> None:
        self.k.node = reduction.root.node
        k = self.k
        so_far = tuple([k.load(memory, at, stable=False) for memory in places])
        # The order is free for a sum to one number, so that short rows can run side by side.
        values = combine(k, reduction.monoid, so_far, accumulator, free_order=reduction.size == 1)
        for memory, value in zip(places, values, strict=True):
            k.store(value, memory, at)


def _add_exactly(k: Scalar, total: Value, errors: Value, at: Index, x: Value) -> None:
    """Add x to a total in memory, and the rounding error of that addition to `errors`."""
    after, rest = sum_and_rest(k, k.load(total, at, stable=False), x)
    k.store(after, total, at)
    k.store(k.add(k.load(errors, at, stable=False), rest), errors, at)


def _add_errors(k: Scalar, total: Value, errors: Value, at: Index) -> None:
    """Add the rounding errors collected in `errors` to a total."""
    k.store(with_rest(k, k.load(total, at, stable=False), k.load(errors, at, stable=False)), total, at)


def _stores_in_rows(group: KernelGroup) -> bool:
    """True if elements of rows are stored, or added to accumulators in memory: such rows do not run side by side."""
    elements = [r for r in group.roots if not r.row]
    return any([r.inner != group.inner if r.is_reduction else r.stored for r in elements])
