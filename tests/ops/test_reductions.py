"""Laws of reductions that the sweep cannot see: kinks, specials, refusals."""

import math

import numpy as np
import pytest

import autodiff as ad

INF, NAN = np.inf, np.nan


def grad(f, x):
    return np.asarray(ad.grad(f)(x))


# ---------------------------------------------------------------- kinks


@pytest.mark.parametrize("f", [ad.max, ad.min])
def test_elements_that_tie_for_the_extreme_share_the_gradient(f):
    x = np.array([[3.0, 1.0, 3.0], [2.0, 2.0, 2.0]])
    x = x if f is ad.max else -x
    np.testing.assert_array_equal(grad(lambda x: ad.sum(f(x, 1)), x), [[0.5, 0, 0.5], [1 / 3] * 3])


def test_the_extreme_of_rows_with_nan_is_nan_and_its_gradient_goes_there():
    x = np.array([1.0, NAN, 2.0])
    assert np.isnan(ad.max(ad.tensor(x)).item())
    assert np.isnan(ad.min(ad.tensor(x)).item())
    np.testing.assert_array_equal(grad(lambda x: ad.max(x), x), [0, 1, 0])


def test_what_the_extreme_leaves_out_gets_exactly_zero():
    # d log at 0 is inf: a plain zero would give nan.
    np.testing.assert_array_equal(grad(lambda x: ad.max(ad.log(x)), np.array([0.0, 2.0])), [0, 0.5])


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_the_product_is_differentiated_right_where_factors_are_zero(zeros, rng):
    x = rng.uniform(0.5, 2, 5)
    x[:zeros] = 0
    others = np.array([np.prod(np.delete(x, i)) for i in range(5)])
    np.testing.assert_allclose(grad(lambda x: ad.prod(x), x), others)
    pairs = np.array([[0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(5)] for i in range(5)])
    for unit, row in zip(np.eye(5), pairs, strict=True):
        np.testing.assert_allclose(grad(lambda x, unit=unit: ad.sum(ad.grad(ad.prod)(x) * unit), x), row)


def test_the_third_derivative_of_a_product_of_zeros_is_right():
    def first(x):
        return ad.grad(ad.prod)(x)[0]

    def second(x):
        return ad.grad(first)(x)[1]

    np.testing.assert_array_equal(grad(second, np.zeros(3)), [0, 0, 1])


def test_the_standard_deviation_of_equal_elements_has_derivative_zero():
    np.testing.assert_array_equal(grad(lambda x: ad.std(x), np.array([2.0, 2.0])), [0, 0])


def test_a_small_variance_beside_a_large_mean_keeps_its_digits():
    x = 1e8 + np.array([0.0, 1.0, 2.0])
    assert ad.var(ad.tensor(x)).item() == pytest.approx(2 / 3, rel=1e-12)


# ---------------------------------------------------------------- specials

ROWS = np.array([[1.0, 2.0], [-INF, -INF], [INF, 1.0], [NAN, 1.0], [1000.0, 1000.0], [-INF, 3.0]])


def test_logsumexp_of_infinite_rows_is_infinite():
    expected = [np.logaddexp(1, 2), -INF, INF, NAN, 1000 + np.log(2), 3.0]
    np.testing.assert_allclose(ad.logsumexp(ad.tensor(ROWS), axis=1).numpy(), expected)


def test_logsumexp_of_rows_without_inf_has_the_softmax_as_gradient():
    rows = ROWS[[0, 1, 4, 5]]
    expected = [*[np.exp([1.0, 2.0]) / np.exp([1.0, 2.0]).sum()], [0, 0], [0.5, 0.5], [0, 1]]
    np.testing.assert_allclose(grad(lambda x: ad.sum(ad.logsumexp(x, 1)), rows), expected)


def test_softmax_does_not_overflow():
    np.testing.assert_allclose(ad.softmax(ad.tensor([1000.0, 1000.0, -INF])).numpy(), [0.5, 0.5, 0])
    np.testing.assert_allclose(ad.log_softmax(ad.tensor([1000.0, 0.0])).numpy(), [0, -1000])


def test_nan_and_inf_go_through_sums_as_in_numpy():
    x = np.array([[1, INF], [INF, -INF], [NAN, 1]])
    np.testing.assert_array_equal(ad.sum(ad.tensor(x), 1).numpy(), [INF, NAN, NAN])
    np.testing.assert_array_equal(ad.cumsum(ad.tensor(x), 1).numpy(), [[1, INF], [INF, NAN], [NAN, NAN]])


def test_argmax_names_the_first_nan_and_the_first_of_equals():
    x = np.array([[1, 3, 3], [1, NAN, NAN]])
    np.testing.assert_array_equal(ad.argmax(ad.tensor(x), 1).numpy(), [1, 1])
    np.testing.assert_array_equal(ad.argmin(ad.tensor(x), 1).numpy(), [0, 1])


def test_the_mean_of_nothing_is_nan():
    assert np.isnan(ad.mean(ad.tensor(np.zeros(0))).item())


def test_large_integers_are_summed_as_int64():
    x = np.full(4, 2**30, np.int32)
    assert ad.sum(ad.tensor(x)).item() == 2**32
    assert ad.mean(ad.tensor(x)).item() == 2**30


@pytest.mark.parametrize(
    "x", [[2.0, 0.0, 3.0, 5.0], [0.0, 0.0, 3.0], [1.5, -2.0, 0.5, 3.0, 0.0], [0.0], [2.0, 3.0, 5.0, 7.0, 11.0, 13.0]]
)
def test_derivatives_of_running_products_are_right_at_zeros(x):
    x = np.array(x)
    n = len(x)
    jacobian = np.zeros((n, n))
    for k in range(n):
        for i in range(k + 1):
            jacobian[k, i] = np.prod(np.delete(x[: k + 1], i))
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(ad.jacobian(ad.cumprod, mode=mode)(x), jacobian, rtol=1e-14)


def test_what_a_running_product_overflows_to_does_not_reach_the_gradients_of_what_comes_before():
    x = np.array([2.0, 3.0, 1e200, 1e200, 1e200, 0.5])
    taken = np.arange(6) < 2
    gradient = ad.grad(lambda t: ad.where(taken, ad.cumprod(t), 0.0).sum())(x)
    np.testing.assert_array_equal(gradient, [4.0, 2.0, 0.0, 0.0, 0.0, 0.0])


def test_second_derivatives_of_running_products_are_right_at_zeros():
    x = np.array([2.0, 0.0, 3.0, 0.0, 5.0])
    expected = np.zeros((5, 5))
    for k in range(5):
        for i in range(k + 1):
            for j in range(k + 1):
                if i != j:
                    expected[i, j] += np.prod(np.delete(x[: k + 1], [i, j]))
    np.testing.assert_allclose(ad.hessian(lambda t: ad.cumprod(t).sum())(x), expected, rtol=1e-13)


def test_a_running_product_of_many_numbers_has_the_derivative_of_the_sum_of_logarithms():
    x = np.random.default_rng(0).uniform(0.9, 1.1, size=(3, 257))
    g = np.random.default_rng(1).normal(size=(3, 257))
    y = np.cumprod(x, 1)
    expected = np.cumsum((g * y)[:, ::-1], 1)[:, ::-1] / x
    np.testing.assert_allclose(ad.grad(lambda t: (ad.cumprod(t, 1) * g).sum())(x), expected, rtol=1e-11, atol=1e-12)


def test_factors_whose_products_overflow_behind_a_zero_do_not_reach_the_gradient_of_a_running_product():
    x, g = np.array([1e-200, 1e200, 1e200, 0.0, 3.0]), np.array([1.0, 1.0, 0.0, 1.0, 1.0])
    gradient = ad.grad(lambda t: (ad.cumprod(t) * g).sum())(x)
    np.testing.assert_allclose(gradient, [1e200, 1e-200, 0.0, 4e200, 0.0], rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [0, 1])
def test_gradients_of_running_products_and_extremes_err_by_their_last_roundings(axis, dtype, rng):
    n = 5000
    g = rng.normal(size=(n, 3) if axis == 0 else (3, n)).astype(dtype)
    plateau = np.zeros_like(g)
    np.moveaxis(plateau, axis, 0)[0] = 1
    found = ad.grad(lambda t: (ad.cummax(t, axis) * g).sum())(plateau)
    expected = [math.fsum(row) for row in np.moveaxis(g, axis, 1).astype(float)]
    np.testing.assert_allclose(np.moveaxis(found, axis, 0)[0], expected, rtol=np.finfo(dtype).eps / 2)
    x = (1 + 0.01 * rng.normal(size=g.shape)).astype(dtype)
    exact = x.astype(np.longdouble)
    expected = np.flip(np.cumsum(np.flip(g * np.cumprod(exact, axis), axis), axis), axis) / exact
    found = ad.grad(lambda t: (ad.cumprod(t, axis) * g).sum())(x)
    # The errors left are the roundings of the running product itself, which wander as far as n**.5 of them.
    assert np.max(np.abs(found - expected)) < 70 * np.finfo(dtype).eps * np.max(np.abs(expected))


def test_gradients_of_running_products_and_extremes_are_as_many_kernels_for_any_length():
    for f in (ad.cumprod, ad.cummax):
        few, many = (
            str(ad.inspect(ad.grad(lambda t, f=f: f(t).sum()), np.ones(n)).fused).count("\n  k") for n in (100, 100_000)
        )
        assert 0 < many <= few


def test_the_gradient_of_a_running_sum_runs_from_the_end_and_turns_nothing_round(rng):
    x = rng.normal(size=(3, 40))
    for axis in (0, 1):
        f = ad.value_and_grad(lambda t, axis=axis: ad.sum(ad.sin(ad.cumsum(t, axis))))
        expected = np.flip(np.cumsum(np.flip(np.cos(np.cumsum(x, axis)), axis), axis), axis)
        np.testing.assert_allclose(f(x)[1], expected, rtol=1e-13, atol=1e-14)
        assert "flip" not in str(ad.inspect(f, x).fused)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("f", [ad.max, ad.min, ad.argmax, ad.argmin])
def test_nothing_has_no_extreme(f):
    with pytest.raises(ad.ShapeError, match=r"f64\[2,0\] along axis 1"):
        f(ad.tensor(np.zeros((2, 0))), 1)
    with pytest.raises(ad.ShapeError, match="nothing to choose from"):
        f(ad.tensor(np.zeros(0, bool)))


@pytest.mark.parametrize("f", [ad.sum, ad.prod, ad.max, ad.any, ad.mean, ad.var, ad.cumsum, ad.cumprod, ad.softmax])
def test_an_axis_that_is_not_there_is_named(f):
    with pytest.raises(ad.ShapeError, match=rf"{f.__name__}: no axis 2 in f64\[3,4\]\n.*test_reductions.py"):
        f(ad.tensor(np.zeros((3, 4))), 2)


def test_an_axis_named_twice_is_refused():
    with pytest.raises(ad.ShapeError, match="twice"):
        ad.sum(ad.tensor(np.zeros((3, 4))), (0, -2))


def test_an_axis_is_an_integer():
    with pytest.raises(TypeError, match="an axis is an integer, not float"):
        ad.sum(ad.tensor(np.zeros(3)), 1.0)


def test_ddof_and_correction_are_one_thing():
    with pytest.raises(ValueError, match="two names"):
        ad.var(ad.tensor([1.0, 2.0]), ddof=1, correction=1)


# ---------------------------------------------------------------- other ways to call


def test_methods_and_numpys_functions_are_the_same():
    x = np.arange(6.0).reshape(2, 3)
    t = ad.tensor(x)
    names = ("sum", "mean", "prod", "max", "min", "var", "std", "any", "all", "cumsum", "cumprod", "argmax", "argmin")
    for name in names:
        expected = getattr(np, name)(x, axis=1)
        for y in (getattr(t, name)(axis=1), getattr(np, name)(t, axis=1)):
            assert isinstance(y, ad.Tensor)
            np.testing.assert_allclose(y.numpy(), expected)
    np.testing.assert_array_equal(np.add.reduce(t).numpy(), np.add.reduce(x))
    np.testing.assert_array_equal(t.sum(axis=0, keepdims=True).numpy(), x.sum(0, keepdims=True))


def test_reductions_take_arrays_and_numbers():
    assert ad.sum(np.ones(3)).item() == 3
    assert ad.sum([1, 2, 3]).item() == 6
    assert ad.max(2.5).item() == 2.5


# ---------------------------------------------------------------- running extremes, and without nan


def shares(x, best):
    """The Jacobian of a running extreme where elements that attain it together share evenly."""
    found = np.zeros((len(x), len(x)))
    for k in range(len(x)):
        attain = x[: k + 1] == best(x[: k + 1])
        found[k, : k + 1] = attain / max(attain.sum(), 1)
    return found


@pytest.mark.parametrize(("f", "best"), [(ad.cummax, np.max), (ad.cummin, np.min)])
def test_elements_that_attain_a_running_extreme_together_share_evenly(f, best, rng):
    for x in (np.array([1.0, 3.0, 2.0, 3.0, 3.0, 4.0, 0.0, 4.0]), np.zeros(5), rng.integers(0, 4, 40).astype(float)):
        expected = shares(x, best)
        for mode in ("reverse", "forward"):
            np.testing.assert_allclose(ad.jacobian(f, mode=mode)(x), expected, atol=1e-15)
        np.testing.assert_array_equal(ad.hessian(lambda t: f(t).sum())(x), np.zeros((len(x), len(x))))


def test_a_running_extreme_is_nan_from_the_first_nan_on():
    x = np.array([1.0, np.nan, 5.0, np.inf])
    np.testing.assert_array_equal(ad.cummax(x), np.maximum.accumulate(x))
    np.testing.assert_array_equal(ad.jit(ad.cummin)(x), np.minimum.accumulate(x))
    t = ad.tensor(x, requires_grad=True)
    assert np.maximum.accumulate(t).requires_grad and np.minimum.accumulate(t).requires_grad


@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanmax", "nanmin"])
def test_what_is_nan_gets_a_gradient_of_exactly_zero(name):
    x = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, 2.0]])
    ours, numpys = getattr(ad, name), getattr(np, name)
    g = ad.grad(lambda t: (ours(t, axis=1) * np.array([1.0, 10.0])).sum())(x)
    assert (g[np.isnan(x)] == 0).all() and np.isfinite(g).all()
    t = ad.tensor(x, requires_grad=True)
    y = numpys(t, axis=0, keepdims=True)
    assert y.requires_grad
    np.testing.assert_allclose(y.detach()[:, ::2], numpys(x[:, ::2], axis=0, keepdims=True))
    assert np.isnan(y.detach().numpy()[0, 1]) == (name != "nansum")  # of a column without numbers


@pytest.mark.parametrize("name", ["nanmax", "nanmin", "nanargmax", "nanargmin"])
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_extremes_leave_out_complex_numbers_with_a_part_that_is_nan(name, dtype):
    z = np.array([[1 + 1j, complex(NAN, 0), 3], [complex(0, NAN), -1j, -1], [-INF, 2, complex(1, NAN)]], dtype)
    ours, numpys = getattr(ad, name), getattr(np, name)
    for axis in (None, 0, 1):
        for f in (ours, ad.jit(ours, static_argnames="axis")):
            np.testing.assert_array_equal(np.asarray(f(z, axis=axis)), numpys(z, axis=axis))
    if "arg" not in name:
        found = ad.grad(lambda t: ad.real(ours(t, axis=1)).sum())(z)
        wins = np.isfinite(z) & (z == numpys(z, axis=1, keepdims=True))
        np.testing.assert_array_equal(np.flatnonzero(found), np.flatnonzero(wins))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_running_sums_err_by_their_last_bit_along_any_axis(dtype, rng):
    x = rng.normal(size=(3000, 8)).astype(dtype)
    for found, exact in [
        (ad.cumsum(ad.tensor(x), 0).numpy(), np.cumsum(x, 0, dtype=np.longdouble)),
        (ad.cumsum(ad.tensor(x[:, 0].copy())).numpy(), np.cumsum(x[:, 0], dtype=np.longdouble)),
        (ad.grad(lambda a: ad.sum(ad.cumsum(a, 0) * x))(x), np.cumsum(x[::-1], 0, dtype=np.longdouble)[::-1]),
    ]:
        assert np.max(np.abs(found - exact)) < 1.0 * np.finfo(dtype).eps * np.max(np.abs(exact))
    beyond = ad.cumsum(ad.tensor(np.array([[1e308], [1e308], [-1e308]])), 0)
    np.testing.assert_array_equal(beyond.numpy()[:, 0], [1e308, INF, INF])
