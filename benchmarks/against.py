"""`make against OTHER=folder`: compare our programs with those of another checkout, say of the previous commit.

    python benchmarks/against.py FOLDER ROW ... [--rounds N] [--threads N]

The programs run in turns.  Each line gives the time of a call here relative to the other checkout, as the ratio of the
minima of all turns, and the noise: the ratio of two processes of this checkout in the same run.  A row is slower
only if its ratio exceeds the noise.  Keep the machine idle during the run.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[0:0] = [str(HERE), str(HERE.parent)]

from measure import measure  # noqa: E402  the folders above come first

#: The names of two peers of this checkout, which show the noise.
NEW, TWIN = "ours", "ours again"


def compared(row: str, case: str, folder: Path, rounds: int, threads: int) -> str:
    """The line of output for one case."""
    other = f"ours of {folder}"
    found = measure(row, case, [NEW, TWIN, other], threads=threads, rounds=rounds, statistic=min)
    if found.absent:
        return f"{'absent':>17}   {case}: {', '.join(found.absent.values())}"
    new, twin, old = (found.values[peer] for peer in (NEW, TWIN, other))
    ratio, noise = min(new, twin) / old, max(new, twin) / min(new, twin)
    verdict = "slower" if ratio > noise * 1.02 else "faster" if ratio * noise * 1.02 < 1 else "as before"
    return f"{ratio:6.2f}  ± {noise - 1:5.1%}   {verdict:10} {case}   {old * 1e6:,.1f} µs before"


def main() -> None:
    parser = argparse.ArgumentParser(description="our programs here and in another checkout, in turns")
    parser.add_argument("folder", type=Path, help="the other checkout")
    parser.add_argument("rows", nargs="+", help="files of benchmarks/rows, of both checkouts")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    if not (given.folder / "benchmarks" / "worker.py").is_file():
        parser.error(f"{given.folder} is no checkout with benchmarks")
    for row in given.rows:
        if not all((top / "rows" / f"{row}.py").is_file() for top in (HERE, given.folder / "benchmarks")):
            parser.error(f"there is no row {row!r} in both checkouts")
        module = importlib.import_module(f"rows.{row}")
        if hasattr(module, "FIGURES"):
            parser.error(f"the row {row!r} counts what is no time of a call")
        print(module.TITLE)
        for case in module.CASES:
            print(compared(row, case, given.folder.resolve(), given.rounds, given.threads), flush=True)


if __name__ == "__main__":
    main()
