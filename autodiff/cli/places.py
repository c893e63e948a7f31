"""Places of methods in full: messages name the file alone, the command line says which one.

    of this library             from its package on     autodiff/ops/contraction.py:120
    inside the present folder   relative to it          examples/huber.py:14
    in another package          from the package on     theirs/rules.py:7
    anywhere else               the file's name         huber.py:14

So the output is the same on every machine, and between runs.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType
from typing import Any

__all__ = ["located", "placed"]


def located(text: str, methods: Iterable[Any]) -> str:
    """A text in which the places of these methods are written with their folders."""
    places = {m.place: full for m in methods if (full := _full(m)) is not None}
    if not places:
        return text
    pattern = "|".join(map(re.escape, sorted(places)))
    return re.sub(rf"(?<![\w./\\])({pattern})(?!\d)", lambda found: places[found[0]], text)


def _full(method: Any) -> str | None:
    """`folder/file.py:12`; None where it is not known."""
    written = inspect.unwrap(method.implementation)
    code = getattr(written, "__code__", None)
    return None if code is None else placed(code, getattr(written, "__module__", None))


def placed(code: CodeType, module: str | None = None) -> str | None:
    """`folder/file.py:12` of a function's code; None where it is not known."""
    file = Path(code.co_filename).absolute()
    for root in (_package_folder("autodiff"), Path.cwd(), _package_folder(module)):
        if root is not None and file.is_relative_to(root):
            return f"{file.relative_to(root).as_posix()}:{code.co_firstlineno}"
    return None


def _package_folder(module: str | None) -> Path | None:
    """The folder that a module's package lies in; None for one that belongs to none."""
    top = sys.modules.get((module or "").partition(".")[0])
    paths = list(getattr(top, "__path__", ()))
    return Path(paths[0]).parent if paths else None
