"""LLVM, through `llvmlite.binding`, as far as `engine` needs it.

    llvm = library()
    machine = llvm.machine("small", features)
    module = llvm.parsed(text, machine)                 RuntimeError, saying what is wrong with it
    llvm.pipeline(PASSES, machine)(module)
    object = llvm.emitted(machine, module)
    loaded = llvm.linked(llvm.linker(machine, ...), "name", object, imports, exports)       loaded.addresses["f"]

LLVM is loaded when the first code is made: a process that finds all its code on disk never loads it.  llvmlite holds
one lock in every call; the two long calls, passes and code generation, bypass that lock if llvmlite's internals are as
expected.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from ctypes import string_at
from typing import TYPE_CHECKING, Any

import llvmlite

from ..forks import held_over_fork
from ..lazily import later

if TYPE_CHECKING:
    import llvmlite.binding as llvm
else:
    llvm = later("llvmlite.binding")

_FILES = {"win32": "llvmlite.dll", "darwin": "libllvmlite.dylib"}


def version() -> str:
    """llvmlite's version."""
    return llvmlite.__version__


def library_file() -> str:
    """The path of the shared library that contains LLVM."""
    folder = os.path.dirname(llvmlite.__file__)
    return os.path.join(folder, "binding", _FILES.get(sys.platform, "libllvmlite.so"))


_loading = held_over_fork(threading.Lock())
_loaded: list[Library] = []


def library() -> Library:
    """The `Library` of this process, made at the first call."""
    with _loading:
        if not _loaded:
            _loaded.append(Library())
        return _loaded[0]


def is_loaded() -> bool:
    """True if this process has loaded LLVM."""
    return bool(_loaded)


def release_lock() -> None:
    """Release llvmlite's lock if this thread still holds it after an interrupt in its `__enter__` or `__exit__`;
    otherwise all other threads that need LLVM would wait for ever."""
    lock = getattr(getattr(llvm.ffi.lib, "_lock", None), "_lock", None)
    while lock is not None and lock._is_owned():
        lock.release()


class _LibrarysLock:
    """The lock that llvmlite holds in every call of LLVM, also in finalisers, which take no lock of this library."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait for the lock without a timeout: its holder waits for no other lock."""
        llvm.ffi.lib._lock.__enter__()
        return True

    def release(self) -> None:
        """Release the lock."""
        llvm.ffi.lib._lock.__exit__(None, None, None)


_ADDED = {
    "AlwaysInliner": "add_always_inliner_pass", "SROA": "add_sroa_pass", "InstCombine": "add_instruction_combine_pass",
    "NewGVN": "add_new_gvn_pass", "SimplifyCFG": "add_simplify_cfg_pass",
    "GlobalDCE": "add_global_dead_code_eliminate_pass",
}  # fmt: skip


class Library:
    """The functions of LLVM that the compiler uses.  Those that compile or link raise RuntimeError with the reason."""

    def __init__(self) -> None:
        held_over_fork(_LibrarysLock())
        self.llvm_version = "{}.{}.{}".format(*llvm.llvm_version_info)
        self.triple, self.cpu = llvm.get_default_triple, llvm.get_host_cpu_name

    def features(self) -> str:
        """The features of this processor, by name: "+fma,-sse4a"."""
        return llvm.get_host_cpu_features().flatten()

    def machine(self, model: str, features: str) -> Any:
        """LLVM's target machine for the processor of this process, at optimisation level 2."""
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        return llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=features, opt=2, reloc="pic", codemodel=model, jit=True
        )

    def parsed(self, text: str, machine: Any) -> Any:
        """Parse and verify a module, in a new context."""
        module = llvm.parse_assembly(text, llvm.create_context())
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
        return module

    def pipeline(self, passes: Sequence[str], machine: Any) -> Callable[[Any], None]:
        """A function that runs the passes of these names, such as "AlwaysInliner", on a module, in this order.

        After them, no code of a function with the attribute NOT_OPTIMIZED is optimised.
        """
        from ..emit.llvm import NOT_OPTIMIZED  # a program whose code is on disk loads neither

        manager = llvm.create_new_module_pass_manager()
        for name in passes:
            getattr(manager, _ADDED[name])()
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0))
        run = _without_lock(llvm.ffi.lib.LLVMPY_RunNewModulePassManager)

        def optimize(module: Any) -> None:
            run(manager, module, builder)
            for function in module.functions:
                if any([NOT_OPTIMIZED.encode() in text for text in function.attributes]):
                    function.add_function_attribute("optnone")

        return optimize

    def emitted(self, machine: Any, module: Any, *, is_object: bool = True) -> bytes:
        """The object file of a module, or its assembly."""
        library = llvm.ffi.lib
        with llvm.ffi.OutputString() as error:
            emit = _without_lock(library.LLVMPY_TargetMachineEmitToMemory)
            buffer = emit(machine, module, int(is_object), error)
            if not buffer:
                raise RuntimeError(str(error))
        try:
            return string_at(library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer))
        finally:
            library.LLVMPY_DisposeMemoryBuffer(buffer)

    def joined(
        self, modules: Sequence[tuple[str, Mapping[str, str]]], passes: Sequence[str], features: str,
        exports: Collection[str],
    ) -> tuple[bytes, str, list[str]]:  # fmt: skip
        """One object file of several modules, its text, and the functions that it declares and does not define.

        modules   (text, new names of functions) of each module
        exports   the functions that keep external linkage; all others become internal
        """
        machine, context, whole = self.machine("default", features), llvm.create_context(), None
        for text, names in modules:
            module = llvm.parse_assembly(text, context)
            module.triple, module.data_layout = machine.triple, str(machine.target_data)
            module.verify()
            self.pipeline(passes, machine)(module)
            for old, new in names.items():
                module.get_function(old).name = new
            if whole is None:
                whole = module
            else:
                whole.link_in(module)
        assert whole is not None, "an object of no module"
        whole.verify()
        for value in (*whole.functions, *whole.global_variables):
            if not value.is_declaration and value.name not in exports:
                value.linkage = "internal"
        self.pipeline(("GlobalDCE",), machine)(whole)
        declared = [f.name for f in whole.functions if f.is_declaration and not f.name.startswith("llvm.")]
        return self.emitted(machine, whole), str(whole), declared

    def linker(self, machine: Any, *, is_near: bool) -> Any:
        """A linker (LLVM's LLJIT), into which objects are loaded."""
        return llvm.create_lljit_compiler(machine, suppress_errors=True, use_jit_link=is_near)

    def linked(self, linker: Any, name: str, data: bytes, imports: Mapping[str, int], exports: Sequence[str]) -> Any:
        """Load an object file; it stays loaded as long as the returned tracker lives.

        imports     addresses of declared functions, by name; all others are looked up in the process
        """
        library = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
        for symbol, address in imports.items():
            library.import_symbol(symbol, address)
        for symbol in exports:
            library.export_symbol(symbol)
        tracker = library.link(linker, name)
        tracker.addresses = {symbol: tracker[symbol] for symbol in exports}
        return tracker


def _without_lock(function: Any) -> Callable[..., Any]:
    """A function of llvmlite without its global lock, or the locked function if llvmlite's internals have changed."""
    return getattr(function, "_cfn", function)
