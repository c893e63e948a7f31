"""Keys of elements, and a row of keys in order, in native Python (`codegen.native`).

A key is a signed number of 32 or 64 bits, in the order of the elements.  Of a float its bits, of a negative one all but
the sign turned round; nan is above all, -0.0 is 0.0.  For a falling order the complement.

    sort(keys, other, out, n, flip, is_bad)     writes `back` of the n keys to out, in their order; `other` is as long

    part    keys below a pivot to the begin of another buffer, the others behind them.  Each side then goes the other
            way, until it fits into registers (`sort_networks`).  No branch depends on a comparison.
    pivot   the middle of some keys.  After one that left an eighth or less on one side (`is_bad`), halfway between the
            least and the largest key, which halves the span of keys: no row takes many times longer than others.
            Where no key is below the pivot, those that are equal to it are the first.

A vector is packed, the keys below the pivot first: AVX-512 has an instruction for it; for AVX2 a table says for each
outcome where lanes come from.  On other machines keys move one by one.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..emit.target import Target
from ..native import (
    bit_cast,
    constants,
    extern,
    i8,
    i32,
    i64,
    lane_bits,
    local,
    native,
    ptr,
    select,
    shuffle,
    u64,
    vector,
    void,
)
from ..records import record
from .sort_networks import network_of

__all__ = ["KINDS", "ends_of", "part_of", "sort_of", "turns_of", "vector_on"]


@record(frozen=True)
class KeyKind:
    """Elements as they are in memory, and of what type a key is."""

    element: type
    key: type
    is_float: bool = False


KINDS = {
    "f32": KeyKind(i32, i32, is_float=True),
    "f64": KeyKind(i64, i64, is_float=True),
    "i32": KeyKind(i32, i32),
    "i64": KeyKind(i64, i64),
    "bool": KeyKind(i8, i8),
}


def turns_of(V, is_float):
    """Functions on vectors: bits of elements to keys, and `back`.  Special are -0.0 and nan, which do not come back, so
    `plain_key` is for all others."""
    last, most = V.item.bits - 1, (1 << V.item.bits - 1) - 1
    infinity, mask = {32: 0x7F800000, 64: 0x7FF0000000000000}[V.item.bits], vector[bool, V.lanes]

    @native(inline=True)
    def plain_key(x: V, flips: V) -> V:
        if is_float:
            return x ^ (x >> V(last) & V(most)) ^ flips
        return x ^ flips

    @native(inline=True)
    def key(x: V, flips: V) -> V:
        if is_float:
            number = select(x == V(-most - 1), V(0), plain_key(x, V(0)))
            return select((x & V(most)) > V(infinity), V(most), number) ^ flips
        return x ^ flips

    @native(inline=True)
    def back(keys: V, flips: V) -> V:
        return plain_key(keys ^ flips, V(0))

    @native(inline=True)
    def are_special(x: V) -> mask:
        if is_float:
            return (x == V(-most - 1)) | ((x & V(most)) > V(infinity))
        return x != x

    return key, plain_key, back, are_special



def vector_on(features, kind):
    """The vector of keys of a type on such a machine."""
    return vector[kind, 8 * Target.of(features).vector_bytes // kind.bits]


def sort_of(V, part, back, most):
    """`sort` for keys in vectors V, at most `most` of them by a network; `back(keys, flips)` gives what is written."""
    K, largest = V.item, (1 << V.item.bits - 1) - 1
    few = few_of(V, back, most)
    middle, halfway = pivots_of(V)

    @native(inline=False)
    def fill(out: ptr[K], n: u64, key: K, flip: K) -> void:
        """Write a key n times."""
        one = back(V(key), V(flip))[0]
        for i in range(n):
            out[i] = one

    @native(inline=False)
    def sort(keys: ptr[K], other: ptr[K], out: ptr[K], n: u64, flip: K, is_bad: bool) -> void:
        if n <= most:
            few(keys, out, n, flip)
            return
        pivot = halfway(keys, n) if is_bad else middle(keys, n)
        count = part(keys, other, n, pivot)
        is_least = count == 0
        if is_least:
            if pivot == largest:
                fill(out, n, pivot, flip)
                return
            count = part(keys, other, n, pivot + 1)
        right = n - count
        is_uneven = (count if count < right else right) <= n >> 3
        if is_least:
            fill(out, count, pivot, flip)
        else:
            sort(other, keys, out, count, flip, is_uneven)
        sort(other + count, keys + count, out + count, right, flip, is_uneven)

    return sort


def few_of(V, back, most):
    """`few` for keys in vectors V."""
    K, lanes, largest, has_16 = V.item, V.lanes, (1 << V.item.bits - 1) - 1, most > 8 * V.lanes
    sort_4, sort_8, sort_16 = network_of(V, 4), network_of(V, 8), network_of(V, 16)

    @native(inline=True)
    def fill_up(rows: ptr[K], n: u64, end: i64) -> void:
        """The largest key behind n keys, up to this end or a vector further."""
        for i in range(n, end, lanes):
            ptr[V](rows + i)[0] = V(largest)

    @native(inline=False)
    def few(keys: ptr[K], out: ptr[K], n: u64, flip: K) -> void:
        """At most as many keys as registers hold.  The last vector is moved a second time in part."""
        rows = local(K, most + lanes)
        last = i64(n) - lanes
        if last >= 0:
            for i in range(0, n, lanes):
                at = i if i < last else last
                ptr[V](rows + at)[0] = ptr[V](keys + at)[0]
        else:
            for j in range(n):
                rows[j] = keys[j]
        if n <= 4 * lanes:
            fill_up(rows, n, 4 * lanes)
            sort_4(ptr[V](rows))
        elif n <= 8 * lanes:
            fill_up(rows, n, 8 * lanes)
            sort_8(ptr[V](rows))
        elif has_16:
            fill_up(rows, n, most)
            sort_16(ptr[V](rows))
        if last >= 0:
            for k in range(0, n, lanes):
                to = k if k < last else last
                ptr[V](out + to)[0] = back(ptr[V](rows + to)[0], V(flip))
        else:
            for m in range(n):
                out[m] = back(V(rows[m]), V(flip))[0]

    return few


def pivots_of(V):
    """The functions that choose a pivot."""
    K, lanes = V.item, V.lanes
    least_lane, most_lane = ends_of(V)

    @native(inline=True)
    def middle_of(x: V, y: V, z: V) -> V:
        """Of three vectors the middle key of each lane."""
        low = select(x < y, x, y)
        high = select(x < y, y, x)
        less = select(high < z, high, z)
        return select(low < less, less, low)

    @native(inline=True)
    def middle(keys: ptr[K], n: u64) -> K:
        """A key near the middle: of three vectors, then of three lanes."""
        third = n // 3
        first = (third - lanes) >> 1
        x = ptr[V](keys + first)[0]
        y = ptr[V](keys + (first + third))[0]
        z = ptr[V](keys + (first + 2 * third))[0]
        found = middle_of(x, y, z)
        return middle_of(V(found[0]), V(found[lanes // 2]), V(found[lanes - 1]))[0]

    @native(inline=False)
    def halfway(keys: ptr[K], n: u64) -> K:
        """The key in the middle between the least and the largest one, of at least a vector; the least one if both are
        the same."""
        low = ptr[V](keys)[0]
        high = low
        last = i64(n) - lanes
        for i in range(lanes, n, lanes):
            x = ptr[V](keys + (i if i < last else last))[0]
            low = select(x < low, x, low)
            high = select(x > high, x, high)
        least = least_lane(low)
        greatest = most_lane(high)
        return (least & greatest) + ((least ^ greatest) >> 1) + K(least != greatest)

    return middle, halfway


def ends_of(V):
    """The functions that give the least and the largest lane of a vector."""
    name = f"v{V.lanes}i{V.item.bits}"
    return [
        extern(f"llvm.vector.reduce.{word}.{name}", V.item, V, runs_python=False, plain=lambda x, of=of: of(x.values))
        for word, of in (("smin", min), ("smax", max))
    ]


def part_of(V, features):
    """`part` for keys in vectors V."""
    K, lanes = V.item, V.lanes
    ones = extern("llvm.ctpop.i64", u64, u64, runs_python=False, plain=lambda x: u64(int(x).bit_count()))
    packed = by_masks(V) if Target.of(features).has_scale else by_table(V) if "+avx2" in features.split(",") else None
    is_packed = packed is not None

    @native(inline=False)
    def part(keys: ptr[K], other: ptr[K], n: u64, pivot: K) -> u64:
        """Keys below the pivot to the begin of `other`, the rest to its end; the number of the former."""
        low = u64(0)
        high = n
        singles = n
        if is_packed:
            singles = n % lanes
        for i in range(singles):
            key = keys[i]
            other[low] = key
            other[high - 1] = key
            is_below = u64(key < pivot)
            low += is_below
            high -= 1 - is_below
        if is_packed:
            # As many keys are free as are unread: whole vectors, so that the same one can be stored at both ends.
            for at in range(singles, n, lanes):
                x = ptr[V](keys + at)[0]
                lanes_below = x < V(pivot)
                outcome = lane_bits(lanes_below)
                both = packed(x, lanes_below, outcome)
                high -= lanes
                ptr[V](other + low)[0] = both
                ptr[V](other + high)[0] = both
                below = ones(outcome)
                low += below
                high += below
        return low

    return part


def by_masks(V):
    """Lanes below first, by AVX-512: the others are packed from the end on."""
    mask, backwards = vector[bool, V.lanes], range(V.lanes - 1, -1, -1)

    def plain(x, chosen, rest):
        found = [value for value, is_it in zip(x.values, chosen.values, strict=True) if is_it]
        return V(found + rest.values[len(found) :])

    name = f"llvm.experimental.vector.compress.v{V.lanes}i{V.item.bits}"
    compress = extern(name, V, V, mask, V, runs_python=False, plain=plain)

    @native(inline=True)
    def packed(x: V, lanes_below: mask, outcome: u64) -> V:
        above = compress(x, lanes_below == (x != x), x)
        return compress(x, lanes_below, shuffle(above, above, backwards))

    return packed


def by_table(V):
    """Lanes below first, by AVX2, which permutes vectors of eight words."""
    mask, W, words = vector[bool, V.lanes], vector[i32, 8], 8 // V.lanes
    by_side = [sorted(range(V.lanes), key=lambda lane: not outcome >> lane & 1) for outcome in range(1 << V.lanes)]
    orders = constants(i32, [words * lane + word for lanes in by_side for lane in lanes for word in range(words)])

    def plain(x, places):
        return W([x.values[place] for place in places.values])

    permuted = extern("llvm.x86.avx2.permd", W, W, W, runs_python=False, plain=plain)

    @native(inline=True)
    def packed(x: V, lanes_below: mask, outcome: u64) -> V:
        return bit_cast(V, permuted(bit_cast(W, x), ptr[W](orders)[outcome]))

    return packed
