"""Build the kernel of a fusion group: loops over rows, and in them one nest of loops per stage.

For the softmax of `group.py`, with x: f64[256,10]:

    scf.parallel i in 256                               the loops over rows
      top = scf.for j in 10 carrying maximumf           stage 0
      norm = scf.for j in 10 carrying addf              stage 1: exp(x - top) is kept in a scratch row
      scf.for j in 10: store scratch[j] / norm          stage 2

A reduction over the innermost loops is carried through them as an SSA value.  If the reduction also
reduces axes further out, or keeps an axis further in (a sum over rows, per column), its accumulators
are in memory, so the innermost loop always runs over contiguous elements.

Long sums run in blocks (see `parts`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice

import numpy as np

from ..ir import Aval, Node
from .accumulators import Accumulators
from .body import OpenLoop
from .elements import Built, Elements, Placed, element_type, finish
from .group import KernelGroup, Positions, Root
from .index import Index, flatten
from .monoids import Accumulator, combine, element, start
from .nest import Value
from .parts import Part, first_carrying, is_short, pieces, plan_parts, rows_at_a_time, rows_together, type_of
from .scalar import Scalar

#: A function that writes the innermost loop body for some roots; returns the values that enter reductions, by root.
_Body = Callable[[list[Root]], dict[Root, Accumulator]]


def build(
    group: KernelGroup, is_stored, name: str, placed: Placed | None = None, exact: Collection[Node] = ()
) -> Built:
    """Build the kernel of a group.  `is_stored(node)` is true if the node's value is in memory before this kernel runs.

    exact    nodes in which each operation rounds its own result: see `passes.drafts`
    """
    return _Builder(group, is_stored, placed, exact).build(name)


class _Builder:
    def __init__(self, group: KernelGroup, is_stored, placed: Placed | None, exact: Collection[Node]) -> None:
        self.group = group
        self.k = Scalar()
        self.elements = Elements(self.k, is_stored, self._computed_here, self._note_memory, placed, exact)
        self.positions = Positions(group)
        self.arrays = {r.node for r in group.roots if r.stored and not r.row and not r.is_reduction}
        # Results of finished reductions; memory that earlier loops filled with a node's elements, or open loops fill.
        self.reduced: dict[Node, Value] = {}
        self.filled: dict[Node, Value] = {}
        self.filling: dict[Node, Value] = {}
        self.accumulators = Accumulators(self.k, self.elements, self.positions)

    # ------------------------------------------------------------ the whole

    def build(self, name: str) -> Built:
        group = self.group
        outer = [axes for axes in group.loops if axes and axes[-1] < group.outer_axes]
        inner = [axes for axes in group.loops if axes and axes[0] >= group.outer_axes]
        outermost = group.loops[0] if group.loops and (outer or group.inner is None) else ()
        for root in group.roots:
            if root.is_reduction and not self._is_carried(root, inner):
                self.accumulators.add(root, outermost)
        rows = self.accumulators.rows(outermost)
        if group.inner is None:
            self._nest(inner, 0, group.roots, top=True, rows=rows)
        else:
            self._rows(outer, inner, rows)
        self.accumulators.finish()
        written = [r.node for r in group.roots if r.stored]
        return finish(name, self.k, self.elements, [*written, *self.accumulators.written])

    def _rows(self, outer: list[tuple[int, ...]], inner: list[tuple[int, ...]], rows: int | None) -> None:
        """Write the loops over rows; each row runs the stages one after another."""
        parts: list[Part] = []
        run = self._run(outer, inner)
        for axes in outer:
            extent, block = self.positions.extent(axes), None
            if not parts and rows is not None and rows < extent:
                block = Part(axes, extent, rows, None, is_independent=True)
                parts.append(block)
            if axes in run:
                block = Part(axes, extent, run[axes], block, is_independent=False, is_run=True)
                parts.append(block)
            parts.append(Part(axes, extent, 1, block, is_independent=False))
        self._open(parts, 0, [], {}, True, lambda _: self._stages(inner))

    def _stages(self, inner: list[tuple[int, ...]]) -> dict[Root, Accumulator]:
        """Write the work for one row, stage by stage."""
        roots = self.group.roots
        for stage in range(max(r.stage for r in roots) + 1):
            for root in roots:
                for reduced, one in self._body([root] if root.row and root.stage == stage else []).items():
                    self.accumulators.enter(reduced, one)
            self._nest(inner, stage, [r for r in roots if not r.row and r.stage == stage], top=False)
        return {}

    def _run(self, outer: list[tuple[int, ...]], inner: list[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
        """The innermost axes of rows that are iterated in runs, with the number of iterations in a run; {} if none."""
        for level in reversed(range(len(outer))):
            inside = [a for one in (*outer[level + 1 :], *inner) for a in one]
            if run := self.accumulators.run(outer[level], inside, 1):
                return {outer[level]: run}
        return {}

    def _begin(self, part: Part, loop: OpenLoop) -> None:
        """Begin an iteration of a loop over a part: set its counter, and start the accumulators of its block or run."""
        part.counter = loop.index
        if part.is_independent:
            self.accumulators.begin(loop.index)
        if part.is_run:
            self.accumulators.begin_run()
        if not part.is_block:
            self.positions.enter(part.axes, part.index())

    # ------------------------------------------------------------ one nest

    def _nest(
        self, loops: list[tuple[int, ...]], stage: int, roots: list[Root], *, top: bool, rows: int | None = None
    ) -> None:
        """Write loops over the given axes that compute the roots' elements in the innermost loop."""
        if not roots:
            return

        def planned(run: int | None = None) -> tuple[list[Part], dict[Root, int]]:
            """The loops, and for each reduction the outermost loop that carries it."""
            parts = plan_parts(loops, roots, self.positions, top=top, rows=rows, run=run)
            return parts, {r: first_carrying(r, parts, self.positions) for r in roots if r.is_reduction}

        parts, carried = planned()
        if self.group.inner is None and len(loops) > 1:
            together = self._rows_at_a_time(parts, roots, carried)
            if run := self.accumulators.run(loops[-2], loops[-1], together):
                parts, carried = planned(run)
        self._open(parts, 0, roots, carried, top, self._body)
        self.filled.update(self.filling)  # the loops are done: the memory that they filled may be read
        self.filling.clear()

    def _open(
        self, parts: list[Part], level: int, roots: list[Root], carried: dict[Root, int], top: bool, body: _Body
    ) -> dict[Root, Accumulator]:
        """Write the loops from `level` on around `body`; return the accumulators that outer loops carry on."""
        if level == len(parts):
            results = body(roots)
        elif level == len(parts) - 2 and (count := self._rows_at_a_time(parts, roots, carried)) > 1:
            enter, sharing = self.accumulators.enter, self._sharing_accumulators(parts, roots)
            rows_together(self.k, self.positions, parts, count, lambda: body(roots), enter, sharing)
            return {}
        elif level == len(parts) - 1 and self.group.turns and not parts[level].is_block:
            results = {}
            for piece in pieces(parts[level], self.group.turns):
                found = self._loop([*parts[:level], piece], level, roots, carried, top, body)
                for root, one in found.items():
                    if root in results:
                        one = combine(self.k, root.node.op.lower.monoid, results[root], one, free_order=False)
                    results[root] = one
        else:
            results = self._loop(parts, level, roots, carried, top, body)
        done = {}
        for root, accumulator in results.items():
            if carried[root] == level:
                self._finished(root, accumulator)
            else:
                done[root] = accumulator
        return done

    def _loop(
        self, parts: list[Part], level: int, roots: list[Root], carried: dict[Root, int], top: bool, body: _Body
    ) -> dict[Root, Accumulator]:
        k, part = self.k, parts[level]
        mine = [r for r in roots if r.is_reduction and carried[r] <= level]
        starts = {r: start(k, r.node.op.lower.monoid, type_of(r)) for r in mine}
        independent = part.is_independent
        parallel = independent or (top and level == 0 and not self.positions.are_reduced(part.axes))
        loop = self.k.open_loop(
            part.length(k), [] if independent else [v for s in starts.values() for v in s],
            high=part.extent - 1, parallel=parallel, varies=part.is_block,
        )
        loop.independent_except_carried = level == len(parts) - 1 and self._stores_to_distinct_places(roots)
        self._begin(part, loop)
        inside = self._open(parts, level + 1, roots, carried, top, body)
        if part.is_run:
            self.accumulators.end_run()
        if independent:
            places = {}
            for root, s in starts.items():
                dtypes = [root.node.inputs[0].aval.dtype, np.int64][: len(s)]
                places[root] = [self.accumulators.temporary(Aval((part.extent,), dtype)) for dtype in dtypes]
            for root, memory in places.items():
                for place, value in zip(memory, inside[root], strict=True):
                    k.store(value, place, loop.index)
            k.close_loop(loop)
            self.accumulators.end(part.extent)
            return self._combined(places, part.extent)
        results: list[Value] = []
        for root, so_far in _by_root(starts, loop.carried).items():
            free = level == len(parts) - 1 or (level == len(parts) - 2 and is_short(parts[-1]))
            k.node = root.node
            results.extend(combine(k, root.node.op.lower.monoid, so_far, inside[root], free_order=free))
        return _by_root(starts, k.close_loop(loop, results))

    def _stores_to_distinct_places(self, roots: list[Root]) -> bool:
        """True if a loop's elements go to different places in the memory of a pair or join, and to no accumulator."""
        placed = [r for r in roots if r.node in self.elements.placed and not self.elements.is_in_place(r.node)]
        return bool(placed) and not any([r in self.accumulators for r in roots])

    def _rows_at_a_time(self, parts: list[Part], roots: list[Root], carried: dict[Root, int]) -> int:
        """The number of rows (iterations of the last loop but one) that are computed together."""
        entering = [r for r in carried if carried[r] == len(parts) and r in self.accumulators]
        if self.group.inner is not None or not self._sharing_accumulators(parts, entering):
            return 1
        return rows_at_a_time(parts, roots, entering, self.group.cost)

    def _sharing_accumulators(self, parts: list[Part], roots: list[Root]) -> list[Root]:
        """The reductions for which the iterations of the last loop but one share accumulators."""
        rows = set(parts[-2].axes)
        return [r for r in roots if r.is_reduction and rows <= self.positions.reduced(r)]

    def _combined(self, places: dict[Root, list[Value]], blocks: int) -> dict[Root, Accumulator]:
        """Combine the accumulators of all blocks, always in the same order."""
        k = self.k
        starts = {r: start(k, r.node.op.lower.monoid, type_of(r)) for r in places}
        if not starts:
            return {}
        loop = k.open_loop(blocks, [v for s in starts.values() for v in s], varies=True)
        results: list[Value] = []
        for root, so_far in _by_root(starts, loop.carried).items():
            k.node = root.node
            block = tuple([k.load(place, loop.index, stable=False) for place in places[root]])
            results.extend(combine(k, root.node.op.lower.monoid, so_far, block, free_order=True))
        return _by_root(starts, k.close_loop(loop, results))

    def _body(self, roots: list[Root]) -> dict[Root, Accumulator]:
        """Write the work for one element of the domain, or for one row; return the values that enter reductions."""
        k, found = self.k, {}
        for root in roots:
            if not root.is_reduction:
                if root.stored:
                    value = self.elements.at(root.node, self.positions.index(root))
                    self.elements.store(value, root.node, self.positions.flat(root))
                continue
            x = self.elements.at(root.node.inputs[0], self.positions.index(root))
            k.node = root.node
            found[root] = element(k, root.node.op.lower.monoid, x, self.positions.place(root))
        return found

    def _finished(self, root: Root, accumulator: Accumulator) -> None:
        """Take the result of a reduction after its carrying loops: into its accumulator in memory, or as a value."""
        if root in self.accumulators:
            self.accumulators.enter(root, accumulator)
            return
        value = accumulator[-1]
        self.k.node = root.node
        if root.stored:
            self.k.store(value, self.elements.place(root.node), self.positions.kept(root))
        self.reduced[root.node] = value

    def _is_carried(self, root: Root, inner: list[tuple[int, ...]]) -> bool:
        """True if loops can carry a reduction in a value: all axes that it reduces are those of innermost loops."""
        group = self.group
        loops = [axes for axes in group.loops if axes]
        trailing = 0
        reduced = self.positions.reduced(root)
        while trailing < len(loops) and loops[len(loops) - 1 - trailing][0] in reduced:
            trailing += 1
        carried = {a for axes in loops[len(loops) - trailing :] for a in axes}
        here = carried if group.inner is None else carried & {a for axes in inner for a in axes}
        return not root.row and reduced <= here

    # ------------------------------------------------------------ values that the kernel itself has made

    def _computed_here(self, node: Node, index: tuple[Index, ...]) -> Value | None:
        """The value of a finished reduction, or an element that an earlier loop stored; None for any other node."""
        value = self.reduced.get(node)
        if value is not None:
            return value
        memory = self.filled.get(node)
        if memory is not None and self.positions.is_here(node, index):
            return self.k.load(memory, self._place_of(node, index), stable=False)
        return None

    def _note_memory(self, node: Node, index: tuple[Index, ...], value: Value) -> None:
        """Note the memory in which later loops find a node: a scratch row, which is written here, or its own array."""
        is_row = node in self.group.scratch
        if node in self.filled or node in self.filling or not (is_row or node in self.arrays):
            return
        if not self.positions.is_here(node, index):
            return
        if is_row:
            assert self.group.inner is not None
            memory = self.k.scratch(self.group.inner, element_type(node))
            self.k.store(value, memory, self._place_of(node, index))
        else:
            memory = self.elements.place(self.elements.owner(node))
        self.filling[node] = memory

    def _place_of(self, node: Node, index: tuple[Index, ...]) -> Index:
        if node in self.group.scratch:
            return self.positions.in_row()
        return self.elements.within(node, flatten(index, node.aval.shape))


def _by_root(starts: dict[Root, Accumulator], values: Sequence[Value]) -> dict[Root, Accumulator]:
    """The values that a loop carried, by root."""
    left = iter(values)
    return {root: tuple(islice(left, len(s))) for root, s in starts.items()}
