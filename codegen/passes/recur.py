"""Loops and branches: operations lowered by `Nest` become steps that run programs of their own.

A recorded one gives all results of a dtype in one vector, and parts are taken out of that.  Here each part
becomes a value of its own, and all results of one operation are made by one step:

    a: f32[72] = scan(c, x, w)                 loop(c, x, w) -> b, d
    b: f32[8]  = unpack(a, number=0, start=0, ...)
    d: f32[8,8] = unpack(a, number=1, start=8, ...)

A vector that is wanted as a whole (it is an output) stays one, and the step writes into it.  Inputs which are parts
of a vector that is there are read where they lie.

Elements that follow from their number are computed in the loop, and no array of them is made.

    i: i64[9] = iota(...)                            first: i64[] = 0
    loop(c, i[t]) -> c': ... i ...                   loop(c, n = first) -> c', n + 1: ... n ...

Also what is computed from the number by a few operations with numbers: `lower + 2 * i`.  Only of loops from the first
element to the last: one that goes back has the states of all steps in memory anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..ir import Aval, Graph, Node, inherit
from ..ir.op import CONSTANT, INPUT, Op, internal
from ..lowering import Call, Map, Nest
from ..nested import Nested, Recurrence, graphs
from .pipeline import optimize
from .rewrites import inlined, rebuilt

#: One result, by its number; or several, or (None) all of the node's dtype, as a vector.  `starts`: where each
#: input begins in the array that it is a part of.
RESULT = internal("nested", Call(), ("nested", "starts", "number"))


def separate(graph: Graph) -> Graph:
    """The graph with results instead of the parts of vectors; the very graph where there is no loop or branch."""
    nests = [n for n in graph.nodes if isinstance(n.op.lower, Nest)]
    if not nests:
        return graph
    readers = graph.readers()
    whole = {n for n in nests if n in graph.outputs or any("part" not in r.op.traits for r in readers[n])}
    trimmed: dict[tuple, tuple[Nested, list[int]]] = {}
    found: dict[Node, tuple[Nested, list[Node]]] = {}

    def visit(node: Node, original: Node) -> Node:
        if isinstance(node.op.lower, Nest):
            # If nothing reads the vector as a whole, this only holds the inputs for its parts.
            known = {k: i for k, i in enumerate(node.inputs) if i.op is CONSTANT and i.aval.dtype.kind == "i"}
            key = (node.op, *[v for name, v in node.keywords.items() if name != "dtype"],
                   *[(k, i.params) for k, i in known.items()])  # fmt: skip
            if key not in trimmed:
                nested = _knowing(node.op.lower.control(**node.keywords), known)
                trimmed[key] = _trimmed(nested, len(node.inputs))
            nested, reads = trimmed[key]
            values = [node.inputs[k] for k in reads]
            found[original] = nested, values
            if isinstance(nested, Recurrence) and original not in whole:
                nested, values = counted(nested, values)
            read, starts = _in_place(values)
            return Node(RESULT, read, (nested, starts, None), node.aval)
        if "part" in node.op.traits and (vector := original.inputs[0]) in found and vector not in whole:
            return _result(*found[vector], node)
        return node

    return rebuilt(graph, visit)


def _in_place(inputs: list[Node]) -> tuple[list[Node], tuple[int, ...]]:
    """The inputs with vectors instead of parts of them, and where these begin."""
    starts = [i.keywords["start"] if "part" in i.op.traits else 0 for i in inputs]
    return [i.inputs[0] if "part" in i.op.traits else i for i in inputs], tuple(starts)


def _result(nested: Nested, given: Sequence[Node], part: Node) -> Node:
    """The result that a part of a vector is: an input, where steps hand on their elements."""
    (vector,), number = part.inputs, part.keywords["number"]
    if isinstance(nested, Recurrence) and number >= nested.carried:
        elements = nested.body.inputs[nested.carried : nested.carried + nested.scanned]
        if (output := nested.body.outputs[number]) in elements:
            return given[nested.carried + elements.index(output)]
        if vector.params[0] is not nested:
            number += 1  # after the number of the step, which is a state too
    return Node(RESULT, vector.inputs, (*vector.params[:2], number), part.aval)


def results_together(nodes: Iterable[Node]) -> dict[Node, tuple[Node, ...]]:
    """For the first result of each operation all of them, in the order of the nodes; for the others nothing."""
    groups: dict[Any, list[Node]] = {}
    for node in nodes:
        if node.op is RESULT:
            groups.setdefault((node.params[:2], node.inputs), []).append(node)
    return {n: tuple(group) if n is group[0] else () for group in groups.values() for n in group}


# ---------------------------------------------------------------- inputs that nobody reads


def _knowing(nested: Nested, known: dict[int, Node]) -> Nested:
    """A scan whose steps know the whole numbers among what all of them read: places, which need no test per element."""
    if not isinstance(nested, Recurrence):
        return nested
    body, first = nested.body, nested.carried + nested.scanned
    inputs = [known.get(k, i) if k >= first else i for k, i in enumerate(body.inputs)]
    if inputs == [*body.inputs]:
        return nested
    return nested._replace(body=Graph.of(body.inputs, inlined(body, inputs), body.name))


def _trimmed(nested: Nested, count: int) -> tuple[Nested, list[int]]:
    """The loop without those of its `count` inputs that its graphs do not read, and the numbers of those that stay."""
    own: dict[str, Any] = {name: optimize(graph) for name, graph in graphs(nested).items()}
    read = {name: {*graph.outputs, *[i for n in graph.nodes for i in n.inputs]} for name, graph in own.items()}
    shared = range(nested.own - count, 0)  # counted from the end, as own inputs of graphs differ in number
    stays = [k for k in shared if any([graph.inputs[k] in read[name] for name, graph in own.items()])]
    for name, graph in own.items():
        inputs = [*graph.inputs[: len(graph.inputs) - len(shared)], *[graph.inputs[k] for k in stays]]
        own[name] = inherit(graph, Graph(inputs, graph.nodes, graph.outputs, graph.name), {})
    made: Any = nested._replace(**own)
    if isinstance(made, Recurrence):
        made = made._replace(scanned=sum([k < shared.start + made.scanned for k in stays]))
    return made, [*range(nested.own), *[count + k for k in stays]]


# ---------------------------------------------------------------- elements that follow from their number


_I64 = Aval((), np.dtype(np.int64))

#: Operations that a step may repeat: that costs less than reading an element.
_MOST = 4

_NEXT = Op(
    "next",
    infer=lambda x: x,
    reference=None,
    lower=Map(lambda k, x: k.add(x, k.constant(1, "i64"))),
    traits=frozenset(("elementwise",)),
)


def counted(loop: Recurrence, inputs: list[Node]) -> tuple[Recurrence, list[Node]]:
    """The loop with the number of the step as its last state, and its inputs; the very loop where nothing counts."""
    if loop.is_reversed:
        return loop, inputs
    first, stop = loop.carried, loop.carried + loop.scanned
    chains = {k: chain for k in range(first, stop) if (chain := _chain(inputs[k])) is not None}
    if not chains:
        return loop, inputs
    body, number = loop.body, Node(INPUT, (), (), _I64)
    numbers: dict[Node, Node] = {}  # 0-d nodes outside: what stands for them in the body
    new: dict[Node, Node] = {}
    for k, chain in chains.items():
        made: dict[Node, Node] = {}
        for node in chain:
            given = [made.get(i) or (i if i.op is CONSTANT else numbers.setdefault(i, _input(i))) for i in node.inputs]
            made[node] = Node(node.op, given, node.params, node.aval.with_shape(()), node.origins) if given else number
        new[body.inputs[k]] = made[inputs[k]]
    for node in body.nodes:
        if any([i in new for i in node.inputs]):
            new[node] = Node(node.op, [new.get(i, i) for i in node.inputs], node.params, node.aval, node.origins)
    outputs = [new.get(o, o) for o in body.outputs]
    stays = [k for k in range(first, stop) if k not in chains]
    own = [body.inputs[k] for k in (*range(first), *stays, *range(stop, len(body.inputs)))]
    graph = Graph.of(
        [*own[:first], number, *own[first:], *numbers.values()],
        [*outputs[:first], Node(_NEXT, (number,), (), _I64), *outputs[first:]],
        body.name,
    )
    zero = Node(CONSTANT, (), (0, "i64"), _I64)
    given = [*inputs[:first], zero, *[inputs[k] for k in stays], *inputs[stop:], *numbers]
    return loop._replace(body=graph, carried=first + 1, scanned=len(stays)), given


def _input(node: Node) -> Node:
    return Node(INPUT, (), (), node.aval, node.origins)


def _chain(node: Node) -> list[Node] | None:
    """The operations that compute a vector from its positions, in order; None if there are none, or too many."""
    chain: list[Node] = []
    while node not in chain:
        if len(chain) > _MOST or node.aval.ndim != 1:
            return None
        chain.append(node)
        if node.op.name == "iota":
            return chain[::-1] if node.aval.dtype == _I64.dtype else None
        vectors = [i for i in node.inputs if i.aval.ndim]
        if not isinstance(node.op.lower, Map) or len(set(vectors)) != 1:
            return None
        (node,) = set(vectors)
    return None
