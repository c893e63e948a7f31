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
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

__all__ = ["Found", "count", "measure"]

WORKER = Path(__file__).parent / "worker.py"

#: A peer that has run for so many seconds, this often at least, has been heard.
ENOUGH_S, FEWEST = 1.0, 3
#: The same under load, in longer turns: who runs changes every few thousandths of a second.
ENOUGH_LOADED_S, FEWEST_LOADED, LOADED_TURN = 1.5, 1, 10
#: Figures that are no times do not mind another process beside them.
COUNTED_TOGETHER = 2
#: Between two turns: threads of the one before may still look for work.
REST_S = 0.003


@dataclass
class Found:
    """One case of a row.

    values    for each peer the median seconds of a call, or another figure; `unit` says which
    loaded    seconds of a call with one core kept busy by another process
    errors    the largest difference from the reference, by each draw of the inputs
    absent    why there is no such peer
    """

    work: str
    unit: str = "s"
    values: dict[str, float] = field(default_factory=dict)
    loaded: dict[str, float] = field(default_factory=dict)
    errors: dict[str, list[float]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    @property
    def error(self) -> dict[str, float]:
        """The median of all draws."""
        return {peer: statistics.median(each) for peer, each in self.errors.items()}


class _Peer:
    """One worker process.

    peer   also "ours without NAME": a mechanism is switched off, see mechanisms.py; "ours again": a second one of
           the same; "ours of FOLDER": of another checkout, see against.py
    """

    def __init__(self, row: str, case: str, peer: str, threads: int, result: Path):
        environment = {**os.environ, "AUTODIFF_CACHE": "0", "AUTODIFF_THREADS": str(threads)}
        for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
            environment[f"{name}_NUM_THREADS"] = str(threads)
        self._result = result
        worker, folder = WORKER, peer.removeprefix("ours of ")
        if folder != peer:
            worker, environment["PYTHONPATH"] = Path(folder) / "benchmarks" / "worker.py", folder
        if folder != peer or peer == "ours again":
            peer = "ours"
        self.seconds = 0.0  # of a call, when it was ready
        self._process = subprocess.Popen(
            [sys.executable, worker, row, case, peer, result], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if not peer.startswith("ours") else None, text=True, env=environment,
        )  # fmt: skip

    def answer(self) -> dict:
        """The next line that it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"absent": f"ended with code {self._process.wait()}"}

    def run(self, seconds: float) -> float:
        """Have it call its program for about so long; the seconds of one call."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return self.answer()["seconds"]

    def draws(self) -> list[list[np.ndarray]]:
        """The results of its program, by each draw of the inputs."""
        each: dict[str, list[np.ndarray]] = {}
        with np.load(self._result) as saved:
            for name in saved.files:
                each.setdefault(name.partition(" ")[0], []).append(saved[name])
        return [*each.values()]

    def end(self) -> None:
        """Let it go."""
        self._process.communicate()


def measure(
    row: str, case: str, peers: list[str], *, threads: int, rounds: int = 9, seconds: float = 0.05, loaded: int = 0,
    statistic: Callable[[list[float]], float] = statistics.median,
) -> Found:  # fmt: skip
    """Median seconds per call of each peer, taking turns; and the error against the row's reference.

    loaded      so many rounds more, with one core kept busy
    statistic   what is taken of all turns in place of the median

    A peer that is not installed, or fails, is said to be absent and why.
    """
    found = Found(case)
    with tempfile.TemporaryDirectory() as folder:
        started = {p: _Peer(row, case, p, threads, Path(folder) / f"{i}.npz") for i, p in enumerate(peers)}
        running: dict[str, _Peer] = {}
        for peer, worker in started.items():
            said = worker.answer()  # it is ready, or absent; they get ready together, and nobody is measured yet
            if "absent" in said:
                found.absent[peer] = said["absent"]
                worker.end()
            else:
                worker.seconds, running[peer] = said["ready"], worker
        timed = {peer: worker for peer, worker in running.items() if peer != "reference"}
        for worker in timed.values():
            if worker.seconds < ENOUGH_LOADED_S:
                worker.run(seconds)  # now it knows how long a call takes, and third calls may make what later ones use
        found.values = _take_turns(timed, rounds, seconds, ENOUGH_S, FEWEST, statistic)
        if loaded:
            with _busy_core():
                found.loaded = _take_turns(timed, loaded, LOADED_TURN * seconds, ENOUGH_LOADED_S, FEWEST_LOADED)
        results = {peer: worker.draws() for peer, worker in running.items()}
        for worker in running.values():
            worker.end()
    expected = results.pop("reference", None) or results.get("numpy")
    if expected is not None:
        common = min(map(len, (expected, *results.values())))
        for peer, draws in results.items():
            found.errors[peer] = [*map(_largest, draws[:common], expected)]
    return found


def _take_turns(
    running: dict[str, _Peer], rounds: int, seconds: float, enough_s: float, fewest: int,
    statistic: Callable[[list[float]], float] = statistics.median,
) -> dict[str, float]:  # fmt: skip
    """The median seconds of a call of each, or another statistic of them."""
    times: dict[str, list[float]] = {peer: [] for peer in running}
    spent = dict.fromkeys(running, 0.0)
    for _ in range(rounds):
        for peer, worker in running.items():
            if spent[peer] < enough_s or len(times[peer]) < fewest:
                time.sleep(REST_S)
                once = worker.run(seconds)
                times[peer].append(once)
                spent[peer] += max(once, seconds)
    return {peer: statistic(t) for peer, t in times.items()}


@contextmanager
def _busy_core() -> Iterator[None]:
    """Another process computes without end."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def count(row: str, case: str, peers: list[str], figures: dict[str, str], *, threads: int) -> list[Found]:
    """Figures that are no times, each peer's in one fresh process: one Found for each figure of the row.

    figures   what is counted -> its unit
    """
    found = {name: Found(", ".join(filter(None, (case, name))), unit) for name, unit in figures.items()}

    def asked(peer: str) -> dict:
        worker = _Peer(row, case, peer, threads, Path(os.devnull))
        said = worker.answer()
        worker.end()
        return said

    with ThreadPoolExecutor(COUNTED_TOGETHER) as pool:
        answers = list(pool.map(asked, peers))
    for peer, said in zip(peers, answers, strict=True):
        for name, one in found.items():
            if "absent" in said:
                one.absent[peer] = said["absent"]
            elif name in said["figures"]:
                one.values[peer] = said["figures"][name]
    return list(found.values())


def _largest(got: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest difference in any array of a result."""
    return max(map(_difference, got, expected), default=0.0)


def _difference(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the largest value."""
    size = float(np.max(np.abs(expected), initial=0.0))
    return float(np.max(np.abs(got.astype(np.float64) - expected), initial=0.0)) / (size or 1.0)
