"""Making things in a thread of their own while the owner goes on: modules, by LLVM, which needs no Python.

    code = Ahead(lambda: compiled(text))        begun, where that gains something
    code.result()                               waits for it
    deeply(lambda: compiled(text))              made at once, on a stack that is deep enough

Threads are joined by who needs the result, or at the latest by the interpreter when it ends: none of them outlives
its work.  A forked child has no such thread, and does the work itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..forks import renewed_in_child
from . import machine

__all__ = ["Ahead", "deeply", "gains"]

_T = TypeVar("_T")

#: LLVM needs between 64 and 96 KB of stack for a sort of rows (Zen 4), and more for what is nested more deeply.  A
#: program of many threads may say (`threading.stack_size`) that each has less than the system's 8 MB.
_ENOUGH, _DEEP = 1 << 20, 8 << 20

_starting = renewed_in_child(globals(), "_starting")


class _Deep(threading.Thread):
    """A thread with a deep stack, whatever new threads have."""

    def start(self) -> None:
        with _starting:
            before = threading.stack_size(_DEEP)  # it gives what was said before
            try:
                if before == 0 or before >= _ENOUGH:
                    threading.stack_size(before)
                super().start()
            finally:
                threading.stack_size(before)


def deeply(make: Callable[..., _T], *arguments: Any) -> _T:
    """`make(*arguments)`, in another thread, which is waited for, where the stack of this one may be small."""
    me = threading.current_thread()
    if isinstance(me, _Deep) or me is threading.main_thread():
        return make(*arguments)
    made: list[_T] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            made.append(make(*arguments))
        except BaseException as error:
            raised.append(error)

    thread = _Deep(target=work, name="autodiff compiles")
    try:
        thread.start()
    except RuntimeError:  # no more threads
        return make(*arguments)
    thread.join()
    if raised:
        raise raised.pop()
    return made[0]


def gains() -> bool:
    """True if this process may use a second processor."""
    return machine.usable_processors() > 1


class Ahead(Generic[_T]):
    """The result of `make()`, made beside the caller; by whoever asks first where no thread can be beside."""

    def __init__(self, make: Callable[[], _T], *, is_beside: bool = True) -> None:
        """`is_beside` False: who asks makes it in any case."""
        self._make = make
        self._made: list[_T] = []
        self._thread: threading.Thread | None = None
        if is_beside and gains():
            self._thread = _Deep(target=self._try, name="autodiff compiles")
            try:
                self._thread.start()
            except RuntimeError:  # no more threads
                self._thread = None

    def _try(self) -> None:
        try:
            self._made = [self._make()]
        except Exception:
            return  # it is tried again by who asks, who then gets the exception

    def result(self) -> _T:
        """The result.  Raises what `make` raises."""
        thread = self._thread
        if thread is not None:
            thread.join()
            self._thread = None
        if not self._made:
            self._made = [self._make()]
        return self._made[0]
