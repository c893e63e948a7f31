"""NumPy arrays as operands, in native Python: the kinds of their leaves, and copies of the arrays.

The kind of an array's leaf is found by the array's descr and extents in a small table that Python fills.  Python
handles arrays of higher rank or of a subclass, and all arrays while machine code may not record.

    copy_leaf(array)           the handle on a leaf with a copy of the array, or None; called by Python
    learn_leaf(array, kind)    adds the kind of the leaves of such arrays to the table
    kind_of_array              looks up the kind in the table
    own_copy                   a packed copy
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import FAILS, Struct, array, extern, held, i32, i64, local, native, own, ptr, static, u32, u64, void
from . import recording_objects as py
from .record_table import MOST_EXTENTS
from .recorder_nodes import new_leaf, recording_now
from .recording_structs import RawKind, new_none, tape

#: Copies of more elements than this use memory of the pool.  Copying ten million doubles takes 18 ms so, and 42 ms in
#: fresh pages from the system; a hundred thousand take 25 us in either (two cores of a Zen 4, 2026-11).
POOLED = 8192
#: The number of places of the table of kinds, a power of two.
LEAVES = 512
#: NPY_ARRAY_WRITEABLE; C_CONTIGUOUS | ALIGNED; C_CONTIGUOUS | OWNDATA | ALIGNED.
WRITEABLE, PACKED, OWN_MEMORY = 0x400, 0x1 | 0x100, 0x1 | 0x4 | 0x100
#: Returned in place of the kind of an array whose kind is not in the table.
UNKNOWN = 2

new_view = extern("new_view", own, ptr, ptr, ptr, fails=FAILS)
new_copy = extern("new_copy", own, ptr, i32, fails=FAILS)
set_handler = extern("set_handler", own, ptr, fails=FAILS)


class LeafEntry(Struct):
    """The kind of the leaves of arrays with this descr and these extents."""

    descr: u64
    rank: i64
    extents: array[i64, MOST_EXTENTS]
    kind: own[RawKind]


leaf_kinds = static(array[LeafEntry, LEAVES])


@native(inline=True)
def set_writeable(a: ptr[py.RawArray], can: bool) -> void:
    a.flags = a.flags | WRITEABLE if can else a.flags & ~u32(WRITEABLE)


@native(inline=True)
def entry_of(a: ptr[py.RawArray]) -> ptr[LeafEntry]:
    """The place of an array in the table; null if it can have none."""
    if py.class_of(a) is not tape.array_type or a.nd > MOST_EXTENTS:
        return None
    bits = (u64(a.descr) >> 4) + u64(a.nd)
    for i in range(a.nd):
        bits = bits * 31 + u64(a.dims[i])
    return leaf_kinds[(bits ^ bits >> 8) & LEAVES - 1]


@native
def kind_of_array(a: ptr[py.RawArray]) -> ptr[RawKind]:
    """The kind of an array's leaf, borrowed; null if the array cannot be in the table, UNKNOWN if it is not."""
    entry = entry_of(a)
    if entry is None:
        return None
    unknown = ptr[RawKind](UNKNOWN)
    if entry.kind is None or entry.descr != u64(a.descr) or entry.rank != i64(a.nd):
        return unknown
    for i in range(a.nd):
        if entry.extents[i] != a.dims[i]:
            return unknown
    return entry.kind


@native
def size_of(a: ptr[py.RawArray]) -> i64:
    size = i64(1)
    for i in range(a.nd):
        size = size * a.dims[i]
    return size


@native
def own_copy(a: ptr[py.RawArray]) -> own:
    """A packed copy of an array; a large one uses memory of the pool.  Null with an exception."""
    if size_of(a) <= POOLED:
        return new_copy(a, 0)  # NPY_CORDER
    usual: own = set_handler(tape.allocator)
    if usual is None:
        return None
    copy: own = new_copy(a, 0)
    pools: own = set_handler(usual)
    if pools is None:
        return None
    return copy


# ------------------------------------------------------------------ called by Python


@native
def copy_leaf(a: ptr) -> own:
    """The handle on a leaf with a copy of an array; None if Python must make the leaf."""
    mode = local(ptr, 1)
    if recording_now(mode) is None:
        return new_none()
    kind = kind_of_array(ptr[py.RawArray](a))
    if u64(kind) <= UNKNOWN:
        return new_none()
    leaf: own[RawKind] = held(kind)  # allocating the copy may run Python code, which may change the table
    value: own = own_copy(ptr[py.RawArray](a))
    if value is None:
        return None
    set_writeable(ptr[py.RawArray](value), False)
    return new_leaf(leaf, value)


@native
def learn_leaf(a: ptr, kind: ptr) -> void:
    raw = ptr[py.RawArray](a)
    entry = entry_of(raw)
    if entry is None:
        return
    entry.descr = u64(raw.descr)
    entry.rank = i64(raw.nd)
    for i in range(raw.nd):
        entry.extents[i] = raw.dims[i]
    entry.kind = held(ptr[RawKind](kind))
