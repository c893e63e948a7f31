"""Rows of Fourier transforms in native Python (`codegen.native`).

    i32 fourier(pointers, extents)      pointers (x, y), extents (address of a `Plan`, begin, end)

transforms the rows in [begin, end): LANES of them side by side, in two buffers that passes are done between, the last
one filling up a block of too few; or long ones one after the other: n = rows · columns numbers are a matrix, whose
columns are transformed and multiplied by the numbers at `turns`, then its rows.

- An inverse transform is one of numbers whose real and imaginary parts are exchanged (`swap`), before and after.
- 2n real numbers are n complex ones, their even and odd elements: `split` takes the spectra of these two apart, `join`
  puts them together.  An odd number of real ones are complex ones (`mirror`).
- Where no passes do a row of n, it is a convolution: with j k = (j² + k² - (j - k)²) / 2,

      y[j] = w(j) · sum over k of (w(k) x[k]) / w(j - k)      w(k) = exp(-πi k² / n)

  which transforms of at least 2n - 1 elements do: a row times w, zeros after it, is transformed, multiplied by the
  kernel, transformed back and multiplied by w.

Rows that hold nan or infinities give REFUSED: where they end up depends on the order of sums: the references decide.

Source: Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", IEEE Transactions on
Audio and Electroacoustics 18 (1970).
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..kernel.nest import Status
from ..native import Struct, extern, fn, i32, i64, lane_bits, local, native, ptr, shuffle, u8, u64, vector, void
from .fourier_numbers import LANES
from .fourier_passes import FLOATS

__all__ = ["Plan", "rows_of"]

#: The kinds of transforms: of complex numbers, of real ones to the half of their spectrum, of that to real ones; of an
#: odd number of real ones.
COMPLEX, HALF, WHOLE, ODD_HALF, ODD_WHOLE = range(5)

#: The ways in which a block lies in memory: each number by itself; a vector of pairs for each element of rows side by
#: side, or one of real parts and one of imaginary ones; rows of pairs one after the other.
EACH, PAIRS, PARTS, ROWS = range(4)

_EVEN, _ODD = tuple(range(0, 2 * LANES, 2)), tuple(range(1, 2 * LANES, 2))
_MIXED = tuple([k + part for k in range(LANES) for part in (0, LANES)])


class Pass(Struct):
    """A pass of a transform; the one without code is the end."""

    run: fn[void, ptr, ptr, i64, i64, ptr]
    m: i64
    s: i64
    factors: ptr


class Side(Struct):
    """The elements of rows in an array, in numbers: how many a row has, how far one is from the next, and its imaginary
    part from the real one, its size; and how far the rows of one index before the axis are from those of the next."""

    count: i64
    step: i64
    part: i64
    size: i64
    row: i64


class Plan(Struct):
    """A transform of n complex numbers, undivided, whose elements are `inner` apart.

    room      the numbers that it needs memory for
    halves    -i exp(-2πi k / 2n) for k <= n / 2
    length    of the matrix: n, or what holds a convolution of n
    turns     exp(-2πi j k / length) for row k, column j of it: real parts, then imaginary ones
    chirp     w(k) for k < n, then zeros, the same way, and imaginary parts of the other sign; null without convolution
    kernel    the transform of 1 / w(k) for -n < k < n, divided by the length
    """

    given: Side
    taken: Side
    n: i64
    inner: i64
    kind: i64
    is_inverse: i64
    room: i64
    passes: ptr[Pass]
    halves: ptr
    length: i64
    rows: i64
    columns: i64
    passes_of_rows: ptr[Pass]
    passes_of_columns: ptr[Pass]
    turns: ptr
    chirp: ptr
    kernel: ptr


# ------------------------------------------------------------ blocks


def move_of(number, lanes, is_load, has_rows=True):
    """The function that loads rows into a block, or stores a block.  Where both parts have one place, the real one
    stays."""
    element, pairs = vector[number, lanes] if lanes > 1 else number, vector[number, 2 * LANES]
    is_block, all_lanes = lanes > 1, tuple(range(lanes))
    exchanges = tuple([(i, i + d, *_squares(d)) for d in (4, 2, 1) for i in range(LANES) if not i & d])

    @native(inline=True)
    def transpose(square: ptr[pairs]) -> void:
        """As many rows as they have pairs: two rows a distance apart exchange the squares that are that far from the
        diagonal."""
        for i, j, low, high in exchanges:
            row = square[i]
            other = square[j]
            square[i] = shuffle(row, other, low)
            square[j] = shuffle(row, other, high)

    one_part, one_number = _move_one(element, is_load), _move_one(number, is_load)

    @native(inline=True)
    def move_pairs(row: ptr[pairs], re: ptr[element], im: ptr[element]) -> void:
        if is_load:
            both = row[0]
            re[0] = shuffle(both, both, _EVEN)
            im[0] = shuffle(both, both, _ODD)
        else:
            row[0] = shuffle(re[0], im[0], _MIXED)

    @native(inline=False)
    def move(
        rows: ptr[ptr[number]], block: ptr[element], count: i64, step: i64, part: i64, swap: i64, way: i64
    ) -> void:
        re = block + swap
        im = block + (1 - swap)
        i = i64(0)
        if is_block:
            row = rows[0]
            square = local(pairs, LANES)
            if has_rows:
                while way == ROWS and i + LANES <= count:
                    for lane in all_lanes:
                        if is_load:
                            square[lane] = ptr[pairs](rows[lane] + 2 * i)[0]
                        else:
                            move_pairs(square + lane, re + 2 * (i + lane), im + 2 * (i + lane))
                    transpose(square)
                    for lane in all_lanes:
                        if is_load:
                            move_pairs(square + lane, re + 2 * (i + lane), im + 2 * (i + lane))
                        else:
                            ptr[pairs](rows[lane] + 2 * i)[0] = square[lane]
                    i += LANES
            if way == PAIRS:
                while i < count:
                    move_pairs(ptr[pairs](row + i * step), re + 2 * i, im + 2 * i)
                    i += 1
            if way == PARTS:
                while i < count:
                    one_part(ptr[element](row + i * step + part), im + 2 * i)
                    one_part(ptr[element](row + i * step), re + 2 * i)
                    i += 1
        while i < count:
            for lane in range(lanes):
                one_number(rows[lane] + (i * step + part), ptr[number](im + 2 * i) + lane)
                one_number(rows[lane] + i * step, ptr[number](re + 2 * i) + lane)
            i += 1

    return move


def _move_one(kind, is_load):
    @native(inline=True)
    def move_one(row: ptr[kind], block: ptr[kind]) -> void:
        if is_load:
            block[0] = row[0]
        else:
            row[0] = block[0]

    return move_one


def _squares(d):
    """The lanes of the first of two rows of pairs a distance apart, and of the second, when they are exchanged."""
    low = [k if not k & d else LANES + k - d for k in range(LANES)]
    high = [k + d if not k & d else LANES + k for k in range(LANES)]
    return [tuple([2 * k + part for k in picked for part in (0, 1)]) for picked in (low, high)]


def block_of(number, stores_rows):
    """The functions that load a block, store it, transform it: where the result is; and that look for what is not
    finite."""
    element = vector[number, LANES]

    @native(inline=False)
    def transform(passes: ptr[Pass], block: ptr[element], other: ptr[element]) -> ptr[element]:
        while passes.run is not None:
            passes.run(block, other, passes.m, passes.s, passes.factors)
            kept = block
            block = other
            other = kept
            passes += 1
        return block

    @native(inline=False)
    def is_finite(block: ptr[element], count: i64) -> bool:
        sum_ = element(0.0)
        for i in range(2 * count):
            sum_ += block[i] * element(0.0)  # nan of what is not
        return lane_bits(sum_ != element(0.0)) == 0

    return move_of(number, LANES, True), move_of(number, LANES, False, stores_rows), transform, is_finite


# ------------------------------------------------------------ real numbers


def pair_of(number, element, is_split):
    half, sign = (0.5, 1.0) if is_split else (1.0, -1.0)

    @native(inline=False, contract=True)
    def pair(row: ptr[element], n: i64, table: ptr[number], swap: i64) -> void:
        """Z is the transform of the numbers with even places as real parts, those with odd ones as imaginary
        parts.  Split, X[k] = E + O and X[n-k] = conj(E - O) for

            E = (Z[k] + conj Z[n-k]) / 2      O = (Z[k] - conj Z[n-k]) / 2 · the table's k-th

        Joined, the same without the halves, and with the conjugates of the table, gives the Z whose inverse
        transform, undivided, is that of X; what X[0] and X[n] have as imaginary parts is not read.
        """
        end = row + 2 * n
        first = row[swap]
        if is_split:
            last = row[1 - swap]
            row[1 - swap] = element(0.0)
            end[swap] = first - last
            end[1 - swap] = element(0.0)
            row[swap] = first + last
        else:
            row[1 - swap] = first - end[swap]
            row[swap] = first + end[swap]
        for k in range(1, (n >> 1) + 1):
            a = row + 2 * k
            b = row + 2 * (n - k)
            c = element(table[2 * k])
            d = element(table[2 * k + 1] * sign)
            even_re = (a[swap] + b[swap]) * element(half)
            even_im = (a[1 - swap] - b[1 - swap]) * element(half)
            odd_re = (a[swap] - b[swap]) * element(half)
            odd_im = (a[1 - swap] + b[1 - swap]) * element(half)
            turned_re = odd_re * c - odd_im * d
            turned_im = odd_re * d + odd_im * c
            a[swap] = even_re + turned_re
            a[1 - swap] = even_im + turned_im
            b[swap] = even_re - turned_re
            b[1 - swap] = turned_im - even_im

    return pair


def halves_of(number, lanes):
    """The functions before and after the transform of a block of so many lanes, of real numbers or to them."""
    element = vector[number, lanes] if lanes > 1 else number
    split, join = pair_of(number, element, True), pair_of(number, element, False)

    @native(inline=False)
    def mirror(row: ptr[element], n: i64, swap: i64, is_real: bool) -> void:
        """An odd number of complex ones: of real ones the imaginary parts are 0, of the half of a spectrum the rest are
        conjugates."""
        row[1 - swap] = element(0.0)
        for k in range(1, (n >> 1) + 1):
            a = row + 2 * k
            b = row + 2 * (n - k)
            if is_real:
                a[1 - swap] = element(0.0)
                b[1 - swap] = element(0.0)
            else:
                b[swap] = a[swap]
                b[1 - swap] = -a[1 - swap]

    @native(inline=True)
    def before(row: ptr[element], plan: ptr[Plan], swap: i64) -> void:
        if plan.kind >= ODD_HALF:
            mirror(row, plan.n, swap, plan.kind == ODD_HALF)
        elif plan.kind == WHOLE:
            join(row, plan.n, ptr[number](plan.halves), swap)

    @native(inline=True)
    def after(row: ptr[element], plan: ptr[Plan]) -> void:
        if plan.kind == ODD_HALF:
            row[1] = element(0.0)
        elif plan.kind == HALF:
            split(row, plan.n, ptr[number](plan.halves), 0)

    return before, after


# ------------------------------------------------------------ whole arrays


def side_by_side(number):
    """The function that transforms a block of rows; false where they are not finite."""
    element = vector[number, LANES]
    load, store, transform, is_finite = block_of(number, True)
    before, after = halves_of(number, LANES)

    @native(inline=True)
    def way_of(side: ptr[Side], is_beside: bool) -> i64:
        if is_beside:
            return PAIRS if side.size == 2 else i64(PARTS)
        return ROWS if side.step == 2 and side.part == 1 else i64(EACH)

    @native(inline=False)
    def some(xs: ptr[ptr[number]], ys: ptr[ptr[number]], plan: ptr[Plan], room: ptr[number], is_beside: bool) -> bool:
        given = plan.given
        taken = plan.taken
        swap = plan.is_inverse
        block = ptr[element](room)
        load(xs, block, given.count, given.step, given.part, swap, way_of(given, is_beside))
        if not is_finite(block, given.count):
            return False
        before(block, plan, swap)
        found = transform(plan.passes, block, block + 2 * (plan.n + 1))
        after(found, plan)
        store(ys, found, taken.count, taken.step, taken.part, swap, way_of(taken, is_beside))
        return True

    return some


def matrix_of(number):
    """The function that transforms a long row, false where it is not finite."""
    element = vector[number, LANES]
    load, store, transform, is_finite = block_of(number, False)

    @native(inline=False, contract=True)
    def turn(block: ptr[element], count: i64, re: ptr[number], im: ptr[number], step: i64) -> void:
        """Multiply each number by one of its own."""
        for i in range(count):
            x = block[2 * i]
            y = block[2 * i + 1]
            c = ptr[element](re + i * step)[0]
            d = ptr[element](im + i * step)[0]
            block[2 * i] = x * c - y * d
            block[2 * i + 1] = x * d + y * c

    @native(inline=False)
    def transform_row(
        x: ptr[number], y: ptr[number], plan: ptr[Plan], room: ptr[number], swap: i64, first: ptr[number],
        last: ptr[number],
    ) -> bool:  # fmt: skip
        """y may be x.  Before, its numbers are multiplied by those at `first`, and after by those at `last`, if any."""
        rows = plan.rows
        columns = plan.columns
        longer = rows if rows > columns else columns
        block = ptr[element](room)
        other = block + 2 * longer
        matrix = room + 4 * LANES * longer
        turns = ptr[number](plan.turns)
        lanes = local(ptr[number], LANES)
        for j in range(0, columns, LANES):
            at = j if j + LANES <= columns else columns - LANES
            lanes[0] = x + 2 * at
            load(lanes, block, rows, 2 * columns, 1, swap, PAIRS)
            if not is_finite(block, rows):
                return False
            if first is not None:
                turn(block, rows, first + at, first + at + plan.length, columns)
            column = transform(plan.passes_of_rows, block, other)
            turn(column, rows, turns + at, turns + at + plan.length, columns)
            lanes[0] = matrix + 2 * at
            store(lanes, column, rows, 2 * columns, 1, 0, PAIRS)
        for k in range(0, rows, LANES):
            at = k if k + LANES <= rows else rows - LANES
            for lane in range(LANES):
                lanes[lane] = matrix + 2 * columns * (at + lane)
            load(lanes, block, columns, 2, 1, 0, ROWS)
            row = transform(plan.passes_of_columns, block, other)
            if last is not None:  # where parts are exchanged, by the conjugates
                turn(row, columns, last + at, last + at + plan.length * (1 + swap), rows)
            lanes[0] = y + 2 * at
            store(lanes, row, columns, 2 * rows, 1, swap, PAIRS)
        return True

    return transform_row


def _set_zero(to, _byte, size, _):
    """Memory of zeros, in plain Python."""
    for i in range(size * 8 // to.item.bits):
        to[i] = 0.0


def one_by_one(number):
    """The function that transforms a row, false where it is not finite.  Rows that lie packed are read and written
    where they are."""
    transform_row = matrix_of(number)
    load, store = move_of(number, 1, True), move_of(number, 1, False)
    before, after = halves_of(number, 1)
    size = number.bits // 8
    set_bytes = extern("llvm.memset.p0.i64", void, ptr, u8, u64, bool, runs_python=False, plain=_set_zero)

    @native(inline=False)
    def some(xs: ptr[ptr[number]], ys: ptr[ptr[number]], plan: ptr[Plan], room: ptr[number], is_beside: bool) -> bool:
        given = plan.given
        taken = plan.taken
        row = room + (plan.room - 2 * (plan.length + 1))
        is_chirp = plan.chirp is not None
        swap = plan.is_inverse if is_chirp else i64(0)
        is_loaded = is_chirp or plan.kind >= WHOLE or given.step != 2 or given.part != 1
        is_stored = is_chirp or plan.kind >= ODD_HALF or taken.step != 2 or taken.part != 1
        x = row if is_loaded else xs[0]
        y = row if is_stored else ys[0]
        if is_loaded:
            load(xs, row, given.count, given.step, given.part, swap, EACH)
            before(row, plan, swap)
        if is_chirp:
            chirp = ptr[number](plan.chirp)
            set_bytes(row + 2 * plan.n, 0, u64((plan.length - plan.n) * 2 * size), False)
            if not transform_row(row, row, plan, room, 0, chirp, ptr[number](plan.kernel)):
                return False
            if not transform_row(row, row, plan, room, 1, None, chirp):
                return False
        elif not transform_row(x, y, plan, room, plan.is_inverse, None, None):
            return False
        after(y, plan)
        if is_stored:
            store(ys, row, taken.count, taken.step, taken.part, swap, EACH)
        return True

    return some


def rows_of(dtype, lanes):
    """`fourier` of f32 or f64 numbers, by so many rows."""
    number = FLOATS[dtype]
    some = side_by_side(number) if lanes > 1 else one_by_one(number)
    size, refused, no_memory = number.bits // 8, int(Status.REFUSED), int(Status.NO_MEMORY)
    new = extern("PyMem_RawMalloc", ptr, u64, runs_python=False, plain=lambda count: local(number, count // size))
    free = extern("PyMem_RawFree", void, ptr, runs_python=False, plain=lambda room: None)

    @native(inline=True)
    def row_of(x: ptr[number], r: u64, inner: u64, side: ptr[Side]) -> ptr[number]:
        return x + (r // inner * u64(side.row) + r % inner * u64(side.size))

    @native
    def fourier(pointers: ptr[ptr[number]], extents: ptr[u64]) -> i32:
        plan = ptr[Plan](extents[0])
        end = extents[2]
        inner = u64(plan.inner)
        xs = local(ptr[number], lanes)
        ys = local(ptr[number], lanes)
        found = i32(0)
        room = new(u64(plan.room * size + 64))
        if room is None:
            return i32(no_memory)
        numbers = ptr[number](room) + (64 - u64(room) % 64) // size
        r = extents[1]
        while r < end and found == 0:
            for lane in range(lanes):
                at = r + u64(lane) if r + u64(lane) < end else end - 1
                xs[lane] = row_of(pointers[0], at, inner, plan.given)
                ys[lane] = row_of(pointers[1], at, inner, plan.taken)
            if not some(xs, ys, plan, numbers, r + lanes <= end and r % inner + lanes <= inner):
                found = i32(refused)
            r += lanes
        free(room)
        return found

    return fourier
