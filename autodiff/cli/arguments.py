"""`--args 'f64[256,10], {"w": f32[3]}, 0.5, Diagonal(f64[10])'`: what a function is to be called with."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import typer

from codegen.ir import DTYPES, Aval

from .. import tree
from ..errors import Error

__all__ = ["arguments_for", "parse_argnums", "parse_arguments"]

_EMPTY = re.compile(rf"\b({'|'.join(DTYPES)})\[\s*\]")


def parse_arguments(text: str, names: Mapping[str, Any] | None = None) -> tuple:
    """Read `f64[256,10], {"w": f32[3]}, 0.5`: avals and Python literals, in any nesting.

    names   what may be called, such as `Diagonal(f64[10])`: by default nothing

    Raises typer.BadParameter saying what cannot be read.

    >>> parse_arguments("f64[2,3], (1, f32[])")
    (f64[2,3], (1, f32[]))
    """
    if not text.strip():
        return ()
    spelled = _EMPTY.sub(r"\1[()]", text)
    try:
        parsed = ast.parse(f"({spelled},)", mode="eval").body
        if not isinstance(parsed, ast.Tuple):
            raise ValueError("a comma or a bracket is missing")
        return tuple([_value(part, names or {}) for part in parsed.elts])
    except (SyntaxError, ValueError, TypeError) as error:
        what = "cannot be read" if isinstance(error, SyntaxError) else str(error)
        raise typer.BadParameter(f"--args {text!r}: {what}\n  write avals as f64[3,4], and Python literals") from None


def arguments_for(function: Any, text: str, names: Mapping[str, Any]) -> tuple:
    """The arguments that `parse_arguments` reads.  Raises Error where the function does not take as many."""
    given = parse_arguments(text, names)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return given
    try:
        signature.bind(*given)
    except TypeError as error:
        name = getattr(function, "__name__", "the function")
        raise Error(
            f"--args has {len(given)} for {name}{signature}: {error}\n"
            "  write shapes and numbers: --args 'f64[256,10], f64[10], 0.5'"
        ) from None
    return given


def parse_argnums(text: str, count: int) -> tuple[int, ...]:
    """Read `0` or `0,2`, for a call with `count` arguments.

    >>> parse_argnums("0, -1", 3)
    (0, -1)
    """
    try:
        numbers = tuple([int(part) for part in text.split(",")])
    except ValueError:
        raise typer.BadParameter(f"--argnums takes numbers such as 0 or 0,2, not {text!r}") from None
    if any(not -count <= n < count for n in numbers):
        raise typer.BadParameter(f"--argnums {text}, but --args gives {count} arguments")
    if len({n % count for n in numbers}) != len(numbers):
        raise typer.BadParameter(f"--argnums {text} names an argument twice")
    return numbers


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Subscript(value=ast.Name(id=dtype)) if dtype in DTYPES:
            return _aval(dtype, ast.literal_eval(node.slice))
        case ast.Tuple():
            return tuple([_value(part, names) for part in node.elts])
        case ast.List():
            return [_value(part, names) for part in node.elts]
        case ast.Dict():
            return {
                ast.literal_eval(key): _value(value, names)
                for key, value in zip(node.keys, node.values, strict=True)
                if key is not None
            }
        case ast.Call(func=ast.Name(id=name)):
            return _made(name, node, names)
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)) if name not in DTYPES:
            raise ValueError(f"{name!r} is neither a literal nor one of {', '.join(DTYPES)}")
    try:
        return ast.literal_eval(node)
    except ValueError:  # its message has an address in it
        raise ValueError(f"{ast.unparse(node)!r} is no literal") from None


def _aval(dtype: str, extents: Any) -> Aval:
    shape = extents if isinstance(extents, tuple) else (extents,)
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"the extents of {dtype}[...] are numbers that are not negative, not {extents!r}")
    return Aval(shape, DTYPES[dtype])


def _made(name: str, call: ast.Call, names: Mapping[str, Any]) -> Any:
    """A structured value: its constructor is called with arrays of zeros, which stand for their avals."""
    if not callable(names.get(name)):
        raise ValueError(f"there is no {name!r} to call, in the file or in autodiff")
    given = [_value(part, names) for part in call.args]
    named = {k.arg: _value(k.value, names) for k in call.keywords if k.arg is not None}
    args, kwargs = tree.map(lambda x: np.zeros(x.shape, x.dtype) if isinstance(x, Aval) else x, (given, named))
    return names[name](*args, **kwargs)
