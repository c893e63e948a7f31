"""Sums over long columns: rows meet in accumulators, block by block, and the blocks' sums are added up exactly."""

import numpy as np
import pytest

import autodiff as ad


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("rows", "columns"), [(2_000, 8), (100_000, 8), (100_003, 3), (20_000, 32), (3_000, 700)])
def test_sums_of_columns_err_by_little_more_than_their_last_bit(rows, columns, dtype, rng):
    x = rng.uniform(0, 1, (rows, columns)).astype(dtype)
    exact = np.sum(x.astype(np.longdouble) ** 2, 0)
    total = ad.jit(lambda x: ad.sum(x * x, 0))(x)
    errors = np.abs((total.astype(np.longdouble) - exact) / exact).astype(float)
    assert errors.mean() < 1.0 * np.finfo(dtype).eps and errors.max() < 4.0 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_columns_with_infinities_and_nans_have_their_sums(dtype, rng):
    x = rng.uniform(-1, 1, (5_000, 5)).astype(dtype)
    x[700, 0] = np.inf
    x[4_000, 1] = -np.inf
    x[[10, 4_900], 2] = np.inf, -np.inf
    x[2_500, 3] = np.nan
    w = np.ones(5, dtype)
    total = ad.jit(lambda x, w: ad.sum(x * w, 0))(x, w)
    slope = ad.jit(ad.grad(lambda w, x: ad.sum(x * w)))(w, x)
    for found in (total, slope):
        np.testing.assert_array_equal(found[:4], np.array([np.inf, -np.inf, np.nan, np.nan], dtype))
        np.testing.assert_allclose(found[4], x[:, 4].sum(dtype=np.longdouble), rtol=1e-5 if dtype == "f4" else 1e-13)


def test_sums_of_columns_that_are_too_large_are_infinite(rng):
    x = np.full((4_000, 4), 1e306)
    np.testing.assert_array_equal(ad.jit(lambda x: ad.sum(x * 1.0, 0))(x), np.full(4, np.inf))


def test_what_is_lost_of_terms_far_larger_than_the_sum_is_kept_between_blocks():
    x = np.ones((4_096, 16))
    x[:512], x[-512:] = 1e17, -1e17
    total = ad.jit(lambda x: ad.sum(x * 1.0, 0))(x)
    np.testing.assert_array_equal(total, np.full(16, 4_096.0 - 1_024.0))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_rows_that_meet_one_by_one_are_added_up_in_runs(dtype, rng):
    def loss(w, x):
        centred = x - ad.mean(x, 1, keepdims=True)
        return ad.sum(w * (centred * centred + 1))

    x = rng.uniform(0, 1, (64, 4096)).astype(dtype)
    middle = rng.uniform(0, 1, (3, 200, 48)).astype(dtype)
    wide, small = x.astype(np.longdouble), x[:, :96].copy()
    squares = (small - small.astype(np.longdouble).mean(1, keepdims=True)) ** 2
    slope = ad.jit(ad.grad(loss))(np.ones(96, dtype), small)
    for found, exact, bound in [
        (ad.jit(lambda x: ad.sum(x * 1.0, 0))(x), wide.sum(0), 0.6),
        (ad.jit(lambda x: ad.sum(x * 1.0, 1))(middle), middle.sum(1, dtype=np.longdouble), 0.6),
        (slope, (squares + 1).sum(0), 0.6),
    ]:
        assert np.sqrt(np.mean(((found - exact) / exact) ** 2)) < bound * np.finfo(dtype).eps


def test_blocks_of_any_number_of_rows_are_whole_runs(rng):
    for columns in (13, 15, 37):
        x = rng.uniform(0, 1, (513, columns))
        centred = ad.jit(lambda x: ad.sum(x - ad.max(x, 1, keepdims=True), 0))(x)
        np.testing.assert_allclose(centred, (x - x.max(1, keepdims=True)).sum(0), rtol=1e-13)
