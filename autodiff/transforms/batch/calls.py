"""Derivatives of a custom function's calls for many examples: the rule of one, applied to each.

The rule is recorded once, for one example, on tensors without values; what it records is turned into the same
for all examples like any other recording.  So a rule that is right for one call is right under `vmap`, to any
order.  The gradient of an input that all examples share is the sum of theirs.
"""

from __future__ import annotations

from typing import Any

from ...custom.boundary import MappedCall
from ...ops.batching import with_examples
from ...ops.contraction import contracted
from ...ops.reductions import summed
from ...ops.shaping import reshaped, transposed
from ...tape.node import Node
from ...tensor import Tensor, handle
from ..forward import push_call
from ..reading import flow_of
from ..rules import call_rule
from .walk import of_each

__all__ = ["pull_each", "push_each"]


def pull_each(node: Node, cotangents: dict[int, Tensor], wanted: set[Node]) -> list[Tensor | None]:
    """The cotangents of a call's inputs, in the order of the boundary's `flow`, given those of its outputs by slot."""
    call: MappedCall = node.call
    slots = sorted(cotangents)
    flow = flow_of(node)

    def rule(made: list[Tensor]) -> list[Tensor | None]:
        one = call.example([t.node for t in made[len(slots) :]], node.flow)
        places = {one.inputs[p] for p in flow if node.inputs[p] in wanted}
        return call_rule(one, dict(zip(slots, made, strict=False)), places)

    given = [*[cotangents[slot] for slot in slots], *[handle(i) for i in node.inputs]]
    found = of_each(rule, given, [*[True] * len(slots), *call.mapped], call.size)
    return [_gathered(g, differs, call.mapped[p], call.size) for p, (g, differs) in zip(flow, found, strict=True)]


def _gathered(g: Any, differs: bool, mapped: bool, size: int) -> Tensor | None:
    """The gradient of an input, given that of each example."""
    if g is None:
        return None
    if mapped:
        return with_examples(size, (g,), (differs,))[0]
    return _summed(with_examples(size, (g,), (differs,))[0])


def _summed(g: Tensor) -> Tensor:
    """The sum over examples.  Of a product for each it is one product, in which the examples are summed as well."""
    name, inputs, params = g.node.kind.op.name, g.node.inputs, g.node.kind.params
    shapes = [i.kind.out.shape for i in inputs]
    if name in ("matmul", "mul") and len(shapes[0]) == len(shapes[1]) == 3 and shapes[0][0] == shapes[1][0]:
        a, b = [handle(i) for i in inputs]
        if name == "matmul":
            return contracted(a, b, ((), ()), ((0, 2), (0, 1)))
        if a.shape[2] == b.shape[1] == 1:
            a, b = reshaped(a, a.shape[:2]), reshaped(b, (b.shape[0], b.shape[2]))
            return contracted(a, b, ((), ()), ((0,), (0,)))
    if name == "transpose" and params[0][0] == 0:
        return transposed(_summed(handle(inputs[0])), tuple([axis - 1 for axis in params[0][1:]]))
    if name == "reshape" and inputs[0].kind.out.shape[:1] == g.shape[:1]:
        return reshaped(_summed(handle(inputs[0])), g.shape[1:])
    return summed(g, (0,))


def push_each(node: Node, tangents: dict[Node, Tensor]) -> dict[Any, Tensor]:
    """The tangents of the outputs of a call, by node, or by node and slot."""
    call: MappedCall = node.call
    places = [p for p, i in enumerate(node.inputs) if i in tangents]

    def rule(made: list[Tensor]) -> list[Tensor | None]:
        one = call.example([t.node for t in made[len(places) :]], node.flow)
        dots = {one.inputs[p]: t for p, t in zip(places, made, strict=False)}
        pushed = push_call(one, dots)
        return [pushed.get(one if call.is_one else (one, slot)) for slot in range(len(call.avals))]

    given = [*[tangents[node.inputs[p]] for p in places], *[handle(i) for i in node.inputs]]
    found = of_each(rule, given, [*[call.mapped[p] for p in places], *call.mapped], call.size)
    return {
        node if call.is_one else (node, slot): with_examples(call.size, (t,), (differs,))[0]
        for slot, (t, differs) in enumerate(found)
        if t is not None
    }


MappedCall.pull_each, MappedCall.push_each = pull_each, push_each
