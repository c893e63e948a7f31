"""The end of the process: `has_ended` tells that memory outside Python need not be freed; open files are flushed."""

from __future__ import annotations

import atexit
import gc
import io
from contextlib import suppress

#: [True] from the time when the process begins to end.
has_ended = [False]


@atexit.register
def _end() -> None:
    has_ended[0] = True


def write_files_at_the_end() -> None:
    """Flush, at the end of the process, the buffers of files that are still open then.

    Python never finalises objects that machine code holds.  A user's rule that it calls holds the globals of its
    script, and so a file left open there: without this function its last lines would be lost.
    """
    atexit.register(_write_files)


def _write_files() -> None:
    for found in gc.get_objects():
        if issubclass(type(found), io.TextIOWrapper | io.BufferedWriter | io.BufferedRandom):
            with suppress(Exception):  # the file is closed, or the disk is full: nothing can handle an error now
                found.flush()
