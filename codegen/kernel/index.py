"""Index arithmetic as sums of products, which are simplified before any code is emitted.

An `Index` is  constant + Σ coefficient·atom  with a known range.  An atom is a loop's counter, a quotient,
or a number that is known only at run time (a gathered index).
Sums and constant multiples stay sums; division and remainder by a constant fold wherever the
range allows:

    (50·i + j) // 50  =  i        (50·i + j) % 50  =  j          with j in [0, 50)

A remainder that does not fold is written x - c·(x // c).  So when a flat index is taken apart for
one shape and put together again for another, the quotients cancel: any chain of reshapes ends in
the flat index it started from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from ..symbols import is_sure, larger, smaller
from .nest import INDEX, Value

_serial = count()


class Atom:
    """An unknown of an index: an integer in [low, high].  `value` is the SSA value that holds it, once there is one."""

    __slots__ = ("high", "low", "serial", "value")

    def __init__(self, low: int, high: int, value: Value | None = None) -> None:
        self.serial = next(_serial)
        self.low = low
        self.high = high
        self.value = value


class Quotient(Atom):
    """`numerator // divisor`, where the range does not simplify the quotient.  `divisor` is a positive int."""

    __slots__ = ("divisor", "numerator")

    def __init__(self, numerator: Index, divisor: int) -> None:
        super().__init__(numerator.low // divisor, numerator.high // divisor)
        self.numerator = numerator
        self.divisor = divisor


class Index:
    """constant + Σ coefficient·atom, in [low, high].  Immutable; equal when the sums are equal.

    `terms` are sorted by the age of their atoms, and have no zero coefficients.
    """

    __slots__ = ("_hash", "constant", "high", "low", "terms")
    type = INDEX

    def __init__(self, terms: tuple[tuple[Atom, int], ...], constant: int, low: int, high: int) -> None:
        self.terms = terms
        self.constant = constant
        self.low = low
        self.high = high
        self._hash = hash((terms, constant))

    @classmethod
    def of(cls, atom: Atom) -> Index:
        """The index that equals one atom."""
        if atom.low == atom.high:
            return constant_index(atom.low)
        return cls(((atom, 1),), 0, atom.low, atom.high)

    @property
    def is_constant(self) -> bool:
        """True if the index is one known number."""
        return not self.terms

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is Index
            and self._hash == other._hash
            and self.constant == other.constant
            and self.terms == other.terms
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return " + ".join([f"{c}·a{a.serial}" for a, c in self.terms] + [str(self.constant)])

    def plus(self, other: Index) -> Index:
        """The sum of two indices."""
        if not other.terms:
            if other.constant == 0:
                return self
            c = other.constant
            return Index(self.terms, self.constant + c, self.low + c, self.high + c)
        if not self.terms:
            return other.plus(self)
        return _sum((*self.terms, *other.terms), self.constant + other.constant).within(
            self.low + other.low, self.high + other.high
        )

    def times(self, factor: int) -> Index:
        """The index times a constant."""
        if factor == 1:
            return self
        if factor == 0:
            return constant_index(0)
        low, high = self.low * factor, self.high * factor
        if factor < 0:
            low, high = high, low
        return Index(tuple([(a, c * factor) for a, c in self.terms]), self.constant * factor, low, high)

    def floordiv(self, divisor: int) -> Index:
        """Division by a positive constant, rounded down."""
        if divisor == 1:
            return self
        if self.low // divisor == self.high // divisor:
            return constant_index(self.low // divisor)
        whole, rest = self._split(divisor)
        if not (rest.low >= 0 and is_sure(rest.high, divisor - 1)):
            if not whole.terms:
                return Index.of(_quotient(self, divisor))
            return whole.plus(Index.of(_quotient(rest, divisor)))
        return whole

    def mod(self, divisor: int) -> Index:
        """The remainder in [0, divisor), for a positive constant."""
        if self.low >= 0 and is_sure(self.high, divisor - 1):
            return self
        quotient = self.floordiv(divisor)
        remainder = self.plus(quotient.times(-divisor))
        return remainder.within(0, divisor - 1)

    def substitute(self, images: dict[Atom, Index]) -> Index:
        """The index with atoms replaced; atoms without an image stay."""
        result = constant_index(self.constant)
        for atom, coefficient in self.terms:
            image = images.get(atom)
            if image is None and type(atom) is Quotient:
                image = atom.numerator.substitute(images).floordiv(atom.divisor)
            result = result.plus((image or Index.of(atom)).times(coefficient))
        return result.within(self.low, self.high)

    def _split(self, divisor: int) -> tuple[Index, Index]:
        """(q, r) with self = q·divisor + r, where r collects the terms that are not divisible."""
        whole = [(a, c // divisor) for a, c in self.terms if c % divisor == 0]
        rest = [(a, c) for a, c in self.terms if c % divisor]
        quotient = _sum(whole, self.constant // divisor)
        return quotient, _sum(rest, self.constant % divisor)

    def within(self, low: int, high: int) -> Index:
        """This index with its range narrowed to a second range that is known to hold."""
        low, high = larger(low, self.low), smaller(high, self.high)
        if low == self.low and high == self.high:
            return self
        return Index(self.terms, self.constant, low, high)


_SMALL = [Index((), n, n, n) for n in range(64)]


def constant_index(value: int) -> Index:
    """The index that is a known number."""
    return _SMALL[value] if type(value) is int and 0 <= value < 64 else Index((), value, value, value)


def _sum(terms: Iterable[tuple[Atom, int]], constant: int) -> Index:
    """Collect like terms."""
    collected: dict[Atom, int] = {}
    for atom, coefficient in terms:
        collected[atom] = collected.get(atom, 0) + coefficient
    kept = [(a, c) for a, c in collected.items() if c]
    kept.sort(key=lambda term: term[0].serial)
    low = high = constant
    for a, c in kept:
        if c > 0:
            low, high = low + c * a.low, high + c * a.high
        else:
            low, high = low + c * a.high, high + c * a.low
    return Index(tuple(kept), constant, low, high)


#: Equal quotients must be one atom, or they would not cancel.  Cleared when it has more than 4,096 entries.
_quotients: dict[tuple[Index, int], Quotient] = {}


def _quotient(numerator: Index, divisor: int) -> Quotient:
    key = (numerator, divisor)
    found = _quotients.get(key)
    if found is None:
        if len(_quotients) > 4096:
            _quotients.clear()
        found = _quotients[key] = Quotient(numerator, divisor)
    return found


def flatten(index: Sequence[Index], shape: Sequence[int]) -> Index:
    """The row-major position of `index` in a packed array of `shape`."""
    flat = constant_index(0)
    stride = 1
    for i, extent in zip(reversed(index), reversed(shape), strict=True):
        flat = flat.plus(i.times(stride))
        stride *= extent
    return flat


def unflatten(flat: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The inverse of `flatten`, for a flat position inside the array."""
    index: list[Index] = []
    for extent in reversed(shape[1:]):
        # An empty array has no positions; any index will do.
        extent = max(extent, 1)
        index.append(flat.mod(extent))
        flat = flat.floordiv(extent)
    if shape:
        index.append(flat)
    return tuple(reversed(index))
