"""Constant folding: numbers known when the graph is built are computed then."""

from __future__ import annotations

from ..ir import CONSTANT, Graph, Node, dtype_name, evaluate_node
from ..kernel.arguments import MOST, SMALL
from ..lowering import Call
from .rebuild import rebuild

__all__ = ["fold"]


def fold(graph: Graph) -> Graph:
    """Replace 0-d nodes that read nothing but constants by the constant that their reference gives.

    Arrays are not folded: a broadcast number is cheaper to make in a loop than to load.  Host calls
    are left to run time; so is what is made of a float that may be an extent, the count of a mean, say: kernels
    take that as an argument (`kernel.arguments`), and are then the same for every count.
    """
    return rebuild(graph, _folded)


def _folded(node: Node) -> Node:
    # Most nodes read no constant first: that settles them.
    if not node.inputs or node.inputs[0].op is not CONSTANT or not _is_foldable(node):
        return node
    value = evaluate_node(node, [evaluate_node(i, ()) for i in node.inputs])
    return Node(CONSTANT, (), (value.item(), dtype_name(value.dtype)), node.aval)


def _is_foldable(node: Node) -> bool:
    if node.aval.ndim or isinstance(node.op.lower, Call):
        return False
    return all([i.op is CONSTANT and not _may_be_extent(i) for i in node.inputs])


def _may_be_extent(constant: Node) -> bool:
    value = constant.params[0]
    return isinstance(value, float) and SMALL < abs(value) < MOST and value == int(value)
