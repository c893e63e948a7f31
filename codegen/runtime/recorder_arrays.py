"""Arrays of NumPy's as operands, in native Python: which kind their leaves have, copies of them, and loans.

Which kind the leaf of an array has is found by its descr and extents, in a small table that Python fills.  An array of
more extents, of another class, or met where machine code may not record is left to Python.

    copy_leaf(array)           the handle on a leaf with a copy of it, or None: called by Python
    learn_leaf(array, kind)    of which kind such are
    kind_of_array              in the table
    own_copy                   a packed copy
    lent_view, give_back       memory of arrays that nodes hold

The same in Python is `autodiff.tape.loans`, where it is said what loans are for.  A *loan* is a weak reference to a
view of an array; its callback is the *lender*, an object with the array, whether that could be written to before, and
all its loans by address.  Lenders are found by the addresses of their arrays.  When loans are given back while views
live, these get memory of their own: whoever has one sees the same values.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import Struct, array, borrowed, extern, i32, i64, local, native, obj, ptr, static, status, u32, u64, void
from . import recording_objects as py
from .record_table import MOST_EXTENTS
from .recorder_nodes import new_leaf, recording_now
from .recording_structs import RawKind, RawLender, tape

__all__ = [
    "UNKNOWN", "copy_leaf", "gave_back", "give_back", "is_writeable", "keep", "kind_of_array", "learn_leaf",
    "lender_of", "lent_view", "loan_ended", "new_view", "own_copy", "set_writeable", "size_of",
]  # fmt: skip

#: Copies of more elements lie in memory of the pool.  Ten million doubles take 18 ms so, and 42 where the system hands
#: out new pages for them; a hundred thousand take 25 us in either (two cores of a Zen 4, 2026-11).
POOLED = 8192
#: Kinds of leaves are found in a table of so many places.
LEAVES = 512
#: NPY_ARRAY_WRITEABLE.
WRITEABLE = 0x400
#: In place of the kind of an array that nobody has told.
UNKNOWN = 2

new_view = extern("new_view", ptr, ptr, ptr, ptr)
new_copy = extern("new_copy", ptr, ptr, i32)
set_handler = extern("set_handler", ptr, ptr)


class LeafEntry(Struct):
    """The kind of leaves that arrays of this descr and these extents have."""

    descr: u64
    rank: i64
    extents: array[i64, MOST_EXTENTS]
    kind: ptr[RawKind]


leaf_kinds = static(array[LeafEntry, LEAVES])


@native(inline=True)
def is_writeable(a: ptr[py.RawArray]) -> bool:
    return a.flags & WRITEABLE != 0


@native(inline=True)
def set_writeable(a: ptr[py.RawArray], can: bool) -> void:
    a.flags = a.flags | WRITEABLE if can else a.flags & ~u32(WRITEABLE)


@native(inline=True)
def entry_of(a: ptr[py.RawArray]) -> ptr[LeafEntry]:
    """The place of an array in the table; null where it can have none."""
    if py.class_of(ptr(a)) is not tape.array_type or a.nd > MOST_EXTENTS:
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
def own_copy(a: ptr[py.RawArray]) -> ptr:
    """A packed copy of an array: a large one in memory of the pool, which is there already.  Null with an exception."""
    if size_of(a) <= POOLED:
        return new_copy(ptr(a), 0)  # NPY_CORDER
    usual = set_handler(tape.allocator)
    if usual is None:
        return None
    copy = new_copy(ptr(a), 0)
    pools = set_handler(usual)
    py.dec(usual)
    py.dec(pools)
    if pools is None:
        py.dec(copy)
        return None
    return copy


# ------------------------------------------------------------------ called by Python


@native
def copy_leaf(a: borrowed) -> obj:
    """The handle on a leaf with a copy of an array; None where Python is to make it."""
    mode = local(ptr, 1)
    if recording_now(mode) is None:
        return borrowed(tape.none)
    kind = kind_of_array(ptr[py.RawArray](a))
    if u64(kind) <= UNKNOWN:
        return borrowed(tape.none)
    held: obj = borrowed(kind)  # memory is asked for: the table may change meanwhile
    value = py.object_of(own_copy(ptr[py.RawArray](a)))
    set_writeable(ptr[py.RawArray](value), False)
    return py.object_of(ptr(new_leaf(ptr[RawKind](held), kind.out.cls, ptr(value))))


@native
def learn_leaf(a: borrowed, kind: borrowed) -> void:
    raw = ptr[py.RawArray](a)
    entry = entry_of(raw)
    if entry is None:
        return
    entry.descr = u64(raw.descr)
    entry.rank = i64(raw.nd)
    for i in range(raw.nd):
        entry.extents[i] = raw.dims[i]
    old = entry.kind
    py.inc(ptr(kind))
    entry.kind = ptr[RawKind](kind)
    py.dec(ptr(old))  # null, of an empty one, is fine


address_number = extern("PyLong_FromVoidPtr", obj, ptr, fails=True, runs_python=False)
address_number_or_null = extern("PyLong_FromVoidPtr", ptr, ptr, runs_python=False)
new_dict = extern("PyDict_New", obj, fails=True)
set_item = extern("PyDict_SetItem", i32, ptr, borrowed, borrowed, fails=True)
put_item = extern("PyDict_SetItem", i32, ptr, borrowed, borrowed)
delete_item = extern("PyDict_DelItem", i32, ptr, ptr)
append_loan = extern("PyList_Append", i32, borrowed, borrowed)
cut = extern("PyList_SetSlice", i32, borrowed, i64, i64, ptr, fails=True)
new_object = extern("PyType_GenericAlloc", obj, ptr, i64, fails=True)
new_reference = extern("PyWeakref_NewRef", obj, borrowed, borrowed, fails=True)
attribute = extern("PyObject_GetAttr", obj, borrowed, borrowed, fails=True)
call_with_one = extern("PyObject_CallOneArg", obj, ptr, borrowed, fails=True)
interpreter = extern("PyInterpreterState_Get", ptr, runs_python=False)
first_thread = extern("PyInterpreterState_ThreadHead", ptr, ptr, runs_python=False)
next_thread = extern("PyThreadState_Next", ptr, ptr, runs_python=False)


@native(inline=True)
def lender_of(key: ptr) -> ptr:
    """The lender of the array with this address, borrowed; null where it is not lent."""
    return py.dict_item(tape.lent, key)


@native
def new_lender(array: ptr[py.RawArray]) -> obj:
    made = new_object(tape.lender_type, 0)
    loans = new_dict()
    lender = ptr[RawLender](made)
    py.inc(ptr(loans))
    lender.loans = ptr(loans)
    py.inc(ptr(array))
    lender.array = array
    lender.was_writeable = tape.true if is_writeable(array) else tape.false
    py.inc(lender.was_writeable)
    return made


@native
def end_loan(lender: borrowed, loan: borrowed) -> void:
    """End a loan: with the last one the array is as it was."""
    held: obj = lender
    also: obj = loan
    raw = ptr[RawLender](held)
    number = address_number_or_null(ptr(also))
    key = address_number_or_null(ptr(raw.array))
    if number is not None and key is not None:
        delete_item(raw.loans, number)
        if py.dict_size(raw.loans) == 0 and lender_of(key) is ptr(held):
            if raw.was_writeable is tape.true:
                set_writeable(raw.array, True)
            delete_item(tape.lent, key)
    py.dec(number)
    py.dec(key)
    py.clear_error()


@native
def lent_view(array: ptr[py.RawArray], noted: borrowed) -> obj:
    """A view of an array, which is locked while the view is there.  The loan is noted in a list."""
    view = py.object_of(new_view(ptr(array), None, None))
    set_writeable(ptr[py.RawArray](view), False)
    key = address_number(ptr(array))
    while True:
        known = lender_of(ptr(key))
        lender = new_lender(array) if known is None else borrowed(known)
        loan = new_reference(view, lender)
        number = address_number(ptr(loan))
        # Memory was asked for: the garbage collector may have run what lends the same array, or what held the others.
        present = lender_of(ptr(key))
        if present is None:
            set_item(tape.lent, key, lender)
            set_writeable(array, False)
            break
        if present is ptr(lender):
            break
    if put_item(ptr[RawLender](lender).loans, number, loan) < 0 or append_loan(noted, loan) < 0:
        end_loan(lender, loan)
        py.no_memory()
        return py.failed()
    if py.list_size(ptr(noted)) & 255 == 0:
        call_with_one(tape.prune, noted)
    return view


@native
def pair_of(first: borrowed, second: borrowed) -> obj:
    both = local(ptr, 2)
    both[0] = ptr(first)
    both[1] = ptr(second)
    py.inc(both[0])
    py.inc(both[1])
    return py.object_of(py.tuple_of(both, 2))


@native
def keep_view(view: ptr[py.RawArray], own_references: i64) -> status:
    """Let a view have memory of its own."""
    fresh = py.object_of(own_copy(view))
    holder: obj = fresh
    is_alone = i64(view.head.references) <= own_references or next_thread(first_thread(interpreter())) is None
    if not is_alone:
        # One of those who have it may be a kernel of another thread that reads the memory as it was.
        holder = pair_of(fresh, borrowed(view.base))
    view.data = ptr[py.RawArray](fresh).data
    old = view.base
    py.inc(ptr(holder))
    view.base = ptr(holder)
    py.dec(old)


@native
def gave_back(loans: borrowed) -> status:
    """End all loans of a list: what lives on gets copies."""
    while py.list_size(ptr(loans)) > 0:
        last = py.list_size(ptr(loans)) - 1
        loan: obj = borrowed(py.list_item(ptr(loans), last))
        cut(loans, last, last + 1, None)
        view: obj = borrowed(py.referent(ptr(loan)))
        if view is None:
            py.failed()
        if view is not tape.none:
            lender = attribute(loan, borrowed(tape.callback_name))
            keep_view(ptr[py.RawArray](view), 2)  # the node's reference, and ours
            if py.class_of(ptr(lender)) is tape.lender_type:
                end_loan(lender, loan)


# ------------------------------------------------------------------ called by Python


@native
def give_back(loans: borrowed) -> status:
    gave_back(loans)


@native
def keep(view: borrowed) -> status:
    keep_view(ptr[py.RawArray](view), 0)


@native
def loan_ended(lender: borrowed, arguments: borrowed, keywords: borrowed) -> obj:
    """A lender is called: a view that it lent memory to is gone."""
    if py.tuple_size(ptr(arguments)) != 1:
        raise TypeError("a lender is called with a loan")
    end_loan(lender, borrowed(py.tuple_item(ptr(arguments), 0)))
    return borrowed(tape.none)
