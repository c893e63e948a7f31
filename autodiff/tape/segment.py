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

Machine code says that by a hash (`codegen.runtime.recording_piece`); without it recordings are not cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from . import machine
from .node import Node, data_node, new_number, released
from .plan import drops_inputs
from .program import program_of
from .tier import Tier, tier_of

__all__ = ["GIVEN", "Segment", "SegmentCode", "Unfit", "code_of", "learn_piece"]


def _met(roots: Sequence[Node], inside: AbstractSet[Node]) -> list[Node]:
    """The nodes that are reached from the roots through those inside, in the order in which they are met."""
    order = list(dict.fromkeys(roots))
    seen = set(order)
    for node in order:  # which grows meanwhile
        for i in node.inputs if node in inside else ():
            if i not in seen:
                seen.add(i)
                order.append(i)
    return order


def learn_piece(
    roots: Sequence[Node], inside: AbstractSet[Node], values: Sequence[Node], stored: Sequence[Node],
    outer: Sequence[Node], past: Sequence[Node],
) -> tuple[Callable[[tuple[Node, ...]], tuple | None], Callable[[tuple, Sequence[Node], Sequence[Node], bool], None]]:
    """Learn a piece: two functions of machine code.

    inside    its own nodes
    values    nodes whose values are read;   stored: nodes that are given values
    outer     nodes that are asked for;   past: those whose history is given up

    accepts(roots)    these four, each a tuple, of what ends in the roots if it is such a piece, else None
    finish(results, stored, past, is_released)    values are kept; the history of `past` is given up if it is released

    Raises Unfit where another thread changes the piece meanwhile, or a node has room for more than an operation.
    """
    native, order = machine.asks, _met(roots, inside)
    place = {n: i for i, n in enumerate(order)}
    at, first, others, history = [[place.get(n, -1) for n in nodes] for nodes in (values, stored, outer, past)]
    for node in past:
        released(node.kind)  # machine code finds it there
    if native is None or -1 in (*at, *first, *others, *history):
        raise Unfit
    drops = list(map(drops_inputs, stored))
    bounds = [node in inside for node in order]
    made = native.piece(roots, bounds, at, list(zip(first, drops, strict=True)), others, history)
    if made is None or _met(roots, inside) != order:
        raise Unfit
    return partial(native.piece_of, made), partial(native.finish_piece, made)


class Unfit(Exception):
    """A recording holds what segments are not made for: it takes the road of any other."""


#: Stands for a value that is known when the code is called.
GIVEN: Any = object()
_new = object.__new__


class SegmentCode:
    """A program, and which sources it is called with: code(sources) gives the results.

    tier       of the program
    numbers    of the sources;   constants: those of them behind the last one given
    """

    __slots__ = ("_constants", "_numbers", "tier")

    def __init__(self, tier: Tier, numbers: Sequence[int], constants: Sequence[Any]) -> None:
        self.tier, self._numbers, self._constants = tier, numbers, constants

    def __call__(self, sources: Sequence[Any]) -> tuple:
        if self._constants:
            sources = [*sources, *self._constants]
        compiled, values = self.tier.compiled, [*map(sources.__getitem__, self._numbers)]
        results: tuple = self.tier.run(values) if compiled is None else compiled.call(*values)
        return results


def code_of(outputs: Sequence[Node], number: dict[Node, int], count: int, is_paid: bool) -> SegmentCode:
    """Code for pending nodes of a model.

    number    of the sources, `count` of them; a value that is none of them a rule has made, and is a constant
    is_paid   whether it is compiled, not evaluated first
    """
    program, inputs = program_of(outputs)
    constants = [node for node in inputs if node not in number]
    places = number | {node: count + k for k, node in enumerate(constants)}
    tier = tier_of(program)
    if is_paid:
        tier.seconds = math.inf
    return SegmentCode(tier, [places[node] for node in inputs], [node.value for node in constants])


class Segment:
    """A piece of a recording, as whatever looks like it is answered.

    accepts     what it is recognised by (`learn_piece`); it gives of its roots, the latest first,
                  values   the first sources: of what is outside, then of own nodes that were computed before
                  stored   nodes that forward's results belong to
                  outer    nodes outside that are pending or have a history; then own ones that read nothing own,
                           or all where none has a history
                  past     its history
    finish      what keeps the results
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
        "_outside", "accepts", "count", "ends", "finish", "forward", "is_long", "leads", "may_grow", "nodes", "number",
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

    @property
    def operations(self) -> int:
        """Of all its code: forward, and each pull."""
        codes = [self.forward, *[pull.code for pull in list(self.pulls.values())]]
        return sum([code.tier.operations for code in codes if code is not None])

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
        values = [*outside, *[n for n in nodes if n.value is not None]]
        first = [n for n in nodes if inside.isdisjoint(n.inputs)] if past else nodes
        its_past = [n for n in nodes if n in past]
        self.accepts, self.finish = learn_piece(roots, inside, values, stored, [*outer, *first], its_past)
        if [i for i, n in enumerate(outside) if n.value is None] != [i for i, _ in self.waits]:
            raise Unfit  # another thread evaluates it

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

