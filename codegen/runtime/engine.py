"""Machine code: LLVM IR text in, addresses out.

    text --parse, verify--> module --pass pipeline--> optimised --code generation--> object --link--> addresses

`object_of` makes the object file, which the disk cache stores (see `objects`); `link` loads an object file; `compile`
does both.  A `MachineCode` owns the loaded code: every caller of one of its addresses must hold the `MachineCode`,
because a call of unloaded code crashes the process.

LLVM is loaded at its first use, and compiles one module at a time (`_Compiler`), on a thread whose stack is deep enough
(`with_deep_stack`).
"""

from __future__ import annotations

import functools
import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

from ..forks import held_over_fork, renewed_in_child
from ..garbage import Paused
from ..lazily import imported
from ..modes import modes
from . import elf, machine
from .disk import FORMAT, blake2b, default
from .llvm import is_loaded, library, library_file, release_lock, version

#: True if a module lies in one piece of memory, so that code addresses its constants relative to the instruction: two
#: instructions fewer for each constant in a loop.  LLVM's linker that guarantees this is too new on Windows.
_IS_NEAR = sys.platform != "win32"

_Made = TypeVar("_Made")

_lock = held_over_fork(threading.RLock())
_library_numbers = itertools.count()


#: LLVM's passes over a module: inline, remove common subexpressions, simplify.  Loops are already written as vectors.
#: LLVM's usual passes take up to ten times as long and give no better code: 26 ms against 4 for the gradient of the
#: benchmark `chain`.  NewGVN is there for inlined functions with common steps, such as sin and cos of one number.
_PASSES = ("AlwaysInliner", "SROA", "InstCombine", "NewGVN", "SimplifyCFG")


class CompileError(RuntimeError):
    """LLVM refused text that this library generated: a defect of the library, not of the caller.

    text    the whole module, for inspection
    """

    def __init__(self, stage: str, message: str, text: str) -> None:
        super().__init__(f"LLVM could not {stage} a generated module: {message.strip()}\n(the module is in `.text`)")
        self.text = text


class MachineCode:
    """Linked machine code of one module, loaded as long as this object lives.

    size   of the object file in bytes
    """

    __slots__ = ("__weakref__", "_addresses", "_loaded", "size")

    def __init__(self, size: int, loaded: Any) -> None:
        self.size = size
        self._loaded = loaded  # its finaliser unloads the code
        self._addresses: dict[str, int] = loaded.addresses

    def address(self, name: str) -> int:
        """The address of a function.  Raises KeyError for a name the module does not define."""
        return self._addresses[name]

    @property
    def names(self) -> tuple[str, ...]:
        """The functions that have an address, in the module's order."""
        return tuple(self._addresses)


def compile(text: str, imports: Mapping[str, int] | None = None) -> MachineCode:
    """Machine code of a module of LLVM IR text.

    `imports` gives the addresses of functions that the text only declares; declared functions that are
    not in `imports` are looked up among the symbols of the process (libm, the C library).  Every function
    that the module defines with external linkage gets an address.

    Raises CompileError, also for a declared function that is not found.
    """
    object_bytes, exports = object_of(text)
    return link(text, object_bytes, exports, imports)


def object_of(text: str) -> tuple[bytes, tuple[str, ...]]:
    """The object file of a module, and the names of the functions that it exports."""
    return with_deep_stack(_object_of, text)


def _object_of(text: str) -> tuple[bytes, tuple[str, ...]]:
    def emitted(module: Any) -> bytes:
        try:
            return library().emitted(_compiler.machine, module)
        except RuntimeError as error:
            raise CompileError("generate code for", str(error), text) from error

    return _compiler.finished(text, emitted), exported_names(text)


def link(
    text: str, object_bytes: bytes, exports: Iterable[str], imports: Mapping[str, int] | None = None
) -> MachineCode:
    """Load an object file made by `object_of` from `text`.  Raises CompileError."""
    exports = tuple(exports)
    loaded: Any
    if modes.debug_info and not imports and b".debug_line\0" in object_bytes:
        loaded = imported("codegen.runtime.debugged").linked(object_bytes, exports)
    else:
        loaded = elf.linked(object_bytes, imports or {}, exports)
    if loaded is None:
        loaded = with_deep_stack(_linked_by_llvm, text, object_bytes, imports or {}, exports)
    return MachineCode(len(object_bytes), loaded)


def _linked_by_llvm(text: str, object_bytes: bytes, imports: Mapping[str, int], exports: Sequence[str]) -> Any:
    with Paused(), _lock:
        try:
            return library().linked(
                _present_linker(), f"library{next(_library_numbers)}", object_bytes, imports, exports
            )
        except RuntimeError as error:
            declared = ", ".join(re.findall(r"^declare [^@]*@([\w.]+)", text, re.MULTILINE))
            raise CompileError("link", f"{error}\nit declares: {declared or 'nothing'}", text) from error


def joined(modules: Sequence[tuple[str, Mapping[str, str]]], exports: Sequence[str]) -> tuple[bytes, str, list[str]]:
    """One object file of several modules, its text after the passes, and the external functions that it calls.

    modules   (text, new names of functions) of each module
    exports   the functions that keep external linkage
    """
    return with_deep_stack(library().joined, modules, _PASSES, target_features(), exports)


def optimized_text(text: str) -> str:
    """A module's LLVM text after the passes."""
    return with_deep_stack(lambda: _compiler.finished(text, str))


def assembly_text(text: str) -> str:
    """A module's assembly for this machine."""
    found: bytes = with_deep_stack(
        _compiler.finished, text, lambda module: library().emitted(_compiler.machine, module, is_object=False)
    )
    return found.decode()


def target_key() -> tuple[str, ...]:
    """The facts that machine code depends on besides its text: versions, triple, processor, options."""
    return (
        *_compiler.target,
        "opt 2, loops written as vectors, small code model" if _IS_NEAR else "opt 2, loops written as vectors",
    )


def target_features() -> str:
    """The features of this processor, as LLVM writes them: "+fma,-sse4a,..."."""
    return _compiler.target[-1]


def _llvm_target() -> tuple[str, ...]:
    llvm = library()
    return (f"llvmlite {version()}", f"LLVM {llvm.llvm_version}", llvm.triple(), llvm.cpu(), llvm.features())


def exported_names(text: str) -> tuple[str, ...]:
    """The functions of a module that get an address: those defined neither `internal` nor `private`.

    Parsing with LLVM or with a regular expression takes ten times as long.
    """
    lines = [rest.partition("\n")[0] for rest in f"\n{text}".split("\ndefine ")[1:]]
    exported = [line for line in lines if not line.startswith(("internal ", "private "))]
    return tuple([line.partition("@")[2].partition("(")[0] for line in exported])


class _Compiler:
    """A compiler of one module at a time: only the thread that holds `lock` may use the machine and the passes."""

    def __init__(self) -> None:
        self.lock = held_over_fork(threading.RLock())

    @functools.cached_property
    def target(self) -> tuple[str, ...]:
        """The versions of llvmlite and LLVM, the triple, the processor and its features, as LLVM writes them.

        They are cached on disk for one processor identity and one file of the LLVM library, so that a process that
        finds all its code on disk never loads LLVM.
        """
        disk, said = default(), machine.identity()
        if disk is None or said is None or is_loaded():
            return with_deep_stack(_llvm_target)
        parts = (b"target", str(FORMAT).encode(), version().encode(), machine.file_identity(library_file()), said)
        key = blake2b(b"\0".join(parts), digest_size=16).hexdigest()
        entry = disk.load(key)
        if entry is None:
            found = with_deep_stack(_llvm_target)
            disk.store([key], "\n".join(found).encode(), [])
            return found
        return tuple(entry.object_bytes.decode().split("\n"))

    @functools.cached_property
    def machine(self) -> Any:
        """LLVM's target machine, for the processor of this process."""
        return library().machine("small" if _IS_NEAR else "jitdefault", target_features())

    @functools.cached_property
    def _pipeline(self) -> Callable[[Any], None]:
        """The pass pipeline.  It is made once, because llvmlite leaks 10 KB for each pipeline."""
        return library().pipeline(_PASSES, self.machine)

    def finished(self, text: str, finish: Callable[[Any], _Made]) -> _Made:
        """Parse and verify a module, run the passes, and return finish(module)."""
        with self.lock:
            try:
                parsed = library().parsed(text, self.machine)
            except RuntimeError as error:
                raise CompileError("read", str(error), text) from error
            with closing(parsed) as module:
                self._pipeline(module)
                return finish(module)


_compiler = _Compiler()


#: The number of modules that share a linker.
_PER_LINKER = 64

_linkers: list[Any] = []  # at most one: the linker in use
_linked = itertools.count()


def _present_linker() -> Any:
    """The linker for the next module.

    Making a linker takes a millisecond, adding a module a quarter of one, so modules share a linker.  A
    linker keeps 10 KB for every module that was ever added, so it is replaced after `_PER_LINKER` modules.
    The tracker of each module holds its linker, which is freed with the last of its modules.
    """
    if next(_linked) % _PER_LINKER == 0:
        # The linker only reads the target of the machine, which is safe while another thread compiles with it.
        _linkers[:] = [library().linker(_compiler.machine, is_near=_IS_NEAR)]
    return _linkers[0]


# ------------------------------------------------------------ threads with small stacks

#: LLVM needs between 64 and 96 KB of stack to compile a sort of rows (Zen 4), and more for deeper nesting.  A program
#: with many threads may set `threading.stack_size` to less than the system's 8 MB.
_ENOUGH, _DEEP = 1 << 20, 8 << 20

_starting = renewed_in_child(globals(), "_starting")


class _Deep(threading.Thread):
    """A thread with a deep stack, independent of the program's `threading.stack_size`."""

    def start(self) -> None:
        with _starting:
            before = threading.stack_size(_DEEP)  # returns the previous size
            try:
                if before == 0 or before >= _ENOUGH:
                    threading.stack_size(before)
                super().start()
            finally:
                threading.stack_size(before)


def with_deep_stack(make: Callable[..., _Made], *arguments: Any) -> _Made:
    """Return `make(*arguments)`, called in a thread with a deep stack if the stack of this thread may be small.

    Every use of LLVM goes through this function, which releases LLVM's lock after an interrupt.
    """
    me = threading.current_thread()
    made: list[_Made] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            made.append(with_deep_stack(make, *arguments))
        except BaseException as error:
            raised.append(error)

    if not isinstance(me, _Deep) and me is not threading.main_thread():
        thread = _Deep(target=work, name="autodiff compiles")
        try:
            thread.start()
        except RuntimeError:
            pass  # the system starts no more threads
        else:
            thread.join()
            if raised:
                raise raised.pop()
            return made[0]
    try:
        return make(*arguments)
    finally:
        if is_loaded():
            release_lock()
