"""Tables of a profile by phase, kernel, line and rule; a trace in Chrome's format, and a roofline by matplotlib.

The limits of this machine are measured: bytes and operations per second, with as many threads as loops use.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache, cached_property
from time import perf_counter
from timeit import repeat
from typing import Any, NamedTuple, Never

import numpy as np

from codegen.program import observers
from codegen.runtime.threads import threads

from ..config import config
from ..errors import Error, check_nothing, check_path, in_short, located, writing
from ..jit import jit
from .steps import Clock, Steps, StepTimes

#: Elements of arrays that no cache holds (three have 100 MB), of arrays that the L2 cache holds, and rows of a matrix.
_UNCACHED, _CACHED, _SIDE = 1 << 22, 1 << 13, 512


class Limits(NamedTuple):
    """The most that this machine does per second, in units of 10^9.

    memory    bytes read from and written to memory    cache    the same for the nearest caches
    f64, f32  operations in products of matrices       threads  the number of threads that shared the work
    """

    memory: float
    cache: float
    f64: float
    f32: float
    threads: int


@cache
def _measured(count: int) -> Limits:
    """The limits, measured once for each number of threads: .3 s."""

    @jit
    def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a + b

    @jit
    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a @ b

    def rate(function: Callable, x: np.ndarray, work: float, rounds: int, times: int = 1) -> float:
        y = x.copy()
        return work * times / min(repeat(lambda: function(x, y), number=times, repeat=rounds)) / 1e9

    def of_sum(n: int, rounds: int, times: int = 1) -> float:
        return rate(add, np.ones(n), 24.0 * n, rounds, times)

    def of_product(dtype: type) -> float:
        return rate(product, np.ones((_SIDE, _SIDE), dtype), 2.0 * _SIDE**3, 5)

    return Limits(of_sum(_UNCACHED, 5), of_sum(_CACHED, 20, 50), of_product(np.float64), of_product(np.float32), count)


#: The least seconds of a call for which a rate is given: the clock is too coarse for shorter calls.
SHORTEST = 1e-6


class KernelTime(NamedTuple):
    """The calls of one step of a program: a kernel, a product, a loop, a call of LAPACK or of Python.

    name, kind, program      as in the `fused` stage
    half                     "forward", "backward" or "both"
    seconds, calls, share    the time and number of all calls; their share of the time that programs ran
    bytes, operations        those of one call
    gbs, gflops              10^9 bytes, and operations, per second; None if a call takes less than 1 us
    limit                    "memory" or "arithmetic", the limit that the step is nearer to; None if a call is so short
    of_limit                 the fraction of that limit; above 1, for memory, if the data come from caches
    lines, rules             lines of the user's program, and derivative rules, those of most values first
    """

    name: str
    kind: str
    program: str
    half: str
    seconds: float
    calls: int
    share: float
    bytes: int
    operations: int
    gbs: float | None
    gflops: float | None
    limit: str | None
    of_limit: float | None
    lines: tuple[str, ...]
    rules: tuple[str, ...]


class Profile:
    """The profile of a block, which prints as tables.  It is complete once the block has ended.

    seconds     seconds of the whole block
    phases      seconds by phase, of the thread that took the profile: tracing, rules, passes, writing LLVM, LLVM,
                linking, NumPy (programs that are not compiled yet), running, and "Python" for all other time
    others      the same for other threads
    kernels     a `KernelTime` for each step, the longest first
    lines       seconds of running by line of the user's program;  rules: by derivative rule
    limits      the measured limits of this machine
    """

    def __init__(self) -> None:
        self._clock = Clock()
        self._steps = Steps(self._clock)
        self._is_over = False
        self._open: ExitStack | None = None

    @property
    def seconds(self) -> float:
        """Seconds of the whole block."""
        return self._over().seconds

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by phase, of the thread that took the profile."""
        clock = self._over()
        return {**clock.own, "Python": max(clock.seconds - sum(clock.own.values()), 0.0)}

    @property
    def others(self) -> dict[str, float]:
        """Seconds by phase, of all other threads."""
        return {phase: s for phase, s in self._over().others.items() if s}

    @cached_property
    def limits(self) -> Limits:
        """The measured limits of this machine."""
        return _measured(threads())

    @property
    def kernels(self) -> list[KernelTime]:
        """The steps that ran, the longest first."""
        self._over()
        merged: dict[tuple, list[StepTimes]] = {}
        for times in self._steps.found:
            if times.calls:
                key = times.program, times.number, times.name, times.bytes, times.operations, *times.lines
                merged.setdefault(key, []).append(times)
        total = sum([t.seconds for t in self._steps.found]) or 1.0
        found = [self._kernel(same, total) for same in merged.values()]
        return sorted(found, key=lambda k: -k.seconds)

    def _kernel(self, same: Sequence[StepTimes], total: float) -> KernelTime:
        first, seconds, calls = same[0], sum([t.seconds for t in same]), sum([t.calls for t in same])
        gbs = gflops = of_limit = limit = None
        if seconds >= SHORTEST * calls:
            limits, rate = self.limits, calls / seconds / 1e9
            gbs, gflops = first.bytes * rate, first.operations * rate
            of_memory, of_arithmetic = gbs / limits.memory, gflops / limits.f64
            of_limit = max(of_memory, of_arithmetic)
            limit = "memory" if of_memory >= of_arithmetic else "arithmetic"
        return KernelTime(
            first.name, first.kind, first.program, first.half, seconds, calls, seconds / total, first.bytes,
            first.operations, gbs, gflops, limit, of_limit,
            *[tuple([name for name, _ in counts.most_common()]) for counts in (first.lines, first.rules)],
        )  # fmt: skip

    @property
    def lines(self) -> dict[str, float]:
        """Seconds of running by line: those of a kernel are shared out among its values."""
        return self._shared_out("lines")

    @property
    def rules(self) -> dict[str, float]:
        """Seconds of running by derivative rule: those of a kernel are shared out among its values."""
        return self._shared_out("rules")

    def _shared_out(self, what: str) -> dict[str, float]:
        self._over()
        found: Any = Counter()  # seconds by name
        for times in self._steps.found:
            counts = getattr(times, what)
            total = max(sum(counts.values()), sum(times.lines.values()))  # not all values have a rule
            for name, count in counts.items():
                found[name] += times.seconds * count / total
        return {name: seconds for name, seconds in found.most_common() if seconds}

    def data(self) -> dict[str, Any]:
        """The whole profile as dicts, lists, numbers and strings."""
        return {
            "seconds": self.seconds, "phases": self.phases, "others": self.others, "limits": self.limits._asdict(),
            "kernels": [k._asdict() for k in self.kernels], "lines": self.lines, "rules": self.rules,
        }  # fmt: skip

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a file in Chrome's trace format, for speedscope.app, Perfetto or chrome://tracing.

        Raises Error if `path` is no path, or the file cannot be written.
        """
        check_path(path, "save_trace")
        _trace(self._over(), path)

    def save_roofline(self, path: str | os.PathLike[str]) -> None:
        """Draw each kernel under the limits of this machine; needs matplotlib (`pip install autodiff[viz]`).

        Raises Error if `path` is no path, matplotlib is not installed, or the file cannot be written.
        """
        check_path(path, "save_roofline")
        _roofline(self.kernels, self.limits, path)

    def text(self, most: int = 12) -> str:
        """The tables as text, with `most` rows each.  Raises Error if `most` is no number of rows."""
        if not isinstance(most, int) or most < 1:
            raise Error(located(f"profile: the number of rows is 1 or more, not {in_short(most)}"))
        limits = self.limits
        out = [f"{_time(self.seconds)} in all"]
        shown = [(phase, s) for phase, s in self.phases.items() if s > 0]
        out += [f"  {phase:<13} {_time(s):>9}  {s / max(self.seconds, 1e-12):6.1%}" for phase, s in shown]
        if self.others:
            out.append("beside it, in other threads: "
                       + ", ".join([f"{phase} {_time(s)}" for phase, s in self.others.items()]))  # fmt: skip
        kernels = self.kernels
        out += ["", f"kernels; this machine does {limits.memory:.0f} GB/s from memory, {limits.cache:.0f} from cache, "
                f"{limits.f64:.0f} / {limits.f32:.0f} GFLOP/s in f64 / f32, by {limits.threads} threads"]  # fmt: skip
        out.append(f"  {'time':>9} {'share':>6} {'calls':>7} {'GB/s':>7} {'GFLOP/s':>8}  kernel")
        rows = [f"  {_time(k.seconds):>9} {k.share:>6.1%} {k.calls:>7} {_rate(k.gbs):>7} {_rate(k.gflops):>8}"
                f"  {k.program} {k.name}, {k.half}: {', '.join([*k.lines[:2], *['...'] * (len(k.lines) > 2)])}"
                for k in kernels]  # fmt: skip
        tables = {title: [f"  {_time(s):>9}  {name}" for name, s in found.items()]
                  for title, found in (("lines", self.lines), ("rules", self.rules))}  # fmt: skip
        for title, found in {"": rows, **tables}.items():
            out += ["", title] if title and found else []
            out += [*found[:most], *[f"  ... {len(found) - most} more"] * (len(found) > most)]
        return "\n".join(out)

    __str__ = text

    def __repr__(self) -> str:
        return self.text() if self._is_over else "<Profile: not complete>"

    def _over(self) -> Clock:
        if not self._is_over:
            told = "look at it after the block" if self._open else "write `with ad.profile() as p:` around what counts"
            raise Error(located("profile: it is not complete", told))
        return self._clock

    def __enter__(self) -> Profile:
        is_taken = any([type(o) is Steps for o in observers])
        if is_taken or self._is_over:
            told = "one is being taken, and profiles do not nest" if is_taken else "each block needs one of its own"
            raise Error(located(f"profile: {told}"))
        config.forget()
        self._open = ExitStack()
        try:
            self._open.enter_context(self._clock.running())
            observers.append(self._steps)
            self._clock.began = perf_counter()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._clock.seconds = perf_counter() - self._clock.began
        if self._steps in observers:
            observers.remove(self._steps)
        if self._open is not None:
            self._open.close()
        self._is_over = True
        config.forget()


def profile(*given: Never, **named: Never) -> Profile:
    """A profile of the computations in a block: phases, kernels, lines, rules.

    Programs are compiled anew inside the block and forgotten at its end: it reuses no earlier program, and no later one
    is timed.  Inside the block each call of a kernel takes some 2 us more, which are not counted as the kernel's time,
    and each size of a program counts as a program.

    Raises Error for a profile within another one, and for a profile that is read before its block has ended;
    DispatchError for any argument.

    >>> import autodiff as ad, numpy as np
    >>> f = ad.jit(ad.value_and_grad(lambda x: ad.sum(ad.sin(x) * x)))
    >>> with ad.profile() as p:
    ...     for _ in range(10):
    ...         _ = f(np.ones(1000))
    >>> [(k.half, k.calls) for k in p.kernels]
    [('both', 10)]
    >>> p.phases["running"] < p.seconds
    True
    """
    check_nothing("profile", "write `with ad.profile() as p:` around what counts", *given, **named)
    return Profile()


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1f}"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


# ---------------------------------------------------------------- pictures


def _trace(clock: Clock, path: str | os.PathLike[str]) -> None:
    """Write intervals as complete events ("ph": "X"), in microseconds."""
    process = os.getpid()
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": process, "args": {"name": "autodiff"}},
        {"name": "profile", "cat": "Python", "ph": "X", "pid": process, "tid": clock.thread, "ts": 0.0,
         "dur": clock.seconds * 1e6},
    ]  # fmt: skip
    events += [
        {"name": e.name, "cat": e.phase, "ph": "X", "pid": process, "tid": e.thread, "ts": e.begin * 1e6,
         "dur": e.seconds * 1e6}
        for e in clock.events
    ]  # fmt: skip
    data = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"events left out": clock.lost}}
    with writing("profile: ", path), open(path, "w", encoding="utf-8") as file:
        json.dump(data, file)


def _roofline(kernels: Sequence[Any], limits: Limits, path: str | os.PathLike[str]) -> None:
    """Draw operations per second over operations per byte.  The area of a kernel's point is its share of the time."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise Error(located("profile: a roofline needs matplotlib", "pip install autodiff[viz]")) from None
    shown = [k for k in kernels if k.operations and k.bytes and k.gflops]
    if not shown:
        raise Error(located("profile: no kernel ran that takes 1 us and has operations to draw"))
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log")
    intensities = [k.operations / k.bytes for k in shown]
    ridge = limits.f64 / limits.memory
    ends = min(*intensities, ridge) / 2, max(*intensities, ridge) * 2
    for name, rate, style in (("memory", limits.memory, "-"), ("cache", limits.cache, "--")):
        xs = [ends[0], min(max(limits.f64 / rate, ends[0]), ends[1]), ends[1]]
        axes.plot(xs, [min(rate * x, limits.f64) for x in xs], f"k{style}", lw=1,
                  label=f"{name} {rate:.0f} GB/s, {limits.f64:.0f} GFLOP/s")  # fmt: skip
    for half, colour in (("forward", "tab:blue"), ("backward", "tab:red"), ("both", "tab:purple")):
        of_half = [(x, k) for x, k in zip(intensities, shown, strict=True) if k.half == half]
        if of_half:
            axes.scatter([x for x, _ in of_half], [k.gflops for _, k in of_half],
                         s=[20 + 800 * k.share for _, k in of_half], c=colour, alpha=0.6, label=half)  # fmt: skip
    for x, k in sorted(zip(intensities, shown, strict=True), key=lambda pair: -pair[1].seconds)[:8]:
        axes.annotate(f"{k.program} {k.name}", (x, k.gflops), fontsize=7, xytext=(4, 4), textcoords="offset points")
    axes.set(xlabel="operations per byte", ylabel="10⁹ operations a second")
    axes.legend(fontsize=8, loc="lower right")
    with writing("profile: ", path):
        figure.savefig(path, dpi=120)
