"""Native functions that use each construct of the language, and what compares their machine code with plain Python.

`differences(library)` calls every function with random arguments, in both ways, in the same order: functions have
state, so an early fault shows in all that follows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from codegen.native import (
    Struct,
    Translation,
    array,
    atomic_add,
    atomic_load,
    atomic_max,
    atomic_store,
    bit_cast,
    compare_exchange,
    constants,
    f32,
    f64,
    fence,
    fn,
    i8,
    i16,
    i32,
    i64,
    local,
    native,
    ptr,
    row,
    select,
    shuffle,
    static,
    u8,
    u16,
    u32,
    u64,
    u128,
    vector,
)
from codegen.runtime import engine
from codegen.runtime.launcher import builtin
from codegen.runtime.product_tiles import masks_of

LIMIT, IS_SMALL = 40, True
SEED = u64(0x9E3779B97F4A7C15)


@native
def widths(a: i64, b: i32, c: u16, d: u8, e: i8) -> i64:
    """Narrow numbers widen with their sign, and conversions cut."""
    total = a ^ b
    total += i64(c) - d
    total = total - i64(i16(a >> 3)) + e
    return total & -2 | i64(u8(a))


@native
def unsigned(a: u64, b: u64, c: u32) -> u64:
    """Division, remainder, shifts and bits of unsigned numbers."""
    quotient = a // (b | 1)
    rest = a % (u64(c) + 1)
    shifted = (a >> 7) ^ (b << 9) ^ ~a
    return quotient + rest * 3 + shifted if a > b else quotient ^ rest


@native
def signed(a: i64, b: i64, c: i8) -> i64:
    """Shifts keep the sign; comparisons look at it."""
    least = a if a < b else b
    divided = a // (b | 1) + a % (i64(c) | 1) + (b >> 3) // 4
    return (least >> 5) + (-least >> 60) + divided + i64(c >> 1) + i64(a <= i64(c))


@native
def hashed(a: u64, b: u64) -> u64:
    """A product of 128 bits, both halves."""
    wide = u128(a ^ SEED) * u128(b | 1)
    return u64(wide) ^ u64(wide >> 64)


@native
def fractions(a: f64, b: f64, n: i32) -> f64:
    """Numbers with a fraction; nan is unequal to itself, division by zero is infinite."""
    narrow = f32(a) * f32(b) + 0.5
    wide = a / b - f64(narrow) * 1e-3 + f64(n)
    if wide != wide:
        return -1.0
    return -wide if wide > 1e6 else wide


@native
def whole(a: f64, n: i64) -> i64:
    return i64(a) + i64(f64(n) / 3.0)


@native
def truths(a: i64, b: i64, c: bool) -> i64:
    """A condition that decides early: the operand behind it, which would fail, does not run."""
    table = local(i64, 4)
    for i in range(4):
        table[i] = i
    found = a >= 0 and a < 4 and table[a] == a
    other = c or not (b == 0 or a // b == 2)
    return i64(found) + 2 * i64(other) + 4 * i64(b != 0 and a != 0)


@native
def loops(n: u8, stop: i64) -> i64:
    """Counting up and down, leaving early and going on, a loop without end."""
    total = i64(0)
    for i in range(i64(n) % LIMIT):
        if i == 3:
            continue
        for j in range(i, -4, -3):
            total += j
            if total > 500:
                break
    i = 0
    while i < 7:
        i += 2
        if i == stop:
            return -total
    while True:
        total = total * 2 + 1
        if total > 1000 or total < 0:
            break
    return total + i


class Cell(Struct):
    """Numbers of several widths, arrays, a struct within."""

    flags: u8
    count: u16
    last: u16
    number: i64
    other: ptr[Cell]
    items: array[i32, 4]


class Pair(Struct):
    low: u32
    cells: array[Cell, 3]
    last: Cell


state = static(Pair)
table = static(array[u64, 16])


@native
def remembered(i: u8, number: i32, is_hot: bool) -> i64:
    """Fields and elements of memory that exists once."""
    cell = state.cells[i % 3]
    cell.flags = u8(is_hot) | u8(number > 0) << 5
    cell.count = u16((i64(cell.count) + 1) & 0xFFF)
    cell.last = u16(i)
    cell.number = number
    cell.items[i % 4] = number
    cell.items[1] ^= 5
    state.last.number += cell.number
    table[i % 16] += u64(cell.flags)
    return i64(cell.flags) + i64(cell.count) + i64(cell.items[i % 4]) * 8 + state.last.number + i64(table[3])


@native
def overlaid(number: i64, which: bool) -> i64:
    cell = state.cells[0]
    if which:
        cell.other = state.cells[1]
        found = cell.other.count
        cell.other = None
        return i64(found)
    cell.number = number
    return cell.number


def doubled(kind: Any) -> Any:
    """A generic function: one for each type."""

    @native(inline=True)
    def twice(x: kind) -> kind:
        return x + x

    return twice


twice_i64, twice_f64 = doubled(i64), doubled(f64)


@native
def generics(a: i32, b: f64) -> f64:
    return f64(twice_i64(i64(a))) + twice_f64(b)


@native
def plus(a: i64, b: i64) -> i64:
    return a + b


@native
def times(a: i64, b: i64) -> i64:
    return a * b


class Chosen(Struct):
    operation: fn[i64, i64, i64]


chosen = static(Chosen)


@native
def pointed(a: i64, b: i64, which: bool) -> i64:
    """Functions by their address, in a local and in memory."""
    operation = plus if which else times
    chosen.operation = operation
    return operation(a, b) - chosen.operation(b, b)


@native
def factorial(n: u8) -> u64:
    """A function that calls itself."""
    if n % 20 < 2:
        return u64(1)
    return u64(n % 20) * factorial(u8(n % 20 - 1))


@native
def stacked(n: u8, a: i64) -> i64:
    """Room on the stack, of a number that is known late."""
    count = i64(n) % 9 + 1
    room = local(i64, count)
    for i in range(count):
        room[i] = a + i
    middle = room + count // 2
    return middle[0] - (middle - 1)[0 if count < 2 else 1] if count > 1 else room[0]


@native
def in_a_row(n: i64, m: i64) -> i64:
    """Pointers side by side on the stack."""
    room = local(i64, 3)
    for i in range(3):
        room[i] = n + i
    both = row(room, room + 2, None)
    return ptr[i64](both[m % 2])[0] + i64(both[2] is None)


four, wide, mask_of = vector[f64, 4], vector[f32, 8], vector[i32, 8]
_, masked_load, masked_store = masks_of(f32, 8)
PRIMES = constants(i32, [2, 3, 5, 7, 11, 13, 17, -19])
TURNS = [(0, 1, [(3, 7)]), (2, 5, [(1, 0), (6, 2)])]
TURNED = (9, 3, 0, 15)


@native
def side_by_side(a: f64, b: f64, n: u8) -> f64:
    """Vectors: read from and written to memory, chosen from, of equal numbers."""
    room = local(f64, 16)
    for i in range(16):
        room[i] = a + f64(i)
    lanes = ptr[four](room)
    lanes[1] = lanes[0] * four(b) - lanes[3] / four(2.0)
    chosen_ = select(lanes[1] < lanes[2], lanes[1], lanes[2])
    bits = mask_of(i32(n)) ^ mask_of(7)
    return chosen_[0] + chosen_[n % 4] + room[7] + f64(bits[5])


@native
def unrolled(n: i32, place: u8) -> i64:
    """Loops over constants, lanes moved and counted, and an array on the stack that needs no pointer."""
    rows = local(i32, 8)
    for i in range(8):
        rows[i] = PRIMES[i] ^ n >> i32(i)
    for a, b, pairs in TURNS:
        rows[a] = rows[b] ^ rows[a]
        for c, d in pairs:
            rows[c] = rows[d] ^ a
    x = ptr[mask_of](rows)[0]
    y = ptr[mask_of](PRIMES)[0]
    taken = vector[i64, 4](shuffle(x, y, TURNED)) << vector[i64, 4](33)
    below = x < y
    same = bit_cast(vector[i64, 4], x >> mask_of(3))
    return taken[place % 4] + i64(below[1]) + same[0]


@native
def under_a_mask(x: f32, n: u8, is_less: bool) -> f64:
    """Lanes that are read and written alone, a choice between numbers, one between pointers."""
    room = local(f32, 12)
    for i in range(12):
        room[i] = x + f32(i)
    given = select(is_less, room + 1, room)
    mask = ptr[mask_of](PRIMES)[0] < mask_of(i32(n % 16))
    lanes = masked_load(ptr[wide](given + 3), mask)
    masked_store(ptr[wide](given), mask, lanes * wide(2.0))
    shifted = select(n < 7, i64(n) + 2, i64(n) * 3 - 1)
    return f64(lanes[n % 8]) + f64(room[shifted % 12]) + f64(room[1])


@native
def together(a: u32, b: i64) -> i64:
    """Numbers that threads share."""
    cell = state.last
    atomic_store(state, "low", a)
    before = atomic_add(state, "low", 7, "monotonic")
    atomic_max(state, "low", 1 << 20)
    fence("acq_rel")
    swapped = compare_exchange(cell, "number", cell.number, b)
    failed = compare_exchange(cell, "number", cell.number + 1, b, "acq_rel")
    return i64(before) + i64(atomic_load(state, "low", "acquire")) + i64(swapped) + 2 * i64(failed)


@native
def expected(a: i64) -> i64:
    assert a == a, "always"
    if a > 0:
        return a
    if not IS_SMALL:
        return undefined_there(a)  # noqa: F821  (a branch that is never compiled)
    return i64(a < -100)


STEPS = range(1, 7, 2)


@native
def known(n: i32, x: f64) -> f64:
    """A loop over a known range, conditions on numbers of a loop over constants, the negative of a vector."""
    sums = local(i32, 8)
    for place in range(8):
        sums[place] = PRIMES[place]
    for i in STEPS:
        sums[i + 1] = i32(i) ^ n
    for a, b, _pairs in TURNS:
        if a + 1 < b * 2 - 2:
            sums[a + b] ^= sums[a + 2]
        elif a == 0:
            sums[2 * a + b] = n
    return (-four(x))[1] + f64(sums[2]) + f64(sums[1] ^ sums[7])


@native
def with_the_writers_names(result: i64, entry: i64) -> i64:
    """Locals of names that a writer of machine code likes."""
    at = result + 1
    value = at * entry
    result = value - at
    return result


FUNCTIONS = [
    under_a_mask,
    with_the_writers_names,
    widths, unsigned, signed, hashed, fractions, whole, truths, loops, remembered, overlaid, generics, pointed,
    factorial, stacked, side_by_side, unrolled, known, together,
    expected,
]  # fmt: skip


def forget() -> None:
    """Memory of plain Python as it is at the start: another library begins with zeros, too."""
    for memory in (state, chosen):
        memory.__dict__.clear()
    table.items[:] = [None] * len(table.items)


def compiled(functions: list[Any], **options: bool) -> Any:
    """The machine code of functions as builtins: a library with its text and code."""
    return loaded(Translation(**options).text([], builtins=functions), functions)


def loaded(text: str, functions: list[Any]) -> Any:
    """The same of a text that has their builtins."""
    code = engine.compile(text)
    builtins = {f.name: builtin(f.name, code.address(f"{f.name}.builtin"), 0, code) for f in functions}
    return SimpleNamespace(text=text, code=code, **builtins)


def cases(seed: int, rounds: int) -> Iterator[tuple[Any, list[Any]]]:
    """Each function again and again with random arguments, small and large ones, and those at the ends."""
    rng = random.Random(seed)

    def number(kind: Any) -> Any:
        if kind is bool:
            return rng.random() < 0.5
        if kind is f64:
            return rng.choice([rng.gauss(0, 100), rng.randint(-3, 3), math.nan, math.inf, 1e200])
        span = 1 << rng.choice([2, 5, kind.bits])
        return int(kind(rng.randrange(span) - rng.choice([0, span // 2])))

    for _ in range(rounds):
        for function in FUNCTIONS:
            yield function, [number(kind) for _, kind in function.params]


def differences(library: Any, seed: int = 0, rounds: int = 40) -> Iterator[str]:
    """Calls whose result in machine code is another than in plain Python."""
    for function, arguments in cases(seed, rounds):
        try:
            expected_ = function(*arguments)
        except (OverflowError, ValueError):  # plain Python refuses what wraps
            continue
        found = getattr(library, function.name)(*arguments)
        if found != expected_ and not (found != found and expected_ != expected_):
            yield f"{function.name}{tuple(arguments)}: {found}, in plain Python {expected_!r}"
