"""A fusion group becomes a function: loops over rows, and in them one nest of loops per stage.

For the softmax of `group.py`, with x: f64[256,10]:

    scf.parallel i in 256                               the loops over rows
      top = scf.for j in 10 carrying maximumf           stage 0
      norm = scf.for j in 10 carrying addf              stage 1: exp(x - top) is kept in a scratch row
      scf.for j in 10: store scratch[j] / norm          stage 2

A reduction whose reduced loops are the innermost ones is carried by them in a value.  If more of
its axes are reduced further out, or an axis within is kept (a sum over rows, per column), it is
accumulated in memory, so the innermost loop always runs over contiguous elements.

Long sums of floats run in blocks of a fixed number of elements whose partial sums are then added:
more accurate, and the same bits on every machine width and number of threads.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir import Node
from ..program import Kernel
from .body import Loop
from .elements import Elements, element_type
from .group import Group, Root, strides_of
from .index import Index, constant_index, flatten, split_loop
from .monoids import Accumulator, combine, element, is_sum, start
from .nest import Function, Value
from .scalar import Scalar

__all__ = ["BLOCK", "Built", "build", "fill", "finish"]

#: Elements of one block of a long sum: a block's partial sums err by at most its length in ulps, and its
#: loop is long enough that its start and end cost nothing.
BLOCK = 4096


@dataclass(frozen=True)
class Built:
    """A kernel and what its memory arguments stand for: nodes, or ("scratch", i) for `scratch_bytes[i]` of its own."""

    kernel: Kernel
    memory: tuple[Hashable, ...]


@dataclass(eq=False, slots=True)
class _Reduction:
    """A reduction in the nest being built: its root, its value type, and its accumulators in memory, if any."""

    root: Root
    type: Any
    monoid: str
    places: tuple[Value, ...] = ()


def build(group: Group, is_stored, name: str) -> Built:
    """The kernel of a group.  `is_stored(node)`: the node's value is in memory before this kernel runs."""
    return _Builder(group, is_stored).build(name)


def finish(name: str, k: Scalar, elements: Elements, written: Sequence[Node]) -> Built:
    """A built body as a kernel; arguments stand in the order of their first use."""
    nodes = tuple(elements.memory)
    writes = frozenset(j for j, node in enumerate(nodes) if node in written)
    names, reads = [], 0
    for j in range(len(nodes)):
        names.append(f"y{j - reads}" if j in writes else f"x{reads}")
        reads += j not in writes
    return Built(Kernel(Function(name, k.finish(), tuple(names), writes)), nodes)


def fill(k: Scalar, places: Sequence[Value], values: Sequence[Value], size: int) -> None:
    """Set every element of each memory to its value."""
    loop = k.open_loop(size) if size != 1 else None
    for memory, value in zip(places, values, strict=True):
        k.store(value, memory, loop.index if loop else constant_index(0))
    if loop:
        k.close_loop(loop)


class _Builder:
    def __init__(self, group: Group, is_stored) -> None:
        self.group = group
        self.k = Scalar()
        self.elements = Elements(self.k, is_stored, self._own, self._made)
        self.axis_index: list[Index] = [constant_index(0)] * len(group.strides)
        self.full = {r.node: r for r in group.roots if not r.row}
        # Values per row that are known by now; row memory that earlier stages have filled.
        self.reduced: dict[Node, Value] = {}
        self.filled: dict[Node, Value] = {}
        self.filling: dict[Node, Value] = {}
        self.accumulated: dict[Root, _Reduction] = {}
        self.written: list[Node] = [r.node for r in group.roots if r.stored]

    # ------------------------------------------------------------ the whole

    def build(self, name: str) -> Built:
        group = self.group
        outer = [axes for axes in group.loops if axes and axes[-1] < group.outer_axes]
        inner = [axes for axes in group.loops if axes and axes[0] >= group.outer_axes]
        for root in group.roots:
            if root.is_reduction:
                self._prepare(root, inner)
        if group.inner is None:
            self._nest(inner, group.roots, top=True)
        else:
            self._rows(outer, inner)
        return finish(name, self.k, self.elements, self.written)

    def _rows(self, outer: list[tuple[int, ...]], inner: list[tuple[int, ...]]) -> None:
        """Loops over rows, stage after stage in each."""
        roots = self.group.roots
        opened: list[Loop] = []
        for axes in outer:
            parallel = not opened and not self._is_reduced_over(axes)
            loop = self.k.open_loop(self._extent(axes), parallel=parallel)
            self._enter(axes, loop.index)
            opened.append(loop)
        for stage in range(max(r.stage for r in roots) + 1):
            for root in roots:
                if root.row and root.stage == stage:
                    self._per_row(root)
            self._nest(inner, [r for r in roots if not r.row and r.stage == stage], top=False)
            self.filled.update(self.filling)
            self.filling.clear()
        for loop in reversed(opened):
            self.k.close_loop(loop)

    def _per_row(self, root: Root) -> None:
        """A value that is computed once per row; a reduction of such values goes to memory."""
        if root.is_reduction:
            reduction = self.accumulated[root]
            x = self.elements.at(root.node.inputs[0], self._index(root))
            self._into_memory(reduction, element(self.k, reduction.monoid, x, self._place(root)))
        elif root.stored:
            value = self.elements.at(root.node, self._index(root))
            self.k.store(value, self.elements.place(root.node), self._flat(root))

    # ------------------------------------------------------------ one nest

    def _nest(self, loops: list[tuple[int, ...]], roots: list[Root], *, top: bool) -> None:
        """Loops over the given axes, with the roots' elements computed in the innermost one."""
        if not roots:
            return
        plan = [part for axes in loops for part in self._blocked(axes, roots)]
        carried = {r: self._first_carrying(r, loops, plan) for r in roots if r.is_reduction}
        self._open(plan, 0, roots, carried, top)

    def _open(self, plan: list[_Part], level: int, roots: list[Root], carried: dict[Root, int], top: bool) -> dict:
        """The loops from `level` on; gives the accumulators of the reductions they carry."""
        if level == len(plan):
            results = self._body(roots, carried, len(plan))
        else:
            results = self._loop(plan, level, roots, carried, top)
        done = {}
        for root, accumulator in results.items():
            if carried[root] == level:
                self._finished(root, accumulator)
            else:
                done[root] = accumulator
        return done

    def _loop(self, plan: list[_Part], level: int, roots: list[Root], carried: dict[Root, int], top: bool) -> dict:
        k, part = self.k, plan[level]
        mine = [r for r, first in carried.items() if first <= level]
        starts = [start(k, r.node.op.lower.monoid, _type_of(r)) for r in mine]
        parallel = top and level == 0 and not mine and not self._is_reduced_over(part.axes)
        if part.outer is None:
            loop = k.open_loop(part.extent, [v for s in starts for v in s], parallel=parallel)
            index = loop.index
        else:
            # The last block may be shorter.
            assert part.outer.counter is not None
            before = part.outer.counter.times(BLOCK)
            rest = k.minimum(constant_index(part.whole).plus(before.times(-1)), constant_index(BLOCK))
            extent = rest.constant if rest.is_constant else k.value_of(rest)
            loop = k.open_loop(extent, [v for s in starts for v in s], high=BLOCK - 1)
            index = before.plus(loop.index)
        part.counter = loop.index
        if not part.is_block:
            self._enter(part.axes, index)
        inside = self._open(plan, level + 1, roots, carried, top)
        innermost = level == len(plan) - 1
        results: list[Value] = []
        at = 0
        for root, s in zip(mine, starts, strict=True):
            so_far = tuple(loop.carried[at : at + len(s)])
            at += len(s)
            results.extend(combine(k, root.node.op.lower.monoid, so_far, inside[root], free_order=innermost))
        ends = k.close_loop(loop, results)
        found, at = {}, 0
        for root, s in zip(mine, starts, strict=True):
            found[root] = tuple(ends[at : at + len(s)])
            at += len(s)
        return found

    def _body(self, roots: list[Root], carried: dict[Root, int], depth: int) -> dict[Root, Accumulator]:
        """What happens for one element of the domain."""
        k, found = self.k, {}
        for root in roots:
            if not root.is_reduction:
                if root.stored:
                    value = self.elements.at(root.node, self._index(root))
                    k.store(value, self.elements.place(root.node), self._flat(root))
                continue
            x = self.elements.at(root.node.inputs[0], self._index(root))
            monoid = root.node.op.lower.monoid
            found[root] = element(k, monoid, x, self._place(root))
        return found

    def _finished(self, root: Root, accumulator: Accumulator) -> None:
        """The innermost reduced loops of a reduction are done."""
        if root in self.accumulated:
            self._into_memory(self.accumulated[root], accumulator)
            return
        value = accumulator[-1]
        if root.stored:
            self.k.store(value, self.elements.place(root.node), self._kept_flat(root))
        self.reduced[root.node] = value

    # ------------------------------------------------------------ accumulators in memory

    def _prepare(self, root: Root, inner: list[tuple[int, ...]]) -> None:
        """Give a reduction its accumulators in memory, and start them, unless loops can carry it to its end."""
        group = self.group
        reduced = self._reduced_axes(root)
        loops = [axes for axes in group.loops if axes]
        if root.row:
            loops = [axes for axes in loops if axes[-1] < group.outer_axes]
        trailing = 0
        while trailing < len(loops) and loops[len(loops) - 1 - trailing][0] in reduced:
            trailing += 1
        carried_axes = {a for axes in loops[len(loops) - trailing :] for a in axes}
        here = carried_axes if group.inner is None else carried_axes & {a for axes in inner for a in axes}
        if not root.row and reduced <= here:
            return
        reduction = _Reduction(root, _type_of(root), root.node.op.lower.monoid)
        place = self.elements.place(root.node)
        if reduction.monoid.startswith("arg"):
            # The extreme itself is not asked for: it needs memory of its own beside the places.
            extreme = _Extreme(root.node)
            reduction.places = (self.elements.place(extreme), place)  # type: ignore[arg-type]
            self.written.append(extreme)  # type: ignore[arg-type]
        else:
            reduction.places = (place,)
        fill(self.k, reduction.places, start(self.k, reduction.monoid, reduction.type), root.node.aval.size)
        self.accumulated[root] = reduction

    def _into_memory(self, reduction: _Reduction, accumulator: Accumulator) -> None:
        k, at = self.k, self._kept_flat(reduction.root)
        so_far = tuple([k.load(memory, at, stable=False) for memory in reduction.places])
        for memory, value in zip(
            reduction.places, combine(k, reduction.monoid, so_far, accumulator, free_order=False), strict=True
        ):
            k.store(value, memory, at)

    # ------------------------------------------------------------ what the kernel itself has made

    def _own(self, node: Node, index: tuple[Index, ...]) -> Value | None:
        """A value per row, or what an earlier stage keeps in memory."""
        value = self.reduced.get(node)
        if value is not None:
            return value
        memory = self.filled.get(node)
        if memory is not None and self._is_here(node, index):
            at = self._row_position() if node in self.group.scratch else flatten(index, node.aval.shape)
            return self.k.load(memory, at, stable=False)
        return None

    def _made(self, node: Node, index: tuple[Index, ...], value: Value) -> None:
        """Keep what a later stage will want again."""
        group = self.group
        if group.inner is None or not self._is_here(node, index):
            return
        if node in group.scratch and node not in self.filled and node not in self.filling:
            memory = self.k.scratch(group.inner, element_type(node))
            self.k.store(value, memory, self._row_position())
            self.filling[node] = memory
        elif node in self.full and self.full[node].stored and node not in group.scratch:
            self.filling[node] = self.elements.place(node)

    def _is_here(self, node: Node, index: tuple[Index, ...]) -> bool:
        """Whether `index` is the element of the domain that the loops stand at."""
        return node.aval.size == self.group.total and flatten(index, node.aval.shape) == flatten(
            self.axis_index, self.group.extents
        )

    def _row_position(self) -> Index:
        """The position in the row."""
        n = self.group.outer_axes
        return flatten(self.axis_index[n:], self.group.extents[n:])

    # ------------------------------------------------------------ axes and positions

    def _enter(self, axes: tuple[int, ...], counter: Index) -> None:
        """A loop over these axes has begun."""
        extents = [self.group.extents[a] for a in axes]
        for axis, index in zip(axes, split_loop(counter, extents), strict=True):
            self.axis_index[axis] = index

    def _extent(self, axes: tuple[int, ...]) -> int:
        extent = 1
        for axis in axes:
            extent *= self.group.extents[axis]
        return extent

    def _index(self, root: Root) -> tuple[Index, ...]:
        """Where the loops stand, as an index of the root's domain."""
        return self._axes_as(root.domain, root.row)

    def _axes_as(self, domain: tuple[int, ...], row: bool) -> tuple[Index, ...]:
        group = self.group
        scale = (group.inner or 1) if row else 1
        found = []
        for extent, stride in zip(domain, strides_of(domain), strict=True):
            low, high = stride * scale, stride * extent * scale
            index = constant_index(0)
            for axis, s in enumerate(group.strides):
                if low <= s < high:
                    index = index.plus(self.axis_index[axis].times(s // low))
            found.append(index)
        return tuple(found)

    def _flat(self, root: Root) -> Index:
        return flatten(self._index(root), root.domain)

    def _kept_flat(self, root: Root) -> Index:
        """Where a reduction's result for the present element goes."""
        reduced = root.node.keywords["axis"]
        kept = [d for d in range(len(root.domain)) if d not in reduced]
        index = self._index(root)
        return flatten([index[d] for d in kept], [root.domain[d] for d in kept])

    def _place(self, root: Root) -> Index:
        """The present element's position among the reduced ones."""
        reduced = root.node.keywords["axis"]
        index = self._index(root)
        return flatten([index[d] for d in reduced], [root.domain[d] for d in reduced])

    def _reduced_axes(self, root: Root) -> set[int]:
        """The group's axes that a reduction reduces."""
        group = self.group
        scale = (group.inner or 1) if root.row else 1
        strides = strides_of(root.domain)
        return {
            axis
            for d in root.reduced
            for axis, s in enumerate(group.strides)
            if strides[d] * scale <= s < strides[d] * root.domain[d] * scale
        }

    def _is_reduced_over(self, axes: tuple[int, ...]) -> bool:
        """Whether iterations of this loop meet in an accumulator."""
        return any(not self._reduced_axes(r).isdisjoint(axes) for r in self.group.roots if r.is_reduction)

    def _first_carrying(self, root: Root, loops: list[tuple[int, ...]], plan: list[_Part]) -> int:
        """The outermost of the innermost run of loops that `root` reduces over."""
        reduced = self._reduced_axes(root)
        first = len(plan)
        while first > 0 and plan[first - 1].axes[0] in reduced:
            first -= 1
        return first

    def _blocked(self, axes: tuple[int, ...], roots: list[Root]) -> list[_Part]:
        """A loop, or when it adds up many floats, a loop over blocks and one in each."""
        extent = self._extent(axes)
        long_sum = extent > BLOCK and any(
            r.is_reduction and is_sum(r.node.op.lower.monoid, _type_of(r)) and axes[0] in self._reduced_axes(r)
            for r in roots
        )
        if not long_sum:
            return [_Part(axes, extent)]
        outer = _Part(axes, -(-extent // BLOCK), is_block=True)
        return [outer, _Part(axes, BLOCK, outer=outer, whole=extent)]


@dataclass(eq=False, slots=True)
class _Part:
    """A loop to open: over axes, or over the blocks of one (`is_block`), or within a block (`outer`)."""

    axes: tuple[int, ...]
    extent: int
    is_block: bool = False
    outer: _Part | None = None
    whole: int = 0
    counter: Index | None = None


class _Extreme:
    """Stands for the running extreme of an argmax in memory."""

    __slots__ = ("aval",)

    def __init__(self, node: Node) -> None:
        self.aval = node.aval.with_dtype(node.inputs[0].aval.dtype)


def _type_of(root: Root):
    """The type of the elements reduced."""
    return element_type(root.node.inputs[0])


