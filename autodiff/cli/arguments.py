"""`--args 'f64[256,10], {"w": f32[3]}, 0.5, Diagonal(f64[10])'`: what a function is to be called with."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import typer

from codegen.ir import DTYPES, Aval

from .. import tree
from ..errors import Error
from ..tensor import AbstractTensor

__all__ = ["arguments_for", "parse_argnums", "parse_arguments"]

#: The ways to write arguments, for messages.
GRAMMAR = """\
  write, with commas between arguments:
    f64[3,4]  i64[8]  bool[]              an array of a dtype and shape
    f64[batch,4]  f64[4 * batch]          one of any size (for autodiff export): the same name is the same number
    Diagonal[3]  Symmetric[f32,4]         a structured value of extents, float64 if no dtype is said
    0.5  3  True  "text"  None            a Python literal
    [f64[3], 1]  {"w": f64[3,4]}          lists, tuples and dicts of them
    data  params["w"]  Params(w=f64[3])   what the file names: an array, an entry, a class or function to call"""

_EMPTY = re.compile(rf"\b({'|'.join(DTYPES)})\[\s*\]")


def parse_arguments(text: str, names: Mapping[str, Any] | None = None, *, sized: bool = False) -> tuple:
    """Read `f64[256,10], {"w": f32[3]}, 0.5`: avals and Python literals, in any nesting.

    names   what may be called or given, such as `Diagonal(f64[10])`, `Diagonal[10]`, `data`: by default nothing
    sized   arrays may be of any size: `f64[batch,3]` stays a text

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
        return tuple([_value(part, names or {}, sized) for part in parsed.elts])
    except (SyntaxError, ValueError, TypeError) as error:
        what = "cannot be read" if isinstance(error, SyntaxError) else str(error)
        raise typer.BadParameter(f"--args {text!r}: {what}\n{GRAMMAR}") from None


def arguments_for(function: Any, text: str, names: Mapping[str, Any], *, sized: bool = False) -> tuple:
    """The arguments that `parse_arguments` reads.  Raises Error where the function does not take as many."""
    given = parse_arguments(text, names, sized=sized)
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
            f"{GRAMMAR}"
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


def _value(node: ast.expr, names: Mapping[str, Any], sized: bool = False) -> Any:
    match node:
        case ast.Subscript(value=ast.Name(id=dtype)) if dtype in DTYPES and _has_names(node.slice):
            if not sized:
                raise ValueError(f"{ast.unparse(node)!r} has no known extents, which only an exported program may have")
            return ast.unparse(node)
        case ast.Subscript(value=ast.Name(id=dtype)) if dtype in DTYPES:
            return _aval(dtype, ast.literal_eval(node.slice))
        case ast.Tuple():
            return tuple([_value(part, names, sized) for part in node.elts])
        case ast.List():
            return [_value(part, names, sized) for part in node.elts]
        case ast.Dict():
            return {
                ast.literal_eval(key): _value(value, names, sized)
                for key, value in zip(node.keys, node.values, strict=True)
                if key is not None
            }
        case ast.Call(func=ast.Name(id=name)):
            return _made(name, node, names)
        case ast.Subscript(value=ast.Name(id=name)) if isinstance(kind := names.get(name), type):
            return _structured(kind, node.slice)
        case ast.Subscript(value=inner) if not (isinstance(inner, ast.Name) and inner.id not in names):
            return _value(inner, names)[ast.literal_eval(node.slice)]
        case ast.Name(id=name) if name in names and _is_data(names[name]):
            return names[name]
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)) if name not in DTYPES:
            raise ValueError(f"{name!r} is neither a literal nor one of {', '.join(DTYPES)}")
    try:
        return ast.literal_eval(node)
    except ValueError:  # its message has an address in it
        raise ValueError(f"{ast.unparse(node)!r} is no literal") from None


def _has_names(node: ast.expr) -> bool:
    return any([isinstance(part, ast.Name) for part in ast.walk(node)])


def _is_data(x: Any) -> bool:
    return not callable(x) and not isinstance(x, ModuleType)


def _structured(kind: Any, extents: ast.expr) -> Any:
    """A structured value of zeros: Diagonal[3], Symmetric[f32,4], Fill[3,4]."""
    parts = extents.elts if isinstance(extents, ast.Tuple) else [extents]
    dtype = DTYPES["f64"]
    if isinstance(parts[0], ast.Name) and parts[0].id in DTYPES:
        dtype, parts = DTYPES[parts[0].id], parts[1:]
    shape = tuple([ast.literal_eval(part) for part in parts])
    if not issubclass(kind, AbstractTensor) or not shape or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{kind.__name__}[...] is no structured type with extents")
    number = np.zeros((), dtype)[()]
    made: dict[str, Callable[[], Any]] = {
        "Diagonal": lambda: kind(np.zeros(shape, dtype)),
        "Fill": lambda: kind(number, shape),
        "UniformScaling": lambda: kind(number, shape[-1]),
        "Permutation": lambda: kind(np.arange(shape[-1])),
        "OneHot": lambda: kind(np.zeros(shape[:-1], np.int64), shape[-1]),
    }
    return made.get(kind.__name__, lambda: kind(np.zeros(shape if len(shape) > 1 else shape * 2, dtype)))()


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
