"""The code by which long loops handle signals: see `signals_ir`.

    accounting() -> address of `i32 loop_account(i64 work)`

It has a module of its own, which LLVM makes in a tenth of the time that the launcher takes: a process that runs one
loop need not wait for that.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading

from ..forks import held_over_fork
from ..modes import FLUSHING, modes, processor
from . import engine, objects
from .flush_ir import leaving_ir
from .signals_ir import signals_ir
from .steps_ir import LETS_OTHERS

__all__ = ["accounting"]

_lock = held_over_fork(threading.Lock())


def accounting() -> int:
    """The address of `loop_account`, good to the end of the process."""
    with _lock:
        return _made()


@functools.cache
def _made() -> int:
    text = LETS_OTHERS + leaving_ir(processor()) + signals_ir(sys.platform)
    code = objects.compiled(text, {FLUSHING: modes.flushing_at}, engine.Passes.INLINE)
    # Loops have its address to the end of the process.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    return code.address("loop_account")
