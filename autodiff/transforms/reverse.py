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

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from codegen.records import NamedTuple

from ..errors import GradientError
from ..ops.primitive import named, zeros_of
from ..tape.lines import belonging_to_rules
from ..tape.machine import asks
from ..tape.node import Node
from ..tape.plan import COUNTS
from ..tape.record import grad_mode, record, state
from ..tape.walk import gradient_inputs
from ..tensor import Tensor, handle
from .anomaly import watcher
from .hooks import run_hooks
from .rules import call_rule, missing_rule
from .vjp_programs import VJPPrograms, pulled_by_rule

__all__ = ["Cotangent", "pull_back", "pull_back_masked", "reaching"]

_ADD = named("add")


class Cotangent(NamedTuple):
    """A cotangent, and whether it is masked."""

    node: Node
    masked: bool = False


def reaching(order: Sequence[Node], targets: Iterable[Node]) -> set[Node]:
    """The nodes of a history through which gradients reach `targets`."""
    found = set(targets)
    for node in order:
        if node not in found and any([i in found for i in gradient_inputs(node)]):
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
    found = pull_back_masked(order, [(node, Cotangent(value.node)) for node, value in seeds], targets, hooked)
    return {node: _noted(bar.node) for node, bar in found.items()}


def pull_back_masked(
    order: Sequence[Node], seeds: Iterable[tuple[Node, Cotangent]], targets: Iterable[Node],
    hooked: Callable[[dict[Any, Callable], Tensor], Tensor] = run_hooks,
) -> dict[Node, Cotangent]:  # fmt: skip
    """`pull_back` where it is known which cotangents are masked, before and after."""
    return _Pass(order, targets, hooked).run(seeds)


#: Of a node, by its place in the history: gradients reach a target through it; its cotangent is masked; it gets
#: nothing but the zeros of step functions; it is a target; it is a call, of which outputs have cotangents.  Machine
#: code has the same (`recording_reverse`).
_OPEN, _MASKED, _ZERO, _TARGET, _CALL = 1, 2, 4, 8, 16
_stamps = itertools.count(1)


class _Pass:
    """One backward pass.

    place    of each node in the history
    bars     by place, cotangents of nodes that the walk has not come to, and of targets
    flags    by place
    slots    cotangents of a call with several outputs, by output
    """

    def __init__(
        self, order: Sequence[Node], targets: Iterable[Node], hooked: Callable[[dict[Any, Callable], Tensor], Tensor]
    ) -> None:
        self.order, self.hooked = list(order), hooked
        self.place = {n: i for i, n in enumerate(order)}
        self.bars: list[Node | None] = [None] * len(order)
        self.flags = bytearray(len(order))
        self.slots: dict[Node, dict[int, Cotangent]] = {}
        self.targets = [n for n in dict.fromkeys(targets) if n in self.place]
        for n in self.targets:
            self.flags[self.place[n]] = _TARGET
        self.watch = watcher()
        now = state.now
        self.programs = None if self.watch else VJPPrograms.now(grad_mode.get())
        is_told = now.lines is not None or now.captures is not None
        self.native = None if self.programs is None or is_told else asks()
        if self.native is not None:
            self.native.opened(self.order, self.flags)
        else:
            for n in reaching(order, self.targets):
                self.flags[self.place[n]] |= _OPEN

    def run(self, seeds: Iterable[tuple[Node, Cotangent]]) -> dict[Node, Cotangent]:
        """The cotangents of targets."""
        for node, value in seeds:
            self._give(node, value)
        if self.native is not None and self.programs is not None:
            self._go_natively(self.native, self.programs)
        else:
            places = range(len(self.order) - 1, -1, -1)
            for at, _ in zip(places, belonging_to_rules(state.now.lines, reversed(self.order)), strict=True):
                self._go(at)
        found: dict[Node, Cotangent] = {}
        for node in self.targets:
            at = self.place[node]
            bar = self.bars[at]
            if bar is not None:
                found[node] = Cotangent(bar, bool(self.flags[at] & _MASKED))
            elif self.flags[at] & _ZERO:
                found[node] = Cotangent(zeros_of(node.kind.out.aval).node, True)
        return found

    def _go_natively(self, native: Any, programs: VJPPrograms) -> None:
        """Have machine code go through all nodes but those that need Python."""
        used: list[Any] = []
        mode, stamp, at = grad_mode.get(), next(_stamps), len(self.order) - 1
        try:
            while True:
                at = native.go_back(
                    self.order, self.bars, self.flags, at, mode, used, stamp, _ADD.memo[mode], _added
                )
                if at < 0:
                    break
                self._go(at)
                at -= 1
        finally:
            for program in used:
                programs.note(program.entry)

    def _go(self, at: int) -> None:
        """Go through one node."""
        node, bar, said = self.order[at], self.bars[at], self.flags[at]
        slots = self.slots.pop(node, None) if self.slots else None
        if slots is not None:  # a call with several outputs
            self._call(node, slots)
        elif bar is None:
            if said & _ZERO:
                self._note_zeros(gradient_inputs(node))
        else:
            if not said & _TARGET:
                self.bars[at] = None
            self._look_closer(at, node, Cotangent(bar, bool(said & _MASKED)))

    def _look_closer(self, at: int, node: Node, bar: Cotangent) -> None:
        """Go through a node that has a cotangent."""
        if node.hooks:
            bar = Cotangent(self.hooked(node.hooks, _noted(bar.node)).node, bar.masked)
        if self.flags[at] & _TARGET:
            self.bars[at] = bar.node
            if not any(map(self._is_open, gradient_inputs(node))):
                return
        if node.slot is not None:
            # An output that a rule read back stands there once more.
            call = node.inputs[0]
            slots = self.slots.setdefault(call, {})
            self.flags[self.place[call]] |= _CALL
            slots[node.slot] = _sum(slots.get(node.slot), bar)
        elif node.call is not None:
            self._call(node, {0: bar})
        else:
            self._go_through(node, bar)

    def _is_open(self, node: Node) -> bool:
        at = self.place.get(node)
        return at is not None and bool(self.flags[at] & _OPEN)

    def _note_zeros(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if self._is_open(node):
                self.flags[self.place[node]] |= _ZERO

    def _call(self, node: Node, bars: dict[int, Cotangent]) -> None:
        """Apply the rule of a custom function to the cotangents of its outputs."""
        _refuse_released(node)
        COUNTS.rules += 1
        wanted = {i for i in node.inputs if self._is_open(i)}
        pulled = call_rule(node, {slot: _noted(c.node) for slot, c in bars.items()}, wanted)
        given = [(i, Cotangent(g.node)) for i, g in zip(gradient_inputs(node), pulled, strict=True) if g is not None]
        self._give_all(node, list(bars.values()), given)

    def _go_through(self, node: Node, bar: Cotangent) -> None:
        """Go through an operation: by the program of its rule, if there is one."""
        inputs = node.inputs  # before the question whether they are all there still: another thread may release them
        _refuse_released(node)
        COUNTS.rules += 1
        op = node.kind.op
        masked = bar.masked and op.keeps_mask
        program = None if self.programs is None else self.programs.find(node, inputs, bar.node, masked)
        if program is None:
            pulled = _pulled(node, inputs, bar.node, masked)
        else:
            made = iter(program.put((bar.node, node, *inputs)))
            pulled = [None if place is None else next(made) for place in program.results]
        if None in pulled and not op.discrete:
            self._note_zeros(inputs)
        masked = masked or op.masks
        given = [(i, Cotangent(g, masked)) for i, g in zip(inputs, pulled, strict=True) if g is not None]
        self._give_all(node, [bar], given)

    def _give_all(self, node: Node, bars: Sequence[Cotangent], given: Sequence[tuple[Node, Cotangent]]) -> None:
        if self.watch:
            self.watch(node, [c.node for c in bars], given)
        for i, cotangent in given:
            self._give(i, cotangent)

    def _give(self, node: Node, new: Cotangent) -> None:
        """Add to the cotangent of a node."""
        out = node.kind.out
        if not out.requires_grad or not self._is_open(node):
            return
        assert new.node.kind.out.aval == out.aval, f"cotangent {new.node.kind.out.aval} for {out.aval}"
        at = self.place[node]
        old = self.bars[at]
        total = _sum(None if old is None else Cotangent(old, bool(self.flags[at] & _MASKED)), new)
        self.bars[at] = total.node
        self.flags[at] = self.flags[at] | _MASKED if total.masked else self.flags[at] & ~_MASKED


def _pulled(node: Node, inputs: Sequence[Node], bar: Node, masked: bool) -> list[Node | None]:
    """Apply the rule of a primitive."""
    op = node.kind.op
    if op.pull is None:
        if op.discrete:
            return [None] * len(inputs)
        raise missing_rule(node)
    found = pulled_by_rule(node.kind, [handle(n) for n in (bar, node, *inputs)], masked)
    return [None if t is None else t.node for t in found]


def _refuse_released(node: Node) -> None:
    """Raise GradientError for a node whose history was given up."""
    if node.kind.released:
        raise GradientError(
            "this part of the graph was released by an earlier backward\n"
            "  pass retain_graph=True to the first one to go through it again"
        )


def _noted(node: Node) -> Tensor:
    """A handle on a gradient that somebody gets: a small one is computed with what is asked for."""
    t = handle(node)
    if node.kind.out.small and node.value is None:
        state.now.note_small(t)
    return t


def _sum(old: Cotangent | None, new: Cotangent) -> Cotangent:
    return new if old is None else Cotangent(_added(old.node, new.node), old.masked and new.masked)


def _added(old: Node, new: Node) -> Node:
    return record(_ADD, (handle(old), handle(new))).node
