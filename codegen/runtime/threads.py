"""The number of threads that share a large loop, and their code.

The number is AUTODIFF_THREADS; else OMP_NUM_THREADS, which Dask, Ray and joblib set for their workers; else the number
of processors that the calling thread may use when the loop begins (its affinity).  The last two are never more than the
processors that the process's cgroup pays for (`machine`).  The number changes nothing but time: results have the same
bits for any (`share`, `products`).

The code (`shared_blocks`) is made when the first program with a large loop is, and is never unloaded: sleeping threads
wake up in it.

`threadpoolctl`, which lists and limits the threads of all libraries in a process, knows of ours:

    with threadpoolctl.threadpool_limits(1): ...    # our loops run on one thread, too

It finds a library by a shared file that the process has loaded.  Our code is in none, so we answer for NumPy's, which
is always loaded.  Nothing is imported: the controller is registered when somebody imports `threadpoolctl`, before or
after us.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from importlib.machinery import ModuleSpec, PathFinder
from operator import index
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..forks import held_over_fork
from ..lazily import later
from . import engine, machine, objects
from .machine import MOST_THREADS
from .native import call_numbers

if TYPE_CHECKING:
    from . import shared_blocks
else:
    shared_blocks = later("codegen.runtime.shared_blocks")

_lock = held_over_fork(threading.RLock())
#: The number that a program has set; None: the default holds.
_count: int | None = None
#: The code, once it is there.
_made: engine.MachineCode | None = None


def threads() -> int:
    """The number of threads that share a loop, the caller's included."""
    with _lock:
        return _default() if _count is None else _count


def set_threads(count: int) -> None:
    """Share loops among `count` threads from the next call on; 1 uses none but the caller's.

    Raises ValueError for a count below 1 or above 256, and for what is no whole number.
    """
    try:
        whole = index(count)
    except TypeError:
        whole = 0
    if not 1 <= whole <= MOST_THREADS:
        raise ValueError(f"threads should be a whole number from 1 to {MOST_THREADS}, got {count!r}")
    _set(whole)


def limit_threads(count: int) -> None:
    """Share loops among `count` threads, for another library: a number out of bounds becomes the next one within.

    The default number brings back the default, which follows the affinity again.
    """
    whole = min(max(count, 1), MOST_THREADS)
    _set(None if whole == _default() else whole)


def _set(count: int | None) -> None:
    global _count
    with _lock:
        _count = count
        if is_made():
            _tell(_code())


def _tell(code: engine.MachineCode) -> None:
    """Give the code its number: a fixed one, or the most where it follows the affinity of the caller."""
    follows = _count is None and _surroundings()[1] is None
    number = min(_surroundings()[0], MOST_THREADS) if follows else threads()
    call_numbers(code, "set_threads", int(number), int(follows))


def is_made() -> bool:
    """True if the code of threads is there."""
    return _made is not None


def sharing() -> int:
    """The address of the function that shares out a step of `plan_words.KernelCallWords`."""
    with _lock:
        return _code().address("run_blocks")


def started() -> int:
    """The number of threads that run or sleep beside Python's own."""
    with _lock:
        return call_numbers(_code(), "started_threads")


def _code() -> engine.MachineCode:
    global _made
    if _made is None:
        code = objects.native_code("run_blocks", lambda module: shared_blocks.text(module))
        _tell(code)
        _made = code
    return _made


def _default() -> int:
    """The number of threads where the program has set none."""
    most, given = _surroundings()
    return min(machine.usable_processors(), int(min(most, MOST_THREADS))) if given is None else given


@functools.cache
def _surroundings() -> tuple[float, int | None]:
    """The processors that the cgroup pays for, and the number that the environment gives (None: none)."""
    most = machine.quota()
    return most, _given(most)


def _given(most: float) -> int | None:
    given = os.environ.get("AUTODIFF_THREADS", "")
    if given:
        if not given.isdecimal() or not 1 <= int(given) <= MOST_THREADS:
            raise ValueError(f"AUTODIFF_THREADS should be a number from 1 to {MOST_THREADS}, got {given!r}")
        return int(given)
    outermost = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # one number for each level of nesting
    if not outermost.isdecimal() or int(outermost) < 1:
        return None  # as OpenMP takes it
    return int(min(int(outermost), most, MOST_THREADS))


_NAME = "threadpoolctl"


def announce() -> None:
    """Register with `threadpoolctl`: now where it is imported, else as soon as it is."""
    module = sys.modules.get(_NAME)
    if module is None:
        sys.meta_path.insert(0, _PoolWatch())
    else:
        _register(module)


class _PoolWatch:
    """A finder of modules that finds `threadpoolctl` once, and has our controller registered after its import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _NAME:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _register(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # once it has run
        return spec


def _register(threadpoolctl: Any) -> None:
    """Add our controller.  Versions before 3.2 know no others than their own."""
    if not hasattr(threadpoolctl, "register"):
        return

    class AutodiffController(threadpoolctl.LibController):
        """The threads that share large loops."""

        user_api = internal_api = "autodiff"
        filename_prefixes = ("_multiarray_umath",)

        def set_additional_attributes(self) -> None:
            self.prefix, self.filepath = "autodiff", __file__

        def get_num_threads(self) -> int:
            return threads()

        def set_num_threads(self, num_threads: int) -> None:
            limit_threads(num_threads)

        def get_version(self) -> None:
            """None: the version is that of `autodiff`."""

    threadpoolctl.register(AutodiffController)
