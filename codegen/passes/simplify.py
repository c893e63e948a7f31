"""Algebra: named rewrites, each true for every bit pattern but the sign and payload of a nan.

A rewrite looks at one node and what it reads, and returns what to put in its place, or None.  It never
looks at readers, so one walk in order leaves nothing to do.  The table at the end of the file says which
rewrites an operation has; operations are known by name, so this file imports none.

Two things are checked once, for all: the replacement has the node's aval (x * 1 is not x where the
1 makes x larger), and an operation that a rewrite introduces exists.

Not here: what the builder of kernels or LLVM does as well (x + -0.0, x - -y, -x * -y, |-x|, where(c, x, x), a cast of a
cast), or the arithmetic of indices (a reshape of a reshape, a transpose of a transpose); and what looks right, as
0 * x, which is nan for x infinite, x - x, x + 0.0 for x = -0.0, complex 1 * x where a part of x is infinite.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir import CONSTANT, OPS, Graph, Node, apply
from .rewrites import rebuild

Rewrite = Callable[[Node], "Node | None"]


def simplify(graph: Graph) -> Graph:
    """Apply the rewrites until none fits.  What they leave unread is for `dce`."""
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


# ---------------------------------------------------------------- what rewrites look at


def _number(node: Node) -> float | None:
    """The value of a real constant, in its dtype's kind: 1 in f64 is 1.0."""
    if node.op is not CONSTANT:
        return None
    kind = node.aval.dtype.kind
    value = node.params[0]
    return float(value) if kind == "f" else int(value) if kind == "i" else None


def _read(node: Node, name: str) -> Node | None:
    """The first input of a node of this operation; None for another operation."""
    return node.inputs[0] if node.op.name == name else None


def _new(name: str, *inputs: Node, **params) -> Node | None:
    op = OPS.get(name)
    return None if op is None else apply(op, *inputs, **params)


def _again(node: Node, *inputs: Node, **params) -> Node:
    """A node of the same operation on other inputs."""
    return apply(node.op, *inputs, **(node.keywords | params))


# ---------------------------------------------------------------- arithmetic


def mul_one(node: Node) -> Node | None:
    """x · 1 = x,  x · -1 = -x"""
    a, b = node.inputs
    for x, other in ((a, b), (b, a)):
        number = _number(other)
        if number == 1:
            return x
        if number == -1:
            return _new("neg", x)
    return None


def power_one(node: Node) -> Node | None:
    """x ** 1 = x"""
    x, exponent = node.inputs
    return x if _number(exponent) == 1 else None


# ---------------------------------------------------------------- moves


def reduced_whole(node: Node) -> Node | None:
    """sum(reshape(x)) = sum(x) of all elements, whose order stays

    Places of a computed x are quotients of those of the reshaped one: 100,000 floats and their tiled sum's gradient
    240 us, so 13 (Zen 3).
    """
    x = _read(node.inputs[0], "reshape")
    if x is None or not x.aval.ndim or not x.aval.size:  # each of no rows may have an extreme, no elements have none
        return None
    return _again(node, x, axis=tuple(range(x.aval.ndim)))


def transpose_of_ones(node: Node) -> Node | None:
    """transpose(x) = reshape(x) where no axes change places but those of extent 1"""
    axes, shape = node.keywords["axes"], node.inputs[0].aval.shape
    others = [axis for axis in axes if shape[axis] != 1]
    return _new("reshape", node.inputs[0], shape=node.aval.shape) if others == sorted(others) else None


def same(node: Node) -> Node | None:
    """cast to its own dtype, reshape or broadcast to its own shape = x"""
    return node.inputs[0]


def moved_number(node: Node) -> Node | None:
    """A re-indexed broadcast of a number is a broadcast of it."""
    x = _read(node.inputs[0], "broadcast_to")
    if x is None or x.aval.ndim or node.op.name == "broadcast_to":
        return None
    return _new("broadcast_to", x, shape=node.aval.shape)


def implicit_broadcast(node: Node) -> Node | None:
    """f(broadcast(x), y) = f(x, y) where y alone gives the result its shape: f broadcasts by itself."""
    for position, operand in enumerate(node.inputs):
        x = _before_broadcast(operand)
        if x is not None:
            new = _again(node, *node.inputs[:position], x, *node.inputs[position + 1 :])
            if new.aval == node.aval:
                return new
    return None


def _before_broadcast(node: Node) -> Node | None:
    """x of broadcast(x), or of a reshape that only adds leading axes of 1: what broadcasting does by itself."""
    x = _read(node, "broadcast_to")
    if x is None and (source := _read(node, "reshape")) is not None:
        added = node.aval.ndim - source.aval.ndim
        if added > 0 and node.aval.shape == (1,) * added + source.aval.shape:
            x = source
    return x


#: The rewrites of each operation, tried in order.  Besides: `implicit_broadcast` for every elementwise
#: operation of several inputs, `moved_number` for every free re-indexing of one input.
REWRITES: dict[str, tuple[Rewrite, ...]] = {
    "mul": (mul_one,),
    **dict.fromkeys(("power", "lower_power"), (power_one,)),
    **dict.fromkeys(("cast", "reshape", "broadcast_to"), (same,)),
    "transpose": (transpose_of_ones,),
    **dict.fromkeys(("sum", "prod", "max", "min", "any", "all"), (reduced_whole,)),
}
