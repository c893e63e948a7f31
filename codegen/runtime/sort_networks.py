"""A few vectors of keys in order in registers, in native Python (`codegen.native`).

    network(rows)      the keys of `size` vectors at `rows` rise

Each lane of all vectors is sorted by a network of comparisons; then pairs of lanes are merged, pairs of pairs, and both
halves; last, rows become columns.  No branch depends on a comparison.
"""

from __future__ import annotations

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.
from ..native import extern, i64, local, native, ptr, select, shuffle, void

__all__ = ["merged_pairs", "network_of", "sorted_pairs"]


def sorted_pairs(n):
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


def merged_pairs(n):
    """The comparisons after which n keys that fall, then rise, rise."""
    steps = [n >> level for level in range(1, n.bit_length())]
    return [(i, i + step) for step in steps for i in range(n) if not i & step]


def crossed(bits, lanes):
    """Lanes change places whose numbers differ in these bits."""
    return [lane ^ bits for lane in range(lanes)]


def chosen(bits, lanes):
    """Lanes of one vector where the highest of these bits is 0, of the other where it is 1."""
    top = 1 << bits.bit_length() - 1
    return [lane + lanes * bool(lane & top) for lane in range(lanes)]


def network_of(V, size):
    """`network` for so many vectors V, at least two."""
    less, more = (
        extern(f"llvm.{word}.v{V.lanes}i{V.item.bits}", V, V, V, runs_python=False, plain=plain)
        for word, plain in (("smin", lambda x, y: select(x < y, x, y)), ("smax", lambda x, y: select(x < y, y, x)))
    )
    lanes, places, columns, merged = V.lanes, range(size), sorted_pairs(size), merged_pairs(size)
    facing = [(a, size - 1 - a) for a in range(size // 2)]
    levels = []
    for bits in [(1 << level) - 1 for level in range(1, lanes.bit_length())]:
        forwards = chosen(bits, lanes)
        backwards = [forwards[lane ^ bits] ^ lanes for lane in range(lanes)]
        steps = [1 << k for k in range(bits.bit_length() - 2, -1, -1)]
        within = [(crossed(step, lanes), chosen(step, lanes)) for step in steps]
        levels.append((crossed(bits, lanes), forwards, backwards, within))
    # Lanes of the first half of the rows between those of the second, as often as it takes.
    halvings = range(size.bit_length() - 1)
    turns = [[lane // 2 + lanes * (lane % 2) for lane in range(k, k + lanes)] for k in (0, lanes)]
    between = [(j, j + size // 2, 2 * j + k, turns[k]) for j in range(size // 2) for k in (0, 1)]

    @native(inline=True)
    def exchange(rows: ptr[V], a: i64, b: i64) -> void:
        """Of each lane of two vectors the smaller key to the first, the larger to the second."""
        x = rows[a]
        y = rows[b]
        rows[a] = less(x, y)
        rows[b] = more(x, y)

    @native(inline=True)
    def network(memory: ptr[V]) -> void:
        rows = local(V, size)
        turned = local(V, size)
        for j in places:
            rows[j] = memory[j]
        for a, b in columns:
            exchange(rows, a, b)
        for across, forwards, backwards, steps in levels:
            for a, b in facing:
                x = rows[a]
                y = shuffle(rows[b], rows[b], across)
                low = less(x, y)
                high = more(x, y)
                rows[a] = shuffle(low, high, forwards)
                rows[b] = shuffle(low, high, backwards)
            for j in places:
                for step, half in steps:
                    one = rows[j]
                    other = shuffle(one, one, step)
                    rows[j] = shuffle(less(one, other), more(one, other), half)
            for a, b in merged:
                exchange(rows, a, b)
        for _turn in halvings:
            for a, b, to, lanes_of_both in between:
                turned[to] = shuffle(rows[a], rows[b], lanes_of_both)
            for j in places:
                rows[j] = turned[j]
        for j in places:
            memory[j] = rows[j]

    return network
