"""The numbers that Fourier transforms read: roots of unity, as exact as they can be, and the tables made of them.

Pairs are a real part and an imaginary one.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["factors", "halves", "parts", "radices", "roots", "turns"]

#: The number of transforms that are done side by side.
LANES = 8

#: The rows that lie one behind the other, where all do.
ALL = 1 << 40

#: The radices of passes that are written out, the first that fits: 8 is the largest that keeps its elements in
#: registers.
RADICES = (8, 4, 2, 3, 5, 7, 11, 13)

#: The number of angles that are cheaper than their combination.
_FEW_ANGLES = 1024
#: The number of angles that are looked at together: their memory, 150 bytes each, is little beside the numbers of a
#: long row. NumPy takes .03 s to transform so many longer floats, and six times as long as of doubles.
_AT_ONCE = 1 << 16


# ------------------------------------------------------------ extents


def radices(n: int) -> tuple[int, ...] | None:
    """The passes of a transform of n numbers; None where no passes do it."""
    found = []
    for radix in RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else None


def parts(n: int) -> tuple[int, int] | None:
    """(columns, rows) of a row of n, which has small factors alone, as alike as can be; None where they are too few."""
    divisors, most, rest, factor = {1}, math.isqrt(n), n, 2
    while rest > 1:
        while rest % factor:
            factor += 1
        rest //= factor
        divisors |= {d * factor for d in divisors if d * factor <= most}
    found = max(divisors)
    return (n // found, found) if found >= LANES else None


# ------------------------------------------------------------ tables


def factors(radix: int, m: int, dtype: np.dtype) -> np.ndarray:
    """Numbers that a pass reads: of an odd radix the roots of its butterfly, then w^(p k) for p = 1, 2, .."""
    p, k = np.ogrid[1:m, 1:radix]
    turned = roots(p * k, m * radix, dtype)
    if radix % 2 == 0:
        return turned
    k, j = np.ogrid[1 : radix // 2 + 1, 1 : radix // 2 + 1]
    return np.concatenate([roots(k * j % radix, radix, dtype).reshape(-1), turned.reshape(-1)])


def halves(n: int, dtype: np.dtype) -> np.ndarray:
    """-i exp(-2πi k / 2n) for k = 0 .. n / 2: a quarter turn further."""
    return roots(2 * np.arange(n // 2 + 1) + n, 4 * n, dtype)


def turns(rows: int, columns: int, dtype: np.dtype) -> np.ndarray:
    """exp(-2πi j k / n) for row k, column j: real parts, then imaginary parts."""
    k, j = np.ogrid[:rows, :columns]
    return np.ascontiguousarray(np.moveaxis(roots(j * k, rows * columns, dtype), -1, 0))


# ------------------------------------------------------------ roots


def roots(j: np.ndarray, n: int, dtype: np.dtype) -> np.ndarray:
    """exp(-2πi j / n), in pairs: of many angles, as products of those of two parts of j."""
    found = np.empty((*np.shape(j), 2), dtype)
    flat, pairs = j.reshape(-1), found.reshape(-1, 2)
    is_short = flat.size <= _FEW_ANGLES
    near = _exact_roots(flat if is_short else np.arange(_FEW_ANGLES), n)
    for k in range(0, flat.size, _AT_ONCE):
        coarse, fine = np.divmod(flat[k : k + _AT_ONCE], _FEW_ANGLES)
        first = int(coarse.min())
        far = () if is_short else _exact_roots(np.arange(first, int(coarse.max()) + 1) * _FEW_ANGLES, n)
        w = near if is_short else far[coarse - first] * near[fine]
        pairs[k : k + _AT_ONCE, 0], pairs[k : k + _AT_ONCE, 1] = w.real, w.imag
    return found


def _exact_roots(j: np.ndarray, n: int) -> np.ndarray:
    """The angle is taken from the nearest quarter of a turn, so that its cosine and sine are as exact as they can be.

    π is the sum of two doubles, so that it has all digits of a longer float.
    """
    quarters = (4 * j + n // 2) // n
    pi = np.longdouble(math.pi) + np.longdouble(1.2246467991473532e-16)
    angle = (4 * j - quarters * n) * (pi / (2 * np.longdouble(n)))
    c, s = np.cos(angle), np.sin(angle)
    q = quarters & 3
    found = np.empty(j.shape, np.clongdouble)
    found.real, found.imag = np.choose(q, [c, -s, -c, s]), np.choose(q, [-s, -c, s, c])
    return found
