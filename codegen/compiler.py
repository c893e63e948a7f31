"""The compiler on one page.

    graph     codegen.ir          what was recorded, frozen
      -> optimize                 codegen.passes          graph to graph: fold, simplify, share, drop
      -> plan                     codegen.passes.plan     fusion groups, loop nests, buffers: a program
      -> emit                     codegen.emit            loop nests to LLVM IR text
      -> compile, link            codegen.runtime         text to machine code, kept per text
    executable                    codegen.runtime         called with arrays

`compile_graph` does all of it and keeps the result per graph shape (`Graph.key`).  `stages` shows each
step of it as text.  State: a `Store` of executables by graph shape and of families of graphs that differ in extents
alone; kernels by text.
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
from .garbage import Lasting, Paused
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
    """The executables of graphs that were compiled, and what is known of graphs that differ in extents alone.

    executables    by the shape of a graph
    families       of graphs, from the second one on: see `codegen.families`
    first          the first graph that was planned: most programs have one at their start, and importing families
                   takes 2 ms, so its family is looked at when there is another graph
    compiles       how many graphs were compiled so far
    """

    __slots__ = ("compiles", "executables", "families", "first")

    def __init__(self) -> None:
        # A small executable takes some 80 KB, most of it its module of machine code, which has pages of its own: this
        # table and that of kernels hold some twenty MB.  What somebody holds lives on when they forget it.  The key of
        # a graph takes 110 bytes an operation (1,300 and 5,300 of them, by tracemalloc), a `jit` function of 2,600 with
        # all that is kept of it 750 (resident memory): of large graphs fewer are kept.
        self.executables = LRU(256, most=100_000)
        self.families: Families | None = None
        self.first: list[Graph] = []
        self.compiles = 0

    def clear(self) -> None:
        """Forget all graphs.  Counters go on."""
        self.executables.clear()
        self.first.clear()
        if self.families is not None:
            self.families.clear()


#: The executables of the current session, which exchanges the contents.  All sessions share kernels, by their text.
store = Store()
_kernels = KernelTable(256, disk.default)


def _families() -> Families:
    """The table of families of graphs."""
    if store.families is None:
        with Lasting():
            made: Families = _making("families").Families(_kernels)
            for graph in store.first:
                made.find(graph)
        store.first.clear()
        store.families = made
    return store.families


def _has_families() -> bool:
    """True if a graph may belong to a known family."""
    return bool(store.first) or store.families is not None


#: Held while compiling: two threads that ask for the same graph compile it once.
lock = held_over_fork(threading.RLock())
_recordings: list[list[Graph]] = []


def compile_graph(graph: Graph) -> Executable:
    """The executable of a graph; the same one for every graph of its shape.

    Where there is no memory to compile it NumPy evaluates it, for this once.
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
            executable = _made(graph)
        except native.NO_ROOM:  # NumPy may do with less
            evaluated: Executable = _making("runtime.executable").Executable.by_numpy(graph)
            return evaluated
        graph.seconds = perf_counter() - start
        store.executables.put(key, executable, len(graph.nodes))
        store.compiles += 1
        for recording in _recordings:
            recording.append(graph)
    return executable


def compile_sized(graph: SizedGraph, is_small: bool) -> SizedCode | None:
    """The machine code of a graph for any extents, as it is planned for small or large ones; None where there is none.
    """
    if modes.debug_info or not native.is_native():  # it has no lines; or nothing runs it
        return None
    with lock, Paused():
        made: SizedCode | None = _making("sized_code").sized_code(graph, _kernels, is_small)
        store.compiles += made is not None
    return made


def _key_of(graph: Graph) -> Any:
    """The key of an executable: the graph's shape, and the modes that it is compiled in; its lines if code has them."""
    key = ("fast math", graph.key) if modes.fast_math else graph.key
    return (key, lines_of(graph.tell())) if modes.debug_info else key


def set_mode(name: str, flag: bool) -> None:
    """Compile like this from now on; what is compiled at this moment is finished first."""
    with lock:
        setattr(modes, name, flag)
        clear()


def _made(graph: Graph) -> Executable:
    """The executable of a graph: by its family, from disk, or from a program that is made now.

    Its bits may depend on the sizes that its family came with before; not if results are to be deterministic.
    """
    is_told = bool(observers) or modes.debug_info  # its lines count, of which no other graph and no file knows
    folder, key = None if is_told else _kernels.disk(), None
    is_first = not _has_families()
    executable = _making("runtime.executable").Executable
    with Paused():
        if is_told:
            graph.tell()
        elif not is_first and not modes.deterministic and (known := _families().find(graph)):
            return known
        if folder:
            key = kept.key_of(graph)
            found = kept.loaded(key, graph.name, _kernels, folder) if key else None
            if found:
                return executable.of(found)
        if is_first:
            store.first.append(graph)
        program = make_program(graph)
    return executable(program, _kernels, functools.partial(kept.keep, folder, key) if folder and key else None)


def _making(name: str) -> Any:
    """A module of those that make programs: imported when the first is made."""
    return imported(f"codegen.{name}")


def is_known(graph: Graph) -> bool:
    """True if the executable of a graph of this shape is kept."""
    return _key_of(graph) in store.executables


def make_program(graph: Graph) -> BufferProgram:
    """The program of a graph, as data: the passes, then fusion and storage."""
    made: BufferProgram = _making("passes.plan").plan(_making("passes").optimize(graph))
    return made


def stages(graph: Graph) -> Stages:
    """Every stage of this graph as text.  Runs nothing and keeps nothing."""
    from .runtime.stages import Stages  # the printers of MLIR: most programs never look

    return Stages(graph, make_program)


def executable(program: BufferProgram) -> Executable:
    """An executable of a program, which nobody keeps."""
    made: Executable = _making("runtime.executable").Executable(program, _kernels)
    return made


class CompilerCounts(NamedTuple):
    """Counts of the compiler's work in this process.

    compiles        graphs compiled, for their size or for any
    hits, misses    of the table of executables
    entries         executables kept                kernels     kernels kept
    modules         modules given to LLVM           bytes       their object files
    disk_objects    objects that were found on disk instead
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
    """Forget all executables and kernels, and what the pool keeps.

    Counters go on; what somebody still holds goes on working.
    """
    store.clear()
    _kernels.clear()
    native.trim_pool()


@contextmanager
def recorded(into: list[Any] | None = None) -> Iterator[list[Any]]:
    """The graphs that are compiled inside, in order; `into` is the list to append them to."""
    graphs: list[Any] = [] if into is None else into
    _recordings.append(graphs)
    try:
        yield graphs
    finally:
        _recordings[:] = [r for r in _recordings if r is not graphs]


def facts() -> dict[str, str]:
    """Facts about this machine and installation, in words."""
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
        "deterministic": f"{'on' if modes.deterministic else 'off'}; {_of_blas()}",
        "cache of code": folder.folder if folder else "off",
    }


def _of_blas() -> str:
    counts = blas.threads_of_blas()
    if not counts:
        return "the threads of NumPy's BLAS cannot be set here"
    return f"NumPy's BLAS has {' and '.join(map(str, counts))} thread{'' if counts == [1] else 's'}"
