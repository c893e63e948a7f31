"""Builtins of native functions take Python's arguments apart, and give objects: new references, or an exception."""

import ctypes
import gc
import re
import sys

import pytest
from typed_programs import compiled

from codegen.native import (
    FAILS,
    NO_MEMORY,
    Struct,
    extern,
    f64,
    held,
    i32,
    i64,
    local,
    moved,
    native,
    own,
    ptr,
    row,
    static,
    u8,
    u64,
    void,
)

add = extern("PyNumber_Add", own, ptr, ptr, fails=FAILS)
list_size = extern("PyList_Size", i64, ptr)


@native
def twice(a: ptr, n: i64) -> own:
    """a + a + a ..., n times more: null with the exception of an addition."""
    total: own = add(a, a)
    for _ in range(1, n):
        if total is None:
            return None
        total = add(total, a)
    return total


@native
def small(n: u8, x: f64, is_so: bool) -> f64:
    return f64(n) + x if is_so else x


@native
def nothing(items: ptr) -> void:
    _ = list_size(items)


new_list = extern("PyList_New", own, i64, fails=FAILS)
new_tuple = extern("PyTuple_New", own, i64, fails=FAILS)
append = extern("PyList_Append", i32, ptr, ptr, fails=FAILS)
put = extern("PyTuple_SetItem", void, ptr, i64, own)
room = extern("PyMem_RawMalloc", ptr, u64, fails=NO_MEMORY)
free = extern("PyMem_RawFree", void, ptr)


class Box(Struct):
    thing: own


box = static(Box)


@native
def sum_of(a: ptr, b: own) -> own:
    """a + b, which it lets go."""
    return add(a, b) if b is not None else None


@native
def added(x: ptr, n: i64) -> own:
    """[x, x + x, ...]: a local of a loop, a result that is moved, a function that takes its argument's reference."""
    found: own = new_list(0)
    if found is None:
        return None
    last: own = held(x)
    for i in range(n):
        more: own = add(last, x)
        if more is None or append(found, more) != 0:
            return None
        last = held(more)
        if i == 5:
            break
    total: own = sum_of(last, add(x, x))
    if total is None:
        return None
    if append(found, total) < 0:
        return None
    return found


@native
def paired(x: ptr, is_kept: bool) -> own:
    """(x + x, x + x + x): parameters that take references, memory that has one, a local with another value."""
    pair: own = new_tuple(2)
    if pair is None:
        return None
    first: own = add(x, x)
    if first is None:
        return None
    second: own = add(first, x)
    if second is None:
        return None
    put(pair, 0, first)
    memory = room(64)
    if memory is None:
        return None
    free(memory)
    if is_kept:
        box.thing = moved(pair)
        return second
    put(pair, 1, second)
    pair = add(x, x) if is_kept else moved(pair)
    return pair


@native
def emptied() -> own:
    return moved(box.thing)


@native
def listed(x: ptr, n: i64, is_left: bool) -> own:
    """[3 x, 3 x, ..., 2 x]: places on the stack, whose number is known or not; a row; a place that gets other values.
    """
    made: own = new_list(0)
    if made is None:
        return None
    few = local(own, 2)
    many = local(own, n)
    for i in range(n):
        few[0] = add(x, x)
        if few[0] is None:
            return None
        few[1] = held(few[0])
        many[i] = add(few[1], x)
        if many[i] is None or append(made, many[i]) != 0:
            return None
        if is_left:
            return x_if(moved(few[1]))
    last = row(add(x, x), new_tuple(0))
    if last[0] is None or last[1] is None or append(made, last[0]) != 0:
        return None
    box.thing = moved(last[1])
    box.thing = held(x)
    box.thing = ptr(7)  # a number stands for none
    return made


@native
def x_if(x: own) -> own:
    return x


COUNTED = [added, paired, emptied, listed]
OBJECTS = [twice, small, nothing, *COUNTED]


@pytest.fixture(scope="module")
def library():
    return compiled(OBJECTS)


def test_builtins_do_what_their_source_says(library):
    class Number(int):
        pass

    one = Number(1000)
    held = sys.getrefcount(one)
    assert library.twice(one, 3) == 4000
    assert library.small(3, 0.5, True) == 3.5 and library.small(3, 0.5, []) == 0.5
    for _ in range(3):
        assert library.nothing([]) is None
    with pytest.raises(TypeError, match="unsupported operand"):
        library.twice(object(), 1)
    assert sys.getrefcount(one) == held


class Strange:
    def __bool__(self):
        raise ValueError("neither")


@pytest.mark.parametrize(
    "call, error, said",
    [
        (lambda f: f.twice(1), TypeError, "twice() takes 2 arguments"),
        (lambda f: f.twice(1, "x"), TypeError, "'str' object cannot be interpreted as an integer"),
        (lambda f: f.twice(1, 2**63), OverflowError, "too"),
        (lambda f: f.small(256, 1.0, True), OverflowError, "small(): n does not fit into u8"),
        (lambda f: f.small(-1, 1.0, True), OverflowError, ""),
        (lambda f: f.small(1, "x", True), TypeError, "must be real number"),
        (lambda f: f.small(1, 1.0, Strange()), ValueError, "neither"),
    ],
)
def test_wrong_arguments_are_told(library, call, error, said):
    with pytest.raises(error) as caught:
        call(library)
    assert said in str(caught.value)


class Counted:
    """A number that knows how many of its kind there are."""

    count = 0

    def __init__(self, value):
        self.value = value
        Counted.count += 1

    def __del__(self):
        Counted.count -= 1

    def __add__(self, other):
        return Counted(self.value + other.value)


#: What uses each way out; `boxed` is given back by `emptied`.
USES = {
    "added": lambda library: [c.value for c in library.added(Counted(1), 3)],
    "left early": lambda library: [c.value for c in library.added(Counted(1), 9)],
    "paired": lambda library: [c.value for c in library.paired(Counted(2), False)],
    "listed": lambda library: [c.value for c in library.listed(Counted(1), 3, False)],
    "listed and left": lambda library: [library.listed(Counted(1), 3, True).value],
    "boxed": lambda library: [library.paired(Counted(2), True).value, library.emptied()[0].value],
}
RESULTS = {
    "added": [2, 3, 4, 6], "left early": [2, 3, 4, 5, 6, 7, 9], "paired": [4, 6], "listed": [3, 3, 3, 2],
    "listed and left": [2], "boxed": [6, 4],
}  # fmt: skip


def faulty(library, name):
    """What is wrong where each call that may fail fails in turn, and how many there are."""
    address = ctypes.PYFUNCTYPE(ctypes.c_int64)(library.code.address("faults"))()
    fault, wrong, n = (ctypes.c_int64 * 2).from_address(address), [], 0
    while True:
        n += 1
        gc.collect()
        before = Counted.count
        for _ in range(3):
            fault[:] = n, 0
            try:
                found = USES[name](library)
            except (MemoryError, SystemError) as error:
                found = error
            said = ctypes.string_at(fault[1]).decode() if fault[1] else ""
            fault[:] = 0, 0
            error = SystemError if "RawMalloc" in said else MemoryError  # which sets no exception
            if said and not (isinstance(found, error) and re.fullmatch(r"Py\w+, test_native_objects.py:\d+", said)):
                wrong.append((said, found))
            result, found = found, None
        if result == RESULTS[name]:
            return wrong, n - 1
        del result
        gc.collect()
        if Counted.count != before:
            wrong.append((said, Counted.count - before))


@pytest.mark.parametrize("name", USES)
def test_a_local_gives_its_reference_back_on_every_way_out(name):
    wrong, count = faulty(compiled(COUNTED, faults=True), name)
    assert not wrong and count >= 4


def test_numbers_that_also_stand_for_failures_are_numbers(library):
    assert library.small(1, -1.0, True) == 0.0
    assert library.twice(1, -1) == 2


def test_only_functions_of_the_limited_api_are_called(library):
    """Their names; what is a macro in C, or reads a field, is not among them."""
    names = set(re.findall(r"@(_?Py\w+)", library.text))
    assert names >= {"Py_IncRef", "Py_DecRef", "PyErr_SetString", "_Py_NoneStruct"}
    assert not names & {"_Py_Dealloc", "Py_INCREF", "PyTuple_Pack", "PyArg_ParseTuple"}
    assert all(hasattr(ctypes.pythonapi, name) for name in names)
