"""Products of unknown extents: what does one is written by formulas, for all sizes that are cut alike.

    SizedProduct(gemm, slots)                  its extents are symbols, or known
      .place(table, at, slots, extents)        where a step of a program in memory is
        .write(extents, n0, ...)               what depends on the unknown ones; False: it is cut otherwise for these
        .again(n0, ...)                        all of it

To see what does a product takes 5 us.  So that is done with symbols for what is unknown: every comparison is a
condition on the sizes, and for those that fulfil all of them the same function does it, called with formulas.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from .program import Gemm
from .records import NamedTuple
from .runtime.launcher import Share
from .runtime.plan_words import STEP_WORDS
from .runtime.products import ProductStep, product_step
from .runtime.threads import sharing
from .symbols import LEAST, Symbol, checked, formula, symbol, watched
from .written import defined

#: Extents of a product: `products` writes at most so many.
PRODUCT = 23

#: Words of a step before those that say how it is shared.
_SHARE = 4

#: Cuts that are kept of one: columns alone, as they fill vectors or do not, make three.
_CUTS = 12

#: A function that writes the numbers of a step: write(extents, *values).  False: the sizes are others; none is written.
Write = Callable[..., bool]


class _SizedCut(NamedTuple):
    """A product, with zeros for extents that depend on the size, and what writes those."""

    product: ProductStep
    write: Write


class SizedProduct:
    """See the file's head.

    slots    of its factors and its result      given    the formulas of its unknown numbers, in order
    """

    __slots__ = ("_cuts", "_numbers", "_sort", "given", "slots")

    def __init__(self, gemm: Gemm, slots: tuple[int, ...]) -> None:
        self.slots = slots
        self._sort = gemm.dtype, gemm.transpose_a, gemm.transpose_b
        numbers = gemm.m, gemm.n, gemm.k, gemm.batch, *gemm.strides
        self.given = [*dict.fromkeys([formula(n) for n in numbers if type(n) is Symbol])]
        #: Of each number which of the unknown ones it is, or -1, and itself.
        self._numbers = [(self.given.index(formula(n)), 0) if type(n) is Symbol else (-1, n) for n in numbers]
        self._cuts: list[_SizedCut] = []

    def place(self, table: ctypes.Array, at: int, slots: ctypes.Array, extents: ctypes.Array) -> _Placed:
        """Its step in memory: the words of all steps, and where its own begin; its slots; its extents."""
        return _Placed(self, table, at, slots, extents)

    def found(self, extents: ctypes.Array, values: tuple[int, ...]) -> tuple[ProductStep, Write]:
        """The product's step for these sizes, and what writes its extents for others that are cut alike."""
        if not values:
            return product_step(self._gemm(values)), _always
        for cut in list(self._cuts):
            if cut.write(extents, *values):
                return cut
        product = product_step(self._gemm(values))
        made = self._cut(values, product) if len(self._cuts) < _CUTS else None
        if made is None:
            return product, _never
        self._cuts.append(made)
        return made

    def _gemm(self, values: Sequence[int]) -> Gemm:
        m, n, k, batch, a, b, c = [number if i < 0 else values[i] for i, number in self._numbers]
        dtype, transpose_a, transpose_b = self._sort
        return Gemm(dtype, m, n, k, transpose_a, transpose_b, batch, (a, b, c))

    def _cut(self, values: tuple[int, ...], product: ProductStep) -> _SizedCut | None:
        """The product for these sizes, by formulas; None where they do not say it."""
        if product.share is not None or min(values) < LEAST:
            return None
        names = [f"n{i}" for i in range(len(values))]
        try:
            # The part that is treated by itself, a row or so many columns, is compared with.
            with watched(closely=True) as conditions:
                general = product_step(self._gemm([symbol(*pair) for pair in zip(names, values, strict=True)]))
        except Exception:  # whatever wants the very number
            return None
        if general.address != product.address or general.is_swapped != product.is_swapped or general.share is not None:
            return None
        write = _writer(general.extents, checked(conditions, names), names)
        made = (ctypes.c_int64 * PRODUCT)(*[0 if type(n) is Symbol else n for n in general.extents])
        if not write(made, *values) or tuple(made[: len(product.extents)]) != product.extents:
            return None  # what was compared does not hold for these
        return _SizedCut(product, write)


class _Placed:
    """A product's step in memory.  `write` is for the sizes it was written for last, and those that are cut alike."""

    __slots__ = ("_at", "_extents", "_product", "_slots", "_table", "write")

    def __init__(
        self, product: SizedProduct, table: ctypes.Array, at: int, slots: ctypes.Array, extents: ctypes.Array
    ) -> None:
        self._product, self._table, self._at, self._slots, self._extents = product, table, at, slots, extents
        self.write: Write = _never

    def again(self, *values: int) -> None:
        """Write all of it."""
        table, at = self._table, self._at
        product, self.write = self._product.found(self._extents, values)
        a, b, c = self._product.slots
        table[at] = product.address
        self._slots[:] = [b, a, c] if product.is_swapped else [a, b, c]
        self._extents[: len(product.extents)] = [*product.extents]
        if product.share or table[at + _SHARE]:
            put_share(table, at, len(product.extents) + 2, product.share)
        self.write(self._extents, *values)


def _never(*_: Any) -> bool:
    return False


def _always(*_: Any) -> bool:
    return True


def _writer(extents: Sequence[int], is_fit: Callable[..., bool], names: Sequence[str]) -> Write:
    """A function that writes the extents that are symbols, of sizes that fit."""
    given = ", ".join(names)
    tests = " or ".join([*[f"{name} < {LEAST}" for name in names], f"not is_fit({given})"])
    lines = [f"extents[{i}] = {formula(n)}" for i, n in enumerate(extents) if type(n) is Symbol]
    env: dict[str, Any] = {"__name__": __name__, "is_fit": is_fit}
    body = "\n  ".join([f"if {tests}: return False", *lines, "return True"])
    write: Write = defined("write", f"def write(extents, {given}):\n  {body}", env)
    return write


def put_share(table: ctypes.Array, at: int, extents: int, share: Share | None) -> None:
    """Write how the step whose words begin there is shared, which is called with so many extents."""
    words = [sharing(), extents, share.blocks, share.chunk, share.total] if share else [0] * (STEP_WORDS - _SHARE)
    table[at + _SHARE : at + STEP_WORDS] = words
