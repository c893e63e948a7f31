"""Rewrites of an optimised graph, by which more of it fuses or is done with less.

choose: a scatter of one update per row is a choice, element by element; so it fuses with what reads it.

    y = scatter_along(index: i64[n,1], updates: f64[n,1], shape=(n, 10), axis=1)
    y[i,j] = updates[i,0] if index[i,0] == j else 0

It is what the gradient of picking one element of each row (a label's logit) is made of.

inner: a long product of one row and one column is a sum: it fuses with what it reads, and threads share it.

    y = matmul(x: f64[1,n], z: f64[n,1])        one thread, and both factors stored
    y = sum(x * z)                              n = 1e6: 215 us, so 87 on two

So are many short ones, of which each would be a product of its own.
"""

from __future__ import annotations

from typing import Any

from ..ir import OPS, Graph, Node, apply
from ..ir.op import Op, derived
from ..lowering import Contract, Move
from ..symbols import typical
from .rebuild import rebuild

__all__ = ["choose", "inner"]


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


# ---------------------------------------------------------------- products of one row and one column


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
