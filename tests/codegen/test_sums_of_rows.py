"""A number that thousands of rows add up to errs by the rows' own rounding alone."""

import numpy as np
import pytest

import autodiff as ad


def logsumexp(x):
    return ad.sum(ad.logsumexp(x, axis=1))


def weighted_softmax(x, w):
    return ad.sum(ad.softmax(x, axis=1) * w)


def floats(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 50, 5000, 20000])
@pytest.mark.parametrize("columns", [6, 40])
def test_a_sum_over_rows_of_floats_errs_no_more_than_two_ulps(rows, columns, rng):
    x = floats(rng, rows, columns)
    value, gradient = ad.jit(ad.value_and_grad(logsumexp))(x)
    wide = np.exp(x.astype(np.float64))
    assert value.dtype == gradient.dtype == np.float32
    expected = np.log(wide.sum(axis=1)).sum()
    assert abs(value - expected) <= 2 * np.spacing(np.float32(expected))
    np.testing.assert_allclose(gradient, wide / wide.sum(axis=1, keepdims=True), rtol=2e-6)


def test_rows_that_cancel_lose_little_of_what_is_left(rng):
    x, w = floats(rng, 4096, 128), floats(rng, 4096, 128)
    value, _ = ad.jit(ad.value_and_grad(weighted_softmax))(x, w)
    e = np.exp(x.astype(np.float64))
    terms = (e / e.sum(axis=1, keepdims=True) * w).sum(axis=1)
    # Each row is within a few ulps of its own size; their roundings add up like a random walk.
    assert abs(value - terms.sum()) <= 2 * np.sqrt(np.sum(np.spacing(terms.astype(np.float32)) ** 2.0)) + np.spacing(
        np.float32(terms.sum())
    )


def test_what_overflows_as_a_float_is_infinite():
    x = np.full((100, 8), 3e38, np.float32)
    assert ad.jit(lambda x: ad.sum(ad.max(x, axis=1)))(x) == np.inf
    assert np.isnan(ad.jit(lambda x: ad.sum(ad.max(x, axis=1)))(np.full((100, 8), np.nan, np.float32)))


def test_rows_that_run_side_by_side_keep_all_lanes():
    for columns, is_wide in ((3, False), (6, True)):
        x = np.ones((100, columns), np.float32)
        assert ("arith.extf" in str(ad.inspect(logsumexp, x).mlir)) == is_wide


@pytest.mark.parametrize("sizes", [
    (3, 20_000), (4096, 4096), (8192, 1, 2, 9000), (5000, 100, 7, 3000), (1, 4095, 4097), (4100,), (12_289, 1),
], ids=str)  # fmt: skip
def test_long_sums_read_each_part_of_what_is_joined_without_a_test_per_element(sizes, rng):
    parts = [rng.standard_normal(n) for n in sizes]
    weights = rng.standard_normal(sum(sizes))

    def joined(*parts):
        return ad.sum(ad.concat([*parts]) * weights)

    value, slopes = ad.jit(ad.value_and_grad(joined, argnums=tuple(range(len(sizes)))))(*parts)
    np.testing.assert_allclose(value, np.concatenate(parts) @ weights, rtol=1e-11, atol=1e-11)
    for slope, expected in zip(slopes, np.split(weights, np.cumsum(sizes)[:-1]), strict=True):
        np.testing.assert_array_equal(slope, expected)
    if len(sizes) > 1:
        assert "select" not in ad.inspect(joined, *parts).mlir


@pytest.mark.parametrize("n", [4000, 4097, 8192, 50_001])
@pytest.mark.parametrize("shift", [1, -1, 4096, -4097, 3999])
def test_long_sums_of_what_is_rolled_or_padded(n, shift, rng):
    x, w = rng.standard_normal(n), rng.standard_normal(n)
    value, slope = ad.jit(ad.value_and_grad(lambda x: ad.sum(ad.roll(x, shift) * w)))(x)
    np.testing.assert_allclose(value, np.roll(x, shift) @ w, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(slope, np.roll(w, -shift))
    w = rng.standard_normal(n + 5)
    value, slope = ad.jit(ad.value_and_grad(lambda x: ad.sum(ad.pad(x, ((2, 3),)) * w + ad.pad(x[:-7], ((5, 7),)))))(x)
    np.testing.assert_allclose(value, np.pad(x, (2, 3)) @ w + x[:-7].sum(), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(slope, w[2:-3] + (np.arange(n) < n - 7), rtol=1e-13)


def rms_error(program, arrays, dtype, draws=8):
    """Of the sum of a program's elements over so many draws, in units of the last bit."""
    f, errors = ad.jit(lambda *a: ad.sum(program(ad, *a))), []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        drawn = [rng.uniform(0.2, 1.0, shape).astype(dtype) for shape in arrays]
        exact = program(np, *[a.astype(np.longdouble) for a in drawn]).sum()
        errors.append(float((f(*drawn) - exact) / exact))
    return np.sqrt(np.mean(np.square(errors))) / np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(3000, 2), (3000, 8), (1000, 14), (200, 7, 2)], ids=str)
def test_many_short_rows_are_no_long_chain(shape, dtype):
    weights = (*shape[:-1], 1)
    assert rms_error(lambda lib, x, w: x * w, [shape, weights], dtype) < 1.1


def test_what_rows_come_to_is_added_up_in_runs():
    assert rms_error(lambda lib, x: lib.max(x, axis=1), [(64, 1000)], "f8") < 0.6
    assert rms_error(lambda lib, x, w: lib.sqrt(lib.sum(x * x, axis=1)) * w, [(64, 1000), (64,)], "f8") < 0.6


def test_rows_of_rows_are_added_up_in_runs():
    def near(lib, x, y):
        return 1 / lib.sqrt(lib.sum((x[:, None] - y) ** 2, axis=2) + 1)

    assert rms_error(near, [(100, 3), (300, 3)], "f4") < 1.6


@pytest.mark.parametrize("shape", [(999, 50), (1000, 20), (410, 1, 8), (30, 20), (2500, 5), (81, 49), (58, 6, 9)])
def test_runs_end_where_rows_and_blocks_end(shape, rng):
    beyond = np.full((shape[0] + 600, *shape[1:]), 1e20)
    x, w = beyond[: shape[0]], rng.normal(size=(shape[0],) + (1,) * (len(shape) - 1))
    x[:] = rng.normal(size=shape)
    total, first, rest = ad.jit(lambda x, w: (ad.sum(x * w), ad.sum(x, 0), ad.sum(x * 2.0)))(x, w)
    alone = ad.jit(lambda x, w: ad.sum(x * w))(x, w)
    sizes = {"rtol": 1e-12, "atol": 1e-11}
    for found, expected in [(total, (x * w).sum()), (alone, (x * w).sum()), (first, x.sum(0)), (rest, 2 * x.sum())]:
        np.testing.assert_allclose(found, expected, **sizes)


def test_runs_are_the_same_for_any_number_of_threads(rng):
    x, w = rng.normal(size=(60_000, 9)), rng.normal(size=60_000)
    f, before = ad.jit(lambda x, w: ad.sum(x * w[:, None])), ad.config.threads
    try:
        found = set()
        for ad.config.threads in (1, 2, 3):
            found.add(f(x, w))
    finally:
        ad.config.threads = before
    assert len(found) == 1


@pytest.mark.parametrize("shape", [(5, 100, 1, 33), (5, 100, 3, 33), (70, 20, 33), (2, 300, 40, 9), (40, 3, 50, 7)])
def test_what_is_made_once_a_row_is_added_up_in_runs_of_its_own_columns(shape, rng):
    x = rng.normal(size=shape)

    def rows(lib, x):
        r = lib.sum(x * x, axis=-2)
        return lib.sum(lib.cos(r), axis=tuple(range(r.ndim - 1))), lib.sum(lib.cos(r), axis=0), lib.sum(x), r

    for ours, right in zip(ad.jit(lambda x: rows(ad, x))(x), rows(np, x), strict=True):
        np.testing.assert_allclose(ours, right, rtol=1e-12, atol=1e-11)
