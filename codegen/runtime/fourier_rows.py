"""Rows of Fourier transforms in native Python (`codegen.native`).

    i32 fourier(pointers, extents)      pointers (x, y), extents (address of a `TransformPlan`, begin, end)

transforms the rows in [begin, end), LANES of them side by side, in two buffers that passes are done between.  A long
row of n = rows · columns numbers is a matrix: first its columns are transformed so, and multiplied by the numbers at
`turns`, then its rows.

- An inverse transform is one of numbers whose real and imaginary parts are exchanged (`swap`), before and after.
- 2n real numbers are n complex ones, their even and odd elements: `split` takes the spectra of these two apart, `join`
  puts them together.

Rows that hold nan or infinities give REFUSED: where they end up depends on the order of sums: the references decide.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..kernel.nest import Status
from ..lowering import LANES
from ..native import NO_MEMORY, Struct, extern, fn, i32, i64, local, native, ptr, shuffle, u64, vector, void
from .fourier_passes import FLOATS

#: The kinds of transforms: of complex numbers, of real ones to the half of their spectrum, of that to real ones.
COMPLEX, HALF, WHOLE = range(3)

#: The ways in which a block lies in memory: each number by itself; a vector of pairs for each element of rows side by
#: side; rows of pairs one after the other.
EACH, PAIRS, ROWS = range(3)

_EVEN, _ODD = tuple(range(0, 2 * LANES, 2)), tuple(range(1, 2 * LANES, 2))
_MIXED = tuple([k + part for k in range(LANES) for part in (0, LANES)])


class Pass(Struct):
    """A pass of a transform; the one without code is the end."""

    run: fn[void, ptr, ptr, i64, i64, ptr]
    m: i64
    s: i64
    factors: ptr


class Side(Struct):
    """The elements of rows in an array, pairs of numbers: how many a row has, and, in numbers, how far one is from the
    next; how far a row is from the next, and `inner` rows from the next ones; 1 where the parts of pairs are
    exchanged, else 0."""

    count: i64
    step: i64
    near: i64
    far: i64
    swap: i64


class BlockRows(Struct):
    """Transforms of rows of n complex numbers, undivided.

    halves    -i exp(-2πi k / 2n) for k <= n / 2
    turns     exp(-2πi j k / n) for row k, column j of a matrix: real parts, then imaginary ones; null without matrix
    """

    given: Side
    taken: Side
    n: i64
    inner: i64
    kind: i64
    passes: ptr[Pass]
    halves: ptr
    turns: ptr


class TransformPlan(Struct):
    """Transforms of rows, or of the columns and of the rows of the matrix that a row is.

    room     the numbers that blocks need memory for
    count    of numbers in a matrix, or 0
    row      from one matrix to the next: of what is given, and of what is taken
    """

    first: BlockRows
    second: BlockRows
    room: i64
    count: i64
    kind: i64
    halves: ptr
    given_row: i64
    taken_row: i64


# ------------------------------------------------------------ blocks


def move_of(number, is_load):
    """The function that loads rows into a block, or stores a block.

    Its arguments: pointers to the rows, the block, the side on which the rows are, and the `way` in which they lie.
    """
    element, pairs, lanes = vector[number, LANES], vector[number, 2 * LANES], tuple(range(LANES))
    exchanges = tuple([(i, i + d, *_squares(d)) for d in (4, 2, 1) for i in lanes if not i & d])

    @native(inline=True)
    def transpose(square: ptr[pairs]) -> void:
        """Transpose rows in place: two rows a distance apart exchange the squares that are that far from the
        diagonal."""
        for i, j, low, high in exchanges:
            row = square[i]
            other = square[j]
            square[i] = shuffle(row, other, low)
            square[j] = shuffle(row, other, high)

    @native(inline=True)
    def move_pairs(row: ptr[pairs], re: ptr[element], im: ptr[element]) -> void:
        if is_load:
            both = row[0]
            re[0] = shuffle(both, both, _EVEN)
            im[0] = shuffle(both, both, _ODD)
        else:
            row[0] = shuffle(re[0], im[0], _MIXED)

    @native(inline=False)
    def move(rows: ptr[ptr[number]], block: ptr[element], side: ptr[Side], way: i64) -> void:
        count = side.count
        step = side.step
        re = block + side.swap
        im = block + (1 - side.swap)
        square = local(pairs, LANES)
        i = i64(0)
        while way == ROWS and i + LANES <= count:
            for lane in lanes:
                if is_load:
                    square[lane] = ptr[pairs](rows[lane] + 2 * i)[0]
                else:
                    move_pairs(square + lane, re + 2 * (i + lane), im + 2 * (i + lane))
            transpose(square)
            for lane in lanes:
                if is_load:
                    move_pairs(square + lane, re + 2 * (i + lane), im + 2 * (i + lane))
                else:
                    ptr[pairs](rows[lane] + 2 * i)[0] = square[lane]
            i += LANES
        while i < count:
            if way == PAIRS:
                move_pairs(ptr[pairs](rows[0] + i * step), re + 2 * i, im + 2 * i)
            else:
                for lane in range(LANES):
                    x = rows[lane] + i * step
                    a = ptr[number](re + 2 * i) + lane
                    b = ptr[number](im + 2 * i) + lane
                    if is_load:
                        a[0] = x[0]
                        b[0] = x[1]
                    else:
                        x[0] = a[0]
                        x[1] = b[0]
            i += 1

    return move


def _squares(d):
    """The lanes of the first of two rows of pairs a distance apart, and of the second, when they are exchanged."""
    low = [k if not k & d else LANES + k - d for k in range(LANES)]
    high = [k + d if not k & d else LANES + k for k in range(LANES)]
    return [tuple([2 * k + part for k in picked for part in (0, 1)]) for picked in (low, high)]


def block_of(number):
    """The functions that load a block, store it, transform it: where the result is; and that look for what is not
    finite."""
    element, truths = vector[number, LANES], vector[bool, LANES]
    any_lane = extern(f"llvm.vector.reduce.or.v{LANES}i1", bool, truths, plain=lambda x: any(x.values))

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
        return not any_lane(sum_ != element(0.0))

    return move_of(number, True), move_of(number, False), transform, is_finite


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


# ------------------------------------------------------------ rows


def side_by_side(number):
    """The function that transforms some rows, false where they are not finite."""
    element = vector[number, LANES]
    load, store, transform, is_finite = block_of(number)
    split, join = pair_of(number, element, True), pair_of(number, element, False)

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

    @native(inline=True)
    def way_of(side: ptr[Side], is_beside: bool) -> i64:
        if is_beside and side.near == 2:
            return i64(PAIRS)
        return ROWS if side.step == 2 else i64(EACH)

    @native(inline=True)
    def begin_of(side: ptr[Side], r: i64, inner: i64) -> i64:
        return r // inner * side.far + r % inner * side.near

    @native(inline=False)
    def some(x: ptr[number], y: ptr[number], rows: ptr[BlockRows], room: ptr[number], begin: i64, end: i64) -> bool:
        """The rows in [begin, end).  Of fewer than a block some are done twice."""
        xs = local(ptr[number], LANES)
        ys = local(ptr[number], LANES)
        block = ptr[element](room)
        given = rows.given
        taken = rows.taken
        n = rows.n
        inner = rows.inner
        r = begin
        while r < end:
            at = r if r + LANES <= end or end - begin < LANES else end - LANES
            is_beside = at + LANES <= end and at % inner + LANES <= inner
            if is_beside:
                x_at = x + begin_of(given, at, inner)
                y_at = y + begin_of(taken, at, inner)
                for lane in range(LANES):
                    xs[lane] = x_at + lane * given.near
                    ys[lane] = y_at + lane * taken.near
            else:
                for lane in range(LANES):
                    one = at + lane if at + lane < end else end - 1
                    xs[lane] = x + begin_of(given, one, inner)
                    ys[lane] = y + begin_of(taken, one, inner)
            load(xs, block, given, way_of(given, is_beside))
            if not is_finite(block, given.count):
                return False
            if rows.kind == WHOLE:
                join(block, n, ptr[number](rows.halves), given.swap)
            found = transform(rows.passes, block, block + 2 * (n + 1))
            if rows.turns is not None:
                turns = ptr[number](rows.turns)
                turn(found, n, turns + at, turns + at + n * inner, inner)
            if rows.kind == HALF:
                split(found, n, ptr[number](rows.halves), 0)
            store(ys, found, taken, way_of(taken, is_beside))
            r += LANES
        return True

    return some


def rows_of(dtype):
    """`fourier` of f32 or f64 numbers."""
    number = FLOATS[dtype]
    some, split, join = side_by_side(number), pair_of(number, number, True), pair_of(number, number, False)
    size, refused, no_memory = number.bits // 8, int(Status.REFUSED), int(Status.NO_MEMORY)
    new = extern("PyMem_RawMalloc", ptr, u64, plain=lambda count: local(number, count // size), fails=NO_MEMORY)
    free = extern("PyMem_RawFree", void, ptr, plain=lambda room: None)

    @native(inline=False)
    def matrix(x: ptr[number], y: ptr[number], plan: ptr[TransformPlan], room: ptr[number]) -> bool:
        """A long row."""
        n = plan.count
        turned = room + plan.room
        given = x
        if plan.kind == WHOLE:
            given = turned + 2 * n
            for i in range(2 * (n + 1)):
                given[i] = x[i]
            join(given, n, ptr[number](plan.halves), 0)
        if not some(given, turned, plan.first, room, 0, plan.first.inner):
            return False
        if not some(turned, y, plan.second, room, 0, plan.second.inner):  # its sums may be infinite where x is finite
            return False
        if plan.kind == HALF:
            split(y, n, ptr[number](plan.halves), 0)
        return True

    @native
    def fourier(pointers: ptr[ptr[number]], extents: ptr[i64]) -> i32:
        plan = ptr[TransformPlan](extents[0])
        room = new(u64((plan.room + 4 * plan.count + 2) * size + 64))
        if room is None:
            return i32(no_memory)
        numbers = ptr[number](room) + (64 - u64(room) % 64) // size
        is_done = True
        if plan.count == 0:
            is_done = some(pointers[0], pointers[1], plan.first, numbers, extents[1], extents[2])
        else:
            for r in range(extents[1], extents[2]):
                if is_done:
                    is_done = matrix(pointers[0] + r * plan.given_row, pointers[1] + r * plan.taken_row, plan, numbers)
        free(room)
        return i32(0) if is_done else i32(refused)

    return fourier
