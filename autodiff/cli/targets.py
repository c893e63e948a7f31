"""The function of a command and the arguments of its call: `FILE.py:FUNCTION --args 'f64[256,10], {"w": f32[3]}, 0.5'`.

The file is imported, so its `__main__` block does not run.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from inspect import signature
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import typer

from codegen.ir import DTYPES, Aval

from .. import tree
from ..errors import Error
from ..tensor import AbstractTensor
from .app import user_errors


def parse_call(target: str, args: str, *, sized: bool = False) -> tuple[str, Any, tuple]:
    """(file, function, arguments) of FILE.py:FUNCTION and --args.  Raises Error if the function does not take them."""
    path, _, name = target.partition(":")
    if not name:
        raise typer.BadParameter("give FILE.py:FUNCTION")
    module, function = find(path, name)
    with user_errors(path):
        given = parse_arguments(args, names_for(module), sized=sized)
    with suppress(TypeError, ValueError):  # some built-in functions have no known signature
        parameters = signature(function)
        try:
            parameters.bind(*given)
        except TypeError as error:
            name = getattr(function, "__name__", "the function")
            raise Error(f"--args has {len(given)} for {name}{parameters}: {error}\n{GRAMMAR}") from None
    return path, function, given


def run_script(path: str, arguments: Sequence[str] | None = None) -> None:
    """Run a file as `python FILE.py ARGUMENTS` would.  Raises Error for its exceptions: see `user_errors`."""
    is_file(path)
    before, sys.argv = sys.argv, [path, *(arguments or ())]
    try:
        with _importing_beside(Path(path)), user_errors(path):
            runpy.run_path(path, run_name="__main__")
    finally:
        sys.argv = before


def find(path: str, name: str) -> tuple[Any, Any]:
    """(module, function) for FILE.py or the name of a module, and the dotted name of a callable in it.

    Raises Error, which lists the functions of the module.
    """
    if not path:
        raise typer.BadParameter(f"give FILE.py:{name}, or the name of a module")
    module = load(path)
    found: Any = module
    for part in name.split("."):
        owner, found = found, getattr(found, part, None)
        if isinstance(owner, type) and isinstance(vars(owner).get(part), FunctionType):
            found = _bound(owner, part, path)
    if not callable(found):
        named = [(n, v) for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        own = [n for n, v in named if getattr(v, "__module__", None) == module.__name__ or is_generic(v)]
        raise Error(f"{path} has no function {name!r}: there are {', '.join(own) or 'none'}")
    return module, found


def _bound(cls: type, name: str, path: str) -> Any:
    """A method of a class, bound to an instance that is made without arguments."""
    with user_errors(path):
        try:
            signature(cls).bind()
        except (TypeError, ValueError) as error:
            raise Error(
                f"{path}: {cls.__name__}.{name} is a method, and {cls.__name__}() cannot be made: {error}\n"
                f"  let the file have an instance, model = {cls.__name__}(...), and name model.{name}"
            ) from None
        return getattr(cls(), name)


def names_for(module: Any) -> dict[str, Any]:
    """The names that --args may use: those of this library, and those of the module, which come first."""
    library = importlib.import_module(__package__.partition(".")[0])
    return {**{name: getattr(library, name) for name in dir(library)}, **vars(module)}


def is_generic(value: Any) -> bool:
    """True for a generic function."""
    return bool(getattr(type(value), "is_generic_function", False))


def load(path: str) -> Any:
    """Import a file by path, or a module by name."""
    if not path.endswith(".py"):
        try:
            return importlib.import_module(path)
        except ImportError as error:
            hint = "give a file that ends in .py, or a module's name"
            raise Error(f"cannot import {path!r}: {error}\n  {hint}") from None
    is_file(path)
    file = Path(path)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(file.stem)
    sys.modules[file.stem] = module
    try:
        with _importing_beside(file), user_errors(path):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[file.stem]
        raise
    finally:
        if before is not None:
            sys.modules[file.stem] = before
    return module


def is_file(path: str) -> None:
    """Raise Error if there is no such file."""
    if not Path(path).is_file():
        raise Error(f"there is no file {path}")


@contextmanager
def _importing_beside(file: Path) -> Iterator[None]:
    """While this is open, imports look in the file's folder first."""
    folder = str(file.parent.resolve())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


# ---------------------------------------------------------------- arguments

#: The ways to write arguments, as errors show them.
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

    names   names that the text may use, as in `Diagonal(f64[10])`, `Diagonal[10]`, `data`; None: no names
    sized   True: arrays may be of any size, and `f64[batch,3]` stays a text

    Raises typer.BadParameter, which names the part that cannot be read.

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
        raise typer.BadParameter(f"--argnums {text}, but the number of arguments in --args is {count}")
    if len({n % count for n in numbers}) != len(numbers):
        raise typer.BadParameter(f"--argnums {text} names an argument twice")
    return numbers


def _value(node: ast.expr, names: Mapping[str, Any], sized: bool = False) -> Any:
    match node:
        case ast.Subscript(value=ast.Name(id=dtype)) if dtype in DTYPES:
            if not any([isinstance(part, ast.Name) for part in ast.walk(node.slice)]):
                return _aval(dtype, ast.literal_eval(node.slice))
            if not sized:
                raise ValueError(f"{ast.unparse(node)!r} has no known extents, which only an exported program may have")
            return ast.unparse(node)
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
        case ast.Name(id=name) if name in names and not (callable(x := names[name]) or isinstance(x, ModuleType)):
            return x
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)) if name not in DTYPES:
            raise ValueError(f"{name!r} is neither a literal nor one of {', '.join(DTYPES)}")
    try:
        return ast.literal_eval(node)
    except ValueError:  # whose message contains an address
        raise ValueError(f"{ast.unparse(node)!r} is no literal") from None


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
    """The result of a call in --args, such as a structured value; arrays of zeros stand for avals in its arguments."""
    if not callable(names.get(name)):
        raise ValueError(f"there is no {name!r} to call, in the file or in autodiff")
    given = [_value(part, names) for part in call.args]
    named = {k.arg: _value(k.value, names) for k in call.keywords if k.arg is not None}
    args, kwargs = tree.map(lambda x: np.zeros(x.shape, x.dtype) if isinstance(x, Aval) else x, (given, named))
    return names[name](*args, **kwargs)
