"""The command line: `autodiff`, also `python -m autodiff`.

    demo      train a classifier on real handwriting, and what was compiled for it
    inspect   every stage of a function, or the graphs that a script compiled
    explain   why the programs of a script were recorded or compiled anew
    profile   the time of a script, by phase, kernel, line and rule
    export    a function's value and gradient as an object file, with a C header
    rules     the methods and rules of a generic function
    check     whether the derivatives of a function are right
    cache     the machine code that is kept on disk
    bench     the benchmarks of a checkout
    doctor    what this installation can do

`autodiff --version` prints the version.  Every command takes --json.  Text goes to stdout and is the same in every
run; what is wrong goes to stderr as one message, with an exit code that is not zero (2 for a command line that makes no
sense).
"""

from __future__ import annotations

import sys

from .app import app
from .benching import bench
from .checking import check
from .doctor import doctor
from .explaining import explain
from .exporting import export
from .inspecting import inspect_
from .profiling import profile
from .rules import rules
from .running import cache, demo

__all__ = ["app", "main"]

# The order in which help lists them.
for _command in (demo, inspect_, explain, profile, export, rules, check, cache, bench, doctor):
    app.command(_command.__name__.rstrip("_"))(_command)


def main() -> None:
    """Entry of the console command."""
    sys.exit(app())
