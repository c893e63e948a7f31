"""Segments: a piece of a recording that is met again and again, with code of its own.

An episode of 50 steps and one of 51 are different graphs, but every step of either looks like the others.  A *segment*
is such a piece: nodes that are read later or asked for (roots), and all between them and what it reads (outside).

    forward    computes what is pending in it and wanted: its roots, reductions and products, what `pulls` read
    pulls      from cotangents of its roots to those of what it reads, by pattern
    pattern    per root, then per tracked node outside:  0 no cotangent   1 a cotangent   2 a masked one

Its code is made from a *model*: a copy of the nodes in which what has a value holds `GIVEN` instead.  Code reads the
values of nodes, which have *places*: the order in which they are met from the roots.

A piece looks like another one if its own nodes are of the same kinds, wired in the same way, and the same of them have
values; and if what they read has the same Outs, and the same of it is pending.  Machine code says that by a hash
(`codegen.runtime.recording_piece`); without it recordings are not cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from types import SimpleNamespace
from typing import Any
from weakref import ref

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


class Unfit(Exception):
    """A recording holds what segments are not made for: it takes the road of any other."""


def machine_code() -> Any:
    """The machine code that reads recordings.  Raises Unfit where there is none any more."""
    if machine.asks is None:
        raise Unfit
    return machine.asks


class Ruled(NamedTuple):
    """The record of a segment's rules for one pattern: cotangents of roots and of what is tracked outside (None: none);
    those found for what is tracked outside, and whether they are masked (1 or 2); the methods that were chosen."""

    given: list[Node | None]
    found: dict[Node, tuple[Node, int]]
    choices: Any


#: rules(segment, pattern)
Rules = Callable[["Segment", Sequence[int]], Ruled]


def _met(roots: Sequence[Node], inside: AbstractSet[Node]) -> dict[Node, int]:
    """The nodes that are reached from the roots through those inside, and their places."""
    order = list(dict.fromkeys(roots))
    seen = set(order)
    for node in order:  # which grows meanwhile
        for i in node.inputs if node in inside else ():
            if i not in seen:
                seen.add(i)
                order.append(i)
    return {node: place for place, node in enumerate(order)}


class _Callee:
    """A program of a model, and what is called for it: its tier, or machine code once that is there."""

    __slots__ = ("__weakref__", "executable", "tier")

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        # A piece of a recording is no run by itself.
        self.executable: Any = tier.compiled or SimpleNamespace(call=lambda *values: tier.run(values))
        tier.users.add(ref(self, tier.users.discard))

    def exchange(self, _: Tier, compiled: Any) -> None:
        """There is machine code."""
        self.executable = compiled


class Segment:
    """A piece of a recording, as whatever looks like it is answered.

    block       of machine code: it is recognised by it, and run
    nodes, roots, tracked   of the model: all; what is read later, the latest first; what gradients go to, outside
    pulls       code by pattern, for machine code: `choices` has the methods that rules chose
    serial      a number that tells it from all others
    operations  of all its code
    """

    __slots__ = ("block", "nodes", "operations", "own", "places", "pulls", "roots", "rules", "serial", "tracked")

    def __init__(
        self, nodes: Sequence[Node], roots: Sequence[Node], rules: Rules | None, wanted: AbstractSet[Node]
    ) -> None:
        """The segment of some nodes.  Raises Unfit where another thread evaluates some of them meanwhile.

        rules    those of gradients; None: none go through it;   wanted: what is stored in any case, if it lies within
        """
        self.serial = new_number()
        self.own, self.operations = len(nodes), 0.0
        self.rules = rules
        self.pulls: list[Any] = []
        inside = set(nodes)
        place = _met(roots, inside)
        outside = [n for n in place if n not in inside]
        if len(place) != len(outside) + len(nodes):
            raise Unfit
        pending = {n for n in place if n.value is None}
        tracked = [n for n in outside if rules and n.kind.out.requires_grad]
        model = _model(outside, nodes, pending)
        self.nodes = list(model.values())
        self.roots, self.tracked = [model[n] for n in roots], [model[n] for n in tracked]
        #: Of the nodes of the model that have values when code is called.
        self.places = {model[n]: k for n, k in place.items() if n not in inside or n not in pending}

        pattern = (*[int(n.kind.out.requires_grad) for n in roots], *[int(n.leaf is not None) for n in tracked])
        ruled = None if rules is None else rules(self, pattern)
        read = {model[n] for n in nodes if n in wanted}.union(self.roots, () if ruled is None else self._read(ruled))
        stored = [n for n in nodes if n in pending and (model[n] in read or n.kind.op.heavy)]
        forward = None
        if stored:
            results = [(place[n], k, int(drops_inputs(n))) for k, n in enumerate(stored)]
            forward = self._code([model[n] for n in stored], {}, results)
        reads = [place[n] for n in outside if n in pending or n in tracked]
        bounds = [n in inside for n in place]
        self.block = machine_code().piece(roots, bounds, reads, [place[n] for n in tracked], forward, self.pulls)
        if self.block is None or pending != {n for n in place if n.value is None}:
            raise Unfit
        for n in stored:
            model[n].value = GIVEN
            self.places[model[n]] = place[n]
        if ruled is not None:
            self._put(pattern, ruled)

    def pull(self, pattern: Sequence[int]) -> None:
        """Make the pull of a pattern."""
        assert self.rules is not None
        self._put(pattern, self.rules(self, pattern))

    def _code(
        self, outputs: Sequence[Node], given: dict[Node, int], results: Sequence[Sequence[int]],
        flags: Sequence[int] = (),
    ) -> Any:  # fmt: skip
        """Code for pending nodes of the model.

        given    the cotangents that it is called with, by number
        results, flags    see `codegen.runtime.recording_piece.CodeBlock`
        """
        running, arguments = None, []
        if outputs:
            program, inputs = program_of(outputs)
            running = _Callee(tier_of(program))
            self.operations += running.tier.operations
            for node in inputs:
                word = _word(node, self.places, given)
                arguments.append((-1, node.value) if word is None else word)  # else a rule has made it
        return machine_code().code(running, arguments, results, flags)

    def _read(self, ruled: Ruled) -> Iterable[Node]:
        """The nodes of the model that rules read."""
        model, found = set(self.nodes), [bar for bar, _ in ruled.found.values()]
        made = reached(found, lambda node: [i for i in node.inputs if i not in model])
        return [i for n in made for i in n.inputs if i in model]

    def _put(self, pattern: Sequence[int], ruled: Ruled) -> None:
        given = {bar: k for k, bar in enumerate(ruled.given) if bar is not None}
        outputs: dict[Node, int] = {}
        results = []
        for node in self.tracked:
            if node in ruled.found:
                bar, flag = ruled.found[node]
                word = _word(bar, self.places, given) or (-3, outputs.setdefault(bar, len(outputs)))
                results.append((self.places[node], *word, flag))
        pull = self._code(list(outputs), given, results, pattern)
        pull.choices = ruled.choices
        ruled.choices.on_change(partial(_drop, self.pulls, pull))
        if len(self.pulls) >= PATTERNS:
            self.pulls.clear()
        self.pulls.append(pull)

    def __len__(self) -> int:
        return self.own

    def __repr__(self) -> str:
        return f"<Segment of {len(self)} operations>"


def _drop(pulls: list[Any], pull: Any) -> None:
    """A method was registered that changes what the rules behind this pull would record."""
    if pull in pulls:
        pulls.remove(pull)


def _word(node: Node, places: dict[Node, int], given: dict[Node, int]) -> tuple[int, int] | None:
    """Two words for the value of a node, as `codegen.runtime.recording_parts.object_at` has it; None: it has none."""
    if node in given:
        return -2, given[node]
    return (places[node], 0) if node in places else None


def _model(outside: Sequence[Node], nodes: Sequence[Node], pending: AbstractSet[Node]) -> dict[Node, Node]:
    """A copy of each node, in order; what is outside reads nothing."""
    model = {n: data_node(n.kind, GIVEN) for n in outside}
    for n in nodes:
        model[n] = data_node(n.kind, None if n in pending else GIVEN, tuple([model[i] for i in n.inputs]))
    return model
