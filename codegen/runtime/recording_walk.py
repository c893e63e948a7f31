"""The walk over a recording: all nodes that an ask needs, and the history that its gradients flow through.

    begin()                a walk (`recording_entries`)
    root(node, flags)      a node that is asked for, or read: `ROOT`, `READ`, `PAST`
    gather()               all that the roots need, with the history of those that are `PAST`
    number(digest, ...)    the hash of all this, and its order (`recording_hash`)

And lists of nodes for Python, without a hash:

    history_of(nodes, since)      those through which gradients flow, or all that were recorded after a number
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import borrowed, i64, likely, local, native, obj, ptr, u32, u64, unlikely, void
from . import recording_objects as py
from .recording_entries import (
    DONE,
    NOTED,
    PAST,
    PENDING,
    ROOT,
    WIDE,
    Hot,
    begin,
    entry_of,
    has_room,
    hold,
    load,
    note_own,
    number_word,
    put_in_order,
    reach,
    save,
    walk,
)
from .recording_structs import RawNode, RawRich, body_of, count_of, flow_of, input_at, is_filled, tape


@native(inline=True)
def tracked(q: ptr[RawNode], past: u32) -> u32:
    """PAST for an input of a history that gradients go to."""
    return past if q.kind.tracks is tape.true else u32(0)


@native(inline=True)
def read_by(h: ptr[Hot], q: ptr[RawNode], past: u32, links: u32) -> u32:
    """Meet an input that is there, or not: the place of its entry."""
    if q is None:
        return 0
    at = reach(h, q, tracked(q, past) if past != 0 else u32(0))
    h.met[at].links += links
    return u32(at)


@native(inline=True)
def look_at(h: ptr[Hot], at: u64) -> void:
    """Meet the inputs of a plain node that is pending, or in the history; it has two at most."""
    e = h.met[at]
    n = e.node
    past = e.flags & PAST
    links = u32(e.flags & (DONE | PENDING) == PENDING)
    note_own(h, e)
    e.first = read_by(h, n.first, past, links)
    e.second = read_by(h, n.second, past, links)


@native(inline=False)
def look_at_wide(at: u64) -> void:
    """Meet the inputs of any node."""
    n = walk.met[at].node
    r = ptr[RawRich](n)
    is_rich = n.type is not tape.plain_type
    count = count_of(n)
    if unlikely(not has_room(count)):
        return
    h = local(Hot, 1)[0]
    load(h)
    e = h.met[at]
    past = e.flags & PAST
    pending = e.flags & PENDING != 0
    has_leaf = is_rich and ptr(r.leaf) is not tape.none
    walk.n_versions += u64(has_leaf and e.flags & DONE == 0)
    if is_rich and past != 0 and e.flags & NOTED == 0:
        e.flags |= NOTED
        if is_filled(r.hooks) or r.retained is not tape.none:
            walk.is_hooked = True
        if has_leaf:
            walk.leaves[walk.n_leaves] = u32(at)
            walk.n_leaves += 1
            if is_filled(r.leaf.hooks):
                walk.is_hooked = True
    if has_leaf and not pending:
        return
    e.flags |= u32(is_rich or count > 2) * WIDE
    e.first = 0
    e.second = 0
    body = body_of(r, count) if is_rich else i64(-1)
    if past == 0 and body >= 0:
        if e.flags & DONE == 0:
            walk.bodies[walk.n_bodies] = u32(at)
            walk.n_bodies += 1
        note_own(h, e)
        reach(h, input_at(n, body), 0)
        save(h)
        return
    links = u32(pending and e.flags & DONE == 0)
    note_own(h, e)
    ends = local(i64, 3)
    flow_of(n, count, ends)
    for i in range(count):
        read = read_by(h, input_at(n, i), past if i >= ends[0] and i < ends[1] else u32(0), links)
        if i == 0:
            e.first = read
        elif i == 1:
            e.second = read
    save(h)


@native
def root(n: ptr[RawNode], flags: u32) -> void:
    """Meet a node that is asked for, or read; with PAST where gradients are asked of it and it tracks them."""
    if unlikely(not has_room(1)):
        return
    e = entry_of(n)
    is_new = e is None or e.flags & ROOT == 0
    past = flags & PAST
    h = local(Hot, 1)[0]
    load(h)
    reach(h, n, flags & ~u32(PAST) | ROOT | (tracked(n, past) if past != 0 else u32(0)))
    save(h)
    if is_new:
        walk.roots[walk.n_roots] = u32(n.mark)
        walk.n_roots += 1


@native
def roots(nodes: ptr, flags: u32) -> void:
    """The nodes of a tuple as roots; None among them is none."""
    for i in range(py.tuple_size(nodes)):
        n = py.tuple_item(nodes, i)
        if n is not tape.none:
            root(ptr[RawNode](n), flags)


@native
def gather() -> void:
    """Meet all that was not yet met; hooks in a history end it, as there is no key then."""
    h = local(Hot, 1)[0]
    load(h)
    head = walk.head
    while head < h.tail and not walk.is_full and not walk.is_hooked:
        at = u64(h.queue[head])
        n = h.met[at].node
        head += 1
        if likely(n.type is tape.plain_type and n.inputs is None and h.count + 2 <= h.capacity):
            look_at(h, at)
        else:
            save(h)
            look_at_wide(at)
            load(h)
    save(h)
    walk.head = head


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


@native
def follow_all(since: u64) -> void:
    """Meet all that leads to what was met."""
    ends = local(i64, 3)
    h = local(Hot, 1)[0]
    load(h)
    head = walk.head
    while head < h.tail and not walk.is_full:
        at = u64(h.queue[head])
        n = h.met[at].node
        head += 1
        count = count_of(n)
        if unlikely(h.count + u64(count) > h.capacity):
            save(h)
            if not has_room(count):
                break
            load(h)
        note_own(h, h.met[at])
        ends[0] = 0
        ends[1] = count
        if since == 0:
            flow_of(n, count, ends)
        for i in range(ends[0], ends[1] if ends[1] < count else count):
            go_to(h, input_at(n, i), since)
    save(h)


@native
def history_of(nodes: borrowed, since: u64) -> obj:
    """The nodes that lead to those of a tuple, by creation: a list; None where there is no memory.

    since    0: through which gradients flow;  a number: all that were recorded after it
    """
    begin()
    count = py.tuple_size(ptr(nodes))
    held = ptr[ptr](None)
    nearby = local(ptr, py.FEW)
    own = u64(0)
    if has_room(count):
        h = local(Hot, 1)[0]
        load(h)
        for i in range(count):
            go_to(h, ptr[RawNode](py.tuple_item(ptr(nodes), i)), since)
        save(h)
        follow_all(since)
        if not walk.is_full:
            own = put_in_order()
            held = py.room(nearby, py.FEW, i64(own))
            if held is None:
                py.clear_error()
    if held is None:
        return borrowed(tape.none)
    hold(held, walk.queue, own)
    # A list is made now: that may run any Python.
    made = py.list_of(held, i64(own))
    py.leave(held, nearby)
    return py.object_of(made)
