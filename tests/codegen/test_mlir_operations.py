"""Every operation of the loop level is MLIR's own, and gives NumPy's value when MLIR compiles it."""

import math

import numpy as np
import pytest
from mlir_runs import CONTRACT, SPECIAL, run
from nest_tools import Nest

from codegen.kernel.nest import F32, F64, I1, I8, I32, I64, MemRef

DTYPES = {I8: np.int8, I32: np.int32, I64: np.int64, F32: np.float32, F64: np.float64}


def table(name, operations, inputs, result, flags=frozenset()):
    """A kernel that applies every operation to the columns of its inputs: y[o, i] = operation(x0[i], x1[i], ...).

    `operations` are the attributes of each: (name, {attribute: value}).
    """
    count = len(inputs[0])
    types = {f"x{number}": MemRef(count, type) for number, type in enumerate(inputs.types)}
    k = Nest(name, **types, y=MemRef(len(operations) * count, result))
    with k.loop(k.index(count)) as i:
        for row, (operation, attributes) in enumerate(operations):
            operands = [k.load(k.top.arguments[number], i) for number in range(len(types))]
            value = k.op(operation, *operands, **attributes, **({"fastmath": flags} if flags else {}))
            value = k.op("arith.extui", value, to=I8) if value.type is I1 else value
            k.store(value, k.y, k.place(k.index(row), count, i))
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
    "math.cbrt": np.cbrt,
    "math.ceil": np.ceil,
    "math.cos": np.cos,
    "math.cosh": np.cosh,
    "math.erf": np.vectorize(math.erf),
    "math.exp": np.exp,
    "math.exp2": np.exp2,
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
    k = Nest("constants", y=MemRef(len(values), type))
    for place, value in enumerate(values):
        k.store(k.constant(value, type), k.y, k.index(place))
    y = np.zeros(len(values), DTYPES[type])
    assert run(k.function("y"), [y]) == 0
    assert y.tobytes() == np.array(values, DTYPES[type]).tobytes()


def test_every_integer_constant_keeps_its_bits():
    values = {I8: [-128, 127], I32: [-(2**31), 2**31 - 1], I64: [-(2**63), 2**63 - 1, 0]}
    k = Nest("constants", **{f"y{t.bits}": MemRef(len(v), t) for t, v in values.items()})
    for memory, (type, numbers) in zip(k.top.arguments, values.items(), strict=True):
        for place, value in enumerate(numbers):
            k.store(k.constant(value, type), memory, k.index(place))
    arrays = [np.zeros(len(v), DTYPES[t]) for t, v in values.items()]
    assert run(k.function("y8 y32 y64"), arrays) == 0
    assert [a.tolist() for a in arrays] == list(values.values())
