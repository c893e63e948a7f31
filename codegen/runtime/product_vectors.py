"""Products of a vector and a matrix in native Python (`codegen.native`): a is one packed row.

    rows    c = sum over t of a[t] * b[t]      for b_col = 1: along rows of b and c, of eight rows at once
    dots    c[j] = a . b[j]                    for b_row = 1: along the sum, for four columns at once

They are bound by memory: every element of b is used once, so there is nothing to keep in registers but sums.
What is left of a vector is read and written under a mask.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import i64, local, masked_load, masked_store, native, ptr, select, shuffle, vector, void
from .product_tiles import first_lanes_of

__all__ = ["dots_of", "rows_of"]

#: Rows that `rows` adds at once.  With four, loads and stores of c are a third of all.
ROWS = 8


def rows_of(number, lanes):
    """`rows` for vectors of so many lanes."""
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
    """The function that adds so many rows, each times a number, to c, or writes that."""
    V, numbers, is_alone = vector[number, lanes], tuple(range(count)), count == 1
    first_lanes = first_lanes_of(number, lanes)

    @native(inline=True, contract=True)
    def sum_of(old: V, x: ptr[V], y: ptr[V]) -> V:
        """Rounded as often as there are eights of rows, not rows."""
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
    """`dots` for so many columns at once, of which those that are not there are the last one again, in vectors of
    `width` elements."""
    V, numbers, first_lanes = vector[number, width], tuple(range(count)), first_lanes_of(number, width)
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
