"""Units: the steps of the program to be, while fusion decides what is in them.

A unit is a group of roots that become one kernel, or one node with a step of its own.  `fit` says
whether and how a root can be computed in a group.

After clustering: in what order units run, which values are stored, what a kernel keeps for itself.
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
from .loops import chain
from .prepare import Prepared
from .reach import Reach, Reaches, numbers

#: By itself a number takes ten times as long as in a vector; a row that is read again takes less than so many additions
#: an element.  Numbers of short rows are in vectors anyway where all of the row's work is written out.
_ROW_PRICE, _SHORT_ROW = 3, 32

#: Rows of so many elements are in no cache when the next sweep comes; if they are fewer than so many, each sweep is a
#: kernel of its own, which threads share (x / norm(x), softmax of a vector).
_LONG_ROW, _FEW_ROWS = 1 << 16, 4


@record(eq=False, slots=True)
class Unit:
    """One step of the program to be: a group of roots, or one node with a step of its own.

    number      its bit in `needs`;   needs   all units that must run before, as bits
    place       of its last root in the graph
    tree        computed nodes in it;   leaves   the stored values it reads;   made   those it makes
    followers   the units that read what it makes
    bases       of a product: what it multiplies, whatever moves lie between
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
        """Read off again what it computes and reads, after values became roots."""
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
    """The row length and strides of a unit's group with `root` in it; None if it does not fit.

    Sets the root's row and stage.
    """
    inner = group.inner
    reach = reaches.of(root.node)
    made = [reaches.leaves[j] for j in numbers(reach.leaves & unit.made)]
    if made and root.total == 1 and group.total != 1:  # as a row its loop could not be shared among threads
        return None
    for leaf in made:
        own = unit.roots[leaf]
        if own.is_reduction:
            # Its result is there at the end of a row, if rows are what it reduces.
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
    cut = chain(strides, group.total)
    if cut is None:
        return None
    root.row, root.stage = row, stage
    return inner, cut


def _is_dear(reach: Reach, inner: int) -> bool:
    """True if a number of each row is better computed from memory, in vectors, than by itself where the row is."""
    return reach.price > _ROW_PRICE * max(_SHORT_ROW, typical(inner))


def _has_few_long_rows(total: int, inner: int) -> bool:
    """True if threads could not share a loop over the rows, though each row is much work."""
    # The very numbers, not typical ones: for other extents the program is another.
    return inner >= _LONG_ROW and total < _FEW_ROWS * inner


# ---------------------------------------------------------------- after clustering


#: Bytes of a row that are kept between the stages of a kernel: they must stay in the first cache.
SCRATCH_BYTES = 16 * 1024


def in_order(units: list[Unit]) -> list[Unit]:
    """An order in which every unit follows those it needs, otherwise as the graph has it."""
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
    """Make roots of dear values that two units would both compute; gives them.

    The first unit that computes such a value stores it, if it computes all of it; else a new unit
    before that one does.  `units` are in the order in which they run, and stay so.
    """
    dear = sum([1 << j for j, node in enumerate(reaches.nodes) if _is_dear_to_make(node, reaches)])
    always: int | None = None
    seen = found = 0
    for unit in units:
        shared = unit.tree & seen & dear & ~found
        if shared:
            if always is None:
                always = _always_shared(nodes, reaches)
            new_here = [reaches.nodes[j] for j in numbers(unit.tree & ~seen)]
            found |= shared & (always | _read_by(new_here, reaches))
        seen |= unit.tree
    if not found:
        return set()
    first: dict[int, Unit] = {}
    missing = found
    for unit in units:
        here = unit.tree & missing
        first.update(dict.fromkeys(numbers(here), unit))
        missing &= ~here
    before: dict[Unit, list[Unit]] = {}
    hosted: dict[Unit, int] = {}
    new: set[Node] = set()
    for j in numbers(found):
        node = reaches.nodes[j]
        unit = first[j]
        if _hosts(unit, node, reaches):
            hosted[unit] = hosted.get(unit, 0) | 1 << j
        elif reaches.of(node).tree & hosted.get(unit, 0) or reaches.of(node).leaves & unit.made:
            # It needs what the first unit makes, or only then stores.
            continue
        else:
            before.setdefault(unit, []).append(_maker(node, len(units) + len(before)))
        new.add(node)
        reaches.roots.add(node)
    if before:
        units[:] = [u for unit in units for u in (*before.get(unit, ()), unit)]
    return new


def _always_shared(nodes: Iterable[Node], reaches: Reaches) -> int:
    """Numbers of nodes that a root reads, or a step of its own: wherever else they are computed, they are shared."""
    return _read_by([n for n in nodes if n in reaches.roots or not is_fused(n)], reaches)


def _read_by(nodes: Iterable[Node], reaches: Reaches) -> int:
    """Numbers of the computed nodes that these read."""
    return sum([1 << j for j in {reaches.number[i] for n in nodes for i in n.inputs if i in reaches.number}])


def _is_dear_to_make(node: Node, reaches: Reaches) -> bool:
    return node not in reaches.roots and node.aval.size > 1 and reaches.of(node).price >= HEAVY


def _hosts(unit: Unit, node: Node, reaches: Reaches) -> bool:
    """Let a unit that computes all of `node`, at its own place, store it on the way."""
    group = unit.group
    if group is None or node.aval.size != group.total:
        return False
    root = Root(node, node.aval.shape)
    placed = fit(group, unit, root, reaches)
    if placed is None or root.row:
        return False
    group.inner, group.strides = placed
    # Readers in the same stage find it computed; later ones load it.
    group.roots.insert(0, root)
    unit.roots[node] = root
    return True


def _maker(node: Node, number: int) -> Unit:
    """A unit that does nothing but compute and store a value."""
    root = Root(node, node.aval.shape)
    group = KernelGroup(root.total, tuple(sorted(root.strides(), reverse=True)), roots=[root])
    return Unit(number, 0, None, group, roots={node: root})


def settle_storage(units: list[Unit], prepared: Prepared, reaches: Reaches) -> set[Node]:
    """Say which roots are written to memory: outputs, and what another unit or a later stage reads."""
    stored = {n for n in prepared.graph.outputs if n.op is not INPUT}
    for unit in units:
        if unit.group is None and unit.node is not None:
            stored.add(unit.node)
        stored.update([n for j in numbers(unit.leaves & ~unit.made) if (n := reaches.leaves[j]).op is not INPUT])
        # A root reads what earlier stages of its unit make: nothing does in the first stage.
        first = min([r.stage for r in unit.roots.values()], default=0)
        for root in unit.roots.values():
            if root.stage == first:
                continue
            for j in numbers(reaches.of(root.node).leaves & unit.made):
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
    """Keep dear values of a row that a later stage needs again, as far as a row fits in the cache."""
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
        wanted = {i for j in numbers(trees[stage] & ~shared) for i in reaches.nodes[j].inputs}
        wanted |= {r.node.inputs[0] for r in group.roots if r.is_reduction and r.stage == stage}
        wanted |= {r.node for r in group.roots if not r.is_reduction and r.stage == stage}
        for j in numbers(shared):
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
