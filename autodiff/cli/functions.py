"""`autodiff check` and `autodiff export`: the derivatives of one function, tried or written out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer

from codegen.ir import Aval

from .. import tree
from ..errors import Error
from ..exporting import export as exported
from ..testing import CheckFailed, check_gradients
from .app import AsJson, reported, say, user_errors
from .arguments import parse_argnums
from .targets import called

__all__ = ["check", "export"]

_TARGET = typer.Argument(help="FILE.py:FUNCTION.")


@reported
def check(
    target: str = _TARGET,
    args: str = typer.Option("", help="The arguments of the call: 'f64[5,3], f64[3], 0.5'."),
    argnums: str = typer.Option("", help="Arguments to differentiate: '0' or '0,2'; by default all float arrays."),
    order: int = typer.Option(2, min=1, help="The highest order of derivative to check."),
    low: float = typer.Option(0.1, help="The lowest random element."),
    high: float = typer.Option(1.1, help="The highest random element."),
    seed: int = typer.Option(0, help="The seed of the random elements."),
    as_json: bool = AsJson,
) -> None:
    """Check the derivatives of a function against differences, at a random point, in both modes."""
    if not low < high:
        raise typer.BadParameter(f"--low {low} is not below --high {high}")
    path, function, given = called(target, args)
    numbers = parse_argnums(argnums, len(given)) if argnums else None
    rng = np.random.default_rng(seed)
    point = tree.map(lambda x: _random(x, rng, low, high), given)
    failed = ""
    try:
        with user_errors(path):
            check_gradients(function, *point, order=order, argnums=numbers)
    except CheckFailed as error:
        failed = str(error)
    if as_json:
        say({"target": target, "order": order, "ok": not failed, "message": failed}, "", as_json)
    elif not failed:
        say({}, f"{target}: derivatives up to order {order} agree with differences, in both modes", as_json)
    if failed:
        raise Error(failed)


def _random(x: Any, rng: np.random.Generator, low: float, high: float) -> Any:
    """An array for an aval (or for the zeros that stand for one in a structured value)."""
    if not isinstance(x, (Aval, np.ndarray)):
        return x
    if x.dtype.kind == "c":
        real, imaginary = rng.uniform(low, high, (2, *x.shape))
        return (real + 1j * imaginary).astype(x.dtype)
    if x.dtype.kind == "f":
        return rng.uniform(low, high, x.shape).astype(x.dtype)
    return rng.integers(0, 2, x.shape).astype(x.dtype)


@reported
def export(
    target: str = _TARGET,
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
    if not out and ":" in target:
        raise typer.BadParameter("say where to: -o FOLDER")
    path, function, given = called(target, args, sized=True)
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
