"""A long recording cut into segments that look alike, from its end to its beginning.

    frontier    nodes that something taken off already reads, or that are asked for
    known       the segment that ends in the latest of them comes off; what it reads goes to the frontier
    new         where none is known, one is made: see below

No node is a root of two parts, and no part reads the roots of one that was taken off before it.  So going through
the parts in order, each has all the cotangents that others carry to its roots when its turn comes; in reverse order,
each finds the values that it reads computed.  A segment for which that would not hold does not fit.

What lies within a part may be read by a later one, too, and is then within that again, or a root of its own: it is
computed twice, and the cotangents that come to it on either way are carried on apart, which adds up to the same.

**A new segment** is one time round the user's loop.  A loop records some kind of operation once each time round.  Cut
before each of its occurrences, the recording falls into segments, most of them alike.  Every kind that occurs often
enough is tried; the best is the one for which least has to be compiled and called:

    cost    operations in segments that differ  +  number of segments

so neither an operation that stands twice in the body of the loop (twice as many segments), nor one of a rare branch
(segments of many times round, no two alike).

The end of a recording that adds up losses in a list, say, is as long as the loop.  In another order than that of
creation each sum stands where it could have been done, and is cut with the rest:

    by creation     h1 l1 h2 l2 h3 l3 s1 s2 s3
    as possible     h1 l1 s1 h2 l2 s2 h3 l3 s3     each after what it needs; those of a second list stand there, too
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush

from codegen.ir import OPS
from codegen.records import NamedTuple
from codegen.runtime.cache import LRU

from ..session import owned
from .node import CONSTANT, Kind, Node
from .record import ALIASES
from .segment import Segment, Unfit
from .tier import prices
from .walk import by_number

__all__ = ["LARGEST", "SHORTEST", "Cut", "FoundPart", "cut", "segments"]

#: The times that something must stand in a recording to be a loop, and a length that is too short to be looked at.
REPEATS, SHORTEST = 4, 48
#: Operations of one segment: more are compiled with the rest of the recording, or not at all.
LARGEST = 400
#: The latest operations of a recording, which say where it is cut.
MOST = 4000
#: Kinds that are tried, from the one that occurs least often.
KINDS = 24
#: Segments that are tried, of those that end in a node of one kind: a list of every length that is put together makes
#: another one.
TRIED = 64
#: Segments that are kept, each with some 80 KB of machine code and more.
LIMIT = 256

#: The cost of a segment beside its arithmetic: recognised, and called twice (2 cores, 2026-11).
OVERHEAD_S = 5e-6
#: A number of segments that are alike, which are made one when they have cost more than compiling it is expected to.
TIMES = 4
#: New segments of one recording from which on it is none of a loop, if they have more than such a share of its nodes.
NEW = {4: 0.5, 8: 0.25}

#: By the kind of node that they end in, and whether gradients went through: the latest first.
segments: LRU = owned(lambda: LRU(LIMIT, most=LIMIT), LRU.clear)


class FoundPart(NamedTuple):
    """A segment that was recognised: its roots, latest first, and what it holds.

    values    of nodes that are read;   stored: nodes that are given values
    outer     nodes that are asked for;   past: those whose history is given up
    """

    segment: Segment
    roots: tuple[Node, ...]
    values: tuple
    stored: tuple[Node, ...]
    outer: tuple[Node, ...]
    past: tuple[Node, ...]


class Cut(NamedTuple):
    """A recording that was cut.

    parts     the latest first
    new       how many of them are new segments
    pending   leaves and targets at its ends whose values are wanted, and pending
    """

    parts: list[FoundPart]
    new: int
    pending: list[Node]


def cut(
    root: Node,
    beside: Sequence[Node],
    tracks: bool,
    targets: AbstractSet[Node],
    complete: Callable[[Segment, Sequence[Node], Sequence[Node], frozenset[Node]], None],
) -> Cut:
    """The parts of what a node and others beside it need.  Raises Unfit; no node has changed then.

    root       what gradients are asked of, or a pending value
    beside     others that are wanted with it: new segments store them, if they lie within them
    tracks     whether gradients go through the history, to its leaves and to `targets`
    complete   complete(segment, nodes, roots, past): make the code of a new one
    """
    return _Remaining(tracks, targets, complete, frozenset(beside)).of(root, beside)


class _Remaining:
    """The rest of a recording, whose latest nodes are the frontier, while parts are taken off it."""

    def __init__(
        self, tracks: bool, targets: AbstractSet[Node], complete: Callable, wanted: AbstractSet[Node]
    ) -> None:
        self.tracks, self.targets, self.complete, self.wanted = tracks, targets, complete, wanted
        self.frontier: list[Node] = []  # by number: the latest last
        self.ends: set[Node] = set()  # leaves and targets that were met
        self.gone: set[Node] = set()  # roots of what was taken off
        self.pending: dict[Node, None] = {}
        self.new = self.made = self.taken = 0  # segments, their nodes; nodes that were taken off
        self.is_mixed = False  # whether the frontier holds what gradients do not go through

    def of(self, root: Node, beside: Sequence[Node]) -> Cut:
        if self._is_end(root):
            raise Unfit
        others = [n for n in dict.fromkeys(beside) if n is not root and n.value is None and not self._is_end(n)]
        self.frontier = sorted([root, *others], key=by_number)
        self.is_mixed = self.tracks and not all([n.kind.out.requires_grad for n in self.frontier])
        parts: list[FoundPart] = []
        latest = None
        while self.frontier:
            if latest is not None:
                self._grow(latest)
            part = self._known()
            if part is None:
                if any([self.new >= count and self.made > share * self.taken for count, share in NEW.items()]):
                    raise Unfit
                nodes = _top_segment(self._open(), self._ends, is_rest=bool(parts))
                self._make(nodes)
                part = self._known()
                if part is None:
                    raise Unfit
            parts.append(part)
            segment = part.segment
            self.taken += len(segment)
            if segment is latest:
                segment.repeats += 1
            latest = segment
        return Cut(parts, self.new, list(self.pending))

    def _top(self) -> tuple[Kind, bool]:
        """The key of segments that may end here."""
        return self.frontier[-1].kind, self.tracks

    def _known(self) -> FoundPart | None:
        """The part at the end that a known segment recognises; it is taken off."""
        known: list[Segment] = segments.get(self._top(), [])
        for k, segment in enumerate(known):
            part = self._recognised(segment)
            if part is not None:
                if k:
                    _put_first(known, segment)
                return part
        return None

    def _recognised(self, segment: Segment) -> FoundPart | None:
        frontier, width = self.frontier, segment.width
        if width > len(frontier):
            return None
        roots = (frontier[-1],) if width == 1 else tuple(frontier[: -width - 1 : -1])
        found = segment.accepts(roots)
        if found is None:
            return None
        part = FoundPart(segment, roots, *found)
        return part if self._takes(part) else None

    def _takes(self, part: FoundPart) -> bool:
        """Take a part off the frontier, if none of what stays lies within it, and none of what it reads is gone."""
        frontier, outer, roots, size = self.frontier, part.outer, part.roots, part.segment.size
        read = set(outer[:size])
        if not read.isdisjoint(self.gone):
            return False
        oldest = min([node.number for node in outer[size:]])
        if len(frontier) > len(roots) and frontier[-len(roots) - 1].number >= oldest:
            # Nodes that are no older may lie within: of a segment with a history only that is known, of others all.
            stay = frontier[bisect_left(frontier, oldest, key=by_number) : -len(roots)]
            within = set(part.past or outer[size:]).difference(roots)
            if self.is_mixed or not within.isdisjoint(stay):
                return False
        del frontier[-len(roots) :]
        for node in read - self.ends:
            if self._is_end(node):
                self.ends.add(node)
                continue
            self.is_mixed = self.is_mixed or (self.tracks and not node.kind.out.requires_grad)
            place = bisect_left(frontier, node.number, key=by_number) if frontier else 0
            if place == len(frontier) or frontier[place] is not node:
                frontier.insert(place, node)
        self.gone.update(roots)
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

    def _grow(self, segment: Segment) -> None:
        """Make one segment of several, if calling each of them has cost as much as compiling that will."""
        if not segment.may_grow or segment.repeats * OVERHEAD_S < prices.of(TIMES * segment.operations):
            return
        nodes = self._open()
        segment.may_grow = len(nodes) < TIMES * len(segment)  # this one began too early to tell
        longer = _longer_segment(nodes, len(segment), self._ends)
        if longer is not None:
            self._make(longer, segment)

    def _make(self, nodes: Sequence[Node], of: Segment | None = None) -> None:
        """Make the segment of the nodes that the frontier ends in; of several of another one."""
        inside = set(nodes)
        roots = [n for n in reversed(self.frontier) if n in inside]
        past = frozenset([n for n in nodes if n.kind.out.requires_grad] if self.tracks else ())
        segment = Segment(nodes, roots, past, None if of is None else (of.serial, of.times * TIMES), self.wanted)
        self.complete(segment, nodes, roots, past)
        self.new += 1
        self.made += len(segment)
        top = self._top()
        known: list[Segment] = segments.get(top, [])
        _put_first(known, segment)
        segments.put(top, known, len(known))

    def _ends(self, nodes: Sequence[Node]) -> bool:
        """True if the nodes of the frontier that are among these are the latest of it."""
        inside = set(nodes)
        width = sum([node in inside for node in self.frontier])
        return width > 0 and all([node in inside for node in self.frontier[-width:]])

    def _open(self) -> list[Node]:
        """The latest of what is to be computed or gone through for the frontier, as it was recorded."""
        heap = [(-node.number, k, node) for k, node in enumerate(reversed(self.frontier))]
        seen = set(self.frontier)
        found: list[Node] = []
        while heap and len(found) < MOST:
            node = heappop(heap)[2]
            self._refuse_unfit(node)
            found.append(node)
            for i in node.inputs:
                if i not in seen and self._goes_on(i):
                    seen.add(i)
                    heappush(heap, (-i.number, len(seen), i))
        return found[::-1]

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


def _put_first(known: list[Segment], segment: Segment) -> None:
    """Put one first, but behind those that are several in one; the last goes when there are too many."""
    kept = [segment, *[s for s in known if s is not segment][: TRIED - 1]]
    known[:] = sorted(kept, key=lambda s: not s.is_long)


# ---------------------------------------------------------------- where to cut


def _as_created(created: Sequence[Node]) -> Sequence[Node]:
    return created


def _as_possible(created: Sequence[Node]) -> list[Node]:
    """By the latest of the nodes that it depends on and that depend on none, then by how far it is from one."""
    place: dict[Node, tuple[float, int]] = {}
    for node in created:
        latest, farthest = -1.0, 0
        for i in node.inputs:
            if i in place:
                number, distance = place[i]
                latest, farthest = max(latest, number), max(farthest, distance)
        place[node] = (node.number if latest < 0 else latest), farthest + 1
    return sorted(created, key=place.__getitem__)


#: In which a recording is cut.  In each of these orders no node stands before what it reads.
_ORDERS = (_as_created, _as_possible)


def _top_segment(
    created: Sequence[Node], fits: Callable[[Sequence[Node]], bool], is_rest: bool
) -> Sequence[Node]:
    """The last segment of a recording.  Raises Unfit where it does not fall into segments that are alike.

    fits      whether some nodes may be a segment
    is_rest   what came later was cut already: what does not repeat is then the beginning, and one segment
    """
    found: list[tuple[int, Sequence[Node]]] = []
    for order in _ORDERS:
        nodes = order(created)
        start, cost = _best([n.kind for n in nodes]) if len(nodes) >= SHORTEST else (-1, 0)
        if start < 0:
            if not is_rest:
                continue
            start, cost = 0, len(nodes)
        top = nodes[start:]
        if len(top) <= LARGEST and fits(top):
            found.append((cost, top))
    if not found:
        raise Unfit
    return min(found, key=lambda pair: pair[0])[1]


def _longer_segment(
    created: Sequence[Node], length: int, fits: Callable[[Sequence[Node]], bool]
) -> Sequence[Node] | None:
    """Segments of one length, as many as are made one, that end a recording and are alike; None: they are not."""
    start = len(created) - TIMES * length
    if start < 0 or TIMES * length > LARGEST:
        return None
    for order in _ORDERS:
        last = order(created)[start:]
        kinds = [n.kind for n in last]
        if kinds == kinds[:length] * TIMES and fits(last):
            return last
    return None


def _best(kinds: Sequence[Kind]) -> tuple[int, int]:
    """The last place to cut at, of the kind for which that costs least, and its cost; -1: none is good enough."""
    places: dict[Kind, list[int]] = {}
    for i, kind in enumerate(kinds):
        places.setdefault(kind, []).append(i)
    often = sorted([p for p in places.values() if len(p) >= REPEATS], key=len)[:KINDS]
    costs = [(cost, p) for p in often if (cost := _cost(kinds, p)) is not None]
    if not costs:
        return -1, 0
    least = min([cost for cost, _ in costs])
    # Of those that are as good the first: what the body of the loop begins with, where least is carried over.
    cost, place = min([c for c in costs if c[0] <= 1.1 * least + 2], key=lambda c: c[1][0])
    return place[-1], cost


def _cost(kinds: Sequence[Kind], places: Sequence[int]) -> int | None:
    """The cost of cutting at these places: operations in segments that differ, and the number of segments.

    None when less than half of the recording is in segments that are alike.
    """
    found = [tuple(kinds[a:b]) for a, b in zip(places, [*places[1:], len(kinds)], strict=True)]
    distinct = sum([len(s) for s in set(found)]) + places[0]
    return None if 2 * distinct > len(kinds) else distinct + len(found)
