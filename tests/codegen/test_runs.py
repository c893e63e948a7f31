"""Long sums: what runs of vectors add up to enters the sum, and not each vector."""

import numpy as np
import pytest
from emitted import emit_module
from nests import DTYPES, Nest, call, memref

import autodiff as ad
from codegen.kernel.nest import F32, F64, INDEX
from codegen.runtime import engine

MACHINES = {"widest": engine.target_features(), "masks": "+avx2,+fma", "plain": ""}
EACH_MACHINE = pytest.mark.parametrize("features", MACHINES.values(), ids=MACHINES)
EACH_TYPE = pytest.mark.parametrize("type", [F32, F64], ids=str)
SUM = {"fastmath": frozenset({"reassoc", "contract"})}
#: Around the lengths at which there are one, two and three runs, or vectors, of any machine.
_AROUND = (-33, -1, 0, 1, 7, 40)
LENGTHS = sorted({n + d for n in (0, 128, 256, 512, 1024, 1536, 2048, 4096) for d in _AROUND if n + d >= 0})


def summing(type, extent, function=""):
    """y[0] = 1 + the sum of x, or of a function of it."""
    extra = {"n": INDEX} if extent is None else {}
    nest = Nest("summing", writes=("y",), x=memref(type, extent), y=memref(type, 1), **extra)

    def step(i, total):
        x = nest.load(nest.x, i)
        return [nest.op("arith.addf", total, nest.op(function, x) if function else x, **SUM)]

    (total,) = nest.loop(nest.n if extent is None else extent, [nest.constant(1.0, type)], step)
    nest.store(total, nest.y, 0)
    return nest.end()


def result(code, function, x, *extents):
    y = np.zeros(1, x.dtype)
    assert call(code, function, (x, y, *extents)) == 0
    return y[0]


def compiled(function, features):
    return engine.compile(emit_module([function], features))


@EACH_MACHINE
@EACH_TYPE
def test_each_element_of_a_runtime_number_is_added_once(type, features, rng):
    function = summing(type, None)
    code = compiled(function, features)
    for n in LENGTHS:
        x = rng.integers(-999, 999, n).astype(DTYPES[type])
        assert result(code, function, x, n) == 1 + x.sum()


@EACH_MACHINE
@pytest.mark.parametrize("n", [511, 1024, 1025, 4000, 4096, 5007])
def test_each_element_of_a_known_number_is_added_once(n, features, rng):
    function, x = summing(F64, n), rng.integers(-999, 999, n).astype(np.float64)
    assert result(compiled(function, features), function, x) == 1 + x.sum()


@pytest.mark.parametrize("function", ["math.exp", "math.tanh", "math.sqrt"])
@pytest.mark.parametrize("n", [None, 3000])
@pytest.mark.parametrize("features", ["+avx2,+fma", engine.target_features()])
def test_under_masks_and_with_few_registers_too(features, n, function, rng):
    made, x = summing(F64, n, function), rng.uniform(0, 1, 3000)
    expected = 1 + getattr(np, function.partition(".")[2])(x).sum()
    np.testing.assert_allclose(result(compiled(made, features), made, x, *[3000] * (n is None)), expected, rtol=1e-14)


@EACH_TYPE
@pytest.mark.parametrize("features", ["+avx2,+fma", engine.target_features()])
def test_a_sum_of_numbers_of_both_signs_errs_as_chains_of_a_run_do(features, type, rng):
    """Of 16,384 numbers they were chains of 512 additions: twice the error and more."""
    n, dtype = 1 << 14, DTYPES[type]
    function = summing(type, None)
    code, errors = compiled(function, features), []
    for _ in range(100):
        x = rng.normal(size=n).astype(dtype)
        errors.append(float(result(code, function, x, n) - (1 + x.astype(np.longdouble).sum())))
    assert np.sqrt(np.mean(np.square(errors))) < 240 * np.finfo(dtype).eps


def rows_apart(rows):
    """y[0] = the sum of rows of four, y[1] = the largest; only the run knows how far they lie apart."""
    arguments = {"step": INDEX} | ({"n": INDEX} if rows is None else {})
    nest = Nest("rows", writes=("y",), x=memref(F64), y=memref(F64, 2), size=INDEX, **arguments)

    def row(i, total, largest):
        start = nest.op("arith.muli", i, nest.step)

        def add(j, row):
            x = nest.load(nest.x, nest.op("arith.addi", start, j))
            return [nest.op("arith.addf", row, x, **SUM)]

        (found,) = nest.loop(4, [nest.constant(0.0, F64)], add)
        return [nest.op("arith.addf", total, found, **SUM), nest.op("arith.maximumf", largest, found)]

    firsts = [nest.constant(1.0, F64), nest.constant(-np.inf, F64)]
    total, largest = nest.loop(nest.n if rows is None else rows, firsts, row)
    nest.store(total, nest.y, 0)
    nest.store(largest, nest.y, 1)
    return nest.end()


@EACH_MACHINE
@pytest.mark.parametrize("is_known", [True, False])
def test_each_row_is_added_once_and_what_else_is_carried_goes_on(features, is_known, rng):
    code = None
    for n in (0, 1, 15, 16, 31, 32, 33, 47, 48, 49, 100, 513):
        if is_known or code is None:
            function = rows_apart(n if is_known else None)
            code = compiled(function, features)
            assert ("smin" in emit_module([function], features)) is (not is_known or n >= 32)
        x, y = rng.integers(-999, 999, (n, 6)).astype(np.float64), np.zeros(2)
        assert call(code, function, (x, y, x.size, 6, *[n] * (not is_known))) == 0
        rows = x[:, :4].sum(axis=1)
        assert y.tolist() == [1 + rows.sum(), rows.max(initial=-np.inf)]


def test_a_sum_of_rows_that_lie_apart_errs_as_its_last_bit(rng):
    """Of 10,000 rows of 4 floats they were ten chains of 1,024 additions: it erred by 2.0 in the mean."""
    f, errors = ad.jit(lambda x: (x[:, -4:] ** 2).mean()), []
    for _ in range(20):
        x = rng.normal(size=(10_000, 32)).astype(np.float32)
        wide = (x[:, -4:].astype(np.float64) ** 2).mean()
        errors.append(abs(f(x) - wide) / np.spacing(np.float32(wide)))
    assert np.mean(errors) < 0.8
