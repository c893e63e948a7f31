"""Pieces of recordings, recognised by their hashes, in native Python: see `autodiff.tape.segment`.

    learn_piece     walk over a piece and store its hash
    is_alike        walk over nodes in the same way; True if their hash is that of the piece

The nodes of a piece are reached from its roots.  For each node, in the order of the walk, a word of the piece says if
the walk goes on to the inputs of this node.  The walk therefore sorts nothing, and the numbers of nodes do not matter:
other threads may take some in between.  Each word also holds the hash so far: a walk over other nodes ends soon.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, i64, local, native, ptr, u32, u64
from . import recording_objects as py
from .recording_entries import begin, has_room, reach, walk
from .recording_hash import Digest, mix, start
from .recording_structs import RawNode, count_of, input_at, tape


class CodeBlock(Struct):
    """Code that is run on a piece.  Its inputs and results are named by places of nodes.

    executable        the address of the slot that holds the executable
    argument_table    per input two words: see `recording_parts.object_at`
    result_table      of a forward, per node: its place, the position of its value, 1 if the node drops its inputs;
                      of a pull, per node: its place, two words as above, 2 if its cotangent is masked
    flag_table        of a pull, its pattern of cotangents: roots, then tracked nodes (0: none, 1: given, 2: masked)
    """

    executable: ptr[ptr]
    arguments: i64
    argument_table: ptr[i64]
    results: i64
    result_table: ptr[i64]
    flags: i64
    flag_table: ptr[i64]


class PieceBlock(Struct):
    """The hash of a piece, and its code.  Places count nodes from 0, in the order of the walk.

    low, high      the hash
    roots, count   the number of roots, which are met first, and of all nodes
    words          per node: the hash so far; the lowest bit is 1 for a node of the piece, 0 for a node outside
    read_table     the places of nodes outside that are pending or have a history
    tracked_table  the places of nodes outside that gradients go to
    forward        the code that computes the piece; null if nothing is to be computed
    pulls          a list of the code that carries cotangents through the piece, one for each pattern
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


@native(inline=False)
def meet_all(n: ptr[RawNode]) -> u64:
    """A word for the places of a node's inputs, which get entries; 0 if there is no memory for these."""
    count = count_of(n)
    if not has_room(count):
        return 0
    wires = u64(count)
    for i in range(count):
        wires = wires * 0x2545F4914F6CDD1D + reach(input_at(n, i), 0) + 1
    return wires


@native(inline=False)
def is_alike(p: ptr[PieceBlock], ends: ptr, is_new: bool) -> bool:
    """True if the last nodes of a list are the roots of a piece like `p`, the first root last.  If `is_new`, store the
    hash of these nodes in `p`."""
    begin()
    last_root = py.list_size(ends) - 1
    if last_root + 1 < p.roots or not has_room(i64(p.count) + p.roots + 4):
        return False
    for i in range(p.roots):
        if reach(ptr[RawNode](py.list_item(ends, last_root - i)), 0) != u64(i) + 1:
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
            mix(d, u64(n.kind) | pending | 1 << 59, meet_all(n))
        else:
            mix(d, u64(n.kind.out) | pending, 0x67)
        new_word = u32(d.low & 0xFFFFFFFE) | word & 1
        if walk.count > last + 1 or (new_word != word and not is_new):
            return False
        words[at - 1] = new_word
        at += 1
    mix(d, walk.count, u64(p.roots))
    if is_new:
        p.low = d.low
        p.high = d.high
    return walk.count == last + 1 and at == walk.count and p.low == d.low and p.high == d.high


@native
def learn_piece(piece: ptr, ends: ptr) -> bool:
    """Store the hash of the nodes that lead to the last nodes of a list; False if their number is not the piece's."""
    return is_alike(ptr[PieceBlock](py.bytes_at(piece)[0]), ends, True)
