"""The loop level as MLIR: xDSL and mlir-opt accept it, and what it says is what it computes."""

import inspect
import math
from contextlib import ExitStack

import numpy as np
import pytest
from mlir_runs import CONTRACT, SPECIAL, run
from mlir_tools import verify
from nest_tools import Nest

from codegen.ir import DTYPES as IR_DTYPES
from codegen.kernel.logic import SCALAR_TYPES
from codegen.kernel.mlir import print_function, print_module
from codegen.kernel.nest import F32, F64, I1, I8, I32, I64, INDEX, MemRef, NestFunction
from codegen.kernel.scalar import Scalar

SUM = frozenset({"contract", "reassoc"})


def rows():
    """y[i] = sum over j of exp(x[i, j]), the number of rows known at run time."""
    k = Nest("row_sums", x=MemRef(None, F64), y=MemRef(None, F64), n=INDEX)
    with k.loop(k.n) as i:
        with k.loop(k.index(5), k.constant(0.0, F64)) as (j, total, (result,)):
            element = k.op("math.exp", k.load(k.x, k.place(i, 5, j)), fastmath=CONTRACT)
            k.carry(k.op("arith.addf", total, element, fastmath=SUM))
        k.store(result, k.y, i)
    return k.function("y")


def test_a_loop_carries_values(rng):
    x, y = rng.normal(size=(4, 5)), np.zeros(4)
    assert run(rows(), [x, y], [4]) == 0
    np.testing.assert_allclose(y, np.exp(x).sum(axis=1), rtol=1e-15)


def test_a_loop_carries_several_values_of_several_types(rng):
    x = rng.normal(size=9)
    k = Nest("argmax", x=MemRef(9, F64), highest=MemRef(1, F64), at=MemRef(1, I64))
    start = k.constant(-math.inf, F64), k.constant(0, I64)
    with k.loop(k.index(9), *start) as (i, best, place, (extreme, where)):
        element = k.load(k.x, i)
        better = k.op("arith.cmpf", element, best, predicate="ogt")
        k.carry(
            k.op("arith.select", better, element, best),
            k.op("arith.select", better, k.op("arith.index_cast", i, to=I64), place),
        )
    k.store(extreme, k.highest, k.index(0))
    k.store(where, k.at, k.index(0))
    top, at = np.zeros(()), np.zeros((), np.int64)
    assert run(k.function("highest at"), [x, top, at]) == 0
    assert (top, at) == (x.max(), x.argmax())


def tiles():
    """y[j, i] = x[i, j] by a parallel loop, with a row of scratch memory in it."""
    k = Nest("tiles", x=MemRef(None, F32), y=MemRef(None, F32), n=INDEX)
    with k.parallel(k.n) as i:
        scratch = k.alloca(3, element=F32)
        with k.loop(k.index(3)) as column:
            k.store(k.load(k.x, k.place(i, 3, column)), scratch, column)
        with k.loop(k.index(3)) as j:
            k.store(k.load(scratch, j), k.y, k.place(j, k.n, i))
    return k.function("y")


def test_a_parallel_loop_has_scratch_memory(rng):
    x = rng.normal(size=(4, 3)).astype(np.float32)
    y = np.zeros((3, 4), np.float32)
    assert run(tiles(), [x, y], [4]) == 0
    np.testing.assert_array_equal(y, x.T)


def test_bool_is_a_byte_in_memory_and_a_bit_in_arithmetic():
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    k = Nest("logic", **dict.fromkeys("aby", MemRef(4, I8)))
    with k.loop(k.index(4)) as i:
        left, right = (k.op("arith.trunci", k.load(m, i), to=I1) for m in (k.a, k.b))
        value = k.op("arith.xori", k.op("arith.andi", left, right), k.constant(True, I1))
        k.store(k.op("arith.extui", value, to=I8), k.y, i)
    y = np.zeros(4, bool)
    assert run(k.function("y"), [a, b, y]) == 0
    np.testing.assert_array_equal(y, ~(a & b))


@pytest.mark.parametrize("size", [0, 1])
def test_memory_of_no_element_and_of_one(size):
    k = Nest("twice", **dict.fromkeys("xy", MemRef(size, F64)))
    with k.parallel(k.index(size)) as i:
        k.store(k.op("arith.addf", *[k.load(k.x, i)] * 2), k.y, i)
    x, y = np.ones(size), np.zeros(size)
    assert run(k.function("y"), [x, y]) == 0
    np.testing.assert_array_equal(y, 2 * x)


def test_the_status_comes_back():
    k = Nest("check", x=MemRef(1, I64))
    wrong = k.op("arith.cmpi", k.load(k.x, k.index(0)), k.constant(0, I64), predicate="slt")
    function = k.function(status=k.op("arith.extui", wrong, to=I32))
    assert run(function, [np.array([-1])]) == 1
    assert run(function, [np.array([1])]) == 0


ANY = "add sub mul maximum minimum lt le gt ge eq ne logical_and logical_or logical_xor logical_not truth"
NUMBERS = "neg abs sign floordiv mod floor ceil trunc roundeven"
FLOATS = (
    "div fma accumulate pow sqrt exp expm1 log log1p log2 log10 sin cos tan tanh sinh cosh asin acos atan asinh acosh "
    "atanh atan2 erf copysign isnan isinf isfinite"
)
BITS = "bit_and bit_or bit_xor bit_not"
METHODS = {
    "f32": f"{ANY} {NUMBERS} {FLOATS}".split(),
    "f64": f"{ANY} {NUMBERS} {FLOATS}".split(),
    "i32": f"{ANY} {NUMBERS} {BITS} shift_left shift_right".split(),
    "i64": f"{ANY} {NUMBERS} {BITS} shift_left shift_right".split(),
    "bool": f"{ANY} {BITS}".split(),
}


def scalar_methods(dtype, count):
    """Every method of the scalar builder on x and y, and every cast of x; a row of the results for each.

    Results of the dtype itself go to `same`, those of type bool to `truth`, casts to one memory each.
    """
    element = I8 if dtype == "bool" else SCALAR_TYPES[dtype]
    rows = len(METHODS[dtype]) * count
    casts = [I8 if name == "bool" else type for name, type in SCALAR_TYPES.items()]
    k = Scalar([MemRef(n, t) for n, t in ((count, element), (count, element), (rows, element), (rows, I8))]
               + [MemRef(count, t) for t in casts])  # fmt: skip
    x, y, same, truth, *cast = k.block.arguments
    loop = k.open_loop(count)
    elements = [k.load(x, loop.index), k.load(y, loop.index)]
    for row, name in enumerate(METHODS[dtype]):
        method = getattr(k, name)
        parameters = inspect.signature(method).parameters.values()
        arity = sum(p.kind is not inspect.Parameter.KEYWORD_ONLY for p in parameters)
        result = method(*(elements + elements)[:arity])
        goal = same if result.type is SCALAR_TYPES[dtype] else truth
        k.store(result, goal, loop.index.plus(k.index(row * count)))
    for name, goal in zip(SCALAR_TYPES, cast, strict=True):
        k.store(k.cast(elements[0], name), goal, loop.index)
    k.check(k.eq(elements[0], elements[0]))
    k.close_loop(loop)
    return NestFunction("scalar", k.finish(), ("x", "y", "same", "truth", *SCALAR_TYPES), frozenset(range(2, 9)))


@pytest.mark.parametrize("dtype", METHODS)
def test_every_scalar_method_means_the_same_in_mlir(dtype):
    numbers = {"f": SPECIAL, "i": [-(2**31), -7, -1, 0, 1, 3, 31, 40, 2**31 - 1], "b": [False, True]}
    type = IR_DTYPES[dtype]
    x, y = (np.ascontiguousarray(a.ravel(), type) for a in np.meshgrid(numbers[type.kind], numbers[type.kind]))
    rows = len(METHODS[dtype]) * x.size
    casts = [np.zeros(x.size, IR_DTYPES[name]) for name in SCALAR_TYPES]
    results = [np.zeros(rows, type), np.zeros(rows, bool), *casts]
    status = run(scalar_methods(dtype, x.size), [x, y, *results])
    assert status == np.isnan(x.astype(float)).any()


def test_the_text_depends_on_the_function_only():
    assert print_function(rows()) == print_function(rows())


def test_arguments_may_be_called_as_the_printer_calls_values():
    k = Nest("clash", i=MemRef(4, F64), acc=MemRef(1, F64), cst=MemRef(1, F64), c0=INDEX)
    with k.loop(k.index(4), k.constant(0.0, F64)) as (i, total, (result,)):
        k.carry(k.op("arith.addf", total, k.load(k.i, i)))
    k.store(result, k.acc, k.index(0))
    k.store(result, k.cst, k.index(0))
    x, y, z = np.arange(4.0), np.zeros(1), np.zeros(1)
    assert run(k.function("acc cst"), [x, y, z], [0]) == 0
    assert y == z == 6


def test_fastmath_is_printed_only_where_mlir_has_it():
    k = Nest("flags", x=MemRef(1, F32), y=MemRef(1, F64))
    at = k.index(0)
    wide = k.op("arith.extf", k.load(k.x, at), to=F64, fastmath=CONTRACT)
    positive = k.op("arith.cmpf", wide, wide, predicate="ogt", fastmath=CONTRACT)
    k.store(k.op("arith.select", positive, wide, k.op("math.erf", wide, fastmath=SUM), fastmath=CONTRACT), k.y, at)
    text = print_module([k.function("y")])
    assert text.count("fastmath<contract>") == 1
    assert text.count("fastmath<reassoc,contract>") == 1
    verify(text)


def test_deep_loops_have_names():
    k = Nest("deep", x=MemRef(1, F64))
    with ExitStack() as opened:
        for _ in range(10):
            i = opened.enter_context(k.loop(k.index(1)))
        k.store(k.constant(1.0, F64), k.x, i)
    x = np.zeros(1)
    assert run(k.function("x"), [x]) == 0
    assert x.item() == 1


def test_a_reduction_as_mlir(golden):
    golden(print_module([rows()]))


def test_a_parallel_loop_as_mlir(golden):
    golden(print_module([tiles()]))
