"""Where a long recording is cut into stretches that look alike: one for each time round the user's loop.

A loop records some kind of operation once each time round.  Cut before each of its occurrences, the recording
falls into stretches, most of them alike.  Every kind that occurs often enough is tried; the best is the one
for which least has to be compiled and called:

    cost    operations in stretches that differ  +  number of stretches

so neither an operation that stands twice in the body of the loop (twice as many stretches), nor one of a rare
branch (stretches of many times round, no two alike).  Which was chosen is remembered: the next episode, of
another length, is cut in the same places.
"""

from __future__ import annotations

from collections.abc import Sequence

from codegen.runtime.cache import LRU

from .node import Kind, Node

__all__ = ["longer_stretch", "top_stretch"]

#: How often something must stand in a recording to be a loop, and what is too short to be looked at.
REPEATS, FEWEST = 4, 48
#: Operations of one stretch: more are compiled with the rest of the recording, or not at all.
LARGEST = 400
#: Kinds that are tried, from the one that occurs least often.
TRIED = 24

#: Kinds that recordings were cut at.
_known = LRU(64)


def top_stretch(order: Sequence[Node], is_rest: bool) -> int:
    """Where the last stretch of a recording begins; -1 when it does not fall into stretches that are alike.

    order     what has to be computed or gone through, by creation
    is_rest   what came later was cut already: what does not repeat is then the beginning, and one stretch
    """
    kinds = [n.kind for n in order]
    places: dict[Kind, list[int]] = {}
    for i, kind in enumerate(kinds):
        places.setdefault(kind, []).append(i)
    is_long = len(order) >= FEWEST
    start = -1
    for kind, found in places.items():
        if kind in _known and (_cost(kinds, found) >= 0 if is_long else is_rest or len(found) >= REPEATS):
            start = found[-1]
            break
    else:
        if is_long:
            start = _best(kinds, places)
    if start < 0 and is_rest:
        start = 0
    return start if len(order) - start <= LARGEST else -1


def longer_stretch(order: Sequence[Node], length: int, times: int) -> int:
    """Where so many stretches of one length begin that end a recording and are alike; -1 when they are not."""
    start = len(order) - times * length
    if start < 0 or times * length > LARGEST:
        return -1
    kinds = [n.kind for n in order[start:]]
    return start if kinds == kinds[:length] * times else -1


def _best(kinds: Sequence[Kind], places: dict[Kind, list[int]]) -> int:
    """The last place to cut at, of the kind for which that costs least; -1: none is good enough."""
    often = sorted([p for p in places.values() if len(p) >= REPEATS], key=len)[:TRIED]
    costs = [(cost, p[0], p[-1]) for p in often if (cost := _cost(kinds, p)) >= 0]
    if not costs:
        return -1
    least = min(costs)[0]
    # Of those that are as good the first: what the body of the loop begins with, where least is carried over.
    _, _, last = min([c for c in costs if c[0] <= 1.1 * least + 2], key=lambda c: c[1])
    _known.put(kinds[last], True)
    return last


def _cost(kinds: Sequence[Kind], places: Sequence[int]) -> int:
    """What cutting at these places costs; -1 when less than half of the recording is in stretches that are alike."""
    ends = [*places[1:], len(kinds)]
    stretches = [tuple(kinds[a:b]) for a, b in zip(places, ends, strict=True)]
    distinct = sum([len(s) for s in set(stretches)]) + places[0]
    return -1 if 2 * distinct > len(kinds) else distinct + len(stretches)
