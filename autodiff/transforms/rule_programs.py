"""The rules of this library's operations as programs: recorded once, put down again without the rule.

A rule looks at what an operation is, at avals, and at which operands track, never at values: so what it records is
decided by the kind of the node, by the Outs of what it is given beside, and by a word: which sort of rule it is,
whether what it records tracks, and

    VJP rule        whether the cotangent is masked        given: the cotangent, the node, its inputs
    JVP rule        which inputs have tangents             given: these (None: none), the node, its inputs
    batching rule   which inputs differ between examples   given: these for all examples, the node, its inputs

When such a rule is met for the second time, it runs on examples, and what it recorded is kept with the kind:

    program = programs.pull(node, inputs, bar, masked)
    program.put((bar, node, *inputs))            the cotangents of those inputs that get one

Not so where a rule looks at how its cotangent was recorded (`ops.cancelling`), or runs programs of its own (loops and
branches), or where methods of the user's were chosen in it: these run each time.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import ref

from codegen.garbage import set_in_context
from codegen.records import NamedTuple
from codegen.symbols import is_watched

from ..config import config
from ..custom.keys import users_methods
from ..dispatch import Choices, include, is_observed, observed
from ..mode import MODE
from ..tape.lines import Lines
from ..tape.machine import asks
from ..tape.node import Kind, Node, Out, Primitive, new_number, put_down
from ..tape.record import argument, is_cut, state
from ..tensor import Tensor, handle
from .emitted import is_repeatable, made_between

__all__ = ["RuleProgram", "RulePrograms", "Wires", "begun", "pulled_by_rule"]

#: A word: the sort of a rule, and bits.  Machine code has the same (`recording_rules`).
_PULL, _PUSH, _BATCH = 0, 1, 2
_TRACKS, _MASKED, _FIRST_INPUT = 1 << 2, 1 << 3, 8
#: The most inputs of which a word says whether they have tangents.
_MOST_INPUTS = 48
#: The most rules of one kind that are known: a batching rule for each number of examples is another one.
_MOST_RULES = 16
_stamps = itertools.count(1)


class RuleProgram:
    """The equations that a rule recorded.

    word, outs    what decides beside the kind what the rule records
    steps         kind, value and inputs of each node, behind those that are given; None: the rule runs
    is_never      it runs each time
    results       of them all, the cotangent of each input, or the one result; None for none
    reads         which of the nodes that are given it reads
    choices       of dispatch that it relies on
    """

    __slots__ = ("_native", "choices", "given", "is_never", "outs", "reads", "results", "steps", "word")

    choices: Choices
    given: int
    reads: Sequence[int]
    results: Sequence[int | None]

    def __init__(self, word: int, outs: tuple[Out, ...]) -> None:
        self.word, self.outs = word, outs
        self.steps: Sequence[tuple] | None = None
        self.is_never = False
        self._native: Any = None

    def learn(
        self, found: Sequence[Tensor | None], known: dict[Node, int], given: int, start: float, choices: Choices
    ) -> bool:
        """Note what the rule recorded, from the number `start` on.  False where it cannot be put down again.

        found    its results;  known: the places of nodes that it was given, of so many
        """
        made = made_between([t.node for t in found if t is not None], known)
        if not all([type(n) is Node and is_repeatable(n, start, {}) for n in made]):
            return False
        place = {**known, **{n: given + k for k, n in enumerate(made)}}
        steps = [(n.kind, n.value, tuple([place[i] for i in n.inputs])) for n in made]
        self.results, self.given, self.choices = [None if t is None else place[t.node] for t in found], given, choices
        read = {i for _, _, picks in steps for i in picks}.union(self.results)
        self.reads = [i for i in range(given) if i in read]
        self.steps = steps
        return True

    def for_machine(self, native: Any, op: Primitive) -> Any:
        """The program of an operation's rule as machine code knows it."""
        if self._native is None:
            has_zeros = None in self.results and not op.discrete
            masks = op.masks or bool(op.keeps_mask and self.word & _MASKED)
            self._native = native.steps(
                self.given, self.steps, self.results, masks, has_zeros, self.word, self.outs, self
            )
        return self._native

    def put(self, given: Sequence[Node | None]) -> list[Node | None]:
        """Put it down: its results."""
        assert self.steps is not None
        nodes: list[Any] = list(given)
        put_down(self.steps, nodes)
        lines = state.now.lines
        if lines is not None:
            _note_lines(lines, nodes[len(given) :])
        return [None if place is None else nodes[place] for place in self.results]


def _note_lines(lines: Lines, nodes: Sequence[Node]) -> None:
    """Note, while a function is traced, that nodes belong to the rule."""
    lines.places.update(dict.fromkeys([n.number for n in nodes], lines.at))


class RulePrograms:
    """The programs of one pass.

    native    the machine code that goes through nodes; None: Python does
    used      programs that machine code has used;  stamp: a number of the pass
    pull_word, push_word, batch_word    the words of rules whose cotangent is not masked, and that have no tangents
    """

    __slots__ = ("_noted", "batch_word", "native", "pull_word", "push_word", "stamp", "used")

    def __init__(self, tracks: bool, native: Any) -> None:
        bits = _TRACKS if tracks else 0
        self.pull_word, self.push_word, self.batch_word = _PULL | bits, _PUSH | bits, _BATCH | bits
        self.native, self.stamp = native, next(_stamps)
        self.used: list[Any] = []
        self._noted: set[RuleProgram] = set()

    @classmethod
    def now(cls) -> RulePrograms | None:
        """None where each rule has to run: what it records is evaluated, or has lines, or conditions on extents."""
        now = state.now
        lines = now.lines
        is_shown = MODE.get().anomalies or (lines is not None and lines.is_whole)
        if config.eager or is_shown or is_watched():
            return None
        return cls(MODE.get().tracks, None if lines is not None or now.captures is not None else asks())


    def pull(self, node: Node, inputs: Sequence[Node], bar: Node, masked: bool) -> list[Node | None] | None:
        """The cotangents of the inputs of a node of no call; None where its rule is to run."""
        word = self.pull_word | (_MASKED if masked else 0)
        masked = masked and node.kind.op.keeps_mask
        return self._put(
            node, inputs, (bar,), word, lambda examples: pulled_by_rule(node.kind, examples, masked)
        )

    def push(
        self, node: Node, dots: Sequence[Node | None], rule: Callable[[Sequence[Tensor | None]], Tensor | None]
    ) -> list[Node | None] | None:
        """[the tangent of a node of no call, or None]; None where its rule is to run.

        dots    tangents of its inputs;  rule    from tangents, the node and its inputs to its tangent
        """
        word = self.push_word | _which(dots)
        return self._put(node, node.inputs, dots, word, lambda examples: [rule(examples)])

    def batch(
        self, node: Node, xs: Sequence[Node | None], rule: Callable[[Sequence[Tensor | None]], Any]
    ) -> list[Node | None] | None:
        """[a node of no call, for all examples]; None where its rule is to run.

        xs      inputs for all examples, None for those that do not differ
        rule    from these, the node and its inputs to what it is for all examples
        """
        word = self.batch_word | _which(xs)

        def run(examples: Sequence[Tensor | None]) -> list[Tensor] | None:
            mode = MODE.get()
            try:
                set_in_context(MODE, mode.off if is_cut(node) else mode)
                found = rule(examples)
            finally:
                set_in_context(MODE, mode)
            return [found] if isinstance(found, Tensor) else None

        return self._put(node, node.inputs, xs, word, run)

    def note_used(self) -> None:
        """Note the programs that machine code has used."""
        for program in self.used if is_observed() else ():
            self._note(program.entry)
        self.used.clear()

    def _note(self, program: RuleProgram) -> None:
        """Note that a program is used: whoever observes choices relies on those of its rule."""
        if program not in self._noted:
            self._noted.add(program)
            include(program.choices)

    def _put(
        self, node: Node, inputs: Sequence[Node], beside: Sequence[Node | None], word: int,
        rule: Callable[[Sequence[Any]], Sequence[Tensor | None] | None],
    ) -> list[Node | None] | None:  # fmt: skip
        """The results that a program puts down; None where there is none.   beside: given before the node"""
        if len(inputs) > _MOST_INPUTS:
            return None
        kind, outs = node.kind, tuple([n.kind.out for n in beside if n is not None])
        if kind.rules is None:
            kind.rules = KindRules([])
        rules = kind.rules.programs
        found = next((p for p in rules if p.word == word and p.outs == outs), None)
        if found is None:
            if len(rules) >= _MOST_RULES:
                del rules[0]
            found = RuleProgram(word, outs)
            found.is_never = kind.op.has_regions or "cancels" in kind.op.traits
            rules.append(found)
            return None
        given = (*beside, node, *inputs)
        if found.steps is None and not found.is_never:
            _learn(found, given, rule)
            found.is_never = found.steps is None
            if found.steps is not None:
                found.choices.on_change(partial(_forget, ref(kind), found))
            _tell_machine(kind)
        if found.steps is None:
            return None
        if self.native is not None and type(kind.rules) is KindRules:
            _tell_machine(kind)  # it was learnt before there was machine code
        return self.put(found, given)

    def put(self, program: RuleProgram, given: Sequence[Node | None]) -> list[Node | None]:
        """Put a program down: its results."""
        self._note(program)
        if state.now.captures is not None:
            for node in [given[place] for place in program.reads]:
                assert node is not None
                state.now.meet(handle(node))
        return program.put(given)


class KindRules(NamedTuple):
    """The rules of a kind that were met, where machine code knows none of them."""

    programs: list[RuleProgram]


def _tell_machine(kind: Kind) -> None:
    """Have machine code know the rules of a kind."""
    native = asks()
    if native is not None:
        programs = kind.rules.programs
        known = [p for p in programs if p.steps is not None]
        kind.rules = native.rules(programs, [p.for_machine(native, kind.op) for p in known])


def _forget(known: ref[Kind], program: RuleProgram) -> None:
    """Have the rule run again: what it relied on has changed."""
    kind = known()
    if kind is not None and program in kind.rules.programs:
        kind.rules.programs.remove(program)
        _tell_machine(kind)


def _which(nodes: Sequence[Node | None]) -> int:
    """The bits of a word that say which of them are there."""
    return sum([1 << _FIRST_INPUT + k for k, n in enumerate(nodes) if n is not None])


def pulled_by_rule(kind: Kind, given: Sequence[Tensor], masked: bool) -> Sequence[Tensor | None]:
    """The cotangents of inputs.  Numbers that a rule states are constants of the graph.

    given   the cotangent, the node, its inputs
    """
    bar, y, *xs = given
    assert kind.op.pull is not None, kind
    before, state.now.literal = state.now.literal, True
    try:
        return kind.op.pull(bar, y, xs, kind.params, masked)
    finally:
        state.now.literal = before


def _learn(
    program: RuleProgram, given: Sequence[Node | None], rule: Callable[[Sequence[Any]], Sequence[Tensor | None] | None]
) -> None:
    """Run a rule on examples, and note what it records, if that can be put down again."""
    outs = [None if n is None else n.kind.out for n in given]
    examples = [
        None if o is None else argument(o.aval, weak=o.weak, requires_grad=o.requires_grad) for o in outs
    ]
    number = {t.node: place for place, t in enumerate(examples) if t is not None}
    now = state.now
    asked, start, literal = now.asked, new_number(), now.literal
    with observed() as choices:
        try:
            now.literal = True
            found = rule(examples)
        except Exception:
            return  # the rule says why when it runs
        finally:
            now.literal = literal
    if found is None or now.asked != asked or users_methods(choices):
        return
    if program.word & 3 == _PULL:
        ends = outs[2:]
        if any([t is not None and t.aval != o.aval for t, o in zip(found, ends, strict=True) if o is not None]):
            return
    program.learn(found, number, len(given), start, choices)


def begun(order: Sequence[Node], asked: Sequence[Node]) -> list[Any]:
    """The beginning of a pass: its wires, nothing for each node, a flag for each, 0, the places of nodes.

    A place is -1 for a node that is not in the pass.  Machine code does the same (`recording_rules`).
    """
    place = {n: k for k, n in enumerate(order)}
    inputs = [[place.get(i, -1) for i in n.inputs] for n in order]
    starts = itertools.accumulate(map(len, inputs), initial=len(order) + 1)
    words = array("i", [*starts, *itertools.chain.from_iterable(inputs)]).tobytes()
    return [words, [None] * len(order), bytearray(len(order)), 0, *[place.get(n, -1) for n in asked]]


class Wires:
    """The wires between the nodes of a pass.

    words     the same as machine code reads it (`recording_rules`)
    """

    __slots__ = ("_all", "words")

    def __init__(self, words: bytes) -> None:
        self.words = words
        self._all = memoryview(words).cast("i")

    def of(self, at: int) -> Sequence[int]:
        """The places of the inputs of the node at a place; -1 for one that is not in the pass."""
        return self._all[self._all[at] : self._all[at + 1]]

    def sources(self, at: int, node: Node) -> Sequence[int]:
        """The places of the inputs that gradients of the node at a place flow to."""
        found = self.of(at)
        if type(node) is Node:
            return found
        if node.leaf is not None:
            return ()
        return found if node.flow is None else found[node.flow]
