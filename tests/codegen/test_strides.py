"""Elements at a distance, known or not: every order of axes, every rest of a vector, near and far memory."""

import itertools
import re

import numpy as np
import pytest
from emitted import emit_module
from nests import Nest, call, memref

import autodiff as ad
from codegen.kernel.nest import F32, F64, INDEX
from codegen.runtime import engine

MACHINES = {"widest": engine.target_features(), "masks": "+avx2,+fma", "plain": ""}
EACH_MACHINE = pytest.mark.parametrize("features", MACHINES.values(), ids=MACHINES)
WIDEST = "+avx512f,+avx512dq,+avx512vl,+avx512bw,+fma"


def apart(type, times=1, twice=False):
    """y[i] = x[i * step * times] (+ x[2 * i * step]) for a step that only the run knows."""
    nest = Nest("apart", writes=("y",), x=memref(type), y=memref(type), n=INDEX, step=INDEX)
    with nest.parallel(nest.n) as i:
        at = nest.op("arith.muli", nest.op("arith.muli", i, nest.step), nest.constant(times))
        value = nest.load(nest.x, at)
        if twice:
            further = nest.op("arith.addi", at, nest.op("arith.muli", nest.step, i))
            value = nest.op("arith.addf", value, nest.load(nest.x, further))
        nest.store(value, nest.y, i)
    return nest.end()


@EACH_MACHINE
@pytest.mark.parametrize("type", [F64, F32], ids=str)
@pytest.mark.parametrize("times,twice", [(1, False), (-3, False), (1, True)])
def test_a_step_that_only_the_run_knows(type, times, twice, features, rng):
    function = apart(type, times, twice)
    code = engine.compile(emit_module([function], features))
    dtype = {F64: np.float64, F32: np.float32}[type]
    for n, step in itertools.product((0, 1, 3, 8, 16, 17, 63, 64, 100), (0, 1, 2, 7, 50)):
        # Nothing before the first or behind the last element that is read belongs to the array.
        reach = max(n - 1, 0) * step * max(abs(times), 1 + twice)
        x, y = rng.normal(size=reach + 1).astype(dtype), np.zeros(max(n, 1), dtype)
        if times < 0:
            # From its end: the kernel is given the address of the last element.
            step = -step
        assert call(code, function, (x, y, n, step)) == 0
        places = np.arange(n) * step * times
        expected = x[places] + (x[places + np.arange(n) * step] if twice else 0)
        np.testing.assert_array_equal(y[:n], expected)


def test_elements_at_a_distance_are_loaded_one_by_one():
    text = emit_module([apart(F64)], WIDEST)
    assert "gather" not in text and "masked" not in text
    assert len(re.findall(r"insertelement <\d+ x double>", text)) >= 8


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.bool_])
@pytest.mark.parametrize("shape", [(7, 5, 3), (40, 33, 10), (3, 100, 41), (2, 64, 64)])
def test_every_order_of_axes(dtype, shape, rng):
    x = (rng.normal(size=shape) * 5).astype(dtype)
    for axes in itertools.permutations(range(3)):
        np.testing.assert_array_equal(ad.jit(lambda x, axes=axes: ad.transpose(x, axes))(x), x.transpose(axes))


@pytest.mark.parametrize("columns", range(1, 36))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_any_length_are_written_and_nothing_behind_them(columns, dtype, rng):
    x = rng.normal(size=(columns, 9)).astype(dtype)
    np.testing.assert_array_equal(ad.jit(lambda x: ad.transpose(x, (1, 0)) * 2)(x), x.T * 2)
    rows = rng.normal(size=(9, columns)).astype(dtype)
    e = np.exp(rows.astype(np.float64))
    expected = e / e.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        ad.jit(lambda x: ad.softmax(x, axis=1))(rows), expected, rtol=3e-6 if dtype == np.float32 else 1e-14
    )


def test_transposes_of_many_sizes_share_a_kernel_and_are_right(rng):
    f = ad.jit(lambda x: ad.transpose(x, (1, 0)) + 1)
    for shape in ((3, 1000), (1000, 3), (10, 400), (400, 10), (33, 77), (64, 64)):
        x = rng.normal(size=shape)
        np.testing.assert_array_equal(f(x), x.T + 1)


@pytest.mark.parametrize("many", [
    lambda m, x: m.repeat(x, 3, axis=1), lambda m, x: m.repeat(x, 5, axis=0), lambda m, x: m.tile(x, (4, 2)),
    lambda m, x: m.tile(x, (2, 3, 2)), lambda m, x: m.tile(m.repeat(x, 2, axis=1), (1, 3)),
], ids=["repeat 1", "repeat 0", "tile 2", "tile 3", "both"])  # fmt: skip
@pytest.mark.parametrize("shape", [(6, 10), (41, 7), (300, 50), (1, 3)], ids=str)
def test_repeats_and_tiles_divide_nothing(many, shape, rng):
    x = rng.normal(size=shape)
    expected = many(np, x)
    weights = rng.normal(size=expected.shape)
    value, slope = ad.jit(ad.value_and_grad(lambda x: ad.sum(many(ad, x) ** 2 * weights)))(x)
    np.testing.assert_array_equal(ad.jit(lambda x: many(ad, x))(x), expected)
    np.testing.assert_allclose(value, np.sum(expected**2 * weights), rtol=1e-12)
    places = many(np, np.arange(x.size).reshape(shape))
    np.testing.assert_allclose(slope.ravel(), 2 * x.ravel() * np.bincount(places.ravel(), weights.ravel()),
                               rtol=1e-11, atol=1e-12)
    text = ad.inspect(lambda x: many(ad, x) + 1.0, x).mlir
    assert "divsi" not in text and "remsi" not in text
