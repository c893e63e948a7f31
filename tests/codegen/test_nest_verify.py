"""Every rule of the loop level is kept by what is right and caught where it is broken."""


import pytest
from nest_tools import Nest
from nest_verify import InvalidFunction, verify_function

from codegen.kernel.nest import F32, F64, I1, I8, I32, I64, INDEX, Block, MemRef, NestFunction, Operation, Value
from codegen.records import replace

VECTOR = MemRef(4, F64)


def kernel(**arguments):
    return Nest("f", **(arguments or {"x": VECTOR, "y": VECTOR}))


def good():
    """y[i] = x[i] or the sum of x: loops, carried values, a cast."""
    k = kernel()
    with k.loop(k.index(4), k.constant(0.0, F64)) as (i, total, (result,)):
        k.carry(k.op("arith.addf", total, k.load(k.x, i), fastmath=frozenset({"reassoc", "contract"})))
    with k.parallel(k.index(4)) as i:
        element = k.load(k.x, i)
        positive = k.op("arith.cmpf", element, result, predicate="ogt")
        value = k.op("arith.select", positive, element, result)
        k.store(k.op("arith.extf", k.op("arith.truncf", value, to=F32), to=F64), k.y, i)
    return k.function("y")


def test_a_good_function_passes():
    verify_function(good())


def test_the_message_shows_the_operation_in_its_place():
    k = kernel()
    with k.loop(k.index(4)) as i:
        k.op("arith.addf", k.load(k.x, i), k.constant(1.0, F32))
    with pytest.raises(InvalidFunction) as failure:
        verify_function(k.function())
    assert str(failure.value) == (
        "f, in scf.for, in func.func:\n"
        '  %1 = "arith.addf"(%0, %cst) : (f64, f32) -> (f32)\n'
        "  operand types differ: f64, f32"
    )


#: Operations that are wrong, by what is said of them: (name, operand types, result types, attributes).
WRONG = {
    "no such operation": ("arith.nonsense", [], [], {}),
    "1 operands, not 2": ("arith.addf", [F64], [F64], {}),
    "0 results, not 1": ("math.exp", [F64], [], {}),
    "gives f64, not f32": ("math.exp", [F64], [F32], {}),
    "works on f32, f64, not on i64": ("math.exp", [I64], [I64], {}),
    "works on index, i1, i8, i32, i64, not on f64": ("arith.addi", [F64, F64], [F64], {}),
    "operand types differ: i32, i64": ("arith.muli", [I32, I64], [I32], {}),
    "operand types differ: f64, f64, f32": ("math.fma", [F64, F64, F32], [F64], {}),
    "no such predicate: 'lt'": ("arith.cmpf", [F64, F64], [I1], {"predicate": "lt"}),
    "no such predicate: None": ("arith.cmpi", [I64, I64], [I1], {}),
    "compares f32, f64, not i32": ("arith.cmpf", [I32, I32], [I1], {"predicate": "oeq"}),
    "gives i1, not i8": ("arith.cmpi", [I32, I32], [I8], {"predicate": "eq"}),
    "takes f32 to f64, not f64 to f32": ("arith.extf", [F64], [F32], {}),
    "takes f64 to f32, not f32 to f64": ("arith.truncf", [F32], [F64], {}),
    "takes an integer to a wider one, not i64 to i32": ("arith.extsi", [I64], [I32], {}),
    "takes an integer to a narrower one, not i8 to i8": ("arith.trunci", [I8], [I8], {}),
    "takes index to an integer, or back, not i32 to i64": ("arith.index_cast", [I32], [I64], {}),
    "takes an integer to a float, not index to f64": ("arith.sitofp", [INDEX], [F64], {}),
    "takes a float to an integer, not f64 to index": ("arith.fptosi", [F64], [INDEX], {}),
    "takes a float or an integer to one of the same width, not f64 to i32": ("arith.bitcast", [F64], [I32], {}),
    "2.5 is no i64": ("arith.constant", [], [I64], {"value": 2.5}),
    "'1' is no f64": ("arith.constant", [], [F64], {"value": "1"}),
    "128 does not fit i8": ("arith.constant", [], [I8], {"value": 128}),
    "2 does not fit i1": ("arith.constant", [], [I1], {"value": 2}),
    "a constant is a scalar, not memref<4xf64>": ("arith.constant", [], [VECTOR], {"value": 1.0}),
    "the condition is i8, not i1": ("arith.select", [I8, F64, F64], [F64], {}),
    "operand types differ: f64, i64": ("arith.select", [I1, F64, I64], [F64], {}),
    "fastmath is of reassoc, nsz, arcp, contract, afn, not ['nnan']": (
        "arith.addf", [F64, F64], [F64], {"fastmath": frozenset({"nnan"})},
    ),
    "fastmath on what is no float operation": (
        "arith.addi", [I64, I64], [I64], {"fastmath": frozenset({"contract"})},
    ),
    "0 indices into memref<4xf64>": ("memref.load", [VECTOR], [F64], {}),
    "an index of type i64": ("memref.load", [VECTOR, I64], [F64], {}),
    "f64 is no memref": ("memref.load", [F64], [F64], {}),
    "gives f64, not i64": ("memref.load", [VECTOR, INDEX], [I64], {}),
    "stores f32 into memory of f64": ("memref.store", [F32, VECTOR, INDEX], [], {}),
    "memory of i1": ("memref.alloca", [], [MemRef(2, I1)], {}),
    "a size of -1": ("memref.alloca", [], [MemRef(-1, F64)], {}),
    "scratch of an unknown size": ("memref.alloca", [], [MemRef(None, F64)], {}),
    "gives a memref, not f64": ("memref.alloca", [], [F64], {}),
    "a terminator in the middle of a block": ("scf.yield", [], [], {}),
    "lower, upper and step are needed": ("scf.for", [INDEX], [], {}),
    "0 regions, not 1": ("scf.for", [INDEX, INDEX, INDEX], [], {}),
    "2 operands, not 3": ("scf.parallel", [INDEX, INDEX], [], {}),
}  # fmt: skip


def any_value(k, type):
    """A value of a type, well made."""
    if isinstance(type, MemRef):
        return k.alloca(type.size, element=type.element)
    return k.constant(1.0 if type.is_float else 1, type)


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_operation_is_named(said):
    name, operands, results, attributes = WRONG[said]
    k = kernel()
    k.emit(name, [any_value(k, type) for type in operands], results, attributes)
    with pytest.raises(InvalidFunction) as failure:
        verify_function(k.function())
    assert said in str(failure.value)
    assert f'"{name}"(' in str(failure.value)


def broken(fill, match, writes="y"):
    """The function that `fill` fills is refused with these words."""
    k = kernel()
    fill(k)
    with pytest.raises(InvalidFunction, match=match):
        verify_function(k.function(writes))


def loop(k, arguments, body, operands=(), results=()):
    bounds = [k.index(0), k.index(4), k.index(1)]
    block = Block(arguments)
    k.emit("scf.for", [*bounds, *operands], results, None, [block])
    with k.inside(block):
        body()


def test_a_loop_yields_what_it_carries():
    def too_few(k):
        loop(k, [INDEX, F64], lambda: k.carry(), [k.constant(0.0, F64)], [F64])

    def other_type(k):
        loop(k, [INDEX, F64], lambda: k.carry(k.constant(1, I64)), [k.constant(0.0, F64)], [F64])

    def no_argument(k):
        loop(k, [INDEX], lambda: k.carry(k.constant(1.0, F64)), [k.constant(0.0, F64)], [F64])

    def other_result(k):
        loop(k, [INDEX, F64], lambda: k.carry(k.constant(1.0, F64)), [k.constant(0.0, F64)], [F32])

    broken(too_few, r"scf.yield of \(\) where \(f64\) is expected")
    broken(other_type, r"scf.yield of \(i64\) where \(f64\) is expected")
    broken(no_argument, r"a body of \(index\), not of \(index, f64\)")
    broken(other_result, r"carries \(f64\) but gives \(f32\)")


def test_a_block_ends_in_its_terminator():
    broken(lambda k: loop(k, [INDEX], lambda: None), "an empty block")
    broken(lambda k: loop(k, [INDEX], lambda: k.index(1)), "a block ends in arith.constant, not in scf.yield")
    broken(lambda k: loop(k, [INDEX], lambda: k.emit("scf.reduce")), "a block ends in scf.reduce, not in scf.yield")


def test_loops_step_by_one():
    def fill(k):
        block = Block([INDEX])
        k.emit("scf.for", [k.index(0), k.index(4), k.index(0)], (), None, [block])
        with k.inside(block):
            k.carry()

    broken(fill, "a step that is not 1")


def test_bounds_are_indices():
    def fill(k):
        block = Block([INDEX])
        k.emit("scf.for", [k.index(0), k.constant(4, I64), k.index(1)], (), None, [block])
        with k.inside(block):
            k.carry()

    broken(fill, "lower, upper and step are index, not index, i64, index")


def test_a_parallel_loop_has_one_index():
    def fill(k):
        block = Block([INDEX] * 2)
        k.emit("scf.parallel", [k.index(0), k.index(4), k.index(1)], (), None, [block])
        with k.inside(block):
            k.emit("scf.reduce")

    broken(fill, "bounds and an induction variable are index")


def test_a_value_is_used_where_it_is_visible_only():
    def after_its_loop(k):
        inner = []
        loop(k, [INDEX], lambda: (inner.append(k.constant(1.0, F64)), k.carry()))
        k.op("math.exp", inner[0])

    def before_its_place(k):
        late = Operation("arith.constant", (), [F64], {"value": 1.0})
        k.op("math.exp", late.result)
        k.block.operations.append(late)

    broken(after_its_loop, "operand 0 is not visible here")
    broken(before_its_place, "operand 0 is not visible here")
    broken(lambda k: k.op("math.exp", Value(F64)), r'"math.exp"\(%<unknown>\)(.|\n)*operand 0 is not visible here')


def test_an_operation_stands_in_one_place():
    def fill(k):
        k.constant(1.0, F64)
        k.block.operations.append(k.block.operations[0])

    broken(fill, "an operation stands in two places")


def test_a_function_writes_only_what_it_says():
    def fill(k):
        k.store(k.constant(1.0, F64), k.x, k.index(0))

    broken(fill, "does not say that it writes this argument", writes="y")
    k = kernel()
    fill(k)
    verify_function(k.function("x"))


def test_a_function_returns_a_status():
    k = kernel()
    k.emit("func.return", [])
    with pytest.raises(InvalidFunction, match=r"f: func.return of \(\) where \(i32\) is expected"):
        verify_function(NestFunction("f", k.top, k.names, frozenset()))


SIGNATURES = {
    "'a b' is no symbol": {"name": "a b"},
    "1 names for 2 arguments": {"names": ("x",)},
    "a name stands twice: x, x": {"names": ("x", "x")},
    "'2' is no name of an argument": {"names": ("x", "2")},
    r"writes \[2\] of 2 memrefs": {"writes": frozenset({2})},
}


@pytest.mark.parametrize("said", SIGNATURES)
def test_a_wrong_signature_is_named(said):
    with pytest.raises(InvalidFunction, match=said):
        verify_function(replace(good(), **SIGNATURES[said]))


def test_memrefs_come_before_indices_and_hold_what_memory_holds():
    for arguments, said in (
        ({"n": INDEX, "x": VECTOR}, "arguments are memrefs, then indices"),
        ({"x": VECTOR, "a": F64}, "arguments are memrefs, then indices"),
        ({"x": MemRef(4, I1)}, "memory of i1"),
    ):
        with pytest.raises(InvalidFunction, match=said):
            verify_function(kernel(**arguments).function())
