"""Time by phase: functions of the library are exchanged for timed ones while a profile is taken, and put back after it.

Phases nest (a rule runs within a trace); each moment counts for the innermost one of its thread.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from time import perf_counter
from typing import Any, NamedTuple

__all__ = ["PHASES", "POINTS", "Clock", "Event"]

#: In the order in which they are shown.
PHASES = ("tracing", "rules", "passes", "writing LLVM", "LLVM", "linking", "NumPy", "running")

#: (module, name in it, phase): the functions that are timed.
POINTS = (
    ("autodiff.traces", "Traces._traced", "tracing"),
    ("autodiff.transforms.reverse", "Pull.__init__", "rules"),
    ("codegen.compiler", "make_program", "passes"),
    ("codegen.families", "Families.find", "passes"),
    ("codegen.runtime.executable", "Executable.__init__", "passes"),
    ("codegen.runtime.kernels", "KernelTable.load", "writing LLVM"),
    ("codegen.runtime.engine", "_object_of", "LLVM"),
    ("codegen.runtime.engine", "link", "linking"),
    ("autodiff.tape.program", "Program.evaluate", "NumPy"),
    ("codegen.ir.evaluate", "Evaluation.__call__", "NumPy"),
    ("codegen.sized", "SizedGraph.evaluate", "NumPy"),
)

#: Events of a trace that are kept; further ones count in the tables alone.
MOST_EVENTS = 200_000


#: Seconds that an interval takes at least: less cannot be told.
LEAST = 1e-8


class Event(NamedTuple):
    """An interval: its name and phase, its thread, when it began and how long it took, in seconds."""

    name: str
    phase: str
    thread: int
    begin: float
    seconds: float


class _NestedTimes(threading.local):
    """The time that intervals inside of the open ones took, the innermost last."""

    def __init__(self) -> None:
        self.inside: list[float] = []


class Clock:
    """Seconds by phase, of the thread that takes the profile and of others, and the events of a trace."""

    def __init__(self) -> None:
        self.own: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.others: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.events: list[Event] = []
        self.lost = 0
        self._open = _NestedTimes()
        self.thread = threading.get_ident()
        self.began = perf_counter()
        self.seconds = 0.0

    def restart(self) -> None:
        """Begin the profile's own time."""
        self.began = perf_counter()

    def stop(self) -> None:
        """End the profile's own time."""
        self.seconds = perf_counter() - self.began

    def begin(self) -> float:
        """The start of an interval, which is to be ended."""
        self._open.inside.append(0.0)
        return perf_counter()

    def end(self, name: str, phase: str, begin: float, overhead: float = 0.0) -> float:
        """End an interval; gives the seconds that are its own."""
        seconds = max(perf_counter() - begin - overhead, LEAST)
        inside = self._open.inside
        own = max(seconds - inside.pop(), 0.0)
        if inside:
            inside[-1] += seconds
        thread = threading.get_ident()
        (self.own if thread == self.thread else self.others)[phase] += own
        if len(self.events) < MOST_EVENTS:
            self.events.append(Event(name, phase, thread, begin - self.began, seconds))
        else:
            self.lost += 1
        return own

    def timed(self, function: Callable, phase: str) -> Callable:
        """A function that is timed."""
        name = function.__qualname__.strip("_")

        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            begin = self.begin()
            try:
                return function(*args, **kwargs)
            finally:
                self.end(name, phase, begin)

        return run

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time the library's functions inside."""
        undo: list[tuple[Any, str, Any]] = []
        try:
            for module, name, phase in POINTS:
                owner: Any = importlib.import_module(module)
                *outer, last = name.split(".")
                for part in outer:
                    owner = getattr(owner, part)
                function = getattr(owner, last)
                made = self.timed(function, phase)
                places = [owner] if outer else [m for m in _modules() if vars(m).get(last) is function]
                for place in places:
                    undo.append((place, last, function))
                    setattr(place, last, made)
            yield
        finally:
            for place, last, function in reversed(undo):
                setattr(place, last, function)


def _modules() -> list[Any]:
    return [m for name, m in [*sys.modules.items()] if m is not None and name.startswith(("autodiff.", "codegen."))]
