"""The registers that a value of a vector loop takes: several where an iteration's results come one after the other."""

import re

import numpy as np
import pytest
from emitted import emit_module
from nest_interpret import interpret
from nests import Nest, call, memref

from codegen.emit.target import Target
from codegen.kernel.nest import F32, F64, INDEX
from codegen.runtime import engine

SUM = {"fastmath": frozenset({"reassoc", "contract"})}


WIDEST = "+avx512f,+avx512dq,+avx512vl,+avx512bw,+fma"


def program(width, depth, type=F64, trips=None):
    """y[i] = f(f(...)) of x[i], `depth` deep, of so many numbers added, and the sum of all in s[0]."""
    nest = Nest(
        "f", writes=("y", "s"), x=memref(type), y=memref(type), s=memref(type, 1), n=INDEX
    )

    def body(i, total):
        x = nest.load(nest.x, i)
        sides = [nest.op("arith.mulf", x, nest.constant(0.5 + k, type)) for k in range(width)]
        for _ in range(depth):
            sides = [nest.op("math.tanh", side) for side in sides]
        result = sides[0]
        for side in sides[1:]:
            result = nest.op("arith.addf", result, side)
        nest.store(result, nest.y, i)
        return [nest.op("arith.addf", total, result, **SUM)]

    (total,) = nest.loop(nest.constant(trips) if trips else nest.n, [nest.constant(0.0, type)], body)
    nest.store(total, nest.s, 0)
    return nest.end()


def registers(function, type=F64, features=None):
    """The number of registers that a value takes in the loop of full vectors; by default on this machine."""
    features = features or engine.target_features()
    lanes = Target.of(features).vector_bytes * 8 // type.bits
    spelled = {F64: "double", F32: "float"}[type]
    return max(map(int, re.findall(rf"<(\d+) x {spelled}>", emit_module([function], features)))) // lanes


@pytest.mark.parametrize("type", [F64, F32], ids=str)
def test_a_chain_takes_more_registers_than_as_many_functions_side_by_side(type):
    for features, few in ((WIDEST, 1), ("+avx2,+fma", 2)):
        assert registers(program(1, 6, type), type, features) == 4
        assert registers(program(6, 1, type), type, features) == few


def test_a_loop_of_functions_takes_two_narrow_registers_where_it_is_long():
    found = [registers(program(6, 1, trips=trips), features="+avx2,+fma") for trips in (9, 128, 511, 512, 1001)]
    assert found == [1, 1, 1, 2, 2]


def test_a_large_loop_of_functions_takes_four_registers_and_calls_them():
    for function in (program(1, 40), program(40, 1)):
        assert registers(function) == 4
        assert "@called." in emit_module([function], engine.target_features())


def sums(depth):
    """y[i] = x[i] times and plus numbers, over and over."""
    nest = Nest("sums", writes=("y",), x=memref(F64), y=memref(F64), n=INDEX)
    with nest.parallel(nest.n) as i:
        x = nest.load(nest.x, i)
        for step in range(depth):
            half = nest.op("arith.mulf", x, nest.constant(0.5, F64))
            x = nest.op("arith.addf", half, nest.constant(1.0 / (step + 1), F64))
        nest.store(x, nest.y, i)
    return nest.end()


def test_a_large_loop_without_functions_takes_few_registers():
    assert [registers(sums(depth)) for depth in (100, 300, 600)] == [4, 2, 1]


def added(n):
    """s[0] = the sum of n numbers, or of a number of them that only the run knows."""
    nest = Nest("added", writes=("s",), x=memref(F32, n), s=memref(F32, 1), n=INDEX)

    def body(i, total):
        return [nest.op("arith.addf", total, nest.load(nest.x, i), **SUM)]

    (total,) = nest.loop(nest.constant(n) if n else nest.n, [nest.constant(0.0, F32)], body)
    nest.store(total, nest.s, 0)
    return nest.end()


@pytest.mark.parametrize("features", ["+avx2,+fma", WIDEST])
@pytest.mark.parametrize("n", [None, 4096])
def test_a_long_sum_has_as_many_partial_results_on_any_machine(n, features):
    assert max(map(int, re.findall(r"<(\d+) x float>", emit_module([added(n)], features)))) == 64


def test_a_short_sum_has_fewer():
    assert max(map(int, re.findall(r"<(\d+) x float>", emit_module([added(40)], "+avx2,+fma")))) == 32


MACHINES = {"widest": engine.target_features(), "masks": "+avx2,+fma", "plain": ""}


def several(width, tile):
    """z[k][i] of x[k][i], `width` of each; between two loops values are kept in scratch of `tile` elements."""
    memories = {f"{name}{k}": memref(F64) for name in "xz" for k in range(width)}
    nest = Nest("several", writes=[f"z{k}" for k in range(width)], **memories, n=INDEX)
    kept = [nest.scratch(F64, tile) for _ in range(width)]
    with nest.parallel(nest.n) as i:
        for k in range(width):
            x = nest.load(getattr(nest, f"x{k}"), i)
            nest.store(nest.op("math.exp", nest.op("math.tanh", x)), kept[k], i)
    with nest.parallel(nest.n) as i:
        for k in range(width):
            y = nest.op("arith.addf", nest.load(kept[k], i), nest.load(kept[k - 1], i))
            nest.store(nest.op("math.exp", nest.op("math.tanh", y)), getattr(nest, f"z{k}"), i)
    return nest.end()


@pytest.mark.parametrize("features", MACHINES.values(), ids=MACHINES)
def test_stores_of_a_masked_loop_share_a_branch_and_its_loads_are_prefetched_where_masks_are_dear(features):
    target = Target.of(features)
    for function, shared in ((program(6, 1), [1]), (several(8, 64), [8, 8])):
        text = emit_module([function], features)
        assert ("masked.store" in text) == ("masked.load" in text) == target.has_masks
        assert ("llvm.prefetch" in text) == target.masks_are_expensive
        branches = re.findall(r"br i1 %t\.\d+, label %whole\.(\d+), label %else\.\1", text)
        assert len(branches) == (len(shared) if target.masks_are_expensive else 0)
        for number, accesses in zip(branches, shared, strict=False):
            whole, part = (
                text.partition(f"\n{label}.{number}:\n")[2].partition("\n  br ")[0] for label in ("whole", "else")
            )
            assert len(whole.splitlines()) == len(part.splitlines()) == accesses
            assert "masked" not in whole and part.count("masked") == accesses


@pytest.mark.parametrize("features", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 16, 33, 63, 64])
def test_scratch_of_a_masked_loop_holds_what_was_stored(n, features, rng):
    function = several(3, 64)
    code = engine.compile(emit_module([function], features))
    xs = rng.normal(size=(3, n + 8))
    ours, right = np.full((3, n + 8), 9.0), np.full((3, n + 8), 9.0)
    interpret(function, [*xs[:, :n], *right[:, :n], n])
    assert call(code, function, (*xs, *ours, n)) == 0
    np.testing.assert_allclose(ours, right, rtol=1e-13)


@pytest.mark.parametrize("features", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("type", [F64, F32], ids=str)
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 9, 15, 16, 17, 100])
def test_a_dear_loop_writes_its_own_elements_only(n, features, type, rng):
    function = program(6, 1, type)
    code = engine.compile(emit_module([function], features))
    dtype = {F64: np.float64, F32: np.float32}[type]
    x = rng.normal(size=n + 40).astype(dtype)
    ours, right = ([x, np.full(n + 40, 9, dtype), np.full(1, 9, dtype)] for _ in range(2))
    interpret(function, [x[:n], right[1][:n], right[2], n])
    assert call(code, function, (*ours, n)) == 0
    np.testing.assert_allclose(ours[1], right[1], rtol=20 * np.finfo(dtype).eps)
    np.testing.assert_allclose(ours[2], right[2], rtol=100 * np.finfo(dtype).eps * max(n, 1))


@pytest.mark.parametrize("depth", [6, 40])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 31, 32, 33, 64, 65, 100, 1000])
def test_a_chain_of_any_length_of_arrays_is_right(n, depth, rng):
    function = program(1, depth)
    code = engine.compile(emit_module([function], engine.target_features()))
    x = rng.normal(size=n)
    ours, right = ([x, np.full(n, 9.0), np.full(1, 9.0)] for _ in range(2))
    interpret(function, [*right, n])
    assert call(code, function, (*ours, n)) == 0
    np.testing.assert_allclose(ours[1], right[1], rtol=1e-14 * depth)
    np.testing.assert_allclose(ours[2], right[2], rtol=1e-13 * depth, atol=1e-13 * max(n, 1))


@pytest.mark.parametrize("type", [F64, F32], ids=str)
def test_few_last_elements_of_a_cheap_loop_are_stored_without_a_mask_where_that_is_dear(type, rng):
    dtype, lanes = {F64: np.float64, F32: np.float32}[type], 256 // type.bits
    for n in (2, 3, 5, 6, 7, 9, 11, 12, 15, 23, 31, 37, 63):
        nest = Nest("scaled", writes=("y",), x=memref(type, n), y=memref(type, n))

        def body(i, nest=nest):
            half = nest.op("arith.mulf", nest.load(nest.x, i), nest.constant(0.5, type))
            nest.store(nest.op("arith.addf", half, nest.constant(1.0, type)), nest.y, i)

        nest.loop(nest.constant(n), [], body)
        function = nest.end()
        text, x, y = emit_module([function], "+avx2,+fma"), rng.normal(size=n).astype(dtype), np.zeros(n, dtype)
        assert n % lanes < 2 or "masked.store" not in text
        assert call(engine.compile(text), function, (x, y)) == 0
        np.testing.assert_array_equal(y, x * dtype(0.5) + dtype(1))
