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
