"""The functions that run loops and branches with products in them: `loop_runs`, by name.

    begin(names)            they are made beside what the caller does next
    address_of(name)        where one is, good to the end of the process

Each has a module of its own, which LLVM makes in a fifth of the time that the launcher takes: a process that runs one
such loop need not wait for the launcher, and most processes run none.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..forks import held_over_fork
from ..lazily import later
from ..modes import FLUSHING, modes
from . import objects
from .ahead import Ahead, gains

if TYPE_CHECKING:
    from . import loop_runs
else:
    loop_runs = later("codegen.runtime.loop_runs")

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
            objects.look_at_files()
            _begun[name] = Ahead(functools.partial(_made, name))
        return _begun[name]


def _made(name: str) -> int:
    code = objects.typed(name, lambda module: loop_runs.text(module, name), imports={FLUSHING: modes.flushing_at})
    return code.address(name)
