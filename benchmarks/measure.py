"""Measurement of peers side by side: each is a separate process, and the medians of many turns are compared.

Machines are shared and noisy, so an absolute time says little; programs that alternate within tenths of a second meet
equal noise, so ratios are reliable.  While one process runs, the others wait for a line on their stdin.
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

#: A peer gets no more turns once it has run for ENOUGH_S seconds in at least FEWEST turns.
ENOUGH_S, FEWEST = 1.0, 3
#: The limits under load.  Turns are longer there, since the system switches processes every few milliseconds.
ENOUGH_LOADED_S, FEWEST_LOADED, LOADED_TURN = 1.5, 1, 10
#: The number of processes that run at once for figures other than times, which other processes do not disturb.
COUNTED_TOGETHER = 2
#: The pause in seconds between two turns: threads of the previous peer may still be looking for work.
REST_S = 0.003


@dataclass
class Found:
    """The results of one case of a row, by peer.

    values    the median seconds of a call, or another figure, in the unit `unit`
    loaded    the seconds of a call while another process keeps one core busy
    errors    the largest difference from the reference, for each draw of the inputs
    absent    the reason why a peer is absent
    """

    work: str
    unit: str = "s"
    values: dict[str, float] = field(default_factory=dict)
    loaded: dict[str, float] = field(default_factory=dict)
    errors: dict[str, list[float]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    @property
    def error(self) -> dict[str, float]:
        """The median error over all draws, by peer."""
        return {peer: statistics.median(each) for peer, each in self.errors.items()}


class _Peer:
    """One worker process.

    peer   the name of the peer; also "ours without NAME" with a mechanism switched off (see mechanisms.py), "ours
           again" for a second process, "ours of FOLDER" for another checkout (see against.py)
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
        self.seconds = 0.0  # seconds of a call, as measured when the worker got ready
        self._process = subprocess.Popen(
            [sys.executable, worker, row, case, peer, result], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if not peer.startswith("ours") else None, text=True, env=environment,
        )  # fmt: skip

    def answer(self) -> dict:
        """The next answer of the worker."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"absent": f"ended with code {self._process.wait()}"}

    def run(self, seconds: float) -> float:
        """Let the worker call its program for about `seconds`; returns the seconds of one call."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return self.answer()["seconds"]

    def draws(self) -> list[list[np.ndarray]]:
        """The results of the worker's program, for each draw of the inputs."""
        each: dict[str, list[np.ndarray]] = {}
        with np.load(self._result) as saved:
            for name in saved.files:
                each.setdefault(name.partition(" ")[0], []).append(saved[name])
        return [*each.values()]

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


def measure(
    row: str, case: str, peers: list[str], *, threads: int, rounds: int = 9, seconds: float = 0.05, loaded: int = 0,
    statistic: Callable[[list[float]], float] = statistics.median,
) -> Found:  # fmt: skip
    """The median seconds of a call of each peer, measured in turns, and the errors against the row's reference.

    loaded      the number of additional rounds while another process keeps one core busy
    statistic   the function of the times of all turns, instead of the median

    A peer that is not installed, or fails, is listed in `absent` with the reason.
    """
    found = Found(case)
    with tempfile.TemporaryDirectory() as folder:
        started = {p: _Peer(row, case, p, threads, Path(folder) / f"{i}.npz") for i, p in enumerate(peers)}
        running: dict[str, _Peer] = {}
        for peer, worker in started.items():
            said = worker.answer()  # ready or absent; all workers get ready at once, before any is measured
            if "absent" in said:
                found.absent[peer] = said["absent"]
                worker.end()
            else:
                worker.seconds, running[peer] = said["ready"], worker
        timed = {peer: worker for peer, worker in running.items() if peer != "reference"}
        for worker in timed.values():
            if worker.seconds < ENOUGH_LOADED_S:
                worker.run(seconds)  # measures a call's length, and lets early calls compile what later calls use
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
    """The median (or another statistic) of the seconds of a call of each peer, over the rounds."""
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
    """A context in which another process keeps one core busy."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def count(row: str, case: str, peers: list[str], figures: dict[str, str], *, threads: int) -> list[Found]:
    """Figures other than times, from one fresh process for each peer: one Found for each figure of the row.

    figures   the unit of each figure, by the figure's name
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
    """The largest relative difference in any array of a result."""
    return max(map(_difference, got, expected), default=0.0)


def _difference(got: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference of two arrays, relative to the largest expected value."""
    size = float(np.max(np.abs(expected), initial=0.0))
    return float(np.max(np.abs(got.astype(np.float64) - expected), initial=0.0)) / (size or 1.0)
