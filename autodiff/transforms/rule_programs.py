"""The rules of this library's operations as programs: recorded once, put down again without the rule.

A rule never looks at values: what it records is decided by the kind of the node, by the Outs of what it is given
beside, and by a word: which sort of rule it is, whether what it records tracks, and

    VJP rule        whether the cotangent is masked        given: the cotangent, the node, its inputs
                    or many, and is done with each
    JVP rule        which inputs have tangents             given: these (None: none), the node, its inputs
    batching rule   which inputs differ between examples   given: these for all examples, the node, its inputs

When such a rule is met for the second time, it runs on examples, and what it recorded is kept with the kind.  A rule of
loops and branches, or in which methods of the user's were chosen, runs each time.  A rule that looks at how its
cotangent was recorded is found by what it sees (`rules.again`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from codegen.symbols import is_watched

from ..custom.keys import users_methods
from ..dispatch import Choices, include, is_observed, observed
from ..errors import GradientError
from ..mode import MODE
from ..tape import machine
from ..tape.node import Kind, Node, Out, Primitive, new_number, put_down, rich_node
from ..tape.record import argument, state
from ..tape.walk import is_repeatable, recorded_between
from ..tensor import Tensor, handle

#: A word: the sort of a rule, and bits.  Machine code has the same (`recording_rules`).
_PULL, PUSH, BATCH = 0, 1, 2
_TRACKS, MASKED, _MANY, _FIRST_INPUT = 1 << 2, 1 << 3, 1 << 4, 8
#: The most inputs of which a word says whether they have tangents.
_MOST_INPUTS = 48
#: The most rules of one kind that are known: a batching rule for each number of examples is another one.
_MOST_RULES = 16
_stamps = itertools.count(1)
_new = object.__new__


class RuleProgram:
    """The equations that a rule recorded.

    word, outs    what decides beside the kind what the rule records
    steps         kind, value and inputs of each node, behind those that are given; None: the rule runs
    is_never      it runs each time
    rich          which steps are outputs of a call that are read back: their body, flow and slot
    results       of them all, the cotangent of each input, or the one result; None for none
    choices       of dispatch that it relies on
    """

    __slots__ = ("_native", "choices", "given", "is_never", "outs", "results", "rich", "steps", "word")

    choices: Choices
    given: int
    results: Sequence[int | None]
    rich: dict[int, tuple[int | None, Any, int | None]]

    def __init__(self, word: int, outs: tuple[Out, ...]) -> None:
        self.word, self.outs = word, outs
        self.steps: Sequence[tuple] | None = None
        self.is_never = False
        self._native: Any = None

    def learn(
        self, run: Callable[[], Sequence[Any]], given: Sequence[Node | None], is_users: bool = False
    ) -> Sequence[Any]:
        """Run the rule on given nodes, and note what it records, if that can be put down again: its results."""
        now = state.now
        asked, start = now.asked, new_number()
        with observed() as choices:
            found = run()
        if now.asked != asked or users_methods(choices) or not all([isinstance(t, Tensor | None) for t in found]):
            return found
        place = {n: k for k, n in enumerate(given) if n is not None}
        made = recorded_between([t.node for t in found if t is not None], place)
        if all([is_repeatable(n, start) and _can_be_put_down(n, is_users) for n in made]):
            place |= {n: len(given) + k for k, n in enumerate(made)}
            steps = [(n.kind, n.value, tuple([place[i] for i in n.inputs])) for n in made]
            self.rich = {k: (n.body, n.flow, n.slot) for k, n in enumerate(made) if type(n) is not Node}
            self.results, self.choices = [None if t is None else place[t.node] for t in found], choices
            self.given, self.steps = len(given), steps
        return found

    def for_machine(self, native: Any, op: Primitive) -> Any:
        """The program of an operation's rule as machine code knows it."""
        if self._native is None:
            has_zeros = None in self.results and not op.discrete
            masks = op.masks or bool(op.keeps_mask and self.word & MASKED)
            self._native = native.steps(
                self.given, self.steps, self.results, masks, has_zeros, self.word, self.outs, self
            )
        return self._native

    def put(self, given: Sequence[Node | None]) -> list[Node | None]:
        """Put it down: its results."""
        assert self.steps is not None
        nodes: list[Any] = list(given)
        start = 0
        for at, fields in self.rich.items():
            put_down(self.steps[start:at], nodes)
            kind, _, picks = self.steps[at]
            made = rich_node(kind, tuple([nodes[i] for i in picks]))
            made.body, made.flow, made.slot = fields
            nodes.append(made)
            start = at + 1
        put_down(self.steps[start:] if start else self.steps, nodes)
        return [None if place is None else nodes[place] for place in self.results]


def _can_be_put_down(node: Node, is_users: bool) -> bool:
    """True for a node that has no rule or hooks of its own, and no array that may be lent."""
    if not is_users or isinstance(node.value, np.ndarray):
        return not is_users and type(node) is Node
    is_read_back = node.slot is not None and node.retained is None and not node.hooks and node.line is None
    return type(node) is Node or is_read_back  # an output of a call, and no more than that


class RulePrograms:
    """The programs of one pass, which has a number (`stamp`): those that machine code, `native`, has used.

    word      that of a VJP rule whose cotangent is not masked
    """

    __slots__ = ("native", "stamp", "used", "word")

    native: Any
    stamp: int
    used: list[Any]
    word: int

    @classmethod
    def now(cls, tracks: bool, is_many: bool = False) -> RulePrograms | None:
        """None where each rule has to run: without machine code, and where what is recorded is looked at."""
        now, mode, native = state.now, MODE.get(), machine.asks
        if native is None or mode.eager or mode.anomalies or now.lines is not None or now.captures is not None:
            return None
        if is_watched():
            return None
        made = _new(cls)  # without a frame of its own: each pass needs one
        made.native, made.used, made.stamp = native, [], next(_stamps)
        made.word = (_TRACKS if tracks else 0) | (_MANY if is_many else 0)
        return made

    def applied(
        self, kind: Kind, given: Sequence[Node | None], beside: int, word: int,
        rule: Callable[[Sequence[Any]], Sequence[Any]],
    ) -> Sequence[Any]:  # fmt: skip
        """The results of the rule of a node of no call.

        given     so many `beside` the node: the cotangent, or for each input its tangent, or it for all examples, if
                  any; then the node and its inputs
        word      bits that decide, beside those of the pass, and of which inputs have something beside
        rule      from what is given to its results
        """
        if len(given) - beside - 1 > _MOST_INPUTS:
            return rule(given)
        word |= self.word
        if word & 3 != _PULL:
            word |= sum([1 << _FIRST_INPUT + k for k, n in enumerate(given[:beside]) if n is not None])
        outs = tuple([n.kind.out for n in given[:beside] if n is not None])
        if kind.rules is None:
            kind.rules = self.native.rules([], [])
        rules = kind.rules.programs
        found = next((p for p in rules if p.word == word and p.outs == outs), None)
        if found is None:
            if len(rules) >= _MOST_RULES:
                del rules[0]
            found = RuleProgram(word, outs)
            found.is_never = kind.op.has_regions
            rules.append(found)
        elif found.steps is None and not found.is_never:
            _learn(found, given, rule)
            found.is_never = found.steps is None
            if found.steps is not None:
                found.choices.on_change(partial(_forget, ref(kind), found))
                _tell_machine(kind)
        return rule(given) if found.steps is None else self.put(found, given)

    def go(
        self, walk: Callable[..., int], order: Sequence[Node], made: list[Any], places: range, rules: tuple,
        visit: Callable[[int], Any],
    ) -> None:  # fmt: skip
        """Have machine code, `walk`, go through all nodes, in the order of places, but those that need Python."""
        at = places.start
        try:
            while (at := walk(order, made, at, *rules)) in places:
                visit(at)
                at += places.step
        finally:
            if is_observed():
                for program in self.used:
                    include(program.entry.choices)

    def put(self, program: RuleProgram, given: Sequence[Node | None]) -> list[Tensor | None]:
        """Put a program down: its results."""
        include(program.choices)  # whoever observes choices relies on them
        return [None if n is None else handle(n) for n in program.put(given)]


def _tell_machine(kind: Kind) -> None:
    """Have machine code know the rules of a kind."""
    native = machine.asks
    if native is not None:
        programs = kind.rules.programs
        # Of an operation with a kink Python looks at the tangents, too (`forward`).
        has_kink = "cancels" in kind.op.traits
        known = [p for p in programs if p.steps is not None and not (p.word & 3 == PUSH and has_kink)]
        kind.rules = native.rules(programs, [p.for_machine(native, kind.op) for p in known])


def _forget(known: ref[Kind], program: RuleProgram) -> None:
    """Have the rule run again: what it relied on has changed."""
    kind = known()
    if kind is not None and program in kind.rules.programs:
        kind.rules.programs.remove(program)
        _tell_machine(kind)


def missing_rule(node: Node) -> GradientError:
    """The error for an operation without a derivative."""
    op = node.kind.op
    inputs = ", ".join(str(i.kind.out.aval) for i in node.inputs)
    return GradientError(
        f"{op.name}({inputs}) has no derivative\n"
        f"  give it one: @ad.{op.name}.backward(...), or detach its inputs"
    )


def _learn(
    program: RuleProgram, given: Sequence[Node | None], rule: Callable[[Sequence[Any]], Sequence[Any]]
) -> None:
    """Run a rule on examples, and note what it records, if that can be put down again."""
    outs = [None if n is None else n.kind.out for n in given]
    examples = [
        None if o is None else argument(o.aval, weak=o.weak, requires_grad=o.requires_grad).node for o in outs
    ]
    now = state.now
    literal = now.literal
    try:
        now.literal = True
        found = program.learn(lambda: rule(examples), examples)
    except Exception:
        return  # the rule says why when it runs
    finally:
        now.literal = literal
    if program.word & 3 == _PULL and program.steps is not None:
        size = program.outs[0].shape[:1] if program.word & _MANY else ()
        ends = [o.aval.with_shape((*size, *o.shape)) for o in outs[2:] if o is not None]
        if any([t is not None and t.aval != aval for t, aval in zip(found, ends, strict=True)]):
            program.steps = None
