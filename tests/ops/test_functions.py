"""Special functions, quantiles, searches and sequences beyond the laws of the sweep: accuracy, ends, errors."""

import subprocess
import sys
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest

import autodiff as ad

sp = ad.special
INF = np.inf

#: (function, mpmath's, points, ulps)
ACCURATE = [
    ("gammaln", lambda x: mpmath.log(abs(mpmath.gamma(x))), [1e-20, 0.3, 0.999999, 1.0001, 1.5, 1.99999, 2.00001, 2.7,
     3.0, 7.99, 8.0, 30.0, 1e5, 1e10, -0.5, -3.7, -1e-16, -1e-19, -1e-36, -1e-200, -1e-300], 4),
    ("gamma", mpmath.gamma, [1e-20, 0.3, 1.5, 2.5, 11.9, 12.1, 50.0, 170.6, -0.5, -10.3, -1e-16, -1e-19, -1e-36,
     -1e-200], 5),
    ("digamma", mpmath.digamma, [1e-10, 0.3, 2.0, 11.9, 12.1, 1e6, -0.3, -1e-8, -1e-200,
     -2.0 - 2.0**-40, -0.9999999], 8),
    ("erfc", mpmath.erfc, [-5.0, -0.6, -0.4, 1e-20, 0.3, 0.49, 0.51, 0.544, 1.5, 3.0, 10.0, 26.0], 5),
    ("log_ndtr", lambda x: mpmath.log(mpmath.ncdf(x)), [-1e4, -40.0, -3.0, -1e-3, 0.5, 3.0], 16),
    ("i0", lambda x: mpmath.besseli(0, x), [0.0, 1e-5, 3.0, 7.99, 8.01, 100.0, 712.0], 8),
    ("i1", lambda x: mpmath.besseli(1, x), [0.0, 1e-5, -3.0, 7.99, 8.01, 100.0, 712.0], 12),
    ("i0e", lambda x: mpmath.exp(-x) * mpmath.besseli(0, x), [0.0, 5.0, 9.0, 1e5], 8),
]  # fmt: skip


@pytest.mark.parametrize(("name", "exact", "points", "ulps"), ACCURATE, ids=[a[0] for a in ACCURATE])
def test_special_functions_are_as_accurate_as_they_say(name, exact, points, ulps):
    with mpmath.workdps(40):
        expected = np.array([float(exact(mpmath.mpf(x))) for x in points])
    found = ad.jit(getattr(sp, name))(np.array(points))
    assert np.all(np.abs(found - expected) <= ulps * np.spacing(np.abs(expected)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_derivatives_of_bessel_functions_cancel_nowhere_near_zero(dtype):
    """The first three; those of I1 are made of I1(x) / x, which has powers of x in its derivatives' denominators."""
    points = np.array([0.0, 1e-30, 1e-8, -1e-8, 1e-3, 0.1, 0.4999, 0.5001, -0.6, 3.0], dtype)
    with mpmath.workdps(60):
        for name, exact in {"i0": lambda x: mpmath.besseli(0, x), "i1": lambda x: mpmath.besseli(1, x)}.items():
            f = getattr(sp, name)
            for order in (1, 2, 3):
                f = ad.grad(lambda x, f=f: ad.sum(f(x)))
                expected = [float(mpmath.diff(exact, mpmath.mpf(float(x)), order)) for x in points]
                slack = 100 * np.finfo(dtype).eps
                found, label = ad.jit(f)(points), f"{name} {order}"
                np.testing.assert_allclose(found, expected, rtol=slack, atol=slack, err_msg=label)
    above = np.array([1e-30, 1e-8, 0.3, 0.7], dtype)
    f = ad.grad(lambda x: ad.sum(ad.grad(lambda x: ad.sum(sp.i1e(x)))(x)))
    with mpmath.workdps(60):
        expected = [float(mpmath.diff(lambda t: mpmath.exp(-t) * mpmath.besseli(1, t), mpmath.mpf(float(x)), 2))
                    for x in above]
    np.testing.assert_allclose(f(above), expected, rtol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_beta_functions_logarithm_and_slopes_are_right_where_one_argument_is_large(dtype):
    a = np.array([1000, 1, 50, 1e6, 10, 9.5, 0.25, 1000, 3, 1e5], dtype)
    b = np.array([1, 1000, 2, 2, 0.5, 9.75, 11, 900, 4, 1e-3], dtype)
    with mpmath.workdps(40):
        pairs = [(mpmath.mpf(float(x)), mpmath.mpf(float(y))) for x, y in zip(a, b, strict=True)]
        value = [float(mpmath.log(mpmath.beta(x, y))) for x, y in pairs]
        slope = [float(mpmath.digamma(y) - mpmath.digamma(x + y)) for x, y in pairs]
    rtol = 30 * np.finfo(dtype).eps
    np.testing.assert_allclose(ad.jit(sp.betaln)(a, b), value, rtol=rtol)
    np.testing.assert_allclose(ad.grad(lambda b: ad.sum(sp.betaln(a, b)))(b), slope, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(ad.grad(lambda b: ad.sum(sp.betaln(b, a)))(b), slope, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_polygamma_is_accurate_beside_its_poles(n):
    """Also where the distance to the pole is all there is: -1e-8 is not 1 - 1e-8 away from -1."""
    points = [-1e-8, -1e-3, -1.0 + 2.0**-30, -1.0 - 2.0**-30, -5.0 + 2.0**-40, -0.75]
    with mpmath.workdps(40):
        expected = [float(mpmath.polygamma(n, mpmath.mpf(x))) for x in points]
    np.testing.assert_allclose(ad.jit(lambda x: sp.polygamma(n, x))(np.array(points)), expected, rtol=1e-14)


def test_special_functions_have_the_values_of_their_limits():
    inf, nan = np.inf, np.nan
    ends = np.array([0.0, -1.0, inf, -inf, nan])
    for name, expected in {
        "gammaln": [inf, inf, inf, inf, nan], "gamma": [inf, nan, inf, nan, nan],
        "digamma": [-inf, nan, inf, nan, nan], "i0": [1, sp.i0(1.0).item(), inf, inf, nan],
        "i1": [0, -sp.i1(1.0).item(), inf, -inf, nan], "i0e": [1, sp.i0e(1.0).item(), 0, 0, nan],
        "entr": [0, -inf, -inf, -inf, nan], "logit": [-inf, nan, nan, nan, nan],
        "log_ndtr": [np.log(0.5), sp.log_ndtr(-1.0).item(), 0, -inf, nan],
    }.items():  # fmt: skip
        np.testing.assert_allclose(ad.jit(getattr(sp, name))(ends), expected, rtol=5e-16, err_msg=name)
    assert sp.xlogy(0.0, 0.0) == 0 and np.isnan(sp.xlogy(0.0, nan)) and sp.rel_entr(1.0, 0.0) == inf


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_values_near_zeros_and_poles_have_all_their_digits(dtype, rng):
    for f, exact, points, ulps in [
        (ad.special.logit, lambda x: mpmath.log(x / (1 - x)), [*rng.uniform(0.49, 0.51, 20), 0.36, 0.38, 0.62, 0.9], 2),
        (ad.special.log_ndtr, lambda x: mpmath.log(mpmath.ncdf(x)), [*rng.normal(size=20) * 0.01, 0.4, -0.4], 1.5),
        (ad.special.digamma, mpmath.digamma, rng.uniform(0.05, 0.3, 20), 1.5),
    ]:
        x = np.array(points, dtype)
        with mpmath.workdps(40):
            found = map(float, ad.jit(f)(x))
            errors = [abs(y / exact(mpmath.mpf(float(one))) - 1) for y, one in zip(found, x, strict=True)]
        assert max(errors) < ulps * np.finfo(dtype).eps, f


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_tails_of_the_normal_distribution_have_all_their_digits(dtype):
    x = np.array([-35.0, -14.3, -7.1, -2.3, -0.71, -0.3] if dtype == "f8" else [-12.7, -7.1, -2.3, -0.71, -0.3], dtype)
    low = mpmath.ncdf
    for f, exact, at in [
        (ad.special.ndtr, low, x),
        (ad.special.log_ndtr, lambda x: mpmath.log1p(-low(-x)), -x),
        (ad.grad(lambda x: ad.sum(ad.special.log_ndtr(x))), lambda x: mpmath.npdf(x) / low(x), -x),
    ]:
        with mpmath.workdps(400):
            found = map(float, ad.jit(f)(at))
            errors = [abs(y / exact(mpmath.mpf(float(one))) - 1) for y, one in zip(found, at, strict=True)]
        assert max(errors) < 4 * np.finfo(dtype).eps, f


def test_the_place_of_a_quantile_of_floats_is_known_to_all_digits(rng):
    x = rng.normal(size=3000).astype(np.float32)
    slope = ad.grad(lambda x: ad.quantile(x, 0.3))(x)
    assert slope.dtype == np.float32
    np.testing.assert_allclose(np.sort(slope)[-2:], [0.3, 0.7], rtol=1e-6)  # 0.3 * 2999 is 899.7


def test_quantiles_are_numpys_whatever_the_axes_and_where_nans_are(rng):
    x = rng.normal(size=(5, 6, 2))
    holed = np.where(rng.uniform(size=x.shape) < 0.2, np.nan, x)
    for axis in (None, 0, (0, 1), (-1,)):
        for keepdims in (False, True):
            how = {"axis": axis, "keepdims": keepdims}
            q, few = [[0.0, 0.3], [0.75, 1.0]], [0.0, 0.3]
            np.testing.assert_allclose(ad.quantile(x, q, **how), np.quantile(x, q, **how), rtol=1e-13)
            np.testing.assert_allclose(ad.nanquantile(holed, few, **how), np.nanquantile(holed, few, **how), rtol=1e-13)
            np.testing.assert_allclose(ad.median(holed, **how), np.median(holed, **how), rtol=1e-13)
    for method in ("linear", "lower", "higher", "nearest", "midpoint"):
        np.testing.assert_allclose(
            ad.percentile(x, 37.0, axis=0, method=method), np.percentile(x, 37.0, axis=0, method=method), rtol=1e-13)
    assert np.isnan(ad.nanmedian([np.nan, np.nan])) and ad.median([np.inf, np.inf, 1.0]) == np.inf
    with pytest.raises(ad.DispatchError, match="quantile: method is 'linear'"):
        ad.quantile(x, 0.5, method="cubic")
    with pytest.raises(ad.DispatchError, match=r"median: f64\[0\] has no elements"):
        ad.median(np.zeros(0))


@pytest.mark.parametrize("name", ["median", "nanmedian", "quantile", "nanquantile", "percentile", "nanpercentile"])
def test_no_rows_have_no_quantiles_and_only_rows_without_elements_are_refused(name):
    theirs = getattr(np, name.removeprefix("nan"))  # NumPy's nanquantile of no elements loses the axis of q
    x, q = np.zeros((0, 2)), () if name.endswith("median") else ([0.3, 0.5],)
    for how in ({"axis": -1}, {"axis": (1,), "keepdims": True}):
        of = lambda x, how=how: getattr(ad, name)(x, *q, **how)  # noqa: E731
        for y in (of(x), ad.jit(of)(x)):
            assert y.shape == theirs(x, *q, **how).shape
        assert ad.grad(lambda x, of=of: ad.sum(of(x)))(x).shape == (0, 2)
    for axis in (0, None):
        with pytest.raises(ad.DispatchError, match=r"f64\[0,2\] has no elements"):
            getattr(ad, name)(x, *q, axis=axis)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_between_a_number_and_infinity_a_quantile_is_infinite(is_compiled):
    made = ad.jit if is_compiled else lambda f: f
    x = np.array([[3.0, -INF, 5.0, -INF], [1.0, 2.0, INF, INF], [0.0, 1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(made(lambda x: ad.median(x, axis=1))(x), np.median(x, axis=1))
    np.testing.assert_array_equal(made(lambda x: ad.quantile(x, 0.4, axis=1))(x)[:2], [-INF, INF])
    np.testing.assert_array_equal(made(lambda x: ad.nanmedian(x))(np.array([-INF, np.nan, 1.0])), -INF)
    assert np.isnan(made(lambda x: ad.median(x))(np.array([INF, -INF])))
    slope = ad.grad(lambda x: ad.sum(ad.median(x, axis=1)))(x)
    np.testing.assert_array_equal(slope[0], [0.5, 0.0, 0.0, 0.5])  # the last -inf in order


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9])
def test_places_are_numpys_also_of_equal_elements_and_of_nan(n, rng):
    a = np.sort(rng.integers(-3, 4, n).astype(float))
    a[n - 1 :] = np.nan
    v = np.array([[-9.0, -1, 0, 1, 2, 9], [np.inf, -np.inf, np.nan, 0.5, -0.0, 3]])
    for side in ("left", "right"):
        np.testing.assert_array_equal(ad.jit(ad.searchsorted, static_argnums=2)(a, v, side),
                                      np.searchsorted(a, v, side))
    bins = np.unique(a[:-1])
    for edges in (bins, bins[::-1].copy()):
        for right in (False, True):
            np.testing.assert_array_equal(ad.digitize(v[:1], edges, right), np.digitize(v[:1], edges, right))


def test_histograms_count_as_numpys_do(rng):
    x = np.concatenate([rng.normal(size=50), [0.0, 0.5, 1.0, 5.0]])
    for how in ({}, {"bins": 7, "range": (-1.0, 1.0)}, {"bins": np.array([-1.0, 0.0, 0.5, 1.0])},
                {"bins": 5, "density": True}, {"weights": np.abs(x)}):  # fmt: skip
        for found, expected in zip(ad.histogram(x, **how), np.histogram(x, **how), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-13)
    singles, edges = np.array([0.1, 0.3, 0.7], np.float32), [0.0, 0.1, 0.3, 0.7, 1.0]  # 0.7 is below the edge
    for found, expected in zip(ad.histogram(singles, edges), np.histogram(singles, edges), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_histogram_says_what_does_not_fit():
    x = [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(ad.histogram(x, np.int64(2))[0], [1, 2])
    for how, message in {"range": "the ends of range rise, not", "bins": "edges rise, not"}.items():
        with pytest.raises(ad.DispatchError, match=message):
            ad.histogram(x, **{how: (3.0, 1.0)})
    with pytest.raises(ad.ShapeError, match=r"weights are f64\[2\], x is f64\[3\]"):
        ad.histogram(x, weights=[1.0, 2.0])


def test_what_is_no_number_is_replaced_in_both_parts_of_complex_ones():
    x = np.array([complex(np.nan, 1.0), complex(-np.inf, np.inf), complex(2.0, np.nan)])
    np.testing.assert_array_equal(ad.nan_to_num(x), np.nan_to_num(x))
    how = {"nan": 1.0, "posinf": 2.0, "neginf": 3.0}
    np.testing.assert_array_equal(ad.nan_to_num(x, **how), np.nan_to_num(x, **how))


def test_lines_through_points_end_as_numpys_do():
    xp, fp = np.array([0.0, 1, 2.5, 4]), np.array([1.0, -1, 3, 0])
    x = np.array([-1, 0, 0.5, 1, 2, 2.5, 3.9, 4, 5, np.nan])
    for how in ({}, {"left": -5.0, "right": 7.0}, {"period": 5.0}):
        np.testing.assert_allclose(ad.interp(x, xp, fp, **how), np.interp(x, xp, fp, **how), rtol=1e-13)
    for ends in ([1.0, INF], [-INF, 2.0], [INF, INF], [-INF, INF], [INF, 2.0]):
        points, fp = np.array([0.0, 0.25, 1.0]), np.array([ends[0], *ends])
        for f in (ad.interp, ad.jit(ad.interp)):
            np.testing.assert_array_equal(f(points, xp[:3], fp), np.interp(points, xp[:3], fp))
    slopes = ad.grad(lambda x: ad.interp(x, [0.0, 1.0, 3.0], [0.0, 2.0, 8.0]).sum())(np.array([0.0, 0.5, 1.0, 2.0]))
    np.testing.assert_array_equal(slopes, [2.0, 2.0, 3.0, 3.0])  # at a point that of the line behind it
    with pytest.raises(ad.ShapeError, match="interp: points are two rows of one length"):
        ad.interp(x, xp, fp[:2])


@pytest.mark.parametrize(
    ("xp", "fp"),
    [
        ([-np.inf, 0, np.inf], [1, 2, 3]), ([0, 1, 2], [0, np.inf, 5]), ([0, 1, 2], [-np.inf, np.inf, np.inf]),
        ([0, 1, 2], [np.inf, np.inf, -np.inf]), ([0, 1, 2], [np.nan, 1, 2]), ([0, 1, np.inf], [0, 1, 2]),
        ([-np.inf, np.inf], [0, 1]), ([-np.inf, np.inf], [4, 4]), ([0, np.inf, np.inf], [0, 1, 2]),
        ([0, 1, 1, 2], [0, 1, 5, 6]), ([-1.7e308, 1.7e308], [0, 1]), ([0, 1], [-1.7e308, 1.7e308]),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's
def test_lines_through_infinite_points_are_numpys(xp, fp):
    x, xp, fp = np.array([-np.inf, -1, 0, 0.5, 1, 1.5, 2, 3, 1e308, np.inf, np.nan]), np.array(xp), np.array(fp)
    xp, fp = xp.astype(float), fp.astype(float)
    for interp in (ad.interp, ad.jit(ad.interp)):
        np.testing.assert_allclose(interp(x, xp, fp), np.interp(x, xp, fp), rtol=1e-13)


def test_convolutions_are_numpys_whatever_the_lengths(rng):
    for m, n in ((7, 1), (7, 2), (7, 3), (7, 6), (7, 7), (7, 8), (7, 11), (60, 32), (60, 33), (40, 70)):
        a, v = rng.normal(size=m), rng.normal(size=n)
        for mode in ("full", "same", "valid"):
            np.testing.assert_allclose(ad.convolve(a, v, mode), np.convolve(a, v, mode), atol=1e-13)
            np.testing.assert_allclose(ad.correlate(a, v, mode), np.correlate(a, v, mode), atol=1e-13)
    with pytest.raises(ad.DispatchError, match="convolve: mode is 'full'"):
        ad.convolve(a, a, "circular")


@pytest.mark.parametrize("n", [5, 40])
def test_an_infinity_is_in_the_windows_that_hold_it_and_in_no_other_sum(n, rng):
    a, v = rng.normal(size=100), np.exp(rng.normal(size=n))
    a[50] = np.inf
    np.testing.assert_allclose(ad.jit(ad.convolve)(a, v), np.convolve(a, v), rtol=1e-12)
    seed = np.where(np.arange(99 + n) == 60, np.inf, 1.0)
    _, pullback = ad.vjp(ad.convolve, np.ones(100), v)
    from_a, from_v = pullback(seed)
    np.testing.assert_allclose(from_a, np.convolve(seed, v[::-1], "valid"), rtol=1e-12)
    np.testing.assert_allclose(from_v, np.convolve(seed, np.ones(100), "valid"), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.complex64, np.complex128])
def test_long_convolutions_keep_their_dtype(dtype, rng):
    a, v = (rng.integers(-9, 9, size=size).astype(dtype) for size in (80, 40))
    found = ad.jit(ad.convolve)(a, v)
    np.testing.assert_array_equal(found, np.convolve(a, v))
    assert found.dtype == dtype


def test_cube_roots_and_powers_of_two_are_right_at_every_size():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 8, -27, 1e300, 5e-324, -1e-310, 1000.0])
    np.testing.assert_array_max_ulp(ad.jit(ad.cbrt)(x)[5:], np.cbrt(x)[5:], 1)
    np.testing.assert_array_equal(ad.jit(ad.cbrt)(x)[:5], np.cbrt(x)[:5])
    np.testing.assert_array_equal(ad.jit(ad.exp2)(np.array([-1074.0, -3, 0, 10, 1023, 1024, -np.inf])),
                                  [5e-324, 0.125, 1, 1024, 2.0**1023, np.inf, 0])


def test_numpys_functions_of_tensors_are_ours_though_their_modules_come_late():
    script = (
        "import sys, numpy as np, autodiff as ad\n"
        "late = {'quantiles', 'rarer', 'searching', 'sequences', 'special'}\n"
        "assert not late & {m.rpartition('.')[2] for m in sys.modules if m.startswith('autodiff.ops')}\n"
        "t = ad.tensor([1.0, 3.0], requires_grad=True)\n"
        "for y in (np.median(t), np.cbrt(t), np.i0(t), np.interp(t, t, t), np.convolve(t, t)): assert y.requires_grad\n"
        "assert {'median', 'special'} <= set(dir(ad)) & set(ad.__all__)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("quantile", lambda: ad.quantile(np.ones(3), 1.5)), ("quantile", lambda: ad.quantile(np.ones(3), [0.5, -0.1])),
        ("percentile", lambda: ad.percentile(np.ones(3), [50.0, 101.0])),
        ("vander", lambda: ad.vander(np.ones(3), -1)),
    ],
)
def test_numbers_that_are_no_share_or_count_are_refused(name, call):
    with pytest.raises((ad.DispatchError, ad.ShapeError), match=rf"{name}: .* not .*-?[\d.]+"):
        call()


def test_the_parts_of_floats_are_numpys_to_the_bit_natively_at_all_ends():
    for dtype in (np.float64, np.float32):
        ends = np.finfo(dtype)
        small = ends.smallest_subnormal
        numbers = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, ends.tiny, ends.tiny / 2, -small, 3 * small, ends.max,
                   -ends.max, 1 + ends.eps, 0.5, -7.5, 3.0, -2.0]  # fmt: skip
        x = np.array(numbers, dtype)
        a, b = (m.ravel() for m in np.meshgrid(x, x))
        exponents = np.array([0, 1, -1, 60, -60, 1023, -1022, -1050, 2098, -2200, 2**31 - 1, -(2**31)])
        c, n = (m.ravel() for m in np.meshgrid(x, exponents))
        calls = [("copysign", (a, b)), ("nextafter", (a, b)), ("fmod", (a, b)), ("modf", (x,)), ("frexp", (x,)),
                 ("signbit", (x,)), ("ldexp", (c, n)), ("divmod", (a, b))]  # fmt: skip
        for name, arguments in calls:
            found = ad.jit(getattr(ad, name))(*arguments)
            with np.errstate(all="ignore"):
                wanted = getattr(np, name)(*[np.int32(v) if v is n else v for v in arguments])
            for one, other in zip(*[v if isinstance(v, tuple) else (v,) for v in (found, wanted)], strict=True):
                assert one.dtype == other.dtype, name
                np.testing.assert_array_equal(one, other, err_msg=name)
                signed = ~np.isnan(other)
                np.testing.assert_array_equal(np.signbit(one[signed]), np.signbit(other[signed]), err_msg=name)


def test_floats_of_integers_and_of_complex_numbers():
    whole = ad.tensor([2, -4])
    assert np.float_power(whole, -1).numpy().tolist() == [0.5, -0.25]
    assert np.fabs(whole).dtype == np.float64
    np.testing.assert_allclose(ad.angle(np.array([1 + 1j, -2.0])), np.angle(np.array([1 + 1j, -2.0])))
    np.testing.assert_allclose(ad.grad(lambda z: ad.angle(z))(1j), -1.0)
    for wrong in (lambda: ad.copysign(1j, 1.0), lambda: ad.ldexp(1.0, 0.5), lambda: ad.fmod(1j, 2.0)):
        with pytest.raises(ad.DTypeError):
            wrong()


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "max", "min", "argmax", "argmin"])
def test_what_skips_nan_is_called_as_it_is_so_that_machine_code_records_it(name):
    f = getattr(ad, f"nan{name}")
    f(ad.ones(3))
    run, _ = f.served_by((ad.ones(3),))
    assert run is not None and not isinstance(run, partial)


@pytest.mark.parametrize("wrong", ["x", None, {}])
@pytest.mark.parametrize("f", [
    lambda x, wrong: ad.leaky_relu(x, wrong),
    lambda x, wrong: ad.elu(x, wrong),
    lambda x, wrong: ad.isclose(x, x, rtol=wrong),
    lambda x, wrong: ad.isclose(x, x, atol=wrong),
    lambda x, wrong: ad.trapezoid(x, dx=wrong),
    lambda x, wrong: ad.linalg.matrix_rank(ad.diag(x), rtol=wrong or "x"),
    lambda x, wrong: ad.unwrap(x, period=Fraction(1, 2)),
])  # fmt: skip
def test_an_argument_that_is_no_number_is_told_with_the_users_line(f, wrong):
    with pytest.raises(ad.DispatchError, match=r"is .*, not a tensor\n  called at "):
        f(np.ones(3), wrong)


def test_a_users_method_of_nanprod_takes_no_dtype():
    class Own(ad.AbstractTensor):
        pass

    @ad.nanprod.method(Own)
    def method(x, axis=None, *, keepdims=False):
        return ad.tensor(7.0)

    try:
        assert ad.nanprod(Own()) == 7.0
    finally:
        method.delete()
    x = np.array([2.0, np.nan, 3.0])
    assert ad.nanprod(x, dtype=np.float32).dtype == np.float32
    assert ad.nanprod(x, initial=2.0) == 12.0 and ad.nanprod(x, where=[True, True, False]) == 2.0


def test_the_larger_of_a_number_and_nan_has_all_of_the_gradient():
    a, b = np.array([1.0, np.nan, 2.0, np.nan]), np.array([np.nan, 3.0, 2.0, np.nan])
    for f in (ad.fmax, ad.fmin):
        da, db = ad.grad(lambda a, b, f=f: f(a, b).sum(), argnums=(0, 1))(a, b)
        np.testing.assert_array_equal(da, [1.0, 0.0, 0.5, 0.0])
        np.testing.assert_array_equal(db[:3], [0.0, 1.0, 0.5])


def test_what_is_not_selected_gets_no_gradient():
    def f(x):
        return ad.select([x > 0, x < -1], [ad.log(x), 1.0], 0.0).sum()

    np.testing.assert_array_equal(ad.grad(f)(np.array([2.0, 0.0, -3.0])), [0.5, 0.0, 0.0])
    with pytest.raises(ad.ShapeError, match=r"select: 1 conditions for 2 choices(?s:.*)test_functions\.py"):
        ad.select([True], [1.0, 2.0])


@pytest.mark.parametrize("dtypes", ["?f", "f?", "??", "i?", "ifF", "d"])
def test_choices_and_the_default_are_of_one_dtype(dtypes):
    choices = [np.ones(2, dtype) for dtype in dtypes]
    for default in (0, 0.5, np.float32(1), True):
        wanted = np.select([np.array([True, False])] * len(choices), choices, default)
        found = ad.select([np.array([True, False])] * len(choices), choices, default)
        assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist()


def test_places_are_asked_for_and_not_while_tracing():
    x = np.array([[0.0, 2.0], [np.nan, 0.0]])
    for name in ("nonzero", "flatnonzero", "argwhere"):
        found = getattr(np, name)(ad.tensor(x, requires_grad=True))
        np.testing.assert_array_equal(np.array([t.numpy() for t in found]) if name == "nonzero" else found.numpy(),
                                      getattr(np, name)(x))
        with pytest.raises(ad.ConcretizationError, match=rf"{name}: how many.*(?s:.*)test_functions\.py"):
            ad.jit(getattr(ad, name))(x)
    with pytest.raises(ad.ShapeError, match="nonzero: a f64"):
        ad.nonzero(1.0)
    np.testing.assert_array_equal(x[np.nonzero(ad.tensor([[0, 1], [1, 0]]))], [2.0, np.nan])


def test_slopes_of_samples_say_what_does_not_fit():
    x = np.ones((3, 4))
    for wrong, error, said in (
        (lambda: ad.gradient(x, axis=1, edge_order=3), ad.DispatchError, "edge_order is 1 or 2"),
        (lambda: ad.gradient(x, 1.0, 1.0, 1.0), ad.DispatchError, "3 spacings for 2 axes"),
        (lambda: ad.gradient(x, np.ones(3), axis=1), ad.ShapeError, "no places of 4 samples"),
        (lambda: ad.gradient(np.ones(2), edge_order=2), ad.ShapeError, "takes 3"),
        (lambda: ad.cumulative_sum(x), ad.ShapeError, "which one"),
        (lambda: ad.matvec(np.ones(3), np.ones(3)), ad.ShapeError, "matvec: a is a matrix"),
        (lambda: ad.broadcast_arrays(np.ones(3), np.ones(4)), ad.ShapeError, "do not broadcast"),
    ):
        with pytest.raises(error, match=f"(?s){said}.*test_functions.py"):
            wrong()
    holed = np.array([1.0, np.nan, 4.0, 9.0])
    np.testing.assert_array_equal(ad.gradient(holed), np.gradient(holed))  # of even samples that between does not count
    both = ad.gradient(x * np.arange(4.0))
    assert isinstance(both, tuple) and len(both) == 2
