"""Locks over a fork.

A forked child has none of the other threads of its parent.  A lock that one of them held stays taken for ever in
the child, with what it guards half done.  So the thread that forks takes these locks first: it waits
until others are done, and the child finds everything whole.  Where it is whole at any time the child
makes itself another lock.

A module that another thread imports has such a lock too, which is Python's: the fork waits until it is there.
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

#: The time that a fork waits for one lock while it holds others, whose owner may wait for these, in seconds.
_PATIENCE = 0.02

#: The time that it waits for imports.  One that waits for a lock that is held here never ends.
_IMPORTS = 5.0

_held: list[_Lock] = []

#: The locks that a fork has taken.
_taken: list[_Lock] = []


def held_over_fork(lock: _L) -> _L:
    """The lock itself, which every fork waits for from now on, for as long as the process lives."""
    _held.append(lock)
    return lock


def _take_all() -> None:
    """Take every lock.  In no order: what cannot be had soon is waited for with empty hands."""
    late: _Lock | None = None
    while True:
        if late is not None:
            late.acquire()
            _taken.append(late)
        for lock in [lock for lock in _held if lock is not late]:
            if not lock.acquire(timeout=_PATIENCE):
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
    """Wait until no other thread imports anything."""
    me, until = threading.get_ident(), time.monotonic() + _IMPORTS
    while _importing(me) and time.monotonic() < until:
        time.sleep(0.001)


def _importing(me: int) -> bool:
    """True if another thread holds the lock of a module.  They are private to importlib: without them nobody does."""
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
    """The function itself, which every forked child calls first."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return renew


def renewed_in_child(module: dict[str, Any], name: str) -> AbstractContextManager:
    """A re-entrant lock that a module has by this name; a forked child gets another one."""

    @in_child
    def lock() -> AbstractContextManager:
        module[name] = made = threading.RLock()
        return made

    return lock()
