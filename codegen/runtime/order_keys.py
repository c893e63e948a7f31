"""Keys of elements, in native Python (`codegen.native`): signed numbers in the same order.

Of a float its bits, of a negative one all but the sign turned round; nan is above all, -0.0 is 0.0.  For a falling
order the complement.
"""

from __future__ import annotations

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.
from ..native import i8, i32, i64, native, select, vector
from ..records import record

__all__ = ["KINDS", "turns_of"]


@record(frozen=True)
class KeyKind:
    """Elements as they are in memory, and of what type a key is."""

    element: type
    key: type
    is_float: bool = False


KINDS = {
    "f32": KeyKind(i32, i32, is_float=True),
    "f64": KeyKind(i64, i64, is_float=True),
    "i32": KeyKind(i32, i32),
    "i64": KeyKind(i64, i64),
    "bool": KeyKind(i8, i8),
}


def turns_of(V, is_float):
    """Functions on vectors: bits of elements to keys, and `back`.  Special are -0.0 and nan, which do not come back, so
    `plain_key` is for all others."""
    last, most = V.item.bits - 1, (1 << V.item.bits - 1) - 1
    infinity, mask = {32: 0x7F800000, 64: 0x7FF0000000000000}[V.item.bits], vector[bool, V.lanes]

    @native(inline=True)
    def plain_key(x: V, flips: V) -> V:
        if is_float:
            return x ^ (x >> V(last) & V(most)) ^ flips
        return x ^ flips

    @native(inline=True)
    def key(x: V, flips: V) -> V:
        if is_float:
            number = select(x == V(-most - 1), V(0), plain_key(x, V(0)))
            return select((x & V(most)) > V(infinity), V(most), number) ^ flips
        return x ^ flips

    @native(inline=True)
    def back(keys: V, flips: V) -> V:
        return plain_key(keys ^ flips, V(0))

    @native(inline=True)
    def are_special(x: V) -> mask:
        if is_float:
            return (x == V(-most - 1)) | ((x & V(most)) > V(infinity))
        return x != x

    return key, plain_key, back, are_special
