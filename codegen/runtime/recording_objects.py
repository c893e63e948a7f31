"""Python and NumPy objects in native Python: their heads as structs, and functions of CPython that several files call.

    RawObject, RawArray, ...  the heads; `native.OFFSETS` is compared with live objects when the launcher is made
    inc, dec, let_go          reference counts by hand, for objects in allocated memory
    call_one, call_two        call a Python function with one object, or two
    room, free_room           allocate and free memory for objects that are held during a call
    list_of, tuple_of         make a list or tuple that takes over references

A function that makes an object may run any Python: the cycle collector may start, and run `__del__` methods.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from typing import Any

from ..native import FAILS, NO_MEMORY, Struct, extern, f64, held, i32, i64, moved, native, own, ptr, row, u32, u64, void


class RawObject(Struct):
    """The head of all objects."""

    references: u32
    rest: u32
    type: ptr


class RawTuple(Struct):
    head: RawObject
    size: i64


class RawAddress(Struct):
    """The object of a builtin (`native.OwnedAddress`): the address of a block."""

    head: RawObject
    size: i64
    hash: i64
    payload: ptr


class RawArray(Struct):
    """The head of a NumPy array, whose layout is the same in all versions."""

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
    allocator: own


class RawDescr(Struct):
    """A NumPy dtype: the class of its scalars; then kind, byte order, flags and type number in one word."""

    head: RawObject
    type: ptr
    rest: u64


#: The bytes of the head of an object, behind which a NumPy scalar has its value.
HEAD = RawObject.size()


@native(inline=True)
def class_of(thing: ptr) -> ptr:
    return ptr[RawObject](thing).type


# ------------------------------------------------------------------ calls

#: The number of objects for which a function has room on the stack (see `room`).
FEW = 64

inc = extern("Py_IncRef", void, ptr)
dec = extern("Py_DecRef", void, ptr)
tuple_size = extern("PyTuple_Size", i64, ptr, plain=len)
tuple_item = extern("PyTuple_GetItem", ptr, ptr, i64, plain=lambda t, i: t[i])
new_tuple = extern("PyTuple_New", own, i64, fails=FAILS)
set_tuple = extern("PyTuple_SetItem", void, ptr, i64, own)
list_size = extern("PyList_Size", i64, ptr, plain=len)
list_item = extern("PyList_GetItem", ptr, ptr, i64, plain=lambda t, i: t[i])
new_list = extern("PyList_New", own, i64, fails=FAILS)
set_list = extern("PyList_SetItem", void, ptr, i64, own)
append = extern("PyList_Append", i32, ptr, ptr, fails=FAILS)
dict_size = extern("PyDict_Size", i64, ptr, plain=len)
dict_item = extern("PyDict_GetItem", ptr, ptr, ptr)
new_bytes = extern("PyBytes_FromStringAndSize", own, ptr, i64, fails=FAILS)
bytes_at = extern("PyBytes_AsString", ptr[u64], ptr)
int_of = extern("PyLong_FromLongLong", own, i64, fails=FAILS)
int_value = extern("PyLong_AsLongLong", i64, ptr, plain=int)
float_value = extern("PyFloat_AsDouble", f64, ptr, plain=float)
slice_ends = extern("PySlice_Unpack", void, ptr, ptr[i64], ptr[i64], ptr[i64])  # for a slice that we made
referent = extern("PyWeakref_GetObject", ptr, ptr)
is_subtype = extern("PyType_IsSubtype", i32, ptr, ptr)
next_of = extern("PyIter_Next", own, ptr, fails=FAILS)
call_method = extern("PyObject_VectorcallMethod", own, ptr, ptr[ptr], u64, ptr, fails=FAILS)
call = extern("PyObject_Vectorcall", own, ptr, ptr[ptr], u64, ptr, fails=FAILS)
matches = extern("PyErr_ExceptionMatches", i32, ptr)
clear_error = extern("PyErr_Clear", void)
context_value = extern("PyContextVar_Get", i32, ptr, ptr, ptr[own], fails=FAILS)
no_memory = extern("PyErr_NoMemory", void)
allocated = extern("PyMem_RawMalloc", ptr, u64, fails=NO_MEMORY)
#: The functions of `pool`, which is part of the launcher's code.
from_pool = extern("from_pool", ptr, u64, fails=NO_MEMORY)
to_pool = extern("to_pool", void, ptr)
resized = extern("PyMem_RawRealloc", ptr, ptr, u64, fails=NO_MEMORY)
free = extern("PyMem_RawFree", void, ptr)
thread_state = extern("PyThreadState_Get", ptr)
set_bytes = extern("memset", void, ptr, i32, u64)
new_array = extern("new_array", own, ptr, own, i32, ptr, ptr, ptr, i32, ptr, fails=FAILS)
copy_into = extern("copy_into", i32, ptr, ptr, fails=FAILS)


#: Flags of NumPy arrays: packed, aligned and writeable, as a new array is;  the array owns its memory.
NEW_FLAGS, OWNS = 0x501, 0x4


@native(inline=True)
def owning_array(cls: ptr, allocator: ptr, descr: ptr, rank: i64, dims: ptr[i64], data: ptr) -> own:
    """A new array around memory of the pool, which gets it back when the array dies.  Null with an exception."""
    array: own = new_array(cls, held(descr), i32(rank), dims, None, data, NEW_FLAGS, None)
    if array is not None:
        raw = ptr[RawArray](array)
        raw.allocator = held(allocator)
        raw.flags = raw.flags | OWNS
    return array


@native(inline=False)
def call_one(function: ptr, x: ptr) -> own:
    """The result of a Python function, called with one object; null with an exception."""
    return call(function, row(x), 1, None)


@native(inline=False)
def call_two(function: ptr, x: ptr, y: ptr) -> own:
    """The result of a Python function, called with two objects; null with an exception."""
    return call(function, row(x, y), 2, None)


@native
def let_go(objects: ptr[own], count: i64) -> void:
    """Release one reference to each object; there may be nulls among them."""
    for i in range(count):
        objects[i] = None


@native(inline=True)
def room(nearby: ptr, few: i64, count: i64) -> ptr[own]:
    """Memory for `count` objects, filled with nulls, which `free_room` frees; null with an exception.

    nearby    memory on the stack, for `few` of them
    """
    found = nearby if count <= few else allocated(u64(8 * count))
    if found is None:
        no_memory()
    else:
        set_bytes(found, 0, u64(8 * count))
    return ptr[own](found)


@native(inline=True)
def free_room(objects: ptr[own], count: i64, nearby: ptr) -> void:
    let_go(objects, count)
    if objects is not nearby:
        free(objects)


def _of(new: Any, put: Any) -> Any:
    @native
    def made_of(objects: ptr[own], count: i64) -> own:
        """A list or tuple that takes over references; null if one of them is null: its maker has set the exception."""
        for i in range(count):
            if objects[i] is None:
                return None
        made: own = new(count)
        for i in range(count if made is not None else i64(0)):
            put(made, i, moved(objects[i]))
        return made

    return made_of


list_of, tuple_of = _of(new_list, set_list), _of(new_tuple, set_tuple)
