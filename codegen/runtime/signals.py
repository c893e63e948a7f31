"""The code by which long loops handle signals: see `interruptions`.

    accounting() -> address of `i32 loop_account(i64 work)`

It has a module of its own, which LLVM makes in a tenth of the time that the launcher takes: a process that runs one
loop need not wait for that.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..forks import held_over_fork
from ..lazily import later
from ..modes import FLUSHING, modes
from . import objects

if TYPE_CHECKING:
    from ..native import Translation
    from . import interruptions
else:
    interruptions = later("codegen.runtime.interruptions")

__all__ = ["accounting"]

_lock = held_over_fork(threading.Lock())


def accounting() -> int:
    """The address of `loop_account`, good to the end of the process."""
    with _lock:
        code = objects.typed("loop_account", _text, imports={FLUSHING: modes.flushing_at})
    return code.address("loop_account")


def _text(module: Translation) -> str:
    return module.text([interruptions.loop_account])
