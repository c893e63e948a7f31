"""Builtins of native functions take Python's arguments apart, and give objects: new references, or an exception."""

import ctypes
import re
import sys

import pytest
from typed_programs import compiled

from codegen.native import extern, f64, i64, native, ptr, u8, void

add = extern("PyNumber_Add", ptr, ptr, ptr)
let_go = extern("Py_DecRef", void, ptr)
list_size = extern("PyList_Size", i64, ptr)


@native
def twice(a: ptr, n: i64) -> ptr:
    """a + a + a ..., n times more: null with the exception of an addition."""
    total = add(a, a)
    for _ in range(1, n):
        if total is None:
            return None
        old = total
        total = add(total, a)
        let_go(old)
    return total


@native
def small(n: u8, x: f64, is_so: bool) -> f64:
    return f64(n) + x if is_so else x


@native
def nothing(items: ptr) -> void:
    list_size(items)


OBJECTS = [twice, small, nothing]


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


def test_numbers_that_also_stand_for_failures_are_numbers(library):
    assert library.small(1, -1.0, True) == 0.0
    assert library.twice(1, -1) == 2


def test_only_functions_of_the_limited_api_are_called(library):
    """Their names; what is a macro in C, or reads a field, is not among them."""
    names = set(re.findall(r"@(_?Py\w+)", library.text))
    assert names >= {"Py_IncRef", "Py_DecRef", "PyErr_SetString", "_Py_NoneStruct"}
    assert not names & {"_Py_Dealloc", "Py_INCREF", "PyTuple_Pack", "PyArg_ParseTuple"}
    assert all(hasattr(ctypes.pythonapi, name) for name in names)
