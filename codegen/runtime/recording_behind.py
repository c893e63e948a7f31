"""The key of what lies between results and targets, in native Python: see `autodiff.tape.behind`.

Rules look at what operations are and how they are wired, never at values: so this walk follows histories only, and the
key says nothing of values, or of what is asked for beside.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import borrowed, i64, likely, local, native, obj, ptr, u32, u64, unlikely, void
from .recording_entries import OWN, PAST, READ, WIDE, Hot, begin, has_room, hold, load, note_own, reach, save, walk
from .recording_hash import Digest, copy, identity_of, make_room_for_versions, mix, start, take_place, wires_of
from .recording_keys import found_in, key_object, list_of_found
from .recording_objects import (
    FEW,
    bytes_at,
    clear_error,
    dec,
    failed,
    inc,
    int_value,
    leave,
    list_of,
    object_of,
    room,
    slice_ends,
    tuple_item,
    tuple_of,
    tuple_size,
)
from .recording_order import number_word, put_in_order
from .recording_structs import RawNode, RawRich, body_of, count_of, flow_of, input_at, is_filled, tape
from .recording_walk import root, roots

__all__ = ["ANY", "HOOKED", "PLAIN", "SINCE", "behind_of", "history_of"]

#: The nodes that are followed: histories without hooks; with hooks, which the key names; all that was recorded since;
#: histories, whatever is in them.
PLAIN, HOOKED, SINCE, ANY = 0, 1, 2, 3
#: Of an entry: a target at which histories end.
STOP = READ


@native(inline=True)
def word_of(q: ptr[RawNode]) -> u64:
    """Twice a node's number, and one."""
    return q.number if likely(q.number & 1 != 0) else number_word(q)


@native(inline=True)
def is_behind(q: ptr[RawNode], sort: u64, oldest: u64) -> bool:
    """True if rules go through a node."""
    if unlikely(sort == SINCE):
        return word_of(q) >= oldest and count_of(q) > 0
    return q.kind.tracks is tape.true and (oldest == 0 or word_of(q) >= oldest)


@native(inline=True)
def follow_input(h: ptr[Hot], q: ptr[RawNode], flows: bool, sort: u64, oldest: u64) -> u32:
    """Meet an input that is there, or not: the place of its entry."""
    if q is None:
        return 0
    return u32(reach(h, q, u32(PAST) if flows and is_behind(q, sort, oldest) else u32(0)))


@native(inline=True)
def follow_plain(h: ptr[Hot], at: u64, sort: u64, oldest: u64) -> bool:
    """Meet the inputs, two at most, of a plain node that rules go through.  False where no key says what they do."""
    e = h.met[at]
    n = e.node
    note_own(h, e)
    flows = e.flags & STOP == 0
    e.first = follow_input(h, n.first, flows, sort, oldest)
    e.second = follow_input(h, n.second, flows, sort, oldest)
    return n.kind.released is not tape.true or sort == ANY


@native(inline=True)
def has_hooks(r: ptr[RawRich]) -> bool:
    if is_filled(r.hooks) or r.retained is not tape.none:
        return True
    return ptr(r.leaf) is not tape.none and is_filled(r.leaf.hooks)


@native(inline=False)
def follow(at: u64, sort: u64, oldest: u64) -> bool:
    """Meet the inputs of any such node.  False where no key says what rules do."""
    n = walk.met[at].node
    count = count_of(n)
    if (n.kind.released is tape.true and sort != ANY) or not has_room(count):
        return False
    h = local(Hot, 1)[0]
    load(h)
    e = h.met[at]
    note_own(h, e)
    e.flags |= u32(n.type is not tape.plain_type or count > 2) * WIDE
    e.first = 0
    e.second = 0
    ends = local(i64, 3)
    flow_of(n, count, ends)
    if unlikely(n.type is not tape.plain_type):
        r = ptr[RawRich](n)
        has_leaf = ptr(r.leaf) is not tape.none
        if has_leaf and sort == SINCE:
            return False
        if sort != ANY and has_hooks(r):
            if sort != HOOKED:
                return False
            walk.is_hooked = True
        is_passed_on = r.call is tape.none and r.slot is tape.none
        if sort != ANY and is_passed_on and (r.body is not tape.none or r.flow is not tape.none):
            return False
        if has_leaf:
            walk.n_versions += 1
            save(h)
            return True
        if sort == SINCE:
            ends[0] = 0
            ends[1] = count
    if e.flags & STOP != 0:
        ends[1] = 0
    for i in range(count):
        read = follow_input(h, input_at(n, i), i >= ends[0] and i < ends[1], sort, oldest)
        if i == 0:
            e.first = read
        elif i == 1:
            e.second = read
    save(h)
    return True


@native(inline=False)
def place_told(d: ptr[Digest], at: u64, sort: u64) -> void:
    """Place a node that rules are given, by a constant's kind, else by its Out."""
    e = d.met[at]
    take_place(d, e, at)
    kind = e.node.kind
    if kind.op is tape.constant_op or (sort == SINCE and kind.op is tape.leaf_op):
        mix(d, u64(kind), 0x47)
    else:
        mix(d, u64(kind.out), 0x53)


@native(inline=False)
def place_inputs(d: ptr[Digest], at: u64, sort: u64) -> void:
    """Place those inputs of a node that have no place yet."""
    n = d.met[at].node
    for i in range(count_of(n)):
        read = input_at(n, i).mark
        if d.met[read].place < 0:
            place_told(d, read, sort)


@native(inline=False)
def place_behind(d: ptr[Digest], at: u64, sort: u64) -> void:
    """Add the kind and wires of any node that rules go through."""
    e = walk.met[at]
    n = e.node
    is_plain = n.type is tape.plain_type
    r = ptr[RawRich](n)
    if not is_plain and ptr(r.leaf) is not tape.none:
        take_place(d, e, at)
        mix(d, u64(n.kind.out), 0x61)
        hooks = u64(0)
        if has_hooks(r):
            hooks = u64(is_filled(r.hooks)) | u64(r.retained is not tape.none) << 1 | u64(is_filled(r.leaf.hooks)) << 2
        mix(d, u64(identity_of(r.leaf, e.place)), hooks)
        return
    place_inputs(d, at, sort)
    take_place(d, e, at)
    mix(d, u64(n.kind) | u64(not is_plain) << 56, wires_of(n, -1))
    if not is_plain:
        if r.call is not tape.none:
            walk.calls[walk.n_calls] = u32(at)
            walk.n_calls += 1
        ends = local(i64, 3)
        ends[0] = -1
        ends[1] = -1
        if r.flow is not tape.none:
            slice_ends(r.flow, ends, ends + 1, ends + 2)
        slot = u64(0) if r.slot is tape.none else u64(int_value(r.slot) + 1)
        hooks = u64(is_filled(r.hooks)) | u64(r.retained is not tape.none) << 1
        mix(d, u64(body_of(r, 1) + 1) | slot << 24 | hooks << 48, u64(ends[0]) ^ u64(ends[1]) << 32)


@native
def followed(sort: u64, oldest: u64) -> bool:
    """Meet all that rules go through, and what they are given.  False where no key says what they do."""
    h = local(Hot, 1)[0]
    load(h)
    head = walk.head
    while head < h.tail:
        at = u64(h.queue[head])
        e = h.met[at]
        head += 1
        if e.flags & (PAST | OWN) != PAST:
            continue
        is_plain = e.node.type is tape.plain_type and e.node.inputs is None
        if likely(is_plain and h.count + 2 <= h.capacity):
            if unlikely(not follow_plain(h, at, sort, oldest)):
                return False
        else:
            save(h)
            if not follow(at, sort, oldest):
                return False
            load(h)
    save(h)
    return True


@native
def place_all(d: ptr[Digest], sort: u64) -> void:
    """Give nodes their places, and add them to the hash."""
    make_room_for_versions()
    own = put_in_order()
    d.met = walk.met
    d.order = walk.order
    h = local(Digest, 1)[0]
    copy(h, d)
    queue = walk.queue
    for i in range(own):
        at = u64(queue[i])
        e = h.met[at]
        is_wide = e.flags & WIDE != 0
        if unlikely(is_wide or (h.met[e.first].place | h.met[e.second].place) < 0):
            copy(d, h)
            if is_wide:
                place_behind(d, at, sort)
            else:
                place_inputs(d, at, sort)
            copy(h, d)
        if likely(not is_wide):
            take_place(h, e, at)
            mix(h, u64(e.node.kind), u64(h.met[e.first].place) | u64(h.met[e.second].place) << 32)
    copy(d, h)


@native
def nodes_read(reads: ptr) -> ptr:
    """[what says which nodes are read, these nodes], by the walk that was made; null with an exception."""
    block = ptr[i64](bytes_at(reads)[0])
    count = block[0]
    places = ptr[i64](block[1])
    nearby = local(ptr, FEW)
    held = room(nearby, FEW, count)
    if held is None:
        return None
    for i in range(count):
        held[i] = ptr(walk.met[walk.order[places[i]]].node)
        inc(held[i])
    inc(reads)
    # A list and a tuple are made now: that may run any Python.
    both = local(ptr, 2)
    both[0] = reads
    both[1] = tuple_of(held, count)
    leave(held, nearby)
    return list_of(both, 2)


@native
def behind_of(nodes: borrowed, results: i64, targets: i64, is_cut: bool, sort: u64, purpose: u64) -> obj:
    """[key, nodes in canonical order, calls, states] of what lies behind the first nodes; None where no key says all.

    results, targets    so many of the nodes are results; behind them so many are targets
    is_cut    histories end at the targets, and at what is older;   sort: a word of this module
    purpose   a number that belongs to the key

    Where the table of emissions says which nodes are read, [what says it, these nodes].
    """
    given = ptr(nodes)
    begin()
    oldest = u64(0)
    if is_cut or sort == SINCE:
        oldest = ~u64(0)
        for i in range(results, results + targets):
            word = number_word(ptr[RawNode](tuple_item(given, i)))
            oldest = word if word < oldest else oldest
    for i in range(tuple_size(given)):
        n = ptr[RawNode](tuple_item(given, i))
        root(n, u32(STOP) if is_cut and sort != SINCE and i >= results and i < results + targets else u32(0))
    if not has_room(results):
        return borrowed(tape.none)
    h = local(Hot, 1)[0]
    load(h)
    for i in range(results):
        n = ptr[RawNode](tuple_item(given, i))
        if is_behind(n, sort, oldest):
            reach(h, n, PAST)
    save(h)
    if not followed(sort, oldest):
        return borrowed(tape.none)
    if sort == HOOKED and not walk.is_hooked:
        return borrowed(tape.none)
    if not is_cut and sort != SINCE:
        for i in range(results, results + targets):
            n = ptr[RawNode](tuple_item(given, i))
            if walk.met[n.mark].flags & PAST == 0:
                return borrowed(tape.none)
    d = local(Digest, 1)[0]
    start(d, 0xA4093822299F31D0, 0x082EFA98EC4E6C89)
    place_all(d, sort)
    for i in range(tuple_size(given)):
        at = ptr[RawNode](tuple_item(given, i)).mark
        if walk.met[at].place < 0:
            place_told(d, at, sort)
        mix(d, u64(walk.met[at].place), u64(i))
    mix(d, d.count, sort << 32 | u64(tuple_size(given)))
    mix(d, purpose, u64(results) << 32 | u64(targets))
    key = key_object(d)
    if key is None:
        return failed()
    if walk.n_calls == 0:
        reads = found_in(tape.emissions, key, tape.reads_type)
        if reads is not None:
            dec(key)
            return object_of(nodes_read(reads))
    return object_of(list_of_found(walk.calls, walk.n_calls, key, d.count))


@native
def history_of(nodes: borrowed) -> obj:
    """The nodes through which gradients of some nodes flow, by creation: a list; None where there is no memory."""
    begin()
    roots(ptr(nodes), PAST)
    if walk.is_full or not followed(ANY, 0):
        return borrowed(tape.none)
    own = put_in_order()
    nearby = local(ptr, FEW)
    held = room(nearby, FEW, i64(own))
    if held is None:
        clear_error()
        return borrowed(tape.none)
    hold(held, walk.queue, own)
    # A list is made now: that may run any Python.
    made = list_of(held, i64(own))
    leave(held, nearby)
    return object_of(made)
