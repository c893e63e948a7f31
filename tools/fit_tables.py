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
from fit_elementary import TINY, Fit, coefficients
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


#: Entries, the degree, and for each base the last bit of the first part: that of log_b(2) in `math.log`, so that
#: whole multiples of that and the entries add up exactly.
LOG = {"F64": (16, 10, {"E": 42, "2": 42, "10": 42}), "F32": (32, 3, {"E": 17, "2": 16, "10": 14})}
#: Entries on either side of 1 that are 1: their logarithm is all series, and the others' has no cancellation.
NEAR = {"F64": 2, "F32": 2}
BASES = {"E": mp.e, "2": mpf(2), "10": mpf(10)}


def inverse(suffix: str, number: int) -> float:
    """1 / the centre of the mantissas, from 3/4 to 3/2, whose first bits are this number; 1 next to 1 on both sides."""
    count = LOG[suffix][0]
    if number < NEAR[suffix] or number >= count - NEAR[suffix]:
        return 1.0
    centre = 1 + (number + mpf("0.5")) / count
    return float(np.float32(float(1 / centre if 2 * number < count else 2 / centre)))


def logarithm(suffix: str, base: str, number: int) -> tuple[float, float]:
    """-log(inverse) to a base, in two parts."""
    bits = LOG[suffix][2][base]
    exact = -mp.log(mpf(inverse(suffix, number)), BASES[base])
    first = float(mp.nint(mp.ldexp(exact, bits)) / mpf(2) ** bits)
    return first, rounded(exact - mpf(first), suffix == "F32")


def log_near_one(suffix: str) -> Fit:
    count, degree, _ = LOG[suffix]
    width = mpf(NEAR[suffix]) / count
    return Fit(f"LOG_NEAR_{suffix}", "(log(1 + r) - r) / r**2 next to 1", lambda r: (mp.log1p(r) - r) / r**2,
               lambda r: abs(r**2 / mp.log1p(r)), -width / 2 - TINY, width, degree, suffix == "F32")


def logarithms() -> list[str]:
    lines = []
    for suffix, (count, _, bases) in LOG.items():
        lines += ["", f"#: 1 / m for mantissas m by their first bits; {count} of them.",
                  f"LOG_INVERSES_{suffix} = {table([inverse(suffix, j) for j in range(count)])[:-1]}"]
        for base in bases:
            pairs = [logarithm(suffix, base, j) for j in range(count)]
            lines += ["", f"#: The logarithms of these m to base {base.lower()}, in two parts.",
                      f"LOGS_{base}_{suffix} = (",
                      *[f"    {table([pair[part] for pair in pairs])}" for part in (0, 1)], ")"]
        fit = log_near_one(suffix)
        values, error = coefficients(fit)
        lines += ["", f"#: {fit.says}.  Within 2^{error:.1f}.", f"{fit.name} = {table(values)[:-1]}"]
        print(f"{fit.name} degree {fit.degree} 2^{error:.1f}", file=sys.stderr)
    return lines


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
    return "\n".join(lines + logarithms()) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        TARGET.write_text(text(), encoding="utf-8")
    else:
        print(text())
