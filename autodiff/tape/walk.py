"""Walks over the tape, and the numbering that makes two recordings comparable.

There are two walks.  The *value closure* of a node: all nodes to compute for its value; this walk
stops at nodes that have values.  The *history* of a node: all nodes that its gradients flow through;
this walk goes on past values, and stops at leaves.  Neither recurses.

Worked example.  `y = (x * w).sum()` with `x` data and `w` a leaf that requires grad:

    order       x  w  mul  sum          by creation
    canonical   x  w  mul  sum          inputs where first used, the rest by creation
    key         f64[8]   f64[8] grad   (mul, 0, 1, pending)   (sum, 2, pending)

A key names nodes only by these numbers and never mentions a value, so the next iteration of a
loop, with other data in other nodes, has an equal key.

Another thread may evaluate pending nodes during a walk.  A node gets its value once, and drops its inputs afterwards;
code that reads the inputs before the value sees one of these two states, so a key describes each node correctly.  A
plan is cached only if its key still describes the nodes when the plan is ready (`ask.still_true`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter

from . import machine
from .node import CONSTANT, LEAF, Leaf, Node, RichNode

by_number = attrgetter("number")
_size = attrgetter("kind.out.aval.size")


def value_inputs(node: Node) -> tuple[Node, ...]:
    """The nodes from which the value of a pending node is computed: of a boundary, its body's output alone."""
    inputs = node.inputs
    return inputs if type(node) is Node or node.body is None or not inputs else (inputs[node.body],)


def gradient_inputs(node: Node) -> tuple[Node, ...]:
    """The nodes to which the cotangent of a node flows: of a boundary, the inputs of its call; of a leaf, none."""
    if type(node) is Node:
        return node.inputs
    if node.leaf is not None:
        return ()
    return node.inputs if node.flow is None else node.inputs[node.flow]


def reached(starts: Iterable[Node], inputs: Callable[[Node], Iterable[Node]], most: float = math.inf) -> set[Node]:
    """The start nodes, and all nodes that are reached from them; the walk ends soon after `most` nodes.

    inputs    a function that gives the inputs of a node that the walk follows
    """
    seen = set(starts)
    stack = list(seen)
    while stack and len(seen) <= most:
        for i in inputs(stack.pop()):
            if i not in seen:
                seen.add(i)
                stack.append(i)
    return seen


def recorded_between(wanted: Iterable[Node], known: Collection[Node]) -> list[Node]:
    """The wanted nodes, and the nodes on which they depend back to known ones, in the order of creation."""
    new = [n for n in wanted if n not in known]
    return sorted(reached(new, lambda n: [i for i in n.inputs if i not in known]), key=by_number)


def is_repeatable(node: Node, since: float) -> bool:
    """True if a node can be recorded once more: it was recorded at number `since` or later, and not evaluated."""
    if node.number < since and node.kind.op is not CONSTANT:
        return False  # recorded before
    return node.value is None or (not node.inputs and node.kind.op is LEAF)  # else its value was asked for


def history(roots: Iterable[Node]) -> list[Node]:
    """The nodes through which gradients of `roots` flow, in the order of creation."""
    return _gone_through(roots, 0, gradient_inputs, lambda n: n.kind.out.requires_grad)


def recorded_since(number: int, roots: Iterable[Node]) -> list[Node]:
    """The nodes after a number, among `roots` and all nodes on which these depend, in the order of creation."""
    return _gone_through(roots, number, lambda n: n.inputs, lambda n: n.number > number)


def _gone_through(
    roots: Iterable[Node], number: int, inputs: Callable[[Node], Iterable[Node]], belongs: Callable[[Node], bool]
) -> list[Node]:
    """The nodes of one of the two walks above; for machine code, number 0 means the history."""
    starts, native = tuple(roots), machine.asks
    found: list[Node] | None = None if native is None else native.history_of(starts, number)
    if found is None:
        found = sorted(reached(filter(belongs, starts), lambda n: filter(belongs, inputs(n))), key=by_number)
    return found


def uncommon(past: list[Node]) -> list[Node]:
    """The nodes of a history that are not plain: leaves, calls, nodes with hooks; released nodes; given data."""
    # This does not read `inputs` of a plain node, which would make machine code build a tuple of them.
    return [n for n in past if type(n) is not Node or (kind := n.kind).released or kind.op is LEAF]


def largest(nodes: list[Node]) -> int:
    """The number of elements of the largest value of some nodes; 0 for none."""
    return max(map(_size, nodes), default=0)


def needed(roots: Iterable[Node], past: AbstractSet[Node] = frozenset()) -> list[Node]:
    """The value closure of `roots`, with all inputs of the history nodes `past`, in the order of creation.

    The rule of a history node may read any of its inputs.
    """
    return sorted(reached({*roots, *past}, lambda n: _followed(n, past)), key=by_number)


def _followed(node: Node, past: AbstractSet[Node]) -> tuple[Node, ...]:
    inputs = node.inputs if type(node) is Node or node in past else value_inputs(node)
    if node.value is not None and (node not in past or node.leaf is not None):
        return ()
    return inputs


def _own_references() -> int:
    """References to a node that `stored_along` itself adds: by the list, the loop variable, getrefcount's argument.

    Since Python 3.14 the argument borrows the reference of the variable, and is not counted.
    """
    return max([sys.getrefcount(thing) for thing in [object()]])


_OWN_REFERENCES = _own_references()


def stored_along(
    order: Sequence[Node], roots: Sequence[Node], tracks: bool, past: AbstractSet[Node] = frozenset()
) -> list[Node]:
    """Pending nodes that must be stored with `roots` so that no reduction or product is ever redone.

    Stored are the heavy nodes that are live (something outside of this graph refers to them) or in the history of
    gradients, live elementwise nodes over heavy ones that are not stored, and pending leaves (an updated parameter).

    tracks   True if gradients may be asked for later
    past     the history of gradients that are asked for now; the caller refers to it by a list and by this set
    """
    links = _links(order)
    asked = set(roots)
    cheap = set[Node]()  # can be recomputed elementwise from stored values
    keep = list[Node]()
    for node in order:
        if node.value is not None or node in asked:
            cheap.add(node)
        elif type(node) is RichNode and node.call is not None and node.body is None:
            continue  # a call with several outputs: the nodes of its outputs have the values
        else:
            kind = node.kind
            inputs = node.inputs if type(node) is Node else value_inputs(node)
            flows = all([i in cheap for i in inputs]) and not kind.op.heavy
            if node.leaf is not None or (kind.op.heavy and tracks and kind.out.requires_grad):
                stored = True
            elif flows:
                stored = False
            else:
                extra = sys.getrefcount(node) - links.get(node, 0) - (node in links) - 2 * (node in past)
                stored = extra > _OWN_REFERENCES
            if stored:
                keep.append(node)
            if stored or flows:
                cheap.add(node)
    return keep


def _links(order: Sequence[Node]) -> dict[Node, int]:
    """The number of times that each node is an input of a pending node.

    This is a separate function because a loop variable that stays in `stored_along` would count as a reference.
    """
    links = dict[Node, int]()
    for node in order:
        for i in node.inputs if node.value is None else ():
            links[i] = links.get(i, 0) + 1
    return links


def structure(
    order: Sequence[Node], roots: Sequence[Node], past: AbstractSet[Node] = frozenset()
) -> tuple[list, dict[Node, int], list[Node]]:  # fmt: skip
    """A description of the nodes that `needed` found for `roots`: (key parts, numbers of nodes, canonical order).

    Pending and history nodes are numbered by creation; other inputs, leaves and roots by first use, since the order in
    which a loop makes its buffers is accidental, and the order in which it uses them belongs to the program.
    """
    number: dict[Node, int] = {}
    for node in order:
        for i in _followed(node, past):
            if i not in number and i.value is not None and (i not in past or i.leaf is not None):
                number[i] = len(number)
        if node.value is None or (node in past and node.leaf is None):
            number.setdefault(node, len(number))
    for node in roots:
        number.setdefault(node, len(number))
    for node in order:  # the nodes that are left if another thread has evaluated some meanwhile
        number.setdefault(node, len(number))
    leaves: dict[Leaf, int] = {}
    parts: list = []
    for n in number:
        wiring = [number[i] for i in _followed(n, past)]
        pending = n.value is None
        if not pending and n not in past:
            parts.append(n.kind.out)
        elif type(n) is Node:
            parts.append((n.kind, pending, *wiring))
        else:
            parts.append(part_of(n, number, past, leaves))
    return parts, number, list(number)


def part_of(n: Node, number: dict[Node, int], past: AbstractSet[Node], leaves: dict[Leaf, int]) -> tuple:
    """The part of a key for a RichNode.   leaves: for each leaf, the number of its first node"""
    identity = leaves.setdefault(n.leaf, number[n]) if n.leaf is not None else None
    call = n.call.key() if n.call is not None and n in past else None
    # A leaf, or an argument of `grad`, is data for a key, however it was computed.
    is_given = n.value is not None and (n.leaf is not None or n.kind.op is LEAF)
    kind = n.kind.out if is_given else n.kind
    wiring = [number[i] for i in _followed(n, past)]
    return (kind, n.value is None, identity, call, bool(n.hooks), *wiring)


#: The description by `structure` (parts, numbers, nodes in canonical order), and the nodes whose values are stored.
Description = tuple[list, dict[Node, int], list[Node], list[Node]]


def describe(asked: Sequence[Node], tracks: bool, past: Iterable[Node] = (), given: Sequence[Node] = ()) -> Description:
    """The description of the recording of some nodes.

    tracks    True if gradients may be asked for later;  past: the history of gradients that are asked for now
    given     cotangents among the nodes, whose values are not stored
    """
    inside = frozenset(past)
    roots = list(dict.fromkeys(asked))
    order = needed(roots, inside)
    along = stored_along(order, roots, tracks, inside)  # a node that something refers to may be asked for later
    parts, number, ordered = structure(order, asked, inside)
    return parts, number, ordered, [n for n in roots if n.value is None and n not in given] + along
