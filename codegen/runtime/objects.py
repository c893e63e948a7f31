"""The machine code of modules, from disk if it was made before.

    compiled(text, imports)     the code of a whole module
    codes_of(words, write)      the code of functions that this version of the library generates: products, orders
    native_code(name, write)    one function of native Python, translated only if its code is not on disk
    is_kept(name)               True if the code of such a function is on disk
    facts(name, tell)           facts about native code that Python needs, on disk too, so that no source is imported
    loaded(key)                 the code of the object that serves a key, if it is on disk
    linked(text, object, ...)   the code of an object, with the elementary functions that it calls
    new_code(keys, text)        code from LLVM, stored on disk under these keys

Texts are many times the size of code, and are not stored.
"""

from __future__ import annotations

import marshal
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..modes import modes
from . import engine
from .disk import FORMAT, DiskCache, blake2b, default
from .engine import CompileError, MachineCode
from .machine import package_identity

if TYPE_CHECKING:
    from ..native import Translation

#: The code of functions, by name, description and build.  It is never unloaded: steps hold its addresses to the end of
#: the process, and threads sleep in it.
_codes: dict[tuple[str, str, str], MachineCode] = {}

#: Increased when the same text is compiled to other code (other passes, another calling convention).
VERSION = 2


def key_of(text: str) -> str:
    """The identity of code: a digest of its text, the versions of compiling and storing, LLVM's version, the target."""
    parts = (text, str(VERSION), str(FORMAT), *engine.target_key())
    return blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def compiled(text: str, imports: Mapping[str, int] | None = None) -> MachineCode:
    """The code of a module, from disk or from LLVM."""
    disk, key = default(), key_of(text)
    return loaded(key, disk, imports, text) or new_code([key], text, disk, imports)


def codes_of(
    words: Mapping[str, str], write: Callable[[Sequence[str]], str], imports: Mapping[str, int] | None = None
) -> dict[str, MachineCode]:
    """The code that contains each of these functions, made once in a process; those that are not on disk are compiled
    as one module.

    words   by the name of each function, a text that determines its code
    write   returns the text of a module with the functions of these names
    """
    build = _build()
    missing = {name: said for name, said in words.items() if (name, said, build) not in _codes}
    if missing:
        for name, code in _found(missing, write, imports).items():
            _codes.setdefault((name, missing[name], build), code)
    return {name: _codes[name, said, build] for name, said in words.items()}


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
        code = new_code([keys[name] for name in missing], write(missing), disk, imports)
        found.update(dict.fromkeys(missing, code))
    return found


def _kept_by() -> tuple[DiskCache | None, str]:
    """The disk cache for generated functions (None if the library's files have changed), and the version's identity."""
    disk = default()
    identity = package_identity("codegen") if disk else None
    return disk if identity else None, f"{identity}{_build()}"


#: The description of a function that its name alone determines.
_ALONE = "in native Python"


def native_code(
    name: str,
    write: Callable[[Translation], str],
    imports: Mapping[str, int] | None = None,
    words: str = _ALONE,
) -> MachineCode:
    """The code of a module of native Python (`codegen.native`).

    name    the name of a function that the module exports
    write   returns the text of the module
    words   a text that distinguishes it from other modules that export the same name
    """
    return codes_of({name: f"{name} {words}"}, lambda _: write(native_module()), imports)[name]


def is_kept(name: str) -> bool:
    """True if the code of a native function has a file on disk, which may be damaged."""
    disk, _ = _kept_by()
    return disk is not None and os.path.exists(os.path.join(disk.folder, _key_alone(name)))


def _key_alone(name: str) -> str:
    return key_of(f"{name} {_ALONE} of {_kept_by()[1]}")


def unknown(names: Iterable[str]) -> set[str]:
    """The elementary functions among these whose code is neither in the process nor on disk."""
    return {name for name in names if not is_kept(name) and (name, f"{name} {_ALONE}", _build()) not in _codes}


def facts(name: str, tell: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Facts about native code, as plain Python data: from disk if they are there, else from `tell()`."""
    disk, identity = _kept_by()
    if disk is None:
        return tell()
    key = key_of(f"facts of {name} of {identity}")
    entry = disk.load(key)
    if entry is None:
        found = tell()
        disk.store([key], marshal.dumps(found, 2), ())  # a format that every version of Python reads
    else:
        found = marshal.loads(entry.object_bytes)
    return found


def native_module() -> Translation:
    """An empty module of native Python, in the build that AUTODIFF_NATIVE_CHECKS chooses."""
    from ..native import Translation  # not needed if the code is on disk

    return Translation(checks=_build() == _CHECKS, faults=_build() == _FAULTS)


#: The builds of native Python beside the usual one: AUTODIFF_NATIVE_CHECKS=1 adds checks, =faults lets a test make each
#: call that may fail do so in turn.
_CHECKS, _FAULTS = " with checks", " with faults"


def _build() -> str:
    return {"1": _CHECKS, "faults": _FAULTS}.get(os.environ.get("AUTODIFF_NATIVE_CHECKS", "0"), "")


def loaded(key: str, disk: DiskCache | None, imports: Mapping[str, int] | None, text: str = "") -> MachineCode | None:
    """The code of the object that is stored under a key; None if there is none that links."""
    entry = disk.load(key) if disk else None
    if entry is None:
        return None
    try:
        return linked(text, entry.object_bytes, entry.exports, imports)
    except CompileError:
        return None  # a valid object that does not link in this process: it is compiled again


def new_code(
    keys: Sequence[str], text: str, disk: DiskCache | None, imports: Mapping[str, int] | None, own: Iterable[str] = ()
) -> MachineCode:
    """Compile a module by LLVM, and store the object under these keys.  Raises CompileError.

    own    the elementary functions that it defines for all modules
    """
    object_bytes, exports = engine.object_of(text)
    code = linked(text, object_bytes, exports, imports)
    share(code, own)
    if disk:
        disk.store([*keys, *map(_key_alone, own)], object_bytes, exports)
    return code


def share(code: MachineCode, own: Iterable[str]) -> None:
    """Let other modules call those functions of a module."""
    for name in own:
        _codes.setdefault((name, f"{name} {_ALONE}", _build()), code)


#: The name of an elementary function that is called, in an object file's table of names.
_CALLED = re.compile(rb"called\.\w+\.(?:v\d+)?f(?:32|64)\b")


def linked(text: str, object_bytes: bytes, exports: Sequence[str], imports: Mapping[str, int] | None) -> MachineCode:
    """Load an object, and the elementary functions that it calls, which are made once for all kernels."""
    names = {name.decode() for name in _CALLED.findall(object_bytes)}.difference(exports)
    if not modes.debug_info:
        codes = codes_of({name: f"{name} {_ALONE}" for name in sorted(names)}, _shared)
        imports = {name: code.address(name) for name, code in codes.items()} | dict(imports or {})
    return engine.link(text, object_bytes, exports, imports)


def _shared(names: Sequence[str]) -> str:
    from ..emit import math, target  # not needed if the code is on disk

    return math.shared(names, target.Target.of(engine.target_features()))
