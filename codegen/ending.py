"""The end of a process: what it holds outside of Python is left to the system, and so are objects, if nobody can tell.

Python looks at all objects three or four times when it ends, and frees them one by one: a quarter of the time of a
process that imports this library and computes one gradient.  Only those that act when they go make a difference: files
with unwritten lines, suspended generators, what has a `__del__`, what other people's machine code made.  Where there is
none of these the collector is told to leave all objects alone (`gc.freeze`), and the memory goes with the process.
"""

from __future__ import annotations

import atexit
import gc
import io
import sys
from _imp import extension_suffixes
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any

__all__ = ["acts", "has_ended", "makes_more_than_memory", "write_files_at_the_end"]

#: True once this process ends.
has_ended = [False]


def _end() -> None:
    has_ended[0] = True
    with suppress(Exception):  # a class may say strange things of itself; then all ends as ever
        if not (gc.callbacks or gc.get_debug() or makes_more_than_memory(sys.modules) or acts(gc.get_objects())):
            gc.freeze()


# Functions that are registered later run before.
atexit.register(_end)

#: Whose machine code makes objects that are memory and no more.
_MEMORY_ONLY = frozenset(("llvmlite", "numpy", "scipy", *sys.stdlib_module_names))

#: Of Python's own: databases, which are written to and tidied up when they are closed.
_KEPT_ON_DISK = frozenset(("_dbm", "_gdbm", "_sqlite3"))


def makes_more_than_memory(modules: Mapping[str, Any]) -> bool:
    """True if machine code of these modules may make objects that nothing tells of and that act when they go."""
    if not _KEPT_ON_DISK.isdisjoint(modules):
        return True
    compiled = tuple(extension_suffixes())
    for name, module in list(modules.items()):
        file = module.__dict__.get("__file__") if isinstance(module, ModuleType) else None
        if file and name.partition(".")[0] not in _MEMORY_ONLY and file.endswith(compiled):
            return True
    return False


def acts(objects: Iterable[Any]) -> bool:
    """True if one of these objects acts when it goes.  The process's own three files are written to in any case."""
    found = Counter(map(type, objects))
    for kind in found:
        is_final = any(["__del__" in base.__dict__ for base in kind.__mro__])
        if is_final and not kind.__module__.startswith(("codegen.", "llvmlite.")) and found[kind] > _standard()[kind]:
            return True
    return False


def _standard() -> Counter[type]:
    """The classes of a process's input, output and errors."""
    files = [file for file in (sys.__stdin__, sys.__stdout__, sys.__stderr__) if file is not None]
    buffers = [file.buffer for file in files]
    found = {id(x): x for x in (*files, *buffers, *[getattr(buffer, "raw", buffer) for buffer in buffers])}
    return Counter(map(type, found.values()))


def write_files_at_the_end() -> None:
    """Have files that are still open when this process ends write their buffers then.

    Objects that machine code holds never go.  A rule that it calls holds the names of the script that has it, and these
    a file that was left open: Python would forget it, with its last lines.
    """
    atexit.register(_write_files)


def _write_files() -> None:
    for found in gc.get_objects():
        if issubclass(type(found), io.TextIOWrapper | io.BufferedWriter | io.BufferedRandom):
            with suppress(Exception):  # closed, or on a full disk: nobody is there to be told
                found.flush()
