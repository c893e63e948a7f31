"""`autodiff export`: a function's value and gradient as an object file, with a C header."""

from __future__ import annotations

from pathlib import Path

import typer

from ..exporting import export as exported
from .app import AsJson, reported, say, user_errors
from .arguments import arguments_for, parse_argnums
from .targets import find, names_for

__all__ = ["export"]


@reported
def export(
    target: str = typer.Argument(help="FILE.py:FUNCTION."),
    args: str = typer.Option(
        "", help="The arguments of the call: 'f64[256,10], 0.5, {\"w\": f32[3]}'; 'f64[batch,10]' for any batch."
    ),
    out: str = typer.Option("", "-o", "--out", help="The folder to write to, made where there is none."),
    name: str = typer.Option("", help="The name of the C function; by default that of the function."),
    argnums: str = typer.Option("0", help="Arguments to differentiate: '0' or '0,2'."),
    gradient: bool = typer.Option(True, "--gradient/--no-gradient", help="The gradient too, or the results alone."),
    as_json: bool = AsJson,
) -> None:
    """Write a function's value and gradient as an object file, LLVM IR, MLIR and a C header, which need no Python."""
    path, _, function_name = target.partition(":")
    if not function_name:
        raise typer.BadParameter("give FILE.py:FUNCTION")
    if not out:
        raise typer.BadParameter("say where to: -o FOLDER")
    module, function = find(path, function_name)
    with user_errors(path):
        given = arguments_for(function, args, names_for(module), sized=True)
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
        "arguments": [{"name": v.name, "python": v.label, "aval": str(v.aval)} for v in made.arguments],
        "results": [{"name": v.name, "python": v.label, "aval": str(v.aval)} for v in made.results],
        "workspace_bytes": made.workspace_bytes,
        "calls": list(made.calls),
    }
    say(data, "\n".join([*map(str, made.files), str(made).strip("<>")]), as_json)
