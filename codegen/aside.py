"""What stays to the end of a process, where the collector of cycles does not look at it.

    begun = begin()
    import ...                  all that is made is tracked by the collector, in the order of its making
    put_aside(begun)            and is taken out of its list in one piece; False where that cannot be done

The collector keeps what it tracks in lists, each object linked to the next and the one before.  A process that ends
looks at all of them three times: with this library and NumPy imported that took 32 ms, after a first gradient 46 to 61,
a fifth of all that process took (15 and 21 to 23 ms now).  `gc.freeze` spares that too, but for everything there is, a
file with unwritten lines that a script's globals hold among it.  So what was made in between is taken out, and no more:
its first and last object are linked to each other, as a ring of its own.  What goes of it is unlinked as ever.

When a process ends, modules go, then what they held is collected, then Python clears modules that are still there, the
latest first: a module of ours, at that moment.  If the names of somebody else's module are still held then, something
here holds what is theirs (a method that was added, say): the rings are given back and all is collected once more, as if
nothing had been put aside.  Otherwise they are left to the system.  Files that are still held then write their lines.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import sys
import threading
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType
from typing import Any

__all__ = ["OURS", "begin", "give_back", "put_aside"]

#: The links of an object lie before it: the next one, the one before; the lowest two bits of that say something else.
_Links = ctypes.c_size_t * 2
_BYTES = ctypes.sizeof(_Links)
_FLAGS = 3

#: Threads of these names make nothing that goes.
OURS = "autodiff compiles"

#: Packages that stay with what is put aside, beside Python's own: what they define is nobody's who waits for its end.
_STAY = {"autodiff", "codegen", "llvmlite", "multipledispatch", "numpy", "opt_einsum"}

#: The first and the last object of each ring.
_rings: list[tuple[list[Any], list[Any]]] = []


def _links(found: object) -> Any:
    return _Links.from_address(id(found) - _BYTES)


def _are_linked(first: object, second: object) -> bool:
    return bool(_links(first)[0] == id(second) - _BYTES and _links(second)[1] & ~_FLAGS == id(first) - _BYTES)


def _is_known() -> bool:
    """Whether this Python keeps its lists so."""
    # Flags say that it was built without the interpreter's lock, or to be debugged.
    flags: str = getattr(sys, "abiflags", "")
    if sys.implementation.name != "cpython" or flags or not (3, 11) <= sys.version_info < (3, 14):
        return False
    first, second = [None], [None]
    return _are_linked(first, second)


def _is_alone() -> bool:
    """Whether no other thread makes objects, of which nobody knows how long they stay."""
    ours = {thread.ident for thread in threading.enumerate() if thread.name == OURS}
    return set(sys._current_frames()) - ours == {threading.get_ident()}


class _Begun:
    """Two objects made one after the other, and what would have mixed up the list since."""

    __slots__ = ("before", "first", "mixed")

    def __init__(self) -> None:
        self.mixed = _mixed()
        self.before: list[Any]
        self.first: list[Any]
        # What is put aside keeps this module, which looks at the end.
        self.before, self.first = [None], [_ends]


def _mixed() -> tuple[int, ...]:
    """Other numbers after each collection, and each freezing."""
    return (*[generation["collections"] for generation in gc.get_stats()], gc.get_freeze_count())


def begin() -> _Begun | None:
    """To be called before it is made, while no collection runs by itself."""
    return _Begun() if _is_known() and _is_alone() else None


def put_aside(begun: _Begun | None) -> bool:
    """Put aside what was made since, if that can be done."""
    if begun is None or gc.isenabled() or not _is_alone() or _mixed() != begun.mixed:
        return False
    before, first = begun.before, begun.first
    last, after = [None], [None]
    if not (_are_linked(before, first) and _are_linked(last, after)):
        return False
    # Nobody else changes these links, since the four stay: what is between may go meanwhile, and more come after.
    _link(before, after)
    _link(last, first)
    _rings.append((first, last))
    return True


def _link(first: object, second: object) -> None:
    """Let the second be the one after the first."""
    links = _links(second)
    _links(first)[0] = id(second) - _BYTES
    links[1] = (id(first) - _BYTES) | (links[1] & _FLAGS)


def give_back() -> None:
    """Let the collector look at all of it again.  For a process that ends: nothing else may run meanwhile."""
    gc.disable()
    while _rings:
        first, last = _rings.pop()
        before, after = [None], [None]
        assert _are_linked(before, after), "something was made between two objects"
        _link(before, first)
        _link(last, after)
    gc.enable()


class _Last:
    """What goes when Python begins to clear modules."""

    def __init__(self) -> None:
        #: By identity, which others may have by then: so with what they say.
        self.names = {id(names): names.get("__name__") for names in _names_of_others()}

    def __del__(self) -> None:
        if self._is_held():
            give_back()
            gc.collect()
            if self._is_held():
                _write()

    def _is_held(self) -> bool:
        found = [names for names in gc.get_objects() if id(names) in self.names]
        return any(type(names) is dict and names.get("__name__") == self.names[id(names)] for names in found)


def _write() -> None:
    """Write what files have not written yet: what native code holds never goes (rules of recorded functions)."""
    for found in gc.get_objects():
        if issubclass(type(found), io.TextIOWrapper | io.BufferedWriter | io.BufferedRandom):
            with suppress(Exception):  # closed, or on a full disk: nobody is there to be told
                found.flush()


def _names_of_others() -> list[dict[str, Any]]:
    """What modules hold that are neither ours nor Python's, but for those that are never given up anyway."""
    # Python keeps those that find modules, and extensions keep themselves and what they made (Cython a module, say).
    finders = {getattr(finder, "__module__", None) for finder in (*sys.meta_path, *sys.path_hooks)}
    stay = sys.stdlib_module_names | _STAY | finders
    extensions = tuple(EXTENSION_SUFFIXES)
    found = [vars(module) for module in [sys.modules.get("__main__")] if module]
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if name.partition(".")[0] not in stay and spec and not str(spec.origin).endswith(extensions):
            found.append(vars(module))
    return found


_end = ModuleType("codegen, to the end")


@atexit.register
def _ends() -> None:
    """Be the latest module."""
    _end.last = _Last()  # type: ignore[attr-defined]  # Python sets the names of a module that it clears to None
    sys.modules[_end.__name__] = _end
