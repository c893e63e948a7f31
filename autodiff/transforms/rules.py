"""Applying the rule of a custom function: its backward, in terms of tensors; host rules go to `host_rules`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from codegen.lazily import later

from ..dispatch import note
from ..errors import ConcretizationError, GradientError
from ..tape.misses import note as explained
from ..tape.node import Node
from ..tape.record import state
from ..tensor import Tensor, handle
from .nesting import call_nested
from .watched_rules import watching_at

if TYPE_CHECKING:
    from ..custom import boundary, host, reads
    from ..custom.call import CustomCall
    from . import host_rules, reading, returned
else:  # for who has rules of their own
    boundary = later("autodiff.custom.boundary")
    host = later("autodiff.custom.host")
    reads = later("autodiff.custom.reads")
    host_rules = later("autodiff.transforms.host_rules")
    reading = later("autodiff.transforms.reading")
    returned = later("autodiff.transforms.returned")

__all__ = ["call_rule", "found_out", "missing_rule", "rules_that_ask"]

#: Rules that were found to ask for values: they run each time, and each was reported once.
found_out: dict[ref[Any], str] = {}


class _AskedRules(threading.local):
    """The rules that asked for a value in this thread, while somebody listens."""

    rules: list[Any] | None = None


_asking = _AskedRules()


@contextmanager
def rules_that_ask() -> Iterator[list[Any]]:
    """Collects the rules that ask for a value inside, not those of a backward inside a rule."""
    before, _asking.rules = _asking.rules, []
    try:
        yield _asking.rules
    finally:
        _asking.rules = before


def missing_rule(node: Node) -> GradientError:
    """The error for an operation without a derivative."""
    op = node.kind.op
    inputs = ", ".join(str(i.kind.out.aval) for i in node.inputs)
    return GradientError(
        f"{op.name}({inputs}) has no derivative\n"
        f"  give it one: @ad.{op.name}.backward(...), or detach its inputs"
    )


def call_rule(node: Node, cotangents: dict[int, Tensor], wanted: set[Node]) -> list[Tensor | None]:
    """The cotangents of a call's inputs, in the order of the boundary's `flow`."""
    call: CustomCall = node.call
    flow = reading.flow_of(node)
    if call.transparent:
        return [cotangents.get(slot) for slot in range(len(flow))]
    rule = call.rule()
    note(call.function, "rules", call.method, call.types)
    if isinstance(call, boundary.MappedCall):
        return boundary.MappedCall.pull_each(node, cotangents, wanted)
    for place, name in call.closed():
        if node.inputs[place] in wanted:
            reads.refuse_closed(name, "backward", call.function.__name__, call.method.place, call.line)
    if rule is None:
        raise GradientError(call.function.explain_missing_rule(call.method, call.types, call.line))
    places = frozenset([p for p in flow if node.inputs[p] in wanted])
    if rule.host:
        bars = host_rules.host_backward(node, rule, cotangents, places)
    else:
        asked = state.now.asked
        try:
            bars = _on_tensors(node, rule, cotangents, places)
        except host.Unlearnt:
            raise
        except ConcretizationError:
            if not state.now.tracing or state.now.asked == asked:
                raise
            _report(rule)
            bars = host_rules.host_backward(node, rule, cotangents, places)
    return [bars.get(p) for p in flow]


def _on_tensors(node: Node, rule: Any, cotangents: dict[int, Tensor], places: frozenset[int]) -> dict[int, Tensor]:
    """Run a rule: what it computes is recorded."""
    call: CustomCall = node.call
    needs = reading.needs_of(call, places.__contains__)
    where = f"{call.function.__name__} (backward at {rule.place}, called at {call.line})"
    watching = watching_at(node)
    own, run = (call, rule.implementation) if watching is None else (watching.call, watching.rule)
    tensor_at, none = reading.tensors_of(node), reading.zeros_or_none
    ctx = reading.context_of(own, tensor_at, needs, places.__contains__, node)
    given = reading.by_output(
        call,
        lambda slot: handle(cotangents[slot].node) if slot in cotangents else none(call, call.avals[slot]),
        lambda place: none(call, node.inputs[place].kind.out.aval),
    )
    now = state.now
    asked, looked = now.asked, now.looked - now.bounded
    given_back = reading.call_user(partial(call_nested, run), rule, call, tensor_at, (ctx, *given), where)
    nodes = {p: node.inputs[p] for p in reading.flow_of(node)}
    bars = returned.gradients_by_place(call, given_back, needs, nodes, places, where)
    if now.asked != asked:
        _report(rule)
    if now.looked - now.bounded == looked:
        return bars
    sources = [*[g.node for g in cotangents.values()], *nodes.values()]
    which = f"a gradient that the backward of {call.function.__name__} ({rule.place}) made of asked values"
    return reading.without_known_history(bars, rule, node, sources, which)


def _report(rule: Any) -> None:
    """Say once that a rule asks for values."""
    if _asking.rules is not None and rule not in _asking.rules:
        _asking.rules.append(rule)
    if ref(rule) not in found_out:
        found_out[ref(rule, found_out.pop)] = (
            f"the {rule.kind} of {rule.function.__name__} ({rule.place}) asks for values, or goes back itself: it runs"
            " each time; with host=True it gets arrays, written in ad.* operations it is compiled"
        )
        if state.now.tracing:  # a backward that is recorded says it itself
            explained("rule", found_out[ref(rule)])
        import logging  # most rules do not

        logging.getLogger("autodiff").info(found_out[ref(rule)])
