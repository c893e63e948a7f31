"""The order of elements in rows, in native Python (`codegen.native`).

    i32 order(pointers, extents)      pointers (x, out), extents (n, inner, flip, begin, end)

writes for each row in [begin, end) the numbers of its n elements in rising order, equal ones as they stand.
Elements of a row are `inner` apart, in x and in out; `flip` -1 gives the falling order.

    key     an unsigned number in the same order: of a float its bits, the sign turned round; nan is above all,
            -0.0 is 0.0.  Of an integer what it is above the least.  Falling: its complement
    pair    key and number of an element, in one word of twice the bits

Several short rows go through a network of comparisons side by side (`order_beside_ir`).  Of one alone each element
counts those that come before it; longer ones go through a network each (`order_network_ir`).  The networks stand beside
it as text.  Pairs of long rows are sorted by one byte of the key after the other, the lowest first; a byte
that is the same in all is passed over.  Where there is no memory for pairs, by insertion.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import (
    Translation,
    bit_cast,
    extern,
    f32,
    f64,
    i8,
    i32,
    i64,
    local,
    native,
    ptr,
    select,
    u8,
    u32,
    u64,
    u128,
    vector,
    void,
)
from . import order_beside_ir, order_network_ir
from .compare_ir import LANES
from .order_key_ir import TYPES, key_ir
from .order_network_ir import MOST

__all__ = ["SHORT", "text"]

#: Rows of so many elements take as long by comparing all with all.
SHORT = 32

#: From two elements to so many, by the bits of a key, and of so many rows or more, rows are ordered side by side.
BESIDE, FEW = {32: 96, 64: 64}, 3

#: Bytes of the keys that are compared at a time.
VECTOR_BYTES = 64

#: Of each dtype: the element in memory, a key as a signed number, a key, a pair.
KINDS = {
    "f32": (f32, i32, u32, u64),
    "f64": (f64, i64, u64, u128),
    "i32": (i32, i32, u32, u64),
    "i64": (i64, i64, u64, u128),
    "bool": (i8, i32, u32, u64),
}


def text(module: Translation, dtype: str) -> str:
    """LLVM's text of `order` for rows of this dtype, of at most as many elements as a key has values."""
    in_memory, word = TYPES[dtype], "i64" if dtype.endswith("64") else "i32"
    module.beside(order_network_ir.network_ir(in_memory, word, key_ir(in_memory, word, LANES)))
    module.beside(order_beside_ir.beside_ir(in_memory, word))
    key = keys_of(dtype)
    module.use(key)  # the text beside calls it
    return module.text([order_of(dtype, *sorters(dtype, key), *alone(dtype, key))])


def keys_of(dtype):
    """The function that makes keys."""
    element, signed, word, _ = KINDS[dtype]
    is_float = element in (f32, f64)
    last, all_ones = word.bits - 1, word(-1)
    least = signed(-(1 << word.bits - 1))

    @native(inline=True)
    def key(row: ptr[element], number: u64, inner: u64, flip: word) -> word:
        given = row[number * inner]
        if is_float:
            x = given + 0.0  # -0.0 and 0.0 are equal
            bits = bit_cast(signed, x)
            rising = word(bits ^ (bits >> last | least))
            return (all_ones if x != x else rising) ^ flip
        return word(signed(given) ^ least) ^ flip

    return key


def sorters(dtype, key):
    """The functions that count and sort pairs."""
    element, _, word, pair = KINDS[dtype]
    bits, is_wide, all_bytes = word.bits, word.bits == 64, word.bits // 8

    @native(inline=True)
    def tally(counts: ptr[u64], of: word, byte: word) -> void:
        at = u64(byte) * 256 + u64(of >> byte * 8 & 255)
        counts[at] = counts[at] + 1

    @native(inline=False)
    def count(row: ptr[element], pairs: ptr[pair], counts: ptr[u64], n: u64, inner: u64, flip: word) -> void:
        """The pairs of a row, and how often each byte of keys has each value."""
        for i in range(n):
            of = key(row, u64(i), inner, flip)
            pairs[i] = pair(i) << bits | of
            tally(counts, of, 0)
            tally(counts, of, 1)
            tally(counts, of, 2)
            tally(counts, of, 3)
            if is_wide:
                tally(counts, of, 4)
                tally(counts, of, 5)
                tally(counts, of, 6)
                tally(counts, of, 7)

    @native(inline=False)
    def sort(pairs: ptr[pair], others: ptr[pair], counts: ptr[u64], n: u64) -> ptr[pair]:
        """The pairs in order: where they lie in the end."""
        for byte in range(all_bytes):
            table = counts + byte * 256
            shift = pair(byte * 8)
            if table[pairs[0] >> shift & 255] == n:
                continue
            before = u64(0)
            for digit in range(256):
                after = before + table[digit]
                table[digit] = before
                before = after
            for i in range(n):
                moved = pairs[i]
                digit = i64(moved >> shift & 255)
                to = table[digit]
                table[digit] = to + 1
                others[to] = moved
            kept = pairs
            pairs = others
            others = kept
        return pairs

    return count, sort


def alone(dtype, key):
    """The functions for one row of few elements, and for one without memory for its pairs."""
    element, _, word, _ = KINDS[dtype]
    lanes = VECTOR_BYTES * 8 // word.bits
    keys_of_lanes = vector[word, lanes]

    @native(inline=True)
    def one_more(counts: keys_of_lanes, lane_is_above: vector[bool, lanes]) -> keys_of_lanes:
        return counts + select(lane_is_above, keys_of_lanes(1), keys_of_lanes(0))

    @native(inline=False)
    def rank(row: ptr[element], out: ptr[u64], keys: ptr[word], n: u64, inner: u64, flip: word) -> void:
        """The numbers of a row go to the places of their elements: each counts those below it, and those alike before
        it.  Some elements, a vector of them, are compared with all others at a time."""
        steps = local(word, lanes)
        places = local(word, lanes)
        for lane in range(lanes):
            steps[lane] = word(lane)
        for k in range(n):
            keys[k] = key(row, u64(k), inner, flip)
        i = u64(0)
        while i < n:
            end = i + lanes if i + lanes <= n else n
            mine = ptr[keys_of_lanes](keys + i)[0]
            counts = keys_of_lanes(0)
            for b in range(i):
                counts = one_more(counts, keys_of_lanes(keys[b]) <= mine)
            for a in range(i, end):
                other = keys_of_lanes(keys[a])
                is_later = ptr[keys_of_lanes](steps)[0] > keys_of_lanes(word(u64(a) - i))
                counts = one_more(counts, (other < mine) | ((other == mine) & is_later))
            for c in range(end, n):
                counts = one_more(counts, keys_of_lanes(keys[c]) < mine)
            ptr[keys_of_lanes](places)[0] = counts
            for p in range(i, end):
                out[u64(places[u64(p) - i]) * inner] = u64(p)
            i += lanes

    @native(inline=False)
    def insert(row: ptr[element], out: ptr[u64], n: u64, inner: u64, flip: word) -> void:
        """Each number goes to where those before it have no larger key."""
        for i in range(n):
            of = key(row, u64(i), inner, flip)
            j = u64(i)
            while j > 0 and key(row, out[(j - 1) * inner], inner, flip) > of:
                out[j * inner] = out[(j - 1) * inner]
                j -= 1
            out[j * inner] = u64(i)

    return rank, insert


def order_of(dtype, count, sort, rank, insert):
    """`order` itself."""
    element, _, word, pair = KINDS[dtype]
    bits, most_beside, table_bytes = word.bits, BESIDE[word.bits], word.bits // 8 * 256 * 8
    pair_bytes = word.bits // 4
    allocated = extern("PyMem_RawMalloc", ptr, u64, runs_python=False)
    free = extern("PyMem_RawFree", void, ptr, runs_python=False)
    set_bytes = extern("llvm.memset.p0.i64", void, ptr, u8, u64, bool, runs_python=False)
    beside = extern("beside", void, ptr, ptr, ptr, ptr, u64, u64, word, runs_python=False)
    network = extern("network", bool, ptr, ptr, ptr, ptr, u64, u64, word, runs_python=False)

    @native(inline=True)
    def base(r: u64, n: u64, inner: u64) -> u64:
        """The first element of row r."""
        return r // inner * (n * inner) + r % inner

    @native(inline=True)
    def put_long(
        row: ptr[element], out: ptr[u64], pairs: ptr[pair], counts: ptr[u64], n: u64, inner: u64, flip: word
    ) -> void:
        """The numbers of a long row, by its pairs."""
        set_bytes(counts, 0, table_bytes, False)
        count(row, pairs, counts, n, inner, flip)
        found = sort(pairs, pairs + n, counts, n)
        for i in range(n):
            out[u64(i) * inner] = u64(found[i] >> bits)

    @native
    def order(pointers: ptr[ptr], extents: ptr[u64]) -> i32:
        x = ptr[element](pointers[0])
        out = ptr[u64](pointers[1])
        n = extents[0]
        inner = extents[1]
        flip = word(extents[2])
        end = extents[4]
        rows = local(ptr[element], LANES)
        outs = local(ptr[u64], LANES)
        counts = local(u64, table_bytes // 8)
        words = local(u64, MOST)
        keys = local(u64, MOST)
        pairs = ptr[pair](allocated(n * pair_bytes * 2)) if n > SHORT else ptr[pair](0)
        r = extents[3]
        while r < end:
            if n >= 2 and n <= most_beside and end - r >= FEW:
                for lane in range(LANES):
                    # of too few rows the last fills the lanes up
                    at = base(r + u64(lane) if r + u64(lane) < end else end - 1, n, inner)
                    rows[lane] = x + at
                    outs[lane] = out + at
                beside(rows, outs, words, keys, n, inner, flip)
                r += LANES
                continue
            at = base(r, n, inner)
            if n <= SHORT:
                rank(x + at, out + at, ptr[word](keys), n, inner, flip)
            elif not (n <= MOST and network(x + at, out + at, keys, words, n, inner, flip)):
                if pairs is None:
                    insert(x + at, out + at, n, inner, flip)
                else:
                    put_long(x + at, out + at, pairs, counts, n, inner, flip)
            r += 1
        free(pairs)
        return i32(0)

    return order
