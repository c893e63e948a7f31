"""Sets of numbered things, as bits: `|` and `&` join them, and the functions here do the rest.

Nodes are numbered in the order of the graph, and what one of them is computed from was made shortly before.  A set is
an int as long as its numbers are below 1,024, which those of most programs are.  One int for any set would be as long
as the numbers are high: of 28,000 nodes a quarter of a gigabyte, and each union a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

__all__ = ["EMPTY", "Numbered", "Wide", "count", "has", "numbers", "of", "one", "without"]

#: Bits of one word.
_SHIFT = 10
_BITS = 1 << _SHIFT


class Wide:
    """A set with numbers from 1,024 on, never changed: `words` are its bits, 1,024 numbers in each; none of them is 0.

    The first word is what an int would be.
    """

    __slots__ = ("words",)

    def __init__(self, words: dict[int, int]) -> None:
        self.words = words

    def __or__(self, other: Numbered) -> Wide:
        """Both together: the larger set itself where it holds the other."""
        many, few = self.words, _words(other)
        if len(many) < len(few):
            many, few = few, many
        more = [(w, m) for w, m in few.items() if m & ~many.get(w, 0)]
        if not more:
            return self if many is self.words or not isinstance(other, Wide) else other
        words = dict(many)
        for w, m in more:
            words[w] = words.get(w, 0) | m
        return Wide(words)

    __ror__ = __or__

    def __and__(self, other: Numbered) -> Numbered:
        few, many = self.words, _words(other)
        if len(many) < len(few):
            few, many = many, few
        return _made({w: both for w, m in few.items() if (both := m & many.get(w, 0))})

    __rand__ = __and__


#: A set of numbers.
Numbered = int | Wide

EMPTY: Numbered = 0


def one(number: int) -> Numbered:
    """The set of one number."""
    return 1 << number if number < _BITS else Wide({number >> _SHIFT: 1 << (number & _BITS - 1)})


def of(found: Iterable[int]) -> Numbered:
    """The set of these numbers."""
    words: dict[int, int] = {}
    for n in found:
        words[n >> _SHIFT] = words.get(n >> _SHIFT, 0) | 1 << (n & _BITS - 1)
    return _made(words)


def without(s: Numbered, other: Numbered) -> Numbered:
    """The numbers of the first set that the second does not hold."""
    if isinstance(s, int) and isinstance(other, int):
        return s & ~other
    words = _words(other)
    return _made({w: rest for w, m in _words(s).items() if (rest := m & ~words.get(w, 0))})


def count(s: Numbered) -> int:
    """The number of elements of a set."""
    return s.bit_count() if isinstance(s, int) else sum([m.bit_count() for m in s.words.values()])


def has(s: Numbered, number: int) -> bool:
    """True if a set holds a number."""
    return _words(s).get(number >> _SHIFT, 0) >> (number & _BITS - 1) & 1 == 1


def numbers(s: Numbered) -> Iterator[int]:
    """The numbers of a set, in rising order."""
    words = _words(s)
    for w in sorted(words) if len(words) > 1 else words:
        bits, first = words[w], w << _SHIFT
        while bits:
            low = bits & -bits
            yield first + low.bit_length() - 1
            bits ^= low


def _words(s: Numbered) -> dict[int, int]:
    return s.words if isinstance(s, Wide) else {0: s} if s else {}


def _made(words: dict[int, int]) -> Numbered:
    """The set of these words, none of which is 0."""
    return Wide(words) if len(words) > 1 or (words and 0 not in words) else words.get(0, 0)
