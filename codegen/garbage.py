"""The collector of cycles, while much is made that stays.

It looks at what is new again and again; while a graph is planned nearly all of that is still in use, so looking
takes half of the time of a large one and finds nothing.
"""

from __future__ import annotations

import gc
from contextvars import ContextVar, Token, copy_context
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from .forks import in_child


class Paused:
    """No collection in any thread inside of `with`, also where pauses are nested or overlap.

        with Paused(), _lock:

    A finaliser that a collection runs may ask for any lock.  Where one is held meanwhile that the owner of the other
    waits for, both wait for ever.

    The thresholds are changed, not `gc.disable`: that belongs to the user, whose rules, hooks and other threads may
    turn the collector on or off, or keep `gc.isenabled()` for later, in the midst of a pause.  Thresholds that are
    set meanwhile hold from then on.
    """

    __slots__ = ("__weakref__",)

    def __enter__(self) -> None:
        global _usual
        _inside.add(ref(self))
        found = gc.get_threshold()
        if found[0] != _NEVER:  # never ours, so that no order of threads or interrupts makes a pause the usual
            _usual = found
            gc.set_threshold(_NEVER, *found[1:])

    def __exit__(self, *_: object) -> None:
        _inside.discard(ref(self))
        # Of a pause that an interrupt kept from ending only a reference without its object stays.
        if not _inside or not any([pause() for pause in tuple(_inside)]):
            _resume()


def _resume() -> None:
    if gc.get_threshold()[0] == _NEVER:
        gc.set_threshold(*_usual)


@in_child
def _resume_in_child() -> None:
    """End the pauses of the parent's other threads, which a fork does not take along."""
    _inside.clear()
    _resume()


class Lasting(Paused):
    """The same, where all that is made stays to the end: it counts as old at once.

    The next collection would look at each object of it (30,000 after the import of this library, 5 ms), to find that
    it is old now.  What others made a moment ago grows old with it, and goes with the next collection of all.

    Left frozen, nothing that a script's globals hold would ever go.
    """

    __slots__ = ()

    def __exit__(self, *_: object) -> None:
        # Freezing moves the objects of all ages to a list of its own, and thawing all of that list to the oldest:
        # no object is looked at.  What somebody has frozen stays as it is.
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        super().__exit__()


_T = TypeVar("_T")


def set_in_context(variable: ContextVar[_T], value: _T) -> Token[_T]:
    """`variable.set(value)`, where a finaliser may set a variable amid it.

    Before Python 3.12 a collection may come while the table of variables is being copied, and with it such a finaliser:
    the table would go, and the process crash.  A copy of the context, which shares the table, holds it.

    It is tried twice: a mode that stayed on because there was no memory to end it would change all that follows.
    """
    try:
        _held = copy_context()
        return variable.set(value)
    except MemoryError:
        return variable.set(value)


class ignoring(np.errstate):
    """`np.errstate(...)`, which is such a variable, set in the same way."""

    __slots__ = ()

    def __enter__(self) -> None:
        _held = copy_context()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        try:
            _held = copy_context()
        finally:  # where there is no memory, too
            super().__exit__(*raised)


#: A first threshold that nothing reaches.
_NEVER = 2**31 - 1
#: The thresholds outside of pauses.
_usual = gc.get_threshold()
_inside: set[ref[Paused]] = set()
