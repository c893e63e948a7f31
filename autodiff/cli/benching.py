"""`autodiff bench`: the benchmarks of a checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

from ..errors import Error
from .app import AsJson, reported

__all__ = ["bench"]

#: An installed package has no benchmarks: they are programs of the repository.
PROGRAM = Path(__file__).parents[2] / "benchmarks" / "run.py"

_ROWS = typer.Argument(None, metavar="[ROW]...", help="By default all, which takes minutes.")


@reported
def bench(
    rows: list[str] = _ROWS,
    threads: int = typer.Option(None, min=1, help="By default as many as there are cores."),
    rounds: int = typer.Option(7, min=1, help="Of which the median counts."),
    full: bool = typer.Option(False, "--full", help="Rows that count do all that is asked: minutes more."),
    quiet: bool = typer.Option(False, "--quiet", help="Do not measure under load."),
    as_json: bool = AsJson,
) -> None:
    """Time programs beside NumPy, C, JAX, PyTorch and others.  In one run; a peer that is not there is left out."""
    if not PROGRAM.exists():
        raise Error(
            "the benchmarks are in benchmarks/ of a checkout, and this is an installed package\n"
            "  clone the repository and install it with pip install -e ."
        )
    options = ["--rounds", str(rounds)]
    options += ["--threads", str(threads)] if threads else []
    options += [*(["--full"] if full else []), *(["--quiet"] if quiet else []), *(["--json"] if as_json else [])]
    sys.stdout.flush()
    raise typer.Exit(subprocess.run([sys.executable, str(PROGRAM), *(rows or ()), *options]).returncode)
