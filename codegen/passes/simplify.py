"""Algebraic rewrites.  Each preserves every bit pattern, except the sign and payload of a nan.

A rewrite is a function from a node to its replacement, or to None if the rewrite does not apply.  It reads the node and
its inputs, never its readers, so one walk over the graph in order applies every rewrite.  The table at the end of the
file lists the rewrites of each operation by the operation's name, so this file imports no operation.

`_simplified` and `_new` check two conditions for all rewrites: the replacement has the node's aval (x * 1 is not x
where broadcasting the 1 enlarges x), and an operation that a rewrite introduces is defined.

Left out are rewrites that the kernel builder or LLVM does as well (x + -0.0, x - -y, -x * -y, |-x|, where(c, x, x), a
cast of a cast), or the arithmetic of indices (a reshape of a reshape, a transpose of a transpose); and rewrites that
would be wrong: 0 * x and x - x for infinite x, x + 0.0 for x = -0.0, complex 1 * x where a part of x is infinite.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir import CONSTANT, OPS, Graph, Node, apply
from .rewrites import rebuild

Rewrite = Callable[[Node], "Node | None"]


def simplify(graph: Graph) -> Graph:
    """Apply the rewrites until none fits.  `dce` removes the nodes that nothing reads afterwards."""
    return rebuild(graph, _simplified)


def _simplified(node: Node) -> Node:
    while True:
        for rewrite in _rewrites(node):
            new = rewrite(node)
            if new is not None and new.aval == node.aval:
                node = new
                break
        else:
            return node


def _rewrites(node: Node) -> tuple[Rewrite, ...]:
    op = node.op
    named = REWRITES.get(op.name, ())
    if len(node.inputs) == 1:
        return (*named, moved_number) if "move" in op.traits else named
    return (implicit_broadcast, *named) if "elementwise" in op.traits else named


# ---------------------------------------------------------------- helpers of the rewrites


def _number(node: Node) -> float | None:
    """The value of a real constant, as a float or int by its dtype (1 in f64 is 1.0); None for any other node."""
    if node.op is not CONSTANT:
        return None
    kind = node.aval.dtype.kind
    value = node.params[0]
    return float(value) if kind == "f" else int(value) if kind == "i" else None


def _input_of(node: Node, name: str) -> Node | None:
    """The first input of a node of this operation; None for another operation."""
    return node.inputs[0] if node.op.name == name else None


def _new(name: str, *inputs: Node, **params) -> Node | None:
    op = OPS.get(name)
    return None if op is None else apply(op, *inputs, **params)


def _on_inputs(node: Node, *inputs: Node, **params) -> Node:
    """A node of the same operation on other inputs."""
    return apply(node.op, *inputs, **(node.keywords | params))


# ---------------------------------------------------------------- arithmetic


def mul_one(node: Node) -> Node | None:
    """x · 1 = x, and x · -1 = -x, for a constant 1 or -1 on either side."""
    a, b = node.inputs
    for x, other in ((a, b), (b, a)):
        number = _number(other)
        if number == 1:
            return x
        if number == -1:
            return _new("neg", x)
    return None


def power_one(node: Node) -> Node | None:
    """x ** 1 = x."""
    x, exponent = node.inputs
    return x if _number(exponent) == 1 else None


# ---------------------------------------------------------------- moves


def reduced_whole(node: Node) -> Node | None:
    """sum(reshape(x)) = sum(x), over all elements, in the same order.

    Without this rewrite the indices of a computed x are quotients of those of the reshaped value: for 100,000 floats
    and the gradient of their tiled sum a call takes 240 us, with it 13 (Zen 3).
    """
    x = _input_of(node.inputs[0], "reshape")
    if x is None or not x.aval.ndim or not x.aval.size:  # max of shape (0, 3) along axis 1 exists, of all it does not
        return None
    return _on_inputs(node, x, axis=tuple(range(x.aval.ndim)))


def transpose_of_ones(node: Node) -> Node | None:
    """transpose(x) = reshape(x) if the axes of extent other than 1 keep their order."""
    axes, shape = node.keywords["axes"], node.inputs[0].aval.shape
    others = [axis for axis in axes if shape[axis] != 1]
    return _new("reshape", node.inputs[0], shape=node.aval.shape) if others == sorted(others) else None


def same(node: Node) -> Node | None:
    """cast(x), reshape(x) and broadcast(x) = x if the result has the dtype and shape of x."""
    return node.inputs[0]


def moved_number(node: Node) -> Node | None:
    """move(broadcast(x)) = broadcast(x) to the new shape, for a number x and a re-indexing such as transpose."""
    x = _input_of(node.inputs[0], "broadcast_to")
    if x is None or x.aval.ndim or node.op.name == "broadcast_to":
        return None
    return _new("broadcast_to", x, shape=node.aval.shape)


def implicit_broadcast(node: Node) -> Node | None:
    """f(broadcast(x), y) = f(x, y) if y has the shape of the result: an elementwise f broadcasts its operands."""
    for position, operand in enumerate(node.inputs):
        x = _before_broadcast(operand)
        if x is not None:
            new = _on_inputs(node, *node.inputs[:position], x, *node.inputs[position + 1 :])
            if new.aval == node.aval:
                return new
    return None


def _before_broadcast(node: Node) -> Node | None:
    """The x of broadcast(x), or of a reshape that only adds leading axes of extent 1; None for any other node."""
    x = _input_of(node, "broadcast_to")
    if x is None and (source := _input_of(node, "reshape")) is not None:
        added = node.aval.ndim - source.aval.ndim
        if added > 0 and node.aval.shape == (1,) * added + source.aval.shape:
            x = source
    return x


#: The rewrites of each operation, tried in order.  `_rewrites` adds `implicit_broadcast` for every elementwise
#: operation of several inputs, and `moved_number` for every re-indexing of one input (trait "move").
REWRITES: dict[str, tuple[Rewrite, ...]] = {
    "mul": (mul_one,),
    **dict.fromkeys(("power", "lower_power"), (power_one,)),
    **dict.fromkeys(("cast", "reshape", "broadcast_to"), (same,)),
    "transpose": (transpose_of_ones,),
    **dict.fromkeys(("sum", "prod", "max", "min", "any", "all"), (reduced_whole,)),
}
