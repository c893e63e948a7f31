"""Tracebacks without this library's frames: the user's lines follow each other, as if nothing lay between them.

Whatever calls a function of the user's for the user (`jit`, `grad`, a loop, a generic function) is a border: it catches
the error, calls `shorten`, and raises it again by a bare `raise`, which adds no entry for its own frame.  An error that
nobody here has foreseen is a fault of this library's: its traceback stays whole, for a report.
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

#: A message that was written here names the user's line.
_PLACE = re.compile(r" at (an unknown place|\S+:\d+)")


def border(function: _F, like: Callable | None = None) -> _F:
    """Make a function a border, by a frame of its own: where a call takes long.   like: whose name it has"""

    @wraps(like or function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            shorten(error)
            raise

    return cast(_F, run)


def shorten(error: BaseException) -> None:
    """Leave this library's frames out of the traceback of an error, and of those that it was raised from."""
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
    """The traceback of an error without the frames of this library, and what lies between two of them."""
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
    """True for an error that this library, in whose code it was raised, means to raise."""
    told = "\n".join([str(error), *getattr(error, "__notes__", ())])
    return isinstance(error, Error) or _PLACE.search(told) is not None


error_observers.append(shorten)
