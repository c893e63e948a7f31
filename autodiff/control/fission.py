"""Parts of a loop that need no loop: they are done for all steps at once, before it or after it.

    h[t+1] = tanh(h[t] @ w + x[t] @ u)         p = x @ u                   one product before the loop
                                               h[t+1] = tanh(h[t] @ w + p[t])
    s[t+1] = s[t] + a[t].T @ g[t]              g is stacked                and one after it
                                               s = s[0] + a.T @ g          rows of all steps below each other

Many small products become one large one, which is several times as fast, on all cores; a sum over steps leaves the
cache alone.  What reads neither states nor elements is computed once.  The first is a rewrite of what the user
wrote, so that the derivative of `p` with respect to u is one product too; the second finds it in the loop that goes
back, for w.

What stays: what is elementwise in the elements (reading its result costs more than computing it), what would store
many times the elements, and everything that `checkpoint` computes again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from math import fsum
from typing import NamedTuple

from codegen.lowering import Contract, Move

from ..mode import MODE
from ..ops import add, matmul, reshape, transpose
from ..tape.node import Node, RichNode
from ..tape.record import IDENTITY, SAME, is_cut
from ..tape.walk import reached
from ..tensor import Tensor, handle
from .body import Body, again, between, inside_calls, interned, is_float, recomputed
from .trace import applied

#: A product of all steps may take so many times the memory of the elements it is computed from.
_MOST = 8

#: Moves that a sum over steps may be taken before; those that leave the elements of a vector in order.
_MOVES = frozenset(("transpose", "reshape", "neg", "identity"))
_OF_VECTORS = frozenset(("transpose", "reshape", "identity"))


class SummedTerm(NamedTuple):
    """A product that each step adds to a state, added up after the loop: `moves` of left.T @ right.

    rows        of both, in one step
    is_turned   a step has left, not left.T
    """

    moves: tuple[Node, ...]
    left: Node
    right: Node
    rows: int
    is_turned: bool


class Split(NamedTuple):
    """A body in parts.

    once, early   what is computed once, and for all steps before the loop: bodies of (elements, hidden)
    rest          of the loop: (states, elements, early values, hidden, values of `once`) -> (states, results, stacked)
    states        numbers of the states that stay            elements, hidden    numbers of those the rest reads
    sums          the terms of each state that is a sum of products
    stacked       values that the loop stacks for them
    early_nodes   what `early` gives, as nodes of the whole body
    """

    once: Body | None
    early: Body | None
    rest: Body
    states: list[int]
    elements: list[int]
    hidden: list[int]
    sums: dict[int, list[SummedTerm]]
    stacked: list[Node]
    early_nodes: list[Node]


def in_parts(
    loop: Callable[..., Sequence[Sequence[Tensor]]], body: Body, states: Sequence[Tensor],
    scanned: Sequence[Tensor], hidden: Sequence[Tensor], length: int,
) -> Sequence[Sequence[Tensor]]:
    """The last states and what steps gave, by `loop(body, states, scanned, hidden)` of what needs one."""
    split: Split | None = body.once(_split, len(states), MODE.get().tracks) if length > 1 else None
    if split is None:
        return loop(body, states, scanned, hidden)
    once = split.once.apply(hidden) if split.once else []
    of_all = [True] * len(scanned) + [False] * len(hidden)
    early = [t for t, _ in applied(split.early, [*scanned, *hidden], of_all, length)] if split.early else []
    last, given = loop(
        split.rest, [states[k] for k in split.states], [*[scanned[k] for k in split.elements], *early],
        [*[hidden[k] for k in split.hidden], *once],
    )
    values = dict(zip([*body.arguments[len(states) :], *split.early_nodes], [*scanned, *early], strict=True))
    for node, t in zip([*body.results[len(states) :], *split.stacked], given, strict=True):
        values[node] = t
    found = dict(zip(split.states, last, strict=True))
    for k, terms in split.sums.items():
        found[k] = states[k]
        for term in terms:
            found[k] = add(found[k], _total(term, values[term.left], values[term.right]))
    return [found[k] for k in range(len(states))], given[: len(body.results) - len(states)]


def _total(term: SummedTerm, left: Tensor, right: Tensor) -> Tensor:
    """The sum of a term over all steps, given what is stacked: rows of all steps below each other."""
    if term.is_turned:
        left = transpose(left, (0, 2, 1))
    left, right = (reshape(x, (x.shape[0] * term.rows, x[0].size // term.rows)) for x in (left, right))
    total = matmul(left.T, right)
    for move in reversed(term.moves):
        total = handle(again(move, [total.node]))
    return total


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


# ---------------------------------------------------------------- which parts there are


def _early(looked: Looked, results: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The values read in the loop that follow elementwise from products of elements; and those that no step changes.

    Moves stay in the loop, where they are free.
    """
    products: dict[Node, float] = {}  # and what follows: bytes of the largest on the way
    same: set[Node] = set()
    for node in looked.body.order:
        if node in looked.of_states or node in looked.fixed or node in looked.inside or not node.inputs:
            continue
        if node.call is not None and node.body is None:
            continue  # it has no value: its outputs have
        if node not in looked.of_elements:
            if not isinstance(node.kind.op.lower, Move) and _size_of(node) <= max(map(_size_of, node.inputs)):
                same.add(node)
        elif isinstance(node.kind.op.lower, Contract):
            if _size_of(node) <= _MOST * _size_of(*[i for i in node.inputs if i in looked.of_elements]):
                products[node] = _size_of(node)
        else:
            most = max([products.get(i, 0) for i in node.inputs])
            if _size_of(node) <= most and node.kind.op.batch is not None:
                products[node] = most
    found = {*same, *[n for n in products if not isinstance(n.kind.op.lower, Move)]}
    found &= reached(results, lambda node: () if node in found else node.inputs)
    order = [n for n in looked.body.order if n in found]
    return [n for n in order if n in products], [n for n in order if n in same]


# ---------------------------------------------------------------- the parts as bodies


def _split(body: Body, carried: int, tracks: bool) -> Split | None:
    """The parts of a body; None where it is one."""
    looked = Looked(body, carried)
    # Gradients would flow through what is summed after the loop.
    sums = {} if tracks and any(map(is_cut, body.order)) else _sums_of(looked)
    states = [k for k in range(looked.carried) if k not in sums]
    given = body.results[looked.carried :]
    results = [*[body.results[k] for k in states], *given]
    values = {n for terms in sums.values() for term in terms for n in (term.left, term.right)}
    early, once = _early(looked, [*results, *values])
    if not sums and not early and not once:
        return None
    stacked = [n for n in (*looked.states, *body.order) if n in values.difference(early, given)]
    results += stacked
    first = [looked.states[k] for k in states]
    starts = {*first, *looked.elements, *early, *body.hidden, *once}
    read = between(results, starts)
    order = [n for n in body.order if n in read and n not in starts]
    elements = [k for k, n in enumerate(looked.elements) if n in read]
    hidden = [k for k, n in enumerate(body.hidden) if n in read]
    arguments = [*first, *[looked.elements[k] for k in elements], *early]
    rest = interned(arguments, [*[body.hidden[k] for k in hidden], *once], results, order)
    return Split(
        _computing(looked, [], once), _computing(looked, looked.elements, early), rest, states, elements, hidden, sums,
        stacked, early,
    )  # fmt: skip


def _computing(looked: Looked, arguments: Sequence[Node], results: Sequence[Node]) -> Body | None:
    """The body that gives these results."""
    if not results:
        return None
    starts = {*arguments, *looked.body.hidden}
    on_the_way = between(results, starts) - starts
    return interned(arguments, looked.body.hidden, results, [n for n in looked.body.order if n in on_the_way])


# ---------------------------------------------------------------- what is summed


def _size_of(*nodes: Node) -> float:
    return fsum([n.kind.out.aval.nbytes for n in nodes])


def _sums_of(looked: Looked) -> dict[int, list[SummedTerm]]:
    """The terms of those states to which each step adds products, and nothing else, and nobody reads meanwhile."""
    found: dict[int, list[SummedTerm]] = {}
    for k, state in enumerate(looked.states):
        terms = [_product(looked, t) for t in _terms(looked, state, looked.body.results[k])]
        products = [term for term in terms if term is not None]
        if products and len(products) == len(terms):
            found[k] = products
    return found


def _terms(looked: Looked, state: Node, result: Node) -> list[Node]:
    """The terms that a step adds to a state; none where it does something else with it."""
    if looked.readers[state] != 1 or result is state or not is_float(state.kind.out.aval):
        return []
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
    return terms[::-1] if is_there else []


def _stripped(node: Node, moves: Collection[str] = _MOVES) -> tuple[tuple[Node, ...], Node]:
    """The moves around a node, and the node without them."""
    found: list[Node] = []
    while node.kind.op is SAME or node.kind.op.name in moves:
        found += () if node.kind.op is SAME else (node,)
        (node,) = node.inputs
    return tuple(found), node


def _product(looked: Looked, term: Node) -> SummedTerm | None:
    """A term as a product whose operands may be stacked."""
    moves, node = _stripped(term)
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
        left, right = (_stripped(n, moves=_OF_VECTORS)[1] for n in (left, right))
    else:
        return None
    if any(n in looked.again or not (n in looked.of_states or n in looked.of_elements) for n in (left, right)):
        return None
    stacked = {n for n in (left, right) if n not in looked.elements}
    return SummedTerm(moves, left, right, rows, is_turned) if _size_of(*stacked) <= _size_of(node) else None


def _itself(node: Node) -> Node:
    """The node that this one is another identity of."""
    while node.kind.op in (IDENTITY, SAME):
        (node,) = node.inputs
    return node
