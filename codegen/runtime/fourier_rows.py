"""Fourier transforms in native Python (`codegen.native`): rows, and the passes over them.

    i32 fourier(pointers, extents)      pointers (x, y), extents (address of a `TransformPlan`, begin, end)

transforms the rows in [begin, end), LANES of them side by side; each pass reads one of two buffers and writes the
other.  A long row of n = rows · columns numbers is treated as a matrix: its columns are transformed and multiplied by
the numbers at `turns`, then its rows are transformed.

An element of a buffer is LANES real parts, then LANES imaginary parts.  With r the radix, a pass (Stockham's)

    fourier_pass(given, taken, m, s, factors)
    taken[q + s (r p + k)] = w^(p k) · sum over j of given[q + s (p + m j)] exp(-2πi j k / r)     w = exp(-2πi / (r m))

is computed for all p < m, q < s.  Passes with r1 r2 ... = n, s = 1, r1, r1 r2, ..., m = n / (r s) give the transform in
natural order.  The table `factors` holds exp(-2πi j k / r) for 0 < j, k < r / 2, then w^(p k) for k = 1 .. r - 1 of
each p = 0, 1, ...  All tables of an inverse transform are the conjugates of these.

2n real numbers are transformed as n complex ones, whose real and imaginary parts are the even and odd elements: `split`
separates the spectra of even and odd elements, `join` combines them.

Rows that hold nan or infinities give REFUSED: which results are nan depends on the order of sums, so NumPy decides.

Source: Van Loan, "Computational Frameworks for the Fast Fourier Transform" (1992), section 1.7.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..kernel.nest import Status
from ..lowering import LANES
from ..native import NO_MEMORY, Struct, extern, fn, i32, i64, local, native, ptr, shuffle, u64, vector, void
from .vectors import FLOATS, any_of, square_of

#: The kinds of transforms: complex to complex, real to half a spectrum, half a spectrum to real.
COMPLEX, HALF, WHOLE = range(3)

#: The layouts of a block's rows in memory: each element apart from the next; the same element of all rows as one vector
#: of pairs; each row as consecutive pairs.
EACH, PAIRS, ROWS = range(3)

_EVEN, _ODD = tuple(range(0, 2 * LANES, 2)), tuple(range(1, 2 * LANES, 2))
_MIXED = tuple([k + part for k in range(LANES) for part in (0, LANES)])


class Pass(Struct):
    """A pass of a transform; a null `run` marks the end of a list of passes."""

    run: fn[void, ptr, ptr, i64, i64, ptr]
    m: i64
    s: i64
    factors: ptr


class Side(Struct):
    """The layout of the rows of an array: the count of elements (pairs of numbers) of a row, and, counted in numbers,
    the distances `step` between elements, `near` between adjacent rows, `far` between groups of `inner` rows."""

    count: i64
    step: i64
    near: i64
    far: i64


class BlockRows(Struct):
    """Unnormalised transforms of rows of n complex numbers.

    turns     exp(-2πi j k / n) for row k, column j of a matrix: real parts, then imaginary ones; null without a matrix
    """

    given: Side
    taken: Side
    n: i64
    inner: i64
    passes: ptr[Pass]
    turns: ptr


class TransformPlan(Struct):
    """Transforms of rows (`first`), or of the columns and then the rows of a matrix (`first`, `second`).

    halves   -i exp(-2πi k / 2n) for k <= n / 2, for transforms of real numbers
    room     the size of the buffers of a block, in numbers
    count    the number of elements of a matrix; 0 if rows are not split
    given_row, taken_row   the distance from one matrix to the next, in the input and in the result
    """

    first: BlockRows
    second: BlockRows
    kind: i64
    halves: ptr
    room: i64
    count: i64
    given_row: i64
    taken_row: i64


# ------------------------------------------------------------ passes


def pass_of(dtype, radix):
    """`fourier_pass` for a radix and dtype (f32 or f64).

    Elements j and r - j have equal cosines and opposite sines.  The middle element of an even radix is added for even
    k and subtracted for odd k.
    """
    number, half, is_even = FLOATS[dtype], (radix - 1) // 2, radix % 2 == 0
    element, pairs, parts = vector[number, LANES], tuple(range(half)), (0, 1)

    @native(inline=True, contract=True)
    def put(taken: ptr[element], w: ptr[number], re: element, im: element) -> void:
        c = element(w[0])
        d = element(w[1])
        taken[0] = re * c - im * d
        taken[1] = re * d + im * c

    @native(inline=True, contract=True)
    def butterfly(
        given: ptr[element], taken: ptr[element], apart: i64, s: i64, w: ptr[number], angles: ptr[number]
    ) -> void:  # fmt: skip
        sums = local(element, 2 * radix)
        differences = local(element, 2 * radix)
        unpaired = local(element, 4)  # the terms of elements 0 and r / 2: for even k, then for odd k
        unpaired_results = local(element, 4)  # the results for k = 0, then for k = r / 2
        found = local(element, 4)
        for part in parts:
            unpaired[part] = given[part]
            unpaired[2 + part] = given[part]
            if is_even:
                middle = given[radix * apart + part]
                unpaired[part] += middle
                unpaired[2 + part] -= middle
            unpaired_results[part] = unpaired[part]
            unpaired_results[2 + part] = unpaired[(half + 1) % 2 * 2 + part]
            for j in pairs:
                near = given[2 * (j + 1) * apart + part]
                over = given[2 * (radix - 1 - j) * apart + part]
                sums[2 * j + part] = near + over
                differences[2 * j + part] = near - over
                unpaired_results[part] += sums[2 * j + part]
                if j % 2:
                    unpaired_results[2 + part] += sums[2 * j + part]
                else:
                    unpaired_results[2 + part] -= sums[2 * j + part]
        taken[0] = unpaired_results[0]
        taken[1] = unpaired_results[1]
        if is_even:
            put(taken + radix * s, w + radix - 2, unpaired_results[2], unpaired_results[3])
        for k in pairs:
            for part in parts:
                found[part] = unpaired[(k + 1) % 2 * 2 + part]
                found[2 + part] = element(0.0)
            for j in pairs:
                c = element(angles[2 * (k * half + j)])
                d = element(angles[2 * (k * half + j) + 1])
                for part in parts:
                    found[part] += sums[2 * j + part] * c
                    found[2 + part] += differences[2 * j + part] * d
            put(taken + 2 * (k + 1) * s, w + 2 * k, found[0] - found[3], found[1] + found[2])
            put(taken + 2 * (radix - 1 - k) * s, w + 2 * (radix - 2 - k), found[0] + found[3], found[1] - found[2])

    @native
    def fourier_pass(given: ptr[element], taken: ptr[element], m: i64, s: i64, factors: ptr[number]) -> void:
        w = factors + 2 * half * half
        for p in range(m):
            for q in range(s):
                butterfly(given + 2 * (p * s + q), taken + 2 * (p * s * radix + q), m * s, s, w, factors)
            w += 2 * (radix - 1)

    return fourier_pass


# ------------------------------------------------------------ blocks


def move_of(number, is_load):
    """The function that loads rows into a block, or stores a block to rows: `count` elements of each row, `step`
    numbers apart, in the layout `way` (EACH, PAIRS or ROWS)."""
    element, pairs, lanes = vector[number, LANES], vector[number, 2 * LANES], tuple(range(LANES))
    transpose = square_of(pairs, LANES)

    @native(inline=True)
    def move_pairs(row: ptr[pairs], block: ptr[element]) -> void:
        if is_load:
            both = row[0]
            block[0] = shuffle(both, both, _EVEN)
            block[1] = shuffle(both, both, _ODD)
        else:
            row[0] = shuffle(block[0], block[1], _MIXED)

    @native(inline=False)
    def move(rows: ptr[ptr[number]], block: ptr[element], count: i64, step: i64, way: i64) -> void:
        square = local(pairs, LANES)
        i = i64(0)
        while way == ROWS and i + LANES <= count:
            for lane in lanes:
                if is_load:
                    square[lane] = ptr[pairs](rows[lane] + 2 * i)[0]
                else:
                    move_pairs(square + lane, block + 2 * (i + lane))
            transpose(square)
            for lane in lanes:
                if is_load:
                    move_pairs(square + lane, block + 2 * (i + lane))
                else:
                    ptr[pairs](rows[lane] + 2 * i)[0] = square[lane]
            i += LANES
        while i < count:
            if way == PAIRS:
                move_pairs(ptr[pairs](rows[0] + i * step), block + 2 * i)
            else:
                for lane in range(LANES):
                    x = rows[lane] + i * step
                    at = ptr[number](block + 2 * i) + lane
                    if is_load:
                        at[0] = x[0]
                        at[LANES] = x[1]
                    else:
                        x[0] = at[0]
                        x[1] = at[LANES]
            i += 1

    return move


def pair_of(number, element, is_split):
    """`split` or `join`.

    Z is the transform of the complex numbers whose real parts are the even elements and imaginary parts the odd ones.
    `split` computes the spectrum X of the real numbers, X[k] = E + O and X[n-k] = conj(E - O), with

        E = (Z[k] + conj Z[n-k]) / 2      O = (Z[k] - conj Z[n-k]) / 2 · table[k]

    `join` computes the same without the halves: the Z whose unnormalised inverse transform is that of X.  The imaginary
    parts of X[0] and X[n] are not read.
    """
    half = 0.5 if is_split else 1.0

    @native(inline=False, contract=True)
    def pair(row: ptr[element], n: i64, table: ptr[number]) -> void:
        end = row + 2 * n
        first = row[0]
        if is_split:
            last = row[1]
            row[1] = element(0.0)
            end[0] = first - last
            end[1] = element(0.0)
        else:
            last = end[0]
            row[1] = first - last
        row[0] = first + last
        for k in range(1, (n >> 1) + 1):
            a = row + 2 * k
            b = row + 2 * (n - k)
            c = element(table[2 * k])
            d = element(table[2 * k + 1])
            even_re = (a[0] + b[0]) * element(half)
            even_im = (a[1] - b[1]) * element(half)
            odd_re = (a[0] - b[0]) * element(half)
            odd_im = (a[1] + b[1]) * element(half)
            turned_re = odd_re * c - odd_im * d
            turned_im = odd_re * d + odd_im * c
            a[0] = even_re + turned_re
            a[1] = even_im + turned_im
            b[0] = even_re - turned_re
            b[1] = turned_im - even_im

    return pair


def side_by_side(number):
    """The function that transforms a range of rows; it returns False if a row is not finite."""
    element = vector[number, LANES]
    load, store, any_lane = move_of(number, True), move_of(number, False), any_of(LANES)
    split, join = pair_of(number, element, True), pair_of(number, element, False)

    @native(inline=False)
    def is_finite(block: ptr[element], count: i64) -> bool:
        sum_ = element(0.0)
        for i in range(2 * count):
            sum_ += block[i] * element(0.0)  # nan for a number that is not finite
        return not any_lane(sum_ != element(0.0))

    @native(inline=False, contract=True)
    def turn(block: ptr[element], count: i64, re: ptr[number], im: ptr[number], step: i64) -> void:
        """Multiply the elements of a block by complex numbers."""
        for i in range(count):
            x = block[2 * i]
            y = block[2 * i + 1]
            c = ptr[element](re + i * step)[0]
            d = ptr[element](im + i * step)[0]
            block[2 * i] = x * c - y * d
            block[2 * i + 1] = x * d + y * c

    @native(inline=True)
    def way_of(side: ptr[Side], is_beside: bool) -> i64:
        if is_beside and side.near == 2:
            return i64(PAIRS)
        return ROWS if side.step == 2 else i64(EACH)

    @native(inline=True)
    def begin_of(side: ptr[Side], r: i64, inner: i64) -> i64:
        return r // inner * side.far + r % inner * side.near

    @native(inline=False)
    def transform(
        x: ptr[number], y: ptr[number], rows: ptr[BlockRows], kind: i64, halves: ptr[number], room: ptr[number],
        begin: i64, end: i64,
    ) -> bool:  # fmt: skip
        """Transform the rows in [begin, end).  To fill the last block, some rows are transformed twice."""
        xs = local(ptr[number], LANES)
        ys = local(ptr[number], LANES)
        given = rows.given
        taken = rows.taken
        n = rows.n
        inner = rows.inner
        r = begin
        while r < end:
            block = ptr[element](room)
            other = block + 2 * (n + 1)
            at = r if r + LANES <= end or end - begin < LANES else end - LANES
            is_beside = at + LANES <= end and at % inner + LANES <= inner
            x_at = x + begin_of(given, at, inner)
            y_at = y + begin_of(taken, at, inner)
            for lane in range(LANES):
                one = at + lane if at + lane < end else end - 1
                xs[lane] = x_at + lane * given.near if is_beside else x + begin_of(given, one, inner)
                ys[lane] = y_at + lane * taken.near if is_beside else y + begin_of(taken, one, inner)
            load(xs, block, given.count, given.step, way_of(given, is_beside))
            if not is_finite(block, given.count):
                return False
            if kind == WHOLE:
                join(block, n, halves)
            passes = rows.passes
            while passes.run is not None:
                passes.run(block, other, passes.m, passes.s, passes.factors)
                kept = block
                block = other
                other = kept
                passes += 1
            if rows.turns is not None:
                turns = ptr[number](rows.turns) + at
                turn(block, n, turns, turns + n * inner, inner)
            if kind == HALF:
                split(block, n, halves)
            store(ys, block, taken.count, taken.step, way_of(taken, is_beside))
            r += LANES
        return True

    return transform


def rows_of(dtype):
    """`fourier` for f32 or f64 numbers."""
    number = FLOATS[dtype]
    transform, split, join = side_by_side(number), pair_of(number, number, True), pair_of(number, number, False)
    size, refused, no_memory = number.bits // 8, int(Status.REFUSED), int(Status.NO_MEMORY)
    new = extern("PyMem_RawMalloc", ptr, u64, plain=lambda count: local(number, count // size), fails=NO_MEMORY)
    free = extern("PyMem_RawFree", void, ptr, plain=lambda room: None)

    @native(inline=False)
    def matrix(x: ptr[number], y: ptr[number], plan: ptr[TransformPlan], room: ptr[number]) -> bool:
        """Transform a long row as a matrix."""
        n = plan.count
        turned = room + plan.room
        given = x
        if plan.kind == WHOLE:
            given = turned + 2 * n
            for i in range(2 * (n + 1)):
                given[i] = x[i]
            join(given, n, ptr[number](plan.halves))
        if not transform(given, turned, plan.first, COMPLEX, None, room, 0, plan.first.inner):
            return False
        if not transform(turned, y, plan.second, COMPLEX, None, room, 0, plan.second.inner):
            return False  # the sums over columns may be infinite although x is finite
        if plan.kind == HALF:
            split(y, n, ptr[number](plan.halves))
        return True

    @native
    def fourier(pointers: ptr[ptr[number]], extents: ptr[i64]) -> i32:
        plan = ptr[TransformPlan](extents[0])
        room = new(u64((plan.room + 4 * plan.count + 2) * size + 64))
        if room is None:
            return i32(no_memory)
        numbers = ptr[number](room) + (64 - u64(room) % 64) // size
        x = pointers[0]
        y = pointers[1]
        is_done = True
        if plan.count == 0:
            is_done = transform(x, y, plan.first, plan.kind, ptr[number](plan.halves), numbers, extents[1], extents[2])
        else:
            for r in range(extents[1], extents[2]):
                is_done = is_done and matrix(x + r * plan.given_row, y + r * plan.taken_row, plan, numbers)
        free(room)
        return i32(0) if is_done else i32(refused)

    return fourier
