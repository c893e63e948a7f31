"""The number of repetitions, which depends on `--full`, and measures of the process's memory."""

from __future__ import annotations

import os
from pathlib import Path

from absence import Absent

__all__ = ["FULL", "TABLES_FULL", "begin_peak_mb", "often", "peak_mb", "resident_mb"]

#: The environment variable by which workers learn of `--full`.
FULL = "AUTODIFF_BENCH_FULL"

#: The number of new graphs after which the tables of executables are full, so that memory should no longer grow.
TABLES_FULL = 520


def often(usual: int, full: int) -> int:
    """`full` if the benchmarks run with `--full`, else `usual`."""
    return full if os.environ.get(FULL) == "1" else usual


def _status_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def resident_mb() -> float:
    """The resident memory of this process, in MB."""
    return _status_mb("VmRSS:")


def begin_peak_mb() -> float:
    """The resident memory of this process, in MB; resets the peak of `peak_mb`.  Raises Absent without /proc."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        raise Absent(f"no /proc/self/clear_refs ({error.strerror})") from None
    return resident_mb()


def peak_mb() -> float:
    """The peak of the resident memory since `begin_peak_mb`, in MB."""
    return _status_mb("VmHWM:")
