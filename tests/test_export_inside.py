"""Exported code from inside: its text, and the numbers and slices of sizes that have names."""

import ctypes
import operator
import random

import numpy as np
from exported import PROGRAMS, called, linked, needs_gcc

import autodiff as ad
from autodiff.ops.slicing import symbolic_steps
from codegen.export.data import SizedNumbers
from codegen.runtime import engine
from codegen.symbols import conditions_function, numbers_function, symbol, symbolic_max, watched


@needs_gcc
def test_the_text_of_llvm_makes_the_same_results(tmp_path):
    f, args = PROGRAMS["a custom function"]
    made = ad.export(f, *args, out=tmp_path, name="loss")
    before = called(made, tmp_path, args)[1]
    data, _ = engine.object_of(made.files[1].read_text())
    made.files[0].write_bytes(data)
    (tmp_path / "again").mkdir()
    assert [a.tobytes() for a in called(made, tmp_path / "again", args)[1]] == [a.tobytes() for a in before]


OPERATIONS = [operator.add, operator.mul, operator.sub, operator.floordiv, lambda x, y: -(-x // y), symbolic_max]


def number_of(rng, n, m):
    """A number that follows from two sizes, in a way by chance."""
    x = rng.choice([n, m, rng.randrange(-5, 50)])
    for _ in range(rng.randrange(1, 6)):
        x = rng.choice(OPERATIONS)(x, rng.choice([n, m, n * m, rng.randrange(1, 70)]))
    return x


@needs_gcc
def test_numbers_are_computed_as_python_does(tmp_path):
    rng = random.Random(0)
    n, m = symbol("n", 1009), symbol("m", 17)
    with watched() as conditions:
        numbers = [number_of(rng, n, m) for _ in range(200)]
        _ = [x > rng.randrange(1000) for x in numbers]
    writer = SizedNumbers({"n": "%n", "m": "%m"})
    operands = [writer.operand(x) for x in numbers]
    holds = writer.holds(conditions)
    stores = [f"%p{k} = getelementptr i64, ptr %out, i64 {k}\nstore i64 {x}, ptr %p{k}" for k, x in enumerate(operands)]
    declared = [f"declare {{ i64, i1 }} @llvm.s{op}.with.overflow.i64(i64, i64)" for op in ("add", "sub", "mul")]
    text = "\n  ".join(["define i64 @numbers(i64 %n, i64 %m, ptr %out) {", *writer.lines, *stores,
                        f"%held = zext i1 {holds} to i64", "ret i64 %held"])  # fmt: skip
    (tmp_path / "numbers.o").write_bytes(
        engine.object_of("\n".join([*declared, text, "}", ""]))[0])  # fmt: skip
    function = linked(tmp_path / "numbers.o", tmp_path).numbers
    function.restype = ctypes.c_int64
    at, hold = numbers_function(numbers, ["n", "m"]), conditions_function(conditions, ["n", "m"])
    for sizes in [(2, 2), (3, 50), (1009, 17), (64, 64), (100, 3), (4096, 7), (12345, 678)]:
        out = np.zeros(len(numbers), np.int64)
        held = function(*map(ctypes.c_int64, sizes), ctypes.c_void_p(out.ctypes.data))
        assert (out.tolist(), bool(held)) == ([*at(*sizes)], hold(*sizes)), sizes


def test_a_slice_of_any_extent_is_that_of_python():
    rng = random.Random(1)
    ends = [None, *range(-6, 7), 40, -40]
    for _ in range(300):
        s = slice(rng.choice(ends), rng.choice(ends), rng.choice([None, 1, 2, 3, -1, -2]))
        with watched() as conditions:
            found = symbolic_steps(s, symbol("n", rng.randrange(2, 60)))
        is_fit = conditions_function(conditions, ["n"])
        for n in range(2, 80):
            if is_fit(n):
                start, step, count = numbers_function([*found], ["n"])(n)
                assert [start + k * step for k in range(count)] == [*range(*s.indices(n))], (s, n)
