"""Rows in order, in native Python (`codegen.native`).

    i32 order(pointers, extents)      pointers (x, out), extents (n, inner, flip, begin, end)

writes for each row in [begin, end) its n elements in rising order, equal ones as they stand, or the numbers of these.
Elements of a row are `inner` apart, in x and in out; `flip` -1 gives the falling order.

Keys are sorted in out (`sort_keys`).  They become elements again where they are put; nan and zeros, whose keys are
alike, are put a second time, as they stand.  For numbers words are sorted: a key, and below it the number of its
element, in 64 bits.  Of a longer key it is what the key is above the least of its row; where that has too many bits,
some at the end are left out, and the order of those that are alike in the rest is found once more, from these bits.

Columns are sorted as rows, of which some are copied at a time.  Rows of a few elements are sorted side by side, each in
a lane of vectors; longer ones by insertion where there is no memory.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..lowering import COLUMNS
from ..native import constants, extern, i8, i32, i64, lane_bits, local, native, ptr, select, u64, vector, void
from .order_long import steps_of
from .sort_keys import KINDS, ends_of, part_of, sort_of, turns_of, vector_on

__all__ = ["elements", "numbers", "row_of_numbers"]


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


#: Rows of so few elements are sorted side by side: 13 ns for five doubles, 31 for ten, 53 by a network (AVX2).
FEW = 11


def elements(dtype, features):
    """`order` that writes elements, and where threads share a row the steps of `order_long`."""
    if dtype == "bool":
        return [order_of(features, *row_of_bools(i8, of_elements=True), of_elements=True)]
    kind = KINDS[dtype]
    V = vector_on(features, kind.key)
    # With 16 vectors f64 rows of 100 to 1,000 take a fifth less, and f32 rows do not: LLVM takes half as long again.
    K, part, most = V.item, part_of(V, features), (16 if kind.key is i64 else 8) * V.lanes
    key, plain_key, back, are_special = turns_of(V, kind.is_float)
    sort = sort_of(V, part, back, most)

    @native(inline=True)
    def key_at(x: ptr[K], i: u64, flip: K) -> K:
        return key(V(x[i]), V(flip))[0]

    read, again = reads_of(V, key_at, plain_key, are_special)

    @native(inline=False)
    def row(x: ptr[K], out: ptr[K], other: ptr[K], n: u64, flip: K) -> void:
        is_special = read(x, out, n, flip)
        sort(out, other, out, n, flip, False)
        if is_special:
            again(x, out, n, flip)

    return [order_of(features, row, key_at, most, of_elements=True), *steps_of(K, key_at, read, again, sort, part)]


def numbers(dtype, features):
    """`order` that writes the numbers of elements, of rows that have at most 1 << 31."""
    row = row_of_bools(i64, of_elements=False) if dtype == "bool" else row_of_numbers(KINDS[dtype], features)
    return [order_of(features, *row, of_elements=False)]


def reads_of(V, key_at, plain_key, are_special):
    """`read` and `again` for elements of such keys."""
    K, lanes, most = V.item, V.lanes, (1 << V.item.bits - 1) - 1

    @native(inline=False)
    def read(x: ptr[K], out: ptr[K], n: u64, flip: K) -> bool:
        """The keys of a row.  True if some of its elements are special."""
        whole = n - n % lanes
        found = V(0) != V(0)
        for i in range(0, whole, lanes):
            given = ptr[V](x + i)[0]
            found = found | are_special(given)
            ptr[V](out + i)[0] = plain_key(given, V(flip))
        for j in range(whole, n):
            given = V(x[j])
            found = found | are_special(given)
            out[j] = plain_key(given, V(flip))[0]
        is_special = lane_bits(found) != 0
        if is_special:
            for k in range(n):
                out[k] = key_at(x, u64(k), flip)
        return is_special

    @native(inline=False)
    def again(x: ptr[K], out: ptr[K], n: u64, flip: K) -> void:
        """Zeros and nan where they belong, as they stand in the row."""
        zero = flip
        nan = K(most) ^ flip
        zero_to = u64(0)
        nan_to = u64(0)
        for i in range(n):
            of = key_at(x, u64(i), flip)
            zero_to += u64(of < zero)
            nan_to += u64(of < nan)
        for j in range(n):
            of = key_at(x, u64(j), flip)
            if of == zero:
                out[zero_to] = x[j]
                zero_to += 1
            elif of == nan:
                out[nan_to] = x[j]
                nan_to += 1

    return read, again


def row_of_bools(R, *, of_elements):
    """`row` of truths, which are counted, `key_at`, and how many need no other memory."""

    @native(inline=True)
    def key_at(x: ptr[i8], i: u64, flip: i8) -> i8:
        return x[i] ^ flip

    @native(inline=False)
    def row(x: ptr[i8], out: ptr[R], other: ptr[i8], n: u64, flip: i8) -> void:
        low_to = u64(0)
        high_to = n
        for i in range(n):
            high_to -= u64((x[i] ^ flip) & 1)
        for j in range(n):
            is_high = u64((x[j] ^ flip) & 1)
            to = high_to if is_high != 0 else low_to
            if of_elements:
                out[to] = x[j]
            else:
                out[to] = R(j)
            high_to += is_high
            low_to += 1 - is_high

    return row, key_at, 1 << 62


def order_of(features, row, key_at, free, *, of_elements):
    """`order` that writes rows by `row`, which needs other memory for more elements than `free`."""
    (_, E), (_, R), (_, K), _, (_, F) = row.params
    E, R, K = E.target, R.target, K.target
    key_bytes, column_bytes = K.bits // 8, COLUMNS * (E.bits + R.bits) // 8
    allocated = extern("PyMem_RawMalloc", ptr, u64, runs_python=False)
    free_memory = extern("PyMem_RawFree", void, ptr, runs_python=False)
    insert = insertion_of(E, R, F, key_at, of_elements=of_elements)
    beside, lanes = beside_of(vector_on(features, R), E, F, key_at, of_elements=of_elements)

    @native(inline=False)
    def columns(x: ptr[E], out: ptr[R], memory: ptr[K], n: u64, inner: u64, width: u64, flip: F) -> void:
        """Columns side by side in order."""
        found = ptr[R](memory + n)
        rows = ptr[E](found + n * width)
        for i in range(n):
            for j in range(width):
                rows[u64(j) * n + u64(i)] = x[u64(i) * inner + u64(j)]
        for k in range(width):
            row(rows + u64(k) * n, found + u64(k) * n, memory, n, flip)
        for m in range(n):
            for p in range(width):
                out[u64(m) * inner + u64(p)] = found[u64(p) * n + u64(m)]

    @native
    def order(pointers: ptr[ptr], extents: ptr[u64]) -> i32:
        x = ptr[E](pointers[0])
        out = ptr[R](pointers[1])
        n = extents[0]
        inner = extents[1]
        flip = F(extents[2])
        r = extents[3]
        end = extents[4]
        memory = ptr[K](0)
        is_slow = False
        if n > FEW and (inner > 1 or n > free):
            memory = ptr[K](allocated(n * key_bytes + (n * column_bytes if inner > 1 else u64(0))))
            is_slow = memory is None
        while r < end:
            at = r * n if inner == 1 else r // inner * (n * inner) + r % inner
            width = u64(1)
            if n <= FEW:
                width = u64(lanes)
                beside(x, out, n, inner, flip, r, end)
            elif is_slow:
                insert(x + at, out + at, n, inner, flip)
            elif inner == 1:
                row(x + at, out + at, memory, n, flip)
            else:
                width = inner - r % inner
                width = end - r if end - r < width else width
                width = COLUMNS if width > COLUMNS else width
                columns(x + at, out + at, memory, n, inner, width, flip)
            r += width
        free_memory(memory)
        return i32(0)

    return order


def beside_of(V, E, F, key_at, *, of_elements):
    """`beside` that writes vectors V of elements or numbers, and how many rows at a time."""
    R, lanes, each = V.item, V.lanes, tuple(range(V.lanes))

    @native(inline=False)
    def beside(x: ptr[E], out: ptr[R], n: u64, inner: u64, flip: F, r: u64, end: u64) -> void:
        """Rows in order by insertion, each in a lane of its own; the last one again where there are fewer than lanes.
        No branch depends on a comparison."""
        key_of = local(R, FEW * lanes)
        written = local(R, FEW * lanes)
        begins = local(u64, lanes)
        for k in range(lanes):
            row = r + u64(k) if r + u64(k) < end else end - 1
            begins[k] = row * n if inner == 1 else row // inner * (n * inner) + row % inner
        for i in range(n):
            for lane in each:
                at = begins[lane] + u64(i) * inner
                key_of[i * lanes + lane] = R(key_at(x, at, flip))
                if of_elements:
                    written[i * lanes + lane] = x[at]
                else:
                    written[i * lanes + lane] = R(i)
        keys = ptr[V](key_of)
        found = ptr[V](written)
        for i in range(1, n):
            key = keys[i]
            one = found[i]
            for j in range(i, 0, -1):
                other = found[j - 1]
                before = keys[j - 1]
                is_less = key < before
                keys[j] = select(is_less, before, key)
                found[j] = select(is_less, other, one)
                key = select(is_less, key, before)
                one = select(is_less, one, other)
            keys[0] = key
            found[0] = one
        for m in range(n):
            for place in each:
                out[begins[place] + u64(m) * inner] = written[m * lanes + place]

    return beside, lanes


def insertion_of(E, R, F, key_at, *, of_elements):
    """`insert` that writes elements or their numbers."""

    @native(inline=False)
    def insert(x: ptr[E], out: ptr[R], n: u64, inner: u64, flip: F) -> void:
        """A row in order without other memory."""
        for i in range(n):
            at = u64(i) * inner
            of = key_at(x, at, flip)
            to = at
            while to > 0:
                before = out[to - inner]
                if of_elements:
                    if key_at(out, to - inner, flip) <= of:
                        break
                elif key_at(x, u64(before) * inner, flip) <= of:
                    break
                out[to] = before
                to -= inner
            if of_elements:
                out[to] = x[at]
            else:
                out[to] = R(i)

    return insert
