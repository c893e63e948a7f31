"""`make bench`: measure all rows, or the named ones.  Prints the tables; all rows go to RESULTS.md and RESULTS.svg too.

    python benchmarks/run.py [ROW ...] [--threads N] [--rounds N] [--peers NAME ...] [--full] [--quiet] [--json]

A ratio is the time of a peer divided by ours.  A peer that is not installed is listed as left out.
Keep the machine idle during the run.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Collection
from pathlib import Path

HERE = Path(__file__).parent
sys.path[0:0] = [str(HERE), str(HERE.parent)]

import plot  # noqa: E402  the folders above come first
from measure import Found, count, measure  # noqa: E402  the folders above come first
from peers import GENERIC, LABELS  # noqa: E402  the folders above come first
from report import Row, as_json, machine, text  # noqa: E402  the folders above come first
from sizes import FULL  # noqa: E402  the folders above come first
from targets import targets_of  # noqa: E402  the folders above come first


def rows() -> list[str]:
    """The names of all rows, in the order of their files."""
    return sorted(f.stem for f in (HERE / "rows").glob("[!_]*.py"))


def peers_of(row: str, wanted: Collection[str] = LABELS) -> list[str]:
    """The peers of a row: ours, its reference, and those of the wanted peers for which it has a program."""
    module = importlib.import_module(f"rows.{row}")
    known = {*(GENERIC if hasattr(module, "program") else ()), *vars(module)} - {*getattr(module, "WITHOUT", ())}
    return ["ours", *[p for p in ("reference", *LABELS) if p in known and (p in wanted or p == "reference")]]


def measured(row: str, given: argparse.Namespace) -> list[Row]:
    """The results of every case of a row."""
    module = importlib.import_module(f"rows.{row}")
    peers, found = peers_of(row, given.peers), []
    for case in module.CASES:
        print(f"{module.TITLE}, {case} ...", file=sys.stderr, flush=True)
        new: list[Found]
        if hasattr(module, "FIGURES"):
            new = count(row, case, peers, module.FIGURES, threads=given.threads)
        else:
            loaded = 0 if given.quiet or not getattr(module, "LOADED", True) else 3
            new = [measure(row, case, peers, threads=given.threads, rounds=given.rounds, loaded=loaded)]
        for f in new:
            if "ours" in f.absent:
                raise SystemExit(f"{row}, {case}: our own program {f.absent['ours']}")
            if "ours" in f.values:
                found.append(Row(module.TITLE, f, targets_of(module, f.work)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", help=f"by default all: {', '.join(rows())}")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", nargs="+", default=[*LABELS], choices=[*LABELS], metavar="PEER")
    parser.add_argument("--full", action="store_true", help="rows that count do all that is asked: minutes more")
    parser.add_argument("--quiet", action="store_true", help="do not measure under load")
    parser.add_argument("--json", action="store_true", help="print JSON: figures and errors by peer")
    given = parser.parse_args()
    unknown = set(given.rows) - set(rows())
    if unknown:
        parser.error(f"no row {', '.join(sorted(unknown))}: there are {', '.join(rows())}")
    if given.full:
        os.environ[FULL] = "1"
    found = [line for row in given.rows or rows() for line in measured(row, given)]
    where = machine(given.threads)
    print(as_json(where, found) if given.json else f"{where}\n\n{text(found)}")
    if not given.rows:
        title = "# Results\n\nMade by `make bench`; \"n x\" says that the peer takes n times as long as we do.\n\n"
        tables = f"{title}{where}\n\n{text(found)}"
        (HERE / "RESULTS.md").write_text(tables, encoding="utf-8")
        (HERE / "RESULTS.svg").write_text(plot.draw(plot.read(tables)), encoding="utf-8")


if __name__ == "__main__":
    main()
