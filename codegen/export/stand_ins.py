"""Stand-ins for what the runtime has of Python and of worker threads, in native Python (`codegen.native`).

A long loop asks Python whether a signal waits, and takes memory from it.  In a program without Python nobody holds the
interpreter's lock, so no loop ever gets to a signal; memory comes from the C library.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks; names are Python's in C.

from __future__ import annotations

from ..modes import FLUSHING
from ..native import Translation, extern, fn, i32, native, ptr, u32, u64, void
from ..runtime.worker_threads import run_block

malloc = extern("malloc", u64, u64)
realloc = extern("realloc", u64, u64, u64)
free = extern("free", void, u64)


@native
def PyMem_RawMalloc(size: u64) -> u64:
    return malloc(size if size != 0 else u64(1))


@native
def PyMem_RawRealloc(memory: u64, size: u64) -> u64:
    return realloc(memory, size if size != 0 else u64(1))


@native
def PyMem_RawFree(memory: u64) -> void:
    free(memory)


@native
def PyGILState_Check() -> i32:
    return i32(0)


@native
def PyGILState_Ensure() -> i32:
    return i32(0)


@native
def PyGILState_Release(state: i32) -> void:
    return


@native
def PyErr_CheckSignals() -> i32:
    return i32(0)


@native
def PyEval_SaveThread() -> u64:
    return u64(0)


@native
def PyEval_RestoreThread(thread: u64) -> void:
    return


@native
def PyThread_tss_get(key: u64) -> u64:
    return u64(0)


@native
def account_nothing(work: u64) -> i32:
    """In place of `loop_account`."""
    return i32(0)


@native
def run_in_turn(
    function: fn[u32, ptr, ptr], pointers: ptr, extents: ptr[u64], n: u64, blocks: u64, chunk: u64, total: u64
) -> u32:
    """In place of `run_blocks`: the same blocks, one after the other."""
    worst = u32(0)
    for block in range(blocks):
        status = run_block(function, pointers, extents, n, chunk, total, u64(block))
        if status > worst:
            worst = status
    return worst


_FUNCTIONS = (
    PyMem_RawMalloc, PyMem_RawRealloc, PyMem_RawFree, PyGILState_Check, PyGILState_Ensure, PyGILState_Release,
    PyErr_CheckSignals, PyEval_SaveThread, PyEval_RestoreThread, PyThread_tss_get, account_nothing, run_in_turn,
)  # fmt: skip


def text(module: Translation) -> str:
    """LLVM's text of all of them."""
    module.beside(f"@{FLUSHING} = global {{ i64, ptr }} zeroinitializer\n")
    return module.text(_FUNCTIONS)
