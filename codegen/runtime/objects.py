"""Code of a module, from disk where it was made before.

    compiled(text, imports)     code of a whole module: the launcher, say
    named(words, write)         code of functions that this version of the library writes: products, orders, transforms
    typed(name, write)          one function of native Python, which is translated where it is on disk nowhere
    is_kept(name)               if that is there
    facts(name, tell)           what Python has to know of such code: where it is on disk no source is imported
    loaded(key)                 code of the object that serves a key, if it is on disk
    made(keys, text)            code from LLVM, kept on disk for these keys

Texts are many times the size of code, and are not kept.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import engine
from .disk import FORMAT, DiskCache, blake2b, default
from .engine import CompileError, MachineCode
from .machine import package_identity

if TYPE_CHECKING:
    from ..native import Translation

#: The code that has a function, by its name, what says all of it, and the build.  It is never unloaded: steps have its
#: addresses to the end of the process, threads sleep in it.
_named: dict[tuple[str, str, str], MachineCode] = {}

#: Counts up when the same text comes to mean other code (other passes, another calling convention).
VERSION = 2


def key_of(text: str) -> str:
    """The identity of code: its text, how it is compiled and kept, LLVM's version, the target."""
    parts = (text, str(VERSION), str(FORMAT), *engine.target_key())
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def compiled(text: str, imports: Mapping[str, int] | None = None) -> MachineCode:
    """Code of a module."""
    disk, key = default(), key_of(text)
    return loaded(key, disk, imports, text) or made([key], text, disk, imports)


def named(
    words: Mapping[str, str], write: Callable[[Sequence[str]], str], imports: Mapping[str, int] | None = None
) -> dict[str, MachineCode]:
    """The code that has each of these functions, made once in a process; those that are on disk nowhere are made
    together.

    words   for each function, by name, what says all of it
    write   the text of a module of such functions
    """
    build = _build()
    missing = {name: said for name, said in words.items() if (name, said, build) not in _named}
    if missing:
        for name, code in _found(missing, write, imports).items():
            _named.setdefault((name, missing[name], build), code)
    return {name: _named[name, said, build] for name, said in words.items()}


def _found(
    words: Mapping[str, str], write: Callable[[Sequence[str]], str], imports: Mapping[str, int] | None
) -> dict[str, MachineCode]:
    """The code of functions, from disk or from LLVM."""
    disk, identity = _kept_by()
    if disk is None:
        return dict.fromkeys(words, compiled(write(list(words)), imports))
    keys = {name: key_of(f"{said} of {identity}") for name, said in words.items()}
    found: dict[str, MachineCode] = {}
    for name, key in keys.items():
        if name not in found and (code := loaded(key, disk, imports)):
            found.update({other: code for other in words if other in code.names})
    if missing := [name for name in words if name not in found]:
        code = made([keys[name] for name in missing], write(missing), disk, imports)
        found.update(dict.fromkeys(missing, code))
    return found


def _kept_by() -> tuple[DiskCache | None, str]:
    """The disk that keeps what this version of the library writes, and what says which version that is."""
    disk = default()
    identity = package_identity("codegen") if disk else None
    return disk if identity else None, f"{identity}{_build()}"


#: The words of native Python of which there is one by its name.
_ALONE = "in native Python"


def typed(
    name: str,
    write: Callable[[Translation], str],
    imports: Mapping[str, int] | None = None,
    words: str = _ALONE,
) -> MachineCode:
    """Code of native Python (`codegen.native`).

    name    of a function that it exports
    write   the text of the module
    words   what tells it from others of that name
    """
    return named({name: f"{name} {words}"}, lambda _: write(native_module()), imports)[name]


def is_kept(name: str) -> bool:
    """True if code of native Python is on disk, sound or not."""
    disk, identity = _kept_by()
    return disk is not None and os.path.exists(os.path.join(disk.folder, key_of(f"{name} {_ALONE} of {identity}")))


def facts(name: str, tell: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The facts about native code that its sources tell, as plain Python, from disk where the code is."""
    disk, identity = _kept_by()
    if disk is None:
        return tell()
    key = key_of(f"facts of {name} of {identity}")
    entry = disk.load(key)
    if entry is None:
        found = tell()
        disk.store([key], marshal.dumps(found, 2), ())  # a format that each Python reads
    else:
        found = marshal.loads(entry.object_bytes)
    return found


def native_module() -> Translation:
    """An empty module of native Python, in the build that is asked for."""
    from ..native import Translation  # not needed where the code is on disk

    return Translation(checks=_build() == _CHECKS, faults=_build() == _FAULTS)


#: The builds of native Python beside the usual one: AUTODIFF_NATIVE_CHECKS=1 asks for checks, =faults for calls that a
#: test has fail in turn.
_CHECKS, _FAULTS = " with checks", " with faults"


def _build() -> str:
    return {"1": _CHECKS, "faults": _FAULTS}.get(os.environ.get("AUTODIFF_NATIVE_CHECKS", "0"), "")


def loaded(key: str, disk: DiskCache | None, imports: Mapping[str, int] | None, text: str = "") -> MachineCode | None:
    """Code of the object that was kept for a key."""
    entry = disk.load(key) if disk else None
    if entry is None:
        return None
    try:
        return engine.link(text, entry.object_bytes, entry.exports, imports)
    except CompileError:
        return None  # sound, but not for this process: it is made again


def made(keys: Sequence[str], text: str, disk: DiskCache | None, imports: Mapping[str, int] | None) -> MachineCode:
    """Code of a module from LLVM, kept for these keys.  Raises CompileError."""
    object_bytes, exports = engine.object_of(text)
    code = engine.link(text, object_bytes, exports, imports)
    if disk:
        disk.store(keys, object_bytes, exports)
    return code
