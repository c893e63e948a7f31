"""How many threads share a large loop, and their code.

At first as many as there are processors for this process, or AUTODIFF_THREADS.  The number changes
nothing but time: results have the same bits for any (`share`, `product_ir`).

The code (`threads_ir`) is made when the first program with a large loop is, and is never unloaded:
sleeping threads wake up in it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from operator import index
from typing import TYPE_CHECKING

from ..forks import held_over_fork
from ..lazily import later
from ..modes import processor
from . import engine, objects
from .native import call_numbers

if TYPE_CHECKING:
    from . import threads_ir
else:
    threads_ir = later("codegen.runtime.threads_ir")

__all__ = ["is_made", "set_threads", "sharing", "started", "threads"]

_lock = held_over_fork(threading.RLock())
_count: int | None = None


def threads() -> int:
    """How many threads a loop is shared among, the caller's included."""
    global _count
    with _lock:
        if _count is None:
            _count = _first_count()
        return _count


def set_threads(count: int) -> None:
    """Share loops among `count` threads from the next call on; 1 uses none but the caller's.

    Raises ValueError for a count below 1 or above 256, and for what is no whole number.
    """
    global _count
    try:
        whole = index(count)
    except TypeError:
        whole = 0
    if not 1 <= whole <= threads_ir.MOST_THREADS:
        raise ValueError(f"threads should be a whole number from 1 to {threads_ir.MOST_THREADS}, got {count!r}")
    with _lock:
        _count = whole
        if is_made():
            call_numbers(_code(), "set_threads", _count)


def is_made() -> bool:
    """Whether their code is there."""
    return _code.cache_info().currsize > 0


def sharing() -> int:
    """The address of the function that shares out a step of `launcher_ir`."""
    with _lock:
        return _code().address("run_blocks")


def started() -> int:
    """How many threads run or sleep beside Python's own."""
    with _lock:
        return call_numbers(_code(), "started_threads")


@functools.cache
def _code() -> engine.Code:
    text = threads_ir.threads_ir(sys.platform, processor())
    code = objects.compiled(text, passes=engine.Passes.QUICK)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))  # never unloaded
    call_numbers(code, "set_threads", threads())
    return code


def _first_count() -> int:
    given = os.environ.get("AUTODIFF_THREADS", "")
    if given:
        if not given.isdecimal() or not 1 <= int(given) <= threads_ir.MOST_THREADS:
            raise ValueError(f"AUTODIFF_THREADS should be a number from 1 to {threads_ir.MOST_THREADS}, got {given!r}")
        return int(given)
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, threads_ir.MOST_THREADS)
