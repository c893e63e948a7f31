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

from collections.abc import Callable, Sequence
from typing import NamedTuple

from codegen.lowering import Contract, Move

from ..ops import add, matmul, reshape, sum, transpose
from ..tape.node import Node
from ..tape.record import grad_mode
from ..tensor import Tensor, handle
from .batching import applied
from .body import Body, again, clone, interned
from .terms import RESHAPES, Looked, Product, Term, size_of, sizes_of, stripped, sums_of

__all__ = ["Apart", "apart"]

#: A product of all steps may take so many times the memory of the elements it is computed from.
_MOST = 8

#: From so many steps on it pays to look.
_LEAST = 2


class Split(NamedTuple):
    """A body in parts.

    once, early   what is computed once, and for all steps before the loop: bodies of (elements, hidden)
    rest          of the loop: (states, elements, early values, hidden, values of `once`) -> (states, results, stacked)
    states        numbers of the states that stay            elements, hidden    numbers of those the rest reads
    sums          for each state that is a sum of products: its terms
    stacked       values that the loop stacks for them
    early_nodes   what `early` gives, as nodes of the whole body
    """

    once: Body | None
    early: Body | None
    rest: Body
    states: list[int]
    elements: list[int]
    hidden: list[int]
    sums: dict[int, list[Term]]
    stacked: list[Node]
    early_nodes: list[Node]


class Apart(NamedTuple):
    """The loop that stays: its body and its inputs; `finished(last, given)` are the results of the whole."""

    body: Body
    states: list[Tensor]
    scanned: list[Tensor]
    hidden: list[Tensor]
    finished: Callable[[Sequence[Tensor], Sequence[Tensor]], tuple[list[Tensor], list[Tensor]]]


def apart(
    body: Body, states: Sequence[Tensor], scanned: Sequence[Tensor], hidden: Sequence[Tensor], length: int
) -> Apart | None:
    """Do what comes before the loop; None where nothing can be done apart."""
    if length < _LEAST:
        return None
    split = _split_of(body, len(states))
    if split is None:
        return None
    inputs = [*scanned, *hidden]
    of_all = [True] * len(scanned) + [False] * len(hidden)
    once = split.once.apply(inputs[len(scanned) :]) if split.once else []
    early = [t for t, _ in applied(split.early, inputs, of_all, length)] if split.early else []
    elements = [scanned[k] for k in split.elements] + early
    count = len(body.results) - len(states)

    def finished(last: Sequence[Tensor], given: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """All last states, and what steps gave."""
        values = dict(zip([*body.arguments[len(states) :], *split.early_nodes], [*scanned, *early], strict=True))
        for node, t in zip([*body.results[len(states) :], *split.stacked], given, strict=True):
            values[node] = t
            base = stripped(node, moves=RESHAPES)[1]
            values.setdefault(base, reshape(t, (length, *base.kind.out.aval.shape)))
        stay = dict(zip(split.states, last, strict=True))
        found = []
        for k, first in enumerate(states):
            total = stay.get(k, first)
            for term in split.sums.get(k, ()):
                total = add(total, _total(term, values))
            found.append(total)
        return found, list(given[:count])

    hidden_now = [hidden[k] for k in split.hidden] + list(once)
    return Apart(split.rest, [states[k] for k in split.states], elements, hidden_now, finished)


def _total(term: Term, values: dict[Node, Tensor]) -> Tensor:
    """The sum of a term over all steps."""
    if isinstance(term, Product):
        left, right = values[term.left], values[term.right]
        if term.is_turned:
            left = transpose(left, (0, 2, 1))
        left, right = (reshape(x, (x.shape[0] * term.rows, x[0].size // term.rows)) for x in (left, right))
        total = matmul(left.T, right)
    else:
        total = sum(values[term.value], axis=(0, *[1 + a for a in term.axes]))
    for move in reversed(term.moves):
        total = handle(again(move, [total.node]))
    return total


# ---------------------------------------------------------------- which parts there are


def _split_of(body: Body, carried: int) -> Split | None:
    """The parts of a body; None where it is one."""
    key = carried, grad_mode.get()
    if key not in body.splits:
        body.splits[key] = _split(Looked(body, carried))
    return body.splits[key]


def _early(looked: Looked, results: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """The values read in the loop that follow elementwise from products of elements; and those that no step changes.

    Moves stay in the loop, where they are free.
    """
    products: dict[Node, int] = {}  # and what follows: bytes of the largest on the way
    same: set[Node] = set()
    for node in looked.body.order:
        if node in looked.of_states or node in looked.fixed or node in looked.inside or not node.inputs:
            continue
        if node.call is not None and node.body is None:
            continue  # it has no value: its outputs have
        if node not in looked.of_elements:
            if not isinstance(node.kind.op.lower, Move) and size_of(node) <= max(map(size_of, node.inputs)):
                same.add(node)
        elif isinstance(node.kind.op.lower, Contract):
            if size_of(node) <= _MOST * sizes_of([i for i in node.inputs if i in looked.of_elements]):
                products[node] = size_of(node)
        else:
            most = max([products.get(i, 0) for i in node.inputs])
            if size_of(node) <= most and node.kind.op.batch is not None:
                products[node] = most
    found: set[Node] = set()
    seen: set[Node] = set()
    stack = list(results)
    while stack:
        node = stack.pop()
        if node in same or (node in products and not isinstance(node.kind.op.lower, Move)):
            found.add(node)
        elif node not in seen:
            seen.add(node)
            stack.extend(node.inputs)
    order = [n for n in looked.body.order if n in found]
    return [n for n in order if n in products], [n for n in order if n in same]


# ---------------------------------------------------------------- the parts as bodies


def _split(looked: Looked) -> Split | None:
    body, sums = looked.body, sums_of(looked)
    states = [k for k in range(looked.carried) if k not in sums or sums[k].others]
    results, made = [], []
    for k in states:
        total = body.results[k]
        if k in sums:
            total = looked.states[k]
            for other in sums[k].others:
                total = clone(body.results[k], (total, other))  # the last of its sum: it adds
                made.append(total)
        results.append(total)
    results += body.results[looked.carried :]
    values = {n for s in sums.values() for term in s.terms for n in term.values}
    early, once = _early(looked, [*results, *values])
    given = body.results[looked.carried :]
    there = {*early, *given, *[stripped(n, moves=RESHAPES)[1] for n in given]}
    stacked = [n for n in (*looked.states, *body.order) if n in values and n not in there]
    if not sums and not early and not once:
        return None
    results += stacked
    first = [looked.states[k] for k in states]
    order, read = _between([*first, *looked.elements, *early, *body.hidden, *once], results, [*body.order, *made])
    elements = [k for k, n in enumerate(looked.elements) if n in read]
    hidden = [k for k, n in enumerate(body.hidden) if n in read]
    arguments = [*first, *[looked.elements[k] for k in elements], *early]
    rest = interned(arguments, [*[body.hidden[k] for k in hidden], *once], results, order)
    return Split(
        _computing(looked, [], once), _computing(looked, looked.elements, early), rest, states, elements, hidden,
        {k: s.terms for k, s in sums.items()}, stacked, early,
    )  # fmt: skip


def _computing(looked: Looked, arguments: Sequence[Node], results: Sequence[Node]) -> Body | None:
    """The body that gives these results."""
    if not results:
        return None
    hidden = looked.body.hidden
    order, _ = _between([*arguments, *hidden], results, looked.body.order)
    return interned(arguments, hidden, results, order)


def _between(given: Sequence[Node], results: Sequence[Node], order: Sequence[Node]) -> tuple[list[Node], set[Node]]:
    """Of these nodes those between what is given and the results; and what of the former is read."""
    start, known = set(given), set()
    stack = list(results)
    while stack:
        node = stack.pop()
        if node not in known:
            known.add(node)
            if node not in start:
                stack.extend(node.inputs)
    return [n for n in order if n in known and n not in start], known & start
