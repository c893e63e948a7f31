"""Programs that machine code evaluates by NumPy's loops have NumPy's values, to the bit: see `tape.program`."""

import itertools
import pickle
import random
import struct
import tracemalloc

import numpy as np
import pytest

import autodiff as ad
from autodiff.ops import recorder
from autodiff.tape import machine, program
from autodiff.tape.program import program_of
from autodiff.tape.walk import history
from autodiff.transforms.backward_pass import Group, emit
from codegen.runtime import ufunc_loops

from .cases import all_cases, law, rng_of, taking_turns


@pytest.fixture(autouse=True)
def native():
    was_installed = recorder.is_installed()
    recorder.install()
    yield
    if not was_installed:
        recorder.uninstall()


def both(found, inputs):
    """The outputs of a program, by machine code and by Python."""
    values = [program.data(n) for n in inputs]
    here = found.evaluate(*values)
    assert found._graph is None, "machine code has evaluated it"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "asks", None)
        there = found.evaluate(*values)
    return here, there


def by_python(found, inputs):
    """The number of equations that Python evaluates when machine code evaluates a program."""
    met = []
    with pytest.MonkeyPatch.context() as patch:
        value = program._value
        patch.setattr(program, "_value", lambda kind, given: met.append(kind) or value(kind, given))
        found.evaluate(*[program.data(n) for n in inputs])
    return len(met)


def assert_same(here, there):
    for a, b in zip(here, there, strict=True):
        assert a.dtype is b.dtype and a.shape == b.shape and a.flags.c_contiguous and a.flags.owndata
        # The sign of a nan says which operand a processor took it from: NumPy's differs with the address of an array.
        assert np.where(a == a, a, a.dtype.type(0)).tobytes() == np.where(b == b, b, b.dtype.type(0)).tobytes()
        assert np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


@law(taking_turns(all_cases()))
def test_an_operation_and_its_rule_have_the_values_of_their_references(case):
    leaves = [ad.tensor(x, requires_grad=i in case.wrt) for i, x in enumerate(case.point(rng_of(case)))]
    y = case.f(*leaves)
    outputs = [y.node] if y.node.value is None else []
    if case.wrt and y.requires_grad:
        groups = [Group((leaves[i].node,)) for i in case.wrt]
        found = emit(history([y.node]), [(y.node, ad.ones(y.shape, dtype=y.dtype).node)], groups, tracks=False)
        outputs += [g.node for g in found if g is not None and g.node.value is None]
    if outputs:
        assert_same(*both(*program_of(list(dict.fromkeys(outputs)))))


BINARY = (
    lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a - b, lambda a, b: ad.maximum(a, b), lambda a, b: a / b,
    lambda a, b: ad.where(a > b, a, b * 2.0), lambda a, b: a * ad.sum(b), lambda a, b: ad.astype(a > 0, a.dtype) + b,
    lambda a, b: ad.tanh(a), lambda a, b: ad.sigmoid(b), lambda a, b: ad.exp(-abs(a)), lambda a, b: a[::-1] + b,
    lambda a, b: ad.concatenate([a, b])[2:7] if a.size == 5 else a, lambda a, b: ad.logical_and(a > 0, b > 0) * a,
    lambda a, b: ad.broadcast_to(a[0], a.shape) * b, lambda a, b: ad.reshape(ad.reshape(a, (1, a.size)), a.shape),
    lambda a, b: ad.sqrt(abs(a)), lambda a, b: ad.floor(a) + b, lambda a, b: a**3.0, lambda a, b: ad.isnan(a) + b,
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "complex128"])
@pytest.mark.parametrize("size", [0, 1, 5, 100])
def test_random_programs_have_the_same_values(dtype, size):
    loops = of_python = sums = 0
    for seed in range(40):
        rng = random.Random(f"{dtype} {size} {seed}")
        made = [ad.tensor(np.linspace(-2 + k, 3 + k, size).astype(dtype)) for k in range(3)]
        for _ in range(rng.randrange(2, 40)):
            try:
                y = rng.choice(BINARY)(rng.choice(made[-6:]), rng.choice(made[-6:]))
            except (ad.Error, IndexError):  # not for this dtype, or nothing to take
                continue
            if y.shape == (size,) and y.dtype.kind != "b":
                made.append(y)
        outputs = [y.node for y in rng.sample(made, 3) if y.node.value is None]
        if outputs:
            found, inputs = program_of(list(dict.fromkeys(outputs)))
            assert_same(*both(found, inputs))
            left = by_python(found, inputs)
            loops += len(found.kinds) - left
            of_python += left
            sums += [kind.op.name for kind in found.kinds].count("sum")
    assert loops > 100 if size else loops == sums > 0
    assert of_python > 20


UFUNCS = [f for f in map(np.__dict__.get, sorted(vars(np))) if type(f) is np.ufunc]


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda f: f.__name__)
def test_each_ufunc_of_one_result_has_its_loops(ufunc):
    found = ufunc_loops.loops_of(ufunc)
    if ufunc.nout != 1 or ufunc.signature:
        assert found is None
        return
    letters = [t.replace("->", "") for t in ufunc.types if set(t) <= {*"?bBhHiIlLqQefdFD->"}]
    assert found is not None
    assert struct.unpack_from("Q", found) == (len(letters),)
    words = struct.unpack(f"{len(found) // 8}Q", found)[1:]
    loops = [words[k : k + 10] for k in range(0, len(words), 10)]
    of_dtypes = sorted([tuple([d for d in loop[:4] if d]) for loop in loops])
    assert of_dtypes == sorted([tuple([id(np.dtype(c)) for c in names]) for names in letters])
    sizes = sorted([tuple([s for s in loop[4:8] if s]) for loop in loops])
    assert sizes == sorted([tuple([np.dtype(c).itemsize for c in names]) for names in letters])
    assert all(loop[8] for loop in loops)


def test_memory_of_values_that_nobody_reads_any_more_is_used_again():
    x = ad.tensor(np.linspace(0.1, 1.0, 1000))
    y = x
    for _ in range(500):
        y = ad.sin(y) * x
    found, inputs = program_of([y.node])
    values = [program.data(n) for n in inputs]
    tracemalloc.start()  # before the pool has memory of this size
    found.evaluate(*values)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 8000 <= most < 200_000  # of a thousand values of 8,000 bytes
    assert_same(*both(found, inputs))


def test_what_is_written_in_ufuncs_is_evaluated_by_their_loops():
    y = ad.tanh(ad.tensor(np.linspace(-3.0, 3.0, 40), requires_grad=True))
    (g,) = emit(history([y.node]), [(y.node, ad.ones(40).node)], [Group((history([y.node])[0],))], tracks=False)
    found, inputs = program_of([g.node])
    assert_same(*both(found, inputs))
    assert not by_python(found, inputs)  # constants are copied by one
    rows = [kind._loops(kind.out.aval.dtype)[1] for kind in found.kinds]
    assert sum(map(len, rows)) > len(rows) + 3


def test_a_sum_of_all_elements_has_the_bits_of_numpys():
    rng = np.random.default_rng(1)
    shapes = [(0,), (1,), (7,), (8,), (9,), (100,), (128,), (129,), (8191,), (8193,), (300_001,), (3, 5), (1, 200)]
    for shape in [*shapes, (200, 1), (33, 0, 2), (17, 9, 31), (1, 1, 1), (513, 129)]:
        given = rng.normal(size=shape) * 10.0 ** rng.integers(-9, 9, size=shape)
        axes = [None, *[k for k in range(len(shape)) if np.delete(shape, k).prod() == 1]]
        for dtype, values, axis in itertools.product("fdDl", (given, np.full(shape, -0.0)), axes):
            found, inputs = program_of([ad.sum(ad.tensor(values.astype(dtype)), axis).node])
            assert_same(*both(found, inputs))
            assert not by_python(found, inputs)


def test_what_python_raises_arrives_and_the_program_goes_on_afterwards():
    x, at = ad.tensor(np.arange(5.0)), ad.tensor(np.array([1, 2, 7]))
    y = ad.sin(ad.take(x * 2.0, at * 1)) + 1.0
    found, inputs = program_of([y.node])
    for _ in range(3):
        with pytest.raises(IndexError):
            found.evaluate(*[program.data(n) for n in inputs])
    right = [np.array([1, 2, 3]) if n.kind.out.shape == (3,) else program.data(n) for n in inputs]
    assert_same(found.evaluate(*right), (np.sin(np.arange(5.0)[1:4] * 2.0) + 1.0,))


def test_inputs_of_any_layout_are_taken():
    a = np.arange(12.0).reshape(3, 4)
    for given in (a.T.copy().T, a[:, ::-1], np.broadcast_to(a[:1], (3, 4))):
        x = ad.tensor(np.ones((3, 4)))
        found, inputs = program_of([(ad.sin(x) * 2.0).node])
        values = [given if n is x.node else program.data(n) for n in inputs]
        assert_same(found.evaluate(*values), (np.sin(given) * 2.0,))


def test_an_input_at_an_odd_address_is_taken():
    x = ad.tensor(np.ones(7))
    found, inputs = program_of([(ad.sin(x) * 2.0).node])
    given = np.frombuffer(bytes(1) + np.linspace(0.0, 1.0, 7).tobytes(), np.float64, offset=1)
    assert not given.flags.aligned
    values = [given if n is x.node else program.data(n) for n in inputs]
    assert_same(found.evaluate(*values), (np.sin(given) * 2.0,))


def test_a_function_with_parameters_is_not_taken_for_its_ufuncs():
    x = ad.tensor(np.linspace(0.5, 3.0, 7))
    for more in (1, 3):
        y = ad.special.polygamma(more, x)
        found, inputs = program_of([y.node])
        assert_same(*both(found, inputs))


def test_an_input_that_is_a_result_is_another_array():
    x = ad.tensor(np.arange(4.0))
    found, inputs = program_of([(x * 2.0).node, x.node]) if x.node.value is None else program_of([(x * 2.0).node])
    values = [program.data(n) for n in inputs]
    (here,) = found.evaluate(*values)
    assert not any(np.shares_memory(here, v) for v in values)
    assert machine.asks is not None


def test_arrays_that_were_pickled_are_of_the_same_dtypes():
    for dtype in ("float64", "float32", "int64", "bool", "complex128"):
        given = pickle.loads(pickle.dumps(np.ones(3, dtype)))
        assert given.dtype is not np.dtype(dtype)
        y = ad.tensor(given) * ad.tensor(given)
        assert y.dtype is np.dtype(dtype)
        found, inputs = program_of([y.node])
        assert_same(*both(found, inputs))
        assert not by_python(found, inputs)


def test_a_table_is_right_when_its_kinds_are_looked_at_anew():
    y = ad.special.logit(ad.tensor(np.array([0.2, 0.4, 0.6, 0.8])))
    found, inputs = program_of([y.node])
    before = [a.copy() for a in found.evaluate(*[program.data(n) for n in inputs])]
    for kind in found.kinds:
        kind.run_as()
    _ = [np.full((), 7.0 + k) for k in range(1000)]
    assert_same(found.evaluate(*[program.data(n) for n in inputs]), before)
