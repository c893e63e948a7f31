"""The command line: `autodiff`, also `python -m autodiff`.

Every command takes --json.  Text goes to stdout and is the same in every run.  An error goes to stderr as one message,
with an exit code that is not zero (2 for a wrong command line).
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress

from ..config import config
from .app import app, reported
from .functions import check, explain, export, profile
from .inspecting import inspect_
from .rules import rules
from .running import bench, cache, demo, doctor

__all__ = ["app", "main"]

# `--help` lists the commands in this order.
for _command in (demo, inspect_, explain, profile, export, rules, check, cache, bench, doctor):
    app.command(_command.__name__.rstrip("_"))(reported(_command))


def main() -> None:
    """The entry of the console command.  It reports unexpected exceptions as one message, too."""
    if sys.stdout is None:
        sys.exit("Error: standard output is closed")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except Exception as error:
        if config.full_tracebacks:
            raise
        _tell(error)
        with suppress(OSError):  # or Python writes the rest of its buffer when it exits, and reports that this fails
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


def _tell(error: Exception) -> None:
    """Report an error on stderr.  A closed pipe, as in `autodiff rules exp | head -1`, is not reported."""
    if isinstance(error, OSError):
        if error.errno == errno.EPIPE:
            return
        told = f"Error: {error.filename or 'cannot write to standard output'}: {error.strerror}"
    elif isinstance(error, MemoryError) or str(error).startswith("AUTODIFF_"):  # a variable of the environment
        told = f"Error: {error}"
    else:
        told = (f"{type(error).__name__}: {error}\n  this is a fault of autodiff's: "
                "with AUTODIFF_FULL_TRACEBACKS=1 it says where, for a report")  # fmt: skip
    print(told, file=sys.stderr)
