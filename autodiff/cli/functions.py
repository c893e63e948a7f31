"""Commands on functions and scripts.

    check, export      check the derivatives of one function; write its value and gradient as files for C
    explain, profile   run a script, and report why programs were compiled anew; report where its time went
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer

from codegen.ir import Aval

from .. import tree
from ..api import cache_info, clear_cache
from ..errors import Error
from ..exporting import export as exported
from ..profiling import profile as taken
from ..tape.misses import explain as explained
from ..tape.misses import forget
from ..testing import CheckFailed, check_gradients
from .app import AsJson, say, user_errors
from .targets import is_file, parse_argnums, parse_call, run_script

_TARGET = typer.Argument(help="FILE.py:FUNCTION.")


def check(
    target: str = _TARGET,
    args: str = typer.Option("", help="The arguments of the call: 'f64[5,3], f64[3], 0.5'."),
    argnums: str = typer.Option("", help="Arguments to differentiate: '0' or '0,2'; by default all float arrays."),
    order: int = typer.Option(2, min=1, help="The highest order of derivative to check."),
    low: float = typer.Option(0.1, help="The lowest random element."),
    high: float = typer.Option(1.1, help="The highest random element."),
    seed: int = typer.Option(0, min=0, help="The seed of the random elements."),
    as_json: bool = AsJson,
) -> None:
    """Check the derivatives of a function against differences, at a random point, in both modes."""
    if not 0 < high - low < np.inf:
        raise typer.BadParameter(f"--low {low} is not below --high {high}, by a number")
    path, function, given = parse_call(target, args)
    numbers = parse_argnums(argnums, len(given)) if argnums else None
    rng = np.random.default_rng(seed)
    point = tree.map(lambda x: _random(x, rng, low, high), given)
    failed = ""
    try:
        with user_errors(path):
            check_gradients(function, *point, order=order, argnums=numbers)
    except CheckFailed as error:
        failed = str(error)
    if as_json or not failed:
        agree = f"{target}: derivatives up to order {order} agree with differences, in both modes"
        say({"target": target, "order": order, "ok": not failed, "message": failed}, agree, as_json)
    if failed:
        raise Error(failed)


def _random(x: Any, rng: np.random.Generator, low: float, high: float) -> Any:
    """A random array in place of an aval, or of the zeros that stand for one in a structured value."""
    if not isinstance(x, (Aval, np.ndarray)):
        return x
    if x.dtype.kind == "c":
        real, imaginary = rng.uniform(low, high, (2, *x.shape))
        return (real + 1j * imaginary).astype(x.dtype)
    if x.dtype.kind == "f":
        return rng.uniform(low, high, x.shape).astype(x.dtype)
    return rng.integers(0, 2, x.shape).astype(x.dtype)


def export(
    target: str = _TARGET,
    args: str = typer.Option(
        "", help="The arguments of the call: 'f64[256,10], 0.5, {\"w\": f32[3]}'; 'f64[batch,10]' for any batch."
    ),
    out: str = typer.Option("", "-o", "--out", help="The folder to write to; created if it does not exist."),
    name: str = typer.Option("", help="The name of the C function; by default that of the function."),
    argnums: str = typer.Option("0", help="Arguments to differentiate: '0' or '0,2'."),
    gradient: bool = typer.Option(True, "--gradient/--no-gradient", help="The gradient too, or the results alone."),
    as_json: bool = AsJson,
) -> None:
    """Write a function's value and gradient as an object file, LLVM IR, MLIR and a C header, which need no Python."""
    if not out and ":" in target:
        raise typer.BadParameter("name a folder to write to: -o FOLDER")
    path, function, given = parse_call(target, args, sized=True)
    numbers = parse_argnums(argnums, len(given)) if gradient or argnums != "0" else (0,)
    with user_errors(path):
        made = exported(
            function, *given, out=Path(out), name=name or None, gradient=gradient,
            argnums=numbers if "," in argnums else numbers[0],
        )  # fmt: skip
    data = {
        "target": target,
        "name": made.name,
        "files": [str(file) for file in made.files],
        "sizes": list(made.sizes),
        **{what: [{"name": v.name, "python": v.label, "aval": str(v.aval)} for v in getattr(made, what)]
           for what in ("arguments", "results")},
        "workspace_bytes": made.workspace_bytes,
        "calls": list(made.calls),
    }
    say(data, "\n".join([*map(str, made.files), str(made).strip("<>")]), as_json)


_SCRIPT = typer.Argument(help="FILE.py, run as by `python FILE.py`.")
_ARGUMENTS = typer.Argument(None, help="The arguments of the script, for its sys.argv.", show_default=False)


def explain(file: str = _SCRIPT, arguments: list[str] = _ARGUMENTS, as_json: bool = AsJson) -> None:
    """Run a script, and report why each of its programs was recorded or compiled anew, with its line."""
    clear_cache()
    forget()
    before = cache_info()
    run_script(file, arguments)
    after, found = cache_info(), explained()
    counts = {name: getattr(after, name) - getattr(before, name) for name in ("hits", "misses", "compiles")}
    hits, misses, compiles = [{1: "once", 2: "twice"}.get(n, f"{n} times") for n in counts.values()]
    told = f"programs found {hits}, new {misses}, compiled {compiles}"
    say({"target": file, **counts, "explained": [miss._asdict() for miss in found]}, f"{found}\n{told}", as_json)


def profile(
    file: str = _SCRIPT,
    arguments: list[str] = _ARGUMENTS,
    trace: str = typer.Option("", help="Write a trace here (JSON), for speedscope.app, Perfetto or chrome://tracing."),
    roofline: str = typer.Option("", help="Draw a roofline here (.png, .svg, .pdf); needs autodiff[viz]."),
    top: int = typer.Option(12, min=1, help="Rows of each table."),
    as_json: bool = AsJson,
) -> None:
    """Run a script, and report where its time went: by phase, kernel, line and rule, beside this machine's limits."""
    is_file(file)
    for path in filter(None, (trace, roofline)):
        if not Path(path).absolute().parent.is_dir():
            raise typer.BadParameter(f"there is no folder {Path(path).parent}")
    with taken() as seen:
        run_script(file, arguments)
    if trace:
        seen.save_trace(trace)
    if roofline:
        seen.save_roofline(roofline)
    say({"target": file, **seen.data()}, seen.text(top), as_json)
