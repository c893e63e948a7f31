"""Locks over a fork.

A forked child has none of the other threads of its parent.  A lock that one of them held stays taken for ever in
the child, with what it guards half done.  So the thread that forks takes these locks first: it waits
until others are done, and the child finds everything whole.  Where it is whole at any time the child
makes itself another lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

__all__ = ["held_over_fork", "in_child", "renewed_in_child"]


class _Lock(Protocol):
    def acquire(self) -> object: ...
    def release(self) -> object: ...


_L = TypeVar("_L", bound=_Lock)
_F = TypeVar("_F", bound=Callable[[], object])


def held_over_fork(lock: _L) -> _L:
    """The lock itself, which every fork waits for from now on, for as long as the process lives.

    A lock that is taken while another one is held is given here before that other one.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


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
