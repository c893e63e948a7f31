"""`make bench`: every row, or those that are named.  Prints the table; all rows go to RESULTS.md and RESULTS.svg too.

    python benchmarks/run.py [ROW ...] [--threads N] [--rounds N] [--json]

A ratio says how many times longer a peer takes than we do.  A peer that is not installed is left out, and said so.
Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[0:0] = [str(HERE), str(HERE.parent)]

import plot  # noqa: E402  the folders above come first
from measure import Found, measure  # noqa: E402
from peers import GENERIC  # noqa: E402

PEERS = ("numpy", "c", "jax", "torch", "autograd")


def rows() -> list[str]:
    """The names of all rows, in the order of their files."""
    return sorted(f.stem for f in (HERE / "rows").glob("[!_]*.py"))


def table(found: dict[str, list[Found]]) -> str:
    """All rows as Markdown."""
    peers = [p for p in PEERS if any(p in f.seconds for cases in found.values() for f in cases)]
    lines = ["| work | ours | error | " + " | ".join(f"{p} | error" for p in peers) + " |"]
    lines.append("|---" * (3 + 2 * len(peers)) + "|")
    for title, cases in found.items():
        for f in cases:
            cells = [f"{title}, {f.work}" if f.work else title, _time(f.seconds["ours"]), _error(f, "ours")]
            for p in peers:
                ratio = f"{f.seconds[p] / f.seconds['ours']:.2f} x" if p in f.seconds else ""
                cells += [ratio, _error(f, p) if p in f.seconds else ""]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def absent(found: dict[str, list[Found]]) -> str:
    """Who was left out, and why."""
    why = {f"{p}: {reason}" for cases in found.values() for f in cases for p, reason in f.absent.items()}
    return "\n".join(["", *[f"- left out: {w}" for w in sorted(why)]]) if why else ""


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.2f} µs" if seconds < 1e-3 else f"{1e3 * seconds:.2f} ms"


def _error(found: Found, peer: str) -> str:
    return f"{found.error[peer]:.0e}" if peer in found.error else ""


def as_json(threads: int, found: dict[str, list[Found]]) -> str:
    """All rows as JSON."""
    rows = [{"title": title, **dataclasses.asdict(f)} for title, cases in found.items() for f in cases]
    return json.dumps({"machine": machine(threads), "rows": rows}, indent=2)


def machine(threads: int) -> str:
    """What it was measured on, and the versions."""
    names = ("autodiff", "numpy", "llvmlite", "torch", "jax", "autograd")
    versions = []
    for name in names:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    model = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), "")
    python = f"Python {platform.python_version()}"
    return f"{model or platform.machine()}, {threads} threads; {python}, {', '.join(versions)}"


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", help=f"by default all: {', '.join(rows())}")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print JSON: seconds and errors by peer")
    given = parser.parse_args()
    unknown = set(given.rows) - set(rows())
    if unknown:
        parser.error(f"no row {', '.join(sorted(unknown))}: there are {', '.join(rows())}")
    found: dict[str, list[Found]] = {}
    for row in given.rows or rows():
        module = importlib.import_module(f"rows.{row}")
        given_by = {*(GENERIC if hasattr(module, "program") else ()), *vars(module)} - {*getattr(module, "WITHOUT", ())}
        peers = ["ours", *[p for p in ("reference", *PEERS) if p in given_by]]
        for case in module.CASES:
            print(f"{module.TITLE}, {case} ...", file=sys.stderr, flush=True)
            measured = measure(row, case, peers, threads=given.threads, rounds=given.rounds)
            if "ours" in measured.absent:
                raise SystemExit(f"{row}, {case}: our own program {measured.absent['ours']}")
            found.setdefault(module.TITLE, []).append(measured)
    text = f"{machine(given.threads)}\n\n{table(found)}\n{absent(found)}\n"
    print(as_json(given.threads, found) if given.json else text)
    if not given.rows:
        title = "# Results\n\nMade by `make bench`; \"n x\" says that the peer takes n times as long as we do.\n\n"
        (HERE / "RESULTS.md").write_text(title + text, encoding="utf-8")
        (HERE / "RESULTS.svg").write_text(plot.draw(plot.read(text)), encoding="utf-8")


if __name__ == "__main__":
    main()
