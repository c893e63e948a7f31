"""Settings that a program may change while it runs (public as `ad.config`)."""

from __future__ import annotations

import os
import threading

from codegen.forks import in_child
from codegen.runtime import threads

__all__ = ["Config", "config"]


class Config:
    """What can be switched, each with the environment variable that sets it at the start.

    eager       evaluate every operation at once by its NumPy reference, to step through with a
                debugger (AUTODIFF_EAGER=1)
    patience    after how many new graph shapes, most of which were not used again soon, a further one is
                evaluated by NumPy, and compiled when it runs in a loop or when evaluating it has taken as long
                as compiling would (AUTODIFF_PATIENCE, 8); 0: compile at once
    threads     how many threads a large loop is shared among (AUTODIFF_THREADS, the number of cores); results
                have the same bits for any number
    """

    __slots__ = ("_eager", "_patience", "_traces", "careful")

    def __init__(self) -> None:
        self._traces = 0
        self.careful = False  # what recording looks at: whether anything below is on
        self.eager = os.environ.get("AUTODIFF_EAGER", "0") not in ("", "0")
        self.patience = int(os.environ.get("AUTODIFF_PATIENCE", "8"))

    @property
    def threads(self) -> int:
        """How many threads a large loop is shared among, the caller's included."""
        return threads.threads()

    @threads.setter
    def threads(self, count: int) -> None:
        threads.set_threads(count)

    @property
    def patience(self) -> int:
        """After how many shapes that were not used again soon a new one waits to be compiled."""
        return self._patience

    @patience.setter
    def patience(self, count: int) -> None:
        if not isinstance(count, int) or not 0 <= count <= 64:
            raise ValueError(f"config.patience is a number from 0 to 64, not {count!r}")
        self._patience = count

    @property
    def eager(self) -> bool:
        """Whether every operation is evaluated at once."""
        return self._eager

    @eager.setter
    def eager(self, flag: bool) -> None:
        if flag not in (True, False):
            raise ValueError(f"config.eager is True or False, not {flag!r}")
        self._eager = bool(flag)
        self.traces = self.traces

    @property
    def traces(self) -> int:
        """How many traces this thread is in, and how often it keeps lines: in any thread, recording looks closer.

        It is set, not counted up and down: what an interrupt left out is put right by the next that ends.
        """
        return _mine.traces

    @traces.setter
    def traces(self, count: int) -> None:
        self._traces += count - _mine.traces
        _mine.traces = count
        self.careful = self._eager or self._traces > 0

    def forget_other_threads(self) -> None:
        """Count only what this thread traces: a forked child has no other."""
        self._traces = _mine.traces
        self.traces = self._traces

    def __repr__(self) -> str:
        return f"config(eager={self.eager}, patience={self.patience}, threads={self.threads})"


class _Mine(threading.local):
    """The traces of one thread."""

    traces = 0


_mine = _Mine()
config = Config()
in_child(config.forget_other_threads)
