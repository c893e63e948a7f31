"""The machine code that reads recordings and puts nodes down (`codegen.runtime.recording_asks`), once it is set up.

    machine.asks    the machine code; None where there is none
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Functions to be called when repetition is worth being made faster, until they say that all is done.  A program that
#: NumPy evaluates again is no reason yet.
WHEN_REPEATED: list[Callable[[], bool]] = []

#: Read as an attribute of this module each time: it comes late, and may go.
asks: Any = None


def use_asks(recorder: Any) -> None:
    """Read recordings by machine code from now on; None: in Python."""
    global asks
    asks = recorder


def note_repeated() -> None:
    """A recorded program is compiled, long, or of several sizes, or more of what is new is expected."""
    for step in list(WHEN_REPEATED):
        if step() and step in WHEN_REPEATED:
            WHEN_REPEATED.remove(step)
