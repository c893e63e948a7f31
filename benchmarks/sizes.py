"""The number of repetitions: the usual one, or all of them with `--full`; and the memory that the process holds."""

from __future__ import annotations

import os
from pathlib import Path

from absence import Absent

__all__ = ["FULL", "TABLES_FULL", "begin_peak_mb", "often", "peak_mb", "resident_mb"]

#: The environment variable that workers read.
FULL = "AUTODIFF_BENCH_FULL"

#: After so many new graphs the tables of executables hold what they ever will.
TABLES_FULL = 520


def often(usual: int, full: int) -> int:
    """`full` where the full benchmarks are run."""
    return full if os.environ.get(FULL) == "1" else usual


def _status_mb(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def resident_mb() -> float:
    """The memory that this process holds now."""
    return _status_mb("VmRSS:")


def begin_peak_mb() -> float:
    """The memory that this process holds now, and `peak_mb` counts from here on."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        raise Absent(f"no /proc/self/clear_refs ({error.strerror})") from None
    return resident_mb()


def peak_mb() -> float:
    """The most that it has held since."""
    return _status_mb("VmHWM:")
