"""Fourier transforms: native steps, their plans, and the tables that they read.

Rows whose length is a product of `RADICES` are transformed several side by side, or one by one if they are few or long
(`fourier_rows`).  Both ways run passes that read tables of roots of unity, correctly rounded as far as possible, in
pairs of a real and an imaginary part.  NumPy transforms rows of any other length (`host_steps`).
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from .. import lowering
from ..ir import Node, dtype_name
from ..lazily import later
from ..lowering import LANES
from . import memory, objects
from .cost import transformed
from .launcher import NativeStep
from .orders import share_of_rows

if TYPE_CHECKING:
    from ..native import Translation
    from . import fourier_rows
else:
    fourier_rows = later("codegen.runtime.fourier_rows")

#: The radices of passes; the first one that divides the remaining length is taken.
RADICES = (8, 4, 2, 3, 5, 7, 11, 13)

#: The number of fine angles: each root is a product of a coarse and a fine one, if there are more roots than this.
_FEW_ANGLES = 1024
#: The number of angles that are computed together: their memory, 150 bytes each, is little beside the numbers of a long
#: row.  NumPy takes .03 s to transform this many long doubles, six times as long as for doubles.
_AT_ONCE = 1 << 16

#: If two buffers of a block are larger than this, each row is split into a matrix: half of the L2 cache of a Zen 4.
_BLOCK_BYTES = 1 << 19
#: Up to this many rows would leave most lanes of a block empty: each row is split into a matrix.
_FEW = 4
#: The longest column of a block.
_LONGEST = 1 << 20

_KINDS = ("complex", "half", "whole")


class _WordsOfPlan:
    """The words of a `fourier_rows.TransformPlan` for `rows` rows of n complex numbers, which are `inner` apart.
    sign: the sign of the angles, -1 for an inverse transform."""

    __slots__ = ("_dtype", "_owned", "_sign", "words")

    def __init__(self, n: int, rows: int, inner: int, kind: str, dtype: np.dtype, sign: int, *, is_long: bool) -> None:
        self._owned: list[object] = []
        self._dtype, self._sign = dtype, sign
        halves_at = self._roots(2 * np.arange(n // 2 + 1) + n, 4 * n) if kind != "complex" else 0
        counts = n + (kind == "whole"), n + (kind == "half")
        columns, second = n, [0] * 12
        if is_long:
            columns, rows = parts(n) or (n, 1)
            sides = [rows, 2 * columns, 2, 0] * 2
            first = [*sides, rows, columns, self._passes(rows), self._turns(rows, columns)]
            second = [columns, 2, 2 * columns, 0, columns, 2 * rows, 2, 0, columns, rows, self._passes(columns), 0]
        else:
            sides = [x for c in counts for x in (c, 2 * inner, 2 if inner > 1 else 2 * c, 2 * inner * c)]
            first = [*sides, n, inner if inner > 1 else rows, self._passes(n), 0]
        last = [_KINDS.index(kind), halves_at, 4 * LANES * (columns + 1), n if is_long else 0, *[2 * c for c in counts]]
        self.words = np.array([*first, *second, *last], np.int64)

    def _placed(self, array: np.ndarray) -> int:
        self._owned.append(array)
        return memory.address_of(array)

    def _roots(self, j: np.ndarray, n: int) -> int:
        return self._placed(roots(self._sign * j, n, self._dtype))

    def _turns(self, rows: int, columns: int) -> int:
        """The address of exp(-2πi j k / n) for row k, column j: all real parts, then all imaginary parts."""
        j = np.multiply.outer(self._sign * np.arange(rows), np.arange(columns))
        return self._placed(np.ascontiguousarray(np.moveaxis(roots(j, rows * columns, self._dtype), -1, 0)))

    def _passes(self, n: int) -> int:
        words, s, name = [], 1, dtype_name(self._dtype)
        for radix in radices(n) or ():
            m, text = n // (s * radix), functools.partial(_text_of_pass, name, radix)
            code = objects.native_code("fourier_pass", text, words=f"{radix} of {name}")
            words += [code.address("fourier_pass"), m, s, self._placed(factors(radix, m, self._sign, self._dtype))]
            self._owned.append(code)
            s *= radix
        return self._placed(np.array([*words, 0], np.int64))


# ------------------------------------------------------------ steps


def _text_of_pass(name: str, radix: int, module: Translation) -> str:
    return module.text([fourier_rows.pass_of(name, radix)])


def is_native(node: Node) -> bool:
    """True if a call is a Fourier transform that has machine code: not empty, of a supported length."""
    return isinstance(node.op.lower, lowering.Fourier) and node.aval.size > 0 and _extents(node)[0] > 0


def _extents(node: Node) -> tuple[int, int]:
    """(complex numbers of a row that the passes transform, their distance).  Real rows that are packed have half as
    many complex numbers; the first number is 0 if passes cannot do the transform."""
    axis, kind = node.keywords["axis"], node.op.lower.kind
    n = (node.aval if kind == "whole" else node.inputs[0].aval).shape[axis]
    inner = math.prod(node.aval.shape[axis + 1 :])
    if kind != "complex":
        n = 0 if n % 2 or inner > 1 else n // 2
    return (n if n and radices(n) is not None and (inner == 1 or n <= _LONGEST) else 0), inner


def fourier_step(node: Node, slots: tuple[int, ...]) -> tuple[NativeStep, tuple[object, ...]]:
    """The native step for a Fourier transform on these slots, and the objects that must live as long as the step.

    Raises MemoryError if there is no room for its result.

    The tables of a long row are as large as the row, so the memory of a result is tried before they are computed.
    """
    memory.new(node.aval)
    kind, (n, inner) = node.op.lower.kind, _extents(node)
    rows = node.aval.size // node.aval.shape[node.keywords["axis"]]
    size = node.aval.dtype.itemsize // (2 if node.aval.dtype.kind == "c" else 1)
    dtype = np.dtype(f"f{size}")
    is_short = rows > _FEW and 4 * LANES * size * n <= _BLOCK_BYTES
    is_long = inner == 1 and not is_short and parts(n) is not None
    is_inverse = kind == "whole" or (kind == "complex" and node.keywords["inverse"])
    plan = _WordsOfPlan(n, rows, inner, kind, dtype, -1 if is_inverse else 1, is_long=is_long)
    name = dtype_name(dtype)
    code = objects.native_code("fourier", lambda m: m.text([fourier_rows.rows_of(name)]), words=f"rows {name}")
    share = share_of_rows(rows, transformed(n, 1), LANES)
    extents = memory.address_of(plan.words), *([] if share else [0, rows])
    return NativeStep(code.address("fourier"), slots, extents, share), (code, plan)


# ------------------------------------------------------------ extents


def radices(n: int) -> tuple[int, ...] | None:
    """The radices of the passes of a transform of n numbers; None if n has other factors."""
    found = []
    for radix in RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else None


def parts(n: int) -> tuple[int, int] | None:
    """(columns, rows) of the matrix that a row of n is split into, as close as possible; None if one is too small."""
    return next(((n // d, d) for d in range(math.isqrt(n), LANES - 1, -1) if n % d == 0), None)


# ------------------------------------------------------------ roots


def factors(radix: int, m: int, sign: int, dtype: np.dtype) -> np.ndarray:
    """The table that a pass reads: the roots of its butterfly, then w^(p k) for p = 0, 1, ..."""
    p, k = np.ogrid[:m, 1:radix]
    i, j = np.ogrid[1 : (radix + 1) // 2, 1 : (radix + 1) // 2]
    return np.concatenate([roots(sign * j, n, dtype).reshape(-1) for j, n in ((i * j, radix), (p * k, m * radix))])


def roots(j: np.ndarray, n: int, dtype: np.dtype) -> np.ndarray:
    """exp(-2πi j / n), as pairs of real and imaginary parts: products of the roots for two parts of each j."""
    found = np.empty((*j.shape, 2), dtype)
    flat, pairs = j.reshape(-1), found.reshape(-1, 2)
    near = _exact_roots(np.arange(min(n, _FEW_ANGLES)), n)
    for k in range(0, flat.size, _AT_ONCE):
        coarse, fine = np.divmod(flat[k : k + _AT_ONCE] % n, _FEW_ANGLES)
        first = int(coarse.min())
        far = _exact_roots(np.arange(first, int(coarse.max()) + 1) * _FEW_ANGLES, n)
        w = far[coarse - first] * near[fine]
        pairs[k : k + _AT_ONCE, 0], pairs[k : k + _AT_ONCE, 1] = w.real, w.imag
    return found


def _exact_roots(j: np.ndarray, n: int) -> np.ndarray:
    """exp(-2πi j / n), as long doubles, each with an angle from the nearest quarter turn, for exact cosines and sines.

    π is the sum of two doubles, so that it has all digits of a long double.
    """
    quarters = (4 * j + n // 2) // n
    pi = np.longdouble(math.pi) + np.longdouble(1.2246467991473532e-16)
    angle = (4 * j - quarters * n) * (pi / (2 * np.longdouble(n)))
    c, s = np.cos(angle), np.sin(angle)
    found = np.empty(j.shape, np.clongdouble)
    found.real, found.imag = np.choose(quarters & 3, [c, -s, -c, s]), np.choose(quarters & 3, [-s, -c, s, c])
    return found
