"""Blocks of rows that are transformed together, in native Python: from memory and back, passes over one, real numbers.

See `fourier_rows`, whose structs stand here.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, fn, i64, lane_bits, local, native, ptr, shuffle, vector, void
from .fourier_numbers import LANES

__all__ = [
    "EACH", "ODD_HALF", "PAIRS", "PARTS", "ROWS", "WHOLE", "Pass", "Side", "TransformPlan", "block_of", "halves_of",
    "move_of",
]  # fmt: skip


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


class TransformPlan(Struct):
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
    """The function that loads rows into a block, or stores a block.

    has_rows    whether rows of pairs (`ROWS`) are moved by squares, too

    Its arguments: pointers to the rows, and the block; of a `Side` count, step and part; `swap`: 1 where real and
    imaginary parts change places in the block, which inverts a transform, else 0; the `way` in which rows lie.
    Of an odd number of real ones `part` is 0: both parts of one have one place in the array.  The imaginary part is
    moved first, so what stays there is the real one.
    """
    element, pairs = vector[number, lanes] if lanes > 1 else number, vector[number, 2 * LANES]
    is_block, all_lanes = lanes > 1, tuple(range(lanes))
    exchanges = tuple([(i, i + d, *_squares(d)) for d in (4, 2, 1) for i in range(LANES) if not i & d])

    @native(inline=True)
    def transpose(square: ptr[pairs]) -> void:
        """Transpose rows in place: two rows a distance apart exchange the squares that are that far from the
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
    def before(row: ptr[element], plan: ptr[TransformPlan], swap: i64) -> void:
        if plan.kind >= ODD_HALF:
            mirror(row, plan.n, swap, plan.kind == ODD_HALF)
        elif plan.kind == WHOLE:
            join(row, plan.n, ptr[number](plan.halves), swap)

    @native(inline=True)
    def after(row: ptr[element], plan: ptr[TransformPlan]) -> void:
        if plan.kind == ODD_HALF:
            row[1] = element(0.0)
        elif plan.kind == HALF:
            split(row, plan.n, ptr[number](plan.halves), 0)

    return before, after
