"""Fourier transforms: native steps, and the numbers that their code reads.

Passes transform what has small prime factors (`fourier_ir`, `fourier_pass_ir`, `fourier_prime_ir`).  Other rows, odd
numbers of real ones in long rows, and very long rows that do not lie packed are transformed one by one
(`fourier_chirp_ir`).
"""

from __future__ import annotations

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
    from . import fourier_apart_ir, fourier_chirp_ir, fourier_ir, fourier_pass_ir, fourier_prime_ir
else:
    fourier_apart_ir = later("codegen.runtime.fourier_apart_ir")
    fourier_chirp_ir = later("codegen.runtime.fourier_chirp_ir")
    fourier_ir = later("codegen.runtime.fourier_ir")
    fourier_pass_ir = later("codegen.runtime.fourier_pass_ir")
    fourier_prime_ir = later("codegen.runtime.fourier_prime_ir")

__all__ = ["Fourier", "begin", "fourier_of", "is_native"]

#: From so many operations on threads share the rows; a chunk of them has at least so many.
_SHARED, _CHUNK = 300_000, 100_000
#: The bytes of two buffers of a block above which a row is taken apart: half of the second cache of a Zen 4.
_BLOCK_BYTES = 1 << 19
#: So few rows leave most lanes of a block empty: each is taken apart.
_FEW = 4
#: For each row in a block, a prime number of elements from which on a convolution is faster: a row of 61 doubles takes
#: .9 us, of 127 1.7, and a block of up to eight 1.9 and 6.1 (one core of a Zen 4).
_LONE = 32
#: The longest column of a block, elsewhere than in rows that are taken apart.
_LONGEST = 1 << 20

#: So many angles are cheaper than what it takes to combine them.
_FEW_ANGLES = 1024
#: So many angles are looked at together: what that takes, 150 bytes each, is little beside the numbers of a long row.
#: NumPy takes .03 s to transform so many longer floats, and six times as long as of doubles.
_AT_ONCE = 1 << 16

_KINDS = {"complex": 0, "half": 1, "whole": 2, "odd half": 3, "odd whole": 4}


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
        if shape.elements:
            found["count"] = shape.elements
            if shape.elements < n:
                chirp, kernel = _chirp(shape.elements, n, dtype, is_inverse)
                found["chirp"], found["kernel"] = self._placed(chirp), self._placed(kernel)
        elif kind in ("half", "whole"):
            found["halves"] = self._placed(_halves(n, dtype))
        if columns:
            found["turns"] = self._placed(_turns(rows, columns, dtype))  # the largest first
            found["passes.rows"], found["passes.columns"] = self._passes(rows, dtype), self._passes(columns, dtype)
        else:
            found["passes"] = self._passes(n, dtype)
        self.words = np.array([found.get(word, 0) for word in fourier_chirp_ir.CHIRP_WORDS], np.int64)

    def _placed(self, array: np.ndarray) -> int:
        self._arrays.append(array)
        return memory.address_of(array)

    def _passes(self, n: int, dtype: np.dtype) -> int:
        words, s = [], 1
        for radix in _radices(n) or ():
            m, code = n // (s * radix), _pass(dtype, radix).result()["pass"]
            p, k = np.ogrid[1:m, 1:radix]
            factors = _roots(p * k, m * radix, dtype)
            if radix in fourier_prime_ir.PRIMES:
                factors = np.concatenate([_angles(radix, dtype), factors.reshape(-1, 2)])
            words += [code.address("pass"), m, s, self._placed(factors)]
            self.passes.append(code)
            s *= radix
        return self._placed(np.array([*words, 0], np.int64))


def is_native(node: Node) -> bool:
    """Whether a call is a transform that machine code does: of some elements."""
    return isinstance(node.op.lower, lowering.Fourier) and node.aval.size > 0 and _whole_extent(node) > 0


def _whole_extent(node: Node) -> int:
    """Of how many numbers the transform is."""
    axis = node.keywords["axis"]
    aval = node.aval if node.op.lower.kind == "whole" else node.inputs[0].aval
    return aval.shape[axis]


class _Shape(NamedTuple):
    """Of how many complex numbers, how far apart, how many rows, of which real numbers.

    elements   0; or how many are transformed where `fourier_chirp_ir` does it, n then being how many passes do
    """

    n: int
    inner: int
    rows: int
    dtype: np.dtype
    elements: int

    def parts(self) -> tuple[int, int] | None:
        """(columns, rows) of a row that is taken apart, as alike as can be; None for one that is not."""
        is_short = self.rows > _FEW and 4 * fourier_pass_ir.LANES * self.dtype.itemsize * self.n <= _BLOCK_BYTES
        return None if not self.elements and (self.inner > 1 or is_short) else _parts(self.n)


def _parts(n: int) -> tuple[int, int] | None:
    divisors, most, rest, factor = {1}, math.isqrt(n), n, 2
    while rest > 1:  # n has small factors alone
        while rest % factor:
            factor += 1
        rest //= factor
        divisors |= {d * factor for d in divisors if d * factor <= most}
    found = max(divisors)
    return (n // found, found) if found >= fourier_pass_ir.LANES else None


def _shape(node: Node) -> _Shape:
    shape, axis, dtype = node.aval.shape, node.keywords["axis"], node.aval.dtype
    whole, inner = _whole_extent(node), math.prod(shape[axis + 1 :])
    is_odd = node.op.lower.kind != "complex" and whole % 2 == 1
    is_narrow = dtype.itemsize == (8 if dtype.kind == "c" else 4)
    rows = node.aval.size // shape[axis]
    n = whole if is_odd or node.op.lower.kind == "complex" else whole // 2
    found = _Shape(n, inner, rows, np.dtype(np.float32 if is_narrow else np.float64), 0)
    radices = _radices(n)
    is_lone = n in fourier_prime_ir.PRIMES and rows * _LONE < n
    if radices is not None and not is_lone and not (inner > 1 and n > _LONGEST) and not (is_odd and found.parts()):
        return found
    is_alone = _radices(whole) is not None and _parts(whole) is not None
    return found._replace(n=whole if is_alone else _longer(whole), elements=whole)


def fourier_of(node: Node) -> Fourier:
    """The native step for such a node.  Raises MemoryError where there is no room for its result.

    The tables of a long row are as large as the row: room for the result is asked for before they are computed.
    """
    memory.new(node.aval)
    shape, kind = _shape(node), node.op.lower.kind
    is_inverse = kind == "whole" or (kind == "complex" and node.keywords["inverse"])
    if not shape.elements and kind != "complex" and _whole_extent(node) % 2:
        kind = f"odd {kind}"
    plan = _Plan(shape, kind, is_inverse)
    code, words = _code(shape.dtype, shape.elements > 0).result()["fourier"], memory.address_of(plan.words)
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
    _code(shape.dtype, shape.elements > 0)
    for n in shape.parts() or (shape.n,):
        for radix in _radices(n) or ():
            _pass(shape.dtype, radix)


def _code(dtype: np.dtype, is_chirp: bool) -> Ahead[dict[str, Code]]:
    name = dtype_name(dtype)
    if is_chirp:
        return objects.begun({"fourier": f"chirp {name}"}, lambda _: fourier_chirp_ir.chirp_ir(name))
    return objects.begun({"fourier": f"fourier {name}"}, lambda _: fourier_ir.fourier_ir(name))


def _pass(dtype: np.dtype, radix: int) -> Ahead[dict[str, Code]]:
    name = dtype_name(dtype)
    if radix in fourier_prime_ir.PRIMES:
        return _prime(dtype)
    return objects.begun({"pass": f"pass {radix} {name}"}, lambda _: fourier_pass_ir.pass_ir(name, radix))


def _prime(dtype: np.dtype) -> Ahead[dict[str, Code]]:
    name = dtype_name(dtype)
    return objects.begun({"pass": f"pass of primes {name}"}, lambda _: fourier_prime_ir.prime_ir(name))


# ------------------------------------------------------------ numbers


def _radices(n: int) -> tuple[int, ...] | None:
    """The passes of a transform of n numbers; None where no passes do it."""
    found = []
    for radix in (*fourier_pass_ir.RADICES, *fourier_prime_ir.PRIMES):
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else None


def _longer(count: int) -> int:
    """The length of transforms that hold a convolution of `count`: a square of lanes, times factors 2, 3 and 5."""
    square = fourier_pass_ir.LANES**2
    last = (2 * count - 2) // square  # the largest number of squares that is too small
    digits = range(count.bit_length())
    return square * min([(odd := 3**a * 5**b) << (last // odd).bit_length() for a in digits for b in digits])


def _angles(radix: int, dtype: np.dtype) -> np.ndarray:
    """r, and exp(-2πi j k / r) for 0 < j, k <= r // 2 (`fourier_prime_ir`)."""
    j = np.arange(1, radix // 2 + 1)
    roots = _roots(np.outer(j, j) % radix, radix, dtype).reshape(-1, 2)
    return np.concatenate([np.array([[radix, 0]], dtype), roots])


def _chirp(count: int, n: int, dtype: np.dtype, is_inverse: bool) -> tuple[np.ndarray, np.ndarray]:
    """w(k), and the transform of its inverses around a row of n, divided by n (`fourier_chirp_ir`)."""
    k = np.arange(count, dtype=np.uint64)  # squares up to 2**64: for more the roots alone would take 137 GB
    roots = _roots((k * k % np.uint64(2 * count)).astype(np.int64), 2 * count, np.dtype(np.longdouble))
    if is_inverse:
        roots[:, 1] *= -1
    around = np.zeros(n, np.clongdouble)
    around[:count] = roots[:, 0] - 1j * roots[:, 1]
    around[n - count + 1 :] = around[count - 1 : 0 : -1]
    kernel = np.fft.fft(around if n <= _AT_ONCE else around.astype(np.complex128)) / n
    return roots.astype(dtype), np.stack([kernel.real, kernel.imag], -1).astype(dtype)


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
