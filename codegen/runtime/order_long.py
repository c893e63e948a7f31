"""One long row in order by several threads, in native Python (`codegen.native`).

    pointers (x, workspace, out)      extents (n, flip, pieces, buckets), then of what threads share (begin, end)

    i32 sample    some keys of the row sorted: those between which buckets lie
    i32 cut       each piece of the row: its keys, then those of each bucket side by side, in out
    i32 gather    each bucket: its keys of all pieces, in the workspace
    i32 finish    each bucket sorted, in out
    i32 mend      zeros and nan as they stand

one after the other.  A piece stays in the second cache while it is cut into 4, 16 or 64; so does a bucket while it is
sorted.  The result does not depend on how the row is cut.
"""

from __future__ import annotations

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.
from ..lowering import BUCKETS, PIECES, TABLE_BYTES
from ..native import Struct, array, extern, i32, i64, native, ptr, u64, void

__all__ = ["steps_of"]

#: Keys of the sample for each bucket.
SAMPLED = 16


class BucketTable(Struct):
    """firsts      the first keys of buckets      ends     of each piece where its buckets end
    are_special    of each piece: it has special elements
    """

    firsts: array[i64, BUCKETS]
    ends: array[u64, PIECES * BUCKETS]
    are_special: array[u64, PIECES]


assert BucketTable.size() == TABLE_BYTES


class Shared(Struct):
    """The extents."""

    n: u64
    flip: u64
    pieces: u64
    buckets: u64
    begin: u64
    end: u64


@native(inline=True)
def piece_of(shared: ptr[Shared]) -> u64:
    return (shared.n + shared.pieces - 1) // shared.pieces


@native(inline=True)
def begin_of(table: ptr[BucketTable], p: u64, b: u64) -> u64:
    """The begin of bucket b in piece p."""
    return u64(0) if b == 0 else table.ends[p * BUCKETS + b - 1]


@native(inline=False)
def first_of(table: ptr[BucketTable], pieces: u64, b: u64) -> u64:
    """The begin of bucket b in the row."""
    total = u64(0)
    for p in range(pieces):
        total += begin_of(table, u64(p), b)
    return total


def cutter_of(K, part):
    """`cut_apart` for keys K."""

    @native(inline=False)
    def cut_apart(
        keys: ptr[K], other: ptr[K], n: u64, before: u64, firsts: ptr[i64], buckets: u64, ends: ptr[u64]
    ) -> void:
        """The keys by so many buckets, from the first key of each on; `ends` are counted from `before`."""
        if buckets == 1:
            ends[0] = before + n
            return
        half = buckets >> 1
        count = part(keys, other, n, K(firsts[half]))
        cut_apart(other, keys, count, before, firsts, half, ends)
        cut_apart(other + count, keys + count, n - count, before + count, firsts + half, half, ends + half)

    return cut_apart


def steps_of(K, key_at, read, again, sort, part):
    """The steps for elements of keys K."""
    key_bytes, cut_apart = K.bits // 8, cutter_of(K, part)
    copied = extern("llvm.memcpy.p0.p0.i64", void, ptr, ptr, u64, bool, runs_python=False)

    class Row(Struct):
        """The pointers; the keys in the workspace come behind the table."""

        x: ptr[K]
        table: ptr[BucketTable]
        out: ptr[K]

    @native(inline=True)
    def keys_of(row: ptr[Row]) -> ptr[K]:
        return ptr[K](row.table + 1)

    @native
    def sample(pointers: ptr[Row], extents: ptr[Shared]) -> i32:
        keys = keys_of(pointers)
        flip = K(extents.flip)
        more = extents.buckets * SAMPLED
        apart = extents.n // more
        for i in range(more):
            keys[i] = key_at(pointers.x, u64(i) * apart + (apart >> 1), flip)
        sort(keys, keys + more, keys, more, flip, False)
        for j in range(extents.buckets):
            # they are elements again
            pointers.table.firsts[j] = i64(key_at(keys, u64(j) * SAMPLED, flip))
        return i32(0)

    @native
    def cut(pointers: ptr[Row], extents: ptr[Shared]) -> i32:
        table = pointers.table
        piece = piece_of(extents)
        for p in range(extents.begin, extents.end):
            far = u64(p) * piece
            start = far if far < extents.n else extents.n
            size = piece if piece < extents.n - start else extents.n - start
            keys = pointers.out + start
            table.are_special[p] = u64(read(pointers.x + start, keys, size, K(extents.flip)))
            cut_apart(
                keys, keys_of(pointers) + start, size, 0, ptr[i64](table.firsts), extents.buckets,
                ptr[u64](table.ends) + p * BUCKETS,
            )  # fmt: skip
        return i32(0)

    @native
    def gather(pointers: ptr[Row], extents: ptr[Shared]) -> i32:
        table = pointers.table
        for b in range(extents.begin, extents.end):
            to = keys_of(pointers) + first_of(table, extents.pieces, u64(b))
            for p in range(extents.pieces):
                begin = begin_of(table, u64(p), u64(b))
                count = begin_of(table, u64(p), u64(b) + 1) - begin
                copied(to, pointers.out + (u64(p) * piece_of(extents) + begin), count * key_bytes, False)
                to = to + count
        return i32(0)

    @native
    def finish(pointers: ptr[Row], extents: ptr[Shared]) -> i32:
        for b in range(extents.begin, extents.end):
            first = first_of(pointers.table, extents.pieces, u64(b))
            count = first_of(pointers.table, extents.pieces, u64(b) + 1) - first
            out = pointers.out + first
            sort(keys_of(pointers) + first, out, out, count, K(extents.flip), False)
        return i32(0)

    @native
    def mend(pointers: ptr[Row], extents: ptr[Shared]) -> i32:
        are_special = u64(0)
        for p in range(extents.pieces):
            are_special |= pointers.table.are_special[p]
        if are_special != 0:
            again(pointers.x, pointers.out, extents.n, K(extents.flip))
        return i32(0)

    return sample, cut, gather, finish, mend
