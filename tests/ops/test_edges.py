"""Derivatives at the ends of domains, at zeros, at infinities: the limits, and where there is none what peers say."""

import mpmath
import numpy as np
import pytest

import autodiff as ad

sp = ad.special
inf, nan = np.inf, np.nan


def slopes(f, x, order):
    """The derivative of that order of a function of elements, where nothing else is computed."""
    if order > 1:
        return slopes(lambda x: ad.grad(lambda x: ad.sum(f(x)))(x), x, order - 1)
    f = ad.grad(lambda x, f=f: ad.sum(f(x)))
    return np.asarray(ad.jit(f)(np.asarray(x, float)))


#: (function, points, first derivatives, second derivatives)
ENDS = [
    (ad.asin, [1.0, -1.0, 2.0], [inf, inf, nan], [inf, -inf, nan]),
    (ad.acos, [1.0, -1.0, 2.0], [-inf, -inf, nan], [-inf, inf, nan]),
    (ad.acosh, [1.0, 1e300], [inf, 1e-300], [-inf, 0.0]),
    (ad.atanh, [1.0, -1.0], [inf, inf], [inf, -inf]),
    (ad.cbrt, [0.0, -0.0, inf], [inf, inf, 0.0], [-inf, inf, 0.0]),
    (ad.sqrt, [0.0, inf], [inf, 0.0], [-inf, 0.0]),
    (ad.abs, [0.0, -0.0, inf, -inf], [0, 0, 1, -1], [0, 0, 0, 0]),
    (ad.log1p, [-1.0, inf], [inf, 0.0], [-inf, 0.0]),
    (ad.expm1, [-inf, inf, 0.0], [0.0, inf, 1.0], [0.0, inf, 1.0]),
    (ad.softplus, [-inf, inf, 0.0, 800.0], [0.0, 1.0, 0.5, 1.0], [0.0, 0.0, 0.25, 0.0]),
    (lambda x: ad.logaddexp(x, x), [0.0, inf, -inf, 1e300], [1, 1, 1, 1], [0, 0, 0, 0]),
    (lambda x: x**0.0, [0.0, inf, nan, -1.0], [0, 0, 0, 0], [0, 0, 0, 0]),
    (lambda x: x**1.0, [0.0, inf, -1.0], [1, 1, 1], [0, 0, 0]),
    (ad.sinc, [0.0, 1e-20, 1e-8], [0.0, -3.2898681336964526e-20, -3.2898681336964524e-08], [-np.pi**2 / 3] * 3),
    (sp.entr, [0.0, 1.0], [inf, -1.0], [-inf, -1.0]),
    (lambda x: sp.xlogy(x, x), [0.0, 1.0], [-inf, 1.0], [inf, 1.0]),
    (lambda x: sp.xlogy(0.0, x), [0.0, 1.0], [0, 0], [0, 0]),
    (lambda x: sp.xlog1py(0.0, x), [-1.0, 1.0], [0, 0], [0, 0]),
    (sp.logit, [0.0, 1.0, 0.5], [inf, inf, 4.0], [-inf, inf, 0.0]),
    (sp.log_ndtr, [-1e10, 0.0], [1e10, np.sqrt(2 / np.pi)], [-1.0, -2 / np.pi]),
    (sp.erfinv, [1.0, -1.0, 0.0], [inf, inf, np.sqrt(np.pi) / 2], [inf, -inf, 0.0]),
]
NAMES = ["asin", "acos", "acosh", "atanh", "cbrt", "sqrt", "abs", "log1p", "expm1", "softplus", "logaddexp", "power-0",
         "power-1", "sinc", "entr", "xlogy", "xlogy-0", "xlog1py-0", "logit", "log_ndtr", "erfinv"]  # fmt: skip


@pytest.mark.parametrize(("f", "points", "first", "second"), ENDS, ids=NAMES)
def test_derivatives_at_ends_are_the_limits(f, points, first, second):
    np.testing.assert_allclose(slopes(f, points, 1), first, rtol=1e-14)
    np.testing.assert_allclose(slopes(f, points, 2), second, rtol=1e-13, atol=1e-15)


def test_the_slope_of_a_normal_tail_keeps_its_digits_far_out():
    points = [-1e8, -1e4, -300.0, -61.0, -59.0, -13.0, -11.0, -3.0]
    with mpmath.workdps(60):
        exact = [float(mpmath.diff(lambda x: mpmath.log(mpmath.ncdf(x)), mpmath.mpf(p), 2)) for p in points[2:]]
    found = slopes(sp.log_ndtr, points, 2)
    np.testing.assert_allclose(found[:2], [-1.0, -1.0 + 1e-8], rtol=1e-11)
    np.testing.assert_allclose(found[2:], exact, rtol=1e-11)


def test_gammaln_is_plain_zero_at_one_and_two():
    for compiled in (sp.gammaln, ad.jit(sp.gammaln)):
        y = np.asarray(compiled(np.array([1.0, 2.0])))
        assert (y == 0).all() and not np.signbit(y).any()
    assert not np.signbit(np.asarray(sp.entr(np.zeros(1)))).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gamma_of_large_numbers_is_infinite_and_of_very_negative_ones_zero(dtype):
    large = np.array([47.5, 104.0, 125.5, 179.5, 181.0, 260.5, 1e30, inf], dtype)[0 if dtype == np.float32 else 4 :]
    for compiled in (sp.gamma, ad.jit(sp.gamma)):
        assert (np.asarray(compiled(large)) == inf).all()
        assert (np.asarray(compiled(np.array([-104.5, -125.5, -179.5], np.float32))) == 0).all()
        assert (np.asarray(compiled(np.array([-185.5, -260.5], dtype))) == 0).all()
    assert ad.jit(sp.factorial)(np.float32(120.5)) == inf


def test_a_mixed_derivative_of_xlogy_is_there_where_x_is_zero():
    mixed = ad.grad(lambda y: ad.grad(lambda x, y: ad.sum(sp.xlogy(x, y)))(np.zeros(3), y).sum())
    np.testing.assert_allclose(mixed(np.array([0.5, 1.0, 4.0])), [2.0, 1.0, 0.25])
    mixed = ad.grad(lambda x: ad.grad(lambda x, y: ad.sum(sp.xlogy(x, y)), argnums=1)(x, np.array([0.5, 4.0])).sum())
    np.testing.assert_allclose(mixed(np.zeros(2)), [2.0, 0.25])


@pytest.mark.parametrize("row", [[1.0, inf, 0.0], [inf, -inf]])
def test_logsumexp_of_an_infinite_element_has_no_derivative_in_it(row):
    """As peers have it (JAX, PyTorch); 0, as a row of -inf gives, would say that nothing depends on it."""
    x = np.array(row)
    np.testing.assert_array_equal(ad.grad(lambda x: ad.logsumexp(x))(x), np.where(x == inf, nan, 0.0))
    np.testing.assert_array_equal(ad.grad(lambda x: ad.logsumexp(x))(np.full(3, -inf)), np.zeros(3))


@pytest.mark.parametrize("axis", [None, 1, (0, 2)])
def test_norms_neither_overflow_nor_underflow(axis, rng):
    x = rng.uniform(0.5, 2.0, (3, 4, 5)) * rng.choice([-1.0, 1.0], (3, 4, 5))
    for dtype, sizes in ((np.float64, (1e-320, 1e-300, 1e-170, 1.0, 1e170, 1e300)), (np.float32, (1e-30, 1.0, 1e30))):
        for size in sizes:
            y = (x * size).astype(dtype)
            wide = y.astype(np.longdouble)
            right = np.sqrt(np.sum(wide * wide, axis=axis if axis is not None else (0, 1, 2), keepdims=True))
            eps = max(np.finfo(dtype).eps, float(np.finfo(dtype).smallest_subnormal / np.min(np.abs(wide))))
            found = ad.jit(lambda x: ad.norm(x, axis=axis))(y)
            np.testing.assert_allclose(found, right.reshape(np.shape(found)).astype(dtype), rtol=8 * eps)
            slope = ad.grad(lambda x: ad.sum(ad.norm(x, axis=axis)))(y)
            np.testing.assert_allclose(slope, (wide / right).astype(float), rtol=16 * eps)


def test_norms_of_usual_size_are_what_they_would_be_unscaled(rng):
    x = rng.normal(size=(4, 6))
    found, plain = ad.jit(lambda x: (ad.norm(x, axis=1), ad.sqrt(ad.sum(x * x, axis=1))))(x)
    np.testing.assert_array_equal(found, plain)
    hessian = ad.hessian(lambda x: ad.norm(x))(np.array([3.0, 4.0]) * 1e200)
    np.testing.assert_allclose(hessian * 1e200, [[0.128, -0.096], [-0.096, 0.072]], rtol=1e-12)


def test_norms_of_what_is_not_finite():
    for row, value, slope in (([inf, 1.0], inf, [nan, 0.0]), ([0.0, 0.0], 0.0, [0, 0]), ([nan, 1.0], nan, [nan, nan])):
        np.testing.assert_array_equal(ad.norm(np.array(row)), value)
        np.testing.assert_array_equal(ad.grad(lambda x: ad.norm(x))(np.array(row)), slope)
    np.testing.assert_array_equal(ad.grad(lambda x: ad.std(x))(np.ones(3)), np.zeros(3))
    assert ad.norm(np.zeros((0,))) == 0 and ad.norm(np.zeros((2, 0)), axis=1).tolist() == [0, 0]


def test_nothing_is_repeated_by_no_numbers():
    x = np.zeros((2, 0))
    assert ad.repeat(x, []).shape == (0,) and ad.repeat(x, [], axis=1).shape == (2, 0)


def test_norms_of_nothing_and_of_infinite_elements_are_numpys():
    for x in (np.zeros((0, 2)), np.array([[inf, 1.0], [inf, 2.0]]), np.array([[0.0, 1.0], [3.0, 2.0]])):
        for order in (-1, -2.5, 0, 0.5, 1, 2, 3, inf):
            with np.errstate(all="ignore"):
                wanted = np.linalg.vector_norm(x, axis=0, ord=order)
            np.testing.assert_allclose(ad.linalg.vector_norm(x, axis=0, ord=order), wanted, rtol=1e-14, err_msg=order)


@pytest.mark.parametrize("bounds", [(0, nan), (inf,), (0, 1, nan), (nan, 1.0)])
def test_a_range_without_a_number_of_steps_is_refused_at_the_users_line(bounds):
    with pytest.raises(ValueError, match=r"arange: .*no number of steps.*\n.*test_edges\.py"):
        ad.arange(*bounds)


def test_the_beta_function_has_the_sign_of_its_gamma_functions():
    a, b = np.meshgrid([-5.3, -2.7, -1.2, -0.2, 0.4, 3.0], [-4.1, -0.6, 0.5, 4.0])
    exact = [float(mpmath.beta(*pair)) for pair in zip(a.ravel(), b.ravel(), strict=True)]
    np.testing.assert_allclose(sp.beta(a, b).ravel(), exact, rtol=1e-13)
    np.testing.assert_allclose(sp.beta(a.ravel().tolist(), b.ravel().tolist()), exact, rtol=1e-13)
    exact = float(mpmath.diff(lambda x: mpmath.beta(x, 4), -0.2))
    np.testing.assert_allclose(ad.grad(sp.beta)(-0.2, 4.0), exact, rtol=1e-13)
