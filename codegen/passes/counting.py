"""Elements that follow from their number are computed in the loop, and no array of them is made.

    i: i64[9] = iota(...)                            first: i64[] = 0
    loop(c, i[t]) -> c': ... i ...                   loop(c, n = first) -> c', n + 1: ... n ...

Also what is computed from the number by a few operations with numbers: `lower + 2 * i`.  Only of loops from the first
element to the last: one that goes back has the states of all steps in memory anyway.
"""

from __future__ import annotations

import numpy as np

from ..ir import Aval, Graph, Node
from ..ir.op import CONSTANT, INPUT, Op
from ..lowering import Map
from ..nested import Recurrence
from ..records import replace

__all__ = ["counted"]

_I64 = Aval((), np.dtype(np.int64))

#: Operations that a step may repeat: that costs less than reading an element.
_MOST = 4

_NEXT = Op(
    "next",
    infer=lambda x: x,
    reference=lambda x: x + 1,
    lower=Map(lambda k, x: k.add(x, k.constant(1, "i64"))),
    traits=frozenset(("elementwise",)),
)


def counted(loop: Recurrence, inputs: list[Node]) -> tuple[Recurrence, list[Node]]:
    """The loop with the number of the step as its last state, and its inputs; the very loop where nothing counts."""
    if loop.is_reversed:
        return loop, inputs
    first, stop = loop.carried, loop.carried + loop.scanned
    chains = {k: chain for k in range(first, stop) if (chain := _chain(inputs[k])) is not None}
    if not chains:
        return loop, inputs
    body, number = loop.body, Node(INPUT, (), (), _I64)
    numbers: dict[Node, Node] = {}  # 0-d nodes outside: what stands for them in the body
    new: dict[Node, Node] = {}
    for k, chain in chains.items():
        made: dict[Node, Node] = {}
        for node in chain:
            given = [made.get(i) or (i if i.op is CONSTANT else numbers.setdefault(i, _input(i))) for i in node.inputs]
            made[node] = Node(node.op, given, node.params, node.aval.with_shape(()), node.origins) if given else number
        new[body.inputs[k]] = made[inputs[k]]
    for node in body.nodes:
        if any([i in new for i in node.inputs]):
            new[node] = Node(node.op, [new.get(i, i) for i in node.inputs], node.params, node.aval, node.origins)
    outputs = [new.get(o, o) for o in body.outputs]
    stays = [k for k in range(first, stop) if k not in chains]
    own = [body.inputs[k] for k in (*range(first), *stays, *range(stop, len(body.inputs)))]
    graph = Graph.of(
        [*own[:first], number, *own[first:], *numbers.values()],
        [*outputs[:first], Node(_NEXT, (number,), (), _I64), *outputs[first:]],
        body.name,
    )
    zero = Node(CONSTANT, (), (0, "i64"), _I64)
    given = [*inputs[:first], zero, *[inputs[k] for k in stays], *inputs[stop:], *numbers]
    return replace(loop, body=graph, carried=first + 1, scanned=len(stays)), given


def _input(node: Node) -> Node:
    return Node(INPUT, (), (), node.aval, node.origins)


def _chain(node: Node) -> list[Node] | None:
    """The operations that compute a vector from its positions, in order; None if there are none, or too many."""
    chain: list[Node] = []
    while node not in chain:
        if len(chain) > _MOST or node.aval.ndim != 1:
            return None
        chain.append(node)
        if node.op.name == "iota":
            return chain[::-1] if node.aval.dtype == _I64.dtype else None
        vectors = [i for i in node.inputs if i.aval.ndim]
        if not isinstance(node.op.lower, Map) or len(set(vectors)) != 1:
            return None
        (node,) = set(vectors)
    return None
