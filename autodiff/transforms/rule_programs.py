"""The rules of the library's operations as programs: each is recorded once, and then replayed without calling the rule.

A rule never looks at values.  Its recording is decided by the kind of the node, by the Outs of the further inputs, and
by a word, which says the sort of the rule, whether its nodes track gradients, and

    VJP rule        whether the cotangent is masked, and   inputs: the cotangent, the node, the node's inputs
                    whether it is many at once
    JVP rule        which inputs have tangents             inputs: the tangents (None: zero), the node, its inputs
    batching rule   which inputs differ between examples   inputs: those for all examples, the node, its inputs

The second time such a rule is met, it runs on example tensors, and its recording is cached with the kind.  A rule of
loops and branches, or one that chose a user's method, runs each time.  A pass with a rule that looks at how its
cotangent was recorded is replayed as a whole (`rules.pass_or_replay`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import ref

from codegen.symbols import is_watched

from ..dispatch import include, is_observed
from ..errors import GradientError
from ..mode import MODE
from ..ops.template import Template, of_examples
from ..tape import machine
from ..tape.modes import within
from ..tape.node import Kind, Node, Out, Primitive
from ..tape.record import state
from ..tensor import Tensor, handle

#: The bits of a word: the sort of a rule, then flags.  Machine code has the same (`recording_rules`).
_PULL, PUSH, BATCH = 0, 1, 2
_TRACKS, MASKED, _MANY, _FIRST_INPUT = 1 << 2, 1 << 3, 1 << 4, 8
#: The most inputs that a word has bits for.
_MOST_INPUTS = 48
#: The most cached rules of one kind: a batching rule counts once for each number of examples.
_MOST_RULES = 16
_stamps = itertools.count(1)
_new = object.__new__


class RuleProgram:
    """A rule, and its recording as a program.

    word, outs    together with the kind, they decide what the rule records
    template      the recording on the rule's inputs, with the cotangent of each input, or the one result, as its
                  results; None: the rule runs
    is_never      True if the rule runs each time
    """

    __slots__ = ("_native", "is_never", "outs", "template", "word")

    def __init__(self, word: int, outs: tuple[Out, ...]) -> None:
        self.word, self.outs = word, outs
        self.template: Template | None = None
        self.is_never = False
        self._native: Any = None

    def for_machine(self, native: Any, op: Primitive) -> Any:
        """The program of an operation's rule in the form that machine code replays."""
        made = self.template
        if self._native is None and made is not None:
            has_zeros = None in made.results and not op.discrete
            masks = op.masks or bool(op.keeps_mask and self.word & MASKED)
            self._native = native.steps(
                made.given, made.steps, made.results, masks, has_zeros, self.word, self.outs, made
            )
        return self._native


class RulePrograms:
    """The rule programs of one pass, which has a number (`stamp`); `used`: those that machine code, `native`, used.

    word      the word of a VJP rule whose cotangent is not masked
    """

    __slots__ = ("native", "stamp", "used", "word")

    native: Any
    stamp: int
    used: list[Any]
    word: int

    @classmethod
    def for_pass(cls, tracks: bool, is_many: bool = False) -> RulePrograms | None:
        """The programs of a new pass; None if each rule has to run: no machine code, or the recording is observed."""
        now, mode, native = state.now, MODE.get(), machine.asks
        if native is None or mode.eager or mode.anomalies or now.lines is not None or now.captures is not None:
            return None
        if is_watched():
            return None
        made = _new(cls)  # no call of __init__: every pass pays for this
        made.native, made.used, made.stamp = native, [], next(_stamps)
        made.word = (_TRACKS if tracks else 0) | (_MANY if is_many else 0)
        return made

    def applied(
        self, kind: Kind, given: Sequence[Node | None], beside: int, word: int,
        rule: Callable[[Sequence[Any]], Sequence[Any]],
    ) -> Sequence[Any]:  # fmt: skip
        """The results of a node's rule, by its program if there is one.  The node is no custom call.

        given     first `beside` entries: the cotangent, or for each input its tangent or its value for all examples
                  (None: it has none); then the node and its inputs
        word      bits that decide the recording, beside those of the pass and those for inputs with an entry
        rule      a function from `given` to the rule's results
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
        elif found.template is None and not found.is_never:
            _learn(found, given, rule)
            found.is_never = found.template is None
            if found.template is not None:
                found.template.choices.on_change(partial(_forget, ref(kind), found))
                _tell_machine(kind)
        return rule(given) if found.template is None else self.replay(found.template, given)

    def walk_natively(
        self, walk: Callable[..., int], order: Sequence[Node], made: list[Any], places: range, rules: tuple,
        visit: Callable[[int], Any],
    ) -> None:  # fmt: skip
        """Have machine code, `walk`, visit the nodes in the order of `places`; `visit` those that need Python."""
        at = places.start
        try:
            while (at := walk(order, made, at, *rules)) in places:
                visit(at)
                at += places.step
        finally:
            if is_observed():
                for program in self.used:
                    include(program.entry.choices)

    def replay(self, template: Template, given: Sequence[Node | None]) -> list[Tensor | None]:
        """Replay the recording of a rule, and return its results."""
        include(template.choices)  # an observer of choices relies on those of the rule
        return [None if n is None else handle(n) for n in template.record_on(given)]


def _tell_machine(kind: Kind) -> None:
    """Pass the programs of a kind's rules to machine code."""
    native = machine.asks
    if native is not None:
        programs = kind.rules.programs
        known = [p for p in programs if p.template is not None]
        kind.rules = native.rules(programs, [p.for_machine(native, kind.op) for p in known])


def _forget(known: ref[Kind], program: RuleProgram) -> None:
    """Drop the program of a rule, because a method that it relied on has changed: the rule runs again."""
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


def _learn(program: RuleProgram, given: Sequence[Node | None], rule: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
    """Run a rule on example tensors, and cache its recording if that can be replayed."""
    outs = [None if n is None else n.kind.out for n in given]
    with within(MODE.get(), literal=True):
        found, made = of_examples(lambda *xs: rule([None if x is None else x.node for x in xs]), outs)
    if program.word & 3 == _PULL:
        size = program.outs[0].shape[:1] if program.word & _MANY else ()
        ends = [o.aval.with_shape((*size, *o.shape)) for o in outs[2:] if o is not None]
        if made is None or any([t is not None and t.aval != aval for t, aval in zip(found, ends, strict=True)]):
            return
    program.template = made
