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
    array,
    borrowed,
    extern,
    external,
    given,
    i32,
    i64,
    local,
    native,
    obj,
    ptr,
    put,
    python_type,
    static,
    status,
    take,
    u64,
    void,
)

long_of = extern("PyLong_FromLongLong", obj, i64, fails=True, runs_python=False)
add = extern("PyNumber_Add", obj, borrowed, borrowed, fails=True)
item = extern("PyObject_GetItem", obj, borrowed, borrowed, fails=True)
list_new = extern("PyList_New", obj, i64, fails=True)
append = extern("PyList_Append", i32, borrowed, borrowed, fails=True)
clear_of = extern("PyList_SetSlice", i32, borrowed, i64, i64, ptr, fails=True)
first_of = extern("PyList_GetItem", obj, borrowed, i64, fails=True, new=False)
tuple_new = extern("PyTuple_New", obj, i64, fails=True)
tuple_set = extern("PyTuple_SetItem", i32, borrowed, i64, given, fails=True)
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
    """Nested temporaries, locals that are given values in a loop, a tuple that takes its items, a choice."""
    found = list_new(0)
    total = start
    for i in range(n):
        key = item(keys, long_of(i))
        total = add(add(total, long_of(1)), item(values, key))
        pair = tuple_new(2)
        tuple_set(pair, 0, key)
        tuple_set(pair, 1, add(total, long_of(i)) if i > 0 else total)
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
        put(box, "second", add(box.first, b))
    last = add(box.second, box.first)
    moved = take(box, "second")
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
    """An array on the stack that holds objects, left early."""
    room = local(obj, 3)
    room[0] = a
    room[1] = add(a, a)
    if n == 1:
        return room[1]
    room[2] = add(room[1], room[0])
    if n == 2:
        raise ValueError("two")
    return take(room, 2)


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


class Token(Struct):
    head: array[u64, object.__basicsize__ // 8]
    value: obj
    number: i64


new_object = extern("PyType_GenericAlloc", obj, borrowed, i64, fails=True)
free_object = extern("PyObject_Free", void, ptr, runs_python=False)
drop = extern("Py_DecRef", void, borrowed)


@native
def free_token(token: ptr[Token]) -> void:
    token.value = None
    free_object(token)
    drop(token_type.known[0])


token_type = python_type(Token, "tests.Token", free_token)


@native
def new_token(value: obj, number: i64) -> obj:
    token = new_object(token_type.known[0], 0)
    parts = ptr[Token](token)
    parts.value = value
    parts.number = number
    return token


@native
def value_of(token: ptr[Token]) -> obj:
    return token.value


@native
def number_of(token: ptr[Token]) -> i64:
    return token.number


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
    running, boxed, emptied, stacked, through, checked, new_token, value_of, number_of, passed_straight_on,
    passed_before_another,
]  # fmt: skip


@pytest.fixture(scope="module")
def library():
    return compiled(OBJECTS, [token_type])


@pytest.fixture(scope="module")
def failing():
    """The build for tests; `failing.set_faults(k)` makes the k-th call that may fail fail."""
    found = compiled(OBJECTS, [token_type], faults=True)
    found.set_faults = ctypes.CFUNCTYPE(None, ctypes.c_int64)(found.code.address("set_faults"))
    return found


def used_running(library):
    values = {"a": Counted(), "b": Counted(), "c": Counted()}
    return library.running(Counted(), values, ["a", "b", "c"], 3)


def used_tokens(library):
    token = library.new_token(Counted(), 5)
    assert library.number_of(token) == 5
    return library.value_of(token)


USES = {
    "running": used_running,
    "boxed": lambda library: library.boxed(Counted(), Counted()),
    "stacked": lambda library: library.stacked(Counted(), 0),
    "stacked, left early": lambda library: library.stacked(Counted(), 1),
    "through": lambda library: library.through(Counted(), 4),
    "tokens": used_tokens,
    "passed straight on": lambda library: library.passed_straight_on([Counted()]),
}


@pytest.mark.parametrize("name", USES)
def test_every_call_that_may_fail_may_fail(failing, name):
    use, failed = USES[name], 0
    references = sys.getrefcount(failing.types["Token"])
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
    assert failed >= {"running": 20, "tokens": 1}.get(name, 1)
    after = sys.getrefcount(failing.types["Token"])
    assert after == references


def test_builtins_do_what_their_source_says(library):
    class Number(int):
        pass

    one = Number(1000)
    held = sys.getrefcount(one)
    assert library.running(one, {"a": 2, "b": 3}, ["a", "b"], 2) == [("a", 1003), ("b", 1008)]
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


def test_an_object_of_a_native_type_is_freed_with_what_it_holds(library):
    gc.collect()
    before = Counted.count
    references = sys.getrefcount(library.types["Token"])
    tokens = [library.new_token(Counted(), n) for n in range(100)]
    assert Counted.count == before + 100
    assert [library.number_of(t) for t in tokens] == list(range(100))
    assert isinstance(tokens[0], library.types["Token"]) and type(tokens[0]).__name__ == "Token"
    with pytest.raises(TypeError, match=r"cannot create 'tests\.Token' instances"):
        library.types["Token"]()
    del tokens
    gc.collect()
    after = sys.getrefcount(library.types["Token"])
    assert Counted.count == before and after == references


@pytest.mark.parametrize(
    "call, error, said",
    [
        (lambda f: f.number_of(3), TypeError, "number_of(): token must be a tests.Token"),
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
