"""Derivatives and compositions whose roundings are made good: errors against wider numbers, in last bits."""

import mpmath
import numpy as np
import pytest
from natively import fuses_products

import autodiff as ad

FUSED = pytest.mark.skipif(not fuses_products(), reason="bounds of fused multiply-adds")


def errors(found, exact):
    """found - exact in last bits of it."""
    found = np.asarray(found)
    return ((found.astype(np.longdouble) - exact) / np.spacing(np.abs(exact).astype(found.dtype))).astype(float)


def slope(f, x):
    return ad.jit(ad.grad(lambda x: ad.sum(f(x))))(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("f", "exact", "low", "high"),
    [
        (ad.arcsin, lambda x: 1 / np.sqrt((1 - x) * (1 + x)), -0.9999, 0.9999),
        (ad.arccos, lambda x: -1 / np.sqrt((1 - x) * (1 + x)), -0.9999, 0.9999),
        (ad.arcsinh, lambda x: 1 / np.sqrt(1 + x * x), -3, 3),
        (ad.arcsinh, lambda x: 1 / np.sqrt(1 + x * x), 0, 1e-3),
        (ad.arccosh, lambda x: 1 / np.sqrt((x - 1) * (x + 1)), 1.001, 5),
    ],
)
def test_slopes_of_roots_err_by_little_more_than_a_rounding(f, exact, low, high, dtype, rng):
    x = rng.uniform(low, high, 50_000).astype(dtype)
    found = errors(slope(f, x), exact(x.astype(np.longdouble)))
    assert np.abs(found).max() < 1.05
    assert np.sqrt(np.mean(found**2)) < 0.36


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_over_a_root_is_rounded_as_if_once(dtype, rng):
    x = np.exp(rng.uniform(-60, 60, 50_000)).astype(dtype)
    assert np.abs(errors(ad.jit(lambda x: x**-0.5)(x), 1 / np.sqrt(x.astype(np.longdouble)))).max() < 0.51


def test_one_over_a_root_is_right_at_its_ends():
    x = np.array([0.0, -0.0, np.inf, -1.0, np.nan, 5e-324, 1.7e308])
    found = ad.jit(lambda x: x**-0.5)(x)
    np.testing.assert_array_equal(found[:5], [np.inf, np.inf, 0.0, np.nan, np.nan])
    np.testing.assert_allclose(found[5:], x[5:] ** -0.5, rtol=1e-15)


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (ad.arcsin, [-1.0, 1.0, 1.5, 0.0], [np.inf, np.inf, np.nan, 1.0]),
        (ad.arcsinh, [0.0, 1e9, -1e200, np.inf], [1.0, 1e-9, 1e-200, 0.0]),
        (ad.arccosh, [1.0, 1e9, 1e200, np.inf, 0.5, -2.0], [np.inf, 1e-9, 1e-200, 0.0, np.nan, np.nan]),
    ],
)
def test_slopes_of_roots_are_right_at_their_ends(f, x, expected):
    np.testing.assert_allclose(slope(f, np.array(x)), expected, rtol=1e-15)


@FUSED
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("low", "high"), [(-30, -8), (-8, -1), (-1, 1), (1, 8), (8, 30)])
def test_a_sigmoid_errs_by_little_more_than_its_exponential(low, high, dtype, rng):
    """It was 2 last bits far below 0, where a sum and a quotient were rounded besides, and 1.5 above."""
    x = rng.uniform(low, high, 50_000).astype(dtype)
    found = errors(ad.jit(ad.sigmoid)(x), 1 / (1 + np.exp(-x.astype(np.longdouble))))
    assert np.sqrt(np.mean(found**2)) < (0.48 if low == -1 else 0.44)
    assert np.abs(found).max() < 1.6


def test_the_slope_of_a_logarithm_to_base_10_has_no_side(rng):
    """Its constant was 1.2 last bits too small."""
    x = rng.uniform(1, 10, 50_000)
    found = errors(slope(ad.log10, x), 1 / (x * np.log(np.longdouble(10))))
    assert abs(found.mean()) < 0.25


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("f", "exact", "low", "high", "bound"),
    [
        (ad.special.erfc, mpmath.erfc, -0.49, 0.49, 0.33),
        (ad.special.ndtr, mpmath.ncdf, -0.65, 0.65, 0.34),
        (lambda x: slope(ad.special.log_ndtr, x), lambda x: mpmath.npdf(x) / mpmath.ncdf(x), -0.65, 0.65, 1.0),
    ],
)
def test_what_is_one_or_a_half_and_a_series_is_rounded_once(f, exact, low, high, bound, dtype, rng):
    """They erred by .8 to 1.6 last bits in the mean, to one side by half of that."""
    x = np.sort(rng.uniform(low, high, 500)).astype(dtype)
    with mpmath.workdps(30):
        wide = np.array([np.longdouble(mpmath.nstr(exact(mpmath.mpf(float(v))), 25)) for v in x])
    assert np.sqrt(np.mean(errors(f(x), wide) ** 2)) < bound


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1.0, 1e-30, 1e30])
def test_the_slopes_of_an_angle_err_by_a_sum_and_a_quotient(size, dtype, rng):
    """By three quotients it was 1.1 last bits in the mean, and 4 of the time."""
    y, x = (size * rng.normal(size=(2, 20_000))).astype(dtype)
    found = ad.jit(ad.grad(lambda y, x: ad.sum(ad.arctan2(y, x)), (0, 1)))(y, x)
    a, b = y.astype(np.longdouble), x.astype(np.longdouble)
    for part, exact in zip(found, (b / (a * a + b * b), -a / (a * a + b * b)), strict=True):
        assert np.sqrt(np.mean(errors(part, exact) ** 2)) < 0.6


def test_the_slopes_of_an_angle_are_right_for_the_largest_and_smallest_numbers():
    y, x = np.array([[1.7e308, 3e-200, 5e-324, 0.0, 0.0], [1e308, 4e-200, 0.0, 2.0, 0.0]])
    by_y, by_x = ad.jit(ad.grad(lambda y, x: ad.sum(ad.arctan2(y, x)), (0, 1)))(y, x)
    np.testing.assert_allclose(by_y, [1 / 1.7e308 / 3.89 * 1.7, 1.6e199, 0.0, 0.5, np.nan], rtol=1e-15)
    np.testing.assert_allclose(by_x, [-1.7 / 1.7e308 / 3.89 * 1.7, -1.2e199, -np.inf, 0.0, np.nan], rtol=1e-15)


def test_mish_is_x_where_its_exponential_would_overflow():
    x = np.array([25.0, 800.0, 1e300, -800.0])
    np.testing.assert_array_equal(ad.mish(x), [25.0, 800.0, 1e300, 0.0])
    np.testing.assert_array_equal(slope(ad.mish, x), [1.0, 1.0, 1.0, 0.0])
    assert np.isnan(ad.mish(np.array([np.nan]))).all()
