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
    """A rule, and what it recorded.

    word, outs    what decides beside the kind what the rule records
    template      what it recorded behind what is given, with the cotangent of each input, or the one result, as its
                  results; None: the rule runs
    is_never      it runs each time
    """

    __slots__ = ("_native", "is_never", "outs", "template", "word")

    def __init__(self, word: int, outs: tuple[Out, ...]) -> None:
        self.word, self.outs = word, outs
        self.template: Template | None = None
        self.is_never = False
        self._native: Any = None

    def for_machine(self, native: Any, op: Primitive) -> Any:
        """The program of an operation's rule as machine code knows it."""
        made = self.template
        if self._native is None and made is not None:
            has_zeros = None in made.results and not op.discrete
            masks = op.masks or bool(op.keeps_mask and self.word & MASKED)
            self._native = native.steps(
                made.given, made.steps, made.results, masks, has_zeros, self.word, self.outs, made
            )
        return self._native


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
        elif found.template is None and not found.is_never:
            _learn(found, given, rule)
            found.is_never = found.template is None
            if found.template is not None:
                found.template.choices.on_change(partial(_forget, ref(kind), found))
                _tell_machine(kind)
        return rule(given) if found.template is None else self.put(found.template, given)

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

    def put(self, template: Template, given: Sequence[Node | None]) -> list[Tensor | None]:
        """Put down what a rule recorded: its results."""
        include(template.choices)  # whoever observes choices relies on them
        return [None if n is None else handle(n) for n in template.put(given)]


def _tell_machine(kind: Kind) -> None:
    """Have machine code know the rules of a kind."""
    native = machine.asks
    if native is not None:
        programs = kind.rules.programs
        # Of an operation with a kink Python looks at the tangents, too (`forward`).
        has_kink = "cancels" in kind.op.traits
        known = [p for p in programs if p.template is not None and not (p.word & 3 == PUSH and has_kink)]
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


def _learn(program: RuleProgram, given: Sequence[Node | None], rule: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
    """Run a rule on examples, and keep what it records, if that can be put down again."""
    outs = [None if n is None else n.kind.out for n in given]
    with within(MODE.get(), literal=True):
        found, made = of_examples(lambda *xs: rule([None if x is None else x.node for x in xs]), outs)
    if program.word & 3 == _PULL:
        size = program.outs[0].shape[:1] if program.word & _MANY else ()
        ends = [o.aval.with_shape((*size, *o.shape)) for o in outs[2:] if o is not None]
        if made is None or any([t is not None and t.aval != aval for t, aval in zip(found, ends, strict=True)]):
            return
    program.template = made
