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
