"""Objects of Python's and NumPy's in native Python: their heads as structs, and the calls of CPython's that are shared.

    RawObject, RawArray, ...  their heads: `native.OFFSETS` is compared with live objects when the launcher is made
    held, exchange, let_go    counts of references
    call_one, call_two        a function of Python's with one object, or two
    room, leave               memory for objects that are held for the length of a call
    list_of, tuple_of         a list, or a tuple, of objects that are held

A function that makes an object may run any Python: the collector of cycles may run, and objects that go run methods.
"""

# mypy: ignore-errors
# Types are those of native Python, which its own compiler checks.

from __future__ import annotations

from ..native import FAILS, NO_MEMORY, Struct, extern, f64, i32, i64, moved, native, own, ptr, row, u32, u64, void


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


# ------------------------------------------------------------------ calls

#: The number of objects that are held on the stack.
FEW = 64

inc = extern("Py_IncRef", void, ptr)
dec = extern("Py_DecRef", void, ptr)
tuple_size = extern("PyTuple_Size", i64, ptr, plain=len)
tuple_item = extern("PyTuple_GetItem", ptr, ptr, i64, plain=lambda t, i: t[i])
new_tuple = extern("PyTuple_New", ptr, i64, fails=FAILS)
set_tuple = extern("PyTuple_SetItem", i32, ptr, i64, ptr)
list_size = extern("PyList_Size", i64, ptr, plain=len)
list_item = extern("PyList_GetItem", ptr, ptr, i64, plain=lambda t, i: t[i])
new_list = extern("PyList_New", ptr, i64, fails=FAILS)
set_list = extern("PyList_SetItem", i32, ptr, i64, ptr)
append = extern("PyList_Append", i32, ptr, ptr, fails=FAILS)
dict_size = extern("PyDict_Size", i64, ptr, plain=len)
dict_item = extern("PyDict_GetItem", ptr, ptr, ptr)
new_bytes = extern("PyBytes_FromStringAndSize", ptr, ptr, i64, fails=FAILS)
bytes_at = extern("PyBytes_AsString", ptr[u64], ptr)
int_of = extern("PyLong_FromLongLong", ptr, i64, fails=FAILS)
int_value = extern("PyLong_AsLongLong", i64, ptr, plain=int)
float_value = extern("PyFloat_AsDouble", f64, ptr, plain=float)
slice_ends = extern("PySlice_Unpack", i32, ptr, ptr[i64], ptr[i64], ptr[i64])  # of a slice of ours
referent = extern("PyWeakref_GetObject", ptr, ptr)
is_subtype = extern("PyType_IsSubtype", i32, ptr, ptr)
next_of = extern("PyIter_Next", ptr, ptr, fails=FAILS)
call_method = extern("PyObject_VectorcallMethod", ptr, ptr, ptr[ptr], u64, ptr, fails=FAILS)
call = extern("PyObject_Vectorcall", ptr, ptr, ptr[ptr], u64, ptr, fails=FAILS)
matches = extern("PyErr_ExceptionMatches", i32, ptr)
clear_error = extern("PyErr_Clear", void)
context_value = extern("PyContextVar_Get", i32, ptr, ptr, ptr[ptr], fails=FAILS)
no_memory = extern("PyErr_NoMemory", ptr)
allocated = extern("PyMem_RawMalloc", ptr, u64, fails=NO_MEMORY)
resized = extern("PyMem_RawRealloc", ptr, ptr, u64, fails=NO_MEMORY)
free = extern("PyMem_RawFree", void, ptr)
thread_state = extern("PyThreadState_Get", ptr)
set_bytes = extern("memset", ptr, ptr, i32, u64)
new_array = extern("new_array", ptr, ptr, own, i32, ptr, ptr, ptr, i32, ptr, fails=FAILS)
copy_into = extern("copy_into", i32, ptr, ptr, fails=FAILS)


#: Of a new array: it is packed, aligned, writeable;  it owns its memory.
NEW_FLAGS, OWNS = 0x501, 0x4


@native(inline=True)
def owning_array(cls: ptr, allocator: ptr, descr: ptr, rank: i64, dims: ptr[i64], data: ptr) -> ptr:
    """A new array around memory of the pool, which it gives back when it dies; null with an exception."""
    inc(descr)  # the next call takes this reference
    array = new_array(cls, descr, i32(rank), dims, None, data, NEW_FLAGS, None)
    if array is not None:
        inc(allocator)
        raw = ptr[RawArray](array)
        raw.allocator = allocator
        raw.flags = raw.flags | OWNS
    return array


@native(inline=True)
def int_in(items: ptr, i: i64) -> i64:
    """The value of an int in a tuple."""
    return int_value(tuple_item(items, i))


@native(inline=False)
def call_one(function: ptr, x: ptr) -> ptr:
    """The result of a function of Python's, called with one object; null with an exception."""
    return call(function, row(x), 1, None)


@native(inline=False)
def call_two(function: ptr, x: ptr, y: ptr) -> ptr:
    """The result of a function called with two objects; null with an exception."""
    return call(function, row(x, y), 2, None)


@native(inline=True)
def held(thing: ptr) -> ptr:
    """A new reference of an object, which may be null."""
    inc(thing)
    return thing


@native(inline=True)
def exchange(place: ptr[ptr], value: own) -> void:
    """Put an object where another one is."""
    old = place[0]
    place[0] = moved(value)
    dec(old)


@native
def let_go(objects: ptr[ptr], count: i64) -> void:
    """Count one holder less of each object; there may be nulls among them."""
    for i in range(count):
        dec(objects[i])


@native(inline=True)
def room(nearby: ptr[ptr], few: i64, count: i64) -> ptr[ptr]:
    """Memory for so many objects, which `leave` gives back; null with an exception.

    nearby    memory on the stack, for `few` of them
    """
    if count <= few:
        return nearby
    found = ptr[ptr](allocated(u64(8 * count)))
    if found is None:
        no_memory()
    return found


@native(inline=True)
def leave(held: ptr[ptr], nearby: ptr[ptr]) -> void:
    if held is not nearby:
        free(held)


@native
def are_there(objects: ptr[ptr], count: i64, made: ptr) -> bool:
    """True if no object is null, nor what is made of them; else all are let go."""
    are = made is not None
    for i in range(count):
        are = are and objects[i] is not None
    if not are:
        let_go(objects, count)
        dec(made)
    return are


@native
def list_of(objects: ptr[ptr], count: i64) -> ptr:
    """A list of objects, whose counts come along; null with an exception, which is set where an object is null."""
    made = new_list(count)
    if not are_there(objects, count, made):
        return None
    for i in range(count):
        set_list(made, i, objects[i])
    return made


@native
def tuple_of(objects: ptr[ptr], count: i64) -> ptr:
    """A tuple of objects: see `list_of`."""
    made = new_tuple(count)
    if not are_there(objects, count, made):
        return None
    for i in range(count):
        set_tuple(made, i, objects[i])
    return made


@native
def list_of_two(first: own, second: own) -> ptr:
    """A list of two objects: see `list_of`."""
    return list_of(row(moved(first), moved(second)), 2)
