"""Recordings put down again: the nodes of a trace, or of the body of a loop, over others in the place of some.

    replay(order, stands, of)    all of them, in order
    again(node, inputs)          one
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codegen.garbage import set_in_context

from ..mode import MODE
from ..tensor import handle
from .lines import Lines, belonging
from .node import Node, RichNode, rich_node
from .record import identity_of, record, state


def replay(order: Iterable[Node], stands: dict[Node, Node], of: Lines | None) -> None:
    """Put nodes down again.

    stands    the other node for each of some nodes, those that are read first; gets that of all
    of        the lines of the trace in which they were recorded
    """
    lines = state.now.lines
    for node in order:
        with belonging(lines, node, of):
            stands[node] = again(node, [stands[i] for i in node.inputs])


def again(node: Node, inputs: Sequence[Node]) -> Node:
    """A node on other inputs: recorded anew, so that it tracks exactly if they do and it is not cut."""
    if node.call is None and node.body is None and node.inputs:
        mode, op, params = MODE.get(), node.kind.op, node.kind.params
        tensors = tuple([handle(i) for i in inputs])
        if not (mode.tracks and is_cut(node)):
            return hooked_like(node, record(op, tensors, params).node)
        try:  # an interrupt may come at any call from here on
            set_in_context(MODE, mode.off)
            return record(op, tensors, params).node
        finally:
            set_in_context(MODE, mode)
    if node.body is not None and node.kind.out.requires_grad:
        flow = inputs if node.flow is None else inputs[node.flow]
        if not MODE.get().tracks or not any([i.kind.out.requires_grad for i in flow]):
            return inputs[node.body]  # no gradient comes to the rule
    return clone(node, tuple(inputs))


def is_cut(node: Node) -> bool:
    """True for a node recorded under no_grad from operands that track: no derivative flows through it."""
    out = node.kind.out
    return (
        not out.requires_grad
        and out.flows
        and not node.kind.op.discrete
        and any([i.kind.out.requires_grad for i in node.inputs])
    )


def clone(node: Node, inputs: tuple[Node, ...]) -> RichNode:
    """A node of the same kind on other inputs, as it stands."""
    new = rich_node(node.kind, inputs, call=node.call)
    new.body, new.flow, new.slot, new.line, new.hooks = node.body, node.flow, node.slot, node.line, node.hooks
    if state.now.lines is not None:
        state.now.lines.copy(new, node)
    return new


def hooked_like(node: Node, made: Node) -> Node:
    """The replacement of a node, with the hooks of that node: they see the gradients of each use."""
    if not node.hooks or made.hooks is node.hooks or not made.kind.out.requires_grad:
        return made
    seen = identity_of(made)
    seen.hooks = node.hooks
    return seen
