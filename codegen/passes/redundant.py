"""Work that a program is spared: what is computed twice (`cse`), for nobody (`dce`), of known numbers (`fold`)."""

from __future__ import annotations

from typing import Any

from ..ir import CONSTANT, Graph, Node, dtype_name, evaluate_node, inherit
from ..kernel.arguments import MOST, SMALL
from ..lowering import Call
from .rebuild import rebuild

__all__ = ["cse", "dce", "fold"]


def cse(graph: Graph) -> Graph:
    """Replace a node by an earlier one of the same operation, parameters and inputs.

    Operations with the trait "commutative" may have their inputs in another order.  Which of two
    zeros of different sign NumPy's maximum and minimum return depends on that order; it is the one
    thing here that is not preserved to the bit.
    """
    first: dict[tuple, Node] = {}

    def visit(node: Node) -> Node:
        found = first.setdefault(_key(node), node)
        # 0.0 == -0.0 and 1 == True: equal keys are not yet equal parameters.
        if found is node or (node.params and repr(found.params) != repr(node.params)):
            return node
        return found

    return rebuild(graph, visit)


def _key(node: Node) -> tuple[Any, ...]:
    inputs: Any = node.inputs
    if len(inputs) == 2 and "commutative" in node.op.traits:
        a, b = inputs
        inputs = inputs if id(a) <= id(b) else (b, a)
    # Constants of equal value and other text (0.0 and -0.0) each have their own first node.
    return node.op, repr(node.params) if node.op is CONSTANT else node.params, inputs


# ---------------------------------------------------------------- what nobody reads


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


# ---------------------------------------------------------------- what is known


def fold(graph: Graph) -> Graph:
    """Replace 0-d nodes that read nothing but constants by the constant that their reference gives.

    Arrays are not folded: a broadcast number is cheaper to make in a loop than to load.  Host calls,
    and operations that passes made, are left to run time; so is what is made of a float that may be an extent, the
    count of a mean, say: kernels take that as an argument (`kernel.arguments`), and are then the same for every count.
    """
    return rebuild(graph, _folded)


def _folded(node: Node) -> Node:
    # Most nodes read no constant first: that settles them.
    if not node.inputs or node.inputs[0].op is not CONSTANT or not _is_foldable(node):
        return node
    value = evaluate_node(node, [evaluate_node(i, ()) for i in node.inputs])
    return Node(CONSTANT, (), (value.item(), dtype_name(value.dtype)), node.aval)


def _is_foldable(node: Node) -> bool:
    if node.aval.ndim or isinstance(node.op.lower, Call) or node.op.reference is None:
        return False
    return all([i.op is CONSTANT and not _may_be_extent(i) for i in node.inputs])


def _may_be_extent(constant: Node) -> bool:
    value = constant.params[0]
    return isinstance(value, float) and SMALL < abs(value) < MOST and value == int(value)
