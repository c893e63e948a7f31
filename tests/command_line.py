"""The console command as its users have it, `python -m autodiff`, but in this process.

Most commands take less time than the start of another process would.
"""

from __future__ import annotations

import io
import runpy
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest.mock import patch


class Ended(NamedTuple):
    """A command that has ended; `output` is all that it wrote, in the order in which it did."""

    exit_code: int
    stdout: str
    stderr: str
    output: str


class _Stream(io.StringIO):
    """One stream, the text of which also goes to what all of them wrote."""

    def __init__(self, together: io.StringIO) -> None:
        super().__init__()
        self._together = together

    def write(self, text: str) -> int:
        self._together.write(text)
        return super().write(text)


def autodiff(*arguments: object) -> Ended:
    """Run `python -m autodiff ARGUMENTS`.  A fault that the command did not foresee is an error of the test."""
    together = io.StringIO()
    out, err = _Stream(together), _Stream(together)
    code: object = 0
    with ExitStack() as meanwhile:
        for change in (
            patch.object(sys, "argv", ["autodiff", *map(str, arguments)]), patch.object(sys, "stdin", io.StringIO()),
            redirect_stdout(out), redirect_stderr(err), patch("os.dup2"),  # which would close the tests' own output
        ):  # fmt: skip
            meanwhile.enter_context(change)
        try:
            runpy.run_module("autodiff", run_name="__main__")
        except SystemExit as end:
            code = end.code or 0
    assert type(code) is int, code
    assert "this is a fault of autodiff's" not in err.getvalue(), err.getvalue()
    return Ended(code, out.getvalue(), err.getvalue(), together.getvalue())
