"""The VJP rules of this library's operations as programs: recorded once, put down again without the rule.

A rule looks at what an operation is, at avals, and at which operands track, never at values: so what it records is
decided by the kind of the node, the Out of the cotangent, and whether that is masked.  When a kind is met for the
second time, its rule runs on examples, and what it recorded is kept with the kind:

    program = program_of(node, bar, masked)
    program.put((bar, node, *node.inputs))       the cotangents of those inputs that get one

Not so where a rule looks at how its cotangent was recorded (`ops.cancelling`), or runs programs of its own (loops and
branches), or where methods of the user's were chosen in it: these run each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from codegen.symbols import is_watched

from ..config import config
from ..custom.relied import users_methods
from ..dispatch import Choices, include, observed
from ..tape.lines import Lines
from ..tape.machine import asks, native_put
from ..tape.node import Kind, Node, Out, new_number, put_down
from ..tape.record import argument, keeps_lines, state
from ..tensor import Tensor, handle
from .emitted import is_repeatable, made_between, put_again

__all__ = ["VJPPrograms", "pulled_by_rule"]

#: In the place of a program: its kind was met once; its rule runs each time.
_MET, _NEVER = object(), object()


class VJPProgram:
    """The equations that a rule recorded.

    steps    kind, value and inputs of each node, behind the cotangent, the node and its inputs
    results  for each input which of them all is its cotangent, None for none
    reads    which of the nodes that are given it reads
    choices  of dispatch that it relies on
    """

    __slots__ = ("_native", "_wanted", "choices", "reads", "results", "steps")

    def __init__(self, steps: Sequence[tuple], results: tuple[int | None, ...], given: int, choices: Choices) -> None:
        self.steps, self.results, self.choices = steps, results, choices
        self._wanted = [place for place in results if place is not None]
        read = {i for _, _, picks in steps for i in picks}.union(self._wanted)
        self.reads = tuple([i for i in range(given) if i in read])
        self._native: Callable[[tuple], tuple] | None = None

    def for_machine(self, kind: Kind) -> Any:
        """The program as machine code finds it with a kind; without machine code itself."""
        native, op = asks(), kind.op
        if native is None:
            return self
        has_zeros = None in self.results and not op.discrete
        return native.steps(len(self.results) + 2, self.steps, self.results, op.masks, has_zeros, self)

    def put(self, given: tuple[Node, ...]) -> tuple[Node, ...]:
        """Put it down: the cotangents, those that there are."""
        lines = state.now.lines
        if lines is not None:
            return self._put_in_trace(given, lines)
        if self._native is not None:
            return self._native(given)
        if not self.steps:
            return tuple([given[place] for place in self._wanted])
        self._native = native_put(len(given), self.steps, self._wanted)
        return put_again(given, self.steps, {}, self._wanted)


    def _put_in_trace(self, given: tuple[Node, ...], lines: Lines) -> tuple[Node, ...]:
        """The same while a function is traced: each node belongs to the rule."""
        nodes = list(given)
        put_down(self.steps, nodes)
        lines.places.update(dict.fromkeys([n.number for n in nodes[len(given) :]], lines.at))
        return tuple([nodes[place] for place in self._wanted])


class VJPPrograms:
    """The programs of one backward pass."""

    def __init__(self, tracks: bool) -> None:
        self._tracks = tracks
        self._used: set[VJPProgram] = set()

    @classmethod
    def now(cls, tracks: bool) -> VJPPrograms | None:
        """None where each rule has to run: what it records is evaluated, or has lines, or conditions on extents."""
        lines = state.now.lines
        is_shown = keeps_lines.get() or (lines is not None and lines.is_whole)
        return None if config.eager or is_shown or is_watched() else cls(tracks)

    def find(self, node: Node, inputs: tuple[Node, ...], bar: Node, masked: bool) -> VJPProgram | None:
        """The program of a node of no call; None where its rule is to run."""
        kind = node.kind
        key = (bar.kind.out, masked, self._tracks)
        programs = kind.rules
        if programs is None:
            programs = kind.rules = {}
        found: Any = programs.get(key)
        if isinstance(found, bytes):
            found = found.entry  # type: ignore[attr-defined]  # machine code has it
        elif type(found) is VJPProgram:
            programs[key] = found.for_machine(kind)  # it may be there since
        else:
            found = _met_again(kind, inputs, programs, key, found)
            if found is None:
                return None
        self.note(found)
        if state.now.captures is not None:
            given = (bar, node, *inputs)
            for place in found.reads:
                state.now.meet(handle(given[place]))
        return found


    def note(self, program: VJPProgram) -> None:
        """Note that a program is used: whoever observes choices relies on those of its rule."""
        if program not in self._used:
            self._used.add(program)
            include(program.choices)


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


def _met_again(
    kind: Kind, inputs: Sequence[Node], programs: dict[tuple, Any], key: tuple[Out, bool, bool], before: Any
) -> VJPProgram | None:
    """The program that a kind gets when it is met for the second time, and its rule allows one."""
    if before is not _MET:
        if before is None:
            programs[key] = _NEVER if kind.op.has_regions or "cancels" in kind.op.traits else _MET
        return None
    found = _learnt(kind, inputs, key)
    programs[key] = _NEVER if found is None else found.for_machine(kind)
    if found is not None:
        found.choices.on_change(partial(programs.pop, key, None))
    return found


def _learnt(kind: Kind, inputs: Sequence[Node], key: tuple[Out, bool, bool]) -> VJPProgram | None:
    """The program of a rule, which runs on examples; None where what it records cannot be put down again."""
    bar, masked, _ = key
    outs = [bar, kind.out, *[i.kind.out for i in inputs]]
    examples = [argument(o.aval, weak=o.weak, requires_grad=o.requires_grad) for o in outs]
    given = {t.node: place for place, t in enumerate(examples)}
    asked, start = state.now.asked, new_number()
    with observed() as choices:
        try:
            pulled = pulled_by_rule(kind, examples, masked)
        except Exception:
            return None  # the rule says why when it runs
    if state.now.asked != asked or users_methods(choices):
        return None
    made = made_between([t.node for t in pulled if t is not None], given)
    if not all([is_repeatable(n, start, {}) and type(n) is Node for n in made]):
        return None
    if any([t is not None and t.aval != i.kind.out.aval for t, i in zip(pulled, inputs, strict=True)]):
        return None
    place = given | {n: len(given) + k for k, n in enumerate(made)}
    steps = [(n.kind, n.value, tuple([place[i] for i in n.inputs])) for n in made]
    return VJPProgram(steps, tuple([None if t is None else place[t.node] for t in pulled]), len(given), choices)
