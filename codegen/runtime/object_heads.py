"""The heads of Python's and NumPy's objects, as structs: what machine code reads of them.

`native.OFFSETS` is compared with live objects when the launcher is made.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, i32, i64, native, ptr, u32, u64

__all__ = ["HEAD", "RawArray", "RawDescr", "RawObject", "RawSelf", "RawTuple", "class_of"]


class RawObject(Struct):
    """The head of all objects."""

    references: u32
    rest: u32
    type: ptr


class RawTuple(Struct):
    head: RawObject
    size: i64


class RawSelf(Struct):
    """The object of a builtin (`native.Self`): the address of a block."""

    head: RawObject
    size: i64
    hash: i64
    payload: ptr


class RawArray(Struct):
    """The head of an array of NumPy's, which does not change."""

    head: RawObject
    data: ptr
    nd: i32
    dims: ptr[i64]
    strides: ptr
    base: ptr
    descr: ptr
    flags: u32
    references: ptr
    buffers: ptr
    allocator: ptr


class RawDescr(Struct):
    """A dtype of NumPy's: the class of its scalars; then kind, byte order, flags and number in one word."""

    head: RawObject
    type: ptr
    rest: u64


#: The bytes of the head of an object: a NumPy scalar's value is behind it.
HEAD = RawObject.size()


@native(inline=True)
def class_of(thing: ptr) -> ptr:
    return ptr[RawObject](thing).type
