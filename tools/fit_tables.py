"""Make the tables of the elementary functions for machines that look up in registers: codegen/emit/math/tables.py.

    python tools/fit_tables.py            prints the file, with the largest error of each beside it
    python tools/fit_tables.py --write    writes it

A table holds one coefficient of each of 16 (f64) or 32 (f32) polynomials, which together cover a range.
They are fitted as those of `fit_elementary`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from fit_elementary import Fit, coefficients
from mpmath import mp, mpf

TARGET = Path(__file__).parent.parent / "codegen" / "emit" / "math" / "tables.py"

#: Intervals, their width, the degree.  Centres are multiples of the width, so that erf(0) = 0 is one of them.
ERF = {"F64": (16, mpf("0.390625"), 12), "F32": (32, mpf("0.126953125"), 4)}


def rounded(x: mpf, single: bool) -> float:
    return float(np.float32(float(x))) if single else float(x)


def erf_of_interval(suffix: str, number: int) -> tuple[tuple[float, float], list[float], float]:
    """erf(centre) in two parts, the coefficients around it, log2 of the error."""
    _, width, degree = ERF[suffix]
    single = suffix == "F32"
    centre = number * width
    offset = mp.erf(centre)
    fit = Fit("", "", lambda t: (mp.erf(t + centre) - offset) / t, lambda t: t / mp.erf(t + centre),
              -width / 2 if number else mpf("1e-20"), width / 2, degree, single)
    first = rounded(offset, single)
    return (first, rounded(offset - mpf(first), single)), *coefficients(fit)


def table(values: list[float]) -> str:
    return "(" + ", ".join([f"{v!r}" for v in values]) + "),"


def text() -> str:
    lines = [
        '"""Coefficients of several polynomials each, one tuple per power: the lowest first.',
        "",
        "Written by tools/fit_tables.py, which says how; not to be edited.",
        '"""',
        "",
        "# ruff: noqa: E501",
        "# fmt: off",
    ]
    for suffix, (count, width, degree) in ERF.items():
        found = [erf_of_interval(suffix, j) for j in range(count)]
        worst = max(error for *_, error in found)
        lines += [
            "", f"#: erf of the centres of {count} intervals, multiples of {width}: in two parts.",
            f"ERF_OFFSETS_{suffix} = (", *[f"    {table([o[part] for o, *_ in found])}" for part in (0, 1)], ")",
            "", f"#: (erf(centre + t) - erf(centre)) / t.  Within 2^{worst:.1f}.", f"ERF_TABLES_{suffix} = (",
            *[f"    {table([c[power] for _, c, _ in found])}" for power in range(degree + 1)], ")",
        ]
        print(f"erf {suffix} degree {degree} 2^{worst:.1f}", file=sys.stderr)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        TARGET.write_text(text(), encoding="utf-8")
    else:
        print(text())
