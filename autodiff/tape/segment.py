"""Segments: pieces of recordings that repeat, with machine code for each.

An episode of 50 steps and one of 51 are different graphs, but all their steps look alike.  A *segment* is such a piece:
it ends in nodes that are read later or asked for (roots), and begins behind the nodes that it reads (outside).

    forward    computes its pending nodes that are wanted: roots, reductions and products, nodes that `pulls` read
    pulls      by pattern: code that computes the cotangents of the nodes outside from those of the roots
    pattern    per root, then per tracked node outside:  0 no cotangent   1 a cotangent   2 a masked one

The code is made from a *model*: a copy of the nodes, in which `HAS_VALUE` stands for each known value.  The code
finds the values of nodes by *place*: the number of a node in a walk from the roots.

Two pieces look alike if their nodes have the same kinds, the same wiring, and values at the same places, and if the
nodes outside have the same Outs, and are pending at the same places.  Machine code compares pieces by a hash
(`codegen.runtime.recording_piece`); without machine code recordings are not cut.
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

#: The most patterns that one segment has code for.
PATTERNS = 16
#: Stands in a model for a value that is known when the code is called.
HAS_VALUE: Any = object()


class Unfit(Exception):
    """Raised for a recording that cannot be cut into segments: it is then evaluated like any other."""


def machine_code() -> Any:
    """The machine code that reads recordings.  Raises Unfit if there is none any more."""
    if machine.asks is None:
        raise Unfit
    return machine.asks


class RuleRecord(NamedTuple):
    """The record of a segment's rules for one pattern: the given cotangents of roots and of tracked nodes outside (or
    None); for tracked nodes outside the resulting (cotangent, 1, or 2 if masked); the choices of methods."""

    given: list[Node | None]
    found: dict[Node, tuple[Node, int]]
    choices: Any


#: rules(segment, pattern)
Rules = Callable[["Segment", Sequence[int]], RuleRecord]


def _met(roots: Sequence[Node], inside: AbstractSet[Node]) -> dict[Node, int]:
    """The nodes that are reached from the roots through the nodes inside, with their places."""
    order = list(dict.fromkeys(roots))
    seen = set(order)
    for node in order:  # the list grows during the loop
        for i in node.inputs if node in inside else ():
            if i not in seen:
                seen.add(i)
                order.append(i)
    return {node: place for place, node in enumerate(order)}


class _Callee:
    """A program of a model, and the executable that runs it: its tier, or machine code once there is some."""

    __slots__ = ("__weakref__", "executable", "tier")

    def __init__(self, tier: Tier) -> None:
        self.tier = tier
        # The run of a piece is not counted in the latest runs, so it has no `ran`.
        self.executable: Any = tier.compiled or SimpleNamespace(call=lambda *values: tier.run(values))
        tier.users.add(ref(self, tier.users.discard))

    def exchange(self, _: Tier, compiled: Any) -> None:
        """Run the machine code from now on."""
        self.executable = compiled


class Segment:
    """The code for all pieces of recordings that look alike.

    block       data of machine code, by which it recognises pieces, and runs them
    nodes, roots, tracked   of the model: all nodes; the roots, the latest first; tracked nodes outside
    pulls       the code for each pattern, for machine code; its `choices` are the methods that rules chose
    serial      the unique number of the segment
    operations  the number of operations in all its code
    """

    __slots__ = ("block", "nodes", "operations", "own", "places", "pulls", "roots", "rules", "serial", "tracked")

    def __init__(
        self, nodes: Sequence[Node], roots: Sequence[Node], rules: Rules | None, wanted: AbstractSet[Node]
    ) -> None:
        """The segment of some nodes.  Raises Unfit if another thread evaluates some of them meanwhile.

        rules    runs the rules of gradients; None: no gradients go through;   wanted: nodes to store if they are inside
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
        #: The places of the model's nodes that have values when code is called.
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
            model[n].value = HAS_VALUE
            self.places[model[n]] = place[n]
        if ruled is not None:
            self._put(pattern, ruled)

    def pull(self, pattern: Sequence[int]) -> None:
        """Make the code for a pattern of cotangents."""
        assert self.rules is not None
        self._put(pattern, self.rules(self, pattern))

    def _code(
        self, outputs: Sequence[Node], given: dict[Node, int], results: Sequence[Sequence[int]],
        flags: Sequence[int] = (),
    ) -> Any:  # fmt: skip
        """Code for pending nodes of the model.

        given    the cotangents that the code is called with, and their numbers
        results, flags    see `codegen.runtime.recording_piece.CodeBlock`
        """
        running, arguments = None, []
        if outputs:
            program, inputs = program_of(outputs)
            running = _Callee(tier_of(program))
            self.operations += running.tier.operations
            for node in inputs:
                word = _value_source(node, self.places, given)
                arguments.append((-1, node.value) if word is None else word)  # else a rule made the node
        return machine_code().code(running, arguments, results, flags)

    def _read(self, ruled: RuleRecord) -> Iterable[Node]:
        """The nodes of the model that rules read."""
        model, found = set(self.nodes), [bar for bar, _ in ruled.found.values()]
        made = reached(found, lambda node: [i for i in node.inputs if i not in model])
        return [i for n in made for i in n.inputs if i in model]

    def _put(self, pattern: Sequence[int], ruled: RuleRecord) -> None:
        given = {bar: k for k, bar in enumerate(ruled.given) if bar is not None}
        outputs: dict[Node, int] = {}
        results = []
        for node in self.tracked:
            if node in ruled.found:
                bar, flag = ruled.found[node]
                word = _value_source(bar, self.places, given) or (-3, outputs.setdefault(bar, len(outputs)))
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
    """Remove a pull, as a newly registered method changes what its rules would record."""
    if pull in pulls:
        pulls.remove(pull)


def _value_source(node: Node, places: dict[Node, int], given: dict[Node, int]) -> tuple[int, int] | None:
    """The two words by which `codegen.runtime.recording_parts.object_at` finds a node's value, or None."""
    if node in given:
        return -2, given[node]
    return (places[node], 0) if node in places else None


def _model(outside: Sequence[Node], nodes: Sequence[Node], pending: AbstractSet[Node]) -> dict[Node, Node]:
    """A copy of each node for the model, in order; the copies of nodes outside have no inputs."""
    model = {n: data_node(n.kind, HAS_VALUE) for n in outside}
    for n in nodes:
        model[n] = data_node(n.kind, None if n in pending else HAS_VALUE, tuple([model[i] for i in n.inputs]))
    return model
