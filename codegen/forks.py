"""Locks that are safe over a fork.

A forked child has none of the other threads of its parent.  A lock that one of these threads held would stay locked
in the child for ever, and the data that it guards half changed.  So the forking thread first acquires the locks of
`held_over_fork`: it waits until the other threads have released them, and the child finds consistent data.  For data
that is always consistent, the child makes a new lock instead (`renewed_in_child`).

Python has such a lock for each module that a thread is importing: the fork waits until no import is running.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar


class _Lock(Protocol):
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> object: ...


_L = TypeVar("_L", bound=_Lock)
_F = TypeVar("_F", bound=Callable[[], object])

#: The time in seconds that a fork waits for one lock while holding others, for which the lock's owner may be waiting.
_LOCK_WAIT_S = 0.02

#: The most seconds that a fork waits for imports: an import that waits for a lock held by the fork never ends.
_IMPORT_WAIT_S = 5.0

_held: list[_Lock] = []

#: The locks that the running fork has acquired.
_taken: list[_Lock] = []


def held_over_fork(lock: _L) -> _L:
    """Register a lock that every fork acquires from now on; returns the lock."""
    _held.append(lock)
    return lock


def _take_all() -> None:
    """Acquire every lock, in any order.  To wait for a lock that stays locked, all others are first released."""
    late: _Lock | None = None
    while True:
        if late is not None:
            late.acquire()
            _taken.append(late)
        for lock in [lock for lock in _held if lock is not late]:
            if not lock.acquire(timeout=_LOCK_WAIT_S):
                late = lock
                break
            _taken.append(lock)
        else:
            return
        _release()


def _release() -> None:
    while _taken:
        _taken.pop().release()


def _wait_for_imports() -> None:
    """Wait until no other thread is importing a module, at most `_IMPORT_WAIT_S` seconds."""
    me, until = threading.get_ident(), time.monotonic() + _IMPORT_WAIT_S
    while _importing(me) and time.monotonic() < until:
        time.sleep(0.001)


def _importing(me: int) -> bool:
    """True if another thread holds the lock of a module; False if importlib has no such (private) table of locks."""
    locks = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    found = [reference() for reference in list(locks.values())]
    return any(getattr(lock, "owner", None) not in (None, me) for lock in found)


def _before() -> None:
    _wait_for_imports()
    _take_all()
    _wait_for_imports()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_release, after_in_child=_release)


def in_child(renew: _F) -> _F:
    """Register a function that every forked child calls first; returns the function."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return renew


def renewed_in_child(module: dict[str, Any], name: str) -> AbstractContextManager:
    """A new re-entrant lock, to be assigned to this name of a module, where a forked child puts a new one."""

    @in_child
    def lock() -> AbstractContextManager:
        module[name] = made = threading.RLock()
        return made

    return lock()
