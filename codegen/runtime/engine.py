"""Machine code: LLVM IR text in, addresses out.  The one file of the runtime that knows llvmlite.

    text --parse, verify--> module --pass pipeline--> optimised --code generation--> object --link--> addresses

`object_of` goes as far as the object (what the disk cache keeps, see `objects`), `link` does the rest,
and `compile` is both.  A `Code` owns what it linked: whoever may still call an address of it must hold
it, because unloading code that somebody calls ends the process.

llvmlite holds one lock in every call of LLVM.  The two long ones, passes and code generation, go past it, for LLVM
itself is thread safe where threads have nothing in common: each takes a `_Compiler` of its own.  So modules can be
compiled beside each other (`ahead`).
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import string_at
from enum import Enum
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from ..forks import held_over_fork

__all__ = [
    "Code",
    "CompileError",
    "Passes",
    "assembly_text",
    "compile",
    "link",
    "object_of",
    "optimized_text",
    "target_features",
    "target_key",
]

#: Whether a module lies in one piece of memory, so that an instruction finds its constants relative to itself.
#: For JITs LLVM's default is that they may be anywhere, which costs two instructions for each constant in a
#: loop (Black-Scholes of 1e6: 12.3 against 11.1 ms).  The linker that promises it also links in 250 us where the
#: other takes 310; for Windows it is young.
_IS_NEAR = sys.platform != "win32"



class _LibrarysLock:
    """The lock that llvmlite holds in every call of LLVM, those of finalisers too, which take none of ours."""

    def acquire(self) -> None:
        """Wait for it."""
        llvm.ffi.lib._lock.__enter__()

    def release(self) -> None:
        """Give it back."""
        llvm.ffi.lib._lock.__exit__(None, None, None)


held_over_fork(_LibrarysLock())
_lock = held_over_fork(threading.RLock())
_library_numbers = itertools.count()


class Passes(Enum):
    """What LLVM is asked to do with a module before it generates code.

    ALL       its usual optimisations, loops made into vectors included
    VECTORS   for loops already written as vectors: inline, share, simplify.  A tenth of the time of
              ALL, and the same code or better: gradient of the chain of FACTS 9, 26 ms against 4
    INLINE    the text has nothing to optimise: functions marked so are inlined, no more
    QUICK     the same, and code is generated in a fifth of the time: where it hardly ever runs
    """

    ALL = "all"
    VECTORS = "vectors"
    INLINE = "inline"
    QUICK = "quick"


_CODE_GENERATION = {Passes.ALL: 2, Passes.VECTORS: 2, Passes.INLINE: 2, Passes.QUICK: 0}


class CompileError(RuntimeError):
    """LLVM refused text that this library made: a defect of ours, not of the caller.

    text    the whole module, to be looked at
    """

    def __init__(self, stage: str, message: str, text: str) -> None:
        super().__init__(f"LLVM could not {stage} a generated module: {message.strip()}\n(the module is in `.text`)")
        self.text = text


class Code:
    """Linked machine code of one module.

    Loaded as long as this object lives.  `optimized` and `assembly` are made from the text when
    somebody looks, since almost nobody does; where the text was not kept they are empty.

    size   of the object file in bytes
    """

    __slots__ = ("__weakref__", "_addresses", "_passes", "_tracker", "size", "text")

    def __init__(self, text: str, size: int, tracker: Any, addresses: Mapping[str, int], passes: Passes) -> None:
        self.text = text
        self._passes = passes
        self.size = size
        self._tracker = tracker  # disposing of it unloads the code
        self._addresses = dict(addresses)

    def address(self, name: str) -> int:
        """Where the function starts.  Raises KeyError for a name the module does not define."""
        return self._addresses[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The functions that have an address, in the module's order."""
        return tuple(self._addresses)

    @property
    def optimized(self) -> str:
        """The module as LLVM text after the pass pipeline."""
        return optimized_text(self.text, self._passes) if self.text else ""

    @property
    def assembly(self) -> str:
        """The module as assembly of this machine."""
        return assembly_text(self.text, self._passes) if self.text else ""


def compile(text: str, imports: Mapping[str, int] | None = None, passes: Passes = Passes.ALL) -> Code:
    """Machine code of a module of LLVM IR text.

    `imports` gives the addresses of functions that the text only declares; others are looked for
    among the symbols of the process (libm, the C library).  Every function that the module defines
    with external linkage gets an address.

    Raises CompileError, also for a declared function that is nowhere.
    """
    object_bytes, exports = object_of(text, passes)
    return link(text, object_bytes, exports, imports, passes)


def object_of(text: str, passes: Passes = Passes.ALL) -> tuple[bytes, tuple[str, ...]]:
    """The object file of a module, and the names of the functions that it exports."""
    with _compiler() as compiler:
        module = compiler.optimized(text, passes)
        try:
            return _emitted(compiler.machine(_CODE_GENERATION[passes]), module), tuple(_EXPORTED.findall(text))
        except RuntimeError as error:
            raise CompileError("generate code for", str(error), text) from error


def link(
    text: str,
    object_bytes: bytes,
    exports: Iterable[str],
    imports: Mapping[str, int] | None = None,
    passes: Passes = Passes.ALL,
    *,
    keeps_text: bool = True,
) -> Code:
    """Load an object file made by `object_of` from `text`.  Raises CompileError."""
    exports = tuple(exports)
    library = llvm.JITLibraryBuilder().add_object_img(object_bytes).add_current_process()
    for name, address in (imports or {}).items():
        library.import_symbol(name, address)
    for name in exports:
        library.export_symbol(name)
    with _lock:
        try:
            tracker = library.link(_present_linker(), f"library{next(_library_numbers)}")
        except RuntimeError as error:
            declared = ", ".join(re.findall(r"^declare [^@]*@([\w.]+)", text, re.MULTILINE))
            raise CompileError("link", f"{error}\nit declares: {declared or 'nothing'}", text) from error
    addresses = {name: tracker[name] for name in exports}
    return Code(text if keeps_text else "", len(object_bytes), tracker, addresses, passes)


def optimized_text(text: str, passes: Passes = Passes.ALL) -> str:
    """A module's LLVM text after the passes."""
    with _compiler() as compiler:
        return str(compiler.optimized(text, passes))


def assembly_text(text: str, passes: Passes = Passes.ALL) -> str:
    """A module's assembly for this machine."""
    with _compiler() as compiler:
        return compiler.machine(_CODE_GENERATION[passes]).emit_assembly(compiler.optimized(text, passes))


@functools.cache
def target_key() -> tuple[str, ...]:
    """What machine code depends on besides its text: versions, triple, processor, options."""
    return (
        f"llvmlite {llvmlite.__version__}",
        "LLVM {}.{}.{}".format(*llvm.llvm_version_info),
        llvm.get_default_triple(),
        llvm.get_host_cpu_name(),
        target_features(),
        "opt 2, loops written as vectors, small code model" if _IS_NEAR else "opt 2, loops written as vectors",
    )


#: A definition that says nothing of its linkage.  Asking LLVM takes four calls for each function.
_EXPORTED = re.compile(r"^define (?!internal |private )[^@]*@([\w.]+)\(", re.MULTILINE)


class _Compiler:
    """What compiles one module at a time: machines and passes are for one thread."""

    def __init__(self) -> None:
        self.lock = held_over_fork(threading.RLock())
        self._machines: dict[int, Any] = {}
        self._vector_passes: tuple[Any, Any] | None = None

    def machine(self, effort: int) -> Any:
        """Code generation for this very processor, made once per effort: 0 is fast, 2 makes fast code."""
        if effort not in self._machines:
            self._machines[effort] = _target_machine(effort)
        return self._machines[effort]

    def optimized(self, text: str, passes: Passes) -> Any:
        """Parse, verify, run the passes."""
        machine = self.machine(2)
        try:
            # A context of its own: a context keeps the constants and types of every module that it ever had.
            module = llvm.parse_assembly(text, llvm.create_context())
            module.triple = machine.triple
            module.data_layout = str(machine.target_data)
            module.verify()
        except RuntimeError as error:
            raise CompileError("read", str(error), text) from error
        manager, builder = self._passes_over_vectors() if passes is Passes.VECTORS else self._usual_passes(passes)
        _beside_others(llvm.ffi.lib.LLVMPY_RunNewModulePassManager)(manager, module, builder)
        return module

    def _usual_passes(self, passes: Passes) -> tuple[Any, Any]:
        """LLVM's own passes; the next module needs new ones."""
        builder = self._builder(2 if passes is Passes.ALL else 0)
        return builder.getModulePassManager(), builder

    def _passes_over_vectors(self) -> tuple[Any, Any]:
        """The passes over modules that are written as vectors: made once, since llvmlite never frees 10 KB of each."""
        if self._vector_passes is None:
            manager = llvm.create_new_module_pass_manager()
            manager.add_always_inliner_pass()
            manager.add_sroa_pass()
            manager.add_instruction_combine_pass()
            # Functions inlined side by side, sin and cos of one number say, have steps in common.
            manager.add_new_gvn_pass()
            manager.add_simplify_cfg_pass()
            self._vector_passes = manager, self._builder(0)
        return self._vector_passes

    def _builder(self, effort: int) -> Any:
        tuning = llvm.create_pipeline_tuning_options(speed_level=effort)
        tuning.loop_vectorization = True
        # Straight-line vectorising costs a third of the compile time and gains nothing: the loops are the work.
        tuning.slp_vectorization = False
        return llvm.create_pass_builder(self.machine(2), tuning)


#: As many modules can be compiled at once.
_compilers = [_Compiler() for _ in range(4)]


@contextmanager
def _compiler() -> Iterator[_Compiler]:
    """A compiler that nobody else uses meanwhile."""
    found = next((c for c in _compilers if c.lock.acquire(blocking=False)), None)
    if found is None:
        found = _compilers[0]
        found.lock.acquire()
    try:
        yield found
    finally:
        found.lock.release()


def _beside_others(function: Any) -> Callable[..., Any]:
    """A function of llvmlite's library without the lock of all; with it where llvmlite is made in another way."""
    return getattr(function, "_cfn", function)


def _emitted(machine: Any, module: Any) -> bytes:
    """The object file of a module, as `machine.emit_object(module)` gives it.  Raises RuntimeError."""
    library = llvm.ffi.lib
    with llvm.ffi.OutputString() as error:
        buffer = _beside_others(library.LLVMPY_TargetMachineEmitToMemory)(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return string_at(library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer))
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)


@functools.cache
def target_features() -> str:
    """What this processor can do, as LLVM writes it: "+fma,-sse4a,..."."""
    return llvm.get_host_cpu_features().flatten()


def _target_machine(effort: int) -> Any:
    """Code generation for this very processor."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=target_features(),
        opt=effort,
        reloc="pic",
        codemodel="small" if _IS_NEAR else "jitdefault",
        jit=True,
    )


#: Modules that share a linker.
_PER_LINKER = 64

_linkers: list[Any] = []  # the present one
_linked = itertools.count()


def _present_linker() -> Any:
    """The linker for the next module.

    A linker costs a millisecond, and a module in it a quarter of one; so they share.  But a linker
    keeps 10 KB of every module that it ever had; so they share for a while only.  Each module's tracker
    holds its linker, which goes with the last of them.
    """
    if next(_linked) % _PER_LINKER == 0:
        machine = _compilers[0].machine(2)  # asked for its target only, which may be done while it is in use
        _linkers[:] = [llvm.create_lljit_compiler(machine, suppress_errors=True, use_jit_link=_IS_NEAR)]
    return _linkers[0]
