"""Measuring side by side: rounds are interleaved, medians are compared, ratios are what counts.

Machines are shared and noisy, so an absolute time says little; two programs that take turns in one
process meet the same noise.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Row", "interleaved", "table"]


@dataclass
class Row:
    """One line of a table: what was measured, and seconds for ours and each peer."""

    work: str
    ours_s: float
    peers_s: dict[str, float]


def interleaved(
    programs: dict[str, Callable[[], object]], *, rounds: int = 15, seconds: float = 0.05
) -> dict[str, float]:
    """Median seconds per call of each program, taking turns.  Each round of a program lasts about `seconds`."""
    calls = {}
    for name, program in programs.items():
        program()
        start = time.perf_counter()
        program()
        calls[name] = max(1, int(seconds / max(time.perf_counter() - start, 1e-9)))
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            n = calls[name]
            start = time.perf_counter()
            for _ in range(n):
                program()
            found[name].append((time.perf_counter() - start) / n)
    return {name: statistics.median(times) for name, times in found.items()}


def table(rows: list[Row]) -> str:
    """The rows as Markdown: our time, and each peer's as a multiple of it."""
    peers = list(dict.fromkeys(name for row in rows for name in row.peers_s))
    lines = ["| work | ours | " + " | ".join(peers) + " |", "|---|---|" + "---|" * len(peers)]
    for row in rows:
        cells = [f"{row.peers_s[p] / row.ours_s:.2f} x" if p in row.peers_s else "" for p in peers]
        lines.append(f"| {row.work} | {_time(row.ours_s)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.2f} µs" if seconds < 1e-3 else f"{1e3 * seconds:.2f} ms"
