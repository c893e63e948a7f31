"""Reverse mode: from cotangents of results to cotangents of the nodes they were computed from.

The walk goes over the history by falling creation number, so it does not recurse, and it visits a node after all
readers of that node.  Rules are called with tensors and record their work like any program: a backward pass is more
nodes, which track gradients themselves if `mode.MODE` says so.

Worked example: y = sin(x) * x, seed y_bar.

    mul   x_bar  = y_bar * sin(x)      s_bar = y_bar * x
    sin   x_bar += s_bar * cos(x)                               # x is reached: nothing lies below it

Strong zero.  The cotangent of a branch that `where` did not take is exactly 0 and *masked*: rules multiply it by
partials with `mul0`, so 0 times inf stays 0.  A sum is masked only if all its terms are.

Many at once.  The rows of a Jacobian are computed in one pass, whose cotangents lie along an extra axis 0: see `Many`.

Zero everywhere.  When a library rule returns None for an input, as that of floor does, the derivative exists and is 0:
a target that nothing else reaches gets zeros, and no rule runs on the way to it.  A user's None reaches nothing.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from codegen.records import NamedTuple

from ..errors import GradientError
from ..mode import MODE
from ..ops.primitive import named, zeros_of
from ..tape.lines import visit_rules
from ..tape.modes import within
from ..tape.node import Kind, Node, Primitive
from ..tape.plan import COUNTS
from ..tape.record import record, result_handle, state
from ..tape.walk import gradient_inputs
from ..tensor import Tensor, handle
from .anomaly import watch
from .hooks import run_hooks
from .rule_programs import MASKED, RulePrograms, missing_rule
from .rules import call_rule, run_or_replay, watching_at

_ADD = named("add")
#: The kinds of two sum nodes: one that does not track, one that does.
SUMS = (_ADD.memo[False], _ADD.memo[True])


class Many(NamedTuple):
    """Many cotangents at once, `size` of them along axis 0.   each(f, given): f applied to each, results stacked"""

    size: int
    each: Callable[[Callable[[list[Tensor]], Sequence[Tensor | None]], Sequence[Tensor]], list[Tensor | None]]


#: Flags of a node, by its place in the history: gradients reach a target through it; its cotangent is masked; it gets
#: only the zeros of step functions; it is a target; it is a call some of whose outputs have cotangents; its hooks
#: have run; its rule looks at how its cotangent, or tangents, were recorded.  Machine code uses the same flags
#: (`recording_reverse`).
_OPEN, _MASKED, _ZERO, _TARGET, _CALL, _RAN, _LOOK = 1, 2, 4, 8, 16, 32, 64

#: A result, its cotangent, and perhaps True if the cotangent is masked.
Seed = tuple[Node, Node] | tuple[Node, Node, bool]


def left_by_hooks(hooks: dict[Any, Callable], bar: Tensor, many: Many | None) -> Tensor:
    """Run hooks on a cotangent, or on each of many, and return their result."""
    left = run_hooks(hooks, bar) if many is None else many.each(lambda bars: [run_hooks(hooks, bars[0])], [bar])[0]
    assert left is not None
    return left


def recording_rules(tracks: bool) -> within:
    """A block that records the operations of rules: it evaluates nothing, and tracks gradients only if `tracks`."""
    mode = MODE.get()
    return within(mode.on if tracks else mode.off, start=0)


class ReversePass:
    """One backward pass.

    bars     by place in the history: cotangents of targets, and of nodes not yet visited; `flags` and `wires` likewise
    slots    cotangents of a call with several outputs, by the place of the call and the output's slot
    """

    __slots__ = ("_places", "bars", "flags", "many", "order", "programs", "slots", "tracks", "watch", "wires")

    def __init__(
        self, order: list[Node], seeds: Sequence[Seed], targets: tuple[Node, ...], tracks: bool,
        looks: Collection[Primitive], many: Many | None = None, is_users: bool = True,
    ) -> None:  # fmt: skip
        """Walk the history `order` from the cotangents of its results to the targets.

        tracks    True if the nodes of rules track gradients;  many: set when each cotangent is many at once
        looks     the operations whose rules look at how their cotangents were recorded (`backward_pass.looking`)
        is_users  True if a user sees these cotangents as gradients, in which anomalies may be looked for
        """
        self.many, self.order, self.tracks = many, order, tracks
        self.slots: dict[int, dict[int, Node]] = {}
        self.programs = programs = RulePrograms.for_pass(tracks, many is not None)
        self.watch = watch if programs is None and is_users and MODE.get().anomalies and not state.now.tracing else None
        assert many is None or not looks, "each cotangent is recorded in its own way"
        made = initial_state(programs, order, targets, tuple([seed[0] for seed in seeds]))
        self.wires, self.bars, self.flags, *places = made
        if looks:
            mark_looking(self.flags, order, looks)
        self._places = places[: len(targets)]
        down = range(len(order) - 1, -1, -1)
        if programs is not None:
            self._give_seeds(places[len(targets) :], seeds)
            rules = programs.word, programs.used, programs.stamp, SUMS[tracks], self._sum, self._hooked
            programs.walk_natively(programs.native.run_backward_pass, order, made, down, rules, self._visit_for_machine)
            return
        lines = state.now.lines
        with recording_rules(tracks):
            self._give_seeds(places[len(targets) :], seeds)
            if lines is not None:
                visit_rules(lines, order, down, self.visit_node)
                return
            for at in down:
                self.visit_node(at)

    def _give_seeds(self, places: Sequence[int], seeds: Sequence[Seed]) -> None:
        for at, seed in zip(places, seeds, strict=True):
            self._give(at, seed[1], seed[2:] == (True,))

    def reached(self) -> list[tuple[Node, Node, bool]]:
        """The reached targets: (target, its cotangent, True if the cotangent is masked) for each."""
        ends = zip(self._places, self.cotangents(), strict=True)
        return [(self.order[at], bar.node, self.flags[at] & _MASKED > 0) for at, bar in ends if bar is not None]

    def cotangents(self) -> list[Tensor | None]:
        """The cotangents of the targets; None for one that is not reached."""
        found: list[Tensor | None] = []
        for at in self._places:
            bar = None if at < 0 else self.bars[at]
            if bar is None and at >= 0 and self.flags[at] & _ZERO:
                aval = self.order[at].kind.out.aval
                shape = aval.shape if self.many is None else (self.many.size, *aval.shape)
                bar = zeros_of(aval.with_shape(shape)).node
                self.flags[at] |= _MASKED
            found.append(None if bar is None else result_handle(bar))
        return found

    def _visit_for_machine(self, at: int) -> None:
        with recording_rules(self.tracks):
            self.visit_node(at)

    def visit_node(self, at: int) -> None:
        """Visit one node: run its hooks, then the rule of its call or of its operation."""
        node, bar, said = self.order[at], self.bars[at], self.flags[at]
        if self.slots and at in self.slots:  # a call with several outputs
            self._call(at, node, self.slots.pop(at))
            return
        if bar is None:
            if said & _ZERO:
                self._note_zeros(sources_at(self.wires, at, node))
            return
        if node.hooks and not said & _RAN:
            bar = self._hooked(node, bar)
        self.bars[at] = bar if said & _TARGET else None
        if said & _TARGET and not any(map(self._is_open, sources_at(self.wires, at, node))):
            return
        if node.slot is not None:
            # A rule that reads an output back makes a second node for its slot: their cotangents are added.
            (call,) = inputs_at(self.wires, at)[:1]
            slots = self.slots.setdefault(call, {})
            self.flags[call] |= _CALL
            slots[node.slot] = _added(slots[node.slot], bar) if node.slot in slots else bar
            return
        if node.call is not None:
            self._call(at, node, {0: bar})
            return
        inputs = node.inputs  # read before the check below: another thread may release them at any moment
        _refuse_released(node)
        COUNTS.rules += 1
        op, masked = node.kind.op, bool(said & _MASKED)
        is_kept = masked and op.keeps_mask
        if said & _LOOK:
            found = pulled_by_rule(node.kind, is_kept, (bar, node, *inputs), looks=True)
        else:
            given, programs = (bar, node, *inputs), self.programs
            rule = partial(pulled_by_rule if self.many is None else self._by_rule, node.kind, is_kept)
            word = MASKED if masked else 0
            found = rule(given) if programs is None else programs.applied(node.kind, given, 1, word, rule)
        if not op.discrete and any([g is None for g in found]):
            self._note_zeros(inputs_at(self.wires, at))
        self._give_all(at, node, [bar], found, is_kept or op.masks)

    def _by_rule(self, kind: Kind, masked: bool, given: Sequence[Node]) -> Sequence[Tensor | None]:
        """`pulled_by_rule` for each of many cotangents."""
        assert self.many is not None
        bar, *beside = given
        return self.many.each(lambda bars: pulled_by_rule(kind, masked, (bars[0].node, *beside)), [handle(bar)])

    def _hooked(self, node: Node, bar: Node) -> Node:
        """The cotangent of a node after its hooks."""
        assert node.hooks is not None
        with recording_rules(self.tracks):
            return left_by_hooks(node.hooks, result_handle(bar), self.many).node

    def _sum(self, old: Node, new: Node) -> Node:
        """The sum of two cotangents, for machine code, which records outside of `recording_rules`."""
        with recording_rules(self.tracks):
            return _added(old, new)

    def _is_open(self, at: int) -> bool:
        return at >= 0 and bool(self.flags[at] & _OPEN)

    def _note_zeros(self, places: Iterable[int]) -> None:
        for at in places:
            if self._is_open(at):
                self.flags[at] |= _ZERO

    def _call(self, at: int, node: Node, bars: dict[int, Node]) -> None:
        """Apply the rule of a custom function to the cotangents of its outputs."""
        inputs = node.inputs
        _refuse_released(node)
        COUNTS.rules += 1
        are_open = tuple(map(self._is_open, inputs_at(self.wires, at)))
        wanted = {i for i, is_open in zip(inputs, are_open, strict=True) if is_open}

        def run() -> Sequence[Tensor | None]:
            given = list(map(result_handle, bars.values()))
            if self.many is None:
                return call_rule(node, dict(zip(bars, given, strict=True)), wanted)
            return self.many.each(lambda ones: call_rule(node, dict(zip(bars, ones, strict=True)), wanted), given)

        key = None
        if self.programs is not None and watching_at(node) is None:
            key = node.call.recorded_key()
        if key is not None:
            key = ("backward", key, self.many is None, tuple(bars), are_open)
        found = run_or_replay(self.programs, key, [*bars.values(), node, *inputs], run)
        self._give_all(at, node, list(bars.values()), found, False)

    def _give_all(
        self, at: int, node: Node, bars: Sequence[Node], found: Sequence[Tensor | None], masked: bool
    ) -> None:
        """Give the results of a node's rule to the inputs that gradients flow to.   masked: they are masked"""
        given = [None if g is None else g.node for g in found]
        if self.watch:
            there = zip(gradient_inputs(node), given, strict=True)
            self.watch(node, bars, [(i, g) for i, g in there if g is not None])
        for i, g in zip(sources_at(self.wires, at, node), given, strict=True):
            if g is not None:
                self._give(i, g, masked)

    def _give(self, at: int, new: Node, masked: bool) -> None:
        """Add to the cotangent of a node, unless the node is outside the history or leads to no target."""
        out = self.order[at].kind.out if at >= 0 and self.flags[at] & _OPEN else None
        if out is None or not out.requires_grad:
            return
        due, aval = out.aval, new.kind.out.aval
        assert aval is due or (aval.shape[self.many is not None :], aval.dtype) == (due.shape, due.dtype)
        old = self.bars[at]
        add = _added if self.programs is None else self._sum
        self.bars[at] = new if old is None else add(old, new)
        if old is None and masked:
            self.flags[at] |= _MASKED
        elif old is not None and not masked:
            self.flags[at] &= ~_MASKED


def pulled_by_rule(
    kind: Kind, masked: bool, given: Sequence[Node], *, looks: bool = False
) -> Sequence[Tensor | None]:
    """The cotangents of a node's inputs by its rule.  Numbers are constants.

    given    cotangent, node, inputs;  looks: the rule looks at how the cotangent was recorded, if it can
    """
    bar, y, *xs = given
    if kind.op.pull is None:
        raise missing_rule(y)
    before, state.now.literal = state.now.literal, True
    try:
        more = (False,) if "cancels" in kind.op.traits and not looks else ()
        return kind.op.pull(handle(bar), handle(y), list(map(handle, xs)), kind.params, masked, *more)
    finally:
        state.now.literal = before


def _refuse_released(node: Node) -> None:
    """Raise GradientError for a node of a released history."""
    if node.kind.released:
        raise GradientError(
            "this part of the graph was released by an earlier backward\n"
            "  pass retain_graph=True to the first one to go through it again"
        )


def _added(old: Node, new: Node) -> Node:
    return record(_ADD, (handle(old), handle(new))).node


def initial_state(
    programs: RulePrograms | None, order: Sequence[Node], targets: tuple[Node, ...], asked: tuple[Node, ...]
) -> list[Any]:
    """The state of a pass, in the layout of `recording_rules.new_pass`: wires, cotangents, flags, places of nodes."""
    if programs is not None:
        made: list[Any] = programs.native.new_pass(order, targets, asked)
        return made
    place = {n: k for k, n in enumerate(order)}
    inputs = [[place.get(i, -1) for i in n.inputs] for n in order]
    starts = itertools.accumulate(map(len, inputs), initial=len(order) + 1)
    words = array("i", [*starts, *itertools.chain.from_iterable(inputs)]).tobytes()
    flags = bytearray(len(order))
    for n in targets:
        if n in place:
            flags[place[n]] = _TARGET
    for at, node in enumerate(order if targets else ()):
        if flags[at] & _TARGET or any([i >= 0 and flags[i] & _OPEN for i in sources_at(words, at, node)]):
            flags[at] |= _OPEN
    return [words, [None] * len(order), flags, *[place.get(n, -1) for n in (*targets, *asked)]]


def mark_looking(flags: bytearray, order: Sequence[Node], looks: Collection[Primitive]) -> None:
    """Set the flag of nodes whose rules look at recordings.   looks: their operations"""
    for at in [k for k, n in enumerate(order) if n.kind.op in looks]:
        flags[at] |= _LOOK


def inputs_at(wires: bytes, at: int) -> Sequence[int]:
    """The places of the inputs of the node at a place, from the wires of a pass; -1 for an input outside the pass."""
    words = memoryview(wires).cast("i")
    return words[words[at] : words[at + 1]]


def sources_at(wires: bytes, at: int, node: Node) -> Sequence[int]:
    """The places of the inputs that gradients of the node at a place flow to."""
    found = inputs_at(wires, at)
    if type(node) is Node:
        return found
    if node.leaf is not None:
        return ()
    return found if node.flow is None else found[node.flow]
