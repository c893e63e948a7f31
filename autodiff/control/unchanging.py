"""The part of a loop's body that no step changes, a function of weights alone say: it is computed before the loop."""

from __future__ import annotations

from codegen.lowering import Move

from ..tape.node import Node
from ..tape.walk import reached
from .body import Body, inside, inside_calls, interned, recomputed


def unchanging(body: Body, changing: int) -> tuple[Body, Body] | None:
    """A body of what no step changes, from hidden inputs alone, and the rest, to which that is hidden; None: all does.

    changing    so many arguments differ between steps

    What stays in a step: moves, which are free there; what is larger than all that it is computed from, as reading it
    may cost more; the inside of a call, which goes nowhere without it; hooks, calls of the host, and what a backward
    pass computes again.
    """
    differ = {*body.arguments[:changing], *recomputed(body.order)}
    within = inside_calls(body.order, lambda call: not call.transparent)
    found: set[Node] = set()
    for node in body.order:
        op = node.kind.op
        stays = node.hooks or op.name == "barrier" or (node.call is not None and node.call.token is not None)
        if stays or node in differ or not differ.isdisjoint(node.inputs):
            differ.add(node)
        elif node.inputs and node not in within and (node.call is None or node.body is not None):
            is_free = isinstance(op.lower, Move) and "part" not in op.traits
            if not (is_free or op.has_regions) and _bytes_of(node) <= max(map(_bytes_of, node.inputs)):
                found.add(node)
    read = reached(body.results, lambda node: () if node in found else node.inputs)
    once = [n for n in body.order if n in found and n in read]
    if not once:
        return None
    before = inside(once, set(body.hidden))
    return (
        interned([], body.hidden, once, [n for n in body.order if n in before]),
        interned(body.arguments, [*body.hidden, *once], body.results,
                 [n for n in body.order if n in read and n not in found]),
    )  # fmt: skip


def _bytes_of(node: Node) -> float:
    return node.kind.out.aval.nbytes
