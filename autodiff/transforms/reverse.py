"""Reverse mode: from cotangents of results to cotangents of what they were made from.

The walk goes over the history by falling creation number, so it neither recurses nor sees a node
before all its readers.  Rules are called with tensors and record their work like any program:
a backward pass is more nodes.  Whether what they record tracks gradients itself is the caller's
choice (`mode.MODE`).

Worked example: y = sin(x) * x, seed y_bar.

    mul   x_bar  = y_bar * sin(x)      s_bar = y_bar * x
    sin   x_bar += s_bar * cos(x)                               # x is reached: nothing below

Strong zero.  The cotangent of a branch that `where` did not take is exactly 0 and *masked*: it meets
partials through `mul0`, so 0 times inf stays 0.  A sum is masked only if all its terms are.

Many at once.  The rows of a Jacobian are passes back through one history.  They are one pass whose cotangents lie along
an axis 0 of their own: `Many` says how many they are, and makes of what a rule does with one what it does with each.

Zero everywhere.  What a rule of this library gives None for, as that of floor, has a derivative, which is 0: a target
that nothing else reaches gets zeros.  No rule runs on the way there.  A user's None reaches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from codegen.garbage import Paused
from codegen.ir import Aval
from codegen.records import NamedTuple

from ..errors import Error, GradientError
from ..mode import MODE
from ..ops.cancelling import seen_by
from ..ops.primitive import named, zeros_of
from ..tape.lines import belonging_to_rules
from ..tape.node import Node
from ..tape.plan import COUNTS
from ..tape.record import record, state
from ..tape.walk import gradient_inputs
from ..tensor import Tensor, handle
from .anomaly import watcher
from .hooks import run_hooks
from .rule_programs import RulePrograms, pulled_by_rule
from .rules import call_rule, missing_rule, watching_at
from .rules_by_key import again
from .wires import Wires, begun

__all__ = ["SUMS", "Cotangent", "LooksAtCotangents", "Many", "aval_of", "noted", "pull_back", "pull_back_masked"]

_ADD = named("add")
#: The kinds of sums that do not track, and of those that do.
SUMS = (_ADD.memo[False], _ADD.memo[True])


class Cotangent(NamedTuple):
    """A cotangent, and whether it is masked."""

    node: Node
    masked: bool = False


class LooksAtCotangents(Error):
    """A rule that looks at how its cotangent was recorded got many at once: each is to be recorded by itself."""


class Many(NamedTuple):
    """Many cotangents at once, along axis 0 of each.

    size   how many they are
    each   each(f, given) is f(given), done with each of the given cotangents; f gives tensors, or None
    """

    size: int
    each: Callable[[Callable[[list[Tensor]], Sequence[Tensor | None]], Sequence[Tensor]], list[Tensor | None]]


def aval_of(node: Node, many: Many | None) -> Aval:
    """The aval of a node's cotangent, or of many of them."""
    aval = node.kind.out.aval
    return aval if many is None else aval.with_shape((many.size, *aval.shape))


def pull_back(
    order: Sequence[Node], seeds: Iterable[tuple[Node, Tensor]], targets: Iterable[Node], many: Many | None = None
) -> dict[Node, Tensor]:  # fmt: skip
    """The cotangents of `targets`, given those of some results.  A target that is not reached has none.

    order     the history of the results, by creation
    seeds     (result, cotangent of its aval)
    targets   nodes of the history
    many      what cotangents are many

    Raises GradientError for a released node, a missing rule, or a rule that breaks its promises.
    """
    run = _BackwardPass(order, [(node, Cotangent(value.node)) for node, value in seeds], targets, many)
    return {node: noted(run.cotangent(node, at).node) for node, at in run.reached()}


def pull_back_masked(
    order: Sequence[Node], seeds: Iterable[tuple[Node, Cotangent]], targets: Iterable[Node]
) -> dict[Node, Cotangent]:  # fmt: skip
    """`pull_back` where it is known which cotangents are masked, before and after."""
    run = _BackwardPass(order, list(seeds), targets)
    return {node: run.cotangent(node, at) for node, at in run.reached()}


#: Of a node, by its place in the history: gradients reach a target through it; its cotangent is masked; it gets
#: nothing but the zeros of step functions; it is a target; it is a call, of which outputs have cotangents; its hooks
#: have run.  Machine code has the same (`recording_reverse`).
_OPEN, _MASKED, _ZERO, _TARGET, _CALL, _RAN = 1, 2, 4, 8, 16, 32


class _BackwardPass:
    """One backward pass.

    bars     by place, cotangents of nodes that the walk has not come to, and of targets
    flags    by place
    wires    by place, where the inputs of nodes are
    slots    cotangents of a call with several outputs, by the place of the call and the output
    """

    def __init__(
        self, order: Sequence[Node], seeds: Sequence[tuple[Node, Cotangent]], targets: Iterable[Node],
        many: Many | None = None,
    ) -> None:  # fmt: skip
        """Go through a history."""
        self.many = many
        self.order = order if type(order) is list else list(order)
        self.watch = watcher()
        self.programs = programs = None if self.watch else RulePrograms.now(is_many=many is not None)
        native = None if programs is None else programs.native
        self.slots: dict[int, dict[int, Cotangent]] = {}
        ends = [n for n, _ in seeds]
        self.targets = tuple(targets)
        if native is not None and programs is not None:
            bars, masked = tuple([c.node for _, c in seeds]), bytes([c.masked for _, c in seeds])
            try:
                words, self.bars, self.flags, at, *places = native.begin_back(
                    self.order, (*ends, *self.targets), bars, masked, programs.word, programs.used,
                    programs.stamp, SUMS[MODE.get().tracks], _added, self._hooked,
                )  # fmt: skip
                self._places = places[len(ends) :]
                if at >= 0:
                    self.wires = Wires(words)
                    self._go_natively(at, native, programs)
            finally:
                programs.note_used()
            return
        words, self.bars, self.flags, _, *places = begun(self.order, [*ends, *self.targets])
        self.wires = Wires(words)
        self._places = places[len(ends) :]
        for at in self._places:
            if at >= 0:
                self.flags[at] = _TARGET
        self._note_open()
        for (_, value), at in zip(seeds, places, strict=False):
            self._give(at, value)
        down = range(len(self.order) - 1, -1, -1)
        for at, _ in zip(down, belonging_to_rules(state.now.lines, reversed(self.order)), strict=True):
            self._go(at)

    def reached(self) -> list[tuple[Node, int]]:
        """The targets that are reached, and their places."""
        there = zip(self.targets, self._places, strict=True)
        return [(n, at) for n, at in there if at >= 0 and (self.bars[at] is not None or self.flags[at] & _ZERO)]

    def cotangent(self, node: Node, at: int) -> Cotangent:
        """The cotangent of a target that is reached."""
        bar = self.bars[at]
        if bar is None:
            return Cotangent(zeros_of(aval_of(node, self.many)).node, True)
        return Cotangent(bar, bool(self.flags[at] & _MASKED))

    def _note_open(self) -> None:
        """Note through which nodes gradients reach targets."""
        flags = self.flags
        for at, node in enumerate(self.order):
            if flags[at] & _TARGET or any([i >= 0 and flags[i] & _OPEN for i in self.wires.sources(at, node)]):
                flags[at] |= _OPEN

    def _go_natively(self, at: int, native: Any, programs: RulePrograms) -> None:
        """Go through the node at a place, and have machine code go through those behind it that do not need Python."""
        memo = SUMS[MODE.get().tracks]
        with Paused():  # nearly all that rules make is still in use
            while at >= 0:
                self._go(at)
                at = native.go_back(
                    self.order, self.bars, self.flags, self.wires.words, at - 1, programs.word, programs.used,
                    programs.stamp, memo, _added, self._hooked,
                )  # fmt: skip

    def _go(self, at: int) -> None:
        """Go through one node."""
        node, bar, said = self.order[at], self.bars[at], self.flags[at]
        slots = self.slots.pop(at, None) if self.slots else None
        if slots is not None:  # a call with several outputs
            self._call(at, node, slots)
        elif bar is None:
            if said & _ZERO:
                self._note_zeros(self.wires.sources(at, node))
        else:
            if not said & _TARGET:
                self.bars[at] = None
            self._look_closer(at, node, Cotangent(bar, bool(said & _MASKED)))

    def _hooked(self, node: Node, bar: Node) -> Node:
        """The cotangent of a node as its hooks leave it."""
        hooks = node.hooks
        assert hooks is not None
        if self.many is None:
            return run_hooks(hooks, noted(bar)).node
        (t,) = self.many.each(lambda bars: [run_hooks(hooks, bars[0])], [noted(bar)])
        assert t is not None
        return t.node

    def _look_closer(self, at: int, node: Node, bar: Cotangent) -> None:
        """Go through a node that has a cotangent."""
        if node.hooks and not self.flags[at] & _RAN:
            bar = Cotangent(self._hooked(node, bar.node), bar.masked)
        if self.flags[at] & _TARGET:
            self.bars[at] = bar.node
            if not any(map(self._is_open, self.wires.sources(at, node))):
                return
        if node.slot is not None:
            # An output that a rule read back stands there once more.
            (call,) = self.wires.of(at)[:1]
            slots = self.slots.setdefault(call, {})
            self.flags[call] |= _CALL
            slots[node.slot] = _sum(slots.get(node.slot), bar)
        elif node.call is not None:
            self._call(at, node, {0: bar})
        else:
            self._go_through(at, node, bar)

    def _is_open(self, at: int) -> bool:
        return at >= 0 and bool(self.flags[at] & _OPEN)

    def _note_zeros(self, places: Iterable[int]) -> None:
        for at in places:
            if self._is_open(at):
                self.flags[at] |= _ZERO

    def _call(self, at: int, node: Node, bars: dict[int, Cotangent]) -> None:
        """Apply the rule of a custom function to the cotangents of its outputs."""
        inputs = node.inputs
        _refuse_released(node)
        COUNTS.rules += 1
        wanted = {i for i, place in zip(inputs, self.wires.of(at), strict=True) if self._is_open(place)}

        def run() -> Sequence[Tensor | None]:
            given = [noted(c.node) for c in bars.values()]
            if self.many is None:
                return call_rule(node, dict(zip(bars, given, strict=True)), wanted)
            return self.many.each(lambda ones: call_rule(node, dict(zip(bars, ones, strict=True)), wanted), given)

        key = None
        if self.programs is not None and watching_at(node) is None:
            key = node.call.recorded_key()
        if key is not None:
            key = ("backward", key, self.many is None, tuple(bars), tuple(map(self._is_open, self.wires.of(at))))
        pulled = again(self.programs, key, [*[c.node for c in bars.values()], node, *inputs], run)
        bars_of_inputs = [None if g is None else Cotangent(g.node) for g in pulled]
        self._give_all(at, node, list(bars.values()), bars_of_inputs)

    def _go_through(self, at: int, node: Node, bar: Cotangent) -> None:
        """Go through an operation: by the program of its rule, if there is one."""
        inputs = node.inputs  # before the question whether they are all there still: another thread may release them
        _refuse_released(node)
        COUNTS.rules += 1
        op = node.kind.op
        masked = bar.masked and op.keeps_mask
        pulled = None
        if "cancels" in op.traits:
            pulled = self._cancelled(node, inputs, bar.node, masked)
        elif self.programs is not None:
            pulled = self.programs.pull(node, inputs, bar.node, bar.masked, self.many and self.many.each)
        if pulled is None:
            t = handle(bar.node)
            if self.many is None:
                found = _pulled(node, inputs, t, masked)
            else:
                found = self.many.each(lambda bars: _pulled(node, inputs, bars[0], masked), [t])
            pulled = [None if t is None else t.node for t in found]
        if None in pulled and not op.discrete:
            self._note_zeros(self.wires.of(at))
        masked = masked or op.masks
        self._give_all(at, node, [bar], [None if g is None else Cotangent(g, masked) for g in pulled])

    def _cancelled(self, node: Node, inputs: Sequence[Node], bar: Node, masked: bool) -> list[Node | None]:
        """The cotangents of the inputs of an operation whose rule looks at how its cotangent was recorded."""
        if self.many is not None:
            raise LooksAtCotangents(f"{node.kind.op.name} looks at how each of its cotangents was recorded")
        seen = None if self.programs is None else seen_by(bar, node)
        key, given = (None, ()) if seen is None else ((node.kind, masked, *seen[0]), (bar, node, *inputs, *seen[1]))
        found = again(self.programs, key, given, lambda: _pulled(node, inputs, handle(bar), masked))
        return [None if t is None else t.node for t in found]

    def _give_all(
        self, at: int, node: Node, bars: Sequence[Cotangent], given: Sequence[Cotangent | None]
    ) -> None:
        """Give cotangents to the inputs that a node's cotangent goes to."""
        sources = self.wires.sources(at, node)
        if self.watch:
            there = zip(gradient_inputs(node), given, strict=True)
            self.watch(node, [c.node for c in bars], [(i, c) for i, c in there if c is not None])
        for i, cotangent in zip(sources, given, strict=True):
            if cotangent is not None:
                self._give(i, cotangent)

    def _give(self, at: int, new: Cotangent) -> None:
        """Add to the cotangent of a node, unless it is in no history, or leads to no target."""
        if not self._is_open(at):
            return
        out = self.order[at].kind.out
        if not out.requires_grad:
            return
        assert new.node.kind.out.aval == aval_of(self.order[at], self.many), f"{new.node.kind.out.aval} for {out.aval}"
        old = self.bars[at]
        total = _sum(None if old is None else Cotangent(old, bool(self.flags[at] & _MASKED)), new)
        self.bars[at] = total.node
        self.flags[at] = self.flags[at] | _MASKED if total.masked else self.flags[at] & ~_MASKED


def _pulled(node: Node, inputs: Sequence[Node], bar: Tensor, masked: bool) -> Sequence[Tensor | None]:
    """Apply the rule of a primitive."""
    op = node.kind.op
    if op.pull is None:
        if op.discrete:
            return [None] * len(inputs)
        raise missing_rule(node)
    return pulled_by_rule(node.kind, [bar, handle(node), *map(handle, inputs)], masked)


def _refuse_released(node: Node) -> None:
    """Raise GradientError for a node whose history was given up."""
    if node.kind.released:
        raise GradientError(
            "this part of the graph was released by an earlier backward\n"
            "  pass retain_graph=True to the first one to go through it again"
        )


def noted(node: Node) -> Tensor:
    """A handle on a gradient that somebody gets: a small one is computed with what is asked for."""
    t = handle(node)
    if node.kind.out.small and node.value is None:
        state.now.note_small(t)
    return t


def _sum(old: Cotangent | None, new: Cotangent) -> Cotangent:
    return new if old is None else Cotangent(_added(old.node, new.node), old.masked and new.masked)


def _added(old: Node, new: Node) -> Node:
    return record(_ADD, (handle(old), handle(new))).node
