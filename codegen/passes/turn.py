"""A product that is only read transposed is computed transposed: (a @ b)ᵀ = bᵀ @ aᵀ.

    w_bar = transpose(matmul(transpose(x), z_bar))      what `x @ w.T` leaves to do for w
    w_bar = matmul(transpose(z_bar), x)                 no copy: transposes of operands are flags
"""

from __future__ import annotations

from ..ir import Graph, Node, apply, inherit
from ..lowering import Contract

__all__ = ["turn"]


def turn(graph: Graph) -> Graph:
    """Turn such products round."""
    readers: dict[Node, int] = {output: 2 for output in graph.outputs}
    found: set[Node] = set()
    for node in graph.nodes:
        for i in node.inputs:
            readers[i] = readers.get(i, 0) + 1
        if node.op.name == "transpose" and isinstance(node.inputs[0].op.lower, Contract):
            found.add(node)
    found = {node for node in found if readers[node.inputs[0]] == 1 and _swaps_last(node.keywords["axes"])}
    if not found:
        return graph
    new: dict[Node, Node] = {}
    for node in graph.nodes:
        inputs = [new.get(i, i) for i in node.inputs]
        if node in found:
            (product,) = inputs
            a, b = product.inputs
            new[node] = apply(product.op, _swapped(node, b), _swapped(node, a))
        elif any(i in new for i in node.inputs):
            new[node] = Node(node.op, inputs, node.params, node.aval)
    return inherit(graph, Graph.of(graph.inputs, [new.get(o, o) for o in graph.outputs], graph.name), new)


def _swaps_last(axes: tuple[int, ...]) -> bool:
    n = len(axes)
    return axes == (*range(n - 2), n - 1, n - 2)


def _swapped(transpose: Node, x: Node) -> Node:
    """x with its last two axes swapped."""
    n = x.aval.ndim
    axes = (*range(n - 2), n - 1, n - 2)
    if x.op is transpose.op and x.keywords["axes"] == axes:
        return x.inputs[0]
    return apply(transpose.op, x, axes=axes)
