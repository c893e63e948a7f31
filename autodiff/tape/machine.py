"""The machine code that reads recordings, and records nodes (`codegen.runtime.recording_asks`), once it is set up.

    machine.asks    the machine code; None if there is none
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Functions to call when faster recording pays off; each is called until it returns True.  A second evaluation of a
#: program by NumPy is not yet a reason.
WHEN_REPEATED: list[Callable[[], bool]] = []

#: To be read as an attribute of this module each time, as it is set late, and may be reset.
asks: Any = None


def use_asks(recorder: Any) -> None:
    """Read recordings by this machine code from now on; None: read them in Python."""
    global asks
    asks = recorder


def note_repeated() -> None:
    """Call `WHEN_REPEATED`: a program was compiled or is long, or more new ones will come."""
    for step in list(WHEN_REPEATED):
        if step() and step in WHEN_REPEATED:
            WHEN_REPEATED.remove(step)
