"""Choices of the user's about numbers: what compiled arithmetic may loosen, and that BLAS gives the same bits.

    modes.fast_math            read where kernels are written, and part of every key under which code is found again
    modes.flush_subnormals     read by machine code, once per call
    modes.deterministic        read where NumPy is called
    modes.debug_info           read where kernels are written and loaded: they name the user's lines, for gdb and perf

The compiler sets `fast_math` and `debug_info` (`compiler.set_mode`), under its lock: nothing is half compiled.
"""

from __future__ import annotations

import ctypes
import os

#: By this name machine code imports the words at `Modes.flushing_at`.
FLUSHING = "autodiff_flushing"

#: Processors by all their names, those whose control register is known.
_PROCESSORS = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


class Modes(ctypes.Structure):
    """Modes of a process, in part as words that machine code reads.

    fast_math      sums and products of a function in another order, division by what a loop does not change as
                      multiplication by its reciprocal, the sign of zero free (AUTODIFF_FAST_MATH=1)
    flush_subnormals  numbers below the smallest normal one are zero to compiled code, as operands and as results
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
        """The address where machine code reads it: that word, then Python's key of what a thread keeps meanwhile."""
        return ctypes.addressof(self) + Modes._flushing.offset

    def of_code(self) -> str:
        """The modes that code depends on, in words: part of its key."""
        return "fast math" if self.fast_math else ""


def is_set(variable: str) -> bool:
    """True if an environment variable switches something on."""
    return os.environ.get(variable, "0") not in ("", "0")


def processor() -> str:
    """"x86_64" or "aarch64", by which code knows the control register of a thread; "" of others."""
    return _PROCESSORS.get(_machine().lower(), "") if ctypes.sizeof(ctypes.c_void_p) == 8 else ""


def _machine() -> str:
    """The system's name of the processor.  (`platform.machine` says the same, and takes milliseconds to import.)"""
    return os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")


def _new_key() -> int:
    """A key under which threads keep a pointer each: the address of a Py_tss_t, good to the end of the process."""
    alloc = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThread_tss_alloc", ctypes.pythonapi))
    create = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(("PyThread_tss_create", ctypes.pythonapi))
    key = alloc()
    if not key or create(key):
        raise MemoryError("no key for what threads keep: the system has given all of its own away")
    return int(key)


modes = Modes()
