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

_ROWS = typer.Argument(None, metavar="[ROW]...", help="The rows to measure; all by default, which takes minutes.")


@reported
def bench(
    rows: list[str] = _ROWS,
    threads: int = typer.Option(None, min=1, help="The number of threads; by default that of the cores."),
    rounds: int = typer.Option(7, min=1, help="The number of rounds, whose median is reported."),
    full: bool = typer.Option(False, "--full", help="Measure the largest cases too: minutes more."),
    quiet: bool = typer.Option(False, "--quiet", help="Skip the measurements under CPU load."),
    as_json: bool = AsJson,
) -> None:
    """Time programs beside NumPy, C, JAX, PyTorch and others in one run; a peer that is not installed is left out."""
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
