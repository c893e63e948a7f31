"""A scatter of one update per row is a choice, element by element; so it fuses with what reads it.

    y = scatter_along(index: i64[n,1], updates: f64[n,1], shape=(n, 10), axis=1)
    y[i,j] = updates[i,0] if index[i,0] == j else 0

It is what the gradient of picking one element of each row (a label's logit) is made of.
"""

from __future__ import annotations

from typing import Any

from ..ir import Graph, Node
from ..ir.op import Op, derived
from ..lowering import Move
from .rebuild import rebuild

__all__ = ["choose"]


def choose(graph: Graph) -> Graph:
    """Replace such scatters."""
    return rebuild(graph, _chosen)


def _chosen(node: Node) -> Node:
    if node.op.name != "scatter_along":
        return node
    axis, shape = node.keywords["axis"], node.aval.shape
    if node.inputs[-1].aval.shape != (*shape[:axis], 1, *shape[axis + 1 :]):
        return node
    return Node(derived(_choice, node.op), node.inputs, node.params, node.aval)


def _choice(scatter: Op) -> Op:
    """The operation that computes an element of such a scatter."""

    def element(k: Any, index: Any, places: Any, updates: Any, *, shape: tuple[int, ...], axis: int) -> Any:
        row = (*index[:axis], k.index(0), *index[axis + 1 :])
        target = scatter.lower.target(k, row, places, updates, shape=shape, axis=axis)
        update = updates(*row)
        zero = k.constant(0, like=update)
        # Added to 0 as a scatter does, so that -0.0 becomes 0.0.
        return k.select(k.eq(target[axis], index[axis]), k.add(zero, update), zero)

    return Op(scatter.name, infer=scatter.infer, reference=scatter.reference,
              lower=Move(element, free=False), params=scatter.params)
