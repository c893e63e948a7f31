"""The disk cache of object files: LLVM compiles each text once for all processes of this user.

    folder/<key>        one file per kernel or module.  The keys of the kernels of one object are links to one file
    file                magic, length, BLAKE2 digest, then: keys, exported names, object

    cache = default()                     None when AUTODIFF_CACHE=0
    entry = cache.load(key)               None unless the file is whole, byte for byte
    cache.store(keys, object, exports)    writes another file and renames it: a reader sees a whole file or none

A damaged object would crash the process or, worse, run; so every byte is checked before LLVM sees it.
Code is only read from a folder and files that belong to the user and that nobody else may write.
A file that cannot be used is ignored, reported once (logger "autodiff.cache"), and replaced.

The folder is "objects" in AUTODIFF_CACHE_DIR, or in "autodiff" in the user's cache folder.  It is kept
below about `LIMIT_BYTES`: the least recently used files are removed first.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import stat
import struct
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from ..records import NamedTuple

try:
    from _blake2 import blake2b  # `hashlib` loads OpenSSL first, which takes 2 ms
except ImportError:
    from hashlib import blake2b

#: The version of the file layout.  It is part of each key too, so files of an earlier layout are never read, and are
#: removed once they are the least recently used.
FORMAT = 2
_MAGIC = f"autodiff object {FORMAT}\n".encode()
_HEAD = struct.Struct(f"<{len(_MAGIC)}sQ32s")

#: The names of files of this cache; other files in the folder are never removed.
_KEY = r"[0-9a-f]{32}"
_TEMPORARY = r"\.\d+-\d+-[0-9a-f]{16}"

#: The bytes that the folder may hold, roughly; and the fraction of these that pruning leaves.
LIMIT_BYTES = 256 << 20
_KEPT = 0.75

#: An object of this library has some kilobytes; a larger file than this is refused.
_LARGEST = 64 << 20

#: The time of last use is updated at most this often, in seconds.
_TOUCH_S = 3600

#: After a failure to write (a full disk, say) nothing is written for this many seconds; files are still read.
_PAUSE_S = 60.0

#: A temporary file older than this, in seconds, was left by a process that died.
_STALE_S = 3600


class ObjectFile(NamedTuple):
    """An object file, the names it exports, and the keys it serves."""

    object_bytes: bytes
    exports: tuple[str, ...]
    keys: tuple[str, ...]


class DiskCache:
    """Objects by key, in a folder.  Never raises for the state of the folder; threads and processes may share it.

    hits, misses   counts of `load`
    faults         the number of files that could not be used, and of failures to write
    """

    def __init__(self, folder: str | os.PathLike[str], limit_bytes: int = LIMIT_BYTES) -> None:
        self.folder = os.fspath(folder)
        self.limit_bytes = limit_bytes
        self.hits = self.misses = self.faults = 0
        self._numbers = itertools.count()
        self._is_usable: bool | None = None
        self._writes_from = 0.0

    # ------------------------------------------------------------ reading

    def load(self, key: str) -> ObjectFile | None:
        """The entry of a key; None if there is none, or a damaged one."""
        entry = None
        if self._is_ready():
            path = os.path.join(self.folder, key)
            try:
                entry = _decoded(_read(path), key)
                self._touch(path)
            except FileNotFoundError:
                pass
            except (OSError, ValueError) as error:
                self._report(f"{path} cannot be used ({error}); it is made again")
                with contextlib.suppress(OSError):
                    os.unlink(path)
        if entry is None:
            self.misses += 1
            _tell("not on disk: %s", key)
        else:
            self.hits += 1
            _tell("found on disk: %s, %d bytes of machine code", key, len(entry.object_bytes))
        return entry

    @staticmethod
    def _touch(path: str) -> None:
        """Set the time of last use of a file to now, by which pruning chooses the files to remove."""
        with contextlib.suppress(OSError):
            if time.time() - os.stat(path).st_mtime > _TOUCH_S:
                os.utime(path)

    # ------------------------------------------------------------ writing

    def store(self, keys: Sequence[str], object_bytes: bytes, exports: Iterable[str]) -> None:
        """Write an object, under each of the keys."""
        if not self._is_ready() or time.monotonic() < self._writes_from:
            return
        data = _encoded(ObjectFile(object_bytes, tuple(exports), tuple(keys)))
        try:
            first = self._written(data)
            try:
                for key in keys:
                    self._link(first, key, data)
            finally:
                _remove(first)
        except OSError as error:
            self._writes_from = time.monotonic() + _PAUSE_S
            self._report(f"cannot write to {self.folder} ({error}); nothing is kept for the next {_PAUSE_S:.0f} s")
            return
        _tell("kept on disk: %s, %d bytes of machine code", keys[0], len(object_bytes))
        # Listing all files takes time, so it is done by chance: on average once per sixteenth of the limit written.
        if int.from_bytes(os.urandom(4), "little") < 16 * len(data) / self.limit_bytes * 2**32:
            self.prune()

    def _written(self, data: bytes) -> str:
        """Write a new file with this content, under a temporary name, which no reader opens."""
        path = os.path.join(self.folder, f".{os.getpid()}-{next(self._numbers)}-{os.urandom(8).hex()}")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
        except OSError:
            _remove(path)
            raise
        return path

    def _link(self, first: str, key: str, data: bytes) -> None:
        """Link the file `first` to a key; copy it on file systems without hard links."""
        path = f"{first}-{key}"
        try:
            os.link(first, path)
        except OSError:
            path = self._written(data)
        try:
            os.replace(path, os.path.join(self.folder, key))
        finally:
            _remove(path)  # a rename between two names of one file does nothing (POSIX): the temporary name remains

    def prune(self) -> None:
        """Remove the least recently used files, if the folder holds more than its limit."""
        files = self._files()
        total = sum(size for _, size, _ in files)
        if total <= self.limit_bytes:
            return
        _tell("%d bytes of at most %d: what was not used for longest is removed", total, self.limit_bytes)
        for _, size, paths in files:
            for path in paths:
                with contextlib.suppress(OSError):
                    os.unlink(path)
            total -= size
            if total <= self.limit_bytes * _KEPT:
                return

    def held(self) -> tuple[int, int]:
        """(number of object files, their bytes)."""
        files = self._files()
        return len(files), sum(size for _, size, _ in files)

    def _files(self) -> list[tuple[float, int, list[str]]]:
        """(time of last use, bytes, paths) of each object, oldest first; also removes stale temporary files."""
        files: dict[int, tuple[float, int, list[str]]] = {}
        with contextlib.suppress(OSError), os.scandir(self.folder) as found:
            for place in found:
                with contextlib.suppress(OSError):
                    status = place.stat(follow_symlinks=False)
                    if re.match(_TEMPORARY, place.name) and time.time() - status.st_mtime > _STALE_S:
                        os.unlink(place.path)
                    elif re.fullmatch(_KEY, place.name):
                        entry = files.setdefault(status.st_ino, (status.st_mtime, status.st_size, []))
                        entry[2].append(place.path)
        return sorted(files.values())

    # ------------------------------------------------------------ trust

    def _is_ready(self) -> bool:
        """True if the folder exists or can be made, and only this user may write to it."""
        if self._is_usable is None:
            try:
                _make_private(self.folder)
                _refuse_others(os.stat(self.folder))
                self._is_usable = True
            except (OSError, ValueError) as error:
                self._is_usable = False
                self._report(f"the folder {self.folder} cannot be used ({error})")
        return self._is_usable

    def _report(self, message: str) -> None:
        self.faults += 1
        if self.faults == 1:
            import logging  # late, because few processes need it

            logging.getLogger("autodiff.cache").warning("autodiff: cache of compiled code: %s", message)


def _tell(message: str, *values: Any) -> None:
    """Log a debug message, if the program has imported `logging`; otherwise no handler can exist."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("autodiff.cache").debug(message, *values)


def _make_private(folder: str) -> None:
    """Make a folder and its missing parents, accessible to this user alone."""
    parent = os.path.dirname(folder.rstrip(os.sep))
    if parent and not os.path.isdir(parent):
        _make_private(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)


def _remove(path: str) -> None:
    """Remove a file, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


#: The flags to open a file that may not be a regular one: a link is refused, and opening a named pipe does not block.
_READING = os.O_RDONLY | sum([getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")])


def _read(path: str) -> bytes:
    """The content of a regular file that this user owns and nobody else may write.  Raises ValueError for others."""
    descriptor = os.open(path, _READING)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("no regular file")
        _refuse_others(status)
        if status.st_size > _LARGEST:
            raise ValueError(f"{status.st_size} bytes")
        return file.read()


def _refuse_others(status: os.stat_result) -> None:
    """Raise ValueError for a file or folder that another user owns or may write: its code would run as this user."""
    if not hasattr(os, "geteuid"):
        return
    if status.st_uid != os.geteuid():
        raise ValueError("it belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError("others may write to it")


def _encoded(entry: ObjectFile) -> bytes:
    names = "\n".join([" ".join(entry.keys), " ".join(entry.exports)]).encode()
    payload = struct.pack("<Q", len(names)) + names + entry.object_bytes
    return _HEAD.pack(_MAGIC, len(payload), blake2b(payload, digest_size=32).digest()) + payload


def _decoded(data: bytes, key: str) -> ObjectFile:
    """The entry that a file's bytes hold.  Raises ValueError if they are not exactly those written for the key."""
    if len(data) < _HEAD.size:
        raise ValueError("it is truncated")
    magic, length, digest = _HEAD.unpack_from(data)
    payload = data[_HEAD.size :]
    if magic != _MAGIC:
        raise ValueError("it is no object file of this library")
    if length != len(payload):
        raise ValueError("it is truncated")
    if blake2b(payload, digest_size=32).digest() != digest:
        raise ValueError("it is damaged")
    (size,) = struct.unpack_from("<Q", payload)
    keys, exports = [tuple(line.split()) for line in payload[8 : 8 + size].decode().split("\n")]
    if key not in keys:
        raise ValueError("it belongs to another key")
    return ObjectFile(payload[8 + size :], exports, keys)


@functools.cache
def default() -> DiskCache | None:
    """The cache of this process; None when AUTODIFF_CACHE=0, or when this user has no folder of their own."""
    given = os.environ.get("AUTODIFF_CACHE", "1")
    if given == "0":
        return None
    if given not in ("", "1"):
        warnings.warn(f"AUTODIFF_CACHE is 0 or 1, not {given!r}: AUTODIFF_CACHE_DIR names the folder", stacklevel=2)
    try:
        return DiskCache(os.path.join(folder_of_user(), "objects"))
    except RuntimeError:
        return None


def folder_of_user() -> str:
    """AUTODIFF_CACHE_DIR, or "autodiff" in the folder that this system has for a user's caches.

    Raises RuntimeError for a user without a home folder.
    """
    given = os.environ.get("AUTODIFF_CACHE_DIR")
    if given:
        return given
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or _in_home("AppData", "Local")
    elif sys.platform == "darwin":
        root = _in_home("Library", "Caches")
    else:
        root = os.environ.get("XDG_CACHE_HOME") or _in_home(".cache")
    return os.path.join(root, "autodiff")


def _in_home(*parts: str) -> str:
    home = os.path.expanduser("~")
    if home == "~":
        raise RuntimeError("this user has no home")
    return os.path.join(home, *parts)
