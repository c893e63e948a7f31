"""Objects are put into memory as LLVM's linker puts them, and what is not known is left to it."""

import ctypes
import gc
import math
import re
import struct
import subprocess
import sys

import pytest
from llvmlite.binding import ResourceTracker

from codegen.runtime import elf, engine, machine

pytestmark = pytest.mark.skipif(not elf.is_here(), reason="objects of this system are linked by LLVM")

TEXT = """
@table = internal constant [3 x double] [double 2.0, double 3.0, double 5.0]
@count = internal global i64 40
@zeros = internal global [1000 x i64] zeroinitializer
@pointer = internal global ptr @count
@far = internal constant ptr @given
@outside = external global double

declare double @exp(double)
declare double @given(double)

define internal i64 @add(ptr %to) noinline {
  %a = load i64, ptr %to
  %b = add i64 %a, 1
  store i64 %b, ptr %to
  ret i64 %b
}
define i64 @next() {
  %p = load ptr, ptr @pointer
  %r = call i64 @add(ptr %p)
  %z = load i64, ptr getelementptr (i64, ptr @zeros, i64 999)
  %s = add i64 %r, %z
  ret i64 %s
}
define double @entry(i64 %i) {
  %p = getelementptr double, ptr @table, i64 %i
  %v = load double, ptr %p
  ret double %v
}
define double @called(double %x) {
  %y = call double @exp(double %x)
  %f = load volatile ptr, ptr @far
  %z = call double %f(double %y)
  %w = call double @given(double %z)
  ret double %w
}
define double @read() {
  %v = load double, ptr @outside
  ret double %v
}
define i32 @chosen(i32 %x) {
  switch i32 %x, label %other [i32 0, label %a i32 1, label %b i32 2, label %c i32 3, label %d i32 4, label %e]
a:
  %r = call i64 @add(ptr @count)
  ret i32 11
b:
  %s = call i64 @add(ptr @zeros)
  ret i32 7
c:
  ret i32 -5
d:
  %t = call i64 @add(ptr @pointer)
  ret i32 1000
e:
  ret i32 3
other:
  ret i32 0
}
"""
NAMES = ("next", "entry", "called", "read", "chosen")
GIVEN = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x + 1.0)
OUTSIDE = ctypes.c_double(2.5)
IMPORTS = {"given": ctypes.cast(GIVEN, ctypes.c_void_p).value, "outside": ctypes.addressof(OUTSIDE)}


@pytest.fixture
def data():
    return engine.object_of(TEXT)[0]


def function(loaded, name, result, *arguments):
    return ctypes.CFUNCTYPE(result, *arguments)(loaded.addresses[name])


def test_code_constants_variables_and_what_is_elsewhere_are_found(data):
    loaded = elf.linked(data, IMPORTS, NAMES)
    count = function(loaded, "next", ctypes.c_int64)
    assert [count(), count(), count()] == [41, 42, 43]
    entry = function(loaded, "entry", ctypes.c_double, ctypes.c_int64)
    assert [entry(i) for i in range(3)] == [2.0, 3.0, 5.0]
    assert function(loaded, "called", ctypes.c_double, ctypes.c_double)(0.5) == math.exp(0.5) + 2.0
    OUTSIDE.value = 6.25
    assert function(loaded, "read", ctypes.c_double)() == 6.25
    chosen = function(loaded, "chosen", ctypes.c_int32, ctypes.c_int32)
    assert [chosen(i) for i in range(-1, 6)] == [0, 11, 7, -5, 1000, 3, 0]


def test_two_of_one_object_have_variables_of_their_own(data):
    one, other = elf.linked(data, IMPORTS, NAMES), elf.linked(data, IMPORTS, NAMES)
    assert [function(x, "next", ctypes.c_int64)() for x in (one, one, other)] == [41, 42, 41]


def mapped(address):
    """The rights to the memory at an address; nothing where there is none."""
    with open("/proc/self/maps") as lines:
        for line in lines:
            start, end, rights = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            if int(start, 16) <= address < int(end, 16):
                return rights
    return ""


def test_what_runs_cannot_be_written_and_goes_with_who_holds_it(data):
    loaded = elf.linked(data, IMPORTS, NAMES)
    address = loaded.addresses["next"]
    assert mapped(address) == "r-xp"
    del loaded
    gc.collect()
    assert mapped(address) != "r-xp"


def test_what_is_not_there_is_left_to_llvm(data):
    assert elf.linked(data, {"outside": IMPORTS["outside"]}, NAMES) is None
    assert elf.linked(data, IMPORTS, (*NAMES, "nowhere")) is None


def broken(data):
    """An object with one thing changed each time."""
    yield b""
    yield data[:40]
    yield data[:100]
    for place, value in ((4, 1), (5, 2), (16, 2), (18, 183), (58, 1)):  # class, order, type, machine, size of a header
        yield data[:place] + bytes([value]) + data[place + 1 :]
    for kind in (0, 3, 19, 37):  # kinds of relocations that are not known
        (sections,) = struct.unpack_from("<Q", data, 40)
        for i in range(struct.unpack_from("<H", data, 60)[0]):
            _, type_, _, _, offset, *_ = struct.unpack_from("<IIQQQQIIQQ", data, sections + 64 * i)
            if type_ == 4:
                yield data[: offset + 8] + struct.pack("<I", kind) + data[offset + 12 :]
                break


def test_objects_of_other_kinds_are_left_to_llvm(data):
    assert [elf.linked(given, IMPORTS, NAMES) for given in broken(data)] == [None] * 12


@pytest.mark.parametrize("refused", ["mmap", "mprotect"])
def test_where_the_system_forbids_it_llvm_is_asked(data, monkeypatch, refused):
    system = elf._SYSTEM
    real = getattr(system, refused)
    answer = ctypes.c_void_p(-1).value if refused == "mmap" else -1
    monkeypatch.setattr(system, refused, lambda *given: answer)
    assert elf.linked(data, IMPORTS, NAMES) is None
    assert machine.identity() is None
    monkeypatch.setattr(system, refused, real)
    assert elf.linked(data, IMPORTS, NAMES) is not None


def test_llvm_s_linker_still_links(monkeypatch):
    monkeypatch.setattr(elf, "is_here", lambda: False)
    code = engine.compile(TEXT, IMPORTS)
    assert isinstance(code._loaded, ResourceTracker)
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(code.address("next"))() == 41


def test_a_processor_says_the_same_of_itself_each_time_and_in_each_process():
    first = machine.identity()
    assert first == machine.identity() and len(set(first)) > 10
    show = "from codegen.runtime import machine; print(machine.identity().hex())"
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True)
        assert done.stdout.strip() == first.hex()
