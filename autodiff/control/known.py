"""A body recorded again where the values of its products are known: their derivatives alone are recorded.

The products of each step of a loop are kept for its gradient, as those of any recording are, so that no product
is computed twice.  A node with a known value stands in the new recording as

    known(value, inputs)     its value is `value`; its derivative that of the operation at `inputs`
"""

from __future__ import annotations

from collections.abc import Sequence

from ..custom import function
from ..ops import zeros_like
from ..tape.node import Node
from ..tape.record import is_cut
from ..tensor import Tensor, handle
from ..transforms.forward import jvp
from ..transforms.rules import missing_rule
from .body import Body, Recorded, again, hooked_like

__all__ = ["knowing"]


@function
def _known(body, number, value, inputs): ...


@_known.forward
def _(ctx, body, number, value, inputs):
    return value


@_known.backward
def _(ctx, y_bar):
    body, number, value, inputs = ctx.inputs
    node = body.order[number]
    if node.kind.op.pull is None:
        raise missing_rule(node)
    y = _known(body, number, value, inputs)  # what a rule reads: the known value, with its history
    return {"inputs": tuple(node.kind.op.pull(y_bar, y, inputs, node.kind.params, False))}


@_known.jvp
def _(ctx, _body, _number, _value, dots):
    body, number, value, inputs = ctx.inputs
    node = body.order[number]
    if node.kind.op.push is None:
        given = [zeros_like(x) if dot is None else dot for x, dot in zip(inputs, dots, strict=True)]
        return jvp(lambda *xs: handle(again(node, [x.node for x in xs])), inputs, given)[1]
    y = _known(body, number, value, inputs)
    return node.kind.op.push(tuple(dots), y, inputs, node.kind.params)


def knowing(body: Body, known: Sequence[Tensor]) -> Recorded:
    """A function that applies the body where `known` are the values of its nodes `kept`, without a history."""
    values = dict(zip(body.kept, known, strict=True))

    def recorded(number: int, inputs: list[Node]) -> Node:
        value = values.get(number)
        if value is None:
            return again(body.order[number], inputs)
        tracks = any(i.kind.out.requires_grad for i in inputs) and not is_cut(body.order[number])
        tracks = tracks and value.dtype.kind in "fc"
        if not tracks:
            return value.node
        return hooked_like(body.order[number], _known(body, number, value, tuple([handle(i) for i in inputs])).node)

    return recorded
