"""A profile for other programs to show: a trace in Chrome's format, and a roofline by matplotlib.

The limits of this machine are measured: bytes and operations a second, with the threads that loops use.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from timeit import repeat
from typing import Any, NamedTuple

import numpy as np

from codegen.runtime.threads import threads

from ..errors import Error, located
from ..jit import jit
from .steps import Clock

__all__ = ["Limits", "measured_limits", "roofline", "trace"]

#: Elements of arrays that no cache holds (128 MB together), of arrays that the second one does, and of a matrix's side.
_FAR, _NEAR, _SIDE = 1 << 22, 1 << 13, 512


class Limits(NamedTuple):
    """The most that this machine does in a second, in 10^9.

    memory    bytes from and to memory            cache    from and to the caches nearest
    f64, f32  operations of products of matrices  threads  that shared them
    """

    memory: float
    cache: float
    f64: float
    f32: float
    threads: int


def measured_limits() -> Limits:
    """The limits, measured once for each number of threads: .3 s."""
    return _measured(threads())


@cache
def _measured(count: int) -> Limits:
    @jit
    def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a + b

    @jit
    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a @ b

    def rate(function: Callable, x: np.ndarray, work: float, rounds: int, times: int = 1) -> float:
        best = min(repeat(lambda: function(x, x), number=times, repeat=rounds)) / times
        return work / best / 1e9

    def of_sum(n: int, rounds: int, times: int = 1) -> float:
        x, y = np.ones(n), np.ones(n)
        return rate(lambda a, _: add(a, y), x, 24.0 * n, rounds, times)

    def of_product(dtype: type) -> float:
        return rate(product, np.ones((_SIDE, _SIDE), dtype), 2.0 * _SIDE**3, 5)

    return Limits(of_sum(_FAR, 5), of_sum(_NEAR, 20, 50), of_product(np.float64), of_product(np.float32), count)


def trace(clock: Clock, path: str | os.PathLike[str]) -> None:
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
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(data, file)
    except OSError as error:
        raise Error(located(f"profile: cannot write {os.fspath(path)}: {error.strerror}")) from None


def roofline(kernels: Sequence[Any], limits: Limits, path: str | os.PathLike[str]) -> None:
    """Draw operations a second over operations per byte; the area of a point is its share of the time."""
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
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise Error(located(f"profile: cannot write {os.fspath(path)}: {error}")) from None
