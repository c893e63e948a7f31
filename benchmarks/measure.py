"""Measuring side by side.  Peers live in processes of their own and take turns; medians and ratios count.

Machines are shared and noisy, so an absolute time says little; programs that take turns within tenths of a
second meet the same noise.  While one runs, the others wait for a line on their stdin.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

__all__ = ["Found", "measure"]

WORKER = Path(__file__).parent / "worker.py"


@dataclass
class Found:
    """One case of a row: for each peer the median seconds of a call, its error, or why there is none."""

    work: str
    seconds: dict[str, float] = field(default_factory=dict)
    error: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


class _Peer:
    """One worker process."""

    def __init__(self, row: str, case: str, peer: str, threads: int, result: Path):
        environment = {**os.environ, "AUTODIFF_CACHE": "0"}
        for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "AUTODIFF"):
            environment["AUTODIFF_THREADS" if name == "AUTODIFF" else f"{name}_NUM_THREADS"] = str(threads)
        self._result = result
        self._process = subprocess.Popen(
            [sys.executable, WORKER, row, case, peer, result],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )

    def answer(self) -> dict:
        """The next line that it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"absent": f"ended with code {self._process.wait()}"}

    def run(self, seconds: float) -> dict:
        """Have it call its program for about so long."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return self.answer()

    def arrays(self) -> list[np.ndarray]:
        """What its program returned."""
        with np.load(self._result) as saved:
            return [saved[name] for name in saved.files]

    def end(self) -> None:
        """Let it go."""
        self._process.communicate()


def measure(row: str, case: str, peers: list[str], *, threads: int, rounds: int = 9, seconds: float = 0.1) -> Found:
    """Median seconds per call of each peer, taking turns; and the largest error against the row's reference.

    A peer that is not installed, or fails, is said to be absent and why.
    """
    found = Found(case)
    with tempfile.TemporaryDirectory() as folder:
        running: dict[str, _Peer] = {}
        for peer in peers:
            worker = _Peer(row, case, peer, threads, Path(folder) / f"{peer}.npz")
            said = worker.answer()  # it is ready, or absent: one after the other, so that nobody is disturbed
            if "absent" in said:
                found.absent[peer] = said["absent"]
                worker.end()
            else:
                running[peer] = worker
        times: dict[str, list[float]] = {peer: [] for peer in running}
        for _ in range(rounds):
            for peer, worker in running.items():
                times[peer].append(worker.run(seconds)["seconds"])
        found.seconds = {peer: statistics.median(t) for peer, t in times.items()}
        results = {peer: worker.arrays() for peer, worker in running.items()}
        for worker in running.values():
            worker.end()
    expected = results.pop("reference", None) or results.get("numpy")
    found.seconds.pop("reference", None)
    for peer, arrays in results.items():
        if expected is not None:
            found.error[peer] = max(map(_difference, arrays, expected), default=0.0)
    return found


def _difference(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest value."""
    size = float(np.max(np.abs(expected), initial=0.0))
    return float(np.max(np.abs(got.astype(np.float64) - expected), initial=0.0)) / (size or 1.0)
