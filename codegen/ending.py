"""The end of a process: what it holds outside of Python is left to the system; open files are written."""

from __future__ import annotations

import atexit
import gc
import io
from contextlib import suppress

#: True once this process ends.
has_ended = [False]


@atexit.register
def _end() -> None:
    has_ended[0] = True


def write_files_at_the_end() -> None:
    """Have files that are still open when this process ends write their buffers then.

    Objects that machine code holds never go.  A rule that it calls holds the names of the script that has it, and these
    a file that was left open: Python would forget it, with its last lines.
    """
    atexit.register(_write_files)


def _write_files() -> None:
    for found in gc.get_objects():
        if issubclass(type(found), io.TextIOWrapper | io.BufferedWriter | io.BufferedRandom):
            with suppress(Exception):  # closed, or on a full disk: nobody is there to be told
                found.flush()
