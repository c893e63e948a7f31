"""Histories in native Python: the nodes that lead to some nodes of a recording, by creation.

    history_of(nodes, since)      those through which gradients flow, or all that were recorded after a number
    uncommon_of(nodes)            those among nodes that have room for more, or were released
    largest_of(nodes)             the number of elements of the largest value of nodes
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import borrowed, i64, likely, local, native, obj, ptr, u64, unlikely, void
from .recording_entries import PAST, Hot, begin, has_room, hold, load, note_own, reach, save, walk
from .recording_objects import (
    FEW,
    append,
    clear_error,
    dec,
    failed,
    inc,
    int_of,
    int_value,
    leave,
    list_item,
    list_of,
    list_size,
    new_list,
    object_of,
    room,
    tuple_item,
    tuple_size,
)
from .recording_order import number_word, put_in_order
from .recording_structs import RawNode, count_of, flow_of, input_at, tape

__all__ = ["history_list", "history_of", "largest_of", "uncommon_of"]


@native(inline=True)
def leads(q: ptr[RawNode], since: u64) -> bool:
    """True if the walk goes through a node: gradients flow through it, or it is newer than a number, if that is one."""
    if since == 0:
        return q.kind.tracks is tape.true
    word = q.number if likely(q.number & 1 != 0) else number_word(q)
    return word > 2 * since + 1


@native(inline=True)
def go_to(h: ptr[Hot], q: ptr[RawNode], since: u64) -> void:
    if q is not None and leads(q, since):
        reach(h, q, PAST)


@native(inline=False)
def follow(at: u64, since: u64) -> void:
    """Meet the inputs of any node."""
    n = walk.met[at].node
    count = count_of(n)
    if not has_room(count):
        return
    h = local(Hot, 1)[0]
    load(h)
    note_own(h, h.met[at])
    ends = local(i64, 3)
    ends[0] = 0
    ends[1] = count
    if since == 0:
        flow_of(n, count, ends)
    for i in range(ends[0], ends[1] if ends[1] < count else count):
        go_to(h, input_at(n, i), since)
    save(h)


@native
def follow_all(since: u64) -> void:
    """Meet all that leads to what was met."""
    h = local(Hot, 1)[0]
    load(h)
    head = walk.head
    while head < h.tail and not walk.is_full:
        at = u64(h.queue[head])
        n = h.met[at].node
        head += 1
        if likely(n.type is tape.plain_type and n.inputs is None and h.count + 2 <= h.capacity):
            note_own(h, h.met[at])
            go_to(h, n.first, since)
            go_to(h, n.second, since)
        else:
            save(h)
            follow(at, since)
            load(h)
    save(h)


@native
def history_list(nodes: ptr, since: u64) -> ptr:
    """`history_of`, a new reference; null with an exception."""
    begin()
    count = tuple_size(nodes)
    held = ptr[ptr](None)
    nearby = local(ptr, FEW)
    own = u64(0)
    if has_room(count):
        h = local(Hot, 1)[0]
        load(h)
        for i in range(count):
            go_to(h, ptr[RawNode](tuple_item(nodes, i)), since)
        save(h)
        follow_all(since)
        if not walk.is_full:
            own = put_in_order()
            held = room(nearby, FEW, i64(own))
            if held is None:
                clear_error()
    if held is None:
        inc(tape.none)
        return tape.none
    hold(held, walk.queue, own)
    # A list is made now: that may run any Python.
    made = list_of(held, i64(own))
    leave(held, nearby)
    return made


@native
def history_of(nodes: borrowed, since: u64) -> obj:
    """The nodes that lead to those of a tuple, by creation: a list; None where there is no memory.

    since    0: through which gradients flow;  a number: all that were recorded after it
    """
    return object_of(history_list(ptr(nodes), since))


@native
def uncommon_of(nodes: borrowed) -> obj:
    """Those of a list of nodes that have room for more, or have been released: a list."""
    made = new_list(0)
    for i in range(list_size(ptr(nodes)) if made is not None else i64(0)):
        n = ptr[RawNode](list_item(ptr(nodes), i))
        if unlikely(n.type is not tape.plain_type or n.kind.released is tape.true) and append(made, ptr(n)) != 0:
            dec(made)
            return failed()
    return object_of(made)


@native
def largest_of(nodes: borrowed) -> obj:
    """The number of elements of the largest value of a list of nodes; 0 for none."""
    found = i64(0)
    last = ptr(None)
    for i in range(list_size(ptr(nodes))):
        out = ptr[RawNode](list_item(ptr(nodes), i)).kind.out
        if ptr(out) is last:
            continue
        last = ptr(out)
        size = i64(1)
        for k in range(tuple_size(out.shape)):
            size *= int_value(tuple_item(out.shape, k))
        found = size if size > found else found
    return object_of(int_of(found))
