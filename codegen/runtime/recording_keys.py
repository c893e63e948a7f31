"""The key of an ask: a hash of the recording and of what is asked of it, and the tables that are looked up by it.

    walked(...)            the walk for an ask, with the hash
    key_of(...)            the key as bytes, with the nodes in canonical order and the calls whose keys belong to it
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import borrowed, i64, local, native, obj, ptr, u8, u32, u64, void
from .object_heads import RawObject
from .recording_entries import KEPT, PAST, PENDING, READ, begin, entry_of, hold, walk
from .recording_hash import Digest, known_identity, mix, number, place_given, start
from .recording_objects import (
    FEW,
    bytes_at,
    dec,
    failed,
    is_subtype,
    leave,
    list_item,
    list_of,
    list_size,
    new_bytes,
    object_of,
    referent,
    room,
    tuple_item,
    tuple_size,
)
from .recording_structs import RawHandle, RawNode, RawRich, is_plain_or_no_leaf, old_of, tape
from .recording_walk import gather, root, roots

__all__ = ["BACKWARD", "TENSORS", "key_object", "key_of", "list_of_found", "mix_asked", "walked"]


#: The purposes of asks: values; gradients into `.grad`; those of tensors, all versions of a leaf being one; of nodes;
#: gradients of tensors of which some may not be reached.
VALUE, BACKWARD, TENSORS, NODES, SOME = 1, 2, 3, 4, 5


@native(inline=True)
def place_of(n: ptr) -> u64:
    """One more than the place of a node; 0 for one that has none, and for None."""
    if n is tape.none:
        return 0
    e = entry_of(ptr[RawNode](n))
    return u64(i64(e.place) + 1) if e is not None else u64(0)


@native(inline=False)
def mix_asked(d: ptr[Digest], purpose: u64, results: ptr, seeds: ptr, targets: ptr) -> void:
    """Add to the hash which nodes are asked for, by their places."""
    if purpose != VALUE:
        for i in range(tuple_size(results)):
            mix(d, place_of(tuple_item(results, i)), place_of(tuple_item(seeds, i)))
    if purpose == BACKWARD:
        for i in range(walk.n_leaves):
            e = walk.met[walk.leaves[i]]
            old = old_of(ptr[RawRich](e.node).leaf)
            if old is not None and walk.met[old.mark].place < 0:
                place_given(d, old.mark)
            mix(d, u64(e.place), place_of(ptr(old)) if old is not None else u64(0))
    else:
        for i in range(tuple_size(targets)):
            n = ptr[RawNode](tuple_item(targets, i))
            version = i64(-1)
            if purpose != NODES and not is_plain_or_no_leaf(n):
                version = known_identity(ptr[RawRich](n).leaf)
            mix(d, place_of(ptr(n)), u64(version + 1))
    hashed = purpose if purpose != SOME else u64(TENSORS)
    mix(d, d.count, hashed | u64(tuple_size(targets)) << 8)


@native(inline=False)
def walked(
    d: ptr[Digest], purpose: u64, small: ptr, results: ptr, seeds: ptr, also: ptr, targets: ptr, tracks: bool
) -> bool:
    """Walk over what is asked for.  False where no key says all: hooks, no memory.

    small     weak references to handles: what is pending of these is asked for, too; None: nothing is
    results, seeds, also, targets    tuples of nodes; a seed may be None
    """
    start(d, 0x243F6A8885A308D3, 0x13198A2E03707344)
    begin()
    roots(results, u32(PAST) if purpose != VALUE else u32(0))
    roots(seeds, READ)
    roots(also, 0)
    for i in range(list_size(small) if small is not tape.none else i64(0)):
        handle = referent(list_item(small, i))
        if handle is not tape.none and is_subtype(ptr[RawObject](handle).type, tape.handle_type) != 0:
            n = ptr[RawHandle](handle).node
            if n.value is tape.none:
                root(n, 0)
    gather()
    walk.n_asked = walk.n_roots
    if purpose == BACKWARD:
        for i in range(walk.n_leaves):
            leaf = ptr[RawRich](walk.met[walk.leaves[i]].node).leaf
            old = old_of(leaf)
            if old is not None:
                if is_subtype(leaf.grad.head.type, tape.handle_type) == 0:
                    return False
                root(old, READ)
        gather()
    if walk.is_full or (walk.is_hooked and purpose != VALUE):
        return False
    number(d, tracks)
    mix_asked(d, purpose, results, seeds, targets)
    return True


# ------------------------------------------------------------------ keys as objects


@native
def key_object(d: ptr[Digest]) -> ptr:
    """The hash as bytes, a new reference; null with an exception."""
    return new_bytes(ptr(d), 16)


@native
def list_of_found(entries: ptr[u32], count: u64, key: ptr, order: u64) -> ptr:
    """A list of a key, a list of `order` nodes in canonical order, one of those of entries, and bytes.

    The bytes say of each node in canonical order if it is pending (1) and is to be stored (2).

    The count of the key comes along.  Null with an exception.
    """
    nearby = local(ptr, FEW)
    held = room(nearby, FEW, i64(order + count))
    if held is None:
        dec(key)
        return None
    hold(held, walk.order, order)
    hold(held + order, entries, count)
    states = new_bytes(None, i64(order))
    if states is not None:
        said = ptr[u8](bytes_at(states))
        for i in range(order):
            flags = walk.met[walk.order[i]].flags
            said[i] = u8(flags & PENDING != 0) | u8(flags & KEPT != 0) << 1
    # Lists are made now: that may run any Python.
    parts = local(ptr, 4)
    parts[0] = key
    parts[1] = list_of(held, i64(order))
    parts[2] = list_of(held + order, i64(count))
    parts[3] = states
    leave(held, nearby)
    return list_of(parts, 4)


@native
def key_of(
    purpose: u64, results: borrowed, seeds: borrowed, also: borrowed, targets: borrowed, tracks: bool, held: u32
) -> obj:
    """[key, nodes in canonical order, calls of the history, states] of an ask; None where no key says all.

    held    how often the caller holds each node of the history
    """
    d = local(Digest, 1)[0]
    walk.held = held
    if not walked(d, purpose, tape.none, ptr(results), ptr(seeds), ptr(also), ptr(targets), tracks):
        return borrowed(tape.none)
    key = key_object(d)
    if key is None:
        return failed()
    return object_of(list_of_found(walk.calls, walk.n_calls, key, d.count))
