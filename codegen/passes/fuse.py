"""Fusion: the choice of the values that one kernel computes together.

Roots (the nodes chosen by `demand`) are visited in the order of the graph.  Each root joins a kernel that already
computes over the same domain and reads the same memory, or opens a new kernel.  Nodes between roots are not stored:
each kernel that reads such a node computes it again.  A root may read another root of its own kernel:

    an array's element at the same position           from a register
    a reduction's result for the current row          one stage later, in the same loop over rows
    anything else                                     from memory, so an earlier kernel must have written the value

    top = max(x, axis=1)       \
    e = exp(x - top)            |  one kernel: a loop over rows, with three loops in it;
    norm = sum(e, axis=1)       |  e is kept in a scratch buffer for the length of one row
    y = e / norm               /
    loss = sum(log(norm))         joins that kernel: a sum over rows of a number that the row has computed
    g = matmul(transpose(y), x)   a step by itself: y is stored, and its transpose is a flag of the product

Joining never makes a cycle: every unit holds, as a set of bits, all units that must run before it.
"""

from __future__ import annotations

from ..ir import Node
from ..kernel.edges import Probed
from ..kernel.group import KernelGroup, Root
from ..lowering import Contract, Reduce
from ..records import record
from .demand import choose_roots, is_fused
from .loops import cost_of, find_turns, lay_out
from .prepare import Prepared
from .reach import TREE_LIMIT, Reach, Reaches, set_bits
from .unit import Unit, choose_scratch, fit, in_order, settle_storage, store_shared

#: The most arrays that one kernel reads and writes: more streams than this overload the caches and prefetchers.
_STREAMS_LIMIT = 28

#: The most units tried for one root, latest first: the values of an older unit have left the cache anyway.
_CANDIDATES_LIMIT = 8


@record()
class Fused:
    """The result of fusion: units in an order in which they can run, the values stored in memory, and all reaches."""

    units: list[Unit]
    stored: set[Node]
    reaches: Reaches


def fuse(prepared: Prepared, probed: Probed) -> Fused:
    """Divide the work of a graph into units, as the head of the file describes."""
    nodes = prepared.graph.nodes
    roots = choose_roots(prepared, probed)
    reaches = Reaches(nodes, roots, probed)
    units = in_order(_Clustering(prepared, reaches).run())
    if new := store_shared(units, reaches, nodes):
        reaches.recompute(nodes, new)
        for unit in units:
            unit.refresh(reaches)
    stored = settle_storage(units, prepared, reaches)
    turning = sum([1 << j for j, node in enumerate(reaches.nodes) if probed.edges(node).turns])
    for unit in units:
        if unit.group is not None:
            lay_out(unit.group, reaches)
            choose_scratch(unit.group, reaches)
            unit.group.cost = cost_of(unit.group, reaches)
            if turning:
                find_turns(unit.group, reaches, turning)
    return Fused(units, stored, reaches)


class _Clustering:
    def __init__(self, prepared: Prepared, reaches: Reaches) -> None:
        self.prepared = prepared
        self.reaches = reaches
        self.units: list[Unit] = []
        self.unit_of: dict[Node, Unit] = {}
        self.readers_of: dict[int, list[Unit]] = {}
        # The leaves that some unit makes, as a set of bits.
        self.made = 0

    def run(self) -> list[Unit]:
        """Place every root of the graph, in order, and return the units."""
        for place, node in enumerate(self.prepared.graph.nodes):
            if node not in self.reaches.roots or node.aval.size == 0:
                continue
            if is_fused(node) or isinstance(node.op.lower, Reduce):
                self._place(node, place)
            else:
                self._new_step(node, place)
        return self.units

    def _new_step(self, node: Node, place: int) -> None:
        """Open a unit for a node that runs as a separate step."""
        unit = self._new(place, node, None)
        if isinstance(node.op.lower, Contract):
            product = self.prepared.products[node]
            unit.bases = (product.a.base, product.b.base)
        unit.refresh(self.reaches)
        self._makes(unit, node)
        self._wait(unit, unit.leaves)

    def _new(self, place: int, node: Node | None, group: KernelGroup | None) -> Unit:
        unit = Unit(len(self.units), place, node, group)
        self.units.append(unit)
        return unit

    def _makes(self, unit: Unit, node: Node) -> None:
        leaf = self.reaches.leaf(node)
        unit.made |= leaf
        self.made |= leaf
        self.unit_of[node] = unit

    def _makers(self, leaves: int) -> dict[Unit, None]:
        """The units that make these leaves."""
        found = self.reaches.leaves
        return dict.fromkeys([self.unit_of[found[j]] for j in set_bits(leaves & self.made)])

    def _wait(self, unit: Unit, leaves: int) -> None:
        """Let a unit wait for the units that make these leaves, and update `needs` of every unit that waits for it."""
        for other in self._makers(leaves):
            if other is not unit and unit not in other.followers:
                other.followers[unit] = None
                unit.needs |= other.needs | 1 << other.number
        changed = [unit]
        while changed:
            unit = changed.pop()
            for follower in unit.followers:
                if unit.needs & ~follower.needs:
                    follower.needs |= unit.needs
                    changed.append(follower)

    def _place(self, node: Node, place: int) -> None:
        """Let a root join an existing unit, or open a new one for it."""
        domain = node.inputs[0].aval.shape if isinstance(node.op.lower, Reduce) else node.aval.shape
        root = Root(node, domain)
        reach = self.reaches.of(node)
        makers = self._makers(reach.leaves)
        for unit in self._candidates(reach, makers):
            if self._joins(unit, root, reach, makers, place):
                return
        unit = self._new(place, None, KernelGroup(root.total, ()))
        self._add(unit, root, reach, place)

    def _candidates(self, reach: Reach, makers: dict[Unit, None]) -> list[Unit]:
        """Units that make or read a leaf of this root, latest first.  A read leaf of one element does not count."""
        found = {unit for unit in makers if unit.group is not None}
        for j in set_bits(reach.leaves & ~self.reaches.small):
            found.update(self.readers_of.get(j, ())[-_CANDIDATES_LIMIT:])
        return sorted(found, key=lambda u: -u.number)[:_CANDIDATES_LIMIT]

    def _joins(self, unit: Unit, root: Root, reach: Reach, makers: dict[Unit, None], place: int) -> bool:
        group = unit.group
        assert group is not None
        streams = (unit.leaves | reach.leaves) & ~self.reaches.small
        written = sum([r.node.aval.size > 1 for r in group.roots[-_STREAMS_LIMIT:]])
        if (unit.tree | reach.tree).bit_count() > TREE_LIMIT or streams.bit_count() + written > _STREAMS_LIMIT:
            return False
        if any(other.needs >> unit.number & 1 for other in makers if other is not unit):
            return False
        placed = fit(group, unit, root, self.reaches)
        if placed is None:
            return False
        group.inner, group.strides = placed
        self._add(unit, root, reach, place)
        return True

    def _add(self, unit: Unit, root: Root, reach: Reach, place: int) -> None:
        group = unit.group
        assert group is not None
        if not group.strides and not group.roots:
            group.strides = tuple(sorted(root.strides(), reverse=True))
        group.roots.append(root)
        unit.roots[root.node] = root
        unit.tree |= reach.tree
        unit.place = place
        new = reach.leaves & ~unit.leaves
        unit.leaves |= new
        self._makes(unit, root.node)
        for j in set_bits(new & ~self.reaches.small):
            self.readers_of.setdefault(j, []).append(unit)
        self._wait(unit, new)
