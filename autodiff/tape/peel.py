"""A recording taken apart into stretches, from its end to its beginning.

    frontier    nodes that something taken off already reads, or that are asked for
    peel        the stretch that ends in the latest of them comes off; what it reads goes to the frontier

No node is a root of two parts, and no part reads the roots of one that was taken off before it.  So going through
the parts in order, each has all the cotangents that others carry to its roots when its turn comes; in reverse order,
each finds the values that it reads computed.  A stretch for which that would not hold does not fit.

What lies within a part may be read by a later one, too, and is then within that again, or a root of its own: it is
computed twice, and the cotangents that come to it on either way are carried on apart, which adds up to the same.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from codegen.ir import OPS
from codegen.records import NamedTuple

from ..session import owned
from .cutting import longer_stretch, top_stretch
from .node import CONSTANT, Kind, Node
from .record import ALIASES
from .stretch import Stretch, Unfit
from .tier import prices
from .walk import by_number, reached

__all__ = ["FoundPart", "Peeled", "peel", "stretches"]

#: Stretches that are tried behind another, and for one kind of node to end in.
TRIED = 8
#: Stretches that are kept, each with some 80 KB of machine code and more: all of them go when there are more.
LIMIT = 256

#: Nodes next to the last that tell recordings apart.
LOOKS = 12

#: The cost of a stretch beside its arithmetic: recognised, and called twice (2 cores, 2026-11).
OVERHEAD_S = 5e-6
#: A number of stretches that are alike, which are made one when they have cost more than compiling it is expected to.
TIMES = 4
#: New stretches of one recording from which on it is none of a loop, if they have more than such a share of its nodes.
NEW, SHARE = 8, 0.25


class _Stretches:
    """All that are known.

    ending    those that end in a node of some kind, the latest first; whether gradients went through
    last      those that recordings end in, by what these look like; whether gradients went through
    """

    def __init__(self) -> None:
        self.ending: dict[tuple[Kind, bool], list[Stretch]] = {}
        self.last: dict[tuple[tuple, bool], Stretch] = {}

    def keep(self, stretch: Stretch, top: tuple[Kind, bool]) -> None:
        """Find one from now on; all others go when there are too many."""
        if sum(map(len, self.ending.values())) >= LIMIT:
            self.clear()
        _first(self.ending.setdefault(top, []), stretch)

    def clear(self) -> None:
        """Forget all of them."""
        for stretch in [*itertools.chain.from_iterable(self.ending.values()), *self.last.values()]:
            stretch.after.clear()  # which it may itself be in
        self.ending.clear()
        self.last.clear()


stretches: _Stretches = owned(_Stretches, _Stretches.clear)


def _looks_of(root: Node) -> tuple:
    """The nodes next to a root, by kind where they are pending, else by Out."""
    near = [root]
    looks: list[Any] = []
    for node in near:
        if node.value is not None:
            looks.append(node.kind.out)
            continue
        looks.append(node.kind)
        if len(near) < LOOKS:
            near += node.inputs
    return tuple(looks)


class FoundPart(NamedTuple):
    """A stretch that was recognised: its roots, latest first, and what its piece holds (`stretch.FoundPiece`)."""

    stretch: Stretch
    roots: tuple[Node, ...]
    values: tuple
    stored: tuple[Node, ...]
    outer: tuple[Node, ...]
    past: tuple[Node, ...]


class Peeled(NamedTuple):
    """A recording that was taken apart.

    parts     the latest first
    new       how many of them are new stretches
    pending   leaves and targets at its ends whose values are wanted, and pending
    """

    parts: list[FoundPart]
    new: int
    pending: list[Node]


def peel(
    roots: Sequence[Node],
    tracks: bool,
    targets: AbstractSet[Node],
    complete: Callable[[Stretch, Sequence[Node], Sequence[Node], frozenset[Node]], None],
    grows: bool,
    wanted: AbstractSet[Node] = frozenset(),
) -> Peeled:
    """The parts of what `roots` need.  Raises Unfit; no node has changed then.

    roots      what gradients are asked of, or a pending value; then others that are wanted with it
    tracks     whether gradients go through the history, to its leaves and to `targets`
    complete   complete(stretch, nodes, roots, past): make the code of a new one
    grows      whether several stretches that follow each other may be made one
    wanted     nodes whose values new stretches are to store, if they lie within them
    """
    return _Peeling(tracks, targets, complete, grows, wanted).of(roots)


class _Peeling:
    def __init__(
        self, tracks: bool, targets: AbstractSet[Node], complete: Callable, grows: bool, wanted: AbstractSet[Node]
    ) -> None:
        self.tracks, self.targets, self.complete, self.grows, self.wanted = tracks, targets, complete, grows, wanted
        self.frontier: list[Node] = []  # by number: the latest last
        self.ends: set[Node] = set()  # leaves and targets that were met
        self.gone: set[Node] = set()  # roots of what was taken off
        self.pending: dict[Node, None] = {}
        self.new = self.made = self.taken = 0  # stretches, their nodes; nodes that were taken off
        self.is_mixed = False  # whether the frontier holds what gradients do not go through

    def of(self, roots: Sequence[Node]) -> Peeled:
        if self._is_end(roots[0]):
            raise Unfit
        others = [r for r in dict.fromkeys(roots) if r is not roots[0] and r.value is None and not self._is_end(r)]
        self.frontier = [roots[0], *others]
        self.frontier.sort(key=by_number)
        self.is_mixed = self.tracks and not all([n.kind.out.requires_grad for n in self.frontier])
        parts: list[FoundPart] = []
        likely: list[Stretch] = []
        latest = None
        while self.frontier:
            if self.grows and latest is not None:
                self._grow(latest)
            part = self._known(likely)
            if part is None:
                top = (self.frontier[-1].kind, self.tracks)
                part = self._known(stretches.ending.get(top, []))
                if part is None:
                    part = self._last_of_many() if not parts else None
                if part is None:
                    if self.new >= NEW and self.made > SHARE * self.taken:
                        raise Unfit
                    self._make(bool(parts), top)
                    part = self._known(stretches.ending.get(top, []))
                    if part is None:
                        raise Unfit
                if parts:
                    _first(likely, part.stretch)
            parts.append(part)
            stretch = part.stretch
            self.taken += len(stretch)
            if stretch is latest:
                stretch.repeats += 1
            latest, likely = stretch, stretch.after
        return Peeled(parts, self.new, list(self.pending))

    def _last_of_many(self) -> FoundPart | None:
        """The end of a recording: a list of every length that is stacked, say, makes another end."""
        stretch = stretches.last.get((_looks_of(self.frontier[-1]), self.tracks))
        return None if stretch is None else self._recognised(stretch)

    def _known(self, likely: list[Stretch]) -> FoundPart | None:
        """The part that one of these stretches recognises at the end; it is taken off."""
        for k, stretch in enumerate(likely):
            part = self._recognised(stretch)
            if part is not None:
                if k:
                    _first(likely, stretch)
                return part
        return None

    def _recognised(self, stretch: Stretch) -> FoundPart | None:
        frontier, width = self.frontier, stretch.width
        if width > len(frontier):
            return None
        roots = (frontier[-1],) if width == 1 else tuple(frontier[: -width - 1 : -1])
        found = stretch.piece.accepts(roots)
        if found is None:
            return None
        part = FoundPart(stretch, roots, *found)
        return part if self._takes(part) else None

    def _takes(self, part: FoundPart) -> bool:
        """Take a part off the frontier, if none of what stays lies within it, and none of what it reads is gone."""
        stretch, outer, past = part.stretch, part.outer, part.past
        size, width = stretch.size, stretch.width
        rest, roots = self.frontier[:-width], self.frontier[-width:]
        read = set(outer[:size])
        if not read.isdisjoint(self.gone):
            return False
        if rest and rest[-1].number >= min([node.number for node in outer[size:]]):
            # Nodes that are no older may lie within: of a stretch with a history only that is known, of others all.
            within = set(past or outer[size:]).difference(roots)
            if self.is_mixed or not within.isdisjoint(rest):
                return False
        for node in read - self.ends:
            if self._is_end(node):
                self.ends.add(node)
                continue
            self.is_mixed = self.is_mixed or (self.tracks and not node.kind.out.requires_grad)
            place = bisect_left(rest, node.number, key=by_number) if rest else 0
            if place == len(rest) or rest[place] is not node:
                rest.insert(place, node)
        self.gone.update(roots)
        self.frontier = rest
        return True

    def _is_end(self, node: Node) -> bool:
        """True if gradients end here: a leaf, or a target."""
        leaf = node.leaf
        if leaf is None and node not in self.targets:
            return False
        if node.value is None:
            self.pending[node] = None
        if leaf is not None and leaf.hooks:
            raise Unfit
        return True

    def _make(self, is_rest: bool, top: tuple[Kind, bool]) -> None:
        """Make the stretch that the frontier ends in."""
        nodes = top_stretch(self._open(), self.frontier, is_rest, self._ends)
        if nodes is None:
            raise Unfit
        made = self._made(nodes)
        stretches.keep(made, top)
        if not is_rest:
            stretches.last[_looks_of(self.frontier[-1]), self.tracks] = made

    def _grow(self, stretch: Stretch) -> bool:
        """Make one stretch of several, if calling each of them has cost as much as compiling that will."""
        if not stretch.may_grow or stretch.repeats * OVERHEAD_S < prices.of(TIMES * stretch.operations):
            return False
        nodes = self._open()
        stretch.may_grow = len(nodes) < TIMES * len(stretch)  # this one began too early to tell
        longer = longer_stretch(nodes, self.frontier, len(stretch), TIMES, self._ends)
        if longer is None:
            return False
        made = self._made(longer, stretch)
        stretches.keep(made, (self.frontier[-1].kind, self.tracks))
        _first(stretch.after, made)
        return True

    def _ends(self, nodes: Sequence[Node]) -> bool:
        """True if the nodes of the frontier that are among these are the latest of it."""
        inside = set(nodes)
        width = sum([node in inside for node in self.frontier])
        return width > 0 and all([node in inside for node in self.frontier[-width:]])

    def _made(self, nodes: Sequence[Node], of: Stretch | None = None) -> Stretch:
        """The stretch of the nodes that the frontier ends in; of several of another one."""
        inside = set(nodes)
        roots = [n for n in reversed(self.frontier) if n in inside]
        past = frozenset([n for n in nodes if n.kind.out.requires_grad] if self.tracks else ())
        stretch = Stretch(nodes, roots, past, None if of is None else (of.serial, of.times * TIMES), self.wanted)
        self.complete(stretch, nodes, roots, past)
        self.new += 1
        self.made += len(stretch)
        return stretch

    def _open(self) -> set[Node]:
        """All that is to be computed or gone through for the frontier."""
        return reached(self.frontier, self._followed)

    def _followed(self, node: Node) -> list[Node]:
        self._refuse_unfit(node)
        return [i for i in node.inputs if self._goes_on(i)]

    def _goes_on(self, node: Node) -> bool:
        if node.value is None:
            return not self._is_end(node)
        return self.tracks and node.kind.out.requires_grad and not self._is_end(node)

    def _refuse_unfit(self, node: Node) -> None:
        kind = node.kind
        op = kind.op
        if type(node) is not Node or kind.released:
            raise Unfit
        if op not in ALIASES and op is not CONSTANT and (op.has_regions or OPS.get(op.name) is not op):
            raise Unfit
        if self.tracks and kind.out.requires_grad and op.pull is None:
            raise Unfit


def _first(known: list[Stretch], stretch: Stretch) -> None:
    """Put one first, but behind those that are several in one; the last goes when there are too many."""
    kept = [stretch, *[s for s in known if s is not stretch][: TRIED - 1]]
    known[:] = sorted(kept, key=lambda s: not s.is_long)
