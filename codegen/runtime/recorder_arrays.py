"""Arrays of NumPy's as operands, in native Python: which kind their leaves have, and copies of them.

Which kind the leaf of an array has is found by its descr and extents, in a small table that Python fills.  An array of
more extents, of another class, or met where machine code may not record is left to Python.

    copy_leaf(array)           the handle on a leaf with a copy of it, or None: called by Python
    learn_leaf(array, kind)    of which kind such are
    kind_of_array              in the table
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

#: Copies of more elements lie in memory of the pool.  Ten million doubles take 18 ms so, and 42 where the system hands
#: out new pages for them; a hundred thousand take 25 us in either (two cores of a Zen 4, 2026-11).
POOLED = 8192
#: Kinds of leaves are found in a table of so many places.
LEAVES = 512
#: NPY_ARRAY_WRITEABLE; C_CONTIGUOUS and ALIGNED; these with OWNDATA.
WRITEABLE, PACKED, OWN_MEMORY = 0x400, 0x1 | 0x100, 0x1 | 0x4 | 0x100
#: In place of the kind of an array that nobody has told.
UNKNOWN = 2

new_view = extern("new_view", own, ptr, ptr, ptr, fails=FAILS)
new_copy = extern("new_copy", own, ptr, i32, fails=FAILS)
set_handler = extern("set_handler", own, ptr, fails=FAILS)


class LeafEntry(Struct):
    """The kind of leaves that arrays of this descr and these extents have."""

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
    """The place of an array in the table; null where it can have none."""
    if py.class_of(a) is not tape.array_type or a.nd > MOST_EXTENTS:
        return None
    bits = (u64(a.descr) >> 4) + u64(a.nd)
    for i in range(a.nd):
        bits = bits * 31 + u64(a.dims[i])
    return leaf_kinds[(bits ^ bits >> 8) & LEAVES - 1]


@native
def kind_of_array(a: ptr[py.RawArray]) -> ptr[RawKind]:
    """The kind of the leaf of an array, borrowed: null where it can have none, UNKNOWN where none is known."""
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
    """A packed copy of an array: a large one in memory of the pool, which is there already.  Null with an exception."""
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
    """The handle on a leaf with a copy of an array; None where Python is to make it."""
    mode = local(ptr, 1)
    if recording_now(mode) is None:
        return new_none()
    kind = kind_of_array(ptr[py.RawArray](a))
    if u64(kind) <= UNKNOWN:
        return new_none()
    leaf: own[RawKind] = held(kind)  # memory is asked for: the table may change meanwhile
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
