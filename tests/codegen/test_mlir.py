"""The loop level as MLIR: xDSL and mlir-opt accept it, and what it says is what it computes."""

import inspect
import math

import numpy as np
import pytest
from mlir_tools import run_emitted, run_function, verify
from nest_tools import Nest

from codegen.ir import DTYPES as IR_DTYPES
from codegen.kernel.mlir import print_function, print_module
from codegen.kernel.nest import F32, F64, I1, I8, I32, I64, INDEX, Extent, Function, MemRef
from codegen.kernel.scalar import SCALAR_TYPES, Scalar
from codegen.kernel.verify import verify_function

DTYPES = {I8: np.int8, I32: np.int32, I64: np.int64, F32: np.float32, F64: np.float64}
CONTRACT = frozenset({"contract"})
SUM = frozenset({"contract", "reassoc"})


def run(function, arrays, indices=()):
    """The status of a kernel run by the real MLIR, which leaves in `arrays` what our own code leaves."""
    verify_function(function)
    own = [a.copy() for a in arrays]
    status = run_emitted(function, own, indices)
    assert run_function(function, arrays, indices) == status
    for ours, theirs in zip(own, arrays, strict=True):
        ulp = np.finfo(ours.dtype).eps if ours.dtype.kind == "f" else 0
        np.testing.assert_allclose(ours, theirs, rtol=8 * ulp)
    return status


def table(name, operations, inputs, result, flags=frozenset()):
    """A kernel that applies every operation to the columns of its inputs: y[o, i] = operation(x0[i], x1[i], ...).

    `operations` are the attributes of each: (name, {attribute: value}).
    """
    count = len(inputs[0])
    types = {f"x{number}": MemRef((count,), type) for number, type in enumerate(inputs.types)}
    k = Nest(name, **types, y=MemRef((len(operations), count), result))
    with k.loop(k.index(count)) as i:
        for row, (operation, attributes) in enumerate(operations):
            operands = [k.load(k.top.arguments[number], i) for number in range(len(types))]
            value = k.op(operation, *operands, **attributes, **({"fastmath": flags} if flags else {}))
            k.store(k.op("arith.extui", value, to=I8) if value.type is I1 else value, k.y, k.index(row), i)
    return k.function("y")


class Columns(list):
    """Input arrays with the scalar types they hold."""

    def __init__(self, *arrays):
        super().__init__(arrays)
        self.types = [next(t for t, d in DTYPES.items() if d == a.dtype) for a in arrays]


def run_table(operations, columns, result, flags=frozenset()):
    y = np.zeros((len(operations), len(columns[0])), DTYPES[result])
    assert run(table("table", operations, columns, result, flags), [*columns, y]) == 0
    return dict(zip([name + "".join(map(str, a.values())) for name, a in operations], y, strict=True))


UNARY = {
    "arith.negf": np.negative,
    "math.absf": np.abs,
    "math.acos": np.arccos,
    "math.acosh": np.arccosh,
    "math.asin": np.arcsin,
    "math.asinh": np.arcsinh,
    "math.atan": np.arctan,
    "math.atanh": np.arctanh,
    "math.ceil": np.ceil,
    "math.cos": np.cos,
    "math.cosh": np.cosh,
    "math.erf": np.vectorize(math.erf),
    "math.exp": np.exp,
    "math.expm1": np.expm1,
    "math.floor": np.floor,
    "math.log": np.log,
    "math.log10": np.log10,
    "math.log1p": np.log1p,
    "math.log2": np.log2,
    "math.roundeven": np.rint,
    "math.sin": np.sin,
    "math.sinh": np.sinh,
    "math.sqrt": np.sqrt,
    "math.tan": np.tan,
    "math.tanh": np.tanh,
    "math.trunc": np.trunc,
}
BINARY = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "math.atan2": np.arctan2,
    "math.copysign": np.copysign,
    "math.powf": np.power,
}
INTEGER = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divsi": lambda a, b: (np.sign(a) * np.sign(b)) * (np.abs(a) // np.abs(b)),
    "arith.remsi": np.fmod,
    "arith.floordivsi": np.floor_divide,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
}
SHIFTS = {"arith.shli": np.left_shift, "arith.shrsi": np.right_shift}
PREDICATES = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.0, 2.5, -2.5, 1e-9, 30.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("flags", [frozenset(), CONTRACT], ids=["strict", "contract"])
@pytest.mark.parametrize("type", [F32, F64])
def test_every_float_function_is_mlirs_own_and_gives_numpys_value(type, flags):
    x = np.array(SPECIAL, DTYPES[type])
    found = run_table([(name, {}) for name in UNARY], Columns(x), type, flags)
    for name, function in UNARY.items():
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(found[name], function(x), rtol=8 * np.finfo(x.dtype).eps, err_msg=name)


@pytest.mark.parametrize("type", [F32, F64])
def test_every_float_function_of_two_gives_numpys_value(type):
    x, y = (np.ascontiguousarray(a, DTYPES[type]) for a in np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1))
    found = run_table([(name, {}) for name in BINARY], Columns(x, y), type, CONTRACT)
    for name, function in BINARY.items():
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(found[name], function(x, y), rtol=8 * np.finfo(x.dtype).eps, err_msg=name)


def test_fma_rounds_once():
    x = np.array([1 + 2.0**-30])
    found = run_table([("math.fma", {})], Columns(x, x, np.array([-1.0])), F64)
    assert found["math.fma"][0] == 2.0**-29 + 2.0**-60


@pytest.mark.parametrize("type", [I32, I64])
def test_every_integer_operation_gives_numpys_value(type):
    x, y = (a.ravel().astype(DTYPES[type]) for a in np.meshgrid([-7, -6, 0, 3, 20, 2**30], [-3, -1, 2, 5]))
    # A shift by a negative number has no value.
    for operations, right in ((INTEGER, y), (SHIFTS, np.abs(y))):
        found = run_table([(name, {}) for name in operations], Columns(x, right), type)
        for name, function in operations.items():
            np.testing.assert_array_equal(found[name], function(x, right), err_msg=name)
    np.testing.assert_array_equal(run_table([("math.absi", {})], Columns(x), type)["math.absi"], np.abs(x))


def test_every_float_comparison_knows_nan():
    x, y = (np.ascontiguousarray(a) for a in np.array(np.meshgrid(SPECIAL, SPECIAL)).reshape(2, -1))
    unordered = np.isnan(x) | np.isnan(y)
    wanted = {"false": x != x, "true": x == x, "ord": ~unordered, "uno": unordered}
    wanted["false"][:], wanted["true"][:] = False, True
    for name, function in PREDICATES.items():
        wanted["o" + name] = ~unordered & function(x, y)
        wanted["u" + name] = unordered | function(x, y)
    wanted["one"], wanted["une"] = wanted.pop("one"), wanted.pop("une")
    found = run_table([("arith.cmpf", {"predicate": p}) for p in wanted], Columns(x, y), I8)
    for predicate, value in wanted.items():
        np.testing.assert_array_equal(found["arith.cmpf" + predicate], value, err_msg=predicate)


def test_every_integer_comparison_is_signed_or_not():
    x, y = (a.ravel().astype(np.int64) for a in np.meshgrid([-2, 0, 3], [-2, 0, 3]))
    wanted = {"eq": x == y, "ne": x != y}
    for name in ("lt", "le", "gt", "ge"):
        wanted["s" + name] = PREDICATES[name](x, y)
        wanted["u" + name] = PREDICATES[name](x.astype(np.uint64), y.astype(np.uint64))
    found = run_table([("arith.cmpi", {"predicate": p}) for p in wanted], Columns(x, y), I8)
    for predicate, value in wanted.items():
        np.testing.assert_array_equal(found["arith.cmpi" + predicate], value, err_msg=predicate)


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("arith.sitofp", I32, F64), ("arith.sitofp", I64, F32), ("arith.uitofp", I8, F32),
        ("arith.fptosi", F64, I32), ("arith.fptosi", F32, I64), ("arith.extf", F32, F64),
        ("arith.truncf", F64, F32), ("arith.extsi", I8, I64), ("arith.extsi", I32, I64),
        ("arith.extui", I8, I32), ("arith.trunci", I64, I32), ("arith.trunci", I32, I8),
        ("arith.bitcast", F64, I64), ("arith.bitcast", I32, F32),
    ],
)  # fmt: skip
def test_every_cast_gives_numpys_value(name, source, target):
    x = np.array([0, 1, 3, 100], DTYPES[source])
    y = run_table([(name, {"to": target})], Columns(x), target)
    wanted = x.view(DTYPES[target]) if name == "arith.bitcast" else x.astype(DTYPES[target])
    np.testing.assert_array_equal(next(iter(y.values())), wanted)


@pytest.mark.parametrize("type", [F32, F64])
def test_every_float_constant_keeps_its_bits(type):
    tiny = np.finfo(DTYPES[type]).smallest_subnormal
    values = [0.0, -0.0, 0.1, 1e-05, 1e30, -1.5e-9, math.pi, math.inf, -math.inf, math.nan, float(tiny), 7]
    k = Nest("constants", y=MemRef((len(values),), type))
    for place, value in enumerate(values):
        k.store(k.constant(value, type), k.y, k.index(place))
    y = np.zeros(len(values), DTYPES[type])
    assert run(k.function("y"), [y]) == 0
    assert y.tobytes() == np.array(values, DTYPES[type]).tobytes()


def test_every_integer_constant_keeps_its_bits():
    values = {I8: [-128, 127], I32: [-(2**31), 2**31 - 1], I64: [-(2**63), 2**63 - 1, 0]}
    k = Nest("constants", **{f"y{t.bits}": MemRef((len(v),), t) for t, v in values.items()})
    for memory, (type, numbers) in zip(k.top.arguments, values.items(), strict=True):
        for place, value in enumerate(numbers):
            k.store(k.constant(value, type), memory, k.index(place))
    arrays = [np.zeros(len(v), DTYPES[t]) for t, v in values.items()]
    assert run(k.function("y8 y32 y64"), arrays) == 0
    assert [a.tolist() for a in arrays] == list(values.values())


# ---- structure ------------------------------------------------------------------------------------


def rows():
    """y[i] = sum over j of exp(x[i, j]), the number of rows known at run time."""
    k = Nest("row_sums", x=MemRef((Extent(0), 5), F64), y=MemRef((Extent(0),), F64), n=INDEX)
    with k.loop(k.n) as i:
        with k.loop(k.index(5), k.constant(0.0, F64)) as (j, total, (result,)):
            element = k.op("math.exp", k.load(k.x, i, j), fastmath=CONTRACT)
            k.carry(k.op("arith.addf", total, element, fastmath=SUM))
        k.store(result, k.y, i)
    return k.function("y")


def test_a_loop_carries_values(rng):
    x, y = rng.normal(size=(4, 5)), np.zeros(4)
    assert run(rows(), [x, y], [4]) == 0
    np.testing.assert_allclose(y, np.exp(x).sum(axis=1), rtol=1e-15)


def test_a_loop_carries_several_values_of_several_types(rng):
    x = rng.normal(size=9)
    k = Nest("argmax", x=MemRef((9,), F64), highest=MemRef((), F64), at=MemRef((), I64))
    start = k.constant(-math.inf, F64), k.constant(0, I64)
    with k.loop(k.index(9), *start) as (i, best, place, (extreme, where)):
        element = k.load(k.x, i)
        better = k.op("arith.cmpf", element, best, predicate="ogt")
        k.carry(
            k.op("arith.select", better, element, best),
            k.op("arith.select", better, k.op("arith.index_cast", i, to=I64), place),
        )
    k.store(extreme, k.highest)
    k.store(where, k.at)
    top, at = np.zeros(()), np.zeros((), np.int64)
    assert run(k.function("highest at"), [x, top, at]) == 0
    assert (top, at) == (x.max(), x.argmax())


def test_branches_with_and_without_results(rng):
    x, y, z = rng.normal(size=8), np.zeros(8), np.full(8, 7.0)
    k = Nest("branches", **dict.fromkeys("xyz", MemRef((8,), F64)))
    zero = k.constant(0.0, F64)
    with k.loop(k.index(8)) as i:
        element = k.load(k.x, i)
        positive = k.op("arith.cmpf", element, zero, predicate="ogt")
        (root,) = k.branch(positive, lambda: [k.op("math.sqrt", element)], lambda: [zero])
        k.store(root, k.y, i)
        k.branch(positive, lambda: k.store(zero, k.z, i) or ())
        k.branch(positive, lambda: (), lambda: k.store(element, k.z, i) or ())
    assert run(k.function("y z"), [x, y, z]) == 0
    np.testing.assert_array_equal(y, np.sqrt(np.maximum(x, 0)))
    np.testing.assert_array_equal(z, np.minimum(x, 0))


def tiles():
    """y[j, i] = x[i, j] by a parallel loop over two indices, with a row of scratch memory in it."""
    k = Nest("tiles", x=MemRef((Extent(0), 3), F32), y=MemRef((3, Extent(0)), F32), n=INDEX)
    with k.parallel(k.n, k.index(3)) as (i, j):
        scratch = k.alloca(3, element=F32)
        with k.loop(k.index(3)) as column:
            k.store(k.load(k.x, i, column), scratch, column)
        k.store(k.load(scratch, j), k.y, j, i)
    return k.function("y")


def test_a_parallel_loop_has_several_indices_and_scratch_memory(rng):
    x = rng.normal(size=(4, 3)).astype(np.float32)
    y = np.zeros((3, 4), np.float32)
    assert run(tiles(), [x, y], [4]) == 0
    np.testing.assert_array_equal(y, x.T)


def test_scratch_memory_takes_its_extent_from_the_index_argument():
    k = Nest("reverse", y=MemRef((Extent(1),), I64), m=INDEX, n=INDEX)
    scratch = k.alloca(2, Extent(1), element=I64)
    with k.loop(k.n) as i:
        k.store(k.op("arith.index_cast", i, to=I64), scratch, k.index(1), i)
    with k.loop(k.n) as i:
        last = k.op("arith.subi", k.op("arith.subi", k.n, k.index(1)), i)
        k.store(k.load(scratch, k.index(1), last), k.y, i)
    function = k.function("y")
    assert "memref.alloca(%n) : memref<2x?xi64>" in print_function(function)
    y = np.zeros(5, np.int64)
    assert run(function, [y], [9, 5]) == 0
    assert y.tolist() == [4, 3, 2, 1, 0]


def test_bool_is_a_byte_in_memory_and_a_bit_in_arithmetic():
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    k = Nest("logic", **dict.fromkeys("aby", MemRef((4,), I8)))
    with k.loop(k.index(4)) as i:
        left, right = (k.op("arith.trunci", k.load(m, i), to=I1) for m in (k.a, k.b))
        value = k.op("arith.xori", k.op("arith.andi", left, right), k.constant(True, I1))
        k.store(k.op("arith.extui", value, to=I8), k.y, i)
    y = np.zeros(4, bool)
    assert run(k.function("y"), [a, b, y]) == 0
    np.testing.assert_array_equal(y, ~(a & b))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3), (1, 1, 1)])
def test_memory_of_any_rank_and_of_no_element(shape):
    k = Nest("twice", **dict.fromkeys("xy", MemRef(shape, F64)))
    uppers = [k.index(n) for n in shape]
    if uppers:
        with k.parallel(*uppers) as indices:
            k.store(k.op("arith.addf", *[k.load(k.x, *indices)] * 2), k.y, *indices)
    else:
        k.store(k.op("arith.addf", *[k.load(k.x)] * 2), k.y)
    x, y = np.ones(shape), np.zeros(shape)
    assert run(k.function("y"), [x, y]) == 0
    np.testing.assert_array_equal(y, 2 * x)


def test_the_status_comes_back():
    k = Nest("check", x=MemRef((1,), I64))
    wrong = k.op("arith.cmpi", k.load(k.x, k.index(0)), k.constant(0, I64), predicate="slt")
    function = k.function(status=k.op("arith.extui", wrong, to=I32))
    assert run(function, [np.array([-1])]) == 1
    assert run(function, [np.array([1])]) == 0


def test_a_called_function_is_declared_once():
    k = Nest("distance", x=MemRef((2,), F64), y=MemRef((2,), F64))
    with k.loop(k.index(2)) as i:
        element = k.load(k.x, i)
        k.store(k.call("hypot", k.call("hypot", element, element, to=F64), element, to=F64), k.y, i)
    function = k.function("y")
    assert print_module([function, function]).count("func.func private @hypot(f64, f64) -> f64\n") == 1
    x, y = np.array([1.0, 2.0]), np.zeros(2)
    assert run(function, [x, y]) == 0
    np.testing.assert_allclose(y, np.sqrt(3) * x, rtol=1e-15)


# ---- what lowerings are written in ----------------------------------------------------------------

ANY = "add sub mul maximum minimum lt le gt ge eq ne logical_and logical_or logical_xor logical_not truth"
NUMBERS = "neg abs sign floordiv mod pow floor ceil trunc roundeven"
FLOATS = (
    "div fma accumulate sqrt exp expm1 log log1p log2 log10 sin cos tan tanh sinh cosh asin acos atan asinh acosh "
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
    k = Scalar([MemRef((n,), t) for n, t in ((count, element), (count, element), (rows, element), (rows, I8))]
               + [MemRef((count,), t) for t in casts])  # fmt: skip
    x, y, same, truth, *cast = k.block.arguments
    loop = k.open_loop(count)
    elements = [k.load(x, loop.index), k.load(y, loop.index)]
    for row, name in enumerate(METHODS[dtype]):
        method = getattr(k, name)
        arity = len(inspect.signature(method).parameters)
        result = method(*(elements + elements)[:arity])
        goal = same if result.type is SCALAR_TYPES[dtype] else truth
        k.store(result, goal, loop.index.plus(k.index(row * count)))
    for name, goal in zip(SCALAR_TYPES, cast, strict=True):
        k.store(k.cast(elements[0], name), goal, loop.index)
    k.check(k.eq(elements[0], elements[0]))
    k.close_loop(loop)
    return Function("scalar", k.finish(), ("x", "y", "same", "truth", *SCALAR_TYPES), frozenset(range(2, 9)))


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


# ---- names and text -------------------------------------------------------------------------------


def test_the_text_depends_on_the_function_only():
    assert print_function(rows()) == print_function(rows())


def test_arguments_may_be_called_as_the_printer_calls_values():
    k = Nest("clash", i=MemRef((4,), F64), acc=MemRef((), F64), cst=MemRef((), F64), c0=INDEX)
    with k.loop(k.index(4), k.constant(0.0, F64)) as (i, total, (result,)):
        k.carry(k.op("arith.addf", total, k.load(k.i, i)))
    k.store(result, k.acc)
    k.store(result, k.cst)
    x, y, z = np.arange(4.0), np.zeros(()), np.zeros(())
    assert run(k.function("acc cst"), [x, y, z], [0]) == 0
    assert y == z == 6


def test_fastmath_is_printed_only_where_mlir_has_it():
    k = Nest("flags", x=MemRef((), F32), y=MemRef((), F64))
    wide = k.op("arith.extf", k.load(k.x), to=F64, fastmath=CONTRACT)
    positive = k.op("arith.cmpf", wide, wide, predicate="ogt", fastmath=CONTRACT)
    k.store(k.op("arith.select", positive, wide, k.op("math.erf", wide, fastmath=SUM), fastmath=CONTRACT), k.y)
    text = print_module([k.function("y")])
    assert text.count("fastmath<contract>") == 1
    assert text.count("fastmath<reassoc,contract>") == 1
    verify(text)


def test_deep_loops_have_names():
    k = Nest("deep", x=MemRef((1,) * 10, F64))
    uppers = [k.index(1)] * 10
    with k.parallel(*uppers) as indices:
        k.store(k.constant(1.0, F64), k.x, *indices)
    x = np.zeros((1,) * 10)
    assert run(k.function("x"), [x]) == 0
    assert x.item() == 1


def test_a_reduction_as_mlir(golden):
    golden(print_module([rows()]))


def test_a_parallel_loop_as_mlir(golden):
    golden(print_module([tiles()]))
