"""Comparisons of vectors of words, as LLVM IR text: sorting networks without branches.

    blocks(sorted_pairs(16))    the vectors %i, %i + 1, ... at %words: each lane of 16 in order
    of_two()                    the vectors %a and %b: of each lane the smaller word to %a, the larger to %b
    of_two(3)                   the same with lanes 0 and 3, 1 and 2, ... of them, and then both lanes of a pair
"""

from __future__ import annotations

__all__ = ["BLOCK", "LANES", "Lines", "V", "merged_pairs", "of_blocks", "of_two", "sorted_pairs"]

LANES = 8
#: Vectors that are sorted in registers.
BLOCK = 16
#: A vector of words.
V = f"<{LANES} x i64>"


class Lines:
    """Instructions on vectors of words, or of floats, with names of their own, which begin with `prefix`."""

    def __init__(self, word: str = "i64", lanes: int = LANES, prefix: str = "v") -> None:
        self.word, self.lanes, self.prefix = word, lanes, prefix
        self.vector = f"<{lanes} x {word}>"
        self.text: list[str] = []

    def value(self, instruction: str) -> str:
        name = f"%{self.prefix}{len(self.text)}"
        self.text.append(f"  {name} = {instruction}")
        return name

    def at(self, place: str) -> str:
        return self.value(f"getelementptr {self.vector}, ptr %words, i64 {place}")

    def load(self, address: str) -> str:
        return self.value(f"load {self.vector}, ptr {address}, align 64")

    def store(self, value: str, address: str) -> None:
        # An instruction without a name takes the number of one.
        self.text.append(f"  store {self.vector} {value}, ptr {address}, align 64")

    def both(self, a: str, b: str) -> tuple[str, str]:
        """The smaller and the larger of each lane.  Of floats none is nan."""
        v = self.vector
        if self.word in ("float", "double"):
            less = self.value(f"fcmp olt {v} {a}, {b}")
            low, high = [
                self.value(f"select <{self.lanes} x i1> {less}, {v} {x}, {v} {y}") for x, y in ((a, b), (b, a))
            ]
            return low, high
        named = f"v{self.lanes}{self.word}"
        low, high = [self.value(f"call {v} @llvm.{name}.{named}({v} {a}, {v} {b})") for name in ("umin", "umax")]
        return low, high

    def shuffled(self, a: str, b: str, places: list[int]) -> str:
        """Lanes of two vectors by their numbers."""
        spelled = ", ".join(f"i32 {place}" for place in places)
        return self.value(
            f"shufflevector {self.vector} {a}, {self.vector} {b}, <{len(places)} x i32> <{spelled}>"
        )

    def crossed(self, x: str, bits: int) -> str:
        """Lanes whose numbers differ in these bits change places."""
        return self.shuffled(x, "poison", [lane ^ bits for lane in range(self.lanes)])

    def by_lane(self, bits: int, low: str, high: str) -> str:
        """Lanes of one vector where the highest of these bits is 0, of the other where it is 1."""
        top = 1 << bits.bit_length() - 1
        return self.shuffled(low, high, [lane + self.lanes * bool(lane & top) for lane in range(self.lanes)])

    def halved(self, x: str, bit: int) -> str:
        """Each lane compared with that which differs in this bit."""
        low, high = self.both(x, self.crossed(x, bit))
        return self.by_lane(bit, low, high)

    def across(self, x: str, y: str, bits: int) -> tuple[str, str]:
        """Each lane of one compared with that of the other whose number differs in these bits, the smaller words to
        lanes where the highest bit is 0; then with lanes of the same vector that differ in one of the others."""
        low, high = self.both(x, self.crossed(y, bits))
        low, high = self.by_lane(bits, low, high), self.crossed(self.by_lane(bits, high, low), bits)
        for step in [1 << k for k in range(bits.bit_length() - 2, -1, -1)]:
            low, high = self.halved(low, step), self.halved(high, step)
        return low, high


def sorted_pairs(n: int) -> list[tuple[int, int]]:
    """The comparisons of Batcher's network (Batcher, "Sorting networks and their applications", 1968)."""
    found = []
    size = 1
    while size < n:
        step = size
        while step:
            for first in range(step % size, n - step, 2 * step):
                for i in range(first, first + step):
                    if i // (2 * size) == (i + step) // (2 * size):
                        found.append((i, i + step))
            step //= 2
        size *= 2
    return found


def merged_pairs(n: int) -> list[tuple[int, int]]:
    """The comparisons after which n words that fall, then rise, rise."""
    steps = [n >> level for level in range(1, n.bit_length())]
    return [(i, i + step) for step in steps for i in range(n) if not i & step]


def of_blocks(pairs: list[tuple[int, int]]) -> str:
    """These comparisons within each block of vectors from %i on."""
    lines = Lines()
    places = [lines.at("%i")]
    places += [lines.value(f"getelementptr {V}, ptr {places[0]}, i64 {j}") for j in range(1, BLOCK)]
    rows = [lines.load(place) for place in places]
    for a, b in pairs:
        rows[a], rows[b] = lines.both(rows[a], rows[b])
    for row, place in zip(rows, places, strict=True):
        lines.store(row, place)
    return "\n".join(lines.text)


def of_two(bits: int = 0) -> str:
    """The comparison of the vectors at %a and %b, of whose lanes these bits differ."""
    lines = Lines()
    one, other = lines.at("%a"), lines.at("%b")
    x, y = lines.load(one), lines.load(other)
    low, high = lines.across(x, y, bits) if bits else lines.both(x, y)
    lines.store(low, one)
    lines.store(high, other)
    return "\n".join(lines.text)
