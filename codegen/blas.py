"""NumPy's BLAS on one thread, so that its results have the same bits on machines with any number of threads.

    with one_thread():          sets BLAS to one thread for the block, if `modes.deterministic`
        np.linalg.svd(a)

NumPy calls a BLAS library (OpenBLAS in its wheels) for products and decompositions.  That library divides a sum among
its threads, and so their number decides the order of the additions.  The number is a setting of the process: during
such a block other Python threads also get BLAS with one thread, which only costs them time.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from .forks import held_over_fork
from .modes import modes
from .records import NamedTuple

#: The names of the functions that get and set the number of threads, in NumPy's wheels and in other builds.
_NAMES = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)


class _Blas(NamedTuple):
    get: Callable[[], int]
    set: Callable[[int], None]


@functools.cache
def _loaded_libraries() -> tuple[_Blas, ...]:
    """The BLAS libraries that this process has loaded."""
    made = []
    for file in _candidate_files():
        try:
            library = ctypes.CDLL(file)
        except OSError:
            continue
        for get, set_ in _NAMES:
            if hasattr(library, get) and hasattr(library, set_):
                getter, setter = getattr(library, get), getattr(library, set_)
                getter.restype, getter.argtypes = ctypes.c_int, []
                setter.restype, setter.argtypes = None, [ctypes.c_int]
                made.append(_Blas(getter, setter))
                break
    return tuple(made)


def _candidate_files() -> list[str]:
    """The files of candidate libraries: those in NumPy's wheel, and those that the process has loaded."""
    from pathlib import Path  # its import takes 3 ms

    numpy = sys.modules.get("numpy")
    found: list[str] = []
    if numpy is not None and numpy.__file__:
        package = Path(numpy.__file__).parent
        for folder in (package.parent / "numpy.libs", package / ".dylibs"):
            found += sorted(map(str, folder.glob("*openblas*")))
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        maps = ""
    for line in maps.splitlines():
        path = line.partition("/")
        if path[1] and any(name in path[2].rpartition("/")[2] for name in ("blas", "mkl_rt")):
            found.append("/" + path[2])
    return list(dict.fromkeys(found))


def is_settable() -> bool:
    """True if the threads of NumPy's BLAS can be set here."""
    return bool(_loaded_libraries())


def threads_of_blas() -> list[int]:
    """The current number of threads of each library."""
    return [blas.get() for blas in _loaded_libraries()]


_lock = held_over_fork(threading.RLock())
#: For each open block of `one_thread`, the numbers of threads to restore.
_inside: list[list[int]] = []


def one_thread() -> AbstractContextManager[None]:
    """A context in which NumPy's BLAS has one thread, if `modes.deterministic`; otherwise a context without effect."""
    return _one_thread() if modes.deterministic else nullcontext()


@contextmanager
def _one_thread() -> Iterator[None]:
    with _lock:
        _inside.append(_inside[-1] if _inside else threads_of_blas())
        for blas in _loaded_libraries():
            blas.set(1)
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            if not _inside:
                for blas, count in zip(_loaded_libraries(), before, strict=True):
                    blas.set(count)
