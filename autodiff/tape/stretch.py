"""Stretches: a piece of a recording that is met again and again, with code of its own.

An episode of 50 steps and one of 51 are different graphs, but every step of either looks like the others.
A *stretch* is such a piece, with

    roots      those that are read later, or asked for
    outside    what it reads: data, leaves, nodes of earlier stretches
    piece      what it is recognised by: the hash of its kinds and wires (`piece`)
    forward    computes what is pending in it and wanted: its roots, reductions and products, what `pulls` read
    pulls      from cotangents of its roots to those of what it reads (`transforms.stretches` makes them)

Its code is made from a *model*: a copy of the nodes in which what has a value holds `GIVEN` instead.  Code is
called with *sources*, by number: values outside, own ones that were there before, results of forward, and, in a
pull, cotangents of the roots, then those that what it reads has already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import Any

from .node import Node, data_node, new_number
from .piece import Piece
from .program import program_of
from .tier import Tier, tier_of

__all__ = ["GIVEN", "Stretch", "StretchGraph", "Unfit", "code_of"]


class Unfit(Exception):
    """A recording holds what stretches are not made for: it takes the road of any other."""


#: Stands for a value that is known when the code is called.
GIVEN: Any = object()
_new = object.__new__


class StretchGraph:
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


def code_of(outputs: Sequence[Node], number: dict[Node, int], count: int, is_paid: bool) -> StretchGraph:
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
    return StretchGraph(tier, numbers, constants)


class Stretch:
    """A piece of a recording, as whatever looks like it is answered.

    piece       what it is recognised by; it gives of its roots, the latest first,
                  values   the first sources: of what is outside, then of own nodes that were computed before
                  stored   nodes that forward's results belong to
                  outer    nodes outside that are pending or have a history; then own ones that read nothing own,
                           or all where none has a history
                  past     its history
    width       how many roots there are;   size: how many of `outer` are outside
    waits       (place among the sources, place in `outer`) of what earlier stretches compute
    leads       (number of the root, position among forward's results) of roots that forward computes
    tracked     places in `outer` of what gradients go to;   ends: which of these are leaves, in the first recording
    pulls       by which roots and which of what is tracked have cotangents
    after       stretches that were met behind this one, that is earlier in a recording; the latest first
    nodes, roots, reached   of the model: all, what cotangents may come to, what they may go to
    wanted      of the model: what is to be stored in any case
    number      of the sources in the model; count: how many there are before cotangents
    serial      a number that tells it from all others, also from those that are gone; that of what it is several of
    times       of how many of those it is made
    is_long     it is several of another one, and compiled at once
    repeats     how often it was met behind itself
    may_grow    whether several of it may be worth a stretch of their own
    """

    __slots__ = (
        "_outside", "after", "count", "ends", "forward", "is_long", "leads", "may_grow", "nodes", "number", "piece",
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
        self.after: list[Stretch] = []
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

    def codes(self) -> list[StretchGraph]:
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
        return f"<Stretch of {len(self)} operations>"


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

