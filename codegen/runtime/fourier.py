"""Fourier transforms: native steps, and their plans.

Rows whose extents have no factors but those of `fourier_numbers.RADICES` are transformed some side by side, or one by
one where they are few, or long (`fourier_rows`); both by passes (`fourier_passes`) that read tables of roots
(`fourier_numbers`).  All others are done by NumPy's own loops (`numpy_loops`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .. import lowering
from ..ir import Node, dtype_name
from ..lazily import later
from ..records import record
from . import fourier_numbers, memory, numpy_loops, objects
from .cost import transformed
from .engine import MachineCode
from .fourier_numbers import LANES, parts, radices
from .launcher import Share

if TYPE_CHECKING:
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
#: The longest column of a block.
_LONGEST = 1 << 20

_KINDS = ("complex", "half", "whole")


@record(eq=False)
class FourierStep:
    """Code, the address of a plan, how rows are shared (without, the extents say that all are done at once), and the
    arrays and code whose addresses are in the plan.  One is equal to itself alone."""

    code: MachineCode
    extents: tuple[int, ...]
    share: Share | None
    owned: object


class _Plan:
    """The words of a `fourier_rows.TransformPlan` for rows of n complex numbers, `inner` apart."""

    __slots__ = ("_dtype", "_owned", "words")

    def __init__(self, n: int, inner: int, kind: str, dtype: np.dtype, is_inverse: int, *, is_long: bool) -> None:
        self._owned: list[object] = []
        self._dtype = dtype
        halves = self._placed(fourier_numbers.halves(n, dtype)) if kind != "complex" else 0
        counts = [n + (kind == "whole"), n + (kind == "half")]
        if is_long:
            columns, rows = parts(n) or (n, 1)
            turns = self._placed(fourier_numbers.turns(rows, columns, dtype))
            columnwise = [rows, 2 * columns, 2, 0]
            first = [*columnwise, is_inverse, *columnwise, 0, rows, columns, 0, self._passes(rows), 0, turns]
            second = [columns, 2, 2 * columns, 0, 0, columns, 2 * rows, 2, 0, is_inverse]
            second += [columns, rows, 0, self._passes(columns), 0, 0]
        else:
            rows, columns = 0, n
            nears = [2 if inner > 1 else 2 * count for count in counts]
            first = []
            for count, near in zip(counts, nears, strict=True):
                first += [count, 2 * inner, near, 2 * inner * count, is_inverse]
            first += [n, inner if inner > 1 else fourier_numbers.ALL, _KINDS.index(kind), self._passes(n), halves, 0]
            second = [0] * 16
        last = [4 * LANES * (columns + 1), n if is_long else 0, _KINDS.index(kind), halves, *[2 * c for c in counts]]
        self.words = np.array([*first, *second, *last], np.int64)

    def _placed(self, array: np.ndarray) -> int:
        self._owned.append(array)
        return memory.address_of(array)

    def _passes(self, n: int) -> int:
        words, s, name = [], 1, dtype_name(self._dtype)
        for radix in radices(n) or ():
            m, made = n // (s * radix), {"fourier_pass": f"pass {radix} of {name}"}
            text = lambda _, radix=radix: objects.native_module().text([fourier_passes.pass_of(name, radix)])  # noqa: E731
            code = objects.named(made, text)["fourier_pass"]
            table = self._placed(fourier_numbers.factors(radix, m, self._dtype))
            words += [code.address("fourier_pass"), m, s, table]
            self._owned.append(code)
            s *= radix
        return self._placed(np.array([*words, 0], np.int64))


def is_native(node: Node) -> bool:
    """True if a call is a transform that machine code does: of some elements."""
    if not isinstance(node.op.lower, lowering.Fourier) or not node.aval.size or not _whole_extent(node):
        return False
    return _extent_of_passes(node) > 0 or numpy_loops.has_transform(node)


def _whole_extent(node: Node) -> int:
    """Of how many numbers the transform is."""
    axis = node.keywords["axis"]
    aval = node.aval if node.op.lower.kind == "whole" else node.inputs[0].aval
    return aval.shape[axis]


def _inner(node: Node) -> int:
    return math.prod(node.aval.shape[node.keywords["axis"] + 1 :])


def _extent_of_passes(node: Node) -> int:
    """The complex numbers of a row that passes transform: of real ones in packed rows half as many; 0 of others."""
    n, inner = _whole_extent(node), _inner(node)
    if node.op.lower.kind != "complex":
        n = 0 if n % 2 or inner > 1 else n // 2
    return n if n and radices(n) is not None and (inner == 1 or n <= _LONGEST) else 0


def fourier_of(node: Node) -> FourierStep:
    """The native step for such a node.  Raises MemoryError where there is no room for its result.

    The tables of a long row are as large as the row: room for the result is asked for before they are computed.
    """
    owned: object
    memory.new(node.aval)
    shape, kind, n = node.aval.shape, node.op.lower.kind, _extent_of_passes(node)
    rows = node.aval.size // shape[node.keywords["axis"]]
    if n:
        size = node.aval.dtype.itemsize // (2 if node.aval.dtype.kind == "c" else 1)
        dtype, inner = np.dtype(f"f{size}"), _inner(node)
        is_short = rows > _FEW and 4 * LANES * size * n <= _BLOCK_BYTES
        is_long = inner == 1 and not is_short and parts(n) is not None
        is_inverse = kind == "whole" or (kind == "complex" and node.keywords["inverse"])
        plan = _Plan(n, inner, kind, dtype, int(is_inverse), is_long=is_long)
        name, owned, words = dtype_name(dtype), plan, plan.words
        text = lambda _: objects.native_module().text([fourier_rows.rows_of(name)])  # noqa: E731
        code = objects.named({"fourier": f"transforms of rows of {name}"}, text)["fourier"]
    else:
        n = _whole_extent(node)
        found = numpy_loops.transform_of(node, n)
        code, owned, words = found.code, found, found.plan
    extents, work = (memory.address_of(words),), transformed(n, 1)
    if rows > 1 and work * rows >= _SHARED:
        chunk = max(1, min(_CHUNK // work, rows // 2))
        if rows >= 2 * LANES:  # blocks stay whole
            chunk = -(-chunk // LANES) * LANES
        return FourierStep(code, extents, Share(rows, chunk), owned)
    return FourierStep(code, (*extents, 0, rows), None, owned)
