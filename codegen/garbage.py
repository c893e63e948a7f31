"""Pauses of Python's garbage collector while many lasting objects are made.

The collector examines new objects again and again.  While a graph is planned nearly all new objects stay in use: for a
large graph, the collector would take half of the time of planning and free nothing.
"""

from __future__ import annotations

import gc
from contextvars import ContextVar, Token, copy_context
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from .forks import in_child


class Paused:
    """A context without garbage collections in any thread; pauses may be nested or overlap.

        with Paused(), _lock:

    A collection may run a finaliser that acquires any lock.  If the thread holds another lock meanwhile, for which
    the owner of the first one waits, both threads wait for ever: so a pause begins before a lock is acquired.

    A pause sets the thresholds and does not call `gc.disable`, which belongs to the user: rules, hooks and other
    threads may turn the collector on or off, or save `gc.isenabled()`, during a pause.  Thresholds that a user sets
    during a pause take effect at once and stay.
    """

    __slots__ = ("__weakref__",)

    def __enter__(self) -> None:
        global _usual
        _inside.add(ref(self))
        found = gc.get_threshold()
        if found[0] != _NEVER:  # never save the thresholds of a pause, in any order of threads or interrupts
            _usual = found
            gc.set_threshold(_NEVER, *found[1:])

    def __exit__(self, *_: object) -> None:
        _inside.discard(ref(self))
        # A pause that an interrupt kept from ending has left a dead reference, which does not count.
        if not _inside or not any([pause() for pause in tuple(_inside)]):
            _resume()


def _resume() -> None:
    if gc.get_threshold()[0] == _NEVER:
        gc.set_threshold(*_usual)


@in_child
def _resume_in_child() -> None:
    """End the pauses of the parent's other threads, which do not exist in the child."""
    _inside.clear()
    _resume()


class PausedForLastingObjects(Paused):
    """A pause in which all new objects last to the end of the process: its end moves them to the oldest generation.

    Otherwise the next collection would examine each new object (30,000 after the import of this library, 5 ms).
    Objects that other code made a moment ago are moved, too; the next full collection can free them.

    The objects are not left frozen: objects that a script's globals hold would then never be freed.
    """

    __slots__ = ()

    def __exit__(self, *_: object) -> None:
        # Freezing moves all objects to a separate list, and unfreezing moves that list to the oldest generation,
        # both without examining an object.  If the user has frozen objects, they are left as they are.
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        super().__exit__()


_T = TypeVar("_T")


def set_in_context(variable: ContextVar[_T], value: _T) -> Token[_T]:
    """`variable.set(value)`, safe against a finaliser that sets a context variable meanwhile.

    Before Python 3.12 a collection may run while the table of variables is copied.  A finaliser that sets a variable
    then frees the table, and the process crashes.  A copy of the context, which shares the table, keeps it alive.

    The call is repeated after a MemoryError: a mode that could not be ended would change all later results.
    """
    try:
        _held = copy_context()
        return variable.set(value)
    except MemoryError:
        return variable.set(value)


class ignoring(np.errstate):
    """`np.errstate(...)`, which sets a context variable, with the protection of `set_in_context`."""

    __slots__ = ()

    def __enter__(self) -> None:
        _held = copy_context()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        try:
            _held = copy_context()
        finally:  # also after a MemoryError
            super().__exit__(*raised)


#: A threshold for the youngest generation that is never reached.
_NEVER = 2**31 - 1
#: The thresholds that the end of the last pause restores.
_usual = gc.get_threshold()
_inside: set[ref[Paused]] = set()
