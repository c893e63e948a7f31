"""`autodiff rules`: the methods of a generic function, its rules, and the calls without a method or rule.

The place of a method is printed so that it is the same on every machine: for a file of this library or another package
the path from the package on, for a file in the current folder the path relative to it, else the file's name alone.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import typer

from codegen.ir import Aval

from .. import tree
from ..api import asarray
from ..dispatch import Unreachable, all_functions, ambiguities, coverage, methods, which, which_backward
from ..errors import Error
from ..tape.lines import rule_code
from .app import AsJson, say, user_errors
from .targets import find, is_generic, names_for, parse_arguments


def rules(
    name: str = typer.Argument(
        "", help="A function of this library (matmul, linalg.solve), or FILE.py:FUNCTION; without one, all ambiguities."
    ),
    args: str = typer.Option("", help="Say which method and which rule would run for these: 'f64[3,3], f64[3]'."),
    as_json: bool = AsJson,
) -> None:
    """List the methods and rules of a generic function, with file and line, and the gaps in them."""
    if not name:
        if args:
            raise typer.BadParameter("--args are those of a function, which has to be named")
        every = [m for f in all_functions() for m in _methods(f)]
        found = [located(str(a), every) for a in ambiguities()]
        say({"ambiguities": found}, "\n".join(found) or "no two methods are ambiguous", as_json)
        return
    path, function, names = _generic(name)
    if args:
        with user_errors(path):
            chosen = _chosen(function, parse_arguments(args, names))
        method, rule = [x and located(str(x), [*_methods(function), x.method]) for x in chosen]
        text = f"{method}\nbackward: {rule or 'its own derivative'}"
        say({"method": method, "backward": rule}, text, as_json)
        return
    listed: dict[str, list[str]] = {"methods": [repr(m) for m in methods(function)]}
    listed |= {kind: [repr(r) for r in table] for kind, table in function.rules.items()}
    listed["derivative"] = _derivative(function)
    left_open = coverage(function)
    listed["never chosen"] = [str(c) for c in left_open if isinstance(c, Unreachable)]
    listed["without a rule"] = [str(c) for c in left_open if not isinstance(c, Unreachable)]
    listed["ambiguous"] = [str(a) for a in ambiguities(function)]
    written = _methods(function)
    listed = {kind: [located(row, written) for row in rows] for kind, rows in listed.items()}
    lines = [function.__name__]
    for kind, rows in listed.items():
        lines += [f"{kind}:", *[f"  {row}" for row in rows]] if rows else []
    say({"function": function.__name__, **listed}, "\n".join(lines), as_json)


def _methods(function: Any) -> list[Any]:
    """All methods and rules that were registered with a function."""
    found = [*function.table, *[rule for table in function.rules.values() for rule in table]]
    return found + [rule for method in found for rule in method.rules.values()]


def _generic(name: str) -> tuple[str, Any, dict[str, Any]]:
    """(file, function, names that --args may use).  Raises Error if `name` is no generic function."""
    import autodiff

    path, _, attribute = name.rpartition(":")
    module, function = find(path, attribute) if path else (autodiff, _of_library().get(name))
    if not is_generic(function):
        way_out = f"give a name such as {_closest(name)}, or FILE.py:FUNCTION"
        if path:
            way_out = "a function with methods and rules is declared by @ad.function"
        raise Error(f"{name!r} is no generic function: {way_out}")
    return path, function, names_for(module)


def _of_library() -> dict[str, Any]:
    """The generic functions of this library, by their public names: "matmul", "linalg.solve"."""
    import autodiff

    inside = ("linalg", "special", "random", "fft")
    spaces = {"": autodiff, **{f"{name}.": getattr(autodiff, name) for name in inside}}
    found = {f"{prefix}{name}": getattr(space, name) for prefix, space in spaces.items() for name in space.__all__}
    return {name: value for name, value in found.items() if is_generic(value)}


def _closest(name: str) -> str:
    """The function of this library, in any namespace, whose name is most similar."""
    from difflib import get_close_matches  # imported late: only this message needs it

    known = {called.rpartition(".")[2]: called for called in reversed(_of_library())}
    return known[next(iter(get_close_matches(name.rpartition(".")[2], known, n=1)), "matmul")]


def _derivative(function: Any) -> list[str]:
    """The derivative rules of a function's operation, by mode, with the lines where they are written."""
    primitive = getattr(function, "primitive", None)
    if primitive is None:
        return []
    modes = (("reverse", primitive.pull, "backward"), ("forward", primitive.push, "jvp"))
    places = [(mode, placed(rule_code(primitive, kind))) for mode, rule, kind in modes if rule]
    return [f"of operation {primitive.name}: {mode} mode{f'  {place}' if place else ''}" for mode, place in places]


def _chosen(function: Any, given: tuple) -> tuple[Any, Any]:
    """The method and the backward rule for these arguments; zeros stand for avals."""
    standing = tree.map(lambda x: asarray(np.zeros(x.shape, x.dtype)) if isinstance(x, Aval) else x, given)
    return which(function, *standing), which_backward(function, *standing)


# ---------------------------------------------------------------- places


def located(text: str, methods: Iterable[Any]) -> str:
    """The text with the places of these methods written with their folders."""
    written = [(m.place, inspect.unwrap(m.implementation)) for m in methods]
    found = [(p, placed(getattr(f, "__code__", None), getattr(f, "__module__", None))) for p, f in written]
    places = {place: full for place, full in found if full is not None}
    if not places:
        return text
    pattern = "|".join(map(re.escape, sorted(places)))
    return re.sub(rf"(?<![\w./\\])({pattern})(?!\d)", lambda found: places[found[0]], text)


def placed(code: CodeType | None, module: str | None = None) -> str | None:
    """`folder/file.py:12` for a function's code; None if the folder is not known."""
    if code is None:
        return None
    file = Path(code.co_filename).absolute()
    packages = [sys.modules.get((name or "").partition(".")[0]) for name in ("autodiff", module)]
    ours, theirs = ([Path(path).parent for path in getattr(package, "__path__", ())][:1] for package in packages)
    for root in (*ours, Path.cwd(), *theirs):
        if file.is_relative_to(root):
            return f"{file.relative_to(root).as_posix()}:{code.co_firstlineno}"
    return None
