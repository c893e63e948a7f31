"""Make the tables of points that the elementary functions read from memory: codegen/emit/math/point_tables.py.

    python tools/fit_points.py            prints the file
    python tools/fit_points.py --write    writes it

At a point a function is known to all its digits; what lies between is a series around the nearest.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fit_tables import rounded
from mpmath import mp, mpf

TARGET = Path(__file__).parent.parent / "codegen" / "emit" / "math" / "point_tables.py"

#: Points at which erf is known: so many in each unit, up to where it is 1, and exp(-x*x) of floats almost subnormal.
ERF_STEPS, ERF_ENDS = 64, {"F64": mpf(6), "F32": mpf("9.25")}


def erf_at_point(suffix: str, number: int) -> tuple[float, float]:
    """erf and its derivative."""
    c, single = mpf(number) / ERF_STEPS, suffix == "F32"
    return rounded(mp.erf(c), single), rounded(2 / mp.sqrt(mp.pi) * mp.exp(-c * c), single)


def erf_points(suffix: str) -> list[tuple[float, float]]:
    return [erf_at_point(suffix, j) for j in range(int(ERF_STEPS * ERF_ENDS[suffix]) + 1)]


def in_rows(points: list[tuple[float, float]]) -> list[str]:
    """A tuple of pairs, four to a line."""
    pairs = [f"({first!r}, {second!r})," for first, second in points]
    return [*[f"    {' '.join(pairs[j : j + 4])}" for j in range(0, len(pairs), 4)], ")"]


def text() -> str:
    lines = [
        '"""Points at which elementary functions are known, each with what a series around it begins with.',
        "",
        "Written by tools/fit_points.py, which says how; not to be edited.",
        '"""',
        "",
        "# ruff: noqa: E501  a line is four points",
        "# fmt: off",
    ]
    for suffix in ERF_ENDS:
        lines += ["", f"#: erf and its derivative at multiples of 1/{ERF_STEPS}.", f"ERF_POINTS_{suffix} = (",
                  *in_rows(erf_points(suffix))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        TARGET.write_text(text(), encoding="utf-8")
    else:
        print(text())
