"""Fourier transforms: native steps, and their plans.

Rows are transformed some side by side, or one by one where they are few, long, or of an extent that no passes do
(`fourier_rows`); both by passes (`fourier_passes`) that read tables of roots (`fourier_numbers`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .. import lowering
from ..ir import Node, dtype_name
from ..lazily import later
from ..records import NamedTuple, record
from . import fourier_numbers, memory, objects
from .cost import transformed
from .engine import MachineCode
from .fourier_numbers import LANES, PRIMES, parts, radices
from .launcher import Share

if TYPE_CHECKING:
    from ..native.routines import Routine
    from . import fourier_passes, fourier_rows
else:
    fourier_passes = later("codegen.runtime.fourier_passes")
    fourier_rows = later("codegen.runtime.fourier_rows")

__all__ = ["FourierStep", "fourier_of", "is_native"]

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

_KINDS = ("complex", "half", "whole", "odd half", "odd whole")


@record(frozen=True)
class FourierStep:
    """Code, the address of a plan, and how rows are shared; without, the extents say that all are done at once."""

    code: MachineCode
    extents: tuple[int, ...]
    share: Share | None
    plan: _RowsPlan


class _Shape(NamedTuple):
    """A transform of n complex numbers, `inner` apart, in so many rows, of which real numbers.

    kind     of `_KINDS`
    length   of the matrix that a row alone becomes: n, or what holds a convolution of n; 0 of rows side by side
    """

    n: int
    inner: int
    rows: int
    dtype: np.dtype
    kind: str
    length: int

    @property
    def extents(self) -> tuple[int, ...]:
        """Of how many numbers passes are."""
        return (parts(self.length) or ()) if self.length else (self.n,)

    def sides(self) -> list[tuple[int, int, int, int, int]]:
        """`fourier_blocks.Side` of what is given, and of what is taken."""
        n, inner = self.n, self.inner

        def of_complex(count: int) -> tuple[int, int, int, int, int]:
            return (count, 2 * inner, 1, 2, 2 * inner * count)

        if self.kind == "complex":
            return [of_complex(n)] * 2
        is_odd = self.kind.startswith("odd")
        real = (n, inner, 0, 1, inner * n) if is_odd else (n, 2 * inner, inner, 1, 2 * inner * n)
        both = [real, of_complex(n // 2 + 1 if is_odd else n + 1)]
        return both if self.kind.endswith("half") else both[::-1]


class _RowsPlan:
    """The words of a `fourier_blocks.TransformPlan`, and the arrays and code whose addresses are among them.  One is
    equal to itself alone."""

    __slots__ = ("_arrays", "passes", "words")

    def __init__(self, shape: _Shape, is_inverse: bool) -> None:
        self._arrays: list[np.ndarray] = []
        self.passes: list[MachineCode] = []
        n, length, dtype = shape.n, shape.length, shape.dtype
        room, halves, words = 4 * LANES * (n + 1), 0, [0] * 8
        if shape.kind in ("half", "whole"):
            halves = self._placed(fourier_numbers.halves(n, dtype))
        passes = [self._passes(extent, dtype) for extent in shape.extents]
        if length:
            columns, rows = shape.extents
            room = 4 * LANES * columns + 4 * length + 2
            turns = self._placed(fourier_numbers.turns(rows, columns, dtype))
            tables = fourier_numbers.chirp(n, length, dtype) if length > n else ()
            words = [length, rows, columns, *passes[::-1], turns, *map(self._placed, tables)]
        found = [n, shape.inner, _KINDS.index(shape.kind), is_inverse, room, passes[0], halves, *words, 0, 0]
        self.words = np.array([*sum(shape.sides(), ()), *found], np.int64)

    def _placed(self, array: np.ndarray) -> int:
        self._arrays.append(array)
        return memory.address_of(array)

    def _passes(self, n: int, dtype: np.dtype) -> int:
        words, s = [], 1
        for radix in radices(n) or ():
            m, code = n // (s * radix), _pass(dtype, radix)
            words += [code.address("fourier_pass"), m, s, self._placed(fourier_numbers.factors(radix, m, dtype))]
            self.passes.append(code)
            s *= radix
        return self._placed(np.array([*words, 0], np.int64))


def is_native(node: Node) -> bool:
    """True if a call is a transform that machine code does: of some elements."""
    return isinstance(node.op.lower, lowering.Fourier) and node.aval.size > 0 and _whole_extent(node) > 0


def _whole_extent(node: Node) -> int:
    """Of how many numbers the transform is."""
    axis = node.keywords["axis"]
    aval = node.aval if node.op.lower.kind == "whole" else node.inputs[0].aval
    return aval.shape[axis]


def _shape(node: Node) -> _Shape:
    shape, axis, dtype = node.aval.shape, node.keywords["axis"], node.aval.dtype
    n, inner, kind = _whole_extent(node), math.prod(shape[axis + 1 :]), node.op.lower.kind
    if kind != "complex":
        n, kind = (n, f"odd {kind}") if n % 2 else (n // 2, kind)
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    rows, has_passes = node.aval.size // shape[axis], radices(n) is not None
    is_short = rows > _FEW and 4 * LANES * size * n <= _BLOCK_BYTES
    if not has_passes or (n in PRIMES and rows * _LONE < n) or (inner > 1 and n > _LONGEST):
        length = n if has_passes and parts(n) else fourier_numbers.longer(n)
    else:
        length = n if inner == 1 and not is_short and parts(n) else 0
    return _Shape(n, inner, rows, np.dtype(f"f{size}"), kind, length)


def fourier_of(node: Node) -> FourierStep:
    """The native step for such a node.  Raises MemoryError where there is no room for its result.

    The tables of a long row are as large as the row: room for the result is asked for before they are computed.
    """
    memory.new(node.aval)
    shape, kind = _shape(node), node.op.lower.kind
    plan = _RowsPlan(shape, kind == "whole" or (kind == "complex" and node.keywords["inverse"]))
    code, words = _code(shape), memory.address_of(plan.words)
    rows, work = shape.rows, transformed(max(shape.n, shape.length), 1)
    if rows > 1 and work * rows >= _SHARED:
        chunk = max(1, min(_CHUNK // work, rows // 2))
        if rows >= 2 * LANES:  # blocks stay whole
            chunk = -(-chunk // LANES) * LANES
        return FourierStep(code, (words,), Share(rows, chunk), plan)
    return FourierStep(code, (words, 0, rows), None, plan)


def _code(shape: _Shape) -> MachineCode:
    name = dtype_name(shape.dtype)
    if shape.length:
        return _made("fourier", f"transforms of rows, one by one, of {name}", lambda: fourier_rows.rows_of(name, 1))
    return _made("fourier", f"transforms of rows side by side of {name}", lambda: fourier_rows.rows_of(name, LANES))


def _pass(dtype: np.dtype, radix: int) -> MachineCode:
    name = dtype_name(dtype)
    return _made("fourier_pass", f"pass {radix} of {name}", lambda: fourier_passes.pass_of(name, radix))


def _made(name: str, said: str, function: Callable[[], Routine]) -> MachineCode:
    return objects.named({name: said}, lambda _: objects.native_module().text([function()]))[name]
