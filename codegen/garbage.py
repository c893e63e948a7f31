"""The collector of cycles, while much is made that stays.

It looks at what is new again and again; while a graph is planned nearly all of that is still in use, so looking
takes half of the time of a large one and finds nothing.
"""

from __future__ import annotations

import gc

__all__ = ["Paused"]


class Paused:
    """No collection inside of `with`, which ends as it began; also where it is nested, and in several threads."""

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()
