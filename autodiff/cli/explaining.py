"""`autodiff explain`: why the programs of a script were recorded or compiled anew."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import typer

from ..api import cache_info, clear_cache
from ..tape.misses import explain as explained
from ..tape.misses import forget
from .app import AsJson, reported, say, user_errors
from .targets import beside, is_file

__all__ = ["explain"]

_ARGUMENTS = typer.Argument(None, help="What the script finds in sys.argv.", show_default=False)


@reported
def explain(
    file: str = typer.Argument(help="FILE.py, which is run as `python FILE.py` would."),
    arguments: list[str] = _ARGUMENTS,
    as_json: bool = AsJson,
) -> None:
    """Run a script, and say why each of its programs was recorded or compiled anew, with its line."""
    is_file(file)
    clear_cache()
    forget()
    argv, sys.argv = sys.argv, [file, *(arguments or [])]
    before = cache_info()
    try:
        with beside(Path(file)), user_errors(file):
            runpy.run_path(file, run_name="__main__")
    finally:
        sys.argv = argv
    after, found = cache_info(), explained()
    counts = {
        "hits": after.hits - before.hits,
        "misses": after.misses - before.misses,
        "compiles": after.compiles - before.compiles,
    }
    hits, misses, compiles = map(_times, counts.values())
    told = f"programs found {hits}, new {misses}, compiled {compiles}"
    say({"target": file, **counts, "explained": [miss._asdict() for miss in found]}, f"{found}\n{told}", as_json)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
