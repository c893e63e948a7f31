"""`autodiff explain` and `autodiff profile`: a script is run, and what the library did for it is said."""

from __future__ import annotations

from pathlib import Path

import typer

from ..api import cache_info, clear_cache
from ..errors import Error
from ..profiling import profile as taken
from ..tape.misses import explain as explained
from ..tape.misses import forget
from .app import AsJson, reported, say
from .targets import is_file, run_script

__all__ = ["explain", "profile"]

_SCRIPT = typer.Argument(help="FILE.py, which is run as `python FILE.py` would.")
_ARGUMENTS = typer.Argument(None, help="What the script finds in sys.argv.", show_default=False)


@reported
def explain(file: str = _SCRIPT, arguments: list[str] = _ARGUMENTS, as_json: bool = AsJson) -> None:
    """Run a script, and say why each of its programs was recorded or compiled anew, with its line."""
    clear_cache()
    forget()
    before = cache_info()
    run_script(file, arguments)
    after, found = cache_info(), explained()
    counts = {name: getattr(after, name) - getattr(before, name) for name in ("hits", "misses", "compiles")}
    hits, misses, compiles = [{1: "once", 2: "twice"}.get(n, f"{n} times") for n in counts.values()]
    told = f"programs found {hits}, new {misses}, compiled {compiles}"
    say({"target": file, **counts, "explained": [miss._asdict() for miss in found]}, f"{found}\n{told}", as_json)


@reported
def profile(
    file: str = _SCRIPT,
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
    with taken() as seen:
        run_script(file, arguments)
    if trace:
        seen.save_trace(trace)
    if roofline:
        try:
            seen.save_roofline(roofline)
        except ValueError as error:
            raise Error(f"--roofline {roofline}: {error}") from None
    data = seen.data() if as_json else {}
    say({"target": file, **data}, "" if as_json else seen.text(top), as_json)
