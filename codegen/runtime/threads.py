"""How many threads share a large loop.

At first as many as there are processors for this process, or AUTODIFF_THREADS.  The number changes
nothing but time: results have the same bits for any (`share`).  BLAS has threads of its own, which run
only between ours.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from .threads_ir import MOST_THREADS

__all__ = ["obey", "set_threads", "threads"]

_lock = threading.Lock()
_count: int | None = None
_listeners: list[Callable[[int], object]] = []


def threads() -> int:
    """How many threads a loop is shared among, the caller's included."""
    global _count
    with _lock:
        if _count is None:
            _count = _first_count()
        return _count


def set_threads(count: int) -> None:
    """Share loops among `count` threads from the next call on; 1 uses none but the caller's.

    Raises ValueError for a count below 1 or above 256.
    """
    global _count
    if not 1 <= count <= MOST_THREADS:
        raise ValueError(f"threads should be from 1 to {MOST_THREADS}, got {count}")
    with _lock:
        _count = int(count)
        for listener in _listeners:
            listener(_count)


def obey(listener: Callable[[int], object]) -> None:
    """Call `listener` with the number now, and whenever it changes."""
    listener(threads())
    with _lock:
        _listeners.append(listener)


def _first_count() -> int:
    given = os.environ.get("AUTODIFF_THREADS", "")
    if given:
        if not given.isdecimal() or not 1 <= int(given) <= MOST_THREADS:
            raise ValueError(f"AUTODIFF_THREADS should be a number from 1 to {MOST_THREADS}, got {given!r}")
        return int(given)
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, MOST_THREADS)
