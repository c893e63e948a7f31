"""Walks over the tape, and the numbering that makes two recordings comparable.

Two walks, never one.  The *value closure* of a node is what must be computed for its value; it
stops at values.  The *history* of a node is what gradients flow through; it goes on past values,
never past a leaf.  Neither recurses.

Worked example.  `y = (x * w).sum()` with `x` data and `w` a leaf that wants gradients:

    order       x  w  mul  sum          by creation
    canonical   x  w  mul  sum          inputs where first used, the rest by creation
    key         f64[8]   f64[8] grad   (mul, 0, 1, pending)   (sum, 2, pending)

A key names nodes only by these numbers and never mentions a value, so the next iteration of a
loop, with other data in other nodes, has an equal key.

Another thread may evaluate the same pending nodes meanwhile.  A node gets its value once, and lets go of its
inputs afterwards; so whoever reads the inputs first and then looks for the value sees one of its two states,
and a key is true of each node.  What was made for a key later is kept only if that is so still (`ask.still_true`).
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
    """The nodes that the value of a pending node is computed from: a boundary only passes its body's output on."""
    inputs = node.inputs
    return inputs if type(node) is Node or node.body is None or not inputs else (inputs[node.body],)


def gradient_inputs(node: Node) -> tuple[Node, ...]:
    """The nodes that the cotangent of a node goes to: the inputs of the call for a boundary, none for a leaf."""
    if type(node) is Node:
        return node.inputs
    if node.leaf is not None:
        return ()
    return node.inputs if node.flow is None else node.inputs[node.flow]


def reached(starts: Iterable[Node], inputs: Callable[[Node], Iterable[Node]], most: float = math.inf) -> set[Node]:
    """These nodes, and all that their inputs lead to; about so many of them at most.

    inputs    which inputs of a node are followed
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
    """The nodes between known ones and those that are wanted, by creation."""
    new = [n for n in wanted if n not in known]
    return sorted(reached(new, lambda n: [i for i in n.inputs if i not in known]), key=by_number)


def is_repeatable(node: Node, since: float) -> bool:
    """True if a node that was recorded from a number on can be put down again."""
    if node.number < since and node.kind.op is not CONSTANT:
        return False  # there before
    return node.value is None or (not node.inputs and node.kind.op is LEAF)  # else somebody asked for it


def history(roots: Iterable[Node]) -> list[Node]:
    """The nodes through which gradients of `roots` flow, by creation."""
    return _gone_through(roots, 0, gradient_inputs, lambda n: n.kind.out.requires_grad)


def recorded_since(number: int, roots: Iterable[Node]) -> list[Node]:
    """The nodes that were recorded after a number on the way to `roots`, by creation."""
    return _gone_through(roots, number, lambda n: n.inputs, lambda n: n.number > number)


def _gone_through(
    roots: Iterable[Node], number: int, inputs: Callable[[Node], Iterable[Node]], belongs: Callable[[Node], bool]
) -> list[Node]:
    """The nodes that belong to one of these walks; machine code knows by the number which one it is."""
    starts, native = tuple(roots), machine.asks
    found: list[Node] | None = None if native is None else native.history_of(starts, number)
    if found is None:
        found = sorted(reached(filter(belongs, starts), lambda n: filter(belongs, inputs(n))), key=by_number)
    return found


def uncommon(past: list[Node]) -> list[Node]:
    """The nodes of a history with room for more (leaves, calls, those with hooks), released ones, and sources."""
    # Nobody asks a plain node for its inputs: it would get a tuple of them.
    return [n for n in past if type(n) is not Node or (kind := n.kind).released or kind.op is LEAF]


def largest(nodes: list[Node]) -> int:
    """The number of elements of the largest value of some nodes; 0 for none."""
    return max(map(_size, nodes), default=0)


def needed(roots: Iterable[Node], past: AbstractSet[Node] = frozenset()) -> list[Node]:
    """The value closure of `roots` by creation, with all inputs of the history nodes `past`.

    An input of a history node may be what its rule reads.
    """
    return sorted(reached({*roots, *past}, lambda n: _followed(n, past)), key=by_number)


def _followed(node: Node, past: AbstractSet[Node]) -> tuple[Node, ...]:
    inputs = node.inputs if type(node) is Node or node in past else value_inputs(node)
    if node.value is not None and (node not in past or node.leaf is not None):
        return ()
    return inputs


def _own_references() -> int:
    """References to a node while `stored_along` looks at it: the list, the loop variable, the argument of the count.

    Since Python 3.14 an argument borrows what a variable holds, and is none.
    """
    return max([sys.getrefcount(thing) for thing in [object()]])


_OWN_REFERENCES = _own_references()


def stored_along(
    order: Sequence[Node], roots: Sequence[Node], tracks: bool, past: AbstractSet[Node] = frozenset()
) -> list[Node]:
    """Pending nodes that must be stored with `roots` so that no reduction or product is ever redone.

    Stored are the heavy nodes that are live (something outside of this graph refers to them) or in the history of
    gradients, live elementwise nodes over heavy ones that are not stored, and pending leaves (an updated parameter).

    tracks   whether gradients may be asked for later
    past     the history that gradients are asked of; the caller holds it in a list and in this set
    """
    links = _links(order)
    asked = set(roots)
    cheap = set[Node]()  # can be recomputed elementwise from stored values
    keep = list[Node]()
    for node in order:
        if node.value is not None or node in asked:
            cheap.add(node)
        elif type(node) is RichNode and node.call is not None and node.body is None:
            continue  # a call of several results, which have the values
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
    """The number of times that each node is an input of a pending one.

    A function of its own: a loop variable left behind in `stored_along` would count as a holder.
    """
    links = dict[Node, int]()
    for node in order:
        for i in node.inputs if node.value is None else ():
            links[i] = links.get(i, 0) + 1
    return links


def structure(
    order: Sequence[Node], roots: Sequence[Node], past: AbstractSet[Node] = frozenset()
) -> tuple[list, dict[Node, int], list[Node]]:  # fmt: skip
    """The nodes that `needed` found for `roots`, made comparable: (key parts, numbers of nodes, canonical order).

    Pending and history nodes are numbered by creation, other inputs, leaves and roots by first use: in which order a
    loop made its buffers is an accident; in which it uses them is the program.
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
    for node in order:  # others where another thread has evaluated some meanwhile
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
    """The part of a key for a node with room for more.   leaves: the first node of each"""
    identity = leaves.setdefault(n.leaf, number[n]) if n.leaf is not None else None
    call = n.call.key() if n.call is not None and n in past else None
    kind = n.kind.out if is_given(n) else n.kind
    wiring = [number[i] for i in _followed(n, past)]
    return (kind, n.value is None, identity, call, bool(n.hooks), *wiring)


#: A recording as `structure` says it (parts, numbers, nodes in canonical order), and the nodes that are to be stored.
Said = tuple[list, dict[Node, int], list[Node], list[Node]]


def said(asked: Sequence[Node], tracks: bool, past: Collection[Node] = (), given: Sequence[Node] = ()) -> Said:
    """The recording of what is asked for.

    tracks    whether gradients may be asked for later;  past: the history that they are asked of now
    given     cotangents among what is asked
    """
    inside = frozenset(past)
    roots = list(dict.fromkeys(asked))
    order = needed(roots, inside)
    along = stored_along(order, roots, tracks, inside)  # a node that is held counts as one that may be asked for
    parts, number, ordered = structure(order, asked, inside)
    return parts, number, ordered, [n for n in roots if n.value is None and n not in given] + along


def is_given(node: Node) -> bool:
    """True for a node of a history that is the same whatever it was computed by: a leaf, an argument of `grad`."""
    return node.value is not None and (node.leaf is not None or node.kind.op is LEAF)
