"""References of native functions are right on every way out: each call that may fail fails in turn."""

import ctypes
import gc
import re
import sys

import pytest
from typed_programs import compiled

from codegen.native import (
    Struct,
    Translation,
    borrowed,
    extern,
    external,
    i32,
    i64,
    native,
    obj,
    ptr,
    static,
    status,
    void,
)

long_of = extern("PyLong_FromLongLong", obj, i64, fails=True, runs_python=False)
add = extern("PyNumber_Add", obj, borrowed, borrowed, fails=True)
item = extern("PyObject_GetItem", obj, borrowed, borrowed, fails=True)
list_new = extern("PyList_New", obj, i64, fails=True)
append = extern("PyList_Append", i32, borrowed, borrowed, fails=True)
clear_of = extern("PyList_SetSlice", i32, borrowed, i64, i64, ptr, fails=True)
first_of = extern("PyList_GetItem", obj, borrowed, i64, fails=True, new=False)
as_long = extern("PyLong_AsLongLong", i64, borrowed, fails="occurred")
repr_of = extern("PyObject_Repr", obj, borrowed, fails=True)
none = external("_Py_NoneStruct")


class Counted:
    """An object that knows how many of its kind there are."""

    count = 0

    def __init__(self):
        Counted.count += 1

    def __del__(self):
        Counted.count -= 1

    def __add__(self, other):
        return Counted()

    def __radd__(self, other):
        return Counted()

    def __index__(self):
        return 1


@native
def running(start: obj, values: obj, keys: obj, n: i64) -> obj:
    """Nested temporaries, locals that are given values in a loop, a list in a list, a choice."""
    found = list_new(0)
    total = start
    for i in range(n):
        key = item(keys, long_of(i))
        total = add(add(total, long_of(1)), item(values, key))
        pair = list_new(0)
        append(pair, key)
        append(pair, add(total, long_of(i)) if i > 0 else total)
        append(found, pair)
        if as_long(item(pair, long_of(1))) > 100000:
            break
    return found


class Box(Struct):
    first: obj
    second: obj


box = static(Box)


@native
def boxed(a: obj, b: obj) -> obj:
    """Objects in memory: one that is read has a reference of its own while it is used."""
    box.first = a
    if box.second is None:
        box.second = add(box.first, b)
    last = add(box.second, box.first)
    moved = box.second
    box.second = None
    if moved is last:
        return none
    box.first = None
    return last


@native
def emptied() -> void:
    box.first = None
    box.second = None


@native
def stacked(a: obj, n: i64) -> obj:
    """Locals that hold objects, left early."""
    first = a
    second = add(a, a)
    if n == 1:
        return second
    third = add(second, first)
    if n == 2:
        raise ValueError("two")
    return third


@native
def checked(a: obj, n: i64) -> status:
    """A status instead of a result."""
    if n < 0:
        raise IndexError("below zero")
    add(a, long_of(n))


@native
def through(a: obj, n: i64) -> obj:
    """A function that fails because another one does, on its way back."""
    before = add(a, a)
    checked(before, n)
    checked(before, n + 1)
    return before


@native
def shrunk(x: obj, items: obj) -> obj:
    """Looks at an object after the list that it came from was emptied."""
    clear_of(items, 0, 100, None)
    return repr_of(x)


@native
def passed_straight_on(items: obj) -> obj:
    return shrunk(first_of(items, 0), items)


@native
def passed_before_another(items: obj) -> obj:
    return add(first_of(items, 0), shrunk(items, items))


OBJECTS = [
    running, boxed, emptied, stacked, through, checked, passed_straight_on, passed_before_another,
]  # fmt: skip


@pytest.fixture(scope="module")
def library():
    return compiled(OBJECTS)


@pytest.fixture(scope="module")
def failing():
    """The build for tests; `failing.set_faults(k)` makes the k-th call that may fail fail."""
    found = compiled(OBJECTS, faults=True)
    found.set_faults = ctypes.CFUNCTYPE(None, ctypes.c_int64)(found.code.address("set_faults"))
    return found


def used_running(library):
    values = {"a": Counted(), "b": Counted(), "c": Counted()}
    return library.running(Counted(), values, ["a", "b", "c"], 3)


USES = {
    "running": used_running,
    "boxed": lambda library: library.boxed(Counted(), Counted()),
    "stacked": lambda library: library.stacked(Counted(), 0),
    "stacked, left early": lambda library: library.stacked(Counted(), 1),
    "through": lambda library: library.through(Counted(), 4),
    "passed straight on": lambda library: library.passed_straight_on([Counted()]),
}


@pytest.mark.parametrize("name", USES)
def test_every_call_that_may_fail_may_fail(failing, name):
    use, failed = USES[name], 0
    while True:
        gc.collect()
        before = Counted.count
        for _ in range(5):
            failing.set_faults(failed + 1)
            try:
                use(failing)
                error = ""
            except MemoryError as caught:
                error = str(caught)
            failing.set_faults(0)
            failing.emptied()
        gc.collect()
        assert before == Counted.count, f"call {failed + 1}: {error}"
        if not error:
            break
        assert ", line " in error
        failed += 1
    assert failed >= {"running": 20}.get(name, 1)


def test_builtins_do_what_their_source_says(library):
    class Number(int):
        pass

    one = Number(1000)
    held = sys.getrefcount(one)
    assert library.running(one, {"a": 2, "b": 3}, ["a", "b"], 2) == [["a", 1003], ["b", 1008]]
    assert library.boxed(one, 5) == 2005
    library.emptied()
    assert library.stacked(one, 0) == 3000 and library.stacked(one, 1) == 2000
    with pytest.raises(ValueError, match="two"):
        library.stacked(one, 2)
    assert library.checked(one, 1) is None
    with pytest.raises(IndexError, match="below zero"):
        library.through(one, -1)
    with pytest.raises(IndexError, match="below zero"):
        library.checked(one, -1)
    assert sys.getrefcount(one) == held


@pytest.mark.parametrize(
    "call, error, said",
    [
        (lambda f: f.stacked(1), TypeError, "stacked() takes 2 arguments"),
        (lambda f: f.stacked(1, "x"), TypeError, "'str' object cannot be interpreted as an integer"),
        (lambda f: f.stacked(1, 2**63), OverflowError, "too"),
    ],
)
def test_wrong_arguments_are_told(library, call, error, said):
    with pytest.raises(error) as caught:
        call(library)
    assert said in str(caught.value)


class Mortal:
    """An object that says whether it has died."""

    is_dead = False

    def __del__(self):
        Mortal.is_dead = True

    def __repr__(self):
        return "dead" if Mortal.is_dead else "alive"

    def __add__(self, other):
        return repr(self)


def test_a_borrowed_result_that_is_passed_straight_on_is_held_in_the_call(library):
    for call in (library.passed_straight_on, library.passed_before_another):
        Mortal.is_dead = False
        items = [Mortal()]
        assert call(items) == "alive" and Mortal.is_dead and not items


def test_only_functions_of_the_limited_api_are_called(library):
    """Their names; what is a macro in C, or reads a field, is not among them."""
    names = set(re.findall(r"@(_?Py\w+)", library.text))
    assert names >= {"Py_IncRef", "Py_DecRef", "PyErr_SetString", "_Py_NoneStruct"}
    assert not names & {"_Py_Dealloc", "Py_INCREF", "PyTuple_Pack", "PyArg_ParseTuple"}
    assert all(hasattr(ctypes.pythonapi, name) for name in names)
    assert Translation().text([stacked]).count("getelementptr i8, ptr %a") == 0
