"""The steps of programs, each call timed: a callback stands in a program in place of each native function.

A callback costs some 2 us more than the function alone; the part of that within the measured time is calibrated and
taken off, the rest shows as time of nothing.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from timeit import repeat
from typing import Any

from codegen.program import BufferProgram, Gemm
from codegen.program import Step as ProgramStep
from codegen.records import replace
from codegen.runtime.cost import operations_of
from codegen.runtime.described import kind_of_step, name_of_step
from codegen.runtime.threads import sharing
from codegen.runtime.told import Holding, reads_writes

from ..frames import UserLine, user_line
from .clock import Clock

__all__ = ["StepTimes", "Steps"]

_STEP = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_SHARED = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 4)


class StepTimes:
    """A step of a program, and what its calls took.

    program, number          its name, and which of its steps this is
    name, kind               of the step: "k0"; "kernel", "gemm", "loop", "host", ...
    operations, bytes        of one call: scalar operations, of a product two for each multiplication; arrays read and
                             written, each once
    lines                    of the user's program, with the number of values that each has in the step
    rules                    the same for derivative rules
    half                     "forward", "backward" or "both"
    """

    __slots__ = ("bytes", "calls", "half", "kind", "lines", "name", "number", "operations", "pieces", "program",
                 "rules", "seconds")  # fmt: skip

    def __init__(self, program: BufferProgram, number: int, computed: list[Any], asked: UserLine | None) -> None:
        step, self.number = program.steps[number], number
        self.program, self.name, self.kind = program.name, name_of_step(step.work), kind_of_step(step.work)
        alone = BufferProgram(program.name, program.buffers, (step,), (), (), 0, program.graph)
        self.operations = operations_of(alone) * (2 if isinstance(step.work, Gemm) else 1)
        reads, writes = reads_writes(step)
        self.bytes = sum([program.buffers[b].aval.nbytes for b in (*reads, *writes)])
        self.seconds, self.calls, self.pieces = 0.0, 0, 0
        self.lines: Counter[str] = Counter()
        self.rules: Counter[str] = Counter()
        halves = set()
        for node in computed:
            for origin in node.origins:
                halves.add(origin.half)
                for line in origin.lines[:1]:
                    self.lines[str(line)] += 1
                if origin.rule is not None:
                    self.rules[str(origin.rule)] += 1
        if not self.lines:
            self.lines[str(asked or "an unknown place")] = 1
        halves &= {"forward", "backward"}
        self.half = "both" if len(halves) == 2 else "backward" if "backward" in halves else "forward"

    def add(self, seconds: float, is_call: bool) -> None:
        """Count a call, or the further pieces of one."""
        self.seconds += seconds
        self.calls += is_call


class Steps:
    """Observes programs (`codegen.program.observers`), and has the times of all their steps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._overhead = _overhead()
        self.found: list[StepTimes] = []

    def __call__(self, program: BufferProgram) -> Callable[[ProgramStep, Any], Any]:
        asked, holds = user_line(), Holding(program)
        known: dict[int, StepTimes] = {}
        for k, step in enumerate(program.steps):
            computed = holds.computed(step)
            holds.write(k, step, computed)
            inside = [n for n in computed if hasattr(n, "origins")]
            known[id(step)] = StepTimes(program, k, inside, asked)
        self.found += known.values()
        return lambda step, piece: self._timed(known[id(step)], piece)

    def _timed(self, times: StepTimes, piece: Any) -> Any:
        """A piece of a step that is timed; the first of several counts the calls."""
        clock, overhead = self._clock, self._overhead
        name = f"{times.program} {times.name}"
        is_first, times.pieces = not times.pieces, times.pieces + 1
        if hasattr(piece, "run"):  # in Python
            run = piece.run

            def host(*arrays: Any) -> None:
                begin = clock.begin()
                try:
                    run(*arrays)
                finally:
                    times.add(clock.end(name, "running", begin), is_first)

            return piece._replace(run=host)
        native = piece.step
        call = _call_of(native)

        def timed(pointers: int, extents: int) -> int:
            begin = clock.begin()
            status = call(pointers, extents)
            times.add(clock.end(name, "running", begin, overhead), is_first)
            return status

        owner = _Callback(timed)
        extents = native.extents if native.share is None else (*native.extents, 0, 0)
        step = replace(native, address=owner.address, extents=extents, share=None)
        return piece._replace(step=step, owners=(*piece.owners, owner))


class _Callback:
    """A function of Python's as native code calls it."""

    def __init__(self, function: Callable[[int, int], int]) -> None:
        self._callback = _STEP(function)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0


def _call_of(native: Any) -> Callable[[int, int], int]:
    """The function of a native step, from Python."""
    if native.share is None:
        return _STEP(native.address)
    shared, share, count = _SHARED(sharing()), native.share, len(native.extents) + 2

    def call(pointers: int, extents: int) -> int:
        status: int = shared(native.address, pointers, extents, count, share.blocks, share.chunk, share.total)
        return status

    return call


def _overhead() -> float:
    """Seconds that calling a native function takes by itself."""
    nothing = _STEP(("getpid", ctypes.CDLL(None)))
    return min(repeat("nothing(0, 0)", globals={"nothing": nothing}, number=1, repeat=200))
