"""The machine code that reads recordings and puts nodes down (`codegen.runtime.recording_asks`), once it is set up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["BEFORE_ASKS", "WHEN_REPEATED", "asks", "go_on", "note_repeated", "use_asks"]

#: Functions to be called once a program has repeated, since repetition is worth being made faster; and those that are
#: called before the next ask therefore, until they say that all is done.
WHEN_REPEATED: list[Callable[[], bool]] = []
BEFORE_ASKS: list[Callable[[], bool]] = []

_asks: Any = None


def use_asks(recorder: Any) -> None:
    """Read recordings by machine code from now on; None: in Python."""
    global _asks
    _asks = None if recorder is None else recorder.asks


def note_repeated(is_so: bool = True) -> None:
    """A plan was found by its key, or more of what is new is expected, if it is so."""
    if is_so and WHEN_REPEATED:
        BEFORE_ASKS.extend(WHEN_REPEATED)
        WHEN_REPEATED.clear()


def go_on() -> None:
    """Call what waits for the next ask."""
    for step in list(BEFORE_ASKS):
        if step() and step in BEFORE_ASKS:
            BEFORE_ASKS.remove(step)


def asks() -> Any:
    """The machine code; None where there is none."""
    return _asks
