"""Fusion: which values are computed together in one kernel.

Roots (see `demand`) are taken in the graph's order; each joins a kernel that already computes over
the same domain and reads the same memory, or opens one.  Everything between roots is computed on
the way, wherever it is wanted.  A root may read another root of its own kernel:

    an array's element at the same position           it is in a register
    a reduction's result of the row being computed    a stage later, in the same loop over rows
    anything else                                     from memory, so from an earlier kernel

    top = max(x, axis=1)       \
    e = exp(x - top)            |  one kernel: a loop over rows, with three loops in it;
    norm = sum(e, axis=1)       |  e is kept for a row
    y = e / norm               /
    loss = sum(log(norm))         joins: a sum over rows of what a row knows
    g = matmul(transpose(y), x)   BLAS: y is stored, its transpose is a flag

Joining never makes a cycle: every unit knows, as a set of bits, all units it waits for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from ..ir import Node
from ..ir.op import INPUT
from ..kernel.edges import HEAVY, Probed
from ..kernel.group import Group, Root
from ..lowering import Contract, Reduce
from .demand import choose_roots, is_fused
from .loops import chain, lay_out
from .prepare import Prepared
from .reach import TREE_LIMIT, Reaches

__all__ = ["Fused", "Unit", "fuse"]

#: Memory arguments of one kernel: as many streams as the processor still prefetches well.
_PLACES_LIMIT = 28

#: Bytes of a row that are kept between the stages of a kernel: they must stay in the first cache.
SCRATCH_BYTES = 16 * 1024


@dataclass(eq=False, slots=True)
class Unit:
    """One step of the program to be: a group of roots, or one node with a step of its own.

    number   its bit in `needs`;   needs   all units that must run before, as bits
    tree     computed nodes in it, as bits;   reads   the stored values it reads
    """

    number: int
    place: int
    node: Node | None
    group: Group | None
    needs: int = 0
    tree: int = 0
    reads: set[Node] = field(default_factory=set)
    roots: dict[Node, Root] = field(default_factory=dict)


@dataclass
class Fused:
    """Units in an order in which they can run; the values that are in memory, and what each expression reaches."""

    units: list[Unit]
    stored: set[Node]
    reaches: Reaches


def fuse(prepared: Prepared, probed: Probed) -> Fused:
    """Put a graph's work into units.  See the file's head."""
    nodes = prepared.graph.nodes
    roots = choose_roots(prepared, probed)
    reaches = Reaches(nodes, roots, probed)
    units = _Clustering(prepared, reaches, probed).run()
    ordered = _in_order(units)
    if _store_shared(ordered, reaches, nodes):
        reaches = Reaches(nodes, reaches.roots, probed)
        for unit in ordered:
            _refresh(unit, reaches)
    stored = _settle_storage(ordered, prepared, reaches)
    for unit in ordered:
        if unit.group is not None:
            lay_out(unit.group, reaches)
            _choose_scratch(unit.group, reaches, nodes)
    return Fused(ordered, stored, reaches)


class _Clustering:
    def __init__(self, prepared: Prepared, reaches: Reaches, probed: Probed) -> None:
        self.prepared = prepared
        self.reaches = reaches
        self.axes = probed.axes
        self.units: list[Unit] = []
        self.unit_of: dict[Node, Unit] = {}
        self.readers_of: dict[Node, list[Unit]] = {}

    def run(self) -> list[Unit]:
        """One unit after another, in the order of the graph."""
        for place, node in enumerate(self.prepared.graph.nodes):
            if node not in self.reaches.roots or node.aval.size == 0:
                continue
            if is_fused(node) or isinstance(node.op.lower, Reduce):
                self._place(node, place)
            else:
                self._alone(node, place)
        return self.units

    def _alone(self, node: Node, place: int) -> None:
        """A node with a step of its own."""
        unit = self._new(place, node, None)
        lower = node.op.lower
        if isinstance(lower, Contract):
            product = self.prepared.products[node]
            unit.reads = {product.a.base, product.b.base}
        else:
            reach = self.reaches.of(node)
            unit.reads = {leaf for leaf, _ in reach.reads if leaf is not None}
            unit.tree = reach.tree
        self._wait(unit, unit.reads)

    def _new(self, place: int, node: Node | None, group: Group | None) -> Unit:
        unit = Unit(len(self.units), place, node, group)
        self.units.append(unit)
        if node is not None:
            self.unit_of[node] = unit
        return unit

    def _wait(self, unit: Unit, reads: set[Node]) -> None:
        for leaf in reads:
            other = self.unit_of.get(leaf)
            if other is not None and other is not unit:
                unit.needs |= other.needs | 1 << other.number

    def _place(self, node: Node, place: int) -> None:
        """Let a root join a unit, or open one."""
        domain = node.inputs[0].aval.shape if isinstance(node.op.lower, Reduce) else node.aval.shape
        root = Root(node, domain)
        reach = self.reaches.of(node)
        reads = {leaf for leaf, _ in reach.reads if leaf is not None}
        for unit in self._candidates(reads):
            if self._joins(unit, root, reads, reach.tree, place):
                return
        unit = self._new(place, None, Group(root.total, ()))
        self._add(unit, root, reads, reach.tree, place)

    def _candidates(self, reads: set[Node]) -> list[Unit]:
        """Units that made or read what this root reads, latest first; a single number is no reason to meet."""
        found: dict[Unit, None] = {}
        for leaf in reads:
            unit = self.unit_of.get(leaf)
            if unit is not None and unit.group is not None:
                found[unit] = None
            if leaf.aval.size > 1:
                found.update(dict.fromkeys(self.readers_of.get(leaf, ())))
        return sorted(found, key=lambda u: -u.number)

    def _joins(self, unit: Unit, root: Root, reads: set[Node], tree: int, place: int) -> bool:
        group = unit.group
        assert group is not None
        if (unit.tree | tree).bit_count() > TREE_LIMIT or len(unit.reads | reads) + len(unit.roots) > _PLACES_LIMIT:
            return False
        for leaf in reads:
            other = self.unit_of.get(leaf)
            if other is not None and other is not unit and other.needs >> unit.number & 1:
                return False
        made = [leaf for leaf in reads if leaf in unit.roots]
        placed = _fit(group, unit, root, made, self.reaches, self.axes)
        if placed is None:
            return False
        group.inner, group.strides = placed
        self._add(unit, root, reads, tree, place)
        return True

    def _add(self, unit: Unit, root: Root, reads: set[Node], tree: int, place: int) -> None:
        group = unit.group
        assert group is not None
        if not group.strides and not group.roots:
            group.strides = tuple(sorted(root.strides(), reverse=True))
        group.roots.append(root)
        unit.roots[root.node] = root
        unit.tree |= tree
        unit.place = place
        self.unit_of[root.node] = unit
        new = reads - unit.reads
        unit.reads |= reads
        for leaf in new:
            self.readers_of.setdefault(leaf, []).append(unit)
        before = unit.needs
        self._wait(unit, reads)
        if unit.needs != before:
            for other in self.units:
                if other.needs >> unit.number & 1:
                    other.needs |= unit.needs


def _fit(
    group: Group, unit: Unit, root: Root, made: list[Node], reaches: Reaches, axes
) -> tuple[int | None, tuple[int, ...]] | None:
    """How `root` can be computed in `group`, whose roots `made` it reads: the row length and strides
    that the group then has; or None.  Sets the root's row and stage."""
    inner = group.inner
    for leaf in made:
        own = unit.roots[leaf]
        if own.is_reduction:
            # Its result is there at the end of a row, if rows are what it reduces.
            if own.row or own.inner is None or (inner is not None and own.inner != inner):
                return None
            inner = own.inner
    flat = axes.flat(root.domain)
    if root.total == group.total and (inner is None or inner > 1 or not made):
        row, scale = False, 1
    elif inner is not None and made and root.total * inner == group.total:
        row, scale = True, inner
    else:
        return None
    stage = 0
    for read, at in reaches.of(root.node).reads:
        if read is None or read not in unit.roots:
            continue
        own = unit.roots[read]
        per_row = own.row or own.is_reduction
        if row and not per_row:
            return None
        expected = flat.floordiv(inner) if per_row and not row and inner is not None else flat
        if at != expected:
            return None
        stage = max(stage, own.stage + own.is_reduction)
    strides = set(group.strides) | {s * scale for s in root.strides()}
    if inner is not None and inner != group.total and inner > 0:
        strides.add(inner)
    cut = chain(strides, group.total)
    if cut is None:
        return None
    root.row, root.stage = row, stage
    return inner, cut




# ---------------------------------------------------------------- order, and what is stored


def _in_order(units: list[Unit]) -> list[Unit]:
    """An order in which every unit follows those it needs, otherwise as the graph has it."""
    waiting = {u: u.needs.bit_count() for u in units}
    followers: dict[int, list[Unit]] = {u.number: [] for u in units}
    for unit in units:
        needs = unit.needs
        while needs:
            low = needs & -needs
            followers[low.bit_length() - 1].append(unit)
            needs ^= low
    ready = [(u.place, u.number) for u in units if not waiting[u]]
    ready.sort()
    ordered = []
    while ready:
        _, number = heappop(ready)
        ordered.append(units[number])
        for follower in followers[number]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(ready, (follower.place, follower.number))
    assert len(ordered) == len(units), "units wait for each other"
    return ordered


def _store_shared(units: list[Unit], reaches: Reaches, nodes) -> bool:
    """Make roots of dear values that two units would both compute; tells whether there were any."""
    by_bit = [n for n in nodes if n in reaches.bit]
    readers: dict[Node, list[Node]] = {}
    for node in nodes:
        for i in node.inputs:
            readers.setdefault(i, []).append(node)
    seen = 0
    changed = False
    for position, unit in enumerate(units):
        shared = unit.tree & seen
        seen |= unit.tree
        for node in _bits(shared, by_bit):
            if node in reaches.roots or _price(node, reaches, by_bit) < HEAVY:
                continue
            outside = any(
                r in reaches.roots or not is_fused(r) or reaches.bit[r] & unit.tree & ~shared for r in readers[node]
            )
            if outside and (_make_root(node, units[:position], reaches)):
                changed = True
    return changed


def _make_root(node: Node, units: list[Unit], reaches: Reaches) -> bool:
    """Let the first unit that computes `node` over its whole domain, at its own place, store it."""
    bit = reaches.bit[node]
    for unit in units:
        group = unit.group
        if group is None or not unit.tree & bit or node.aval.size != group.total or group.total == 1:
            continue
        root = Root(node, node.aval.shape)
        made = [leaf for leaf, _ in reaches.of(node).reads if leaf is not None and leaf in unit.roots]
        placed = _fit(group, unit, root, made, reaches, reaches.probed.axes)
        if placed is None or root.row:
            continue
        group.inner, group.strides = placed
        # Readers in the same stage find it computed; later ones load it.
        group.roots.insert(0, root)
        unit.roots[node] = root
        reaches.roots.add(node)
        return True
    return False


def _refresh(unit: Unit, reaches: Reaches) -> None:
    """Read off again what a unit reads, after values became roots."""
    nodes = list(unit.roots) if unit.node is None else [unit.node]
    if unit.node is not None and isinstance(unit.node.op.lower, Contract):
        return
    unit.reads, unit.tree = set(), 0
    for node in nodes:
        reach = reaches.of(node)
        unit.reads |= {leaf for leaf, _ in reach.reads if leaf is not None}
        unit.tree |= reach.tree


def _settle_storage(units: list[Unit], prepared: Prepared, reaches: Reaches) -> set[Node]:
    """Say which roots are written to memory: outputs, and what another unit or a later stage reads."""
    stored = {n for n in prepared.graph.outputs if n.op is not INPUT}
    for unit in units:
        if unit.group is None and unit.node is not None:
            stored.add(unit.node)
        for leaf in unit.reads:
            if leaf not in unit.roots and leaf.op is not INPUT:
                stored.add(leaf)
        for root in unit.roots.values():
            for read, _ in reaches.of(root.node).reads:
                own = unit.roots.get(read) if read is not None else None
                if own is not None and not own.is_reduction and not own.row and own.stage < root.stage:
                    stored.add(own.node)
    for unit in units:
        if unit.group is not None:
            for root in unit.group.roots:
                root.stored = root.node in stored
            unit.group.roots = [r for r in unit.group.roots if r.stored or r.is_reduction]
    return stored


def _choose_scratch(group: Group, reaches: Reaches, nodes) -> None:
    """Keep dear values of a row that a later stage needs again, as far as a row fits in the cache."""
    stages = max((r.stage for r in group.roots), default=0)
    if group.inner is None or stages == 0:
        return
    trees = [0] * (stages + 1)
    for root in group.roots:
        if not root.row:
            trees[root.stage] |= reaches.of(root.node).tree
    by_bit = [n for n in nodes if n in reaches.bit]
    bytes_left = SCRATCH_BYTES
    chosen: set[Node] = set()
    before = trees[0]
    for stage in range(1, stages + 1):
        shared = trees[stage] & before
        before |= trees[stage]
        wanted = {i for n in _bits(trees[stage] & ~shared, by_bit) for i in n.inputs}
        wanted |= {r.node.inputs[0] for r in group.roots if r.is_reduction and r.stage == stage}
        wanted |= {r.node for r in group.roots if not r.is_reduction and r.stage == stage}
        for node in _bits(shared, by_bit):
            size = group.inner * node.aval.dtype.itemsize
            if (
                node in wanted
                and node not in chosen
                and node.aval.size == group.total
                and size <= bytes_left
                and _price(node, reaches, by_bit) >= HEAVY
            ):
                chosen.add(node)
                bytes_left -= size
    group.scratch = frozenset(chosen)


def _price(node: Node, reaches: Reaches, by_bit: list[Node]) -> int:
    """What computing a node's element costs, everything on the way from memory included."""
    return sum(reaches.weight[n] for n in _bits(reaches.of(node).tree, by_bit))


def _bits(bits: int, by_bit: list[Node]) -> list[Node]:
    """The nodes in a set of bits, in order."""
    found = []
    while bits:
        low = bits & -bits
        found.append(by_bit[low.bit_length() - 1])
        bits ^= low
    return found
