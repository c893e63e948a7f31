"""Common subexpression elimination: what is computed twice is computed once."""

from __future__ import annotations

from typing import Any

from ..ir import CONSTANT, Graph, Node
from .rebuild import rebuild

__all__ = ["cse"]


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
