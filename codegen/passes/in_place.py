"""In place: a value takes the memory of one that is read for the last time in the step that makes it.

    t1 = relu(t0 + b)        nobody reads t0 later: each element is loaded, then stored where it was

A step's arguments are never the same memory, so the two become one argument of the kernel, which is built so: the new
value is placed in the memory of the old one (`kernel.elements`).  That is right where an element is read by nobody but
what makes the one at its place:

    in one loop       what else reads the element does so before
    in a row          so do the loops before the one that stores
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ..ir import Graph, Node
from ..kernel.group import Root
from ..lowering import Move, Scan, Scatter
from .fuse import Fused
from .reach import Reaches, numbers
from .unit import Unit

#: A step before buffers have numbers: its work, and what it works on, nodes and temporaries.
Draft = tuple[Any, tuple[Any, ...]]

#: Values that are stored in another's memory: whose, the stride and the place of the first of their elements, and
#: whether they take all of it.
Places = dict[Node, tuple[Node, int, int, bool]]


def share_memory(graph: Graph, fused: Fused, placed: Places, names: Mapping[Node, Node]) -> dict[Node, Node]:
    """Place values in the memory of others that are read for the last time; gives which took the memory of which.

    names   values that are only others in another shape: what has their memory
    """
    reaches = fused.reaches
    last: dict[Hashable, Unit] = {}
    lasting: set[Hashable] = {*graph.inputs, *graph.outputs, *placed}
    for unit in fused.units:
        last.update({_name(reaches.leaves[j], names): unit for j in numbers(unit.leaves)})
    taken: dict[Node, Node] = {}
    shaped = {*names.values()}
    for unit in fused.units:
        is_open = shaped.isdisjoint(unit.roots) and not _is_made_again(unit, reaches)
        made = [r for r in _made(unit) if r.node not in placed] if is_open else []
        for j in numbers(unit.leaves & ~unit.made) if made else ():
            old = reaches.leaves[j]
            name = _name(old, names)
            if last[name] is not unit or name in lasting or old.aval.size < 2:
                continue
            root = next((r for r in made if _may_take(r, old, unit, reaches)), None)
            if root is not None:
                made.remove(root)
                taken[name] = root.node
                placed[root.node] = placed[old][0] if old in placed else old, 1, 0, True
    return taken


def _made(unit: Unit) -> list[Root]:
    """The values that a unit makes element by element."""
    if unit.group is not None:
        return [r for r in unit.group.roots if r.stored and not r.row and not r.is_reduction]
    node = unit.node
    return [Root(node, node.aval.shape)] if node is not None and isinstance(node.op.lower, Scan | Scatter) else []


def _is_made_again(unit: Unit, reaches: Reaches) -> bool:
    """True if a kernel reads its own values at other places: it makes those again, of what may be overwritten there."""
    flat = reaches.probed.axes.flat
    for root in unit.roots.values():
        reach = reaches.of(root.node)
        for own in [unit.roots[reaches.leaves[j]] for j in numbers(reach.leaves & unit.made)]:
            is_element = not (own.row or own.is_reduction)
            if is_element and any([at != flat(root.domain) for at in reaches.reads_of(own.node, reach.reads)]):
                return True
    return False


def _may_take(root: Root, old: Node, unit: Unit, reaches: Reaches) -> bool:
    """True if no element of the old value is read after that of the new one is stored at its place."""
    new, group = root.node, unit.group
    if (new.aval.size, new.aval.dtype) != (old.aval.size, old.aval.dtype):
        return False
    readers = [root]
    if group is not None:
        readers = [r for r in unit.roots.values() if reaches.of(r.node).leaves & reaches.leaf(old)]
        if any([r.row for r in readers]):
            return False
        ahead = [r for r in readers if r.stage < root.stage]
        if group.inner is None:  # one loop does all of them, one after the other
            ahead = group.roots[: group.roots.index(root)]
        if any([r is not root and r not in ahead for r in readers]):
            return False
    elif isinstance(new.op.lower, Scatter):  # the first input is copied, then numbers go to any places
        others = [reaches.seen(i).leaves for i in new.inputs[1:]]
        if not new.op.lower.replaces or any([leaves & reaches.leaf(old) for leaves in others]):
            return False
    flat = reaches.probed.axes.flat
    return all([at == flat(r.domain) for r in readers for at in reaches.reads_of(old, reaches.of(r.node).reads)])


def same_memory(graph: Graph, fused: Fused) -> dict[Node, Node]:
    """For each value that is only another stored one in another shape, that one: they can be one buffer.

    Not for what a user gives or is given, or where one kernel reads both.
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
    """The steps with other names for values."""
    if not names:
        return list(drafts)
    return [(work, tuple([_name(v, names) for v in values])) for work, values in drafts]


def _name(value: Any, names: Mapping[Any, Any]) -> Any:
    while value in names:
        value = names[value]
    return value
