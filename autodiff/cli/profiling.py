"""`autodiff profile`: the time of a script, by phase, kernel, line and rule."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import typer

from ..errors import Error
from ..profiling import profile as taken
from .app import AsJson, reported, say, user_errors
from .targets import beside, is_file

__all__ = ["profile"]

_ARGUMENTS = typer.Argument(None, help="What the script finds in sys.argv.", show_default=False)


@reported
def profile(
    file: str = typer.Argument(help="FILE.py, which is run as `python FILE.py` would."),
    arguments: list[str] = _ARGUMENTS,
    trace: str = typer.Option("", help="Write a trace here (JSON), for speedscope.app, Perfetto or chrome://tracing."),
    roofline: str = typer.Option("", help="Draw a roofline here (.png, .svg, .pdf); needs autodiff[viz]."),
    top: int = typer.Option(12, min=1, help="Rows of each table."),
    as_json: bool = AsJson,
) -> None:
    """Run a script, and say where its time went: by phase, kernel, line and rule, beside this machine's limits."""
    is_file(file)
    for path in filter(None, (trace, roofline)):
        if not Path(path).absolute().parent.is_dir():
            raise typer.BadParameter(f"there is no folder {Path(path).parent}")
    argv, sys.argv = sys.argv, [file, *(arguments or [])]
    seen = taken()
    try:
        with seen, beside(Path(file)), user_errors(file):
            runpy.run_path(file, run_name="__main__")
    finally:
        sys.argv = argv
    if trace:
        seen.save_trace(trace)
    if roofline:
        try:
            seen.save_roofline(roofline)
        except ValueError as error:
            raise Error(f"--roofline {roofline}: {error}") from None
    data = seen.data() if as_json else {}
    say({"target": file, **data}, "" if as_json else seen.text(top), as_json)
