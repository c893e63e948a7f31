"""Tracebacks without this library's frames: the user's lines follow each other, as if nothing lay between them.

A function of the library that calls a user's function (`jit`, `grad`, a loop, a generic function) is a border: it
catches an error, calls `shorten`, and raises the error again by a bare `raise`, which adds no entry for its own frame.
An error that the library does not raise on purpose is its fault: the traceback stays whole, for a report.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from itertools import pairwise
from types import TracebackType
from typing import Any, TypeVar, cast

from codegen.ir.evaluate import error_observers

from .config import config
from .errors import Error
from .frames import is_ours

_F = TypeVar("_F", bound=Callable)

#: The user's line in a message, which shows that this library wrote the message.
_PLACE = re.compile(r" at (an unknown place|\S+:\d+)")


def border(function: _F, like: Callable | None = None) -> _F:
    """Make a function whose calls take long a border, by a wrapper.   like: the function whose name the wrapper gets"""

    @wraps(like or function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            shorten(error)
            raise

    return cast(_F, run)


def shorten(error: BaseException) -> None:
    """Leave this library's frames out of the tracebacks of an error, and of the errors that it was raised from."""
    if config.full_tracebacks:
        return
    found, known = [error], {id(error)}
    for one in found:
        one.__traceback__ = _users(one)
        for other in (one.__cause__, one.__context__, *(one.exceptions if isinstance(one, BaseExceptionGroup) else ())):
            if other is not None and id(other) not in known:
                known.add(id(other))
                found.append(other)


def _users(error: BaseException) -> TracebackType | None:
    """The traceback of an error without this library's frames, and without frames of other libraries between them."""
    entries = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    modules = [e.tb_frame.f_globals.get("__name__") for e in entries]
    ours = [k for k, name in enumerate(modules) if (name or "").partition(".")[0] in ("autodiff", "codegen")]
    if not ours or (all(map(is_ours, modules[ours[-1] :])) and not _is_meant(error)):
        return error.__traceback__
    left_out = set(ours)
    for one, other in pairwise(ours):
        if all(map(is_ours, modules[one:other])):
            left_out.update(range(one, other))
    found = None
    for k in reversed(range(len(entries))):
        if k not in left_out:
            entry = entries[k]
            found = TracebackType(found, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return found


def _is_meant(error: BaseException) -> bool:
    """True for an error, raised in this library's code, that the library raises on purpose."""
    told = "\n".join([str(error), *getattr(error, "__notes__", ())])
    return isinstance(error, Error) or _PLACE.search(told) is not None


error_observers.append(shorten)
