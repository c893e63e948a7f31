"""The collector of cycles, while much is made that stays.

It looks at what is new again and again; while a graph is planned nearly all of that is still in use, so looking
takes half of the time of a large one and finds nothing.
"""

from __future__ import annotations

import atexit
import gc

from . import aside

__all__ = ["Lasting", "Paused", "has_ended"]

#: Whether this process ends: then what it holds outside of Python is left to the system.
has_ended = [False]
atexit.register(has_ended.__setitem__, 0, True)


class Paused:
    """No collection inside of `with`, which ends as it began; also where it is nested, and in several threads."""

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()


class Lasting(Paused):
    """The same, where all that is made stays to the end: it is put `aside`, or at least counts as old at once.

    The next collection would look at each object of it (30,000 after the import of this library, 5 ms), to find that
    it is old now, and each that looks at all would again.
    """

    __slots__ = ("_begun",)

    def __enter__(self) -> None:
        super().__enter__()
        self._begun = aside.begin()

    def __exit__(self, *raised: object) -> None:
        # Freezing moves the objects of all ages to a list of its own, and thawing all of that list to the oldest:
        # no object is looked at.  What others made a moment ago grows old with it.  What somebody has frozen stays so.
        if (any(raised) or not aside.put_aside(self._begun)) and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        super().__exit__()
