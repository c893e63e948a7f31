"""`make ab`: measure the benefit of each mechanism of the library, by rows with the mechanism on and off.

    python benchmarks/mechanisms.py [MECHANISM ...] [--rounds N]

Prints the table; a run of all mechanisms writes MECHANISMS.md.  The two variants are processes that take turns.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[0:0] = [str(HERE), str(HERE.parent)]

from measure import Found, count, measure  # noqa: E402  the folders above come first
from report import machine  # noqa: E402  the folders above come first
from switches import SWITCHES  # noqa: E402  the folders above come first

#: For each mechanism the (row, case) where it should matter, and one where it might cost time.
WORK: dict[str, list[tuple[str, str]]] = {
    "native launcher": [("call", ""), ("tiny", ""), ("many_arrays", "")],
    "output pool": [("chain", "n = 10,000,000 f64"), ("chain", "n = 100,000 f64"), ("call", "")],
    "native answers": [("recorded", ""), ("epoch", "")],
    "native recorder": [
        ("recorded", ""), ("recording", "products, n = 100 f64"), ("recording", "slices and sums, 128 x 20 f64"),
        ("epoch", ""),
    ],
    "templates": [("recorded", ""), ("episodes", "")],
    "updates in machine code": [("updates", "momentum, 20 arrays of 10"), ("updates", "Adam, 100 arrays of 10")],
    "recordings in parts": [("episodes", ""), ("policies", "4-16-2 f64"), ("recorded", "")],
    "known sizes": [("growing", "")],
    "patience": [("episodes", ""), ("epoch", "")],
    "disk cache": [("start", "mixture of 100 operations, run before"), ("start", "chain, run before")],
    "threads": [("chain", "n = 100,000 f64"), ("chain", "n = 10,000,000 f64"), ("rows_of_a_matrix", "row softmax")],
    "fusion of any kind": [
        ("chain", "n = 1,000 f64"), ("chain", "n = 10,000,000 f64"), ("compile_time", "100 operations"),
    ],
    "several results in one kernel": [("chain", "n = 100,000 f64"), ("black_scholes", "")],
    "row-local chains": [("rows_of_a_matrix", "row softmax"), ("logistic", "")],
    "reductions in a shared sweep": [
        ("rows_of_a_matrix", "row softmax"), ("mixture", "2,000 points of 4, f32"), ("chain", "n = 10,000,000 f64"),
    ],
    "parts added up by themselves": [
        ("written_out", "orbit of 60 steps, four parameters, f64"), ("shifted", "filter of 16, n = 20,000"),
        ("shifted", "a term for each of 60 rows of 1,000"),
    ],
    "parts stored where they go": [("written_out", "recurrence of 60 rows of 16, f64")],
    "small products as loops": [
        ("control_flow", "cell of 4 units, batch 1, f32"), ("mlp", "2-16-16-1, batch 32, f64"),
    ],
    "in-place storage": [("memory", ""), ("mlp", "784-256-128-10, batch 128, f32"), ("logistic", "")],
    "run-time extents": [("shapes", "many batch sizes"), ("chain", "n = 1,000 f64"), ("tiny", "")],
    "vector math": [("chain", "n = 1,000 f64"), ("chain", "n = 100,000 f32"), ("black_scholes", "")],
    "explicit vectors": [
        ("chain", "n = 1,000 f64"), ("rows_of_a_matrix", "row softmax"), ("compile_time", "100 operations"),
    ],
    "native transforms": [("spectral", "1 signal of 1,000, f64"), ("spectral", "200 signals of 512, f32")],
    "native orders": [("ordering", "10,000 rows of 32, f32"), ("ordering", "1 row of 1,000,000, f32")],
    "blocks of elements": [("control_flow", "x * 0.99 + a, 10,000 numbers")],
}  # fmt: skip


def compared(mechanism: str, row: str, case: str, threads: int, rounds: int) -> list[Found]:
    """The results with the mechanism (peer "ours") and without it."""
    module = importlib.import_module(f"rows.{row}")
    peers = ["ours", f"ours without {mechanism}"]
    case = case if case in module.CASES else module.CASES[-1]
    if hasattr(module, "FIGURES"):
        return count(row, case, peers, module.FIGURES, threads=threads)
    return [measure(row, case, peers, threads=threads, rounds=rounds)]


def line(mechanism: str, row: str, found: Found) -> str:
    """The line of the table for one result."""
    with_it, without = found.values["ours"], found.values[f"ours without {mechanism}"]
    work = ", ".join(filter(None, (importlib.import_module(f"rows.{row}").TITLE, found.work)))
    figures = f"{_figure_text(with_it, found)} | {_figure_text(without, found)} | {_speed_up(with_it, without)}"
    return f"| {mechanism} | {work} | {figures} |"


def _figure_text(value: float, found: Found) -> str:
    if found.unit != "s":
        return f"{value:.3g} {found.unit}".strip()
    return f"{1e6 * value:.2f} µs" if value < 1e-3 else f"{1e3 * value:.2f} ms"


def _speed_up(with_it: float, without: float) -> str:
    return f"{without / with_it:.2f} x" if with_it > 0 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mechanisms", nargs="*", metavar="MECHANISM", help=f"by default all: {', '.join(SWITCHES)}")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    if unknown := set(given.mechanisms) - set(SWITCHES):
        parser.error(f"no mechanism {', '.join(sorted(unknown))}: there are {', '.join(SWITCHES)}")
    lines = ["| mechanism | work | with | without | buys |", "|---" * 5 + "|"]
    for mechanism in given.mechanisms or SWITCHES:
        for row, case in WORK[mechanism]:
            print(f"{mechanism}: {row} {case} ...", file=sys.stderr, flush=True)
            for found in compared(mechanism, row, case, given.threads, given.rounds):
                if len(found.values) == 2:
                    lines.append(line(mechanism, row, found))
    text = f"{machine(given.threads)}\n\n" + "\n".join(lines) + "\n"
    print(text)
    if not given.mechanisms:
        head = "# What each mechanism buys\n\nMade by `make ab`; above 1 it pays, below it costs.\n\n"
        (HERE / "MECHANISMS.md").write_text(head + text, encoding="utf-8")


if __name__ == "__main__":
    main()
