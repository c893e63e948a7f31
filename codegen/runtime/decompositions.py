"""Decompositions by LAPACK, in native Python (`codegen.native`).

    i32 eigh(pointers, extents)   i32 qr(...)   i32 svd(...)

decompose the matrices of a batch; pointers (a, y), extents as in `Extents`.
y has the parts of a decomposition one below the other:

    eigh   the row of eigenvalues, the vectors as columns        dsyevd
    qr     q, then r                                             dgeqrf, dorgqr
    svd    u, the row of singular values, v                      dgesdd

f32 is computed in f64, as NumPy does.  A matrix with nan or infinities, and one for which LAPACK finds nothing, gives
REFUSED: the references decide; so does a word that is not 0 (`modes.deterministic`), before anything is computed.
LAPACK does not flush subnormal numbers when we do (`run_steps`): it has threads of its own, which would not.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..kernel.nest import Status
from ..native import Struct, Translation, extern, f32, f64, fn, i32, i64, local, native, ptr, u64, void
from .run_steps import leave_flushing, return_flushing

__all__ = ["text"]

#: LAPACK_ROW_MAJOR of lapacke.h, and the letters V, L, S.
ROWS, VECTORS, LOWER, SOME = 101, ord("V"), ord("L"), ord("S")

REFUSED, NO_MEMORY = i32(int(Status.REFUSED)), i32(int(Status.NO_MEMORY))

# The routines of LAPACKE with 64-bit integers.
DSYEVD = fn[i64, i32, i32, i32, i64, ptr, i64, ptr]
DGEQRF = fn[i64, i32, i64, i64, ptr, i64, ptr]
DORGQR = fn[i64, i32, i64, i64, i64, ptr, i64, ptr]
DGESDD = fn[i64, i32, i32, i64, i64, ptr, i64, ptr, ptr, i64, ptr, i64]


class Extents(Struct):
    """The batch, the sizes of a matrix, the word that refuses, and the routines of LAPACKE."""

    batch: i64
    m: i64
    n: i64
    word: ptr[i64]
    routine: u64
    last: u64


class Parts(Struct):
    """The sizes of a decomposition: of a matrix, of its result, and of the room that the routines need."""

    matrix: i64
    result: i64
    scratch: i64


allocated = extern("PyMem_RawMalloc", ptr, i64, runs_python=False)
free = extern("PyMem_RawFree", void, ptr, runs_python=False)
copy_bytes = extern("llvm.memcpy.p0.p0.i64", void, ptr, ptr, i64, bool, runs_python=False)


@native
def is_sound(a: ptr[f64], count: i64) -> bool:
    """All are finite: x * 0 is nan for one that is not."""
    total = f64(0.0)
    for i in range(count):
        total += a[i] * 0.0
    return total == 0.0


# ------------------------------------------------------------ one matrix


@native
def run_eigh(a: ptr[f64], y: ptr[f64], scratch: ptr[f64], extents: ptr[Extents]) -> i64:
    n = extents.n
    copy_bytes(y + n, a, n * n * 8, False)
    return DSYEVD(extents.routine)(ROWS, VECTORS, LOWER, n, y + n, n, y)


@native
def run_qr(a: ptr[f64], y: ptr[f64], scratch: ptr[f64], extents: ptr[Extents]) -> i64:
    m = extents.m
    n = extents.n
    copy_bytes(y, a, m * n * 8, False)
    info = DGEQRF(extents.routine)(ROWS, m, n, y, n, scratch)
    if info != 0:
        return info
    r = y + m * n  # what is above the diagonal, and zeros
    for row in range(n):
        for column in range(n):
            r[row * n + column] = y[row * n + column] if row <= column else f64(0.0)
    return DORGQR(extents.last)(ROWS, m, n, n, y, n, scratch)


@native
def run_svd(a: ptr[f64], y: ptr[f64], scratch: ptr[f64], extents: ptr[Extents]) -> i64:
    m = extents.m
    n = extents.n
    k = m if m < n else n
    transposed = scratch + m * n
    singular = y + m * k
    copy_bytes(scratch, a, m * n * 8, False)
    info = DGESDD(extents.routine)(ROWS, SOME, m, n, scratch, n, singular, y, k, transposed, n)
    v = singular + k
    for row in range(n):
        for column in range(k):
            v[row * k + column] = transposed[column * n + row]
    return info


@native
def sizes_of_eigh(parts: ptr[Parts], m: i64, n: i64) -> void:
    parts.result = n * n + n
    parts.scratch = 0


@native
def sizes_of_qr(parts: ptr[Parts], m: i64, n: i64) -> void:
    parts.result = m * n + n * n
    parts.scratch = n


@native
def sizes_of_svd(parts: ptr[Parts], m: i64, n: i64) -> void:
    k = m if m < n else n
    parts.result = m * k + k + n * k
    parts.scratch = m * n + n * k


# ------------------------------------------------------------ a batch


def decomposition(name, dtype):
    """The function of one decomposition, of f32 or f64."""
    element, converts = {"f32": (f32, True), "f64": (f64, False)}[dtype]
    run, set_sizes = globals()[f"run_{name}"], globals()[f"sizes_of_{name}"]

    @native
    def one(a: ptr[element], y: ptr[element], room: ptr[f64], parts: ptr[Parts], extents: ptr[Extents]) -> i32:
        """A matrix; its status."""
        given = ptr[f64](a)
        found = ptr[f64](y)
        scratch = room
        if converts:
            given = room
            found = room + parts.matrix
            scratch = found + parts.result
            for i in range(parts.matrix):
                given[i] = f64(a[i])
        if not is_sound(given, parts.matrix):
            return REFUSED
        inside = leave_flushing()
        info = run(given, found, scratch, extents)
        return_flushing(inside)
        if info != 0:
            return REFUSED
        if converts:
            for i in range(parts.result):
                y[i] = f32(found[i])
        return i32(0)

    @native
    def decompose(pointers: ptr[ptr], extents: ptr[Extents]) -> i32:
        a = ptr[element](pointers[0])
        y = ptr[element](pointers[1])
        parts = local(Parts, 1)[0]
        set_sizes(parts, extents.m, extents.n)
        parts.matrix = extents.m * extents.n
        count = parts.scratch + 1
        if converts:
            count += parts.matrix + parts.result
        room = ptr[f64](allocated(count * 8))
        if room is None:
            return NO_MEMORY
        status = REFUSED if extents.word[0] != 0 else i32(0)
        for b in range(extents.batch):
            if status == 0:
                status = one(a + b * parts.matrix, y + b * parts.result, room, parts, extents)
        free(room)
        return status

    decompose.name = name
    return decompose


def text(module: Translation, name: str, dtype: str) -> str:
    """LLVM's text of one decomposition."""
    return module.text([decomposition(name, dtype)])
