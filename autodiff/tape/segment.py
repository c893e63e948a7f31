"""Segments: a piece of a recording that is met again and again, with code of its own.

An episode of 50 steps and one of 51 are different graphs, but every step of either looks like the others.
A *segment* is such a piece, with

    roots      those that are read later, or asked for
    outside    what it reads: data, leaves, nodes of earlier segments
    piece      what it is recognised by: the hash of its kinds and wires
    forward    computes what is pending in it and wanted: its roots, reductions and products, what `pulls` read
    pulls      from cotangents of its roots to those of what it reads (`transforms.parts` makes them)

Its code is made from a *model*: a copy of the nodes in which what has a value holds `GIVEN` instead.  Code is
called with *sources*, by number: values outside, own ones that were there before, results of forward, and, in a
pull, cotangents of the roots, then those that what it reads has already.

A piece is what is reached from its roots, as far as it goes.  Its nodes are in the order in which they are met from the
roots on, inputs in turn: so the order says nothing of when they were recorded.  A piece looks like another one if

    own nodes    are of the same kinds, wired in the same way, and the same of them have values
    outside      what these read has the same Out, and the same of it is pending

Machine code says that by a hash (`codegen.runtime.recording_piece`); `described` is the same in plain Python.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from operator import itemgetter
from typing import Any

from codegen.records import NamedTuple

from . import machine
from .node import Node, data_node, new_number, released
from .plan import drops_inputs, settle
from .program import program_of
from .tier import Tier, tier_of

__all__ = [
    "GIVEN", "FoundPiece", "Piece", "Segment", "SegmentCode", "Unfit", "code_of", "described", "finish_in_python",
]  # fmt: skip


#: Under AUTODIFF_NATIVE_CHECKS=1 each hash is compared with what plain Python says.
_is_compared = os.environ.get("AUTODIFF_NATIVE_CHECKS") == "1"


class FoundPiece(NamedTuple):
    """A piece that was found in a recording.

    values    of nodes that are read;   stored: nodes that are given values
    outer     nodes that are asked for;   past: those whose history is given up
    """

    values: tuple
    stored: tuple[Node, ...]
    outer: tuple[Node, ...]
    past: tuple[Node, ...]


def described(roots: Sequence[Node], bounds: Sequence[bool]) -> tuple[list[tuple], list[Node]] | None:
    """The nodes that are reached from the roots, made comparable, and in the order in which they are met.

    bounds    of each in this order: True for one of its own

    None where it has not so many nodes, or one of its own has room for more than an operation.
    """
    order = list(roots)
    place = {n: i for i, n in enumerate(order)}
    parts: list[tuple] = []
    for node, is_own in zip(order, bounds, strict=False):  # the order grows meanwhile
        pending = node.value is None
        if not is_own:
            parts.append((node.kind.out, pending))
            continue
        inputs = node.inputs
        if type(node) is not Node:
            return None
        for i in inputs:
            if i not in place:
                place[i] = len(order)
                order.append(i)
        parts.append((node.kind, pending, *[place[i] for i in inputs]))
    return (parts, order) if len(order) == len(bounds) == len(place) else None


def _bounds_of(roots: Sequence[Node], inside: AbstractSet[Node]) -> list[bool]:
    """Of each node that is reached from the roots, in the order in which they are met, if it is inside."""
    order = list(dict.fromkeys(roots))
    seen = set(order)
    for node in order:  # which grows meanwhile
        for i in node.inputs if node in inside else ():
            if i not in seen:
                seen.add(i)
                order.append(i)
    return [node in inside for node in order]


class Piece:
    """A piece, learnt from one recording.

    accepts(roots)      what a recording holds that ends in the same piece (`FoundPiece`), else None
    finish(results, stored, past, is_released)    values are kept; the history of `past` is given up if it is released
    """

    __slots__ = ("_bounds", "_parts", "_places", "accepts", "finish")

    def __init__(
        self, roots: Sequence[Node], inside: AbstractSet[Node], values: Sequence[Node], stored: Sequence[Node],
        outer: Sequence[Node], past: Sequence[Node],
    ) -> None:  # fmt: skip
        """Learn a piece.  Raises KeyError where another thread changes it meanwhile.

        inside    its own nodes;   values: nodes whose values are read;   stored, outer, past: see `FoundPiece`
        """
        self._bounds = _bounds_of(roots, inside)
        found = described(roots, self._bounds)
        if found is None:
            raise KeyError
        self._parts, order = found
        place = {n: i for i, n in enumerate(order)}
        self._places = [[place[n] for n in nodes] for nodes in (values, stored, outer, past)]
        for node in past:
            released(node.kind)  # machine code finds it there
        self.accepts: Callable[[tuple[Node, ...]], tuple | None] = self.accepts_in_python
        self.finish: Callable[[tuple, Sequence[Node], Sequence[Node], bool], None] = finish_in_python
        native = machine.asks
        if native is None:
            return
        at, first, others, history = self._places
        drops = list(map(drops_inputs, stored))
        made = native.piece(roots, self._bounds, at, list(zip(first, drops, strict=True)), others, history)
        if made is None or described(roots, self._bounds) != found:
            raise KeyError
        self.finish = partial(native.finish_piece, made)
        self.accepts = partial(native.piece_of, made)
        if _is_compared:
            self.accepts = partial(self._compared, self.accepts)

    def accepts_in_python(self, roots: Sequence[Node]) -> FoundPiece | None:
        """Do as `accepts` does, in plain Python."""
        found = described(roots, self._bounds)
        if found is None or found[0] != self._parts:
            return None
        order = found[1]
        values, stored, outer, past = [tuple([order[i] for i in places]) for places in self._places]
        return FoundPiece(tuple([n.value for n in values]), stored, outer, past)

    def _compared(self, accepts: Callable, roots: tuple[Node, ...]) -> tuple | None:
        """The piece that machine code finds, compared with that of Python."""
        found: tuple | None = accepts(roots)
        exact = self.accepts_in_python(roots)
        assert (found is None) == (exact is None), "the hash of a piece stands for another one"
        assert found is None or exact is None or found[1:] == exact[1:], "machine code finds other nodes in a piece"
        return found


def finish_in_python(results: tuple, stored: Sequence[Node], past: Sequence[Node], is_released: bool) -> None:
    """Keep values, and give the history up if it is released, in plain Python."""
    for node, value in zip(stored, results, strict=True):
        settle(node, value)
    for node in past if is_released else ():
        if not node.kind.released:
            node.kind = released(node.kind)
        if node.value is not None:
            node.inputs = ()


class Unfit(Exception):
    """A recording holds what segments are not made for: it takes the road of any other."""


#: Stands for a value that is known when the code is called.
GIVEN: Any = object()
_new = object.__new__


class SegmentCode:
    """A graph, and which sources it is called with.

    code(sources)                          the results
    code.run.compiled.call(*code.pick(sources))   the same in a loop, once it is compiled
    numbers, constants   of the sources that are picked; those after the last one given are the constants
    """

    __slots__ = ("constants", "numbers", "pick", "run")

    def __init__(self, run: Tier, numbers: Sequence[int], constants: Sequence[Any]) -> None:
        self.run, self.numbers, self.constants = run, tuple(numbers), tuple(constants)
        picked = _picker(numbers)
        self.pick = (lambda sources: picked([*sources, *constants])) if constants else picked

    def __call__(self, sources: Sequence[Any]) -> tuple:
        return self.run.run(self.pick(sources))


def _picker(numbers: Sequence[int]) -> Callable[[Sequence[Any]], tuple]:
    if len(numbers) > 1:
        return itemgetter(*numbers)
    if not numbers:
        return lambda values: ()
    (only,) = numbers
    return lambda values: (values[only],)


def code_of(outputs: Sequence[Node], number: dict[Node, int], count: int, is_paid: bool) -> SegmentCode:
    """Code for pending nodes of a model.

    number    of the sources, `count` of them; a value that is none of them a rule has made, and is a constant
    is_paid   whether it is compiled, not evaluated first
    """
    program, inputs = program_of(outputs)
    numbers, constants = [], []
    for node in inputs:
        if node not in number:
            constants.append(node.value)
        numbers.append(number.get(node, count + len(constants) - 1))
    tier = tier_of(program)
    if is_paid:
        tier.seconds = math.inf
    return SegmentCode(tier, numbers, constants)


class Segment:
    """A piece of a recording, as whatever looks like it is answered.

    piece       what it is recognised by; it gives of its roots, the latest first,
                  values   the first sources: of what is outside, then of own nodes that were computed before
                  stored   nodes that forward's results belong to
                  outer    nodes outside that are pending or have a history; then own ones that read nothing own,
                           or all where none has a history
                  past     its history
    width       how many roots there are;   size: how many of `outer` are outside
    waits       (place among the sources, place in `outer`) of what earlier segments compute
    leads       (number of the root, position among forward's results) of roots that forward computes
    tracked     places in `outer` of what gradients go to;   ends: which of these are leaves, in the first recording
    pulls       by which roots and which of what is tracked have cotangents
    nodes, roots, reached   of the model: all, what cotangents may come to, what they may go to
    wanted      of the model: what is to be stored in any case
    number      of the sources in the model; count: how many there are before cotangents
    serial      a number that tells it from all others, also from those that are gone; that of what it is several of
    times       of how many of those it is made
    is_long     it is several of another one, and compiled at once
    repeats     how often it was met behind itself
    may_grow    whether several of it may be worth a segment of their own
    """

    __slots__ = (
        "_outside", "count", "ends", "forward", "is_long", "leads", "may_grow", "nodes", "number", "piece",
        "pulls", "reached", "repeats", "roots", "serial", "size", "times", "tracked", "waits", "wanted", "width",
    )

    serial: float
    times: int

    def __init__(
        self, nodes: Sequence[Node], roots: Sequence[Node], past: frozenset[Node], of: tuple[float, int] | None = None,
        wanted: AbstractSet[Node] = frozenset(),
    ) -> None:  # fmt: skip
        self.is_long, self.may_grow = of is not None, True
        self.serial, self.times = of or (new_number(), 1)
        self.repeats = 0
        outside, outer = _outside_of(nodes, past)
        place = {n: k for k, n in enumerate(outer)}
        model = _model(outside, nodes)
        self.pulls: dict[tuple, Any] = {}
        self.width, self.size = len(roots), len(outer)
        self.waits = [(i, place[n]) for i, n in enumerate(outside) if n.value is None]
        self.tracked = [k for k, n in enumerate(outer) if past and n.kind.out.requires_grad]
        self.ends = [outer[k].leaf is not None for k in self.tracked]
        self.nodes = list(model.values())
        self._outside, self.roots = len(outside), [model[n] for n in roots]
        self.wanted = [model[n] for n in nodes if n in wanted]
        self.reached = [model[outer[k]] for k in self.tracked]
        computed = [n for n in nodes if n.value is not None]
        self.number = {model[n]: i for i, n in enumerate([*outside, *computed])}

    def codes(self) -> list[SegmentCode]:
        """Forward, and that of each pull."""
        codes = [self.forward, *[pull.code for pull in list(self.pulls.values())]]
        return [code for code in codes if code is not None]

    @property
    def operations(self) -> int:
        """Of all its code."""
        return sum([code.run.operations for code in self.codes()])

    def complete(
        self, nodes: Sequence[Node], roots: Sequence[Node], past: frozenset[Node], read: Iterable[Node] = ()
    ) -> None:
        """Make forward, and the piece, when it is known what pulls read: nodes of the model."""
        own = dict(zip(self.nodes[self._outside :], nodes, strict=True))
        read = {*read, *self.roots, *self.wanted}
        stored = [n for n in own if n.value is None and (n in read or n.kind.op.heavy)]
        count = len(self.number)
        self.forward = code_of(stored, self.number, count, self.is_long) if stored else None
        self.number |= {n: count + i for i, n in enumerate(stored)}
        self.count = len(self.number)
        self.leads = [(k, stored.index(n)) for k, n in enumerate(self.roots) if n in stored]
        self._learn(nodes, roots, past, [own[n] for n in stored])
        if [n.value is None for n in own] != [n.value is None for n in nodes]:
            raise Unfit  # another thread evaluates it
        for n in stored:
            n.value = GIVEN

    def _learn(
        self, nodes: Sequence[Node], roots: Sequence[Node], past: frozenset[Node], stored: Sequence[Node]
    ) -> None:
        """Learn what it looks like."""
        inside = set(nodes)
        outside, outer = _outside_of(nodes, past)
        if len(outer) != self.size:
            raise Unfit  # another thread evaluates it
        values = [*outside, *[n for n in nodes if n.value is not None]]
        first = [n for n in nodes if inside.isdisjoint(n.inputs)] if past else nodes
        try:
            self.piece = Piece(roots, inside, values, stored, [*outer, *first], [n for n in nodes if n in past])
        except KeyError:
            raise Unfit from None

    def __len__(self) -> int:
        return len(self.nodes) - self._outside

    def __repr__(self) -> str:
        return f"<Segment of {len(self)} operations>"


def _outside_of(nodes: Sequence[Node], past: frozenset[Node]) -> tuple[list[Node], list[Node]]:
    """The nodes outside that these read; of them those that are pending or have a history."""
    inside = set(nodes)
    outside = list(dict.fromkeys([i for n in nodes for i in n.inputs if i not in inside]))
    return outside, [n for n in outside if n.value is None or (past and n.kind.out.requires_grad)]


def _model(outside: Sequence[Node], nodes: Sequence[Node]) -> dict[Node, Node]:
    """A copy of each node, in order; what is outside reads nothing."""
    model: dict[Node, Node] = {}
    for n in outside:
        model[n] = data_node(n.kind, GIVEN)
    for n in nodes:
        node = model[n] = _new(Node)
        node.kind = n.kind
        node.inputs = tuple([model[i] for i in n.inputs])
        node.value = None if n.value is None else GIVEN
        node.number = new_number()
    return model

