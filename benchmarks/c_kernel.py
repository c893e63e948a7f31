"""A C function built with gcc, as somebody would write it by hand: -O3 for this machine, fast mathematics, OpenMP."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["build"]

FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC")


def build(source: str) -> Callable[..., float]:
    """The function `double run(long n, pointers ...)` of a C source.

    Raises FileNotFoundError where there is no gcc.
    """
    folder = tempfile.mkdtemp()
    file, library = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
    file.write_text(source)
    subprocess.run(["gcc", *FLAGS, file, "-o", library, "-lm"], check=True)
    run = ctypes.CDLL(str(library)).run
    run.restype = ctypes.c_double

    def call(n: int, *pointers: int) -> float:
        return run(ctypes.c_long(n), *[ctypes.c_void_p(p) for p in pointers])

    return call
