"""Long sums: what runs of vectors add up to enters the sum, and not each vector."""

import numpy as np
import pytest
from nests import DTYPES, Nest, call, memref

from codegen.emit import emit_module
from codegen.kernel.nest import F32, F64, INDEX, Extent
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
    size = Extent(0) if extent is None else extent
    extra = {"n": INDEX} if extent is None else {}
    nest = Nest("summing", writes=("y",), x=memref(type, size), y=memref(type, 1), **extra)

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
    return engine.compile(emit_module([function], features), passes=engine.Passes.VECTORS)


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
