"""Unknowns: which numbers of a program change, and how the others follow from them.

    (8, 3, 8, 24) and (9, 3, 9, 27)      n0 = the first;  n0, 3, n0, 3 n0

What follows is guessed from samples and checked wherever it is used (`Unknowns.numbers`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement

from .records import NamedTuple
from .symbols import symbol

__all__ = ["MOST", "Unknowns", "fitted"]

#: Of a program with more unknowns nothing is said.
MOST = 4

#: The most that a number which follows from an extent may be away from a multiple of it: windows, differences.
_NEAR = 4

#: A number may follow from a product of so many unknowns.
_MOST_FACTORS = 3


class Unknowns(NamedTuple):
    """names, and the positions of the numbers that they are; for every number (names, factor, rest), or itself:
    factor times their product, and the rest.
    """

    names: list[str]
    positions: list[int]
    numbers: list[tuple[tuple[str, ...], int, int] | int]

    def example(self, values: Sequence[int]) -> list[int]:
        """The numbers for an example, which has a value for each of at most `MOST` unknowns."""
        symbols = {name: symbol(name, value) for name, value in zip(self.names, values, strict=False)}
        return [
            n if isinstance(n, int) else math.prod([symbols[name] for name in n[0]]) * n[1] + n[2] for n in self.numbers
        ]


def fitted(samples: Sequence[tuple[int, ...]], places: Iterable[int], name: str = "n") -> Unknowns | None:
    """The unknowns that changed between samples, by the numbers at these places; None if something else changed.

    name    what the names of unknowns begin with
    """
    columns = list(zip(*samples, strict=True))
    found = Unknowns([], [], [])
    bases: list[tuple[int, ...]] = []
    for position in sorted(places, key=lambda p: columns[p]):
        column = columns[position]
        if len(set(column)) > 1 and not any(_follows(column, base) for base in bases):
            if len(bases) == MOST:
                return None
            found.names.append(f"{name}{len(bases)}")
            found.positions.append(position)
            bases.append(column)
    for column in columns:
        number = column[0] if len(set(column)) == 1 else _from(column, dict(zip(found.names, bases, strict=True)))
        if number is None:
            return None
        found.numbers.append(number)
    return found if bases else None


def _from(column: tuple[int, ...], bases: dict[str, tuple[int, ...]]) -> tuple[tuple[str, ...], int, int] | None:
    """The formula of a number in an unknown, or in a product of some."""
    for count in range(1, _MOST_FACTORS + 1):
        for names in combinations_with_replacement(bases, count):
            fit = _follows(column, tuple(map(math.prod, zip(*[bases[name] for name in names], strict=True))))
            if fit:
                return names, *fit
    return None


def _follows(column: tuple[int, ...], base: tuple[int, ...]) -> tuple[int, int] | None:
    """(factor, rest) such that column = factor * base + rest in every sample."""
    low, high = (base.index(extreme(base)) for extreme in (min, max))
    if low == high:
        return None  # a product of unknowns that is the same in all samples
    factor, remainder = divmod(column[high] - column[low], base[high] - base[low])
    rest = column[0] - factor * base[0]
    if remainder or factor < 1 or abs(rest) > _NEAR:
        return None
    is_so = all(c == factor * b + rest for c, b in zip(column, base, strict=True))
    return (factor, rest) if is_so else None
