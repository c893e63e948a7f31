"""Make the polynomials of the elementary functions, the file codegen/emit/math/coefficients.py.

    python tools/fit_elementary.py            prints the file, and the error of each fit to stderr
    python tools/fit_elementary.py --write    writes the file

Each polynomial is the weighted least-squares fit of its function at Chebyshev nodes, whose error is
within a factor of two of the smallest possible.  Coefficients are rounded to their type one by one
from the lowest, and the others are fitted again each time, so that later coefficients compensate for
the rounding of earlier ones.  Needs mpmath; takes about ten seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mpmath import mp, mpf

mp.dps = 50
TARGET = Path(__file__).parent.parent / "codegen" / "emit" / "math" / "coefficients.py"

Real = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    """A fit target(x) ~ sum c[k] x**k on [low, high], which minimises the error times weight(x).

    The weights make errors relative to the value of the function that the polynomial is a part of.
    """

    name: str
    says: str
    target: Real
    weight: Real
    low: object
    high: object
    degree: int
    single: bool = False


def coefficients(fit: Fit) -> tuple[list[float], float]:
    """The coefficients, lowest first, and log2 of the largest weighted error."""
    low, high = mpf(fit.low), mpf(fit.high)
    count = 5 * (fit.degree + 1)
    nodes = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    weights = [fit.weight(x) for x in nodes]
    rest = [fit.target(x) for x in nodes]
    done: list[float] = []
    for k in range(fit.degree + 1):
        rows = [[w * x**i for i in range(k, fit.degree + 1)] for x, w in zip(nodes, weights, strict=True)]
        lowest = mp.qr_solve(mp.matrix(rows), mp.matrix([w * r for w, r in zip(weights, rest, strict=True)]))[0][0]
        done.append(float(np.float32(float(lowest))) if fit.single else float(lowest))
        rest = [r - mpf(done[-1]) * x**k for x, r in zip(nodes, rest, strict=True)]
    points = [low + (high - low) * (j + mpf(1) / 3) / 300 for j in range(300)]
    error = max(abs(fit.weight(x) * (fit.target(x) - mp.fsum(c * x**k for k, c in enumerate(done)))) for x in points)
    return done, float(mp.log(error, 2))


def polynomial_lines(fit: Fit) -> list[str]:
    """The lines of a polynomial in the generated file; prints its error to stderr."""
    values, error = coefficients(fit)
    print(f"{fit.name:12} degree {fit.degree:2}  2^{error:.1f}", file=sys.stderr)
    return ["", f"#: {fit.says}.  Within 2^{error:.1f}.", f"{fit.name} = ({', '.join(map(repr, values))})"]


def write_or_print(text: str, target: Path) -> None:
    """Write the file if `--write` is given, else print it."""
    if "--write" in sys.argv[1:]:
        target.write_text(text, encoding="utf-8")
    else:
        print(text)


# ---- the fits -------------------------------------------------------------------------------------

LN2 = mp.log(2)
SQRT_HALF = mp.sqrt(mpf(1) / 2)
#: A factor for bounds, since reduced arguments can exceed their bound by the rounding of the quotient.
SLACK = mpf("1.002")
EXP_BOUND = LN2 / 2 * SLACK
LOG_BOUND = (3 - 2 * mp.sqrt(2)) ** 2 * SLACK  # of s*s, where s = (m - 1) / (m + 1)
# For large arguments the quotient by pi/2 is less exact, so the reduced argument can exceed pi/4 by more.
QUARTER = (mp.pi / 4 * mpf("1.02")) ** 2
ATAN_BOUND = (mp.sqrt(2) - 1) ** 2 * SLACK
TINY = mpf("1e-20")  # the bound in place of 0 for quotients with a removable singularity there


def exp_rest(r: mpf) -> mpf:
    return (mp.expm1(r) - r) / r**2


def exp_minus_rest(u: mpf) -> mpf:
    return mp.expm1(-u) / u


def exp2_rest(f: mpf) -> mpf:
    return mp.expm1(f * LN2) / f


def cbrt_inverse(t: mpf) -> mpf:
    return 1 / mp.cbrt(1 + t)


def log_rest(z: mpf) -> mpf:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


def log_third_rest(z: mpf) -> mpf:
    s = mp.sqrt(z)
    return ((mp.atanh(s) / s - 1) / z - mpf(1) / 3) / z


def sin_rest(z: mpf) -> mpf:
    r = mp.sqrt(z)
    return (mp.sin(r) / r - 1) / z


def cos_rest(z: mpf) -> mpf:
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def asin_rest(z: mpf) -> mpf:
    s = mp.sqrt(z)
    return (mp.asin(s) / s - 1) / z


def atan_rest(z: mpf) -> mpf:
    t = mp.sqrt(z)
    return (mp.atan(t) / t - 1) / z


EXP_MINUS_BOUND = mpf(12) / 128 * mpf("1.002")  # u = (x - c) (x + c), where |x - c| <= 1/128, x + c <= 12


def fits() -> list[Fit]:
    """All fits, in the order of the generated file."""
    found: list[Fit] = []

    def both(name: str, says: str, target: Real, weight: Real, low, high, degree: int, degree_single: int) -> None:
        found.append(Fit(f"{name}_F64", says, target, weight, low, high, degree))
        found.append(Fit(f"{name}_F32", says, target, weight, low, high, degree_single, single=True))

    both("EXP", "(exp(r) - 1 - r) / r**2,  |r| <= log(2)/2", exp_rest, lambda r: abs(r**2 / mp.expm1(r)),
         -EXP_BOUND, EXP_BOUND, 10, 5)
    both("CBRT", "m**(-1/3) in m - 1,  sqrt(1/2) <= m <= sqrt(2): to begin with", cbrt_inverse,
         lambda t: mp.cbrt(1 + t), SQRT_HALF - 1, 2 * SQRT_HALF - 1, 4, 2)
    both("LOG", "(log((1+s) / (1-s)) / s - 2) / z,  z = s*s", log_rest, lambda z: z / 2, TINY, LOG_BOUND, 6, 2)
    both("SIN", "(sin(r) / r - 1) / z,  z = r*r,  |r| <= pi/4", sin_rest, lambda z: z, TINY, QUARTER, 6, 3)
    both("COS", "(cos(r) - 1 + z/2) / z**2,  z = r*r,  |r| <= pi/4", cos_rest, lambda z: z**2, TINY, QUARTER, 5, 2)
    both("ASIN", "(asin(s) / s - 1) / z,  z = s*s <= 1/4", asin_rest, lambda z: z, TINY, mpf("0.25"), 12, 5)
    both("ATAN", "(atan(t) / t - 1) / z,  z = t*t,  |t| <= tan(pi/8)", atan_rest, lambda z: z,
         TINY, ATAN_BOUND, 10, 4)
    found.append(Fit("EXP_MINUS_F64", "(exp(-u) - 1) / u,  |u| <= 3/32", exp_minus_rest, lambda u: abs(u),
                     -EXP_MINUS_BOUND, EXP_MINUS_BOUND, 7))
    found.append(Fit("EXP_MINUS_F32", "the same, |u| <= 5/32", exp_minus_rest, lambda u: abs(u),
                     -mpf(5) / 32, mpf(5) / 32, 4, single=True))
    found.append(Fit("ATANH_TAIL", "((atanh(s) / s - 1) / z - 1/3) / z,  z = s*s: for the double-double logarithm",
                     log_third_rest, lambda z: z**2, TINY, LOG_BOUND, 6))
    found.append(Fit("EXP2", "(2**f - 1) / f,  |f| <= 1/2", exp2_rest, lambda f: abs(f),
                     -mpf("0.5") * SLACK, mpf("0.5") * SLACK, 11))
    found.append(Fit("EXP2_F32", "the same, of floats", exp2_rest, lambda f: abs(f),
                     -mpf("0.5") * SLACK, mpf("0.5") * SLACK, 6, single=True))
    found.append(Fit("EXP2_SHORT", "the same, for pow of floats", exp2_rest, lambda f: abs(f),
                     -mpf("0.5") * SLACK, mpf("0.5") * SLACK, 6))
    found.append(Fit("LOG_SHORT", "as LOG, for pow of floats", log_rest, lambda z: z / 2, TINY, LOG_BOUND, 4))
    return found


def text() -> str:
    lines = [
        '"""Polynomials of the elementary functions, lowest coefficient first.',
        "",
        "Written by tools/fit_elementary.py, which says how; not to be edited.  Beside each: what it is",
        "close to, and how close (the largest error, relative to the function it serves).",
        '"""',
        "",
        "# ruff: noqa: E501  a line is a polynomial",
        "# fmt: off",
    ]
    return "\n".join([*lines, *[line for fit in fits() for line in polynomial_lines(fit)]]) + "\n"


if __name__ == "__main__":
    write_or_print(text(), TARGET)
