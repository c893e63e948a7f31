"""Facts about this machine: its processor, the files of a package, and the processors that may be used.

    identity()              the kind and features of the processor, as bytes; None on systems that are not supported
    file_identity(path)     the path, size and time of a file
    package_identity(name)  a digest of the files of a package, which identifies its version
    usable_processors()     the number of processors that this thread may use (its affinity)
    quota()                 the number of processors that the cgroup of the process may use

A container that gets half of a machine's time still sees all of its processors, and Linux stops all threads of a
process that has used up its quota of a period.  So threads beyond the quota only make one another wait.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import struct
import sys
import time
from collections.abc import Iterator

from . import elf
from .disk import blake2b

_began_ns = time.time_ns()

#: Code that reads the identity: cpuid(leaf, inner, out) writes four words; xgetbv() says which registers are saved.
_CPUID = bytes.fromhex("53 89f8 89f1 4989d0 0fa2 418900 41895804 41894808 4189500c 5b c3")
_XGETBV = bytes.fromhex("31c9 0f01d0 48c1e220 4809d0 c3")

#: (leaf, inner leaf, mask of the words eax, ebx, ecx, edx): the words that tell the processor's kind and features.
#: The words left out differ between cores, or change over time.
_ASKED = (
    (0, 0, 0b1111), (1, 0, 0b1101), (7, 0, 0b1111), (7, 1, 0b1111), (0xD, 1, 0b0001), (0x14, 0, 0b0010),
    (0x19, 0, 0b0010), (0x1E, 1, 0b0001), (0x24, 0, 0b0010),
    (0x80000000, 0, 0b1111), (0x80000001, 0, 0b1100), (0x80000008, 0, 0b0010),
)  # fmt: skip
_OSXSAVE = 1 << 27


def identity() -> bytes | None:
    """The identity of the processor: processors with equal identities run the same machine code."""
    if not elf.is_here():
        return None
    try:
        loaded = elf.executable_memory(_CPUID + _XGETBV)
    except OSError:
        return None
    cpuid = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(loaded.addresses["code"])
    xgetbv = ctypes.CFUNCTYPE(ctypes.c_uint64)(loaded.addresses["code"] + len(_CPUID))
    words = (ctypes.c_uint32 * 4)()
    found: list[int] = []
    most: dict[int, int] = {}
    for leaf, inner, mask in _ASKED:
        first = leaf & 0x80000000
        if leaf > most.get(first, first):
            found += (0,) * 4
            continue
        cpuid(leaf, inner, words)
        if leaf == first:
            most[first] = words[0]
        found += [word if mask >> place & 1 else 0 for place, word in enumerate(words)]
        if leaf == 1 and words[2] & _OSXSAVE:
            saved = xgetbv()
            found += (saved & 0xFFFFFFFF, saved >> 32)
    return struct.pack(f"<{len(found)}I", *found)


def file_identity(path: str) -> bytes:
    """The identity of a file: path, size and time of change.  Raises OSError if the file does not exist."""
    status = os.stat(path)
    return f"{path} {status.st_size} {status.st_mtime_ns}".encode()


@functools.cache
def package_identity(name: str) -> str | None:
    """A digest of the names, sizes and times of all files of a package; None if they may not be the imported ones.

    A file that changed since this process began may be of another version than the code that was imported.
    """
    found = []
    try:
        for root in getattr(sys.modules.get(name), "__path__", ()):
            for path, status in _files(str(root)):
                if status.st_ctime_ns >= _began_ns or status.st_mtime_ns >= _began_ns:
                    return None
                found.append(f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}")
    except OSError:
        return None
    if not found:
        return None
    return blake2b("\n".join(sorted(found)).encode(), digest_size=16).hexdigest()


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            else:
                yield entry.path, entry.stat()


#: The largest number of threads that share a loop.
MOST_THREADS = 256


def usable_processors() -> int:
    """The number of processors that the calling thread may use now (its affinity)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota(groups: str = "/proc/self/cgroup", mounts: str = "/sys/fs/cgroup") -> float:
    """The number of processors that the process's cgroup and its ancestors allow, rounded up; inf for no limit.

    groups    the file that lists the cgroups of the process, as Linux writes it
    mounts    the folder in which cgroups are mounted: of version 2, or of version 1 with a folder for each controller
    """
    try:
        with open(groups) as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return math.inf
    return min([_smallest(mounts, controllers, path) for _, controllers, path in lines], default=math.inf)


def _smallest(mounts: str, controllers: str, path: str) -> float:
    """The smallest quota of a cgroup and its ancestors."""
    if not controllers:
        roots = [mounts, f"{mounts}/unified"]
    elif "cpu" in controllers.split(","):
        roots = [f"{mounts}/{controllers}", f"{mounts}/cpu"]
    else:
        return math.inf
    parts = [part for part in path.split("/") if part]
    folders = ["/".join([root, *parts[:depth]]) for root in roots for depth in range(len(parts) + 1)]
    return min(map(_of_folder, folders))


def _of_folder(folder: str) -> float:
    """The quota of one cgroup, from `cpu.max` (version 2) or `cpu.cfs_quota_us` and `cpu.cfs_period_us` (version 1)."""
    try:
        limit, period = _read(f"{folder}/cpu.max").split()
    except (OSError, ValueError):
        try:
            limit, period = _read(f"{folder}/cpu.cfs_quota_us"), _read(f"{folder}/cpu.cfs_period_us")
        except OSError:
            return math.inf
    if not limit.isdecimal() or not period.isdecimal() or int(limit) == 0 or int(period) == 0:
        return math.inf  # "max" or -1: no limit
    return math.ceil(int(limit) / int(period))


def _read(file: str) -> str:
    with open(file) as opened:
        return opened.read().strip()
