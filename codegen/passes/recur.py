"""Loops and branches: operations lowered by `Nest` become nodes, one per result, that one step computes together.

A recorded loop returns all results of a dtype in one vector, from which `unpack` nodes take parts.  This pass
replaces each part by a separate node, and one step computes all results of an operation:

    a: f32[72] = scan(c, x, w)                 loop(c, x, w) -> b, d
    b: f32[8]  = unpack(a, number=0, start=0, ...)
    d: f32[8,8] = unpack(a, number=1, start=8, ...)

A vector that is read as a whole (as an output of the graph, say) stays one value, and the step writes into it.  An
input that is a part of such a vector is read from the vector's memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ir import Graph, Node, inherit
from ..ir.op import CONSTANT, internal
from ..lowering import Call, Nest
from ..nested import Nested, Recurrence, graphs
from .pipeline import optimize
from .rewrites import inlined, rebuild_with_originals

#: The operation of a loop's or branch's result, or of all results of a dtype as one vector; `numbers` are those of the
#: results, `starts` the offset of each input in the array that it is a part of.
RESULT = internal("nested", Call(), ("nested", "starts", "numbers"))


def split_results(graph: Graph) -> Graph:
    """The graph with a node for each result of a loop or branch; the same object if the graph has neither."""
    nests = [n for n in graph.nodes if isinstance(n.op.lower, Nest)]
    if not nests:
        return graph
    readers = graph.readers()
    whole = {n for n in nests if n in graph.outputs or any("part" not in r.op.traits for r in readers[n])}
    trimmed: dict[tuple, tuple[Nested, list[int]]] = {}

    def visit(node: Node, original: Node) -> Node:
        if isinstance(node.op.lower, Nest):
            # If nothing reads the vector as a whole, this node only holds the inputs for the nodes of its parts.
            known = {k: i for k, i in enumerate(node.inputs) if i.op is CONSTANT and i.aval.dtype.kind == "i"}
            key = (node.op, *[v for name, v in node.keywords.items() if name != "dtype"],
                   *[(k, i.params) for k, i in known.items()])  # fmt: skip
            if key not in trimmed:
                nested = _with_constants(node.op.lower.control(**node.keywords), known)
                trimmed[key] = _trimmed(nested, len(node.inputs))
            nested, reads = trimmed[key]
            values = [node.inputs[k] for k in reads]  # a part of a stored vector is read from the vector's memory
            starts = tuple([i.keywords["start"] if "part" in i.op.traits else 0 for i in values])
            read = [i.inputs[0] if "part" in i.op.traits else i for i in values]
            numbers = tuple([k for k, aval in enumerate(nested.results) if aval.dtype == node.aval.dtype])
            return Node(RESULT, read, (nested, starts, numbers), node.aval)
        if "part" in node.op.traits and node.inputs[0].op is RESULT and original.inputs[0] not in whole:
            (vector,), (nested, starts, _) = node.inputs, node.inputs[0].params
            return Node(RESULT, vector.inputs, (nested, starts, (node.keywords["number"],)), node.aval)
        return node

    return rebuild_with_originals(graph, visit)


def results_together(nodes: Iterable[Node]) -> dict[Node, tuple[Node, ...]]:
    """For the first result of each operation the tuple of its results, in the order of `nodes`; for the others ()."""
    groups: dict[Any, list[Node]] = {}
    times: dict[Any, int] = {}
    for node in nodes:
        if node.op is RESULT:
            nested, starts, numbers = node.params
            key = nested, starts, node.inputs
            # Operations that differ only in inputs they do not read have one key; a step stores each result only once.
            turn = 1 + max([times.get((key, k), 0) for k in numbers])
            times.update({(key, k): turn for k in numbers})
            groups.setdefault((key, turn), []).append(node)
    return {n: tuple(group) if n is group[0] else () for group in groups.values() for n in group}


# ---------------------------------------------------------------- inputs that no graph reads


def _with_constants(nested: Nested, known: dict[int, Node]) -> Nested:
    """A scan with the integer constants among its hidden inputs moved into the body, so that indices need no test."""
    if not isinstance(nested, Recurrence):
        return nested
    body, first = nested.body, nested.carried + nested.scanned
    inputs = [known.get(k, i) if k >= first else i for k, i in enumerate(body.inputs)]
    if inputs == [*body.inputs]:
        return nested
    return nested._replace(body=Graph.of(body.inputs, inlined(body, inputs), body.name))


def _trimmed(nested: Nested, count: int) -> tuple[Nested, list[int]]:
    """The loop or branch without those of its `count` inputs that no graph of it reads, and the numbers of the rest."""
    own: dict[str, Any] = {name: optimize(graph) for name, graph in graphs(nested).items()}
    read = {name: {*graph.outputs, *[i for n in graph.nodes for i in n.inputs]} for name, graph in own.items()}
    shared = range(nested.own - count, 0)  # from the end, since graphs differ in the number of their own inputs
    stays = [k for k in shared if any([graph.inputs[k] in read[name] for name, graph in own.items()])]
    for name, graph in own.items():
        inputs = [*graph.inputs[: len(graph.inputs) - len(shared)], *[graph.inputs[k] for k in stays]]
        own[name] = inherit(graph, Graph(inputs, graph.nodes, graph.outputs, graph.name), {})
    made: Any = nested._replace(**own)
    if isinstance(made, Recurrence):
        made = made._replace(scanned=sum([k < shared.start + made.scanned for k in stays]))
    return made, [*range(nested.own), *[count + k for k in stays]]
