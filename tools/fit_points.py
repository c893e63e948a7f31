"""Make the tables of points that the elementary functions read from memory: codegen/emit/math/point_tables.py.

    python tools/fit_points.py            prints the file
    python tools/fit_points.py --write    writes it

At a point a function is known to all its digits; what lies between is a series around the nearest.
"""

from __future__ import annotations

import itertools
import struct
import sys
from pathlib import Path

from fit_elementary import TINY, Fit, coefficients
from fit_tables import LOG, rounded, table
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


#: Points at which the logarithm is known to doubles: one for each interval of so many mantissas, seen as integers from
#: the lowest on.  One is in the middle of its interval.
LOG_STEPS, LOG_WIDTH, LOG_BELOW_ONE = 128, 1 << 45, 74
LOWEST = struct.unpack("<q", struct.pack("<d", 1.0))[0] - (2 * LOG_BELOW_ONE + 1) * LOG_WIDTH // 2


def log_at_point(number: int) -> tuple[float, float]:
    """(1/c, log(c)) for a c near the middle of an interval.

    The logarithm has no more places than that of 2 in `math.exp`, so that whole multiples of that and it add up
    exactly; and of the c for which that is so, 1/c is as good as a number of 68 bits.
    """
    if number == LOG_BELOW_ONE:
        return 1.0, 0.0
    low, high = (struct.unpack("<d", struct.pack("<q", LOWEST + j * LOG_WIDTH))[0] for j in (number, number + 1))
    places = LOG["F64"][2]["E"]
    middle = mp.nint(mp.ldexp(mp.log((mpf(low) + mpf(high)) / 2), places))
    step = mp.ldexp(1, -places)
    up = down = mp.exp(-step * middle)
    fall, rise = mp.exp(-step), mp.exp(step)
    for steps in itertools.count():
        for exact, log in ((up, middle + steps), (down, middle - steps)):
            if abs(mpf(float(exact)) - exact) < exact * mpf(2) ** -68:
                return float(exact), float(log * step)
        up, down = up * fall, down * rise
    raise AssertionError


def log_at_one() -> Fit:
    bound = mpf(2) ** -8 * mpf("1.01")
    return Fit("LOG_AT_POINT", "(log(1 + r) - r) / r**2 next to a point", lambda r: (mp.log1p(r) - r) / r**2,
               lambda r: abs(r**2 / mp.log1p(r)), -bound - TINY, bound, 5)


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
    values, error = coefficients(log_at_one())
    lines += [
        "", "#: The bits of the lowest mantissa of the next table.", f"LOG_LOWEST_BITS = {LOWEST:#x}",
        "", f"#: 1/c and log(c) for each of {LOG_STEPS} mantissas c; the logarithm short and right to 68 bits.",
        "LOG_POINTS = (", *in_rows([log_at_point(number) for number in range(LOG_STEPS)]),
        "", f"#: {log_at_one().says}.  Within 2^{error:.1f}.", f"LOG_AT_POINT = {table(values)[:-1]}",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        TARGET.write_text(text(), encoding="utf-8")
    else:
        print(text())
