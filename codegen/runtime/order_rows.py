"""Stable argsort of rows, in native Python (`codegen.native`).

    i32 order(pointers, extents)      pointers (x, out), extents (n, inner, flip, begin, end)

writes for each row in [begin, end) the indices of its n elements in rising order; equal elements keep their order.  The
elements of a row are `inner` apart.  flip is -1 for a falling order, else 0.

The code sorts 64-bit words: 32 bits of the element's key above its index, so that all words differ.  A key is a signed
integer that orders as the elements do.  The key of a float is its bits, with all but the sign flipped if it is
negative; nan has the largest key, -0.0 that of 0.0.  A falling order complements the keys.  A 64-bit key is counted
from the smallest key of the row, and its last bits (`drop`) are left out if it still has more than 32: words that are
equal in the other bits are sorted again, by the bits left out.

    short rows   side by side, each in a lane of vectors, by a sorting network, whose branches depend on no element
    long rows    by a radix sort, in four passes from the last byte of the keys to the first

Source: Batcher, "Sorting networks and their applications" (1968).
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..emit.target import Target
from ..kernel.nest import Status
from ..native import NO_MEMORY, constants, extern, i8, i32, i64, local, native, ptr, select, u32, u64, vector, void
from .vectors import any_of

#: By dtype: the integer type that an element is read as, True for floats.
KINDS = {"f32": (i32, True), "f64": (i64, True), "i32": (i32, False), "i64": (i64, False), "bool": (i8, False)}

#: The longest rows that are sorted side by side: 2.4 ns an element for rows of 256, by radix sort 6 (one core of a Zen
#: 4); and the longest that are so even if most lanes stay empty.
MOST, FEW = 512, 64

#: The number of vectors that are sorted in registers at a time.
BLOCK = 16

#: The bytes of a key: number, first bit in a word, smallest value in the order (the last byte has the sign).
BYTES = ((0, 32, 0), (1, 40, 0), (2, 48, 0), (3, 56, 128))

#: The sign bit of a word, and the bits of its index.
SIGN, NUMBER = 1 << 63, (1 << 32) - 1


# ------------------------------------------------------------ words


def words_of(dtype, V):
    """`prepare` and `finish` for rows of a dtype.

    prepare    writes the words of a row, and into `scale` its smallest key and the number of bits left out
    finish     turns sorted words into the indices of elements; `other` is scratch memory of the same length
    """
    E, is_float = KINDS[dtype]
    is_wide, lanes = E is i64, V.lanes
    last, most, infinity = E.bits - 1, (1 << E.bits - 1) - 1, {32: 0x7F800000, 64: 0x7FF0000000000000}.get(E.bits, 0)
    given, words, steps = vector[E, lanes], vector[u64, lanes], constants(i64, range(lanes))
    least_lane, most_lane = (
        extern(f"llvm.vector.reduce.{word}.v{lanes}i64", i64, V, plain=lambda x, of=of: of(x.values))
        for word, of in (("smin", min), ("smax", max))
    )
    any_lane = any_of(lanes)
    zeros = extern("llvm.ctlz.i64", u64, u64, bool, plain=lambda x, _: u64(64 - int(x).bit_length()))

    @native(inline=True)
    def keys_of(bits: given, flip: E) -> V:
        if is_float:
            number = select(bits == given(-most - 1), given(0), bits ^ (bits >> given(last) & given(most)))
            return V(select((bits & given(most)) > given(infinity), given(most), number) ^ given(flip))
        return V(bits ^ given(flip))

    @native(inline=True)
    def key_at(x: ptr[E], at: u64, flip: E) -> i64:
        return keys_of(given(x[at]), flip)[0]

    @native(inline=True)
    def words_at(keys: V, numbers: V, least: i64, drop: u64) -> V:
        if is_wide:
            above = words(keys - V(least)) >> words(drop) << words(32)
            return V(above) ^ V(-SIGN) | numbers
        return V(words(keys) << words(32)) | numbers

    @native(inline=False)
    def prepare(x: ptr[E], out: ptr[i64], n: u64, flip: E, scale: ptr[i64]) -> void:
        whole = n - n % lanes
        least = i64(0)
        drop = u64(0)
        if is_wide:
            low = V(key_at(x, 0, flip))
            high = low
            for i in range(0, whole, lanes):
                keys = keys_of(ptr[given](x + i)[0], flip)
                low = select(keys < low, keys, low)
                high = select(keys > high, keys, high)
            for j in range(whole, n):
                keys = V(key_at(x, u64(j), flip))
                low = select(keys < low, keys, low)
                high = select(keys > high, keys, high)
            least = least_lane(low)
            used = 64 - zeros(u64(most_lane(high) - least), False)
            drop = used - 32 if used > 32 else u64(0)
        numbers = ptr[V](steps)[0]
        for k in range(0, whole, lanes):
            ptr[V](out + k)[0] = words_at(keys_of(ptr[given](x + k)[0], flip), numbers + V(k), least, drop)
        for m in range(whole, n):
            out[m] = words_at(V(key_at(x, u64(m), flip)), V(m), least, drop)[0]
        scale[0] = least
        scale[1] = i64(drop)

    @native(inline=False)
    def sort_equal_runs(x: ptr[E], out: ptr[i64], other: ptr[i64], n: u64, flip: E) -> void:
        """Sort each run of words that differ only in their index by the whole keys."""
        begin = u64(0)
        while begin + 1 < n:
            end = begin + 1
            if begin + lanes < n:
                found = words(ptr[V](out + begin)[0] ^ ptr[V](out + end)[0]) < words(1 << 32)
                if not any_lane(found):
                    begin += lanes
                    continue
            while end < n and u64(out[begin] ^ out[end]) >> 32 == 0:
                end += 1
            if end - begin > 1:
                least = key_at(x, u64(u32(out[begin])), flip)
                for i in range(begin, end):
                    key = key_at(x, u64(u32(out[i])), flip)
                    least = key if key < least else least
                for j in range(begin, end):
                    number = i64(u32(out[j]))
                    out[j] = words_at(V(key_at(x, u64(number), flip)), V(number), least, 0)[0]
                if end - begin <= FEW:
                    by_insertion(out + begin, end - begin)
                else:
                    by_bytes(out + begin, other, end - begin)
            begin = end

    @native(inline=False)
    def finish(x: ptr[E], out: ptr[i64], other: ptr[i64], n: u64, flip: E, scale: ptr[i64]) -> void:
        if is_wide and scale[1] > 0:
            sort_equal_runs(x, out, other, n, flip)
        whole = n - n % lanes
        for i in range(0, whole, lanes):
            ptr[V](out + i)[0] = ptr[V](out + i)[0] & V(NUMBER)
        for j in range(whole, n):
            out[j] = out[j] & NUMBER

    return prepare, finish


# ------------------------------------------------------------ short rows


def sorted_pairs(n):
    """The comparisons of Batcher's sorting network for n words."""
    found = []
    size = 1
    while size < n:
        step = size
        while step:
            for first in range(step % size, n - step, 2 * step):
                for i in range(first, first + step):
                    if i // (2 * size) == (i + step) // (2 * size):
                        found.append((i, i + step))
            step //= 2
        size *= 2
    return found


def merged_pairs(n):
    """The comparisons that sort n words which first fall, then rise (a bitonic merge)."""
    steps = [n >> level for level in range(1, n.bit_length())]
    return [(i, i + step) for step in steps for i in range(n) if not i & step]


def network_of(V):
    """`network(rows, n)`, which sorts the lanes of n vectors V, a multiple of BLOCK."""
    less, more = (
        extern(f"llvm.{word}.v{V.lanes}i64", V, V, V, plain=plain)
        for word, plain in (("smin", lambda x, y: select(x < y, x, y)), ("smax", lambda x, y: select(x < y, y, x)))
    )
    half = BLOCK // 2

    @native(inline=True)
    def exchange(rows: ptr[V], a: u64, b: u64) -> void:
        """In each lane, put the smaller word of two vectors into the first, the larger into the second."""
        x = rows[a]
        y = rows[b]
        rows[a] = less(x, y)
        rows[b] = more(x, y)

    sort_block, merge_block = _block(V, exchange, sorted_pairs(BLOCK)), _block(V, exchange, merged_pairs(half))

    @native(inline=False)
    def network(rows: ptr[V], n: u64) -> void:
        """Sort blocks, then merge pairs of sorted runs, and so on.  Comparisons beyond the last vector are left out, as
        if the largest words stood there."""
        for block in range(0, n, BLOCK):
            sort_block(rows + block)
        size = u64(BLOCK)
        while size < n:
            # Comparing each rising run with the next one read backwards leaves runs that fall, then rise.
            first = u64(0)
            while first < n:
                behind = first + 2 * size
                for i in range(behind - n if behind > n else u64(0), size):
                    exchange(rows, first + u64(i), behind - 1 - u64(i))
                first = behind
            step = size >> 1
            while step >= half:
                start = u64(0)
                while start + step < n:
                    end = start + step
                    for j in range(start, end if end < n - step else n - step):
                        exchange(rows, u64(j), u64(j) + step)
                    start = end + step
                step = step >> 1
            for eight in range(0, n, half):
                merge_block(rows + eight)
            size = 2 * size

    return network


def _block(V, exchange, pairs):
    """A function that does these comparisons on a few vectors, held in registers."""
    count = 1 + max(b for _, b in pairs)
    places, pairs = tuple(range(count)), tuple(pairs)

    @native(inline=True)
    def block(rows: ptr[V]) -> void:
        kept = local(V, count)
        for i in places:
            kept[i] = rows[i]
        for a, b in pairs:
            exchange(kept, a, b)
        for j in places:
            rows[j] = kept[j]

    return block


# ------------------------------------------------------------ long rows


@native(inline=True)
def byte_at(word: i64, shift: u64) -> u64:
    return u64(word) >> shift & 255


@native(inline=False)
def by_bytes(words: ptr[i64], other: ptr[i64], n: u64) -> void:
    """Sort words by their keys (radix sort); words with equal keys keep their order."""
    counts = local(u64, 1024)
    for k in range(1024):
        counts[k] = u64(0)
    for i in range(n):
        word = words[i]
        for byte, shift, _ in BYTES:
            place = counts + 256 * byte + byte_at(word, shift)
            place[0] += 1
    given = words
    taken = other
    for byte, shift, first in BYTES:
        count = counts + 256 * byte
        if count[byte_at(given[0], shift)] != n:  # else all words have the same byte
            begin = u64(0)
            for k in range(256):
                size = count[k ^ first]
                count[k ^ first] = begin
                begin += size
            for j in range(n):
                word = given[j]
                place = count + byte_at(word, shift)
                to = place[0]
                place[0] = to + 1
                taken[to] = word
            kept = given
            given = taken
            taken = kept
    if given != words:
        for m in range(n):
            words[m] = given[m]


@native(inline=False)
def by_insertion(words: ptr[i64], n: u64) -> void:
    """Sort a few words by insertion."""
    for i in range(1, n):
        word = words[i]
        to = i64(i)
        while to > 0 and words[to - 1] > word:
            words[to] = words[to - 1]
            to -= 1
        words[to] = word


# ------------------------------------------------------------ all rows


def order_of(dtype, features):
    """`order` for elements of a dtype, on a processor with these features."""
    V = vector[i64, Target.of(features).vector_bytes // 8]
    E, lanes, refused = KINDS[dtype][0], V.lanes, int(Status.NO_MEMORY)
    prepare, finish = words_of(dtype, V)
    network = network_of(V)
    allocated = extern("PyMem_RawMalloc", ptr, u64, fails=NO_MEMORY)
    free_memory = extern("PyMem_RawFree", void, ptr)

    @native(inline=False)
    def sort_side_by_side(words: ptr[i64], n: u64, count: u64) -> void:
        """Sort `count` rows of words, each in a lane; unused lanes hold copies of the last row."""
        turned = local(i64, MOST * lanes)
        rows = ptr[V](turned)
        for lane in range(lanes):
            row = words + (u64(lane) if u64(lane) < count else count - 1) * n
            for i in range(n):
                turned[i * lanes + lane] = row[i]
        whole = (n + BLOCK - 1) // BLOCK * BLOCK
        for j in range(n, whole):
            rows[j] = V(SIGN - 1)
        network(rows, whole)
        for k in range(count):
            row = words + u64(k) * n
            for m in range(n):
                row[m] = turned[m * lanes + k]

    @native(inline=False)
    def order_rows(x: ptr[E], out: ptr[i64], other: ptr[i64], n: u64, flip: E, count: u64) -> void:
        """Order `count` consecutive rows, at most as many as there are lanes."""
        scales = local(i64, 2 * lanes)
        for k in range(count):
            prepare(x + u64(k) * n, out + u64(k) * n, n, flip, scales + 2 * k)
        if n <= FEW or (n <= MOST and 2 * count >= lanes):
            sort_side_by_side(out, n, count)
        else:
            for m in range(count):
                by_bytes(out + u64(m) * n, other, n)
        for r in range(count):
            finish(x + u64(r) * n, out + u64(r) * n, other, n, flip, scales + 2 * r)

    @native(inline=False)
    def order_columns(x: ptr[E], out: ptr[i64], memory: ptr[i64], n: u64, inner: u64, flip: E, count: u64) -> void:
        """Order `count` adjacent columns, by way of copies as rows."""
        found = memory + n
        rows = ptr[E](found + n * lanes)
        for i in range(n):
            for j in range(count):
                rows[u64(j) * n + u64(i)] = x[u64(i) * inner + u64(j)]
        order_rows(rows, found, memory, n, flip, count)
        for m in range(n):
            for k in range(count):
                out[u64(m) * inner + u64(k)] = found[u64(k) * n + u64(m)]

    @native
    def order(pointers: ptr[ptr], extents: ptr[u64]) -> i32:
        x = ptr[E](pointers[0])
        out = ptr[i64](pointers[1])
        n = extents[0]
        inner = extents[1]
        flip = E(extents[2])
        r = extents[3]
        end = extents[4]
        memory = ptr[i64](allocated(8 * n * (u64(1) if inner == 1 else u64(1 + 2 * lanes))))
        if memory is None:
            return i32(refused)
        while r < end and n > 0:
            count = end - r if end - r < lanes else u64(lanes)
            if inner == 1:
                count = count if n <= MOST else u64(1)
                order_rows(x + r * n, out + r * n, memory, n, flip, count)
            else:
                at = r // inner * (n * inner) + r % inner
                count = count if count < inner - r % inner else inner - r % inner
                order_columns(x + at, out + at, memory, n, inner, flip, count)
            r += count
        free_memory(memory)
        return i32(0)

    return order
