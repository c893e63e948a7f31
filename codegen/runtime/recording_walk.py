"""The walk over a recording: all nodes that an ask needs, and the history that its gradients flow through.

    begin()                        begin a walk (`recording_entries`)
    root(node, flags)              add a node that is asked for, or read: `ROOT`, `READ`, `IN_HISTORY`
    gather()                       meet all nodes that the roots need, and the history of roots with `IN_HISTORY`
    order_and_hash(digest, ...)    order and hash these nodes (`recording_hash`)

Lists of nodes for Python, without a hash:

    history_of(nodes, since)       the nodes through which gradients flow, or all nodes recorded after a number
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import i64, local, native, own, ptr, u32, u64, void
from . import recording_objects as py
from .recording_entries import (
    DONE,
    IN_HISTORY,
    PENDING,
    ROOT,
    begin,
    entry_of,
    has_room,
    nodes_of,
    note_ordered,
    number_word,
    put_in_order,
    reach,
    walk,
)
from .recording_structs import RawNode, RawRich, body_of, count_of, flow_of, input_at, is_filled, new_none, tape


@native(inline=True)
def flag_if_tracked(q: ptr[RawNode], in_history: u32) -> u32:
    """`in_history` for a node that tracks gradients, else 0."""
    return in_history if q.kind.tracks is tape.true else u32(0)


@native
def meet_inputs(at: u64) -> void:
    """Meet the inputs of the node of an entry."""
    n = walk.met[at].node
    r = ptr[RawRich](n)
    is_rich = n.type is not tape.plain_type
    count = count_of(n)
    if not has_room(count):
        return
    e = walk.met[at]
    in_history = e.flags & IN_HISTORY
    pending = e.flags & PENDING != 0
    has_leaf = is_rich and r.leaf is not tape.none
    walk.n_versions += u64(has_leaf and e.flags & DONE == 0)
    if is_rich and in_history != 0 and (
        is_filled(r.hooks) or r.retained is not tape.none or (has_leaf and is_filled(r.leaf.hooks))
    ):
        walk.is_hooked = True
    if has_leaf and not pending:
        return
    body = body_of(r, count) if is_rich else i64(-1)
    if in_history == 0 and body >= 0:
        if e.flags & DONE == 0:
            walk.bodies[walk.n_bodies] = u32(at)
            walk.n_bodies += 1
        note_ordered(e)
        _ = reach(input_at(n, body), 0)
        return
    links = u32(pending and e.flags & DONE == 0)
    note_ordered(e)
    ends = local(i64, 3)
    flow_of(n, count, ends)
    for i in range(count):
        q = input_at(n, i)
        read = reach(q, flag_if_tracked(q, in_history if i >= ends[0] and i < ends[1] else u32(0)))
        walk.met[read].links += links


@native
def root(n: ptr[RawNode], flags: u32) -> void:
    """Meet a node that is asked for, or read.  It gets the flag `IN_HISTORY` only if it tracks gradients."""
    if not has_room(1):
        return
    e = entry_of(n)
    is_new = e is None or e.flags & ROOT == 0
    in_history = flags & IN_HISTORY
    _ = reach(n, flags & ~u32(IN_HISTORY) | ROOT | flag_if_tracked(n, in_history))
    if is_new:
        walk.roots[walk.n_roots] = u32(n.mark)
        walk.n_roots += 1


@native
def roots(nodes: ptr, flags: u32) -> void:
    """Make the nodes of a tuple roots; skip None."""
    for i in range(py.tuple_size(nodes)):
        n = py.tuple_item(nodes, i)
        if n is not tape.none:
            root(ptr[RawNode](n), flags)


@native
def gather() -> void:
    """Meet all nodes that the roots need.  Hooks in a history end the walk, because no key covers them."""
    while walk.head < walk.tail and not walk.is_full and not walk.is_hooked:
        walk.head += 1
        meet_inputs(u64(walk.queue[walk.head - 1]))


@native(inline=True)
def is_followed(q: ptr[RawNode], since: u64) -> bool:
    """True if `history_of` follows a node: it tracks gradients (`since` is 0), or its number is above `since`."""
    if since == 0:
        return q.kind.tracks is tape.true
    word = q.number if q.number & 1 != 0 else number_word(q)
    return word > 2 * since + 1


@native(inline=True)
def follow(q: ptr[RawNode], since: u64) -> void:
    if q is not None and is_followed(q, since):
        _ = reach(q, IN_HISTORY)


@native
def follow_all(since: u64) -> void:
    """Meet all nodes that lead to the nodes in the queue."""
    ends = local(i64, 3)
    head = walk.head
    while head < walk.tail and not walk.is_full:
        at = u64(walk.queue[head])
        n = walk.met[at].node
        head += 1
        count = count_of(n)
        if not has_room(count):
            break
        note_ordered(walk.met[at])
        ends[0] = 0
        ends[1] = count
        if since == 0:
            flow_of(n, count, ends)
        for i in range(ends[0], ends[1] if ends[1] < count else count):
            follow(input_at(n, i), since)


@native
def history_of(nodes: ptr, since: u64) -> own:
    """A list of the nodes that lead to those of a tuple, in order of creation; None without memory.

    since    0: the nodes through which gradients flow;  a number: all nodes that were recorded after it
    """
    begin()
    count = py.tuple_size(nodes)
    made: own = None
    if has_room(count):
        for i in range(count):
            follow(ptr[RawNode](py.tuple_item(nodes, i)), since)
        follow_all(since)
        if not walk.is_full:
            made = nodes_of(walk.queue, put_in_order())
            if made is None:
                py.clear_error()
    return new_none() if made is None else made
