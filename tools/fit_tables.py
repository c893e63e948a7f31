"""Make the tables of elementary functions for machines with table lookup in registers: codegen/emit/math/tables.py.

    python tools/fit_tables.py            prints the file, and the error of each fit to stderr
    python tools/fit_tables.py --write    writes the file

A table holds one coefficient for each of 16 (f64) or 32 (f32) parts of a function's range.
Polynomials are fitted as in `fit_elementary`.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from fit_elementary import SLACK, TINY, Fit, exp_rest, polynomial_lines, write_or_print
from mpmath import mp, mpf

TARGET = Path(__file__).parent.parent / "codegen" / "emit" / "math" / "tables.py"


def rounded(x: mpf, single: bool) -> float:
    return float(np.float32(float(x))) if single else float(x)


#: For logarithms: the number of entries, the degree, and for each base the last bit of an entry's first part.  It is
#: the last bit of log_b(2) in `math.log`, so that whole multiples of log_b(2) and the first parts add up exactly.
LOG = {"F64": (16, 10, {"E": 42, "2": 42, "10": 42}), "F32": (32, 3, {"E": 17, "2": 16, "10": 14})}
#: The number of entries on each side of 1 that are 1: there the series gives the whole logarithm, without cancellation.
NEAR = {"F64": 2, "F32": 2}
BASES = {"E": mp.e, "2": mpf(2), "10": mpf(10)}


def inverse(suffix: str, number: int) -> float:
    """1 / the centre of the mantissas, from 3/4 to 3/2, whose first bits are this number; 1 for entries next to 1."""
    count = LOG[suffix][0]
    if number < NEAR[suffix] or number >= count - NEAR[suffix]:
        return 1.0
    centre = 1 + (number + mpf("0.5")) / count
    return float(np.float32(float(1 / centre if 2 * number < count else 2 / centre)))


def logarithm(suffix: str, base: str, number: int) -> tuple[float, float]:
    """-log(inverse) to a base, as the sum of two floats."""
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
        lines += polynomial_lines(log_near_one(suffix))
    return lines


#: For pow: number of entries; degrees of the logarithm's tail and of the power of two; last bit of an entry as in LOG.
POW = {"F64": (16, 10, 5, 42), "F32": (32, 2, 2, 16)}
MANTISSA = {"F64": 52, "F32": 23}


def factor(suffix: str, number: int) -> float:
    """A number f of few bits near count / number for which m * f - 1 is exact for all m that round to number / count.

    The one with the smallest abs(m * f - 1) is chosen.  Mantissas m are in [3/4, 3/2).
    """
    count = POW[suffix][0]
    low, high = max(number - 0.5, 0.75 * count) / count, min(number + 0.5, 1.5 * count) / count
    places = MANTISSA[suffix] + (low < 1)
    found = []
    for bits in range(9):
        for k in range(2**bits // 2, 2 ** (bits + 1)):
            largest = max(abs(low * k / 2**bits - 1), abs(high * k / 2**bits - 1))
            if places + bits + math.floor(math.log2(largest)) <= MANTISSA[suffix]:
                found.append((largest, k / 2**bits))
    return min(found)[1]


def factors(suffix: str) -> list[float]:
    """The factors of all numbers, at the position that the last bits of each number give."""
    count = POW[suffix][0]
    found = [1.0] * count
    for number in range(3 * count // 4, 3 * count // 2 + 1):
        found[number % count] = factor(suffix, number)
    return found


def log2_parts(suffix: str, inverse: float) -> tuple[float, float]:
    """-log2(inverse) as the sum of two floats, the first with the last bit that `POW` gives."""
    exact, bits = -mp.log(mpf(inverse), 2), POW[suffix][3]
    first = float(mp.nint(mp.ldexp(exact, bits)) / mpf(2) ** bits)
    return first, rounded(exact - mpf(first), suffix == "F32")


def root_parts(suffix: str, number: int) -> tuple[float, float]:
    """2**(number / count) rounded to a float, and the relative error of that float."""
    exact = mpf(2) ** (mpf(number) / POW[suffix][0])
    first = rounded(exact, suffix == "F32")
    return first, rounded(exact / mpf(first) - 1, suffix == "F32")


def pow_fits(suffix: str) -> list[Fit]:
    count, tail, short, _ = POW[suffix]
    numbers = range(3 * count // 4, 3 * count // 2 + 1)
    ends = [abs((n + half) / count * factor(suffix, n) - 1) for n in numbers[1:-1] for half in (-0.5, 0.5)]
    bound, half, single = mpf(max(ends)), mpf("0.501") / count, suffix == "F32"
    return [
        Fit(f"POW_LOG_{suffix}", "(log(1 + r) - r + r**2/2) / r**3", lambda r: (mp.log1p(r) - r + r**2 / 2) / r**3,
            lambda r: abs(r**3 / mp.log1p(r)), -bound - TINY, bound, tail, single),
        Fit(f"POW_EXP2_{suffix}", "(2**f - 1) / f", lambda f: mp.expm1(f * mp.log(2)) / f, abs,
            -half - TINY, half, short, single),
    ]  # fmt: skip


def powers() -> list[str]:
    lines = []
    for suffix, (count, *_) in POW.items():
        inverses = factors(suffix)
        logs, roots = [log2_parts(suffix, f) for f in inverses], [root_parts(suffix, n) for n in range(count)]
        lines += ["", f"#: 1 / m for mantissas m rounded to {count}ths, short enough that r = m / m - 1 is exact.",
                  f"POW_INVERSES_{suffix} = {table(inverses)[:-1]}",
                  "", "#: The logarithms of these m to base 2, in two parts.", f"POW_LOGS_{suffix} = (",
                  *[f"    {table([pair[part] for pair in logs])}" for part in (0, 1)], ")",
                  "", f"#: 2**(j/{count}), and what each lacks, relative to it.", f"POW_ROOTS_{suffix} = (",
                  *[f"    {table([pair[part] for pair in roots])}" for part in (0, 1)], ")"]
        lines += [line for fit in pow_fits(suffix) for line in polynomial_lines(fit)]
    return lines


#: For exp: the degree of the polynomial after 1 + r.  The powers of two come from the tables of `POW`.
EXP = {"F64": 4, "F32": 1}


def exponentials() -> list[str]:
    lines = []
    for suffix, degree in EXP.items():
        bound = mp.log(2) / (2 * POW[suffix][0]) * SLACK
        says = f"(exp(r) - 1 - r) / r**2,  |r| <= log(2)/{2 * POW[suffix][0]}"
        lines += polynomial_lines(Fit(f"EXP_NEAR_{suffix}", says, exp_rest, lambda r: abs(r**2), -bound, bound, degree,
                                      suffix == "F32"))  # fmt: skip
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
        "# ruff: noqa: E501  a line is a power",
        "# fmt: off",
    ]
    return "\n".join(lines + logarithms() + powers() + exponentials()) + "\n"


if __name__ == "__main__":
    write_or_print(text(), TARGET)
