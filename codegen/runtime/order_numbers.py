"""The numbers of a row's elements in order, in native Python (`codegen.native`).

A word is a key (`order_keys`), and below it the number of its element, in 64 bits.  Of a longer key it is what the key
is above the least of its row; where that has too many bits, some at the end are left out, and the order of those that
are alike in the rest is found once more, from these bits.
"""

from __future__ import annotations

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.
from ..native import constants, extern, i64, lane_bits, local, native, ptr, select, u64, vector, void
from .order_keys import turns_of
from .sort_keys import ends_of, part_of, sort_of, vector_on

__all__ = ["row_of_numbers"]


def row_of_numbers(kind, features):
    """`row`, `key_at`, and how many elements need no other memory."""
    E, K = kind.element, kind.key
    V, words, is_wide = vector_on(features, i64), vector_on(features, u64), K is i64
    lanes, lane_numbers = V.lanes, constants(i64, range(V.lanes))
    zeros = extern("llvm.ctlz.i64", u64, u64, bool, runs_python=False, plain=lambda x, _: u64(64 - int(x).bit_length()))
    keys_at, key_at = keys_in(kind, V)

    @native(inline=True)
    def unchanged(x: V, flips: V) -> V:
        return x

    most = 8 * lanes
    sort = sort_of(V, part_of(V, features), unchanged, most)
    find_ends = ends_in(E, K, V, keys_at, key_at)
    are_alike, mend = ties_in(E, K, V, key_at, sort)

    @native(inline=False)
    def row(x: ptr[E], out: ptr[i64], other: ptr[i64], n: u64, flip: K) -> void:
        least = i64(0)
        bits = u64(32)
        drop = u64(0)
        if is_wide:
            ends = local(i64, 2)
            find_ends(x, n, flip, ends)
            least = ends[0]
            bits = 64 - zeros(n - 1, False)
            free = zeros(u64(ends[1] - least), False)
            drop = bits + 1 - free if free <= bits else u64(0)
        whole = n - n % lanes
        steps = ptr[V](lane_numbers)[0]
        for i in range(0, whole, lanes):
            above = words(keys_at(x, i, flip) - V(least))
            ptr[V](out + i)[0] = V(above >> words(drop) << words(bits)) | (steps + V(i))
        for j in range(whole, n):
            out[j] = i64(u64(key_at(x, u64(j), flip) - least) >> drop << bits | u64(j))
        sort(out, other, out, n, 0, False)
        if drop > 0 and are_alike(out, n, bits):
            mend(x, out, other, n, bits, flip)
        mask = (i64(1) << bits) - 1
        for k in range(0, whole, lanes):
            ptr[V](out + k)[0] = ptr[V](out + k)[0] & V(mask)
        for m in range(whole, n):
            out[m] = out[m] & mask

    return row, key_at, most


def keys_in(kind, V):
    """The functions that make keys of elements of a row, in 64 bits: of a vector of them, and of one."""
    E, K = kind.element, kind.key
    given, of_keys = vector[E, V.lanes], vector[K, V.lanes]
    key, *_ = turns_of(of_keys, kind.is_float)

    @native(inline=True)
    def keys_at(x: ptr[E], i: i64, flip: K) -> V:
        return V(key(of_keys(ptr[given](x + i)[0]), of_keys(flip)))

    @native(inline=True)
    def key_at(x: ptr[E], i: u64, flip: K) -> i64:
        return i64(key(of_keys(given(x[i])), of_keys(flip))[0])

    return keys_at, key_at


def ends_in(E, K, V, keys_at, key_at):
    """`find_ends` for rows of elements E."""
    lanes = V.lanes
    least_lane, most_lane = ends_of(V)

    @native(inline=False)
    def find_ends(x: ptr[E], n: u64, flip: K, ends: ptr[i64]) -> void:
        """The least and the largest key of a row."""
        whole = n - n % lanes
        low = V(key_at(x, 0, flip))
        high = low
        for i in range(0, whole, lanes):
            of = keys_at(x, i, flip)
            low = select(of < low, of, low)
            high = select(of > high, of, high)
        for j in range(whole, n):
            of = V(key_at(x, u64(j), flip))
            low = select(of < low, of, low)
            high = select(of > high, of, high)
        ends[0] = least_lane(low)
        ends[1] = most_lane(high)

    return find_ends


def ties_in(E, K, V, key_at, sort):
    """`are_alike` and `mend` for rows of elements E, whose words are sorted by their first bits."""
    lanes = V.lanes

    @native(inline=False)
    def are_alike(out: ptr[i64], n: u64, bits: u64) -> bool:
        """True if two words differ in nothing but the numbers."""
        limit = i64(1) << bits
        found = V(0) != V(0)
        whole = n - 1 - (n - 1) % lanes
        for i in range(0, whole, lanes):
            found = found | ((ptr[V](out + i)[0] ^ ptr[V](out + (i + 1))[0]) < V(limit))
        for j in range(whole, n - 1):
            found = found | (V(out[j] ^ out[j + 1]) < V(limit))
        return lane_bits(found) != 0

    @native(inline=False)
    def mend(x: ptr[E], out: ptr[i64], other: ptr[i64], n: u64, bits: u64, flip: K) -> void:
        """Words that are alike but for the numbers, in the order of the whole keys."""
        mask = (i64(1) << bits) - 1
        begin = u64(0)
        while begin < n:
            end = begin + 1
            while end < n and (out[begin] ^ out[end]) >> bits == 0:
                end += 1
            if end - begin > 1:
                least = key_at(x, u64(out[begin] & mask), flip)
                for i in range(begin, end):
                    of = key_at(x, u64(out[i] & mask), flip)
                    least = of if of < least else least
                for j in range(begin, end):
                    number = out[j] & mask
                    out[j] = (key_at(x, u64(number), flip) - least) << bits | number
                sort(out + begin, other + begin, out + begin, end - begin, 0, False)
            begin = end

    return are_alike, mend
