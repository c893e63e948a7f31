"""LLVM, through the few functions of llvmlite's library that `engine` needs.

    llvm = library()
    machine = llvm.machine(effort, "small")
    module = llvm.parsed(text, machine)                 RuntimeError, saying what is wrong with it
    llvm.pipeline(PASSES, machine)(module)
    object = llvm.emitted(machine, module)
    loaded = llvm.linked(llvm.linker(machine, ...), "name", object, imports, exports)       loaded["f"]: an address

`llvmlite.binding` declares three hundred functions, and imports for it zipfile, tempfile, random and a builder of IR: a
tenth of what a process needs up to its first gradient.  So for versions of llvmlite whose functions are known the
library is called directly (`Library`).  For others, or where `llvmlite.binding` is imported already, `llvm_binding`
does the same.

Only linking and unloading take a lock: LLVM is thread safe where threads have nothing in common, and `engine` sees to
it that they have not.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import c_bool, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

import llvmlite

from ..ending import has_ended
from ..forks import held_over_fork

__all__ = ["Library", "LinkedCode", "Machine", "is_loaded", "library", "library_file", "version"]

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


# ------------------------------------------------------------ llvmlite's library

#: The parameters and result of each, as letters: p pointer, s bytes, o pointer that it sets, i int, u unsigned, z size,
#: b bool, - nothing.
_TYPES: dict[str, Any] = dict(
    p=c_void_p, s=c_char_p, o=ctypes.POINTER(c_void_p), i=c_int, u=c_uint, z=c_size_t, b=c_bool
)  # fmt: skip
_FUNCTIONS = {
    "DisposeString": "p-", "GetVersionInfo": "u", "InitializeNativeTarget": "-", "InitializeNativeAsmPrinter": "-",
    "GetDefaultTargetTriple": "o-", "GetHostCPUName": "o-", "GetHostCPUFeatures": "oi",
    "GetTargetFromTriple": "sop", "CreateTargetMachine": "psssissiisp", "DisposeTargetMachine": "p-",
    "GetTargetMachineTriple": "po-",
    "CreateTargetMachineData": "pp", "CopyStringRepOfTargetData": "po-", "DisposeTargetData": "p-",
    "ContextCreate": "p", "ContextDispose": "p-",
    "ParseAssembly": "psop", "VerifyModule": "pob", "DisposeModule": "p-", "PrintModuleToString": "po-",
    "SetTarget": "ps-", "SetDataLayout": "ps-",
    "GetNamedFunction": "psp", "GetEnumAttributeKindForName": "szu", "AddFunctionAttr": "pu-",
    "CreateNewModulePassManager": "p", "DisposeNewModulePassManger": "p-", "RunNewModulePassManager": "ppp-",
    "module_AddAlwaysInlinerPass": "p-", "module_AddSROAPass": "p-", "module_AddInstCombinePass": "p-",
    "module_AddNewGVNPass": "p-", "module_AddSimplifyCFGPass": "p-",
    "CreatePipelineTuningOptions": "p", "DisposePipelineTuningOptions": "p-",
    "CreatePassBuilder": "ppp", "DisposePassBuilder": "p-",
    "TargetMachineEmitToMemory": "ppiop", "GetBufferStart": "pp", "GetBufferSize": "pz", "DisposeMemoryBuffer": "p-",
    "CreateLLJITCompiler": "pbbop", "LLJITDispose": "p-",
    "LLJIT_Link": "pspzpzpzop", "LLJIT_Dylib_Tracker_Dispose": "pob",
}  # fmt: skip

#: Held while something is linked or unloaded.
_linking = held_over_fork(threading.RLock())


class _Owned:
    """An object of LLVM's, which goes with this; when the process ends nothing goes."""

    def __init__(self, pointer: int, dispose: Any, *needed: Any) -> None:
        self._as_parameter_ = pointer
        self._dispose = dispose
        self._needed = needed  # what goes after it

    def close(self, has_ended: list[bool] = has_ended) -> None:
        """Let it go now.  What takes long to free is closed: an interrupt within `__del__` would be lost."""
        dispose, self._dispose = self._dispose, None
        if dispose is not None and not has_ended[0]:
            dispose(self)

    __del__ = close


class _Module(_Owned):
    """A module, and the context that it alone is in: which goes after it.

    One object has both.  Of two in a cycle (what an interrupt's traceback holds) either may be finalised first, and a
    context takes its modules with it.
    """

    def __init__(self, pointer: int, dispose: Any, context: _Owned) -> None:
        self._context = context._as_parameter_
        self._dispose_context, context._dispose = context._dispose, None
        super().__init__(pointer, dispose)

    def close(self, has_ended: list[bool] = has_ended) -> None:
        super().close(has_ended)
        dispose, self._dispose_context = self._dispose_context, None
        if dispose is not None and not has_ended[0]:
            dispose(self._context)

    __del__ = close


class _Linker(_Owned):
    """A linker, which code is loaded into: it goes after all of that, also where a cycle has both (see `_Module`)."""

    def __init__(self, pointer: int, dispose: Any) -> None:
        super().__init__(pointer, dispose)
        self.loaded = 0  # what is loaded now; with `_linking`
        self.is_left = False

    def close(self, has_ended: list[bool] = has_ended) -> None:
        with _linking:
            self.is_left = True
            if not self.loaded:
                super().close(has_ended)

    __del__ = close


class Machine(_Owned):
    """Code generation for one kind of processor, and the triple and data layout of its modules."""

    triple: bytes
    layout: bytes


class _Element(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_uint8), ("value", c_char_p), ("size", c_size_t))


class _ExportedSymbol(ctypes.Structure):
    _fields_ = (("name", c_char_p), ("address", c_uint64))


#: Kinds of `_Element`.
_OBJECT, _LIBRARY = 2, 3


def _opened(file: str) -> ctypes.CDLL:
    """A shared library, mapped while other threads run Python, where the system can: LLVM takes 6 ms.

    `ctypes.CDLL` keeps the interpreter to itself meanwhile; a function that ctypes calls does not.
    """
    try:
        dlopen = ctypes.CDLL(None).dlopen
        dlopen.argtypes, dlopen.restype = (c_char_p, c_int), c_void_p
        handle = dlopen(os.fsencode(file), os.RTLD_NOW | os.RTLD_LOCAL)
    except (AttributeError, OSError, TypeError):  # another system, or one that hides it
        handle = None
    return ctypes.CDLL(file, handle=handle) if handle else ctypes.CDLL(file)  # which says why it could not


class Library:
    """The library's functions, called directly."""

    def __init__(self, file: str) -> None:
        loaded = _opened(file)
        for name, letters in _FUNCTIONS.items():
            # By index: a function object of its own, whose types nobody else sets.
            function = loaded[f"LLVMPY_{name}"]
            function.argtypes = [_TYPES[letter] for letter in letters[:-1]]
            function.restype = _TYPES.get(letters[-1])
            setattr(self, f"_{name}", function)
        packed = self._GetVersionInfo()
        self.llvm_version = f"{packed >> 16 & 255}.{packed >> 8 & 255}.{packed & 255}"

    def __getattr__(self, name: str) -> Any:  # the functions, to type checkers
        raise AttributeError(name)

    def _text(self, function: Any, *arguments: Any) -> str:
        """The text that a function writes into its last argument."""
        out = c_void_p()
        function(*arguments, ctypes.byref(out))
        return self._taken(out)

    def _taken(self, out: c_void_p) -> str:
        """A string of LLVM's, which is given back."""
        if not out:
            return ""
        text = ctypes.string_at(out).decode()
        self._DisposeString(out)
        return text

    # ------------------------------------------------------------ this machine

    def triple(self) -> str:
        """The triple that code is made for by default."""
        return self._text(self._GetDefaultTargetTriple)

    def cpu(self) -> str:
        """LLVM's name of this processor."""
        return self._text(self._GetHostCPUName)

    def features(self) -> str:
        """The features of this processor, by name: "+fma,-sse4a"."""
        found = self._text(self._GetHostCPUFeatures).split(",")
        return ",".join(sorted(filter(None, found), key=lambda feature: feature[1:]))

    def machine(self, effort: int, model: str, features: str) -> Machine:
        """Code generation for this very processor: effort 0 is fast, 2 makes fast code.  Raises RuntimeError."""
        self._InitializeNativeTarget()
        self._InitializeNativeAsmPrinter()
        triple, out = self.triple().encode(), c_void_p()
        target = self._GetTargetFromTriple(triple, ctypes.byref(out))
        if not target:
            raise RuntimeError(self._taken(out))
        kind = triple + b"-elf" if sys.platform == "win32" and model == "jitdefault" else triple
        made = self._CreateTargetMachine(
            target, kind, self.cpu().encode(), features.encode(), effort, b"pic", model.encode(), 0, 1, b""
        )
        if not made:
            raise RuntimeError("there is no such target machine")
        machine = Machine(made, self._DisposeTargetMachine)
        machine.triple = self._text(self._GetTargetMachineTriple, machine).encode()
        data = _Owned(self._CreateTargetMachineData(machine), self._DisposeTargetData)
        machine.layout = self._text(self._CopyStringRepOfTargetData, data).encode()
        return machine

    # ------------------------------------------------------------ modules

    def parsed(self, text: str, machine: Machine) -> _Owned:
        """The module of a text, verified, in a context of its own.  Raises RuntimeError."""
        context = _Owned(self._ContextCreate(), self._ContextDispose)
        out = c_void_p()
        pointer = self._ParseAssembly(context, text.encode(), ctypes.byref(out))
        said = self._taken(out)
        if said or not pointer:
            if pointer:
                self._DisposeModule(pointer)
            raise RuntimeError(f"LLVM IR parsing error\n{said}")
        module = _Module(pointer, self._DisposeModule, context)
        self._SetTarget(module, machine.triple)
        self._SetDataLayout(module, machine.layout)
        out = c_void_p()
        is_wrong = self._VerifyModule(module, ctypes.byref(out))
        said = self._taken(out)
        if is_wrong:
            raise RuntimeError(said)
        return module

    def text(self, module: _Owned) -> str:
        """A module as text."""
        return self._text(self._PrintModuleToString, module)

    def pipeline(self, passes: Sequence[str], machine: Machine) -> Callable[[_Owned], None]:
        """A function that changes a module by passes of these names, "AlwaysInliner" say, in this order."""
        manager = _Owned(self._CreateNewModulePassManager(), self._DisposeNewModulePassManger)
        for name in passes:
            getattr(self, f"_module_Add{name}Pass")(manager)
        options = _Owned(self._CreatePipelineTuningOptions(), self._DisposePipelineTuningOptions)
        builder = _Owned(self._CreatePassBuilder(machine, options), self._DisposePassBuilder, options, machine)
        run = self._RunNewModulePassManager
        return lambda module: run(manager, module, builder)

    def spare(self, module: _Owned, names: Iterable[str]) -> None:
        """Have code generated quickly for these functions, which have `noinline`."""
        # Not in the text: passes would write to stderr that they leave such a function out.
        kind = self._GetEnumAttributeKindForName(b"optnone", 7)
        for name in names:
            function = self._GetNamedFunction(module, name.encode())
            if function:
                self._AddFunctionAttr(function, kind)

    def emitted(self, machine: Machine, module: _Owned, *, is_object: bool = True) -> bytes:
        """The object file of a module, or its assembly.  Raises RuntimeError."""
        out = c_void_p()
        buffer = self._TargetMachineEmitToMemory(machine, module, is_object, ctypes.byref(out))
        said = self._taken(out)
        if not buffer:
            raise RuntimeError(said)
        try:
            return ctypes.string_at(self._GetBufferStart(buffer), self._GetBufferSize(buffer))
        finally:
            self._DisposeMemoryBuffer(buffer)

    # ------------------------------------------------------------ linking

    def linker(self, machine: Machine, *, is_near: bool) -> _Linker:
        """A linker, which code is loaded into.  Raises RuntimeError."""
        out = c_void_p()
        with _linking:
            made = self._CreateLLJITCompiler(machine, True, is_near, ctypes.byref(out))
        if not made:
            raise RuntimeError(self._taken(out))
        return _Linker(made, self._LLJITDispose)

    def linked(
        self, linker: _Linker, name: str, data: bytes, imports: Mapping[str, int], exports: Sequence[str]
    ) -> LinkedCode:
        """An object file in memory, for as long as what is returned lives.  Raises RuntimeError.

        imports     addresses of what it declares; else it is looked for in the process
        """
        elements = (_Element * 2)(_Element(_OBJECT, data, len(data)), _Element(_LIBRARY, b"", 0))
        symbols = [_ExportedSymbol(n.encode(), address) for n, address in imports.items()]
        known = (_ExportedSymbol * len(symbols))(*symbols)
        found = (_ExportedSymbol * len(exports))(*[_ExportedSymbol(n.encode(), 0) for n in exports])
        out = c_void_p()
        with _linking:
            tracker = self._LLJIT_Link(
                linker, name.encode(), elements, 2, known, len(known), found, len(found), ctypes.byref(out)
            )
            linker.loaded += bool(tracker)
        if not tracker:
            raise RuntimeError(self._taken(out))
        loaded = LinkedCode(tracker, self._unload)
        loaded.linker = linker
        loaded.addresses = {name: symbol.address for name, symbol in zip(exports, found, strict=True)}
        return loaded

    def _unload(self, loaded: LinkedCode) -> None:
        out = c_void_p()
        with _linking:
            self._LLJIT_Dylib_Tracker_Dispose(loaded, ctypes.byref(out))
            linker = loaded.linker
            linker.loaded -= 1
            if linker.is_left:
                linker.close()
        self._taken(out)


class LinkedCode(_Owned):
    """Linked code; it is unloaded when this goes."""

    linker: _Linker
    addresses: dict[str, int]
