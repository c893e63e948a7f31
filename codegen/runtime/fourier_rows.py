"""Rows of Fourier transforms in native Python (`codegen.native`).

    i32 fourier(pointers, extents)      pointers (x, y), extents (address of a `TransformPlan`, begin, end)

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
from ..native import extern, i32, i64, local, native, ptr, u8, u64, vector, void
from .fourier_blocks import EACH, ODD_HALF, PAIRS, PARTS, ROWS, WHOLE, Side, TransformPlan, block_of, halves_of, move_of
from .fourier_numbers import LANES
from .fourier_passes import FLOATS

__all__ = ["rows_of"]


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
    def some(
        xs: ptr[ptr[number]], ys: ptr[ptr[number]], plan: ptr[TransformPlan], room: ptr[number], is_beside: bool
    ) -> bool:
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
        x: ptr[number], y: ptr[number], plan: ptr[TransformPlan], room: ptr[number], swap: i64, first: ptr[number],
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
    def some(
        xs: ptr[ptr[number]], ys: ptr[ptr[number]], plan: ptr[TransformPlan], room: ptr[number], is_beside: bool
    ) -> bool:
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
        plan = ptr[TransformPlan](extents[0])
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
