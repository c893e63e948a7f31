"""In-place steps: a value takes the memory of another value if the step that computes it is the last to read that one.

    t1 = relu(t0 + b)        no later step reads t0: each element of t0 is loaded, then overwritten by that of t1

Two arguments of a step never overlap, so the two values become one argument: the kernel is built with the new value
placed in the memory of the old one (`kernel.elements`).  The condition is that no old element is read after the new
one at its place is stored:

    in one loop       all other reads of the element come earlier in the body of the loop
    in stages         all other reads of the row are in earlier stages than the store
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ..ir import Graph, Node
from ..kernel.group import Root
from ..lowering import Move, Scan, Scatter
from .fuse import Fused
from .reach import Reaches, set_bits
from .unit import Unit

#: A step before buffers are numbered: its work (a kernel, say), and the nodes and temporaries that it works on.
Draft = tuple[Any, tuple[Any, ...]]

#: For each value stored in another one's memory: the owner of the memory, the stride and the position of the first
#: element there, and True if the value takes over all of the memory.
Places = dict[Node, tuple[Node, int, int, bool]]


def share_memory(graph: Graph, fused: Fused, placed: Places, names: Mapping[Node, Node]) -> dict[Node, Node]:
    """Place values in the memory of values that no later step reads.  Returns the new value for each old one.

    names   for each value that shares memory with a reshape of it: the value that owns the memory
    """
    reaches = fused.reaches
    last: dict[Hashable, Unit] = {}
    lasting: set[Hashable] = {*graph.inputs, *graph.outputs, *placed}
    for unit in fused.units:
        last.update({_owner_of(reaches.leaves[j], names): unit for j in set_bits(unit.leaves)})
    taken: dict[Node, Node] = {}
    shaped = {*names.values()}
    for unit in fused.units:
        is_open = shaped.isdisjoint(unit.roots) and not _recomputes_overwritten(unit, reaches)
        made = [r for r in _elementwise_results(unit) if r.node not in placed] if is_open else []
        for j in set_bits(unit.leaves & ~unit.made) if made else ():
            old = reaches.leaves[j]
            name = _owner_of(old, names)
            if last[name] is not unit or name in lasting or old.aval.size < 2:
                continue
            root = next((r for r in made if _may_overwrite(r, old, unit, reaches)), None)
            if root is not None:
                made.remove(root)
                taken[name] = root.node
                placed[root.node] = placed[old][0] if old in placed else old, 1, 0, True
    return taken


def _elementwise_results(unit: Unit) -> list[Root]:
    """The values that a unit stores element by element: no reductions, and no values of one number per row."""
    if unit.group is not None:
        return [r for r in unit.group.roots if r.stored and not r.row and not r.is_reduction]
    node = unit.node
    return [Root(node, node.aval.shape)] if node is not None and isinstance(node.op.lower, Scan | Scatter) else []


def _recomputes_overwritten(unit: Unit, reaches: Reaches) -> bool:
    """True if a kernel reads one of its roots at another index: it would compute that element from overwritten data."""
    flat = reaches.probed.axes.flat
    for root in unit.roots.values():
        reach = reaches.of(root.node)
        for own in [unit.roots[reaches.leaves[j]] for j in set_bits(reach.leaves & unit.made)]:
            is_element = not (own.row or own.is_reduction)
            if is_element and any([at != flat(root.domain) for at in reaches.reads_of(own.node, reach.reads)]):
                return True
    return False


def _may_overwrite(root: Root, old: Node, unit: Unit, reaches: Reaches) -> bool:
    """True if no element of `old` is read after the element of `root` at its place is stored."""
    new, group = root.node, unit.group
    if (new.aval.size, new.aval.dtype) != (old.aval.size, old.aval.dtype):
        return False
    readers = [root]
    if group is not None:
        readers = [r for r in unit.roots.values() if reaches.of(r.node).leaves & reaches.leaf(old)]
        if any([r.row for r in readers]):
            return False
        ahead = [r for r in readers if r.stage < root.stage]
        if group.inner is None:  # one loop computes all roots, in the order of the list
            ahead = group.roots[: group.roots.index(root)]
        if any([r is not root and r not in ahead for r in readers]):
            return False
    elif isinstance(new.op.lower, Scatter):  # it copies its first input, then writes updates at arbitrary places
        others = [reaches.as_read(i).leaves for i in new.inputs[1:]]
        if not new.op.lower.replaces or any([leaves & reaches.leaf(old) for leaves in others]):
            return False
    flat = reaches.probed.axes.flat
    return all([at == flat(r.domain) for r in readers for at in reaches.reads_of(old, reaches.of(r.node).reads)])


def same_memory(graph: Graph, fused: Fused) -> dict[Node, Node]:
    """For each value that is only a reshape of another stored value, that value: the two can share one buffer.

    Reshapes of an input or output of the graph are left out, and so are pairs of which one kernel reads both values.
    """
    fixed = {*graph.inputs, *graph.outputs}
    found: dict[Node, Node] = {}
    taken: set[Node] = set()
    for unit in fused.units:
        if unit.group is None or len(unit.roots) != 1:
            continue
        (node,) = unit.roots
        x = node
        while isinstance(x.op.lower, Move) and x.op.lower.is_reshape and (x is node or x not in fused.stored):
            x = x.inputs[0]
        if x is node or x not in fused.stored or x in fixed or x in taken or x in found:
            continue
        both = fused.reaches.leaf(node) | fused.reaches.leaf(x)
        if not any([unit.leaves & both == both for unit in fused.units]):
            found[node] = x
            taken.add(x)
    return found


def renamed(drafts: Sequence[Draft], names: Mapping[Hashable, Hashable]) -> list[Draft]:
    """The steps with each value replaced by the value that owns its memory."""
    if not names:
        return list(drafts)
    return [(work, tuple([_owner_of(v, names) for v in values])) for work, values in drafts]


def _owner_of(value: Any, names: Mapping[Any, Any]) -> Any:
    while value in names:
        value = names[value]
    return value
