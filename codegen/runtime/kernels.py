"""The table of compiled kernels: equal text, equal code.

A kernel is identified by its text without its name, so graphs share kernels, and another graph with
equal loops is not compiled again.  Missing kernels are looked up on disk; those that are not on disk
are compiled together as one module, because each module costs a link and three memory maps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..kernel.nest import form_of
from ..lazily import imported, later
from ..modes import modes
from ..records import record
from . import engine, objects
from .cache import LRU
from .disk import DiskCache

if TYPE_CHECKING:
    from .. import emit
    from ..emit import Emitted
    from ..kernel.nest import NestFunction
else:
    emit = later("codegen.emit")

#: A kernel's name in its module is this prefix and its key.
_PREFIX = "k"


@record(frozen=True)
class NativeKernel:
    """A kernel's entry point.  Callers of `address` hold this object, which keeps the code loaded."""

    address: int
    code: engine.MachineCode
    key: str


class KernelTable:
    """Kernels by the key of their text: all that are in use, and the `maxsize` latest used ones.

    disk               a function that returns the disk cache, or None; called when a kernel is missing
    compiled_modules   number of modules that LLVM compiled      disk_objects   number of objects loaded from disk
    """

    def __init__(self, maxsize: int, disk: Callable[[], DiskCache | None] = lambda: None) -> None:
        self._table = LRU(maxsize)
        self._living: dict[str, ref[NativeKernel]] = {}
        self.disk = disk
        self.compiled_modules = self.disk_objects = 0

    def load(self, functions: Iterable[NestFunction | Emitted]) -> dict[int, NativeKernel]:
        """The native kernel of each function, by `id(function)`; the missing ones are compiled together.

        A function that is given as text (`Emitted`) has the name `kernel`.
        """
        features = engine.target_features()
        place_of = imported("codegen.runtime.told").place_of_node if modes.debug_info else None
        own: set[str] | None = set() if place_of is None else None  # only a module that imports nothing keeps its lines
        keys: dict[int, str] = {}
        wanted: dict[str, Emitted] = {}
        of_form: dict[Hashable, str] = {}
        for function in functions:
            form: Hashable = id(function)  # with debug lines no two functions are equal
            if isinstance(function, emit.Emitted):
                form = function.text
            elif place_of is None:
                form = form_of(function)
            if form not in of_form:
                if isinstance(function, emit.Emitted):
                    emitted = function
                elif place_of is None:
                    emitted = emit.emit_function(emit.nameless(function), features)
                else:
                    emitted = emit.emit_function(emit.nameless(function, function.name), features, place_of)
                key = of_form[form] = objects.key_of(emit.module_of([emitted], features, own))
                wanted.setdefault(key, emitted)
            keys[id(function)] = of_form[form]
        disk = functools.cache(self.disk)
        found = self.kept(wanted, disk)
        missing = {
            key: e.named(f"{_PREFIX}{key}" if place_of is None else f"{e.name}.{key}")
            for key, e in wanted.items()
            if key not in found
        }
        if missing:
            if own is not None:
                own = objects.unknown(emit.called_by(missing.values()))
            text = emit.module_of(list(missing.values()), features, own)
            self._keep(objects.new_code(list(missing), text, disk(), None, own or ()), found)
            self.compiled_modules += 1
        return {number: found[key] for number, key in keys.items()}

    def kept(self, keys: Iterable[str], disk: Callable[[], DiskCache | None]) -> dict[str, NativeKernel]:
        """The kernels of those keys that are in the table or on disk.  Loading an object adds all its kernels."""
        found: dict[str, NativeKernel] = {}
        for key in keys:
            native = found.get(key) or self._known(key)
            if native is not None:
                found[key] = native
            elif (code := objects.loaded(key, disk(), None)) is not None:
                self.disk_objects += 1
                self._keep(code, found)
        return found

    def _known(self, key: str) -> NativeKernel | None:
        found = self._table.get(key)
        if found is None and (living := self._living.get(key)) is not None:
            found = living()
        return found

    def _keep(self, code: engine.MachineCode, found: dict[str, NativeKernel]) -> None:
        for name in filter(_is_kernel, code.names):
            key = _key_of(name)
            found[key] = kernel = NativeKernel(code.address(name), code, key)
            self._living[key] = ref(kernel, functools.partial(self._living.pop, key))
            self._table.put(key, found[key])

    def clear(self) -> None:
        """Forget all kernels."""
        self._table.clear()
        self._living.clear()

    @property
    def code_bytes(self) -> int:
        """The total size of the object files of all loaded kernels."""
        kernels = [kernel for r in list(self._living.values()) if (kernel := r()) is not None]  # threads may add to it
        codes: dict[int, Any] = {id(kernel.code): kernel.code for kernel in kernels}
        return sum(code.size for code in codes.values())

    def __len__(self) -> int:
        return len(self._living)


def _is_kernel(name: str) -> bool:
    """True for a function of a module that is no elementary function for all modules."""
    return not name.startswith("called.")


def _key_of(name: str) -> str:
    """The key in a kernel's name in its module: "k" and the key, or with debug info "k0_sum_mul." and the key."""
    return name.rpartition(".")[2].removeprefix(_PREFIX)


def text_of(function: NestFunction) -> str:
    """The text of a function without its name, by which kernels are told apart."""
    features = engine.target_features()
    return emit.module_of([emit.emit_function(emit.nameless(function), features)], features)
