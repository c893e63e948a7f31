"""Object files loaded as shared libraries, in which debuggers and profilers find the user's source lines.

    loaded = linked(data, exports)      loaded.addresses["f"]

Tools find such a library without registration, because it is an ordinary file: `break train.py:12` stops in a kernel,
and `perf annotate` shows lines.  The files remain after the process ends, since `perf report` reads them then.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..ending import has_ended


class _Loaded:
    """A loaded library, which the finaliser closes."""

    __slots__ = ("__weakref__", "_close", "_library", "addresses")

    def __init__(self, library: ctypes.CDLL, addresses: Mapping[str, int]) -> None:
        self._library, self.addresses = library, addresses
        self._close = ctypes.CDLL(None).dlclose
        self._close.argtypes = (ctypes.c_void_p,)

    def __del__(self, has_ended: list[bool] = has_ended) -> None:
        if not has_ended[0]:
            self._close(self._library._handle)


def check() -> None:
    """Raise ValueError if this system cannot make shared libraries of object files."""
    if sys.platform != "linux":
        raise ValueError(f"debug_info is there on Linux, not on {sys.platform}: leave it off (AUTODIFF_DEBUG_INFO=0)")
    if _linker() is None:
        raise ValueError("debug_info needs the program ld: install binutils, or leave it off (AUTODIFF_DEBUG_INFO=0)")


def linked(data: bytes, exports: Sequence[str]) -> Any:
    """Link an object file to a shared library, and load it.  Raises OSError."""
    check()
    made = Path(tempfile.mkdtemp(prefix=f"autodiff-{os.getpid()}-")) / "kernel.so"
    source = made.with_suffix(".o")
    source.write_bytes(data)
    command = [str(_linker()), "-shared", "--build-id", "-z", "noexecstack", "-o", str(made), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    source.unlink()
    if done.returncode:
        raise OSError(f"debug_info: ld does not link a kernel: {done.stderr.strip()}")
    library = ctypes.CDLL(str(made))  # raises OSError with the reason
    return _Loaded(library, {name: ctypes.cast(library[name], ctypes.c_void_p).value or 0 for name in exports})


def _linker() -> str | None:
    return shutil.which("ld") or shutil.which("ld.lld")
