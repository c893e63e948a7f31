"""Replacements for Python's functions and for worker threads in exported programs, in native Python.

A long loop of the runtime checks for signals by Python's API, and allocates Python's memory.  In a program without
Python no thread holds the interpreter's lock, so no loop checks for signals; memory comes from the C library.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks; names are Python's in C.

from __future__ import annotations

from ..modes import FLUSHING
from ..native import Translation, extern, i32, native, u64, void

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
    """Replaces `loop_account`; does nothing."""
    return i32(0)


_FUNCTIONS = (
    PyMem_RawMalloc, PyMem_RawRealloc, PyMem_RawFree, PyGILState_Check, PyGILState_Ensure, PyGILState_Release,
    PyErr_CheckSignals, PyEval_SaveThread, PyEval_RestoreThread, PyThread_tss_get, account_nothing,
)  # fmt: skip


def text(module: Translation) -> str:
    """The LLVM IR text of all replacements."""
    module.beside(f"@{FLUSHING} = global {{ i64, ptr }} zeroinitializer\n")
    return module.text(_FUNCTIONS)
