"""Sets of numbered things, as bits of ints of bounded length.

Nodes are numbered in the order of the graph, and what one of them is computed from was made shortly before.  One int
for a set would be as long as the numbers are high: of 28,000 nodes a quarter of a gigabyte, and each union a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

__all__ = ["EMPTY", "Numbered"]

#: Bits of one word.
_SHIFT = 10
_BITS = 1 << _SHIFT


class Numbered:
    """A set of numbers, never changed: `words` are its bits, 1,024 numbers in each; there is none that is 0."""

    __slots__ = ("words",)

    def __init__(self, words: dict[int, int]) -> None:
        self.words = words

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Numbered:
        """The set of these."""
        words: dict[int, int] = {}
        for n in numbers:
            words[n >> _SHIFT] = words.get(n >> _SHIFT, 0) | 1 << (n & _BITS - 1)
        return cls(words)

    @classmethod
    def where(cls, flags: Sequence[bool]) -> Numbered:
        """The numbers of those that are true."""
        return cls.of([n for n, flag in enumerate(flags) if flag])

    def __or__(self, other: Numbered) -> Numbered:
        mine = self.words
        if not mine:
            return other
        more = [(w, m) for w, m in other.words.items() if m & ~mine.get(w, 0)]
        if not more:
            return self
        words = dict(mine)
        for w, m in more:
            words[w] = words.get(w, 0) | m
        return Numbered(words)

    def __and__(self, other: Numbered) -> Numbered:
        few, many = self.words, other.words
        if len(many) < len(few):
            few, many = many, few
        return Numbered({w: both for w, m in few.items() if (both := m & many.get(w, 0))})

    def __sub__(self, other: Numbered) -> Numbered:
        without = other.words
        return Numbered({w: rest for w, m in self.words.items() if (rest := m & ~without.get(w, 0))})

    def __contains__(self, number: int) -> bool:
        return self.words.get(number >> _SHIFT, 0) >> (number & _BITS - 1) & 1 == 1

    def __bool__(self) -> bool:
        return bool(self.words)

    def __len__(self) -> int:
        return sum([m.bit_count() for m in self.words.values()])

    def __iter__(self) -> Iterator[int]:
        """In rising order."""
        for w in sorted(self.words):
            bits, first = self.words[w], w << _SHIFT
            while bits:
                low = bits & -bits
                yield first + low.bit_length() - 1
                bits ^= low

    @property
    def last(self) -> int:
        """The highest."""
        word = max(self.words)
        return (word << _SHIFT) + self.words[word].bit_length() - 1


EMPTY = Numbered({})
