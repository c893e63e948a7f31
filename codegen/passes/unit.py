"""Units: the future steps of a program, while fusion fills them.

A unit is a group of roots that become one kernel, or a single node that becomes a separate step.  `fit`
decides if and how a root can be computed in a group.

After clustering, the functions below choose the order of units, the stored values, and the scratch memory of kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from ..ir import Node
from ..ir.op import INPUT
from ..kernel.edges import HEAVY
from ..kernel.group import KernelGroup, Root
from ..records import field, record
from ..symbols import typical
from .demand import is_fused
from .loops import divisor_chain
from .prepare import Prepared
from .reach import Reach, Reaches, set_bits

#: A scalar computation takes ten times as long as one in vectors; reading a row again takes less than _ROW_PRICE
#: additions per element.  The work of rows up to _SHORT_ROW is unrolled, so their scalars are in vectors anyway.
_ROW_PRICE, _SHORT_ROW = 3, 32

#: A row of _LONG_ROW elements leaves the cache before the next sweep over it.  With fewer than _FEW_ROWS such rows each
#: sweep is a separate kernel, whose loop over elements threads share (x / norm(x), softmax of a vector).
_LONG_ROW, _FEW_ROWS = 1 << 16, 4


@record(eq=False, slots=True)
class Unit:
    """One future step of the program: a group of roots, or one node that becomes a separate step.

    number      the unit's bit in `needs`;   needs   all units that must run before, as bits
    place       the position of the unit's last root in the graph
    tree        the nodes it computes;   leaves   the stored values it reads;   made   those it makes (all as bits)
    followers   the units that read a value of this one
    bases       for a product: the stored arrays behind its operands, before moves such as a transpose
    """

    number: int
    place: int
    node: Node | None
    group: KernelGroup | None
    needs: int = 0
    tree: int = 0
    leaves: int = 0
    made: int = 0
    roots: dict[Node, Root] = field(default_factory=dict)
    followers: dict[Unit, None] = field(default_factory=dict)
    bases: tuple[Node, ...] = ()

    def refresh(self, reaches: Reaches) -> None:
        """Compute `made`, `leaves` and `tree` again, after more nodes have become roots."""
        nodes = list(self.roots) if self.node is None else [self.node]
        self.made = self.leaves = self.tree = 0
        for node in nodes:
            self.made |= reaches.leaf(node)
        for base in self.bases:
            self.leaves |= reaches.leaf(base)
        if self.bases:
            return
        for node in nodes:
            reach = reaches.of(node)
            self.leaves |= reach.leaves
            self.tree |= reach.tree


def fit(group: KernelGroup, unit: Unit, root: Root, reaches: Reaches) -> tuple[int | None, tuple[int, ...]] | None:
    """The row length and strides of a unit's group with `root` added; None if the root does not fit.

    Sets `row` and `stage` of the root.
    """
    inner = group.inner
    reach = reaches.of(root.node)
    made = [reaches.leaves[j] for j in set_bits(reach.leaves & unit.made)]
    if made and root.total == 1 and group.total != 1:  # with one row threads could not share the loop over rows
        return None
    for leaf in made:
        own = unit.roots[leaf]
        if own.is_reduction:
            # The result is known at the end of each row, provided that the reduction is over rows.
            if own.row or own.inner is None or (inner is not None and own.inner != inner):
                return None
            if _has_few_long_rows(group.total, own.inner):
                return None
            inner = own.inner
    flat = reaches.probed.axes.flat(root.domain)
    if root.total == group.total and (inner is None or inner > 1 or not made):
        row, scale = False, 1
    elif inner is not None and made and root.total * inner == group.total and not _is_dear(reach, inner):
        row, scale = True, inner
    else:
        return None
    stage = 0
    for leaf in made:
        own = unit.roots[leaf]
        per_row = own.row or own.is_reduction
        if row and not per_row:
            return None
        expected = flat.floordiv(inner) if per_row and not row and inner is not None else flat
        if any(at != expected for at in reaches.reads_of(leaf, reach.reads)):
            return None
        stage = max(stage, own.stage + own.is_reduction)
    strides = set(group.strides) | {s * scale for s in root.strides()}
    if inner is not None and inner != group.total and inner > 0:
        strides.add(inner)
    cut = divisor_chain(strides, group.total)
    if cut is None:
        return None
    root.row, root.stage = row, stage
    return inner, cut


def _is_dear(reach: Reach, inner: int) -> bool:
    """True if a value per row is so expensive that a separate kernel, in vectors, beats scalar code in each row."""
    return reach.price > _ROW_PRICE * max(_SHORT_ROW, typical(inner))


def _has_few_long_rows(total: int, inner: int) -> bool:
    """True if the rows are too few for threads to share, though each row is long."""
    # The exact numbers, not `typical` ones: a symbol here records a condition, so other extents get another program.
    return inner >= _LONG_ROW and total < _FEW_ROWS * inner


# ---------------------------------------------------------------- after clustering


#: The most bytes of a row that a kernel keeps between its stages: they must stay in the first-level cache.
SCRATCH_BYTES = 16 * 1024


def in_order(units: list[Unit]) -> list[Unit]:
    """The units in an order in which each follows those it needs, as close as possible to the order of the graph."""
    waiting = dict.fromkeys(units, 0)
    for unit in units:
        for follower in unit.followers:
            waiting[follower] += 1
    ready = [(u.place, u.number) for u in units if not waiting[u]]
    heapify(ready)
    ordered = []
    while ready:
        _, number = heappop(ready)
        ordered.append(units[number])
        for follower in units[number].followers:
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(ready, (follower.place, follower.number))
    assert len(ordered) == len(units), "units wait for each other"
    return ordered


def store_shared(units: list[Unit], reaches: Reaches, nodes: Iterable[Node]) -> set[Node]:
    """Make roots of the expensive values that two units would both compute; return these values.

    The first unit that computes such a value stores it if it computes all elements; otherwise a new
    unit before that one does.  `units` are in the order in which they run; new units are inserted.
    """
    large = [(j, node) for j, node in enumerate(reaches.nodes) if node not in reaches.roots and node.aval.size > 1]
    dear = sum([1 << j for j, node in large if reaches.of(node).price >= HEAVY])
    always: int | None = None
    seen = found = 0
    for unit in units:
        shared = unit.tree & seen & dear & ~found
        if shared:
            if always is None:  # what roots and separate steps read: computed anywhere else, it is computed twice
                always = _read_by([n for n in nodes if n in reaches.roots or not is_fused(n)], reaches)
            new_here = [reaches.nodes[j] for j in set_bits(unit.tree & ~seen)]
            found |= shared & (always | _read_by(new_here, reaches))
        seen |= unit.tree
    if not found:
        return set()
    first: dict[int, Unit] = {}
    missing = found
    for unit in units:
        here = unit.tree & missing
        first.update(dict.fromkeys(set_bits(here), unit))
        missing &= ~here
    before: dict[Unit, list[Unit]] = {}
    hosted: dict[Unit, int] = {}
    new: set[Node] = set()
    for j in set_bits(found):
        node = reaches.nodes[j]
        unit = first[j]
        if _add_root_if_fits(unit, node, reaches):
            hosted[unit] = hosted.get(unit, 0) | 1 << j
        elif reaches.of(node).tree & hosted.get(unit, 0) or reaches.of(node).leaves & unit.made:
            continue  # the value depends on what its first unit makes or will store, so no unit before can make it
        else:
            before.setdefault(unit, []).append(_storing_unit(node, len(units) + len(before)))
        new.add(node)
        reaches.roots.add(node)
    if before:
        units[:] = [u for unit in units for u in (*before.get(unit, ()), unit)]
    return new


def _read_by(nodes: Iterable[Node], reaches: Reaches) -> int:
    """The computed nodes that these nodes read, as bits."""
    return sum([1 << j for j in {reaches.number[i] for n in nodes for i in n.inputs if i in reaches.number}])


def _add_root_if_fits(unit: Unit, node: Node, reaches: Reaches) -> bool:
    """Add `node` to the roots of a unit that computes all its elements in place; return True if that is possible."""
    group = unit.group
    if group is None or node.aval.size != group.total:
        return False
    root = Root(node, node.aval.shape)
    placed = fit(group, unit, root, reaches)
    if placed is None or root.row:
        return False
    group.inner, group.strides = placed
    # The first root is computed before its readers in the same stage; readers in later stages load it.
    group.roots.insert(0, root)
    unit.roots[node] = root
    return True


def _storing_unit(node: Node, number: int) -> Unit:
    """A new unit that computes and stores one value."""
    root = Root(node, node.aval.shape)
    group = KernelGroup(root.total, tuple(sorted(root.strides(), reverse=True)), roots=[root])
    return Unit(number, 0, None, group, roots={node: root})


def settle_storage(units: list[Unit], prepared: Prepared, reaches: Reaches) -> set[Node]:
    """Set `stored` of all roots, and return the stored values: outputs, and values that another unit or stage reads."""
    stored = {n for n in prepared.graph.outputs if n.op is not INPUT}
    for unit in units:
        if unit.group is None and unit.node is not None:
            stored.add(unit.node)
        stored.update([n for j in set_bits(unit.leaves & ~unit.made) if (n := reaches.leaves[j]).op is not INPUT])
        # A root of the first stage reads no value of an earlier stage.
        first = min([r.stage for r in unit.roots.values()], default=0)
        for root in unit.roots.values():
            if root.stage == first:
                continue
            for j in set_bits(reaches.of(root.node).leaves & unit.made):
                own = unit.roots[reaches.leaves[j]]
                if not own.is_reduction and not own.row and own.stage < root.stage:
                    stored.add(own.node)
    for unit in units:
        if unit.group is not None:
            for root in unit.roots.values():
                root.stored = root.node in stored
            unit.group.roots = [r for r in unit.group.roots if r.stored or r.is_reduction]
    return stored


def choose_scratch(group: KernelGroup, reaches: Reaches) -> None:
    """Choose the expensive values that a kernel keeps for the length of a row, since a later stage reads them again."""
    stages = max((r.stage for r in group.roots), default=0)
    if group.inner is None or stages == 0:
        return
    trees = [0] * (stages + 1)
    for root in group.roots:
        if not root.row:
            trees[root.stage] |= reaches.of(root.node).tree
    bytes_left = SCRATCH_BYTES
    chosen: set[Node] = set()
    before = trees[0]
    for stage in range(1, stages + 1):
        shared = trees[stage] & before
        before |= trees[stage]
        wanted = {i for j in set_bits(trees[stage] & ~shared) for i in reaches.nodes[j].inputs}
        wanted |= {r.node.inputs[0] for r in group.roots if r.is_reduction and r.stage == stage}
        wanted |= {r.node for r in group.roots if not r.is_reduction and r.stage == stage}
        for j in set_bits(shared):
            node = reaches.nodes[j]
            size = group.inner * node.aval.dtype.itemsize
            if (
                node in wanted
                and node not in chosen
                and node.aval.size == group.total
                and size <= bytes_left
                and reaches.of(node).price >= HEAVY
            ):
                chosen.add(node)
                bytes_left -= size
    group.scratch = frozenset(chosen)
