"""Static arguments of calls, in native Python: their words in a table, and when two are the same.

An int stands for its value, a float for its bits, a tuple for those of its items; all else for its address.
`record_table` computes the same words.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import bit_cast, extern, i32, i64, local, native, ptr, u64
from .object_heads import class_of
from .recording_objects import float_value, tuple_item, tuple_size
from .recording_structs import tape

__all__ = ["int_within", "is_same_static", "static_bits"]

long_value = extern("PyLong_AsLongLongAndOverflow", i64, ptr, ptr[i32], runs_python=False)


@native(inline=True)
def int_within(x: ptr, found: ptr[i64]) -> bool:
    """The value of an int; False where it takes more than 64 bits."""
    overflow = local(i32, 1)
    found[0] = long_value(x, overflow)
    return overflow[0] == 0


@native(inline=True)
def atom_bits(x: ptr) -> u64:
    """The word of an argument that is no tuple; it may be null."""
    number = local(i64, 1)
    if x is not None:
        if class_of(x) is tape.int_type and int_within(x, number):
            return u64(number[0])
        if class_of(x) is tape.float_type:
            return bit_cast(u64, float_value(x))
    return u64(x)


@native(inline=True)
def is_tuple(x: ptr) -> bool:
    return x is not None and class_of(x) is tape.tuple_type


@native
def static_bits(x: ptr) -> u64:
    """The word of an argument."""
    if not is_tuple(x):
        return atom_bits(x)
    size = tuple_size(x)
    bits = u64(size)
    for i in range(size):
        bits = bits * 31 + atom_bits(tuple_item(x, i))
    return bits


@native(inline=True)
def is_same_atom(x: ptr, y: ptr) -> bool:
    """True for the same object, or the same value of an int or float; of an int beyond 64 bits another object differs.
    """
    if x is y:
        return True
    if x is None or y is None or class_of(x) is not class_of(y):
        return False
    has_value = class_of(x) is tape.int_type or class_of(x) is tape.float_type
    return has_value and atom_bits(x) == atom_bits(y)


@native
def is_same_static(x: ptr, y: ptr) -> bool:
    """True for arguments of one word that are the same: tuples, where their items are."""
    if not is_tuple(x) or not is_tuple(y):
        return is_same_atom(x, y)
    count = tuple_size(x)
    if tuple_size(y) != count:
        return False
    same = i64(0)
    while same < count and is_same_atom(tuple_item(x, same), tuple_item(y, same)):
        same += 1
    return same == count
