"""The compiler's entry points, and an overview of its stages.

    graph     codegen.ir          a recorded program, immutable
      -> optimize                 codegen.passes          graph to graph: fold, simplify, share, drop
      -> plan                     codegen.passes.plan     fusion groups, loop nests, buffers: a program
      -> emit                     codegen.emit            loop nests to LLVM IR text
      -> compile, link            codegen.runtime         text to machine code, cached by text
    executable                    codegen.runtime         called with arrays

`compile_graph` runs all stages and caches the executable by graph shape (`Graph.key`).  `stages` shows each stage as
text.  State: a `Store`, which holds executables by graph shape and families of graphs that differ only in extents; and
a table of kernels by text.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

from . import blas
from .forks import held_over_fork
from .garbage import Paused, PausedForLastingObjects
from .ir import Graph, lines_of
from .lazily import imported
from .modes import modes
from .program import observers
from .records import NamedTuple
from .runtime import disk, engine, kept, native, threads
from .runtime.cache import LRU
from .runtime.kernels import KernelTable

if TYPE_CHECKING:
    from .families import Families
    from .numbers import SizedGraph
    from .program import BufferProgram
    from .runtime.executable import Executable
    from .runtime.stages import Stages
    from .sized_code import SizedCode


class Store:
    """The cache of executables, and the families of graphs that differ only in extents.

    executables    executables by graph shape
    families       the families of graphs (see `codegen.families`); None until a second graph is planned
    first_graphs   the first graph that was planned, until families exist: many programs plan only one graph, and
                   importing `families` takes 2 ms, so the graph's family is made when a second graph comes
    compiles       the number of graphs compiled so far
    """

    __slots__ = ("compiles", "executables", "families", "first_graphs")

    def __init__(self) -> None:
        # A small executable takes about 80 KB, mostly the memory pages of its machine code, so this table and the one
        # of kernels hold about 20 MB.  An executable that a caller holds survives its eviction.  A graph's key takes
        # 110 bytes per operation (graphs of 1,300 and 5,300, by tracemalloc), a `jit` function of 2,600 operations
        # with all its cached data 750 (resident memory): hence the second limit, 100,000 operations in all graphs.
        self.executables = LRU(256, most=100_000)
        self.families: Families | None = None
        self.first_graphs: list[Graph] = []
        self.compiles = 0

    def clear(self) -> None:
        """Drop all graphs and executables.  Counters are not reset."""
        self.executables.clear()
        self.first_graphs.clear()
        if self.families is not None:
            self.families.clear()


#: The store of the current session; a change of session exchanges its contents.  All sessions share kernels by text.
store = Store()
_kernels = KernelTable(256, disk.default)


def _families() -> Families:
    """The table of families of graphs, created at the first call."""
    if store.families is None:
        with PausedForLastingObjects():
            made: Families = _lazy_module("families").Families(_kernels)
            for graph in store.first_graphs:
                made.find(graph)
        store.first_graphs.clear()
        store.families = made
    return store.families


def _has_families() -> bool:
    """True if a graph may belong to a known family."""
    return bool(store.first_graphs) or store.families is not None


#: The lock held during compilation, so that two threads that need the same graph compile it once.
lock = held_over_fork(threading.RLock())
_recordings: list[list[Graph]] = []


def compile_graph(graph: Graph) -> Executable:
    """The executable of a graph, cached by graph shape.

    If memory runs out during compilation, the result evaluates the graph by NumPy and is not cached.
    """
    found = store.executables.get(_key_of(graph))
    if found is not None:
        return found
    with lock:
        key = _key_of(graph)
        if key in store.executables and (found := store.executables.get(key)) is not None:
            return found
        start = perf_counter()
        try:
            executable = _new_executable(graph)
        except native.NO_ROOM:  # NumPy may need less memory
            evaluated: Executable = _lazy_module("runtime.executable").Executable.by_numpy(graph)
            return evaluated
        graph.seconds = perf_counter() - start
        store.executables.put(key, executable, len(graph.nodes))
        store.compiles += 1
        for recording in _recordings:
            recording.append(graph)
    return executable


def compile_sized(graph: SizedGraph, is_small: bool) -> SizedCode | None:
    """The machine code of a graph for any extents, planned for small or for large ones; None if it cannot be made.
    """
    if modes.debug_info or not native.is_native():  # the code has no line numbers, and needs the native launcher
        return None
    with lock, Paused():
        made: SizedCode | None = _lazy_module("sized_code").sized_code(graph, _kernels, is_small)
        store.compiles += made is not None
    return made


def _key_of(graph: Graph) -> Any:
    """The key of an executable: the graph's shape, fast math if on, and source lines if code has debug info."""
    key = ("fast math", graph.key) if modes.fast_math else graph.key
    return (key, lines_of(graph.set_origins())) if modes.debug_info else key


def set_mode(name: str, flag: bool) -> None:
    """Set a mode of the compiler and drop all executables; waits for a compilation that is running."""
    with lock:
        setattr(modes, name, flag)
        clear()


def _new_executable(graph: Graph) -> Executable:
    """The executable of a graph: from its family, from disk, or from a new program.

    The bits of results from a family may depend on the sizes it was used with before, so mode `deterministic` skips it.
    """
    needs_lines = bool(observers) or modes.debug_info  # source lines are needed: families and files on disk have none
    folder, key = None if needs_lines else _kernels.disk(), None
    is_first = not _has_families()
    executable = _lazy_module("runtime.executable").Executable
    with Paused():
        if needs_lines:
            graph.set_origins()
        elif not is_first and not modes.deterministic and (known := _families().find(graph)):
            return known
        if folder:
            key = kept.key_of(graph)
            found = kept.loaded(key, graph.name, _kernels, folder) if key else None
            if found:
                return executable.of(found)
        if is_first:
            store.first_graphs.append(graph)
        program = make_program(graph)
    return executable(program, _kernels, functools.partial(kept.keep, folder, key) if folder and key else None)


def _lazy_module(name: str) -> Any:
    """A module of `codegen` that makes programs, imported at its first use."""
    return imported(f"codegen.{name}")


def is_known(graph: Graph) -> bool:
    """True if the executable of a graph of this shape is cached."""
    return _key_of(graph) in store.executables


def make_program(graph: Graph) -> BufferProgram:
    """The program of a graph, as data: runs the passes, then fusion and storage."""
    made: BufferProgram = _lazy_module("passes.plan").plan(_lazy_module("passes").optimize(graph))
    return made


def stages(graph: Graph) -> Stages:
    """Every stage of compiling this graph, as text.  Nothing is run or cached."""
    from .runtime.stages import Stages  # imports the MLIR printers, which most processes never use

    return Stages(graph, make_program)


def executable(program: BufferProgram) -> Executable:
    """An executable of a program; it is not cached."""
    made: Executable = _lazy_module("runtime.executable").Executable(program, _kernels)
    return made


class CompilerCounts(NamedTuple):
    """Counts of the compiler's work in this process.

    compiles        graphs compiled, for their own extents or for any
    hits, misses    lookups in the cache of executables
    entries         executables in the cache        kernels     kernels in the cache
    modules         modules compiled by LLVM        bytes       size of their object files
    disk_objects    object files loaded from disk instead
    """

    compiles: int
    hits: int
    misses: int
    entries: int
    kernels: int
    modules: int
    bytes: int
    disk_objects: int


def counts() -> CompilerCounts:
    """Counts of the compiler's work so far."""
    return CompilerCounts(
        compiles=store.compiles,
        hits=store.executables.hits,
        misses=store.executables.misses,
        entries=len(store.executables),
        kernels=len(_kernels),
        modules=_kernels.compiled_modules,
        bytes=_kernels.code_bytes,
        disk_objects=_kernels.disk_objects,
    )


def clear() -> None:
    """Drop all executables and kernels, and the free memory of the pool.

    Counters are not reset; an executable that a caller still holds keeps working.
    """
    store.clear()
    _kernels.clear()
    native.trim_pool()


@contextmanager
def recorded(into: list[Any] | None = None) -> Iterator[list[Any]]:
    """A context that records the graphs compiled inside it, in order; `into` is the list to append them to."""
    graphs: list[Any] = [] if into is None else into
    _recordings.append(graphs)
    try:
        yield graphs
    finally:
        _recordings[:] = [r for r in _recordings if r is not graphs]


def facts() -> dict[str, str]:
    """Facts about this machine and installation, by name, as text for display."""
    from .emit.target import Target

    llvmlite, llvm, triple, cpu, *_ = engine.target_key()
    folder = disk.default()
    return {
        "LLVM": f"{llvm.removeprefix('LLVM ')} ({llvmlite})",
        "target": f"{triple}, {cpu}, vectors of {8 * Target.of(engine.target_features()).vector_bytes} bits",
        "calls": "native launcher" if native.is_native() else "ctypes",
        "threads": str(threads.threads()),
        "fast math": "on" if modes.fast_math else "off",
        "debug info": "on" if modes.debug_info else "off",
        "subnormal numbers": "flushed to zero by compiled code" if modes.flush_subnormals else "exact",
        "deterministic": f"{'on' if modes.deterministic else 'off'}; {_blas_threads()}",
        "cache of code": folder.folder if folder else "off",
    }


def _blas_threads() -> str:
    counts = blas.threads_of_blas()
    if not counts:
        return "the threads of NumPy's BLAS cannot be set here"
    return f"NumPy's BLAS has {' and '.join(map(str, counts))} thread{'' if counts == [1] else 's'}"
