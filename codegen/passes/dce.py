"""Dead code elimination."""

from __future__ import annotations

from ..ir import Graph, inherit

__all__ = ["dce"]


def dce(graph: Graph) -> Graph:
    """Remove nodes no output depends on.  Order of the rest, and all inputs, are kept."""
    live = set(graph.outputs)
    nodes = []
    for node in reversed(graph.nodes):
        if node in live:
            live.update(node.inputs)
            nodes.append(node)
    if len(nodes) == len(graph.nodes):
        return graph
    return inherit(graph, Graph(graph.inputs, reversed(nodes), graph.outputs, graph.name), {})
