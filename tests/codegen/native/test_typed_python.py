"""Native functions give in machine code what they give as plain Python, with and without checks."""

from __future__ import annotations

import importlib.util
import linecache
import math
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import typed_programs
from typed_programs import FUNCTIONS, compiled, differences

from codegen.native import (
    Struct,
    Translation,
    array,
    f32,
    f64,
    i8,
    i32,
    i64,
    local,
    native,
    ptr,
    static,
    u8,
    u16,
    u32,
    u64,
    u128,
    vector,
)
from codegen.native.numbers import join
from codegen.runtime import engine


@pytest.mark.smoke
@pytest.mark.parametrize("checks", [False, True])
def test_machine_code_computes_what_plain_python_does(checks):
    typed_programs.forget()
    found = differences(compiled(FUNCTIONS, checks=checks), seed=11 + checks)
    assert next(found, None) is None


@pytest.mark.slow
def test_many_random_arguments_agree():
    typed_programs.forget()
    assert next(differences(compiled(FUNCTIONS, checks=True), seed=5, rounds=5000), None) is None


def test_the_same_functions_are_the_same_text():
    assert Translation().text([], FUNCTIONS) == Translation().text([], FUNCTIONS)


@native(contract=True)
def product_and_sum(x: f64, y: f64) -> f64:
    return x * y + x


def test_a_product_and_a_sum_may_round_once_where_a_function_says_so():
    text = Translation().text([product_and_sum])
    assert "fmul contract double" in text and "fadd contract double" in text
    assert "contract" not in Translation().text([typed_programs.fractions])


# ------------------------------------------------------------ debug info


def located(text, word):
    """The function and source line of each instruction that has this word in it, by the debug info."""
    scopes = dict(re.findall(r'!(\d+) = distinct !DISubprogram\(name: "([\w.]+)"', text))
    found = re.findall(r"!(\d+) = !DILocation\(line: (\d+)[^\n]*scope: !(\d+)", text)
    places = {number: (int(line), scopes[scope]) for number, line, scope in found}
    return [places[n] for n in re.findall(rf"^  .*\b{word}\b.*!dbg !(\d+)$", text, re.MULTILINE)]


def test_instructions_know_their_function_and_line():
    text = Translation().text([typed_programs.hashed])
    (line, name), *_ = located(text, "mul i128")
    assert name == "hashed"
    lines = Path(typed_programs.__file__).read_text(encoding="utf-8").split("\n")
    assert "u128(a ^ SEED) * u128(b | 1)" in lines[line - 1]


def test_debug_info_survives_optimisation_and_reaches_the_object():
    text = Translation().text([typed_programs.hashed])
    assert "typed_programs.py" in engine.optimized_text(text)
    assert "hashed" in {name for _, name in located(engine.optimized_text(text), "mul")}
    assert ".loc" in engine.assembly_text(text)
    assert b".debug_line" in engine.object_of(text)[0]


def test_a_function_without_its_source_is_told(tmp_path):
    path = tmp_path / "changed.py"
    path.write_text("from codegen.native import i64, native\n\n\n@native\ndef f(n: i64) -> i64:\n    return n\n")
    spec = importlib.util.spec_from_file_location("changed", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path.write_text("")
    linecache.checkcache()
    with pytest.raises(RuntimeError, match=r"changed\.py:4: no function begins here"):
        Translation().text([module.f])


# ------------------------------------------------------------ plain Python


def test_narrow_numbers_that_do_not_fit_are_errors_in_plain_python():
    with pytest.raises(OverflowError, match="256 does not fit into u8"):
        u8(255) + 1
    with pytest.raises(OverflowError, match="-1 does not fit into u32"):
        u32(3) - u32(4)
    assert u64(2**64 - 1) + 1 == 0 and i64(2**63 - 1) + 1 == -(2**63)
    assert u8(300) == 44 and i8(200) == -56 and u64(-1) == 2**64 - 1
    with pytest.raises(OverflowError, match="a u32 shifted by 32"):
        u32(1) << 32
    with pytest.raises(OverflowError, match="1e\\+30\\) does not fit into i64"):
        i64(f64(1e30))
    with pytest.raises(TypeError, match="no type holds both"):
        u64(1) + i64(1)


@pytest.mark.parametrize(
    "a, b, both",
    [
        (u8, u32, u32), (i8, i64, i64), (u32, i64, i64), (u32, i32, None), (u64, i64, None), (bool, u8, u8),
        (int, u16, u16), (f32, f64, f64), (float, f32, f32), (int, f64, f64), (f64, i64, None), (u128, u64, u128),
    ],
)  # fmt: skip
def test_an_operation_has_the_type_that_holds_both(a, b, both):
    assert join(a, b) is both and join(b, a) is both


def test_fractions_are_those_of_the_machine_in_plain_python():
    assert f32(0.1) == struct.unpack("f", struct.pack("f", 0.1))[0] and f32(1e300) == math.inf
    assert f64(1) / 0 == math.inf and f64(-1) / 0 == -math.inf and math.isnan(f64(0) / 0.0)
    assert type(f32(1) + f64(1)) is f64 and type(2 * f32(1)) is f32 and -f32(2) == -2


class Inner(Struct):
    small: u8
    wide: u128


class Outer(Struct):
    first: u8
    number: u16
    inner: Inner
    pair: array[u32, 2]
    holder: ptr[Outer]
    last: u8


def test_structs_have_the_layout_of_c():
    offsets = {name: field.offset for name, field in Outer.fields().items()}
    assert offsets == {"first": 0, "number": 2, "inner": 16, "pair": 48, "holder": 56, "last": 64}
    assert Outer.size() == 80 and Inner.size() == 32


def test_memory_in_plain_python_refuses_what_machine_code_would_not_see():
    outer = Outer()
    outer.pair[1] = 7
    with pytest.raises(OverflowError, match="70000 does not fit into u16"):
        outer.number = 70000
    with pytest.raises(IndexError, match="element 2 is outside"):
        outer.pair[2] = 1


def test_vectors_of_one_type_only_meet():
    with pytest.raises(TypeError, match="convert one"):
        vector[f64, 2](1.0) + vector[f64, 4](1.0)
    assert vector[f64, 2] is vector[f64, 2]


# ------------------------------------------------------------ checks

few = static(array[i64, 4])


@native
def reached(i: i64) -> i64:
    return few[i]


@native
def followed(at: ptr[Inner]) -> i64:
    return i64(at.small)


@native
def asserted(n: i64) -> i64:
    assert n > 3
    return n


@native
def shifted(n: i64) -> i64:
    return i64(1) << n


@native
def divided(n: i64) -> i64:
    return 7 // n


@native
def filled(n: i64) -> i64:
    room = local(i64, 3)
    room[n] = 1
    return room[0]


@pytest.mark.parametrize(
    "function, bad, said",
    [
        (reached, 4, "out of bounds: few[i]"), (reached, -1, "out of bounds: few[i]"),
        (followed, 0, "null pointer: at.small"), (asserted, 3, "assertion failed: assert n > 3"),
        (shifted, 64, "shift by too much: i64(1) << n"), (divided, 0, "division by zero: 7 // n"),
        (filled, 3, "out of bounds: room[n]"),
    ],
)  # fmt: skip
def test_a_build_with_checks_dies_with_file_line_and_expression(function, bad, said):
    script = (
        f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}\n"
        "import typed_programs, test_typed_python as here\n"
        f"typed_programs.compiled([here.{function.name}], checks=True).{function.name}({bad})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode < 0
    line = function.tree.body[-1 if said != "assertion failed: assert n > 3" else 0].lineno - (function is filled)
    assert f"test_typed_python.py:{line}: {said}" in done.stderr


@native
def one_more(x: i64) -> i64:
    return x + 1


@native
def falling(x: i64) -> i64:
    return i64(0) if x <= 0 else falling(x - 2) + one_more(x)


def test_a_text_says_nothing_of_those_that_were_written_before():
    """Machine code is kept by its text: in another order it would be compiled again."""
    texts = [Translation().text([falling]) for _ in range(3)]
    assert texts[0] == texts[1] == texts[2]
