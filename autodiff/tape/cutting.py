"""Cuts of a long recording, into stretches that look alike: one for each time round the user's loop.

A loop records some kind of operation once each time round.  Cut before each of its occurrences, the recording
falls into stretches, most of them alike.  Every kind that occurs often enough is tried; the best is the one
for which least has to be compiled and called:

    cost    operations in stretches that differ  +  number of stretches

so neither an operation that stands twice in the body of the loop (twice as many stretches), nor one of a rare
branch (stretches of many times round, no two alike).  Which was chosen is remembered: the next episode, of
another length, is cut in the same places.

What is done at the end with something of each time round, losses in a list that are added up, say, is as long as
the loop.  In another order than that of creation it stands where it could have been done, and is cut with the rest:

    by creation     h1 l1 h2 l2 h3 l3 s1 s2 s3
    as needed       h1 l1 s1 h2 l2 s2 h3 l3 s3         each after what it needs, from the first operand on
    as possible     the same; s1 .. s3 of a second list would stand with those of the first
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from codegen.ir.graph import in_depth

from ..session import namespace
from .node import Kind, Node
from .walk import by_number

__all__ = ["SHORTEST", "longer_stretch", "top_stretch"]

#: The times that something must stand in a recording to be a loop, and a length that is too short to be looked at.
REPEATS, SHORTEST = 4, 48
#: Operations of one stretch: more are compiled with the rest of the recording, or not at all.
LARGEST = 400
#: Kinds that are tried, from the one that occurs least often.
TRIED = 24
#: More operations that differ than so many times those of the recording that was cut first: other orders are tried.
DOUBT = 2

#: Kinds that recordings were cut at: in which order, and what differed then.
_known = namespace("cut")


class Cut(NamedTuple):
    """The last stretch of a recording.

    kind      what it begins with, if that was looked for
    distinct  operations in stretches that differ, of all that cutting before this kind gives
    cost      what that costs
    """

    nodes: Sequence[Node]
    kind: Kind | None
    distinct: float
    cost: float


def _as_created(created: Sequence[Node], ends: Sequence[Node]) -> Sequence[Node]:
    return created


def _as_needed(created: Sequence[Node], ends: Sequence[Node]) -> list[Node]:
    """Depth first, from the latest end on."""
    return in_depth(ends[::-1], {i for node in created for i in node.inputs}.difference(created))


def _as_possible(created: Sequence[Node], ends: Sequence[Node]) -> list[Node]:
    """By the latest of the nodes that it depends on and that depend on none, then by how far it is from one."""
    place: dict[Node, tuple[float, int]] = {}
    for node in created:
        inputs = [place[i] for i in node.inputs if i in place]
        latest, farthest = max([n for n, _ in inputs], default=node.number), max([d for _, d in inputs], default=0)
        place[node] = latest, farthest + 1
    return sorted(created, key=place.__getitem__)


#: In which a recording is cut.  In each of these orders no node stands before what it reads.
_ORDERS = (_as_created, _as_needed, _as_possible)


def top_stretch(
    nodes: Iterable[Node], ends: Sequence[Node], is_rest: bool, fits: Callable[[Sequence[Node]], bool]
) -> Sequence[Node] | None:
    """The last stretch of a recording; None when it does not fall into stretches that are alike.

    nodes     what has to be computed or gone through
    ends      those of them that nothing else of the recording reads, and others, by creation
    is_rest   what came later was cut already: what does not repeat is then the beginning, and one stretch
    fits      whether some nodes may be a stretch
    """
    created = sorted(nodes, key=by_number)
    known = next((_known.get(n.kind) for n in created if n.kind in _known), None)
    if known is not None:
        which, distinct = known
        cut = _cut(_ORDERS[which](created, ends), is_rest)
        if cut is not None and cut.distinct <= DOUBT * distinct and fits(cut.nodes):
            return cut.nodes
    cuts = [_cut(order(created, ends), is_rest) for order in _ORDERS]
    fitting = [(cut.cost, which) for which, cut in enumerate(cuts) if cut is not None and fits(cut.nodes)]
    if not fitting:
        return None
    _, which = min(fitting)
    best = cuts[which]
    assert best is not None
    if best.kind is not None:
        _known.put(best.kind, (which, best.distinct))
    return best.nodes


def _cut(order: Sequence[Node], is_rest: bool) -> Cut | None:
    kinds = [n.kind for n in order]
    places: dict[Kind, list[int]] = {}
    for i, kind in enumerate(kinds):
        places.setdefault(kind, []).append(i)
    is_long = len(order) >= SHORTEST
    start, found = -1, None
    for kind, at in places.items():
        if kind in _known:
            found = _cost(kinds, at)
            if found is not None if is_long else is_rest or len(at) >= REPEATS:
                start = at[-1]
                break
    else:
        if is_long:
            start, found = _best(kinds, places)
    if start < 0 and not is_rest:
        return None
    nodes = order[max(start, 0) :]
    distinct, cost = found or (len(order), len(order))
    return Cut(nodes, kinds[start] if start >= 0 else None, distinct, cost) if len(nodes) <= LARGEST else None


def longer_stretch(
    nodes: Iterable[Node], ends: Sequence[Node], length: int, times: int, fits: Callable[[Sequence[Node]], bool]
) -> Sequence[Node] | None:
    """Stretches of one length, as many as asked, that end a recording and are alike; None when they are not."""
    created = sorted(nodes, key=by_number)
    start = len(created) - times * length
    if start < 0 or times * length > LARGEST:
        return None
    for order in _ORDERS:
        last = order(created, ends)[start:]
        kinds = [n.kind for n in last]
        if kinds == kinds[:length] * times and fits(last):
            return last
    return None


def _best(kinds: Sequence[Kind], places: dict[Kind, list[int]]) -> tuple[int, tuple[int, int] | None]:
    """The last place to cut at, of the kind for which that costs least, and its cost; -1: none is good enough."""
    often = sorted([p for p in places.values() if len(p) >= REPEATS], key=len)[:TRIED]
    costs = [(cost, p) for p in often if (cost := _cost(kinds, p)) is not None]
    if not costs:
        return -1, None
    least = min([whole for (_, whole), _ in costs])
    # Of those that are as good the first: what the body of the loop begins with, where least is carried over.
    cost, place = min([c for c in costs if c[0][1] <= 1.1 * least + 2], key=lambda c: c[1][0])
    return place[-1], cost


def _cost(kinds: Sequence[Kind], places: Sequence[int]) -> tuple[int, int] | None:
    """The cost of cutting at these places: operations in stretches that differ, more with the number of stretches.

    None when less than half of the recording is in stretches that are alike.
    """
    ends = [*places[1:], len(kinds)]
    stretches = [tuple(kinds[a:b]) for a, b in zip(places, ends, strict=True)]
    distinct = sum([len(s) for s in set(stretches)]) + places[0]
    return None if 2 * distinct > len(kinds) else (distinct, distinct + len(stretches))
