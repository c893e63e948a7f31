"""Comparisons of vectors of words, as LLVM IR text: sorting networks without branches.

    blocks(sorted_pairs(16))    the vectors %i, %i + 1, ... at %words: each lane of 16 in order
    of_two()                    the vectors %a and %b: of each lane the smaller word to %a, the larger to %b
    of_two(3)                   the same with lanes 0 and 3, 1 and 2, ... of them, and then both lanes of a pair
"""

from __future__ import annotations

__all__ = ["BLOCK", "LANES", "V", "merged_pairs", "of_blocks", "of_two", "sorted_pairs"]

LANES = 8
#: Vectors that are sorted in registers.
BLOCK = 16
#: A vector of words.
V = f"<{LANES} x i64>"


class _Lines:
    """Instructions on vectors with names of their own."""

    def __init__(self) -> None:
        self.text: list[str] = []

    def value(self, instruction: str) -> str:
        self.text.append(f"  %v{len(self.text)} = {instruction}")
        return f"%v{len(self.text) - 1}"

    def at(self, place: str) -> str:
        return self.value(f"getelementptr {V}, ptr %words, i64 {place}")

    def load(self, address: str) -> str:
        return self.value(f"load {V}, ptr {address}, align 64")

    def store(self, value: str, address: str) -> None:
        # An instruction without a name takes the number of one.
        self.text.append(f"  store {V} {value}, ptr {address}, align 64")

    def both(self, a: str, b: str) -> tuple[str, str]:
        """The smaller and the larger of each lane."""
        low, high = [
            self.value(f"call {V} @llvm.{name}.v{LANES}i64({V} {a}, {V} {b})") for name in ("umin", "umax")
        ]
        return low, high

    def crossed(self, x: str, bits: int) -> str:
        """Lanes whose numbers differ in these bits change places."""
        places = ", ".join(f"i32 {lane ^ bits}" for lane in range(LANES))
        return self.value(f"shufflevector {V} {x}, {V} poison, <{LANES} x i32> <{places}>")

    def by_lane(self, bits: int, low: str, high: str) -> str:
        """Lanes of one vector where the highest of these bits is 0, of the other where it is 1."""
        top = 1 << bits.bit_length() - 1
        places = ", ".join(f"i32 {lane + LANES * bool(lane & top)}" for lane in range(LANES))
        return self.value(f"shufflevector {V} {low}, {V} {high}, <{LANES} x i32> <{places}>")

    def halved(self, x: str, bit: int) -> str:
        """Each lane compared with that which differs in this bit."""
        low, high = self.both(x, self.crossed(x, bit))
        return self.by_lane(bit, low, high)


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
    lines = _Lines()
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
    lines = _Lines()
    one, other = lines.at("%a"), lines.at("%b")
    x, y = lines.load(one), lines.load(other)
    low, high = lines.both(x, lines.crossed(y, bits) if bits else y)
    if bits:
        low, high = lines.by_lane(bits, low, high), lines.crossed(lines.by_lane(bits, high, low), bits)
    for step in [1 << k for k in range(bits.bit_length() - 2, -1, -1)]:
        low, high = lines.halved(low, step), lines.halved(high, step)
    lines.store(low, one)
    lines.store(high, other)
    return "\n".join(lines.text)
