"""Products of matrices whose extents follow from sizes: which code does one, and with which numbers, for each size.

    cuts_of(gemm, sizes, names)     the ways in which it is done for these sizes

What does a product of known extents is decided by `runtime.products`.  Here that is asked with symbols: every
comparison is a condition, and sizes for which all hold are done alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..program import Gemm
from ..records import NamedTuple, replace
from ..runtime import products
from ..symbols import LEAST, Conditions, Symbol, checked, evaluated, formula, symbol, watched

__all__ = ["ProductCut", "cuts_of", "given_of"]

#: Cuts of one product.
_MOST = 96


class ProductCut(NamedTuple):
    """conditions   on the given numbers, called g0, g1, ...
    text, words  of its tile: see `products.text_of`      is_swapped   its pointers are (b, a, c)
    extents      formulas of the given numbers, or numbers, but for the first
    """

    conditions: Conditions
    text: str
    words: tuple[str | int, ...]
    is_swapped: bool
    extents: tuple[int, ...]


def given_of(gemm: Gemm) -> list[Symbol]:
    """The numbers of a product that sizes decide, each once."""
    found = {formula(n): n for n in _numbers(gemm) if type(n) is Symbol}
    return list(found.values())


def cuts_of(gemm: Gemm, sizes: Iterable[Sequence[int]], names: Sequence[str]) -> list[ProductCut]:
    """The ways in which a product is done; `sizes`: values of the symbols with these names."""
    given = given_of(gemm)
    names_of_given = [f"g{i}" for i in range(len(given))]
    place = {formula(n): i for i, n in enumerate(given)}
    values_at = evaluated([*given], [*names])
    found: list[ProductCut] = []
    fits: list[Callable[..., bool]] = []
    for values in dict.fromkeys(values_at(*size) for size in sizes):
        if min(values) < 0 or len(found) >= _MOST or any(fit(*values) for fit in fits):
            continue
        cut = next(filter(None, [_cut(gemm, place, values, known) for known in _subsets(len(values))]))
        found.append(cut)
        fits.append(checked(cut.conditions, names_of_given))
    return found


def _numbers(gemm: Gemm) -> tuple[int, ...]:
    return gemm.m, gemm.n, gemm.k, gemm.batch, *gemm.strides


def _subsets(count: int) -> list[tuple[int, ...]]:
    """None of so many numbers, each of them, all of them."""
    return [(), *([(i,) for i in range(count)] if count > 1 else []), tuple(range(count))]


def _cut(gemm: Gemm, place: dict[str, int], values: Sequence[int], known: Sequence[int]) -> ProductCut | None:
    """The cut of a product for these given numbers and all that are like them; for no others of the known ones.

    None where what was asked with symbols is not what does a product of these very extents.
    """
    symbols = [v if i in known or v < LEAST else symbol(f"g{i}", v) for i, v in enumerate(values)]
    try:
        with watched(closely=True, alone=True) as conditions:
            is_swapped, extents = products.form_of(_with(gemm, place, symbols), evens=False)
            text, words = products.text_of(_with(gemm, place, symbols), evens=False)
    except Exception:  # whatever wants the very number
        return None
    for i, x in enumerate(symbols):
        least, comparison, holds = (LEAST, ">=", True) if type(x) is Symbol else (x, "!=", False)
        conditions[f"{-least} + 1 * g{i}", comparison, holds] = None
    plain, names = _with(gemm, place, values), [f"g{i}" for i in range(len(values))]
    asked = (is_swapped, evaluated([*extents], names)(*values), text, words)
    of_plain = *products.form_of(plain, evens=False), *products.text_of(plain, evens=False)
    if not checked(conditions, names)(*values) or asked != of_plain:
        return None
    return ProductCut(conditions, text, words, is_swapped, extents)


def _with(gemm: Gemm, place: dict[str, int], values: Sequence[int]) -> Gemm:
    m, n, k, batch, *strides = [values[place[formula(x)]] if type(x) is Symbol else x for x in _numbers(gemm)]
    return replace(gemm, m=m, n=n, k=k, batch=batch, strides=tuple(strides))
