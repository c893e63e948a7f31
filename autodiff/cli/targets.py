"""`FILE.py:FUNCTION`: finding what a command is about.  The file is imported: its `__main__` block does not run."""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from types import FunctionType
from typing import Any

import typer

from ..errors import Error
from .app import user_errors
from .arguments import arguments_for

__all__ = ["called", "find", "is_file", "load", "names_for", "run_script"]


def called(target: str, args: str, *, sized: bool = False) -> tuple[str, Any, tuple]:
    """(file, function, arguments) of FILE.py:FUNCTION and what --args says: see `arguments_for`."""
    path, _, name = target.partition(":")
    if not name:
        raise typer.BadParameter("give FILE.py:FUNCTION")
    module, function = find(path, name)
    with user_errors(path):
        return path, function, arguments_for(function, args, names_for(module), sized=sized)


def run_script(path: str, arguments: Sequence[str] | None = None) -> None:
    """Run a file as `python FILE.py ARGUMENTS` would; its errors are Errors: see `user_errors`."""
    is_file(path)
    before, sys.argv = sys.argv, [path, *(arguments or ())]
    try:
        with _beside(Path(path)), user_errors(path):
            runpy.run_path(path, run_name="__main__")
    finally:
        sys.argv = before


def find(path: str, name: str) -> tuple[Any, Any]:
    """(module, function) of FILE.py or a module's name, and the dotted name of something callable in it.

    Raises Error that lists what there is.
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
        names = [n for n, v in vars(module).items() if _is_own(n, v, module)]
        raise Error(f"{path} has no function {name!r}: there are {', '.join(names) or 'none'}")
    return module, found


def _bound(cls: type, name: str, path: str) -> Any:
    """A method of an instance, which is made without arguments."""
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
    """Names that an argument on the command line may have: this library's, then the module's own."""
    library = importlib.import_module(__package__.partition(".")[0])
    return {**{name: getattr(library, name) for name in dir(library)}, **vars(module)}


def _is_own(name: str, value: Any, module: Any) -> bool:
    own = getattr(value, "__module__", None) == module.__name__
    return callable(value) and not name.startswith("_") and (own or getattr(type(value), "is_generic_function", False))


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
        with _beside(file), user_errors(path):
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
def _beside(file: Path) -> Iterator[None]:
    """Imports find what stands beside the file first."""
    folder = str(file.parent.resolve())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
