"""Locks over a fork.

A forked child has none of the other threads of its parent.  A lock that one of them held stays taken for ever in
the child, with what it guards half done.  So the thread that forks takes these locks first: it waits
until others are done, and the child finds everything whole.
"""

from __future__ import annotations

import os
from typing import Protocol, TypeVar

__all__ = ["held_over_fork"]


class _Lock(Protocol):
    def acquire(self) -> object: ...
    def release(self) -> object: ...


_L = TypeVar("_L", bound=_Lock)


def held_over_fork(lock: _L) -> _L:
    """The lock itself, which every fork waits for from now on, for as long as the process lives.

    A lock that is taken while another one is held is given here before that other one.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
