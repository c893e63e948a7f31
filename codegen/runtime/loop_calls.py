"""Calls of NumPy's loops, in native Python (`codegen.native`).

    i32 decompose(pointers, extents)      pointers (a, y), extents (address of a `Decomposition`)
    i32 fourier(pointers, extents)        pointers (x, y), extents (address of a `RowLoop`, begin, end)

Of decompositions f32 is computed in f64, as NumPy does.  A matrix with nan or infinities, and one for which LAPACK
finds nothing, gives REFUSED: the references decide; so does a word that is not 0 (`modes.deterministic`), before
anything is computed.  LAPACK does not flush subnormal numbers when we do (`run_steps`): it has threads of its own.

A loop that runs out of memory gives no status, and on other threads its error is lost: a call first asks for as much
memory as the loop takes at most.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..kernel.nest import Status
from ..native import Struct, array, extern, f32, f64, fn, i32, i64, local, native, ptr, u8, void
from .run_steps import leave_flushing, return_flushing

REFUSED, NO_MEMORY = i32(int(Status.REFUSED)), i32(int(Status.NO_MEMORY))

#: The type of NumPy's loops: operands, the number of rows and the extents, strides, data.
Loop = fn[void, ptr, ptr, ptr, ptr]

allocated = extern("PyMem_RawMalloc", ptr, i64, runs_python=False)
free = extern("PyMem_RawFree", void, ptr, runs_python=False)
copy_bytes = extern("llvm.memcpy.p0.p0.i64", void, ptr, ptr, i64, bool, runs_python=False)


class LoopCall(Struct):
    """A loop, and of each operand the memory that it lies in, and how many bytes from its begin."""

    loop: Loop
    data: ptr
    extents: ptr
    strides: ptr
    count: i64
    places: array[i64, 8]


class Decomposition(Struct):
    """The batch, the sizes of a matrix, of its result and of the other memory, in numbers; the word that refuses; the
    bytes that must be free."""

    reserve: i64
    batch: i64
    m: i64
    n: i64
    size: i64
    scratch: i64
    word: ptr[i64]
    count: i64
    calls: array[LoopCall, 2]


@native
def is_free(reserve: i64) -> bool:
    room = allocated(reserve)
    free(room)
    return room is not None


@native
def is_sound(a: ptr[f64], count: i64) -> bool:
    """All are finite: x * 0 is nan for one that is not."""
    total = f64(0.0)
    for i in range(count):
        total += a[i] * 0.0
    return total == 0.0


@native
def call_loop(call: ptr[LoopCall], parts: ptr[ptr[u8]]) -> void:
    operands = local(ptr[u8], 4)
    for j in range(call.count):
        operands[j] = parts[call.places[2 * j]] + call.places[2 * j + 1]
    call.loop(operands, call.extents, call.strides, call.data)


@native
def factorise(a: ptr[f64], y: ptr[f64], scratch: ptr[f64], plan: ptr[Decomposition]) -> void:
    parts = local(ptr[u8], 3)
    parts[0] = ptr[u8](a)
    parts[1] = ptr[u8](y)
    parts[2] = ptr[u8](scratch)
    m = plan.m
    n = plan.n
    if plan.count == 2:  # of the first factorisation r is what is above the diagonal
        copy_bytes(scratch, a, plan.batch * m * n * 8, False)
    call_loop(plan.calls[0], parts)
    if plan.count == 2:
        call_loop(plan.calls[1], parts)
        for b in range(plan.batch):
            r = y + (b * plan.size + m * n)
            for row in range(n):
                for column in range(n):
                    value = scratch[b * m * n + row * n + column]
                    r[row * n + column] = value if row <= column else f64(0.0)


def decomposition(dtype):
    """`decompose` for matrices of f32 or f64."""
    element, converts = {"f32": (f32, True), "f64": (f64, False)}[dtype]

    @native(inline=False)
    def decomposed(a: ptr[element], y: ptr[element], room: ptr[f64], plan: ptr[Decomposition]) -> i32:
        given = ptr[f64](a)
        found = ptr[f64](y)
        scratch = room
        count = plan.batch * plan.m * plan.n
        if converts:
            given = room
            found = room + count
            scratch = found + plan.batch * plan.size
            for i in range(count):
                given[i] = f64(a[i])
        if not is_sound(given, count):
            return REFUSED
        inside = leave_flushing()
        factorise(given, found, scratch, plan)
        return_flushing(inside)
        if not is_sound(found, plan.batch * plan.size):
            return REFUSED
        if converts:
            for i in range(plan.batch * plan.size):
                y[i] = f32(found[i])
        return i32(0)

    @native
    def decompose(pointers: ptr[ptr], extents: ptr[ptr]) -> i32:
        plan = ptr[Decomposition](extents[0])
        if plan.word[0] != 0:
            return REFUSED
        count = plan.scratch + 1
        if converts:
            count += plan.batch * (plan.m * plan.n + plan.size)
        room = ptr[f64](allocated(count * 8))
        if room is None:
            return NO_MEMORY
        status = NO_MEMORY
        if is_free(plan.reserve):
            status = decomposed(ptr[element](pointers[0]), ptr[element](pointers[1]), room, plan)
        free(room)
        return status

    return decompose


class RowLoop(Struct):
    """A loop of rows; in bytes, of what is given and of what is found, how far an element is from the next, a row from
    the next, and `inner` rows from the next ones.  `reserve`: the
    bytes that must be free."""

    reserve: i64
    loop: Loop
    data: ptr
    factor: ptr[u8]
    given_count: i64
    found_count: i64
    given_step: i64
    found_step: i64
    inner: i64
    given_near: i64
    given_far: i64
    found_near: i64
    found_far: i64


@native
def fourier(pointers: ptr[ptr[u8]], extents: ptr[i64]) -> i32:
    plan = ptr[RowLoop](extents[0])
    if not is_free(plan.reserve):
        return NO_MEMORY
    operands = local(ptr[u8], 3)
    operands[1] = plan.factor
    counts = local(i64, 3)
    counts[1] = plan.given_count
    counts[2] = plan.found_count
    strides = local(i64, 5)
    strides[0] = plan.given_near
    strides[1] = i64(0)
    strides[2] = plan.found_near
    strides[3] = plan.given_step
    strides[4] = plan.found_step
    r = extents[1]
    end = extents[2]
    while r < end:
        outer = r // plan.inner
        near = r % plan.inner
        counts[0] = plan.inner - near if plan.inner - near < end - r else end - r
        operands[0] = pointers[0] + (outer * plan.given_far + near * plan.given_near)
        operands[2] = pointers[1] + (outer * plan.found_far + near * plan.found_near)
        plan.loop(operands, counts, strides, plan.data)
        r += counts[0]
    return i32(0)
