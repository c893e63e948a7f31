"""The functions that run loops and branches with products in them: `loop_ir`, by name.

    begin(names)            they are made beside what the caller does next
    address_of(name)        where one is, good to the end of the process

Each has a module of its own, which LLVM makes in a fifth of the time that the launcher takes: a process that runs one
such loop need not wait for the launcher, and most processes run none.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Iterable

from ..forks import held_over_fork
from ..modes import FLUSHING, modes, processor
from . import engine, objects
from .ahead import Ahead, gains
from .loop_ir import loop_ir

__all__ = ["address_of", "begin"]

_begun: dict[str, Ahead[int]] = {}
_lock = held_over_fork(threading.Lock())


def begin(names: Iterable[str]) -> None:
    """Have these made meanwhile."""
    if gains():
        for name in names:
            _ahead(name)


def address_of(name: str) -> int:
    """The address of `i32 name(ptr pointers, ptr numbers)`."""
    return _ahead(name).result()


def _ahead(name: str) -> Ahead[int]:
    with _lock:
        if name not in _begun:
            _begun[name] = Ahead(functools.partial(_made, name))
        return _begun[name]


def _made(name: str) -> int:
    text = loop_ir(name, processor(), sys.platform)
    code = objects.compiled(text, {FLUSHING: modes.flushing_at}, engine.Passes.INLINE)
    # Steps have its address to the end of the process.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    return code.address(name)
