"""Pieces of recordings, found again by their hashes, in native Python: see `autodiff.tape.segment`.

    learn_piece     walk over a piece and keep its hash
    is_alike        the same walk: true where the hash is the same

A piece is what is reached from its roots, as far as it goes: its words say of each node, in the order in which they are
met, if it is one of its own, whose inputs are met then.  So nothing is put in order, and numbers do not matter: other
threads may have some between.  The words have the hash so far, too: a walk over something else ends soon.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, i64, local, native, ptr, u32, u64
from . import recording_objects as py
from .recording_entries import begin, has_room, walk
from .recording_hash import Digest, mix, start
from .recording_structs import RawNode, count_of, input_at, tape


class CodeBlock(Struct):
    """Code that is run on a piece: where its inputs come from, and where its results go to, by places of nodes.

    executable   where it has what is called
    argument_table    per input two words: see `recording_parts.word_at`
    result_table      of what is computed per node: its place, the position of its value, whether it drops its inputs;
                 of cotangents per node: its place, two words as above, whether its cotangent is masked
    flag_table   of cotangents: which are given, roots first, then tracked nodes (0: none, 1, 2: a masked one)
    """

    executable: ptr[ptr]
    arguments: i64
    argument_table: ptr[i64]
    results: i64
    result_table: ptr[i64]
    flags: i64
    flag_table: ptr[i64]


class PieceBlock(Struct):
    """The hash of a piece, and what is done with it.  Places count nodes from 0, in the order in which they are met.

    low, high      its hash
    roots, count   how many roots it has, which are met first, and nodes in all
    words          per node: the hash so far, but for the lowest bit, which is 1 for one of its own
    read_table     the places of nodes outside that are pending or have a history
    tracked_table  the places of those that gradients go to
    forward        what computes it; null where nothing is to be computed
    pulls          a list of what carries cotangents through it
    """

    low: u64
    high: u64
    roots: i64
    count: u64
    words: ptr[u32]
    reads: i64
    read_table: ptr[i64]
    tracked: i64
    tracked_table: ptr[i64]
    forward: ptr[CodeBlock]
    pulls: ptr


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
def is_alike(p: ptr[PieceBlock], ends: ptr, is_new: bool) -> bool:
    """True if what the last nodes of a list end is the piece, whose roots they are, the first one last; a new one is
    learnt."""
    begin()
    last_root = py.list_size(ends) - 1
    if last_root + 1 < p.roots or not has_room(i64(p.count) + p.roots + 4):
        return False
    for i in range(p.roots):
        if meet(ptr[RawNode](py.list_item(ends, last_root - i))) != u64(i) + 1:
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
def learn_piece(piece: ptr, ends: ptr) -> bool:
    """Keep the hash of what the last nodes of a list end; False where it is no piece of so many nodes."""
    return is_alike(ptr[PieceBlock](py.bytes_at(piece)[0]), ends, True)
