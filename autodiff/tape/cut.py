"""The division of a long recording into segments that look alike, from its end to its beginning.

    frontier    the nodes that are asked for, or that the parts taken off so far read
    known       a known segment that ends in the latest frontier node is taken off; its inputs join the frontier
    new         if no known segment fits, a new one is made: see below

No node is a root of two parts, and no part reads the roots of a part that was taken off before it.  So in this order
each part finds all cotangents of its roots, and in the reverse order each part finds the values that it reads.  A node
within two parts is computed twice; each part propagates its share of the node's cotangent, and the shares add up.

**A new segment** is one iteration of the user's loop.  Each iteration records some kind of operation once.  If the
recording is cut before each occurrence of that kind, most of the segments are alike.  Every kind that occurs often
enough is tried; the best kind is the one for which least has to be compiled and called:

    cost    operations in segments that differ  +  number of segments

If a recording ends by adding up a list of losses, this end is as long as the loop.  So a second order is tried beside
the order of creation: each sum follows its operands at once, and is cut with their iteration:

    by creation     h1 l1 h2 l2 h3 l3 s1 s2 s3
    as possible     h1 l1 s1 h2 l2 s2 h3 l3 s3     the sums of a second list would stand there, too
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

#: The occurrences of a kind that make a loop, and the length of a recording that may be cut, at least.
REPEATS, SHORTEST = 4, 48
#: The most operations of one segment: a longer piece is compiled with the whole recording, or not at all.
LARGEST = 400
#: The number of latest operations in a recording that decide where it is cut.
MOST = 4000
#: The number of kinds that are tried, beginning with the one that occurs least often.
KINDS = 24
#: The most operations in segments that differ: this number plus this share of the recording (.3 in a random one).
DISTINCT = 16, 0.25
#: The most known segments that are tried for the kind of node that a recording ends in.
TRIED = 64
#: The weight of a cached segment, in nodes of `session.programs`: it has 80 KB of machine code or more.
WEIGHT = 1500

#: A recording with this many new segments is not a loop's if they have more than this share of the nodes taken off.
NEW = {4: 0.5, 8: 0.25}

#: Segments by (the kind of their last node, True if gradients go through): the latest first.
segments = namespace("segment")

#: A part of a recording: its segment, and the nodes of the recording at the segment's places.
Part = tuple[Segment, tuple[Node, ...]]


class Cut:
    """A recording that is cut into `parts`, the latest first; the number of `new` segments; and the `pending` leaves
    and targets at its beginning, whose values are needed."""

    def __init__(self, roots: Sequence[Node], targets: AbstractSet[Node], rules: Rules | None) -> None:
        """Cut the nodes that some roots depend on.  Raises Unfit if that fails, before any node changes.

        roots      the node whose gradients or value is asked for, then nodes that are wanted with it
        targets    the nodes at which gradients end, beside leaves
        rules      the function that runs the rules of a segment; None: no gradients are asked for
        """
        self.parts: list[Part] = []
        self.pending: dict[Node, None] = {}
        self.new = 0
        self._targets, self._rules, self._tracks, self._wanted = targets, rules, rules is not None, frozenset(roots[1:])
        self._known: dict[Kind, list[Segment]] = {}
        self._ends: set[Node] = set()  # targets, and the leaves that were reached
        self._gone: set[Node] = set()  # roots of the parts taken off
        self._made = 0  # number of nodes in new segments
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
        """Take known segments off the end of the recording; False if none fits."""
        kind, count = self._frontier[-1].kind, len(self.parts)
        self._known[kind] = segments.get((kind, self._tracks), [])
        machine_code().cut_known_segments(self._known, self._frontier, self.parts, self._gone, self._ends, self._is_end)
        return len(self.parts) > count

    def _is_end(self, node: Node) -> bool:
        """True if gradients end at this node: it is a leaf, or a target."""
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
        """Make a segment of these nodes, which are the end of the recording."""
        inside = set(nodes)
        roots = [n for n in reversed(self._frontier) if n in inside]
        segment = Segment(nodes, roots, self._rules, self._wanted)
        self.new += 1
        self._made += len(segment)
        key = self._frontier[-1].kind, self._tracks
        known = [segment, *segments.get(key, [])[: TRIED - 1]]
        segments.put(key, known, WEIGHT * len(known))

    def _fits(self, nodes: Sequence[Node]) -> bool:
        """True if the frontier nodes among these nodes are the latest of the frontier."""
        inside = set(nodes)
        width = sum([node in inside for node in self._frontier])
        return width > 0 and all([node in inside for node in self._frontier[-width:]])

    def _open(self) -> list[Node]:
        """The latest nodes that the frontier needs for values or gradients, at most `MOST`, by creation."""
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
    """Sort nodes by the latest source that they depend on (a node that reads none of them), then by distance from one.

    In this order, too, each node follows the nodes that it reads.
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
    """The last segment of a recording.  Raises Unfit if the recording has no segments that are alike.

    fits      a function that returns True if the nodes may be a segment
    is_rest   True after parts were taken off: nodes that do not repeat are then the recording's beginning, one segment
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
    """The last place to cut at, for the kind with the least cost, and that cost; -1: no kind is good enough."""
    places: dict[Kind, list[int]] = {}
    for i, kind in enumerate(kinds):
        places.setdefault(kind, []).append(i)
    often = sorted([p for p in places.values() if len(p) >= REPEATS], key=len)[:KINDS]
    costs = [(cost, p) for p in often if (cost := _cost(kinds, p)) is not None]
    if not costs:
        return -1, 0
    least = min([cost for cost, _ in costs])
    # Kinds with nearly equal costs: take the first to occur, where the loop's body begins and least is carried over.
    cost, place = min([c for c in costs if c[0] <= 1.1 * least + 2], key=lambda c: c[1][0])
    return place[-1], cost


def _cost(kinds: Sequence[Kind], places: Sequence[int]) -> int | None:
    """The cost of cutting at these places: operations in segments that differ, and the number of segments.

    None if too many operations are in segments that differ.
    """
    found = [tuple(kinds[a:b]) for a, b in pairwise([*places, len(kinds)])]
    distinct = sum([len(s) for s in set(found)]) + places[0]
    least, share = DISTINCT
    return distinct + len(found) if distinct <= least + share * len(kinds) else None
