"""Segments: a piece of a recording that is met again and again, with code of its own; parts: where one was met.

An episode of 50 steps and one of 51 are different graphs, but every step of either looks like the others.  A *segment*
is such a piece: nodes that are read later or asked for (roots), and all between them and what it reads (outside).

    forward    computes what is pending in it and wanted: its roots, reductions and products, what `pulls` read
    pulls      from cotangents of its roots to those of what it reads, by pattern
    pattern    per root, then per tracked node outside:  0 no cotangent   1 a cotangent   2 a masked one

Its code is made from a *model*: a copy of the nodes in which what has a value holds `GIVEN` instead.  Code is
called with *sources*, by number: values outside, own ones that were there before, results of forward, and, in a
pull, cotangents of the roots, then those that what it reads has already.

A piece looks like another one if its own nodes are of the same kinds, wired in the same way, and the same of them have
values; and if what they read has the same Outs, and the same of it is pending.  Machine code says that by a hash
(`codegen.runtime.recording_piece`); without it recordings are not cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import numpy as np

from codegen.records import NamedTuple

from . import machine
from .node import Node, data_node, new_number
from .plan import drops_inputs
from .program import program_of
from .tier import Tier, tier_of
from .walk import reached

#: Patterns that are kept of one segment.
PATTERNS = 16
#: Stands for a value that is known when the code is called.
GIVEN: Any = object()

#: Cotangents by node, and whether they are masked: 1 or 2.
Bars = dict[Node, tuple[Any, int]]
_NONE: tuple[Any, int] = (None, 0)


class Unfit(Exception):
    """A recording holds what segments are not made for: it takes the road of any other."""


class Ruled(NamedTuple):
    """The record of a segment's rules for one pattern: cotangents of roots and of what is tracked outside (None: none);
    those found for what is tracked outside, and whether they are masked (1 or 2); the methods that were chosen."""

    given: list[Node | None]
    found: dict[Node, tuple[Node, int]]
    choices: Any


#: rules(segment, pattern)
Rules = Callable[["Segment", tuple[int, ...]], Ruled]


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
    outer: Sequence[Node],
) -> tuple[Callable[[tuple[Node, ...]], tuple | None], Callable[[tuple, Sequence[Node]], None]]:
    """Learn a piece: two functions of machine code.

    inside    its own nodes;   values, stored: nodes whose values are read, or given;   outer: nodes that are asked for

    accepts(roots)    these last three, each a tuple, of what ends in the roots if it is such a piece, else None
    finish(results, stored)    values are kept

    Raises Unfit where another thread changes the piece meanwhile, or a node has room for more than an operation.
    """
    native, order = machine.asks, _met(roots, inside)
    place = {n: i for i, n in enumerate(order)}
    at, first, others = [[place.get(n, -1) for n in nodes] for nodes in (values, stored, outer)]
    if native is None or -1 in (*at, *first, *others):
        raise Unfit
    drops = list(map(drops_inputs, stored))
    bounds = [node in inside for node in order]
    made = native.piece(roots, bounds, at, list(zip(first, drops, strict=True)), others)
    if made is None:
        raise Unfit
    return partial(native.piece_of, made), partial(native.finish_piece, made)


class _SegmentCode:
    """Pending nodes of a model as a program, and which sources it is called with: code(sources) gives the results."""

    __slots__ = ("_constants", "_numbers", "tier")

    def __init__(self, outputs: Sequence[Node], number: dict[Node, int], count: int, is_paid: bool) -> None:
        """`number`: of the sources, `count` of them;  `is_paid`: it is compiled, not evaluated first."""
        program, inputs = program_of(outputs)
        constants = [node for node in inputs if node not in number]  # a rule has made them
        places = number | {node: count + k for k, node in enumerate(constants)}
        self.tier: Tier = tier_of(program)
        if is_paid:
            self.tier.seconds = math.inf
        self._numbers = [places[node] for node in inputs]
        self._constants = [node.value for node in constants]

    def __call__(self, sources: Sequence[Any]) -> tuple:
        if self._constants:
            sources = [*sources, *self._constants]
        compiled, values = self.tier.compiled, [*map(sources.__getitem__, self._numbers)]
        results: tuple = self.tier.run(values) if compiled is None else compiled.call(*values)
        return results


class SegmentPull(NamedTuple):
    """From the cotangents of a segment's roots to those of what it reads.

    code       computes those that are not passed on, if there are any
    computed   (place in `outer`, position among the results, flag)
    passed     (place in `outer`, source that is the cotangent itself, flag)
    choices    the methods that its rules chose
    """

    code: _SegmentCode | None
    computed: list[tuple[int, int, int]]
    passed: list[tuple[int, int, int]]
    choices: Any


class Segment:
    """A piece of a recording, as whatever looks like it is answered.

    accepts, finish    see `learn_piece`: the contents of a `FoundSegment`, from its roots, the latest first
    width       how many roots there are;   size: how many of `outer` are outside
    oldest      where those of `outer` that read nothing of the segment's own end
    waits       (place among the sources, place in `outer`) of what earlier segments compute
    leads       (number of the root, position among forward's results) of roots that forward computes
    tracked     by place in `outer` what gradients go to, in the model, whose nodes and roots are these
    number      of the sources in the model;   count: how many there are before cotangents
    serial      a number that tells it from all others; that of what it is several of;   times: of how many
    repeats     how often it was met behind itself; -inf where several of it are not worth a segment of their own
    """

    __slots__ = (
        "_length", "_rules", "accepts", "count", "finish", "forward", "leads", "nodes", "number", "oldest",
        "operations", "pulls", "repeats", "roots", "serial", "size", "times", "tracked", "waits", "width",
    )  # fmt: skip

    serial: float
    times: int

    def __init__(
        self, nodes: Sequence[Node], roots: Sequence[Node], rules: Rules | None, wanted: AbstractSet[Node],
        of: tuple[float, int] | None = None,
    ) -> None:  # fmt: skip
        """The segment of some nodes.  Raises Unfit where another thread evaluates some of them meanwhile.

        rules    those of gradients; None: none go through it;   wanted: what is stored in any case, if it lies within
        """
        self.serial, self.times = of or (new_number(), 1)
        self.repeats = self.operations = 0.0
        self._rules = rules
        self.pulls: dict[tuple, SegmentPull] = {}
        inside = set(nodes)
        outside = list(dict.fromkeys([i for n in nodes for i in n.inputs if i not in inside]))
        pending = {n for n in (*outside, *nodes) if n.value is None}
        outer = [n for n in outside if n in pending or (rules and n.kind.out.requires_grad)]
        place = {n: k for k, n in enumerate(outer)}
        model = _model(outside, nodes, pending)
        self.nodes, self.roots = list(model.values()), [model[n] for n in roots]
        self.width, self.size, self._length = len(roots), len(outer), len(nodes)
        self.waits = [(i, place[n]) for i, n in enumerate(outside) if n in pending]
        self.tracked = {k: model[n] for n, k in place.items() if rules and n.kind.out.requires_grad}
        given = [*outside, *[n for n in nodes if n not in pending]]
        self.number = {model[n]: i for i, n in enumerate(given)}

        ends = [outer[k].leaf is not None for k in self.tracked]
        pattern = (*[int(n.kind.out.requires_grad) for n in roots], *map(int, ends))
        ruled = None if rules is None else rules(self, pattern)
        read = {model[n] for n in nodes if n in wanted}.union(self.roots, () if ruled is None else self._read(ruled))
        stored = [n for n in nodes if n in pending and (model[n] in read or n.kind.op.heavy)]
        results = [model[n] for n in stored]
        self.forward = self._code(results, self.number, len(given)) if stored else None
        self.number |= {n: len(given) + i for i, n in enumerate(results)}
        self.count = len(self.number)
        self.leads = [(k, stored.index(n)) for k, n in enumerate(roots) if n in stored]
        outer += [n for n in nodes if inside.isdisjoint(n.inputs)]
        self.oldest = len(outer)
        outer += [n for n in nodes if not inside.isdisjoint(n.inputs)]
        self.accepts, self.finish = learn_piece(roots, inside, given, stored, outer)
        if pending != {n for n in (*outside, *nodes) if n.value is None}:
            raise Unfit
        for n in results:
            n.value = GIVEN
        if ruled is not None:
            self._put(pattern, ruled)

    def pull(self, pattern: tuple[int, ...]) -> SegmentPull:
        """The pull of a pattern."""
        assert self._rules is not None
        return self.pulls.get(pattern) or self._put(pattern, self._rules(self, pattern))

    def _code(self, outputs: Sequence[Node], number: dict[Node, int], count: int) -> _SegmentCode:
        code = _SegmentCode(outputs, number, count, self.times > 1)
        self.operations += code.tier.operations
        return code

    def _read(self, ruled: Ruled) -> Iterable[Node]:
        """The nodes of the model that rules read."""
        model, found = set(self.nodes), [bar for bar, _ in ruled.found.values()]
        made = reached(found, lambda node: [i for i in node.inputs if i not in model])
        return [i for n in made for i in n.inputs if i in model]

    def _put(self, pattern: tuple[int, ...], ruled: Ruled) -> SegmentPull:
        number = self.number | {bar: i for i, bar in enumerate(ruled.given, self.count) if bar is not None}
        computed, passed = [], []
        outputs: dict[Node, int] = {}
        for k, node in self.tracked.items():
            if node not in ruled.found:
                continue
            bar, flag = ruled.found[node]
            if bar in number:
                passed.append((k, number[bar], flag))
            else:
                computed.append((k, outputs.setdefault(bar, len(outputs)), flag))
        code = self._code(list(outputs), number, self.count + len(ruled.given)) if outputs else None
        pull = SegmentPull(code, computed, passed, ruled.choices)
        pull.choices.on_change(lambda: self.pulls.pop(pattern, None))
        if len(self.pulls) >= PATTERNS:
            self.pulls.clear()
        self.pulls[pattern] = pull
        return pull

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<Segment of {len(self)} operations>"


def _model(outside: Sequence[Node], nodes: Sequence[Node], pending: AbstractSet[Node]) -> dict[Node, Node]:
    """A copy of each node, in order; what is outside reads nothing."""
    model = {n: data_node(n.kind, GIVEN) for n in outside}
    for n in nodes:
        model[n] = data_node(n.kind, None if n in pending else GIVEN, tuple([model[i] for i in n.inputs]))
    return model


class FoundSegment:
    """A segment that was recognised in a recording.

    roots     the latest first
    values    the first sources: of what is outside, then of own nodes that were computed before
    stored    nodes that forward's results belong to;   results: these
    outer     nodes outside that are pending or have a history; then its own, those that read no others of it first
    """

    __slots__ = ("outer", "results", "roots", "segment", "stored", "values")

    def __init__(self, segment: Segment, roots: tuple[Node, ...], values: tuple, stored: tuple[Node, ...],
                 outer: tuple[Node, ...]) -> None:  # fmt: skip
        self.segment, self.roots, self.stored, self.outer = segment, roots, stored, outer
        self.values: Sequence[Any] = values
        self.results: tuple = ()

    def compute(self, values_of: dict[Node, Any]) -> None:
        """Compute its results, and add the values of its roots to those of earlier parts."""
        segment, outer = self.segment, self.outer
        if segment.waits:
            self.values = list(self.values)
            for at, k in segment.waits:
                if outer[k] not in values_of:
                    raise Unfit  # another thread has computed it meanwhile
                self.values[at] = values_of[outer[k]]
        if segment.forward is not None:
            self.results = segment.forward(self.values)
            for k, position in segment.leads:
                values_of[self.roots[k]] = self.results[position]

    def pull(self, bars: Bars) -> None:
        """Carry cotangents through it."""
        segment, outer = self.segment, self.outer
        given = [bars.pop(r, _NONE) for r in self.roots]
        given += [_bar_of(outer[k], bars) for k in segment.tracked]
        pattern = tuple([flag for _, flag in given])
        pull = segment.pulls.get(pattern) or segment.pull(pattern)
        sources = [*self.values, *self.results, *[bar for bar, _ in given]]
        if pull.code is not None:
            found = pull.code(sources)
        for k, position, flag in pull.computed:
            bars[outer[k]] = (found[position], flag)
        for k, source, flag in pull.passed:
            if outer[k].leaf is None or outer[k] in bars:  # else it is the zero that was made for it: none reaches it
                bars[outer[k]] = (sources[source], flag)


def _bar_of(node: Node, bars: Bars) -> tuple[Any, int]:
    """The cotangent that something outside has; of a leaf that has none yet it is zero.

    So the first part that reaches a leaf is gone through by the code of all others.
    """
    found = bars.get(node, _NONE)
    if found is _NONE and node.leaf is not None:
        aval = node.kind.out.aval
        return np.zeros(aval.shape, aval.dtype), 1
    return found
