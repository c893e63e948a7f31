"""Reverse mode: from cotangents of results to cotangents of what they were made from.

The walk goes over the history by falling creation number, so it neither recurses nor sees a node
before all its readers.  Rules are called with tensors and record their work like any program:
a backward pass is more nodes.  Whether what they record tracks gradients itself is the caller's
choice (`grad_mode`).

Worked example: y = sin(x) * x, seed y_bar.

    mul   x_bar  = y_bar * sin(x)      s_bar = y_bar * x
    sin   x_bar += s_bar * cos(x)                               # x is reached: nothing below

Strong zero.  The cotangent of a branch that `where` did not take is exactly 0 and *masked*: it meets
partials through `mul0`, so 0 times inf stays 0.  A sum is masked only if all its terms are.

Zero everywhere.  What a rule of this library gives None for, as that of floor, has a derivative, which is 0: a target
that nothing else reaches gets zeros.  No rule runs on the way there.  A user's None reaches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from codegen.records import NamedTuple

from ..errors import GradientError
from ..ops import add
from ..ops.primitive import zeros_of
from ..tape.lines import belonging_to_rules
from ..tape.node import Node, Primitive
from ..tape.plan import COUNTS
from ..tape.record import state
from ..tape.walk import gradient_inputs
from ..tensor import Tensor, handle
from .anomaly import watcher
from .hooks import run_hooks
from .rules import call_rule, missing_rule

__all__ = ["Cotangent", "pull_back", "pull_back_masked", "reaching"]


class Cotangent(NamedTuple):
    """A cotangent and whether it is masked."""

    value: Tensor
    masked: bool = False


def reaching(order: Sequence[Node], targets: Iterable[Node]) -> set[Node]:
    """The nodes of a history through which gradients reach `targets`."""
    found = set(targets)
    for node in order:
        if node not in found and any(i in found for i in gradient_inputs(node)):
            found.add(node)
    return found


def pull_back(
    order: Sequence[Node], seeds: Iterable[tuple[Node, Tensor]], targets: Iterable[Node],
    hooked: Callable[[dict[Any, Callable], Tensor], Tensor] = run_hooks,
) -> dict[Node, Tensor]:  # fmt: skip
    """The cotangents of `targets`, given those of some results.  A target that is not reached has none.

    order     the history of the results, by creation
    seeds     (result, cotangent of its aval)
    targets   nodes of the history
    hooked    what is done with the hooks of a node and its cotangent

    Raises GradientError for a released node, a missing rule, or a rule that breaks its promises.
    """
    found = pull_back_masked(order, [(node, Cotangent(value)) for node, value in seeds], targets, hooked)
    return {node: bar.value for node, bar in found.items()}


def pull_back_masked(
    order: Sequence[Node], seeds: Iterable[tuple[Node, Cotangent]], targets: Iterable[Node],
    hooked: Callable[[dict[Any, Callable], Tensor], Tensor] = run_hooks,
) -> dict[Node, Cotangent]:  # fmt: skip
    """`pull_back` where it is known which cotangents are masked, before and after."""
    targets = set(targets)
    open_nodes = reaching(order, targets)
    bars: dict[Node, Cotangent | dict[int, Cotangent]] = {}
    found: dict[Node, Cotangent] = {}
    zeros: set[Node] = set()
    watch = watcher()
    for node, value in seeds:
        _accumulate(bars, node, value, open_nodes)
    for node in belonging_to_rules(state.now.lines, reversed(order)):
        bar = bars.pop(node, None)
        if bar is None:
            if node in zeros:
                zeros.update([i for i in gradient_inputs(node) if i in open_nodes])
            continue
        if isinstance(bar, dict):  # a call with several outputs
            pulled = _called(node, {slot: c.value for slot, c in bar.items()}, open_nodes)
            if watch:
                watch(node, [c.value for c in bar.values()], pulled)
            for i, cotangent in pulled:
                _accumulate(bars, i, cotangent, open_nodes)
            continue
        if node.hooks:
            bar = Cotangent(hooked(node.hooks, bar.value), bar.masked)
        if node in targets:
            found[node] = bar
            if not any(i in open_nodes for i in gradient_inputs(node)):
                continue
        if node.slot is not None:
            # An output that a rule read back stands there once more.
            slots: Any = bars.setdefault(node.inputs[0], {})  # of a call: by output
            slots[node.slot] = _sum(slots.get(node.slot), bar)
            continue
        if node.call is not None:
            pulled = _called(node, {0: bar.value}, open_nodes)
        else:
            pulled = _pulled(node, bar)
            if len(pulled) < len(node.inputs) and not node.kind.op.discrete:
                zeros.update(open_nodes.intersection(node.inputs))
        if watch:
            watch(node, [bar.value], pulled)
        for i, cotangent in pulled:
            _accumulate(bars, i, cotangent, open_nodes)
    for node in zeros.intersection(targets) - set(found):
        found[node] = Cotangent(zeros_of(node.kind.out.aval), True)
    return found


def _called(node: Node, values: dict[int, Tensor], wanted: set[Node]) -> list[tuple[Node, Cotangent]]:
    """Apply the rule of a custom function to the cotangents of its outputs."""
    _refuse_released(node)
    COUNTS.rules += 1
    bars = call_rule(node, values, wanted)
    return [(i, Cotangent(g)) for i, g in zip(gradient_inputs(node), bars, strict=True) if g is not None]


def _pulled(node: Node, bar: Cotangent) -> list[tuple[Node, Cotangent]]:
    """Apply the rule of a primitive.  Numbers it states are constants of the graph."""
    inputs = node.inputs  # before the question whether they are all there still: another thread may release them
    _refuse_released(node)
    COUNTS.rules += 1
    op = node.kind.op
    if op.pull is None:
        if op.discrete:
            return []
        raise missing_rule(node)
    masked = bar.masked and op.keeps_mask
    pulled = _applied(op, node, inputs, bar, masked)
    masked = masked or op.masks
    return [(i, Cotangent(g, masked)) for i, g in zip(inputs, pulled, strict=True) if g is not None]


def _applied(
    op: Primitive, node: Node, inputs: Sequence[Node], bar: Cotangent, masked: bool
) -> Sequence[Tensor | None]:
    assert op.pull is not None
    before, state.now.literal = state.now.literal, True
    try:
        return op.pull(bar.value, handle(node), [handle(i) for i in inputs], node.kind.params, masked)
    finally:
        state.now.literal = before


def _refuse_released(node: Node) -> None:
    if node.kind.released:
        raise GradientError(
            "this part of the graph was released by an earlier backward\n"
            "  pass retain_graph=True to the first one to go through it again"
        )


def _accumulate(bars: dict, node: Node, new: Cotangent, open_nodes: set[Node]) -> None:
    if node not in open_nodes or not node.kind.out.requires_grad:
        return
    assert new.value.aval == node.kind.out.aval, f"cotangent {new.value.aval} for {node.kind.out.aval}"
    bars[node] = _sum(bars.get(node), new)


def _sum(old: Cotangent | None, new: Cotangent) -> Cotangent:
    if old is None:
        return new
    return Cotangent(add(old.value, new.value), old.masked and new.masked)
