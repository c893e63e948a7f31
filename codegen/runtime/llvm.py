"""LLVM, through the few functions of llvmlite's library that `engine` needs.

    llvm = library()
    machine = llvm.machine(effort, "small")
    module = llvm.parsed(text, machine)                 RuntimeError, saying what is wrong with it
    llvm.pipeline(PASSES, machine).run(module)
    object = llvm.emitted(machine, module)
    loaded = llvm.linked(llvm.linker(machine, ...), "name", object, imports, exports)       loaded["f"]: an address

`llvmlite.binding` declares three hundred functions, and imports for it zipfile, tempfile, random and a builder of IR: a
tenth of what a process needs up to its first gradient.  So for versions of llvmlite whose functions are known the
library is called directly (`llvm_library`).  For others, or where `llvmlite.binding` is imported already,
`llvm_binding` does the same.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from typing import Any

import llvmlite

from ..forks import held_over_fork
from .llvm_library import Library

__all__ = ["is_loaded", "library", "library_file", "version"]

#: Versions of llvmlite (major, minor) that have these functions, as its own files declare them.
KNOWN = ((0, 47), (0, 50))

_FILES = {"win32": "llvmlite.dll", "darwin": "libllvmlite.dylib"}


def version() -> str:
    """llvmlite's version."""
    return llvmlite.__version__


def library_file() -> str:
    """The file of LLVM."""
    folder = os.path.dirname(llvmlite.__file__)
    return os.path.join(folder, "binding", _FILES.get(sys.platform, "libllvmlite.so"))


_loading = held_over_fork(threading.Lock())


def library() -> Any:
    """LLVM as it is used in this process."""
    with _loading:
        return _library()


def is_loaded() -> bool:
    """True if this process has needed LLVM."""
    return _library.cache_info().currsize > 0


@functools.cache
def _library() -> Any:
    file = library_file()
    if "llvmlite.binding" not in sys.modules and is_known(version()) and os.path.isfile(file):
        return Library(file)
    from .llvm_binding import Binding  # it imports llvmlite.binding

    return Binding()


def is_known(version: str) -> bool:
    """True if a version of llvmlite, "0.47.0", has the functions that are declared here."""
    found = version.split(".")[:2]
    return len(found) == 2 and "".join(found).isdecimal() and KNOWN[0] <= (int(found[0]), int(found[1])) <= KNOWN[1]
