"""Values that every kernel must compute alike: those that an extreme was found among.

    y = max(d)          the gradient asks where d == y, perhaps in another kernel, or after y was asked for, in another
                        graph.  A product and a sum that the processor does at once in one of them (fma) and in two
                        steps in the other differ in the last bit: then no element is the largest.

So on the way to an extreme every operation is rounded by itself.  Sums and products of matrices are stored, not
computed again, so what is behind them does not matter; cheap sums are walked through.
"""

from __future__ import annotations

from ..ir import Graph, Node
from ..lowering import Map, Move, Reduce, Scan

__all__ = ["exact_nodes"]


def exact_nodes(graph: Graph) -> frozenset[Node]:
    """The nodes that an extreme of floats is computed from, element by element."""
    waiting = [n.inputs[0] for n in graph.nodes if _is_extreme(n)]
    found: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node not in found and isinstance(node.op.lower, (Map, Move, Reduce)):
            found.add(node)
            waiting.extend(node.inputs)
    return frozenset(found)


def _is_extreme(node: Node) -> bool:
    lower = node.op.lower
    return isinstance(lower, Reduce | Scan) and lower.monoid in ("max", "min") and node.aval.dtype.kind == "f"
