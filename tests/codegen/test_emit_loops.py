"""Innermost loops as vectors: every way to read, write and reduce, of every length, on machines with and without masks.

The oracle is the loop run by the interpreter, one iteration after the other.
"""

import re

import numpy as np
import pytest
from emitted import emit_module
from nest_interpret import interpret
from nests import DTYPES, Nest, call, elementwise, memref

from codegen.emit.math import FUNCTIONS
from codegen.emit.target import Target
from codegen.kernel.index import constant_index
from codegen.kernel.monoids import combine, element, start
from codegen.kernel.nest import F32, F64, I8, I32, I64, INDEX, NestFunction
from codegen.kernel.scalar import Scalar
from codegen.runtime import engine

#: What machines offer; what the text of one uses runs on any, only slower.
MACHINES = {"widest": engine.target_features(), "masks": "+avx2,+fma", "plain": ""}
EACH_MACHINE = pytest.mark.parametrize("features", MACHINES.values(), ids=MACHINES)
SUM = {"fastmath": frozenset({"reassoc", "contract"})}
LENGTHS = (0, 1, 2, 3, 5, 8, 16, 17, 31, 32, 33, 64, 100, 129)


def compiled(function, features):
    return engine.compile(emit_module([function], features))


def check(function, features, arrays, extents=(), rtol=0.0):
    """Compiled and interpreted do the same to the arrays and give the same status."""
    expected = [a.copy() for a in arrays]
    status = interpret(function, [*expected, *extents])
    got = [a.copy() for a in arrays]
    assert call(compiled(function, features), function, (*got, *extents)) == status
    for ours, right in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, right, rtol=rtol)


def is_vectorised(function):
    """True if the wide machine's text computes on vectors."""
    return re.search(r"<\d+ x ", emit_module([function], MACHINES["widest"])) is not None


def reduction(operation, type, start, extent, attributes):
    """y[0] = operation over x[i], from `start`."""
    extra = {"n": INDEX} if extent is None else {}
    nest = Nest("reduction", writes=("y",), x=memref(type, extent), y=memref(type, 1), **extra)
    upper = nest.n if extent is None else extent
    (total,) = nest.loop(
        upper,
        [nest.constant(start, type)],
        lambda i, total: [nest.op(operation, total, nest.load(nest.x, i), **attributes)],
    )
    nest.store(total, nest.y, 0)
    return nest.end()


REDUCTIONS = {
    "sum": ("arith.addf", F64, 0.5, SUM), "product": ("arith.mulf", F32, 1.5, SUM),
    "max": ("arith.maximumf", F64, -np.inf, {}), "min": ("arith.minimumf", F32, np.inf, {}),
    "count": ("arith.addi", I64, 3, {}), "bits": ("arith.xori", I32, 5, {}), "all": ("arith.andi", I32, -1, {}),
    "greatest": ("arith.maxsi", I32, -(2**31), {}), "least": ("arith.minsi", I64, 2**63 - 1, {}),
}  # fmt: skip


def numbers(type, rng, *shape):
    dtype = DTYPES[type]
    if type is I8:
        return rng.integers(0, 2, shape).astype(dtype)
    if type in (I32, I64):
        return rng.integers(-1000, 1000, shape).astype(dtype)
    return rng.uniform(0.5, 1.5, shape).astype(dtype)


@EACH_MACHINE
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_of_a_runtime_number_of_elements(name, features, rng):
    operation, type, start, attributes = REDUCTIONS[name]
    function = reduction(operation, type, start, None, attributes)
    code = compiled(function, features)
    for n in LENGTHS:
        x, y = numbers(type, rng, n), np.zeros(1, DTYPES[type])
        expected = [x, y.copy()]
        interpret(function, [*expected, n])
        assert call(code, function, (x, y, n)) == 0
        np.testing.assert_allclose(y, expected[1], rtol=1e-5 if type is F32 else 1e-13)


@EACH_MACHINE
@pytest.mark.parametrize("extent", LENGTHS)
def test_a_reduction_of_a_known_number_of_elements(extent, features, rng):
    for name in ("sum", "min", "bits"):
        operation, type, start, attributes = REDUCTIONS[name]
        arrays = [numbers(type, rng, extent), np.zeros(1, DTYPES[type])]
        check(reduction(operation, type, start, extent, attributes), features, arrays, rtol=1e-13)


@EACH_MACHINE
def test_the_greatest_of_numbers_with_a_nan_is_nan(features):
    function = reduction("arith.maximumf", F64, -np.inf, 37, {})
    for place in (0, 8, 31, 36):
        x = np.arange(37.0)
        x[place] = np.nan
        check(function, features, [x, np.zeros(1)])


def test_a_sum_whose_order_is_fixed_runs_in_that_order(rng):
    function = reduction("arith.addf", F64, 0.0, 100, {"fastmath": frozenset({"contract"})})
    assert not is_vectorised(function)
    x = rng.normal(size=100) * 10.0 ** rng.integers(-8, 8, 100)
    check(function, MACHINES["widest"], [x, np.zeros(1)])


def moving(read, write, extent, shape=(200,), independent=True):
    """y[write(i)] = x[read(i)] * 2 + 1 for `extent` iterations."""
    nest = Nest("moving", writes=("y",), x=memref(F64, *shape), y=memref(F64, *shape))

    def body(i):
        value = nest.op("arith.mulf", nest.load(nest.x, *read(nest, i)), nest.constant(2.0, F64))
        nest.store(nest.op("arith.addf", value, nest.constant(1.0, F64)), nest.y, *write(nest, i))

    if independent:
        with nest.parallel(extent) as i:
            body(i)
    else:
        nest.loop(extent, (), lambda i: body(i))
    return nest.end()


def straight(nest, i):
    return [nest.op("arith.addi", i, nest.constant(3))]


def backwards(nest, i):
    return [nest.op("arith.subi", nest.constant(150), i)]


def third(nest, i):
    return [nest.op("arith.addi", nest.op("arith.muli", i, nest.constant(3)), nest.constant(1))]


def scattered(nest, i):
    return [nest.op("arith.remsi", nest.op("arith.muli", i, nest.constant(7)), nest.constant(199))]


def fixed(nest, i):
    return [nest.constant(5)]


PLACES = {p.__name__: p for p in (straight, backwards, third, scattered)}


@EACH_MACHINE
@pytest.mark.parametrize("extent", [3, 16, 61])
@pytest.mark.parametrize("write", PLACES)
@pytest.mark.parametrize("read", [*PLACES, "fixed"])
def test_elements_are_read_and_written_at_any_places(read, write, extent, features, rng):
    places = {**PLACES, "fixed": fixed}
    for independent in (True, False):
        function = moving(places[read], places[write], extent, independent=independent)
        assert is_vectorised(function) or extent < 8
        check(function, features, [rng.normal(size=200), np.zeros(200)], rtol=1e-15)


@EACH_MACHINE
def test_memory_of_two_axes_is_read_along_either(features, rng):
    for order in ((0, 1), (1, 0)):
        nest = Nest("rows", writes=("y",), x=memref(F64, 400), y=memref(F64, 400))
        with nest.parallel(20) as i:

            def column(j, n=nest, i=i, order=order):
                indices = i, j
                n.store(n.load(n.x, n.place(indices[order[0]], 20, indices[order[1]])), n.y, n.place(i, 20, j))

            nest.loop(20, (), column)
        check(nest.end(), features, [rng.normal(size=400), np.zeros(400)])


@EACH_MACHINE
def test_an_iteration_that_reads_what_another_wrote_waits_for_it(features):
    nest = Nest("running", writes=("y",), y=memref(F64, 100))

    def body(i):
        after = nest.op("arith.addi", i, nest.constant(1))
        nest.store(nest.op("arith.addf", nest.load(nest.y, i), nest.constant(1.0, F64)), nest.y, after)

    nest.loop(99, (), body)
    function = nest.end()
    assert not is_vectorised(function)
    check(function, features, [np.zeros(100)])


@EACH_MACHINE
def test_of_iterations_that_write_one_place_the_last_one_stays(features, rng):
    nest = Nest("last", writes=("y",), x=memref(F64, 50), at=memref(I64, 50), y=memref(F64, 4))

    def body(i):
        nest.store(nest.load(nest.x, i), nest.y, nest.op("arith.index_cast", nest.load(nest.at, i), type=INDEX))

    nest.loop(50, (), body)
    check(nest.end(), features, [rng.normal(size=50), rng.integers(0, 4, 50), np.zeros(4)])
    check(moving(straight, fixed, 50, independent=False), features, [rng.normal(size=200), np.zeros(200)], rtol=1e-15)


@EACH_MACHINE
def test_updates_that_collide_add_up(features, rng):
    nest = Nest("add", writes=("y",), x=memref(F64, 50), at=memref(I64, 50), y=memref(F64, 4))

    def body(i):
        place = nest.op("arith.index_cast", nest.load(nest.at, i), type=INDEX)
        nest.store(nest.op("arith.addf", nest.load(nest.y, place), nest.load(nest.x, i)), nest.y, place)

    nest.loop(50, (), body)
    check(nest.end(), features, [rng.normal(size=50), rng.integers(0, 4, 50), np.zeros(4)], rtol=1e-15)


@EACH_MACHINE
@pytest.mark.parametrize("extent", [1, 7, 40])
def test_rows_are_added_up_where_they_go(extent, features, rng):
    nest = Nest("columns", writes=("y",), x=memref(F64, 5 * extent), y=memref(F64, extent))

    def row(i):
        def column(j):
            x = nest.load(nest.x, nest.place(i, extent, j))
            nest.store(nest.op("arith.addf", nest.load(nest.y, j), x), nest.y, j)

        nest.loop(extent, (), column)

    nest.loop(5, (), row)
    check(nest.end(), features, [rng.normal(size=5 * extent), np.zeros(extent)], rtol=1e-15)


def checked(extent):
    """A kernel whose status is or-ed in memory, twice; and a total that is added up there."""
    nest = Nest("checked", writes=("y", "total"), x=memref(I32, extent), y=memref(I32, extent), total=memref(I32, 1))
    status = nest.scratch(I32, 1)
    nest.store(nest.constant(0, I32), status, 0)
    with nest.parallel(extent) as i:
        x = nest.load(nest.x, i)
        bad = nest.op("arith.select", nest.compare("slt", x, nest.constant(0, I32)), nest.constant(1, I32),
                      nest.constant(0, I32), type=I32)  # fmt: skip
        nest.store(nest.op("arith.ori", nest.load(status, 0), bad), status, 0)
        large = nest.op("arith.select", nest.compare("sgt", x, nest.constant(1000, I32)), nest.constant(2, I32),
                        nest.constant(0, I32), type=I32)  # fmt: skip
        nest.store(nest.op("arith.ori", nest.load(status, 0), large), status, 0)
        nest.store(nest.op("arith.addi", x, x), nest.y, i)
        nest.store(nest.op("arith.addi", nest.load(nest.total, 0), x), nest.total, 0)
    return nest.end(nest.load(status, 0))


@EACH_MACHINE
@pytest.mark.parametrize("extent", [1, 6, 16, 50])
def test_a_failed_check_in_any_lane_is_the_status(extent, features):
    function = checked(extent)
    assert is_vectorised(function) or extent < 8
    for bad in ({}, {0: -1}, {extent - 1: 2000}, {0: 2000, extent - 1: -1}):
        x = np.arange(extent, dtype=np.int32)
        x[list(bad)] = list(bad.values())
        check(function, features, [x, np.zeros_like(x), np.full(1, 7, np.int32)])


@EACH_MACHINE
def test_empty_lanes_divide_by_nothing(features):
    for name in ("arith.divsi", "arith.remsi", "arith.floordivsi"):
        check(elementwise("divide", name, [I32, I32], I32), features,
              [np.arange(-9, 10, dtype=np.int32), np.full(19, 3, np.int32), np.zeros(19, np.int32)], [19])  # fmt: skip


@EACH_MACHINE
@pytest.mark.parametrize("name", ["arith.divsi", "arith.remsi", "arith.floordivsi"])
def test_quotients_of_the_largest_integers_are_exact(name, features, rng):
    special = np.array([0, 1, -1, 2, 3, -7, 46341, 65536, 2**31 - 2, 2**31 - 1, -(2**31), 1 - 2**31], np.int32)
    random = rng.integers(-(2**31), 2**31, (2, 400)).astype(np.int32)
    x, y = (np.concatenate([a.ravel(), b]) for a, b in zip(np.meshgrid(special, special), random, strict=True))
    is_defined = (y != 0) & ~((x == -(2**31)) & (y == -1))
    x, y = x[is_defined], y[is_defined]
    found, function = np.zeros_like(x), elementwise("divide", name, [I32, I32], I32)
    call(compiled(function, features), function, [x, y, found, x.size])
    floor = x.astype(np.int64) // y
    towards_zero = np.where((floor < 0) & (floor * y != x), floor + 1, floor)
    wanted = {"arith.divsi": towards_zero, "arith.remsi": x - towards_zero * y, "arith.floordivsi": floor}[name]
    np.testing.assert_array_equal(found, wanted)


@EACH_MACHINE
def test_bools_bytes_and_numbers_of_several_sizes_meet_in_one_loop(features, rng):
    n = 45
    nest = Nest("mixed", writes=("y", "positive", "count"), x=memref(F32, n), w=memref(F64, n), y=memref(F64, n),
                positive=memref(I8, n), count=memref(I64, 1))  # fmt: skip

    def body(i, total):
        x = nest.load(nest.x, i)
        is_positive = nest.compare("ogt", x, nest.constant(0.0, F32))
        nest.store(is_positive, nest.positive, i)
        place = nest.op("arith.sitofp", nest.op("arith.index_cast", i, type=I64), type=F64)
        value = nest.op("arith.mulf", nest.op("arith.extf", x, type=F64), nest.load(nest.w, i))
        nest.store(nest.op("arith.select", is_positive, value, place, type=F64), nest.y, i)
        return [nest.op("arith.addi", total, nest.op("arith.extui", is_positive, type=I64))]

    (count,) = nest.loop(n, [nest.constant(0, I64)], body)
    nest.store(count, nest.count, 0)
    function = nest.end()
    assert is_vectorised(function)
    arrays = [rng.normal(size=n).astype(np.float32), rng.normal(size=n), np.zeros(n), np.zeros(n, bool)]
    check(function, features, [*arrays, np.zeros(1, np.int64)], rtol=1e-15)


@EACH_MACHINE
def test_a_loop_may_start_anywhere(features, rng):
    for lower, upper in ((0, 40), (3, 44), (11, 12), (17, 17)):
        nest = Nest("part", writes=("y",), x=memref(F64, 60), y=memref(F64, 60))
        nest.loop(upper, (), lambda i, n=nest: n.store(n.op("math.exp", n.load(n.x, i)), n.y, i), lower=lower)
        check(nest.end(), features, [rng.normal(size=60), np.zeros(60)], rtol=1e-15)


@EACH_MACHINE
def test_a_loop_that_ends_before_it_starts_does_nothing(features):
    nest = Nest("none", writes=("y",), y=memref(F64, 60), n=INDEX)
    nest.loop(nest.n, (), lambda i: nest.store(nest.constant(1.0, F64), nest.y, i), lower=20)
    function = nest.end()
    for n in (20, 19, 11, 0, 21, 45):
        check(function, features, [np.zeros(60)], [n])


@pytest.mark.parametrize("type", [F64, F32], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_elementary_function_runs_on_vectors_and_calls_nothing(name, type):
    operation = {"pow": "math.powf", "fmod": "arith.remf"}.get(name, f"math.{name}")
    function = elementwise("f", operation, [type] * (1 + (name in ("pow", "atan2", "fmod"))), type)
    features = engine.target_features()
    lanes = Target.of(features).vector_bytes * 8 // type.bits
    text = emit_module([function], features)
    loops = engine.optimized_text(text).split("define internal i32 @f.body")[1].split("\n}")[0]
    assert f"fmul <{lanes} x " in loops or f"fma.v{lanes}" in loops or f"fmuladd.v{lanes}" in loops
    calls = [line for line in loops.splitlines() if "call " in line and "@llvm." not in line]
    assert all(".far." in line for line in calls), calls
    machine = engine.assembly_text(text).split("f.body:")[1].split(".Lfunc_end")[0]
    called = [line for line in machine.splitlines() if "\tcall" in line or "\tbl\t" in line]
    assert len(called) == len(calls), called


@EACH_MACHINE
def test_arrays_of_any_alignment_will_do(features, rng):
    function = elementwise("shift", "arith.addf", [F64, F64], F64)
    code = compiled(function, features)
    raw = [np.zeros(8 * 50 + 16, np.uint8) for _ in range(3)]
    x, w, y = (r[8 : 8 + 8 * 50].view(np.float64) for r in raw)
    x[:], w[:] = rng.normal(size=(2, 50))
    assert call(code, function, (x, w, y, 50)) == 0
    np.testing.assert_array_equal(y, x + w)
    assert all(not r[:8].any() and not r[-8:].any() for r in raw), "a neighbour was written"


def test_the_text_of_small_loops(golden):
    golden(emit_module([reduction("arith.addf", F64, 0.0, 1000, SUM)], MACHINES["masks"]))
    golden(emit_module([elementwise("scale", "arith.mulf", [F32, F32], F32)], MACHINES["plain"]))


def test_a_kernel_that_calls_one_function_very_often_keeps_it_apart(rng):
    for depth, is_inlined in ((2, True), (100, False)):
        nest = Nest("deep", writes=("y",), x=memref(F64, 30), y=memref(F64, 30))
        with nest.parallel(30) as i:
            value = nest.load(nest.x, i)
            for _ in range(depth):
                value = nest.op("math.tanh", value)
            nest.store(value, nest.y, i)
        function = nest.end()
        text = emit_module([function], MACHINES["widest"])
        assert ("tanh." not in engine.optimized_text(text)) == is_inlined
        check(function, MACHINES["widest"], [rng.normal(size=30), np.zeros(30)], rtol=1e-13)


def extreme(monoid, type, extent):
    """argmax or argmin as the kernels have it: nan beats every number, and the first one stays."""
    k = Scalar([memref(type, extent), memref(I64, 1)])
    x, y = k.block.arguments
    loop = k.open_loop(extent, start(k, monoid, type))
    here = element(k, monoid, k.load(x, loop.index), loop.index)
    _, place = k.close_loop(loop, combine(k, monoid, tuple(loop.carried), here, free_order=True))
    k.store(place, y, constant_index(0))
    return NestFunction("extreme", k.finish(), ("x", "y"), frozenset({1}))


@EACH_MACHINE
@pytest.mark.parametrize("extent", [1, 2, 7, 16, 33, 100])
@pytest.mark.parametrize("monoid", ["argmax", "argmin"])
@pytest.mark.parametrize("type", [F64, F32, I32], ids=str)
def test_the_first_of_equal_extremes_is_found_in_any_lane(type, monoid, extent, features, rng):
    function = extreme(monoid, type, extent)
    assert is_vectorised(function) or extent < 4
    code = compiled(function, features)
    reference = {"argmax": np.argmax, "argmin": np.argmin}[monoid]
    rows = [rng.integers(-2, 3, extent) for _ in range(12)]
    if type.is_float:
        rows += [np.where(rng.random(extent) < 0.1, np.nan, rng.normal(size=extent)) for _ in range(8)]
        rows += [np.full(extent, value) for value in (np.inf, -np.inf, np.nan)]
    for row in rows:
        x, y = row.astype(DTYPES[type]), np.full(1, -1)
        assert call(code, function, (x, y)) == 0
        assert y[0] == reference(x), x
