"""A long product of one row and one column is a sum: it fuses with what it reads, and threads share it.

    y = matmul(x: f64[1,n], z: f64[n,1])        one thread, and both factors stored
    y = sum(x * z)                              n = 1e6: 215 us, so 87 on two

So are many short ones, of which each would be a product of its own.
"""

from __future__ import annotations

from ..ir import OPS, Graph, Node, apply
from ..lowering import Contract
from ..symbols import typical
from .rebuild import rebuild

__all__ = ["inner"]

#: Fewer multiplications gain nothing.
_LONG = 4096


def inner(graph: Graph) -> Graph:
    """Replace such products."""
    return rebuild(graph, _added_up)


def _added_up(node: Node) -> Node:
    if not isinstance(node.op.lower, Contract) or node.aval.shape[-2:] != (1, 1) or node.aval.dtype.kind != "f":
        return node
    x, z = node.inputs
    n = x.aval.shape[-1]
    if typical(n * node.aval.size) < _LONG or not {"mul", "sum", "reshape"} <= OPS.keys():
        return node
    x, z = [apply(OPS["reshape"], side, shape=(*side.aval.shape[:-2], n)) for side in (x, z)]
    total = apply(OPS["sum"], apply(OPS["mul"], x, z), axis=(node.aval.ndim - 2,))
    return apply(OPS["reshape"], total, shape=node.aval.shape)
