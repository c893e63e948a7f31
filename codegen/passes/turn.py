"""A product that is only read transposed is computed transposed: (a @ b)ᵀ = bᵀ @ aᵀ.

    w_bar = transpose(matmul(transpose(x), z_bar))      what `x @ w.T` leaves to do for w
    w_bar = matmul(transpose(z_bar), x)                 no copy: transposes of operands are flags
"""

from __future__ import annotations

from collections import Counter

from ..ir import Graph, Node, apply
from ..lowering import Contract
from .rebuild import rebuilt

__all__ = ["turn"]


def turn(graph: Graph) -> Graph:
    """Turn such products round."""
    readers = Counter([*[i for node in graph.nodes for i in node.inputs], *graph.outputs, *graph.outputs])

    def visit(node: Node, original: Node) -> Node:
        if node.op.name != "transpose" or not isinstance(node.inputs[0].op.lower, Contract):
            return node
        (product,) = node.inputs
        if readers[original.inputs[0]] > 1 or not _swaps_last(node.keywords["axes"]):
            return node
        a, b = product.inputs
        return apply(product.op, _swapped(node, b), _swapped(node, a))

    return rebuilt(graph, visit)


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
