"""Rows in order, in native Python (`codegen.native`).

    i32 order(pointers, extents)      pointers (x, out), extents (n, inner, flip, begin, end)

writes for each row in [begin, end) its n elements in rising order, equal ones as they stand, or the numbers of these.
Elements of a row are `inner` apart, in x and in out; `flip` -1 gives the falling order.

Keys (`order_keys`) are sorted in out (`sort_keys`), for numbers words (`order_numbers`).  Keys become elements again
where they are put; nan and zeros, whose keys are alike, are put a second time, as they stand.  Columns are sorted as
rows, of which some are copied at a time.  Rows of a few elements are sorted side by side, each in a lane of vectors;
longer ones by insertion where there is no memory.
"""

from __future__ import annotations

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.
from ..lowering import COLUMNS
from ..native import extern, i8, i32, i64, lane_bits, local, native, ptr, select, u64, void
from .order_keys import KINDS, turns_of
from .order_long import steps_of
from .order_numbers import row_of_numbers
from .sort_keys import part_of, sort_of, vector_on

__all__ = ["elements", "numbers"]

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
