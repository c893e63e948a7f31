"""Host backwards: rules that run in Python, on values, each time.

A gradient has its primal's aval, so a host backward can be one operation of a graph: the cotangents and
whatever the rule may read go in, the gradients come out, and the graph around it is compiled and cached.
It finds the call that it belongs to by a token, a number among the boundary's inputs; so another call of
the same shape is the same graph.  In a trace, and for a rule that turned out to ask, the call itself is
part of the operation.  Where neither is the case (the rule was registered after the call), it runs at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval

from ..custom.boundary import call_of
from ..custom.call import CustomCall
from ..custom.host_call import arrays_of, host_call, in_own_recording
from ..ops import as_tensor
from ..tape.ask import evaluate, value_of
from ..tape.leaves import leaf
from ..tape.node import Node
from ..tape.record import state
from ..tensor import Tensor, handle
from .rule_values import by_output, call_user, context_of, flow_of, gradients_by_place, needs_of, without_known_history

__all__ = ["host_backward"]


class _HostRun:
    """The work of a host backward when the graph runs: equal ones do the same, apart from the call they find.

    rule     the backward method;  call: the call, None where a token finds it
    slots    the outputs that have cotangents, in order;  single: whether output 0 is the first input
    places   the inputs that want gradients;  nodes: the boundary's inputs that cotangents go to, by place
    """

    def __init__(self, rule: Any, call: CustomCall, by_token: bool, slots: tuple[int, ...], places: tuple[int, ...],
                 flow: dict[int, Any]) -> None:
        self.rule = rule
        self.call = None if by_token else call
        self.slots = slots
        self.places = places
        self.flow = flow
        shape = (call.materialize, len(call.saved), tuple([(p.structure, p.places) for p in call.packed()]))
        self.key = (rule, slots, places, shape, None if by_token else call)
        self.__qualname__ = f"{call.function.__name__} backward"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HostRun) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """token (if any), cotangents, the boundary's inputs  ->  the gradients of `places`."""
        call = self.call
        if call is None:
            call, arrays = call_of(int(arrays[0])), arrays[1:]
        with in_own_recording():
            found = self._gradients(call, arrays)
            avals = [self.flow[p].kind.out.aval for p in self.places]
            evaluate([g.node for g in found.values()])
            return [
                value_of(found[p].node) if p in found else np.zeros(aval.shape, aval.dtype)
                for p, aval in zip(self.places, avals, strict=True)
            ]

    def _gradients(self, call: CustomCall, arrays: Sequence[np.ndarray]) -> dict[int, Tensor]:
        held: Sequence[Any] = arrays if self.rule.host else [leaf(np.array(a, order="C")) for a in arrays]
        bars = dict(zip(self.slots, held, strict=False))
        values = held[len(self.slots) :]
        tracked = values[len(values) - len(call.avals) :]
        needs = needs_of(call, self.places.__contains__)
        where = f"{call.function.__name__} (host backward at {self.rule.place}, called at {call.line})"
        given = by_output(
            call,
            lambda slot: bars[slot] if slot in bars else self._zeros(call, call.avals[slot]),
            lambda place: self._zeros(call, values[place]),
        )

        def value_at(place: int) -> Any:
            return tracked[-1 - place] if place < 0 else values[place]

        ctx = context_of(call, value_at, needs)
        returned = call_user(self.rule.implementation, self.rule, call, value_at, (ctx, *given), where)
        return gradients_by_place(call, returned, needs, self.flow, self.places, where)

    def _zeros(self, call: CustomCall, like: Any) -> Any:
        if not call.materialize:
            return None
        zeros = np.zeros(like.shape, like.dtype)
        return zeros if self.rule.host else as_tensor(zeros)


class _AvalOnly:
    """Stands for a node where only its aval counts: keeps no graph alive."""

    __slots__ = ("kind",)

    def __init__(self, node: Node) -> None:
        self.kind = node.kind


def host_backward(
    node: Node, rule: Any, cotangents: dict[int, Tensor], places: frozenset[int]
) -> dict[int, Tensor]:
    """The gradients by place, from a host call: recorded, or made now where the call has no token."""
    call: CustomCall = node.call
    slots = tuple(sorted(cotangents))
    wanted = tuple(sorted(places))
    flow: dict[int, Any] = {p: _AvalOnly(node.inputs[p]) for p in flow_of(node)}
    tracing = bool(state.now.tracing)
    by_token = rule.host and call.token is not None
    run = _HostRun(rule, call, by_token, slots, wanted, flow)
    bars = [cotangents[slot] for slot in slots]
    inputs = [*bars, *[handle(i) for i in node.inputs]]
    avals: list[Aval] = [node.inputs[p].kind.out.aval for p in wanted]
    if by_token or tracing:
        token = [handle(node.inputs[call.token])] if by_token and call.token is not None else []
        found = host_call(run, [*token, *inputs], avals)
    else:
        found = [leaf(np.array(g, order="C")) for g in run(*arrays_of(inputs))]
    sources = [*[b.node for b in bars], *[node.inputs[p] for p in flow]]
    which = f"a gradient that the host backward of {call.function.__name__} ({rule.place}) made"
    return without_known_history(dict(zip(wanted, found, strict=True)), rule, node, sources, which)
