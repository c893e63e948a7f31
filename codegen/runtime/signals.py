"""The code by which long loops handle signals: see `signals_ir`.

    accounting() -> address of `i32 loop_account(i64 work)`

It is part of the launcher.  Where that is not made yet a module of its own has it, which LLVM makes in a twentieth
of the time: a process that runs one loop need not wait for all of the launcher.
"""

from __future__ import annotations

import ctypes
import functools
import threading

from ..forks import held_over_fork
from . import engine, native, objects
from .signals_ir import SIGNALS_IR

__all__ = ["accounting"]

_lock = held_over_fork(threading.Lock())


def accounting() -> int:
    """The address of `loop_account`, good to the end of the process."""
    if native.is_made():
        return native.native().code.address("loop_account")
    with _lock:
        return _made()


@functools.cache
def _made() -> int:
    code = objects.compiled(SIGNALS_IR, None, engine.Passes.INLINE)
    # Loops have its address to the end of the process.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    return code.address("loop_account")
