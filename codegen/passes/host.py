"""What no loops are generated for is left to NumPy: operations on complex numbers.

Each such node becomes a host call of its own reference, whatever its lowering; so a graph may mix native
kernels, on its real parts, with host steps, and the rest of the compiler meets complex numbers only as memory.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..ir import DTYPES, Graph, Node
from ..ir.op import CONSTANT, Op
from ..lowering import Call

__all__ = ["host"]

#: A complex constant as the array that the host reads.
_ARRAY = Op(
    "constant",
    infer=CONSTANT.infer,
    reference=lambda *, value, dtype: np.asarray(value, DTYPES[dtype]),
    lower=Call(),
    params=CONSTANT.params,
)


def _is_for_host(node: Node) -> bool:
    """Whether a node computes with complex numbers."""
    return node.aval.dtype.kind == "c" or any(i.aval.dtype.kind == "c" for i in node.inputs)


@lru_cache(maxsize=1024)
def _called(op: Op) -> Op:
    """The same operation, computed by its reference."""
    if op is CONSTANT:
        return _ARRAY
    return Op(op.name, infer=op.infer, reference=op.reference, lower=Call(), params=op.params, traits=op.traits)


def host(graph: Graph) -> Graph:
    """The graph with host calls in the place of what is for the host; the very graph when there is none."""
    if not any(_is_for_host(node) for node in graph.nodes):
        return graph
    new: dict[Node, Node] = {}
    nodes = []
    for node in graph.nodes:
        inputs = [new.get(i, i) for i in node.inputs]
        op = _called(node.op) if _is_for_host(node) else node.op
        if op is not node.op or any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            new[node] = Node(op, inputs, node.params, node.aval)
        nodes.append(new.get(node, node))
    return Graph(graph.inputs, nodes, [new.get(o, o) for o in graph.outputs], graph.name)
