"""The innermost loops of matrix products in native Python (`codegen.native`): a few rows and columns of c, kept in
registers, and the copies that these need; products of a vector and a matrix.

    multiply        c[i, j] = sum over t of a[i, t] * b[t, j], for all rows i and a vector of columns j
    pack            copies rows of b to the consecutive rows of a panel     pack_columns    the same for a transposed b
    put             copies a tile to c, if the columns end within a vector     put_across   the same for a transposed c
    rows            for one row a and b_col = 1: c = sum over t of a[t] * b[t], along rows of b and c, eight at once
    dots            for one row a and b_row = 1: c[j] = a . b[j], along the sum, for four columns at once

A vector of columns is one or two vectors of the processor.  A turn of the loop loads such a vector of row t of b, and
multiplies it by a[i, t] for every row i of a tile: the sums of all rows stay in registers, and each loaded element is
used often.  This keeps a processor busy that multiplies vectors once or twice a cycle (one thread, GFLOP/s, this /
OpenBLAS 0.3.31, Zen 4 at a peak of about 115):  f32  64^3 102 / 94, 256^3 115 / 104, 1024^3 103 / 103.

Elements are added in the order of t, from zero on in each panel, and panels in their order, in every tile: so the bits
of a product do not depend on how it is cut, and the rounding error of a long sum is that of its panels.

Products with a vector are bound by memory: every element of b is used once, so only sums are kept in registers.  The
remainder of a row that does not fill a vector is read and written under a mask.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import constants, extern, f32, i32, i64, local, native, ptr, select, shuffle, vector, void
from .vectors import square_of


def multiply_of(number, width, height):
    """`multiply` for vectors of `width` columns and tiles of `height` rows.

    a, a_row, a_col    a[i, t] is at a + i * a_row + t * a_col        k, at least 1, is the number of terms
    b, b_row           row t of b starts at b + t * b_row
    c, c_row, rows     `rows` rows of c, tile after tile
    is_more            True: the sums are added to c
    """
    V, numbers = vector[number, width], tuple(range(height))

    @native(contract=True)
    def multiply(
        a: ptr[number], a_row: i64, a_col: i64, b: ptr[number], b_row: i64, k: i64, c: ptr[number], c_row: i64,
        rows: i64, is_more: bool,
    ) -> void:  # fmt: skip
        a_at = local(ptr[number], height)
        c_at = local(ptr[V], height)
        sums = local(V, height)
        for r in range(0, rows, height):
            for i in numbers:
                # In the last tile, rows beyond the end repeat the last row.
                row = select(r + i < rows, r + i, rows - 1)
                a_at[i] = a + row * a_row
                c_at[i] = ptr[V](c + row * c_row)
                sums[i] = V(0.0)
            b_at = b
            l_at = i64(0)
            for _l in range(k):
                y = ptr[V](b_at)[0]
                for i in numbers:
                    sums[i] = V(a_at[i][l_at]) * y + sums[i]
                l_at += a_col
                b_at += b_row
            if is_more:
                for i in numbers:
                    sums[i] = c_at[i][0] + sums[i]
            for i in numbers:
                c_at[i][0] = sums[i]

    return multiply


def masks_of(number, width):
    """`first_lanes(count)`: the mask of the first lanes;  `masked_load`: the lanes of a mask from memory, zeros in the
    other lanes;  `masked_store`: writes the lanes of a mask.  The memory of other lanes is not accessed."""
    item = i32 if number is f32 else i64
    V, W, lanes, size = vector[item, width], vector[number, width], vector[bool, width], number.bits // 8
    numbers = constants(item, range(width))
    word = f"v{width}f{number.bits}.p0"
    load = extern(f"llvm.masked.load.{word}", W, ptr, i32, lanes, W, plain=_loaded)
    store = extern(f"llvm.masked.store.{word}", void, W, ptr, i32, lanes, plain=_kept)

    @native(inline=True)
    def first_lanes(count: i64) -> lanes:
        return ptr[V](numbers)[0] < V(item(count))

    @native(inline=True)
    def masked_load(at: ptr[W], mask: lanes) -> W:
        return load(at, size, mask, W(0.0))

    @native(inline=True)
    def masked_store(at: ptr[W], mask: lanes, x: W) -> void:
        store(x, at, size, mask)

    return first_lanes, masked_load, masked_store


def _loaded(at, size, mask, others):
    return type(others)([at.items[at.start + i] if c else others[i] for i, c in enumerate(mask.values)])


def _kept(x, at, size, mask):
    for i, is_chosen in enumerate(mask.values):
        if is_chosen:
            at.items[at.start + i] = x[i]


def pack_of(number, lanes):
    """`pack` to a panel whose rows are one or two vectors, padded with zeros."""
    V, (first_lanes, masked_load, _) = vector[number, lanes], masks_of(number, lanes)

    @native
    def pack(to: ptr[number], width: i64, b: ptr[number], b_row: i64, depths: i64, columns: i64) -> void:
        last = i64(lanes) if columns > lanes else i64(0)
        mask = first_lanes(columns - last)
        for term in range(depths):
            row = b + term * b_row
            at = to + term * width
            if last != 0:
                ptr[V](at)[0] = ptr[V](row)[0]
            from_last = ptr[V](row + last)
            ptr[V](at + last)[0] = from_last[0] if columns == width else masked_load(from_last, mask)

    return pack


def pack_columns_of(number, lanes):
    """`pack_columns`, which transposes squares of elements in registers.  Columns beyond the end repeat the last one,
    and the last square of rows may overlap the one before."""
    size = min(8, 2 * lanes)
    V, numbers = vector[number, size], tuple(range(size))
    transpose = square_of(V, size)

    @native
    def pack_columns(to: ptr[number], width: i64, b: ptr[number], b_col: i64, depths: i64, columns: i64) -> void:
        if width < size or depths < size:
            for row in range(depths):
                for column in range(columns):
                    to[row * width + column] = b[column * b_col + row]
            return
        at = local(ptr[number], size)
        x = local(V, size)
        for j in range(0, columns, size):
            for i in numbers:
                at[i] = b + select(j + i < columns, j + i, columns - 1) * b_col
            for term in range(0, depths, size):
                first = term if term + size <= depths else depths - size
                for i in numbers:
                    x[i] = ptr[V](at[i] + first)[0]
                transpose(x)
                for i in numbers:
                    ptr[V](to + (first + i) * width + j)[0] = x[i]

    return pack_columns


def put_of(number, lanes):
    """`put`, to a c that lies by rows."""
    V, (first_lanes, masked_load, masked_store) = vector[number, lanes], masks_of(number, lanes)

    @native
    def put(
        c: ptr[number], c_row: i64, c_col: i64, tile: ptr[number], width: i64, rows: i64, columns: i64, is_more: bool
    ) -> void:
        last = i64(lanes) if columns > lanes else i64(0)
        mask = first_lanes(columns - last)
        for i in range(rows):
            row = tile + i * width
            at = c + i * c_row
            if last != 0:
                ptr[V](at)[0] = ptr[V](at)[0] + ptr[V](row)[0] if is_more else ptr[V](row)[0]
            to = ptr[V](at + last)
            sums = ptr[V](row + last)[0]
            masked_store(to, mask, masked_load(to, mask) + sums if is_more else sums)

    return put


def put_across_of(number):
    """`put_across`, to a c that lies by columns."""

    @native
    def put_across(
        c: ptr[number], c_row: i64, c_col: i64, tile: ptr[number], width: i64, rows: i64, columns: i64, is_more: bool
    ) -> void:
        for j in range(columns):
            for i in range(rows):
                at = j * c_col + i
                sum_ = tile[i * width + j]
                c[at] = c[at] + sum_ if is_more else sum_

    return put_across


#: The number of rows that `rows` adds at once.  With four, loads and stores of c would be a third of all.
ROWS = 8


def rows_of(number, lanes):
    """`rows` for vectors of `lanes` elements."""
    add_many, add_one = add_of(number, lanes, ROWS), add_of(number, lanes, 1)

    @native
    def rows(c: ptr[number], a: ptr[number], b: ptr[number], b_row: i64, b_col: i64, k: i64, columns: i64) -> void:
        whole = k - k % ROWS
        for term in range(0, whole, ROWS):
            add_many(c, a + term, b + term * b_row, b_row, columns, term != 0)
        for r in range(whole, k):
            add_one(c, a + r, b + r * b_row, b_row, columns, r != 0)

    return rows


def add_of(number, lanes, count):
    """The function that computes the sum of `count` rows, each times a number, and adds it to c or writes it."""
    V, numbers, is_alone = vector[number, lanes], tuple(range(count)), count == 1
    first_lanes, masked_load, masked_store = masks_of(number, lanes)

    @native(inline=True, contract=True)
    def sum_of(old: V, x: ptr[V], y: ptr[V]) -> V:
        """Sum ROWS rows before adding them to the old sum, which is then rounded once for ROWS rows, not for each."""
        sum_ = old if is_alone else V(0.0)
        for i in numbers:
            sum_ = x[i] * y[i] + sum_
        return sum_ if is_alone else old + sum_

    @native(inline=False)
    def add(c: ptr[number], a: ptr[number], b: ptr[number], b_row: i64, n: i64, is_more: bool) -> void:
        x = local(V, count)
        y = local(V, count)
        for i in numbers:
            x[i] = V(a[i])
        whole = n - n % lanes
        for j in range(0, whole, lanes):
            to = ptr[V](c + j)
            for i in numbers:
                y[i] = ptr[V](b + i * b_row + j)[0]
            to[0] = sum_of(select(is_more, to[0], V(0.0)), x, y)
        if whole < n:
            mask = first_lanes(n - whole)
            last = ptr[V](c + whole)
            for i in numbers:
                y[i] = masked_load(ptr[V](b + i * b_row + whole), mask)
            masked_store(last, mask, sum_of(select(is_more, masked_load(last, mask), V(0.0)), x, y))

    return add


def dots_of(number, width, count):
    """`dots` for `count` columns at once, in vectors of `width` elements; columns beyond the end repeat the last
    column."""
    V, numbers, (first_lanes, masked_load, _) = vector[number, width], tuple(range(count)), masks_of(number, width)
    halves = tuple([[lane ^ width >> level for lane in range(width)] for level in range(1, width.bit_length())])

    @native(contract=True)
    def dots(c: ptr[number], a: ptr[number], b: ptr[number], b_row: i64, b_col: i64, k: i64, columns: i64) -> void:
        at = local(ptr[number], count)
        sums = local(V, count)
        whole = k - k % width
        mask = first_lanes(k - whole)
        for first in range(0, columns, count):
            for j in numbers:
                column = select(first + j < columns, first + j, columns - 1)
                at[j] = b + column * b_col
                sums[j] = V(0.0)
            for term in range(0, whole, width):
                x = ptr[V](a + term)[0]
                for j in numbers:
                    sums[j] = x * ptr[V](at[j] + term)[0] + sums[j]
            if whole < k:
                last = masked_load(ptr[V](a + whole), mask)
                for j in numbers:
                    sums[j] = last * masked_load(ptr[V](at[j] + whole), mask) + sums[j]
            for j in numbers:
                for half in halves:
                    sums[j] = sums[j] + shuffle(sums[j], sums[j], half)
                to = select(first + j < columns, first + j, columns - 1)
                c[to] = sums[j][0]

    return dots
