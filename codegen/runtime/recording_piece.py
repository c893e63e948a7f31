"""Pieces of recordings, found again by their hashes, in native Python: see `autodiff.tape.segment`.

    learn_piece     walk over a piece and keep its hash
    piece_of        the same walk: where the hash is the same, what the piece reads and holds
    finish_piece    its nodes keep their values

A piece is what is reached from its roots, as far as it goes: its words say of each node, in the order in which they are
met, if it is one of its own, whose inputs are met then.  So nothing is put in order, and numbers do not matter: other
threads may have some between.  The words have the hash so far, too: a walk over something else ends soon.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, i64, local, native, ptr, row, u32, u64
from .recording_entries import begin, has_room, walk
from .recording_hash import Digest, mix, start
from .recording_objects import FEW, bytes_at, inc, leave, room, tuple_item, tuple_of, tuple_size
from .recording_run import settle
from .recording_structs import RawNode, count_of, input_at, nothing, tape


class PieceBlock(Struct):
    """The hash of a piece, and the places of its nodes that are asked for.

    low, high      its hash
    roots, count   how many roots it has, and nodes in all
    words          per node: the hash so far, but for the lowest bit, which is 1 for one of its own
    values, stored, outer    of how many nodes the values are read, and so on
    places         of all these, in this order
    stored_table   as `recording_run.settle` has it
    """

    low: u64
    high: u64
    roots: i64
    count: u64
    words: ptr[u32]
    values: i64
    stored: i64
    outer: i64
    places: ptr[i64]
    stored_table: ptr[i64]


@native(inline=True)
def piece_at(given: ptr) -> ptr[PieceBlock]:
    return ptr[PieceBlock](bytes_at(given)[0])


@native(inline=True)
def meet(n: ptr[RawNode]) -> u64:
    """The place of a node, which has one from now on."""
    if n is None:
        return 0
    at = n.mark
    if at < walk.count and walk.met[at].node is n:
        return at
    at = walk.count
    walk.count = at + 1
    n.mark = at
    walk.met[at].node = n
    return at


@native(inline=False)
def meet_all(n: ptr[RawNode]) -> u64:
    """A word for the inputs of a node, which have places from now on; 0 where there is no room for them."""
    count = count_of(n)
    if not has_room(count):
        return 0
    wires = u64(0)
    if count <= 2:  # which were asked for in Python
        for i in range(count):
            wires = wires | meet(input_at(n, i)) << u64(32 * i)
        return wires
    wires = u64(count)
    for i in range(count):
        wires = wires * 0x2545F4914F6CDD1D + meet(input_at(n, i)) + 1
    return wires


@native(inline=False)
def is_alike(p: ptr[PieceBlock], roots: ptr, is_new: bool) -> bool:
    """True if what the roots end is the piece; a new one is learnt."""
    begin()
    if i64(tuple_size(roots)) != p.roots or not has_room(i64(p.count) + p.roots + 4):
        return False
    for i in range(p.roots):
        if meet(ptr[RawNode](tuple_item(roots, i))) != u64(i) + 1:
            return False
    d = local(Digest, 1)[0]
    start(d, 0x452821E638D01377, 0xBE5466CF34E90C6C)
    last = p.count
    words = p.words
    at = u64(1)
    while at <= last and at < walk.count:
        n = walk.met[at].node
        word = words[at - 1]
        pending = u64(n.value is tape.none) << 60
        if word & 1 != 0:
            if n.type is not tape.plain_type:
                return False
            wires = u64(0)
            if n.inputs is None:
                wires = meet(n.first)
                wires = wires | meet(n.second) << 32
            else:
                wires = meet_all(n)
            mix(d, u64(n.kind) | pending | 1 << 59, wires)
        else:
            mix(d, u64(n.kind.out) | pending, 0x67)
        said = u32(d.low & 0xFFFFFFFE) | word & 1
        if walk.count > last + 1 or (said != word and not is_new):
            return False
        words[at - 1] = said
        at += 1
    mix(d, walk.count, u64(p.roots))
    if is_new:
        p.low = d.low
        p.high = d.high
    return walk.count == last + 1 and at == walk.count and p.low == d.low and p.high == d.high


@native
def learn_piece(piece: ptr, roots: ptr) -> bool:
    """Keep the hash of what the roots end; False where it is no piece of so many nodes."""
    return is_alike(piece_at(piece), roots, True)


@native
def tuples_of(p: ptr[PieceBlock], held: ptr[ptr]) -> ptr:
    """A tuple of three: values, stored nodes, outer nodes.  The counts of all come along."""
    stored = held + p.values
    outer = stored + p.stored
    return tuple_of(row(tuple_of(held, p.values), tuple_of(stored, p.stored), tuple_of(outer, p.outer)), 3)


@native
def piece_of(piece: ptr, roots: ptr) -> ptr:
    """(values, stored nodes, outer nodes) of what the roots end if it is the piece; else None."""
    p = piece_at(piece)
    if not is_alike(p, roots, False):
        return nothing()
    total = p.values + p.stored + p.outer
    nearby = local(ptr, 4 * FEW)
    held = room(nearby, 4 * FEW, total)
    if held is None:
        return None
    met = walk.met
    for i in range(p.values):
        held[i] = met[p.places[i]].node.value
        inc(held[i])
    for i in range(p.values, total):
        n = met[p.places[i]].node
        n.references += 1
        held[i] = n
    found = tuples_of(p, held)
    leave(held, nearby)
    return found


@native
def finish_piece(piece: ptr, results: ptr, stored: ptr) -> ptr:
    """Give the stored nodes their values.  Gives None."""
    p = piece_at(piece)
    nearby = local(ptr, 4 * FEW)
    held = room(nearby, 4 * FEW, p.stored)
    if held is None:
        return None
    for i in range(p.stored):
        held[i] = tuple_item(stored, i)
    settle(held, p.stored, p.stored_table, results)
    leave(held, nearby)
    return nothing()
