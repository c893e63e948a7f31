"""The order in which a recording was made: the entries of a walk sorted by the numbers of their nodes.

    put_in_order()         entries with a place by their number, in order

Numbers are odd words, or objects where a node was put between two others; those are sorted by a heap.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import i64, native, ptr, u32, u64, unlikely, void
from .object_heads import RawObject
from .recording_entries import OWN, walk
from .recording_objects import float_value, int_value, set_bytes
from .recording_structs import RawNode, tape

__all__ = ["number_word", "put_in_order"]


@native(inline=False)
def number_word(n: ptr[RawNode]) -> u64:
    """Twice a node's number, and one."""
    if n.number & 1 != 0:
        return n.number
    thing = ptr[RawObject](n.number)
    if thing.type is tape.int_type:
        return u64(2 * int_value(ptr(thing)) + 1)
    return u64(i64(2.0 * float_value(ptr(thing)))) + 1


@native(inline=True)
def sink(first: u64, count: u64) -> void:
    """Let an entry sink to its place in a heap, the largest number on top."""
    at = first
    moved = walk.dated[at].number
    entry = walk.dated[at].at
    while True:
        down = 2 * at + 1
        if down >= count:
            break
        if down + 1 < count and walk.dated[down + 1].number > walk.dated[down].number:
            down += 1
        if walk.dated[down].number <= moved:
            break
        walk.dated[at].number = walk.dated[down].number
        walk.dated[at].at = walk.dated[down].at
        at = down
    walk.dated[at].number = moved
    walk.dated[at].at = entry


@native(inline=False)
def sort_dated(count: u64) -> void:
    """Sort entries by their numbers."""
    start = count // 2
    while start > 0:
        start -= 1
        sink(start, count)
    left = count
    while left > 1:
        left -= 1
        number = walk.dated[left].number
        entry = walk.dated[left].at
        walk.dated[left].number = walk.dated[0].number
        walk.dated[left].at = walk.dated[0].at
        walk.dated[0].number = number
        walk.dated[0].at = entry
        sink(0, left)


@native
def put_in_order() -> u64:
    """The entries with a place by their number, in order, into `queue`: how many.

    Numbers of one recording lie side by side: each finds its place in a window by its number.
    """
    width = u64(0)
    first = u64(0)
    if not walk.is_dated and walk.own > 0:
        width = (walk.most - walk.least >> 1) + 1
        if unlikely(width > 4 * walk.own + 64):
            width = 4 * walk.own + 64
        first = walk.most - 2 * (width - 1)
        set_bytes(ptr(walk.window), 0, width * 4)
    n_dated = u64(0)
    met = walk.met
    window = walk.window
    for i in range(walk.count):
        e = met[i]
        if e.flags & OWN == 0:
            continue
        if unlikely(width == 0 or e.node.number < first):
            walk.dated[n_dated].number = number_word(e.node)
            walk.dated[n_dated].at = u64(i)
            n_dated += 1
        else:
            window[(e.node.number - first) >> 1] = u32(i)
    sort_dated(n_dated)
    queue = walk.queue
    n = u64(0)
    for i in range(n_dated):
        queue[n] = u32(walk.dated[i].at)
        n += 1
    for i in range(width):
        queue[n] = window[i]
        n += u64(window[i] != 0)
    return n
