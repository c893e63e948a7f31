"""The hash of a recording, and its nodes in canonical order: the second half of the walk that `recording_walk` begins.

    order_and_hash(digest, tracks)    give nodes their places; add their kinds, wires and states to the hash
    mix(digest, a, b)                 add two more words to the hash

Order and hash stand for the same key as `autodiff.tape.walk.structure`, the version in plain Python.  A pending node
has a reader outside of the recording if it has more references than its pending readers in the recording hold.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, i32, i64, native, ptr, u32, u64, u128, void
from . import recording_objects as py
from .recording_entries import (
    CHEAP,
    IN_HISTORY,
    KEPT,
    ORDERED,
    PENDING,
    READ,
    ROOT,
    LeafPlace,
    WalkEntry,
    entry_of,
    put_in_order,
    walk,
)
from .recording_structs import RawLeaf, RawNode, RawRich, body_of, count_of, input_at, is_filled, tape


class Digest(Struct):
    """The two words of a hash so far, and the number of nodes that have a place."""

    low: u64
    high: u64
    count: u64


@native(inline=True)
def start(d: ptr[Digest], low: u64, high: u64) -> void:
    """Start an empty hash with two seed words."""
    d.low = low
    d.high = high
    d.count = 0


@native(inline=True)
def mix(d: ptr[Digest], a: u64, b: u64) -> void:
    """Add two words to the hash.  Each of its two lanes multiplies the words with different constants."""
    x = u128(d.low ^ a) * u128(b ^ 0xA0761D6478BD642F)
    y = u128(d.high ^ b ^ 0xE7037ED1A0B428DB) * u128(a ^ 0x8EBC6AF09C88C6E3)
    d.low = u64(x) ^ u64(x >> 64) ^ b
    d.high = u64(y) ^ u64(y >> 64) ^ a


# ------------------------------------------------------------------ leaves


@native
def make_room_for_versions() -> void:
    """Empty the hash table of leaves' identities, at twice as many slots as there may be leaves, or more."""
    if walk.n_versions != 0:
        size = u64(2)
        while size < 2 * walk.n_versions:
            size *= 2
        walk.identity_mask = size - 1
        py.set_bytes(walk.identities, 0, size * 16)


@native(inline=True)
def version_place(leaf: ptr[RawLeaf]) -> ptr[LeafPlace]:
    """The slot of a leaf in the table of identities, or the free slot where the leaf should go."""
    at = (u64(leaf) >> 4) * 0x9E3779B97F4A7C15 >> 20 & walk.identity_mask
    while walk.identities[at].leaf is not None and walk.identities[at].leaf is not leaf:
        at = at + 1 & walk.identity_mask
    return walk.identities[at]


@native
def known_identity(leaf: ptr[RawLeaf]) -> i64:
    """The identity of a leaf that the walk has met; -1 for any other leaf."""
    if walk.n_versions == 0:
        return -1
    found = version_place(leaf)
    return i64(-1) if found.leaf is None else found.identity


@native(inline=False)
def note_version(e: ptr[WalkEntry]) -> void:
    """Note the identity of an entry's leaf: the place of the first node that is a version of this leaf."""
    leaf = ptr[RawRich](e.node).leaf
    found = version_place(leaf)
    if found.leaf is None:
        found.leaf = leaf
        found.identity = i64(e.place)
    e.identity = i32(found.identity)


# ------------------------------------------------------------------ places


@native(inline=True)
def give_place(d: ptr[Digest], e: ptr[WalkEntry], at: u64) -> void:
    walk.order[d.count] = u32(at)
    e.place = i32(d.count)
    d.count += 1


@native(inline=True)
def place_data(d: ptr[Digest], at: u64) -> void:
    """Give the next place to a node that the walk stops at because it has a value."""
    e = walk.met[at]
    give_place(d, e, at)
    e.flags |= CHEAP


@native(inline=True)
def only_input(e: ptr[WalkEntry]) -> i64:
    """The number of the input that holds a boundary's value, if the walk follows only this input; else -1."""
    n = e.node
    if n.type is tape.plain_type or e.flags & IN_HISTORY != 0:
        return -1
    return body_of(ptr[RawRich](n), count_of(n))


@native
def place_inputs(d: ptr[Digest], at: u64) -> void:
    """Give places to the inputs of a node that have none yet."""
    e = walk.met[at]
    body = only_input(e)
    for i in range(count_of(e.node)):
        read = input_at(e.node, i).mark
        if (body < 0 or i == body) and walk.met[read].place < 0:
            place_data(d, read)


@native(inline=True)
def has_several_results(e: ptr[WalkEntry]) -> bool:
    """True for a pending custom call of several results, which have the values; the call itself has none."""
    r = ptr[RawRich](e.node)
    if e.flags & (PENDING | ROOT) != PENDING or e.node.type is tape.plain_type:
        return False
    return r.call is not tape.none and r.body is tape.none


@native
def decide_storage(e: ptr[WalkEntry], tracks: bool) -> void:
    """Decide if a node's value is stored, and if the value can be computed elementwise from stored values.

    tracks    True: store each heavy result that tracks gradients
    """
    flags = e.flags
    n = e.node
    r = ptr[RawRich](n)
    is_rich = n.type is not tape.plain_type
    count = count_of(n)
    body = body_of(r, count) if is_rich else i64(-1)
    cheap = u32(CHEAP)
    for i in range(count):
        if body < 0 or i == body:
            cheap &= walk.met[input_at(n, i).mark].flags
    if has_several_results(e):
        return
    if flags & (PENDING | ROOT) != PENDING:
        e.flags = flags | (u32(CHEAP | KEPT) if flags & (PENDING | READ) == PENDING else u32(CHEAP))
        return
    held = walk.held if flags & IN_HISTORY != 0 else u32(0)
    if n.kind.heavy is not tape.true:
        if cheap & CHEAP != 0:
            flags |= CHEAP
        elif n.references > e.links + held:
            flags |= KEPT | CHEAP
    elif n.references > e.links + held or (tracks and n.kind.tracks is tape.true):
        flags |= KEPT | CHEAP
    if is_rich and r.leaf is not tape.none:
        flags |= KEPT | CHEAP
    e.flags = flags


@native
def place_nodes(d: ptr[Digest], n_ordered: u64, tracks: bool) -> void:
    """Give nodes their places, and decide which values are stored."""
    queue = walk.queue
    for i in range(n_ordered):
        at = u64(queue[i])
        e = walk.met[at]
        place_inputs(d, at)
        decide_storage(e, tracks)
        give_place(d, e, at)
    for i in range(walk.n_roots):
        if walk.met[walk.roots[i]].place < 0:
            place_data(d, u64(walk.roots[i]))


# ------------------------------------------------------------------ the hash


@native(inline=True)
def state_bits(e: ptr[WalkEntry]) -> u64:
    """The bits of a node's state for the hash, above those that the address of a kind uses."""
    return u64(e.flags & (IN_HISTORY | KEPT | PENDING)) << 48


@native
def wires_of(n: ptr[RawNode], body: i64) -> u64:
    """The places of a node's inputs as one word; `body` is the number of the only input that counts, -1: all count."""
    wires = u64(count_of(n))
    for i in range(count_of(n)):
        if body < 0 or i == body:
            wires = wires * 0x2545F4914F6CDD1D + u64(walk.met[input_at(n, i).mark].place) + 1
    return wires


@native(inline=True)
def mix_data(d: ptr[Digest], e: ptr[WalkEntry]) -> void:
    """Add a node that the walk stops at because it has a value."""
    in_history = e.flags & IN_HISTORY
    mix(d, u64(e.node.kind.out) | u64(in_history) << 48, 0x67)
    if in_history != 0:
        note_version(e)
        mix(d, u64(e.identity) << 1 | u64(is_filled(ptr[RawRich](e.node).hooks)), 0x71)


@native(inline=True)
def is_keyed_by_out(e: ptr[WalkEntry]) -> bool:
    """True for a node that the key names by its Out, because the operation that computed its value does not matter."""
    if e.flags & ORDERED == 0:
        return True
    r = ptr[RawRich](e.node)
    is_rich = e.node.type is not tape.plain_type
    return e.flags & PENDING == 0 and is_rich and (r.leaf is not tape.none or e.node.kind.op is tape.leaf_op)


@native
def mix_ordered(d: ptr[Digest], at: u64) -> void:
    """Add the kind, wires and state of a node that the walk goes through."""
    e = walk.met[at]
    n = e.node
    r = ptr[RawRich](n)
    what = u64(n.kind.out) if is_keyed_by_out(e) else u64(n.kind)
    mix(d, what | state_bits(e) | 1 << 58, wires_of(n, only_input(e)))
    if n.type is tape.plain_type:
        return
    e.identity = -1
    if r.leaf is not tape.none:
        note_version(e)
    is_called = r.call is not tape.none and e.flags & IN_HISTORY != 0
    if is_called:
        walk.calls[walk.n_calls] = u32(at)
        walk.n_calls += 1
    mix(d, u64(u32(e.identity)), u64(is_filled(r.hooks)) | u64(is_called) << 1)


@native
def order_and_hash(d: ptr[Digest], tracks: bool) -> void:
    """Give all nodes their places, and add them to the hash.

    tracks   True: gradients may be asked for later, so the values that they need are stored
    """
    for i in range(walk.n_bodies):
        n = walk.met[walk.bodies[i]].node
        for k in range(count_of(n)):
            e = entry_of(input_at(n, k))
            if e is not None:
                e.links += 1
    make_room_for_versions()
    n_ordered = put_in_order()
    place_nodes(d, n_ordered, tracks)
    for i in range(d.count):
        at = u64(walk.order[i])
        e = walk.met[at]
        if e.flags & ORDERED != 0:
            mix_ordered(d, at)
        else:
            mix_data(d, e)
