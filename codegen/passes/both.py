"""Small choices become elementwise ones: both sides are computed, and one is taken.

    a = cond(c, x, yes=(x -> x * 2), no=(x -> -x))         a = either(c, x * 2, -x)

A branch costs some 40 ns at run time, as much as a dozen elements; and what is elementwise fuses with what is around
it.  Only where either side computes elementwise, so that nothing can fail which was not chosen, and no vector of
all results is wanted as a whole.
"""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Node, inherit
from ..ir.op import CONSTANT, Op
from ..lowering import Map, Move, Nest
from ..nested import Choice
from .pipeline import optimize

__all__ = ["MOST", "both_sides", "inlined"]

#: Elements that both sides may compute together.
MOST = 16

_EITHER = Op(
    "either",
    infer=lambda chosen, yes, no: yes,
    reference=lambda chosen, yes, no: np.where(chosen, yes, no),
    lower=Map(lambda k, chosen, yes, no: k.select(chosen, yes, no)),
    traits=frozenset(("elementwise",)),
)


def both_sides(graph: Graph) -> Graph:
    """The graph, optimised anew if there was such a choice; the very graph if there was none."""
    choices = [n for n in graph.nodes if isinstance(n.op.lower, Nest)]
    if not choices:
        return graph
    readers = graph.readers()
    results: dict[tuple, list[Node] | None] = {}
    made: dict[Node, list[Node]] = {}
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        inputs = [new.get(i, i) for i in node.inputs]
        if "part" in node.op.traits and node.inputs[0] in made:
            new[node] = made[node.inputs[0]][_number(node)]
            continue
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            new[node] = Node(node.op, inputs, node.params, node.aval)
        if not isinstance(node.op.lower, Nest) or node in graph.outputs:
            continue
        if all("part" in r.op.traits for r in readers[node]):
            key = (*[v for name, v in node.keywords.items() if name != "dtype"], *inputs)
            if key not in results:
                results[key] = _computed(node, inputs)
            if (found := results[key]) is not None:
                made[node] = found
    if not made:
        return graph
    return optimize(inherit(graph, Graph.of(graph.inputs, [new.get(o, o) for o in graph.outputs], graph.name), new))


def _number(part: Node) -> int:
    """The number of the choice's result that a part is."""
    (vector,) = part.inputs
    choice = vector.op.lower.control(**vector.keywords)
    found = zip(choice.results, choice.starts(), strict=True)
    return next(k for k, (aval, s) in enumerate(found) if aval == part.aval and s == part.keywords["start"])


def _computed(node: Node, inputs: list[Node]) -> list[Node] | None:
    """The results of a choice by both of its sides; None if it is no small choice."""
    choice = node.op.lower.control(**node.keywords)
    if not isinstance(choice, Choice):
        return None
    yes, no = (both_sides(optimize(side)) for side in (choice.yes, choice.no))
    if not all(map(_is_plain, (*yes.nodes, *no.nodes))) or sum([n.aval.size for n in (*yes.nodes, *no.nodes)]) > MOST:
        return None
    chosen, *rest = inputs
    a, b = inlined(yes, rest), inlined(no, rest)
    return [Node(_EITHER, (chosen, x, y), (), x.aval) for x, y in zip(a, b, strict=True)]


def _is_plain(node: Node) -> bool:
    """True if a node computes elements and cannot fail."""
    lower = node.op.lower
    return node.op is CONSTANT or isinstance(lower, Map) or (isinstance(lower, Move) and len(node.inputs) == 1)


def inlined(graph: Graph, inputs: list[Node]) -> list[Node]:
    """The outputs of a graph on these inputs."""
    new = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        new[node] = Node(node.op, [new[i] for i in node.inputs], node.params, node.aval, graph.origins_of(node))
    return [new[o] for o in graph.outputs]
