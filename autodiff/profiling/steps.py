"""Time by phase, and by step of a program.

While a profile is taken, functions of the library are replaced by timed ones.  They nest, and each moment counts for
the innermost one of its thread.  In programs a callback replaces each native function: a call takes some 2 us more, of
which the part within the measured time is calibrated and subtracted.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from time import perf_counter
from timeit import repeat
from typing import Any, NamedTuple

from codegen.program import BufferProgram, Gemm
from codegen.program import Step as ProgramStep
from codegen.records import replace
from codegen.runtime.launcher import StepTable
from codegen.runtime.threads import sharing
from codegen.runtime.told import ProgramDescription, half_of, kind_of_step

from ..frames import UserLine, user_line

#: The phases, in the order in which they are shown.
PHASES = ("tracing", "rules", "passes", "writing LLVM", "LLVM", "linking", "NumPy", "running")

#: (module, name in it, phase): the functions that are timed.
POINTS = (
    ("autodiff.traces", "Traces._traced", "tracing"),
    ("autodiff.transforms.reverse", "ReversePass.__init__", "rules"),
    ("codegen.compiler", "make_program", "passes"),
    ("codegen.families", "Families.find", "passes"),
    ("codegen.runtime.executable", "Executable.__init__", "passes"),
    ("codegen.runtime.kernels", "KernelTable.load", "writing LLVM"),
    ("codegen.runtime.engine", "_object_of", "LLVM"),
    ("codegen.runtime.engine", "link", "linking"),
    ("autodiff.tape.program", "Program.evaluate", "NumPy"),
    ("codegen.ir.evaluate", "evaluate", "NumPy"),
    ("codegen.numbers", "SizedGraph.evaluate", "NumPy"),
)

#: The most events of a trace that are kept; further ones count in the tables only.
MOST_EVENTS = 200_000
#: The least seconds that an interval counts as: the clock cannot resolve less.
LEAST = 1e-8


class Event(NamedTuple):
    """An interval: its name and phase, its thread, when it began and how long it took, in seconds."""

    name: str
    phase: str
    thread: int
    begin: float
    seconds: float


class Clock:
    """Seconds by phase, of the thread that takes the profile and of others, and the events of a trace."""

    def __init__(self) -> None:
        self.own: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.others: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.events: list[Event] = []
        self.lost = 0
        #: By thread, for each open interval, the innermost last: the seconds of the intervals inside of it.
        self._inside: dict[int, list[float]] = defaultdict(list)
        self.thread = threading.get_ident()
        self.began = perf_counter()
        self.seconds = 0.0

    def begin(self) -> float:
        """Begin an interval, which `end` has to end, and return its start."""
        self._inside[threading.get_ident()].append(0.0)
        return perf_counter()

    def end(self, name: str, phase: str, begin: float, overhead: float = 0.0) -> float:
        """End an interval, and return its seconds without those of the intervals inside of it."""
        seconds = max(perf_counter() - begin - overhead, LEAST)
        thread = threading.get_ident()
        inside = self._inside[thread]
        own = max(seconds - inside.pop(), 0.0)
        if inside:
            inside[-1] += seconds
        (self.own if thread == self.thread else self.others)[phase] += own
        if len(self.events) < MOST_EVENTS:
            self.events.append(Event(name, phase, thread, begin - self.began, seconds))
        else:
            self.lost += 1
        return own

    def timed(self, function: Callable, phase: str) -> Callable:
        """The function with its calls timed, as intervals of a phase."""
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
        """While this is open, time the functions of the library that `POINTS` names."""
        undo: list[tuple[Any, str, Any]] = []
        try:
            for module, name, phase in POINTS:
                owner: Any = importlib.import_module(module)
                *outer, last = name.split(".")
                for part in outer:
                    owner = getattr(owner, part)
                function = getattr(owner, last)
                made = self.timed(function, phase)
                ours = [m for name, m in [*sys.modules.items()] if m and name.startswith(("autodiff.", "codegen."))]
                for place in [owner] if outer else [m for m in ours if vars(m).get(last) is function]:
                    undo.append((place, last, function))
                    setattr(place, last, made)
            yield
        finally:
            for place, last, function in reversed(undo):
                setattr(place, last, function)


_STEP = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class StepTimes:
    """A step of a program, and the time of its calls.

    program, number          the name of the program, and the number of the step in it
    name, kind               those of the step: "k0"; "kernel", "gemm", "loop", "host", ...
    operations, bytes        scalar operations of one call, in a product two for each multiplication; bytes of the
                             arrays that it reads and writes, each counted once
    lines                    lines of the user's program, with the number of values that each has in the step
    rules                    derivative rules, with the number of values that each has in the step
    half                     "forward", "backward" or "both"
    """

    __slots__ = ("bytes", "calls", "half", "kind", "lines", "name", "number", "operations", "pieces", "program",
                 "rules", "seconds")  # fmt: skip

    def __init__(self, found: ProgramDescription, number: int, asked: UserLine | None) -> None:
        told, self.number = found.steps[number], number
        work = told.step.work
        self.program, self.name, self.kind = found.program.name, told.name, kind_of_step(work)
        self.bytes, self.operations = found.bytes_operations(told)
        self.operations *= 2 if isinstance(work, Gemm) else 1
        self.seconds, self.calls, self.pieces = 0.0, 0, 0
        origins = [origin for node in told.computed for origin in node.origins]
        self.lines = Counter([str(line) for origin in origins for line in origin.lines[:1]])
        self.rules = Counter([str(origin.rule) for origin in origins if origin.rule is not None])
        self.half = half_of([origin.half for origin in origins if origin.half in ("forward", "backward")])
        if not self.lines:
            self.lines[str(asked or "an unknown place")] = 1


class Steps:
    """An observer of programs (`codegen.program.observers`) that collects the times of all their steps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        nothing = _STEP(("getpid", ctypes.CDLL(None)))
        #: Seconds of a call of a native function that does nothing.
        self._overhead = min(repeat("nothing(0, 0)", globals={"nothing": nothing}, number=1, repeat=200))
        self.found: list[StepTimes] = []

    def __call__(self, program: BufferProgram) -> Callable[[ProgramStep, Any], Any]:
        asked, told = user_line(), ProgramDescription(program)
        known = {id(step): StepTimes(told, k, asked) for k, step in enumerate(program.steps)}
        self.found += known.values()
        return lambda step, piece: self._timed(known[id(step)], piece)

    def _timed(self, times: StepTimes, piece: Any) -> Any:
        """A piece of a step with its calls timed; only the first piece of a step counts the calls."""
        clock, overhead = self._clock, self._overhead
        name = f"{times.program} {times.name}"
        is_first, times.pieces = not times.pieces, times.pieces + 1
        native = piece.step
        call = _call_of(native)

        def timed(pointers: int, extents: int) -> int:
            begin = clock.begin()
            status = call(pointers, extents)
            times.seconds += clock.end(name, "running", begin, overhead)
            times.calls += is_first
            return status

        callback = _STEP(timed)
        extents = native.extents if native.share is None else (*native.extents, 0, 0)
        step = replace(native, address=ctypes.cast(callback, ctypes.c_void_p).value, extents=extents, share=None)
        return piece._replace(step=step, owners=(*piece.owners, partial(callback)))  # owners must be hashable


def _call_of(native: Any) -> Callable[[int, int], int]:
    """The function of a native step, to call from Python."""
    if native.share is None:
        return _STEP(native.address)
    shared, table = _STEP(sharing()), StepTable([native])
    return lambda pointers, extents: shared(table.address, pointers)
