"""The walk that passes share: through a graph once, in order, replacing nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import Graph, Node, inherit

__all__ = ["inlined", "rebuild", "rebuilt"]


def rebuild(graph: Graph, visit: Callable[[Node], Node]) -> Graph:
    """The graph with every node replaced by `visit(node)`; the graph itself when nothing was.

    `visit` sees the nodes in order, each already reading the replacements of its inputs.  It returns
    the node, one seen before (an input included), or a new one of the same aval that reads such;
    what a new one reads may be new as well.
    """
    return _walked(graph, lambda node, original: visit(node))


def rebuilt(graph: Graph, visit: Callable[[Node, Node], Node]) -> Graph:
    """Rebuild by `visit(node, original)`, the original being the graph's own; drop nodes that nothing reads then."""
    found = _walked(graph, visit)
    return found if found is graph else inherit(found, Graph.of(found.inputs, found.outputs, found.name), {})


def _walked(graph: Graph, visit: Callable[[Node, Node], Node]) -> Graph:
    replaced: dict[Node, Node] = {}
    placed = set(graph.inputs)
    nodes: list[Node] = []
    for node in graph.nodes:
        current = node
        if replaced:
            for i in node.inputs:
                if i in replaced:
                    inputs = [replaced.get(i, i) for i in node.inputs]
                    current = Node(node.op, inputs, node.params, node.aval)
                    break
        current = visit(current, node)
        if current is not node:
            replaced[node] = current
        if current not in placed:
            if not placed.issuperset(current.inputs):
                _place_inputs(current, placed, nodes)
            placed.add(current)
            nodes.append(current)
    if not replaced:
        return graph
    after = Graph(graph.inputs, nodes, [replaced.get(o, o) for o in graph.outputs], graph.name)
    return inherit(graph, after, replaced)


def _place_inputs(node: Node, placed: set[Node], nodes: list[Node]) -> None:
    """Append what a node reads, each after what it reads itself.  No recursion: a chain of new nodes can be long."""
    waiting = [i for i in reversed(node.inputs) if i not in placed]
    while waiting:
        node = waiting[-1]
        missing = [i for i in reversed(node.inputs) if i not in placed]
        if missing:
            waiting.extend(missing)
            continue
        waiting.pop()
        if node not in placed:
            placed.add(node)
            nodes.append(node)


def inlined(graph: Graph, inputs: Sequence[Node]) -> list[Node]:
    """The outputs of a graph on these inputs."""
    new = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        new[node] = Node(node.op, [new[i] for i in node.inputs], node.params, node.aval, graph.origins_of(node))
    return [new[o] for o in graph.outputs]
