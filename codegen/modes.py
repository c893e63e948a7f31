"""Modes that the user chooses: relaxed arithmetic, deterministic BLAS, and debug info.

    modes.fast_math            read when kernels are emitted; part of every key of cached code
    modes.flush_subnormals     read by machine code, once per call
    modes.deterministic        read when NumPy is called
    modes.debug_info           read when kernels are emitted and loaded: code has the user's lines, for gdb and perf

`compiler.set_mode` sets `fast_math` and `debug_info` under the compiler's lock, so no compilation sees a change.
"""

from __future__ import annotations

import ctypes
import os

#: The symbol by which machine code refers to the words at `Modes.flushing_at`.
FLUSHING = "autodiff_flushing"

#: The processors whose control register is known, by the names that systems give them.
_PROCESSORS = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


class Modes(ctypes.Structure):
    """The modes of the process.  Machine code reads some of them as words in memory.

    fast_math         compiled code may reorder sums and products, multiply by the reciprocal of a divisor that a loop
                      does not change, and ignore the sign of zero (AUTODIFF_FAST_MATH=1)
    flush_subnormals  compiled code treats subnormal numbers as zero, as operands and as results
                      (AUTODIFF_FLUSH_SUBNORMALS=1)
    deterministic     NumPy's products and decompositions run on one thread (AUTODIFF_DETERMINISTIC=1)
    debug_info        kernels are shared libraries with the user's lines (AUTODIFF_DEBUG_INFO=1)
    """

    _fields_ = (("_flushing", ctypes.c_int64 * 2),)

    def __init__(self) -> None:
        super().__init__((0, _new_key()))
        self.deterministic = is_set("AUTODIFF_DETERMINISTIC")
        self.fast_math = is_set("AUTODIFF_FAST_MATH")
        self.debug_info = is_set("AUTODIFF_DEBUG_INFO")
        if is_set("AUTODIFF_FLUSH_SUBNORMALS"):
            self.flush_subnormals = True

    @property
    def flush_subnormals(self) -> bool:
        return bool(self._flushing[0])

    @flush_subnormals.setter
    def flush_subnormals(self, flag: bool) -> None:
        if flag and not processor():
            raise ValueError(
                f"flush_subnormals: how a processor is told to flush is known of x86-64 and 64-bit ARM, not of "
                f"{_machine() or 'this one'}\n"
                "  leave it off (AUTODIFF_FLUSH_SUBNORMALS=0): subnormal numbers are then computed as they are"
            )
        self._flushing[0] = flag

    @property
    def flushing_at(self) -> int:
        """The address of two words for machine code: the flag, and the key of a thread's saved control register."""
        return ctypes.addressof(self)

    def of_code(self) -> str:
        """The modes on which emitted code depends, as text for its key."""
        return "fast math" if self.fast_math else ""


def is_set(variable: str) -> bool:
    """True if the environment variable is set to anything but "" and "0"."""
    return os.environ.get(variable, "0") not in ("", "0")


def processor() -> str:
    """The processor, "x86_64" or "aarch64", if its control register is known; "" for any other."""
    return _PROCESSORS.get(_machine().lower(), "") if ctypes.sizeof(ctypes.c_void_p) == 8 else ""


def _machine() -> str:
    """The system's name of the processor, as by `platform.machine`, whose import takes milliseconds."""
    return os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")


def _new_key() -> int:
    """A key for one pointer per thread (Python's thread-specific storage): the address of a Py_tss_t, never freed."""
    alloc = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThread_tss_alloc", ctypes.pythonapi))
    create = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(("PyThread_tss_create", ctypes.pythonapi))
    key = alloc()
    if not key or create(key):
        raise MemoryError("no key for what threads keep: the system has given all of its own away")
    return int(key)


modes = Modes()
