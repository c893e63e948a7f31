"""Functions on vectors in native Python (`codegen.native`), for several kinds of native steps."""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import extern, f32, f64, native, ptr, shuffle, vector, void

FLOATS = {"f32": f32, "f64": f64}


def any_of(lanes):
    """The function that returns True for a vector of truths at least one of which is true."""
    truths = vector[bool, lanes]
    return extern(f"llvm.vector.reduce.or.v{lanes}i1", bool, truths, plain=lambda x: any(x.values))


def square_of(V, size):
    """The function that transposes, in place, `size` rows of `size` elements, each row a vector V.  For the distances
    4, 2, 1, two rows that far apart exchange the squares that lie that far from the diagonal."""
    width, exchanges = V.lanes // size, []
    for d in [d for d in (4, 2, 1) if d < size]:
        low = [k if not k & d else size + k - d for k in range(size)]
        picked = [[width * k + part for k in rows for part in range(width)] for rows in (low, [k + d for k in low])]
        exchanges += [(i, i + d, *picked) for i in range(size) if not i & d]
    exchanges = tuple(exchanges)

    @native(inline=True)
    def transpose(rows: ptr[V]) -> void:
        for i, j, low, high in exchanges:
            row = rows[i]
            other = rows[j]
            rows[i] = shuffle(row, other, low)
            rows[j] = shuffle(row, other, high)

    return transpose
