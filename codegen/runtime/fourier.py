"""Fourier transforms: native steps, and the numbers that their code reads (`fourier_ir`).

What is transformed is complex numbers, or an even number of real ones; how many has no prime factor above 13.  Of
other rows the reference, which is NumPy, is called between two native segments.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from .. import lowering
from ..ir import Node, dtype_name
from ..lazily import later
from ..records import NamedTuple, record
from . import memory, objects
from .ahead import Ahead
from .cost import transformed
from .engine import Code
from .launcher import Share

if TYPE_CHECKING:
    from . import fourier_ir, fourier_pass_ir
else:
    fourier_ir = later("codegen.runtime.fourier_ir")
    fourier_pass_ir = later("codegen.runtime.fourier_pass_ir")

__all__ = ["Fourier", "begin", "fourier_of", "is_native"]

#: From so many operations on threads share the rows; a chunk of them has at least so many.
_SHARED, _CHUNK = 300_000, 100_000
#: The bytes of two buffers of a block above which a row is taken apart: half of the second cache of a Zen 4.
_BLOCK_BYTES = 1 << 19
#: So few rows leave most lanes of a block empty: each is taken apart.
_FEW = 4
#: The longest column of a block, elsewhere than in rows that are taken apart.
_LONGEST = 1 << 20

#: So many angles are cheaper than what it takes to combine them.
_FEW_ANGLES = 1024
#: So many angles are looked at together: what that takes, 150 bytes each, is little beside the numbers of a long row.
_AT_ONCE = 1 << 16

_KINDS = {"complex": 0, "half": 1, "whole": 2}


@record(frozen=True)
class Fourier:
    """Code, the address of a plan, and how rows are shared; without, the extents say that all are done at once."""

    code: Code
    extents: tuple[int, ...]
    share: Share | None
    plan: _Plan

    @property
    def codes(self) -> tuple[Code, ...]:
        """What must stay loaded."""
        return (self.code, *self.plan.passes)


class _Plan:
    """The words of a plan, and the arrays and code whose addresses are among them.  One is equal to itself alone."""

    __slots__ = ("_arrays", "passes", "words")

    def __init__(self, shape: _Shape, kind: str, is_inverse: bool) -> None:
        self._arrays: list[np.ndarray] = []
        self.passes: list[Code] = []
        n, dtype = shape.n, shape.dtype
        columns, rows = shape.parts() or (0, 0)
        found = {
            "n": n, "inner": shape.inner, "inverse": int(is_inverse), "kind": _KINDS[kind],
            "columns": columns, "rows": rows,
        }  # fmt: skip
        if kind != "complex":
            found["halves"] = self._placed(_halves(n, dtype))
        if columns:
            found["passes.rows"], found["passes.columns"] = self._passes(rows, dtype), self._passes(columns, dtype)
            found["turns"] = self._placed(_turns(rows, columns, dtype))
        else:
            found["passes"] = self._passes(n, dtype)
        self.words = np.array([found.get(word, 0) for word in fourier_ir.WORDS], np.int64)

    def _placed(self, array: np.ndarray) -> int:
        self._arrays.append(array)
        return memory.address_of(array)

    def _passes(self, n: int, dtype: np.dtype) -> int:
        words, s = [], 1
        for radix in _radices(n) or ():
            m, code = n // (s * radix), _pass(dtype, radix).result()["pass"]
            p, k = np.ogrid[1:m, 1:radix]
            words += [code.address("pass"), m, s, self._placed(_roots(p * k, m * radix, dtype))]
            self.passes.append(code)
            s *= radix
        return self._placed(np.array([*words, 0], np.int64))


def is_native(node: Node) -> bool:
    """Whether a call is a transform that machine code does."""
    if not isinstance(node.op.lower, lowering.Fourier):
        return False
    shape = _shape(node)
    if node.op.lower.kind != "complex" and _whole_extent(node) % 2:
        return False
    return shape.n > 0 and _radices(shape.n) is not None and (shape.inner == 1 or shape.n <= _LONGEST)


def _whole_extent(node: Node) -> int:
    """Of how many numbers the transform is."""
    axis = node.keywords["axis"]
    aval = node.aval if node.op.lower.kind == "whole" else node.inputs[0].aval
    return aval.shape[axis]


class _Shape(NamedTuple):
    """Of how many complex numbers, how far apart, how many rows, of which real numbers."""

    n: int
    inner: int
    rows: int
    dtype: np.dtype

    def parts(self) -> tuple[int, int] | None:
        """(columns, rows) of a row that is taken apart, as alike as can be; None for one that is not."""
        lanes = fourier_pass_ir.LANES
        is_short = self.rows > _FEW and 4 * lanes * self.dtype.itemsize * self.n <= _BLOCK_BYTES
        if self.inner > 1 or is_short:
            return None
        found = [d for d in range(lanes, math.isqrt(self.n) + 1) if self.n % d == 0]
        return (self.n // found[-1], found[-1]) if found else None


def _shape(node: Node) -> _Shape:
    shape, axis, dtype = node.aval.shape, node.keywords["axis"], node.aval.dtype
    n = _whole_extent(node) // (1 if node.op.lower.kind == "complex" else 2)
    is_narrow = dtype.itemsize == (8 if dtype.kind == "c" else 4)
    rows = node.aval.size // max(1, shape[axis])
    return _Shape(n, math.prod(shape[axis + 1 :]), rows, np.dtype(np.float32 if is_narrow else np.float64))


def fourier_of(node: Node) -> Fourier:
    """The native step for such a node."""
    shape, kind = _shape(node), node.op.lower.kind
    plan = _Plan(shape, kind, kind == "whole" or (kind == "complex" and node.keywords["inverse"]))
    code, words = _code(shape.dtype).result()["fourier"], memory.address_of(plan.words)
    rows, work = shape.rows, transformed(shape.n, 1)
    if rows > 1 and work * rows >= _SHARED:
        lanes = fourier_pass_ir.LANES
        chunk = max(1, min(_CHUNK // work, rows // 2))
        if rows >= 2 * lanes:  # blocks stay whole
            chunk = -(-chunk // lanes) * lanes
        return Fourier(code, (words,), Share(rows, chunk), plan)
    return Fourier(code, (words, 0, rows), None, plan)


def begin(node: Node) -> None:
    """Have its code made beside the caller."""
    shape = _shape(node)
    _code(shape.dtype)
    for n in shape.parts() or (shape.n,):
        for radix in _radices(n) or ():
            _pass(shape.dtype, radix)


@functools.cache
def _code(dtype: np.dtype) -> Ahead[dict[str, Code]]:
    name = dtype_name(dtype)
    return objects.begun({"fourier": f"fourier {name}"}, lambda _: fourier_ir.fourier_ir(name))


@functools.cache
def _pass(dtype: np.dtype, radix: int) -> Ahead[dict[str, Code]]:
    name = dtype_name(dtype)
    return objects.begun({"pass": f"pass {radix} {name}"}, lambda _: fourier_pass_ir.pass_ir(name, radix))


# ------------------------------------------------------------ numbers


@functools.cache
def _radices(n: int) -> tuple[int, ...] | None:
    """The passes of a transform of n numbers; None where no passes do it."""
    found = []
    for radix in fourier_pass_ir.RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else None


def _roots(j: np.ndarray, n: int, dtype: np.dtype) -> np.ndarray:
    """exp(-2πi j / n), real and imaginary parts by turns.

    The angle is taken from the nearest quarter of a turn, so that its cosine and sine are as exact as they can be.
    """
    found = np.empty((*np.shape(j), 2), dtype)
    angles, pairs = j.reshape(-1), found.reshape(-1, 2)
    for k in range(0, angles.size, _AT_ONCE):
        _put_roots(pairs[k : k + _AT_ONCE], angles[k : k + _AT_ONCE], n)
    return found


def _put_roots(pairs: np.ndarray, j: np.ndarray, n: int) -> None:
    quarters = (4 * j + n // 2) // n
    c, s = _cosines(4 * j - quarters * n, n)
    q = quarters & 3
    is_odd = q & 1 == 1
    pairs[:, 0], pairs[:, 1] = np.where(is_odd, s, c), np.where(is_odd, c, s)
    pairs[:, 0] *= np.where((q == 1) | (q == 2), -1, 1)
    pairs[:, 1] *= np.where(q < 2, -1, 1)


def _cosines(j: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The cosine and sine of π j / 2n: of many angles, by those of two parts of j."""
    if j.size <= _FEW_ANGLES:
        # π is the sum of two doubles, so that it has all digits of a longer float.
        angle = j * ((np.longdouble(math.pi) + np.longdouble(1.2246467991473532e-16)) / (2 * np.longdouble(n)))
        return np.cos(angle), np.sin(angle)
    coarse, fine = np.divmod(j, _FEW_ANGLES)
    first = int(coarse.min())
    c, s = _cosines(np.arange(_FEW_ANGLES), n)
    c_far, s_far = np.empty((2, int(coarse.max()) - first + 1), np.longdouble)
    for k in range(0, c_far.size, _FEW_ANGLES):
        part = np.arange(k, min(k + _FEW_ANGLES, c_far.size)) + first
        c_far[k : k + _FEW_ANGLES], s_far[k : k + _FEW_ANGLES] = _cosines(part * _FEW_ANGLES, n)
    c, s, c_far, s_far = c[fine], s[fine], c_far[coarse - first], s_far[coarse - first]
    return c * c_far - s * s_far, s * c_far + c * s_far


def _halves(n: int, dtype: np.dtype) -> np.ndarray:
    """-i exp(-2πi k / 2n) for k = 0 .. n / 2: a quarter turn further."""
    return _roots(2 * np.arange(n // 2 + 1) + n, 4 * n, dtype)


def _turns(rows: int, columns: int, dtype: np.dtype) -> np.ndarray:
    """exp(-2πi j k / n) for row k, column j: real parts, then imaginary parts."""
    k, j = np.ogrid[:rows, :columns]
    return np.ascontiguousarray(np.moveaxis(_roots(j * k, rows * columns, dtype), -1, 0))
