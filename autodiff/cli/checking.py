"""`autodiff check`: are the derivatives of a function right?"""

from __future__ import annotations

from typing import Any

import numpy as np
import typer

from codegen.ir import Aval

from .. import tree
from ..errors import Error
from ..testing import CheckFailed, check_gradients
from .app import AsJson, reported, say, user_errors
from .arguments import arguments_for, parse_argnums
from .targets import find, names_for

__all__ = ["check"]


@reported
def check(
    target: str = typer.Argument(help="FILE.py:FUNCTION."),
    args: str = typer.Option("", help="The arguments of the call: 'f64[5,3], f64[3], 0.5'."),
    argnums: str = typer.Option("", help="Arguments to differentiate: '0' or '0,2'; by default all float arrays."),
    order: int = typer.Option(2, min=1, help="The highest order of derivative to check."),
    low: float = typer.Option(0.1, help="The lowest random element."),
    high: float = typer.Option(1.1, help="The highest random element."),
    seed: int = typer.Option(0, help="The seed of the random elements."),
    as_json: bool = AsJson,
) -> None:
    """Check the derivatives of a function against differences, at a random point, in both modes."""

    path, _, name = target.partition(":")
    if not name:
        raise typer.BadParameter("give FILE.py:FUNCTION")
    if not low < high:
        raise typer.BadParameter(f"--low {low} is not below --high {high}")
    module, function = find(path, name)
    with user_errors(path):
        given = arguments_for(function, args, names_for(module))
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
