"""A long recording cut into segments that look alike, from its end to its beginning.

    frontier    nodes that something taken off already reads, or that are asked for
    known       the segment that ends in the latest of them comes off; what it reads goes to the frontier
    new         where none is known, one is made: see below

No node is a root of two parts, and no part reads the roots of one that was taken off before it.  So in order each part
has all the cotangents that others carry to its roots; in reverse order each finds the values that it reads.  What lies
within two parts is computed twice, and its cotangents are carried on apart, which adds up to the same.

**A new segment** is one time round the user's loop.  A loop records some kind of operation once each time round.  Cut
before each of its occurrences, the recording falls into segments, most of them alike.  Every kind that occurs often
enough is tried; the best is the one for which least has to be compiled and called:

    cost    operations in segments that differ  +  number of segments

The end of a recording that adds up losses in a list, say, is as long as the loop.  In another order than that of
creation each sum stands where it could have been done, and is cut with the rest:

    by creation     h1 l1 h2 l2 h3 l3 s1 s2 s3
    as possible     h1 l1 s1 h2 l2 s2 h3 l3 s3     each after what it needs; those of a second list stand there, too
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from itertools import pairwise

from codegen.ir import OPS

from ..session import namespace
from .node import CONSTANT, Kind, Node
from .record import ALIASES
from .segment import Rules, Segment, Unfit, machine_code
from .walk import by_number

#: The times that something must stand in a recording to be a loop, and a length that is too short to be looked at.
REPEATS, SHORTEST = 4, 48
#: Operations of one segment: more are compiled with the rest of the recording, or not at all.
LARGEST = 400
#: The latest operations of a recording, which say where it is cut.
MOST = 4000
#: Kinds that are tried, from the one that occurs least often.
KINDS = 24
#: The most operations in segments that differ: so many, and such a share of the recording (if all is random, .3).
DISTINCT = 16, 0.25
#: Segments that are tried, of those that end in a node of one kind.
TRIED = 64
#: A segment that is kept has some 80 KB of machine code and more: it weighs as much as so many nodes (`programs`).
WEIGHT = 1500

#: New segments of one recording from which on it is none of a loop, if they have more than such a share of its nodes.
NEW = {4: 0.5, 8: 0.25}

#: By the kind of node that they end in, and whether gradients went through: the latest first.
segments = namespace("segment")

#: A part: its segment, and the nodes of that by their places.
Part = tuple[Segment, tuple[Node, ...]]


class Cut:
    """A recording that is cut into parts, the latest first: how many of their segments are new, and which leaves and
    targets at its ends are pending and wanted."""

    def __init__(self, roots: Sequence[Node], targets: AbstractSet[Node], rules: Rules | None) -> None:
        """Cut what some nodes need.  Raises Unfit; no node has changed then.

        roots      what gradients are asked of, or a pending value; then others that are wanted with it
        targets    where gradients end, beside leaves
        rules      those of gradients that go through the history; None: none do
        """
        self.parts: list[Part] = []
        self.pending: dict[Node, None] = {}
        self.new = 0
        self._targets, self._rules, self._tracks, self._wanted = targets, rules, rules is not None, frozenset(roots[1:])
        self._known: dict[Kind, list[Segment]] = {}
        self._ends: set[Node] = set()  # targets, and leaves that were met
        self._gone: set[Node] = set()  # roots of what was taken off
        self._made = 0  # nodes of new segments
        root, *beside = dict.fromkeys(roots)
        for node in targets:
            self._is_end(node)
        if self._is_end(root):
            raise Unfit
        others = [n for n in beside if n.value is None and not self._is_end(n)]
        self._frontier = sorted([root, *others], key=by_number)  # the latest last
        while self._frontier:
            if not self._takes():
                taken = sum([len(segment) for segment, _ in self.parts])
                if any([self.new >= count and self._made > share * taken for count, share in NEW.items()]):
                    raise Unfit
                self._make(_top_segment(self._open(), self._fits, is_rest=bool(self.parts)))
                if not self._takes():
                    raise Unfit

    def _takes(self) -> bool:
        """Take off what known segments recognise at the end.  False where none does."""
        kind, count = self._frontier[-1].kind, len(self.parts)
        self._known[kind] = segments.get((kind, self._tracks), [])
        machine_code().cut_known_segments(self._known, self._frontier, self.parts, self._gone, self._ends, self._is_end)
        return len(self.parts) > count

    def _is_end(self, node: Node) -> bool:
        """True if gradients end here: a leaf, or a target."""
        leaf = node.leaf
        if leaf is None and node not in self._targets:
            return False
        self._ends.add(node)
        if node.value is None:
            self.pending[node] = None
        if leaf is not None and leaf.hooks:
            raise Unfit
        return True

    def _make(self, nodes: Sequence[Node]) -> None:
        """Make the segment of the nodes that the frontier ends in."""
        inside = set(nodes)
        roots = [n for n in reversed(self._frontier) if n in inside]
        segment = Segment(nodes, roots, self._rules, self._wanted)
        self.new += 1
        self._made += len(segment)
        key = self._frontier[-1].kind, self._tracks
        known = [segment, *segments.get(key, [])[: TRIED - 1]]
        segments.put(key, known, WEIGHT * len(known))

    def _fits(self, nodes: Sequence[Node]) -> bool:
        """True if the nodes of the frontier that are among these are the latest of it."""
        inside = set(nodes)
        width = sum([node in inside for node in self._frontier])
        return width > 0 and all([node in inside for node in self._frontier[-width:]])

    def _open(self) -> list[Node]:
        """The latest of what is to be computed or gone through for the frontier, as it was recorded."""
        heap = [(-node.number, k, node) for k, node in enumerate(reversed(self._frontier))]
        seen = set(self._frontier)
        found: list[Node] = []
        while heap and len(found) < MOST:
            node = heappop(heap)[2]
            self._refuse_unfit(node)
            found.append(node)
            for i in node.inputs:
                if i not in seen and (i.value is None or self._goes_through(i)) and not self._is_end(i):
                    seen.add(i)
                    heappush(heap, (-i.number, len(seen), i))
        return found[::-1]

    def _goes_through(self, node: Node) -> bool:
        return self._tracks and node.kind.out.requires_grad

    def _refuse_unfit(self, node: Node) -> None:
        kind = node.kind
        op = kind.op
        is_ours = op in ALIASES or op is CONSTANT or (OPS.get(op.name) is op and not op.has_regions)
        has_rule = op.pull is not None or not self._goes_through(node)
        if type(node) is not Node or kind.released or not (is_ours and has_rule):
            raise Unfit


# ---------------------------------------------------------------- where to cut


def _as_possible(created: Sequence[Node]) -> list[Node]:
    """By the latest of the nodes that it depends on and that depend on none, then by how far it is from one.

    In this order, too, no node stands before what it reads.
    """
    place: dict[Node, tuple[float, int]] = {}
    for node in created:
        latest, farthest = -1.0, 0
        for i in node.inputs:
            if i in place:
                number, distance = place[i]
                latest, farthest = max(latest, number), max(farthest, distance)
        place[node] = (node.number if latest < 0 else latest), farthest + 1
    return sorted(created, key=place.__getitem__)


def _top_segment(created: Sequence[Node], fits: Callable[[Sequence[Node]], bool], is_rest: bool) -> Sequence[Node]:
    """The last segment of a recording.  Raises Unfit where it does not fall into segments that are alike.

    fits      whether some nodes may be a segment
    is_rest   what came later was cut already: what does not repeat is then the beginning, and one segment
    """
    found: list[tuple[int, Sequence[Node]]] = []
    for nodes in (created, _as_possible(created)):
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

    None where too many are in segments that differ.
    """
    found = [tuple(kinds[a:b]) for a, b in pairwise([*places, len(kinds)])]
    distinct = sum([len(s) for s in set(found)]) + places[0]
    least, share = DISTINCT
    return distinct + len(found) if distinct <= least + share * len(kinds) else None
