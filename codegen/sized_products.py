"""Matrix products of unknown extents.  The choice of a product's step takes 16 us for a size, and holds for all sizes
with the same outcomes of its comparisons; formulas then give the numbers of the step.

    put = SizedProduct(gemm, ["n0"]).placed(table, at, slots, numbers, (5, 7, 9))       the memory of a step
    put(n0)                                                                             writes the step for a size
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from .program import Gemm
from .records import replace
from .runtime.launcher import Share
from .runtime.plan_words import STEP_WORDS
from .runtime.products import ProductStep, product_step
from .runtime.threads import sharing
from .symbols import Symbol, conditions_text, formula, numbers_function, symbol, watched
from .written import compile_function

#: The positions, among the words of a step, of the function's address and of the first word about sharing.
_ADDRESS, SHARE = 0, 4

#: The most cuts (divisions into tiles) cached for one product: by columns filling vectors or not, there are three.
_MOST_CUTS = 12


class SizedProduct:
    """A product whose sizes contain symbols; `names` are the names of these.  See the head of the file."""

    def __init__(self, gemm: Gemm, names: Sequence[str]) -> None:
        self._gemm, self._names = gemm, names
        self._numbers = numbers_function([gemm.m, gemm.n, gemm.k, gemm.batch, *gemm.strides], names)
        self._cuts: list[tuple[ProductStep, Callable[..., bool]]] = []

    def placed(
        self, table: ctypes.Array, at: int, slots: ctypes.Array, numbers: ctypes.Array, places: tuple[int, ...]
    ) -> Callable[..., None]:
        """A function put(*values) that writes the step of the product on the buffers at these slots."""
        a, b, c = places
        write = _never

        def put(*values: int) -> None:
            nonlocal write
            if write(numbers, *values):
                return  # the previous step is right for this size, too
            product, write = self._found(numbers, values)
            count = len(product.extents)
            table[at + _ADDRESS] = product.address
            slots[:] = [b, a, c] if product.is_swapped else [a, b, c]
            numbers[:count] = [*product.extents]
            if product.share or table[at + SHARE]:
                put_share(table, at, count + 2, product.share)
            write(numbers, *values)

        return put

    def _found(self, numbers: ctypes.Array, values: Sequence[int]) -> tuple[ProductStep, Callable[..., bool]]:
        """The step for these values, and the function that writes the numbers for all sizes with the same step."""
        for cut in list(self._cuts):
            if cut[1](numbers, *values):
                return cut
        product = self._step(values)
        if product.share is not None or len(self._cuts) >= _MOST_CUTS:
            return product, _never
        cut = product, self._writer(values, product)
        self._cuts.append(cut)
        return cut

    def _step(self, values: Sequence[int]) -> ProductStep:
        m, n, k, batch, *strides = self._numbers(*values)
        return product_step(replace(self._gemm, m=m, n=n, k=k, batch=batch, strides=tuple(strides)))

    def _writer(self, values: Sequence[int], product: ProductStep) -> Callable[..., bool]:
        """A function write(numbers, *values), which returns False for sizes that need another step than `values`.

        It is for `values` alone if no formula fits: if they equal a number in the choice of a step, such as four rows.
        """
        def write_extents(numbers: ctypes.Array, *given: int) -> bool:
            if given == values:
                numbers[: len(product.extents)] = [*product.extents]
            return given == values

        try:
            # with_equality: the choice of a step also compares sizes by ==, with a single row or a number of columns.
            with watched(with_equality=True) as conditions:
                general = self._step([symbol(*pair) for pair in zip(self._names, values, strict=True)])
        except Exception:  # some code needs a concrete number
            return write_extents
        given = ", ".join(self._names)
        lines = [f"numbers[{i}] = {formula(n)}" for i, n in enumerate(general.extents) if type(n) is Symbol]
        body = "\n  ".join([f"if not ({conditions_text(conditions)}): return False", *lines, "return True"])
        text = f"def write(numbers, {given}):\n  {body}"
        write: Callable[..., bool] = compile_function("write", text, {"__name__": __name__})
        made = [0 if type(n) is Symbol else n for n in general.extents]
        is_right = (general.address, general.is_swapped, general.share) == (product.address, product.is_swapped, None)
        is_right = is_right and write(made, *values) and tuple(made) == product.extents
        return write if is_right else write_extents  # not right if a recorded condition fails for these very values


def _never(*_: Any) -> bool:
    return False


def put_share(table: ctypes.Array, at: int, extents: int, share: Share | None) -> None:
    """Write the sharing words of the step whose words begin at `at`; `extents` is the number of its extents."""
    words = [sharing(), extents, share.blocks, share.chunk, share.total] if share else [0] * (STEP_WORDS - SHARE)
    table[at + SHARE : at + STEP_WORDS] = words
