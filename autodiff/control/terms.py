"""Sums over the steps of a loop: the terms that a step adds to a state, and where they can be added up after it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from codegen.lowering import Contract

from ..tape.node import Node, RichNode
from ..tape.record import IDENTITY, SAME, grad_mode, is_cut
from .body import Body, inside_calls, is_float, recomputed

__all__ = ["RESHAPES", "Looked", "Product", "Term", "size_of", "sizes_of", "stripped", "sums_of"]


class Product(NamedTuple):
    """A term of a sum over steps, `moves` of left.T @ right, where both are stacked; of their sum: one product.

    rows        of both, in one step
    is_turned   a step has left, not left.T
    """

    moves: tuple[Node, ...]
    left: Node
    right: Node
    rows: int
    is_turned: bool

    @property
    def values(self) -> tuple[Node, ...]:
        """The values that are stacked for it."""
        return self.left, self.right


class Plain(NamedTuple):
    """A term which is `moves` of a stacked value, perhaps summed over axes."""

    moves: tuple[Node, ...]
    value: Node
    axes: tuple[int, ...]

    @property
    def values(self) -> tuple[Node, ...]:
        """The values that are stacked for it."""
        return (self.value,)


Term = Product | Plain


class Looked:
    """Properties of the nodes of a body.

    of_elements, of_states   nodes that are computed from some
    fixed                    nodes that stay where they are: calls of rules of what changes, and what follows from these
    inside                   nodes inside of calls, which carry their derivative: they go nowhere without the call
    again                    what `checkpoint` computes again
    readers                  how often each node is read
    """

    def __init__(self, body: Body, carried: int) -> None:
        self.body, self.carried = body, carried
        self.states, self.elements = body.arguments[:carried], body.arguments[carried:]
        self.of_states, self.of_elements = set(self.states), set(self.elements)
        self.fixed, self.again = set(recomputed(body.order)), set()
        self.inside = inside_calls(body.order)
        self.readers = Counter([i for node in body.order for i in node.inputs] + list(body.results))
        for node in body.order:
            if node.kind.op.name == "barrier":
                self.again.add(node)
                self.fixed.add(node)
            elif isinstance(node, RichNode) and self._stays(node):
                self.fixed.add(node)
            for known in (self.of_states, self.of_elements, self.fixed, self.again):
                if not known.isdisjoint(node.inputs):
                    known.add(node)

    def _stays(self, node: RichNode) -> bool:
        """True for hooks, calls of the host, and calls of what changes from step to step."""
        if node.hooks or (node.call is not None and node.call.token is not None):
            return True
        is_call = node.call is not None or node.body is not None
        return is_call and not (self.of_states.isdisjoint(node.inputs) and self.of_elements.isdisjoint(node.inputs))


def size_of(node: Node) -> int:
    return node.kind.out.aval.nbytes


def sizes_of(nodes: Iterable[Node]) -> float:
    return math.fsum(map(size_of, nodes))


class _Sum(NamedTuple):
    """A state that sums: the terms that are done after the loop, and the node that sums the others (None: none)."""

    terms: list[Term]
    others: list[Node]


#: Moves that a sum over steps may be taken before.
_MOVES = frozenset(("transpose", "reshape", "neg", "identity"))

#: And those that leave the elements of a vector, or of anything, in order.
_OF_VECTORS, RESHAPES = frozenset(("transpose", "reshape", "identity")), frozenset(("reshape", "identity"))


def sums_of(looked: Looked) -> dict[int, _Sum]:
    """The states to which each step adds products, and nobody reads meanwhile."""
    if grad_mode.get() and any(map(is_cut, looked.body.order)):
        return {}  # gradients would flow through what is summed after the loop
    candidates: dict[int, list[Node]] = {}
    for k, state in enumerate(looked.states):
        terms = _terms(looked, state, looked.body.results[k])
        if terms is not None:
            candidates[k] = terms
    products = {t: p for terms in candidates.values() for t in terms if (p := _product(looked, t)) is not None}
    stacked = {n for p in products.values() for n in p.values}
    found: dict[int, _Sum] = {}
    for k, terms in candidates.items():
        moved = {t: products.get(t) or _plain(t, stacked) for t in terms}
        after = [term for term in moved.values() if term is not None]
        if after:
            found[k] = _Sum(after, [t for t, term in moved.items() if term is None])
    return found


def _terms(looked: Looked, state: Node, result: Node) -> list[Node] | None:
    """The terms that a step adds to a state; None where it does something else with it."""
    if looked.readers[state] != 1 or result is state or not is_float(state.kind.out.aval):
        return None
    terms, stack, is_there = [], [result], False
    while stack:
        node = stack.pop()
        if node is state:
            is_there = True
        elif (
            node.kind.op.name == "add"
            and node in looked.of_states
            and looked.readers[node] == 1
            and all(i.kind.out.aval == node.kind.out.aval for i in node.inputs)
        ):
            stack.extend(node.inputs)
        else:
            terms.append(node)
    return terms[::-1] if is_there and len(set(terms)) == len(terms) else None


def stripped(
    node: Node, stop: Collection[Node] = (), moves: Collection[str] = _MOVES
) -> tuple[tuple[Node, ...], Node]:
    """A node without the moves around it, as far as one of `stop`."""
    found: list[Node] = []
    while node not in stop and (node.kind.op is SAME or node.kind.op.name in moves):
        found += () if node.kind.op is SAME else (node,)
        (node,) = node.inputs
    return tuple(found), node


def _product(looked: Looked, term: Node) -> Product | None:
    """A term as a product whose operands may be stacked."""
    moves, node = stripped(term)
    if len(node.inputs) != 2:
        return None
    left, right = map(_itself, node.inputs)
    shapes = [n.kind.out.aval.shape for n in (left, right)]
    if any(len(s) != 2 for s in shapes):
        return None
    (_, rows), is_turned = shapes[0], False
    if isinstance(node.kind.op.lower, Contract):
        is_turned = left.kind.op.name != "transpose"
        left = left if is_turned else _itself(left.inputs[0])
    elif node.kind.op.name == "mul" and shapes[0][1] == shapes[1][0] == 1:  # a column times a row
        left, right = (stripped(n, moves=_OF_VECTORS)[1] for n in (left, right))
    else:
        return None
    if any(n in looked.again or not (n in looked.of_states or n in looked.of_elements) for n in (left, right)):
        return None
    stacked = {n for n in (left, right) if n not in looked.elements}
    return Product(moves, left, right, rows, is_turned) if sizes_of(stacked) <= size_of(node) else None


def _itself(node: Node) -> Node:
    """The node that this one is another identity of."""
    while node.kind.op in (IDENTITY, SAME):
        (node,) = node.inputs
    return node


def _plain(term: Node, stacked: set[Node]) -> Plain | None:
    """A term as the sum of something that is stacked anyway."""
    moves, node = stripped(term, stacked)
    axes: tuple[int, ...] = ()
    if node not in stacked and node.kind.op.name == "sum":
        (axes,) = node.kind.params
        node = _itself(node.inputs[0])
    return Plain(moves, node, axes) if node in stacked else None
