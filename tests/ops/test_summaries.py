"""Stacks, splits, weighted means, counts, borders beyond the sweep: gradients, errors, NumPy's names."""

import mpmath
import numpy as np
import pytest

import autodiff as ad


def test_numpys_functions_record(rng):
    a = rng.uniform(0.5, 2.0, (3, 4))
    x = ad.tensor(a, requires_grad=True)
    for f in (
        lambda x: np.hstack([x, x]), lambda x: np.vstack((x, a)), np.atleast_3d, lambda x: np.column_stack([x, x]),
        lambda x: np.array_split(x, 3, axis=1)[1], lambda x: np.hsplit(x, 2)[0], lambda x: np.pad(x, 1, "edge"),
        lambda x: np.average(x, axis=1, weights=np.arange(4.0)), np.cov, lambda x: np.ptp(x, axis=0), np.nanstd,
        lambda x: np.repeat(x, [1, 2, 0], axis=0), lambda x: np.vdot(x, x), lambda x: np.nancumsum(x, axis=1),
    ):  # fmt: skip
        assert f(x).requires_grad
        np.testing.assert_allclose(f(x).detach(), f(a), rtol=1e-13)
    np.testing.assert_array_equal(np.count_nonzero(x.detach()), 12)


def test_the_gradient_of_a_border_is_added_to_what_it_was_taken_from():
    x = np.arange(3.0)
    for mode in ("edge", "reflect", "symmetric", "wrap"):
        found = ad.grad(lambda x, mode=mode: ad.sum(ad.pad(x, (2, 2), mode)))(x)
        np.testing.assert_array_equal(found, np.bincount(np.pad(np.arange(3), (2, 2), mode).astype(int)))


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_borders_of_any_width_are_numpys(mode, rng):
    """Slices, lines again and again, and, of borders wider than the array, what is looked up."""
    for shape, widths in (((1,), (3, 0)), ((5,), (4, 5)), ((5,), (0, 13)), ((3, 4), ((2, 0), (1, 9))), ((2, 1), 3)):
        x = rng.normal(size=shape)
        padded = ad.jit(lambda x, widths=widths: ad.pad(x, widths, mode))
        np.testing.assert_array_equal(padded(x), np.pad(x, widths, mode))
        seed = rng.normal(size=padded(x).shape)
        found = ad.grad(lambda x, seed=seed, padded=padded: ad.sum(padded(x) * seed))(x)
        places = np.pad(np.arange(x.size).reshape(shape), widths, mode)
        wanted = np.bincount(places.ravel(), seed.ravel(), x.size).reshape(shape)
        np.testing.assert_allclose(found, wanted, atol=1e-13)


def test_what_is_nan_has_a_gradient_of_exactly_zero():
    x = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, 2.0]])
    for name in ("nanvar", "nanstd", "nanprod", "nancumsum", "nancumprod"):
        found = ad.grad(lambda x, name=name: ad.sum(getattr(ad, name)(x, 1)))(x)
        assert (found[np.isnan(x)] == 0).all() and np.isfinite(found).all(), name
    assert np.isnan(ad.nanvar(np.array([np.nan])).item())
    np.testing.assert_allclose(ad.nanstd(x, ddof=0), np.nanstd(x))


def test_only_what_is_nan_itself_is_left_out_of_a_variance():
    x = np.array([[1.0, np.inf, 3.0], [np.nan, -np.inf, 2.0], [np.nan, 1.0, 3.0]])
    for function in (ad.nanvar, ad.nanstd):
        np.testing.assert_array_equal(function(x, axis=1), [np.nan, np.nan, 1.0])


def test_a_count_is_as_long_as_it_has_to_be_and_says_what_jit_needs():
    x = np.array([0, 4, 4, 1])
    assert ad.bincount(x).tolist() == np.bincount(x).tolist() and ad.bincount(x, minlength=7).shape == (7,)
    assert ad.bincount(ad.tensor(x) * 2).tolist() == np.bincount(2 * x).tolist()
    assert ad.bincount(np.zeros(0, np.int64)).shape == (0,)
    w = np.arange(4.0)
    np.testing.assert_array_equal(ad.grad(lambda w: ad.sum(ad.bincount(x, w) * np.arange(5.0)))(w), [0, 4, 4, 1])
    assert ad.jit(lambda x: ad.bincount(x, length=6))(x).tolist() == [1, 1, 0, 0, 2, 0]
    with pytest.raises(ad.ConcretizationError, match=r"bincount: the largest number has no value(.|\n)*length="):
        ad.jit(lambda x: ad.bincount(x, minlength=7))(x)
    with pytest.raises(IndexError):
        ad.bincount(np.array([-1, 2]))


def test_activations_are_finite_far_out():
    x = np.array([-1e4, -100.0, 0.0, 100.0, 1e4])
    for name in ("silu", "gelu", "elu", "selu", "leaky_relu", "log_sigmoid", "mish"):
        f = getattr(ad, name)
        value, slope = np.asarray(ad.jit(f)(x)), ad.grad(lambda x, f=f: ad.sum(f(x)))(x)
        assert np.isfinite(value).all() and np.isfinite(slope).all(), name
        last = {"log_sigmoid": 0.0, "selu": 1.0507009873554805}.get(name, 1.0)
        np.testing.assert_allclose(slope[-1], last, err_msg=name)


@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:divide by zero")
def test_covariances_without_freedom_are_numpys():
    m = np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 5.0]])
    for how in ({"ddof": 3}, {"ddof": 4}, {"fweights": [1, 1, 1], "ddof": 3}, {"aweights": [1.0, 2.0, 1.0], "ddof": 9}):
        np.testing.assert_array_equal(ad.cov(m, **how), np.cov(m, **how))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gelu_by_tanh_has_its_digits_where_it_is_small(dtype):
    x = np.array([-9.0, -7.5, -6.0, -4.0], dtype)
    u = [mpmath.sqrt(2 / mpmath.pi) * (v + mpmath.mpf("0.044715") * v**3) for v in map(mpmath.mpf, map(float, x))]
    expected = [float(v / (1 + mpmath.exp(-2 * w))) for v, w in zip(map(float, x), u, strict=True)]
    found = ad.jit(lambda x: ad.gelu(x, approximate=True))(x)
    np.testing.assert_allclose(found, expected, rtol=400 * np.finfo(dtype).eps)  # what rounding 2 u takes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_elu_is_smooth_at_zero(dtype):
    """x and exp(x) - 1 meet there with one slope; the second derivative is that of the exponential, as below."""
    zeros = np.zeros(3, dtype)
    assert np.array_equal(ad.grad(lambda x: ad.sum(ad.elu(x)))(zeros), np.ones(3))
    assert np.array_equal(ad.grad(lambda x: ad.sum(ad.elu(x, 0.5)))(zeros), np.full(3, 0.5))
    assert np.array_equal(ad.hvp(lambda x: ad.sum(ad.elu(x)), (zeros,), (np.ones(3, dtype),)), np.ones(3))
    _, slope = ad.jvp(ad.selu, (zeros,), (np.ones(3, dtype),))
    assert np.allclose(slope, 1.0507009873554805 * 1.6732632423543772, rtol=1e-6)
    far = np.array([-np.inf, -1e5, 1e5, np.inf], dtype)
    assert np.array_equal(ad.grad(lambda x: ad.sum(ad.elu(x)))(far), np.array([0.0, 0.0, 1.0, 1.0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ad.hstack([]), "hstack: there is nothing to put together"),
        (lambda: ad.array_split(np.ones(3), 0), "array_split: 0 parts"),
        (lambda: ad.vsplit(np.ones(4), 2), r"vsplit: f64\[4\] has fewer than 2 axes"),
        (lambda: ad.hsplit(np.float64(1), 1), r"hsplit: f64\[\] has fewer than"),
        (lambda: ad.average(np.ones((2, 3)), 0, np.ones(3)), r"average: weights f64\[3\] are not for f64\[2,3\]"),
        (lambda: ad.cov(np.ones((2, 2, 2))), "cov: takes a row or a matrix"),
        (lambda: ad.vdot(np.ones(2), np.ones(3)), "not of one size"),
        (lambda: ad.repeat(np.ones(3), [1, 2]), "repeat: 2 numbers for axis 0"),
    ],
)
def test_errors_say_what_does_not_fit(call, message):
    with pytest.raises(ad.ShapeError, match=message) as error:
        call()
    assert "test_summaries.py" in str(error.value)


def test_a_count_of_no_numbers_is_as_long_as_asked_and_weights_become_floats():
    nothing = ad.tensor(np.zeros(0, np.int64)) * 2  # not known when it is counted
    assert ad.bincount(nothing).shape == (0,) and ad.bincount(nothing, minlength=2).tolist() == [0, 0]
    for weights in (np.array([True, False, True]), np.array([1, 2, 3])):
        found, wanted = ad.bincount([0, 2, 2], weights), np.bincount([0, 2, 2], weights)
        assert found.dtype == wanted.dtype and found.tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("a", "b", "axis"),
    [((3, 2), (3,), 0), ((3, 2), (4, 3, 2), -2), ((3, 2), (3, 4, 2), 0), ((2, 3), (3,), -1), ((0, 2), (3, 0, 1), -2)],
)
def test_products_along_an_axis_count_it_in_each_operand(a, b, axis, rng):
    a, b = [rng.normal(size=shape) + 1j * rng.normal(size=shape) for shape in (a, b)]
    np.testing.assert_allclose(ad.vecdot(ad.tensor(a), b, axis=axis), np.vecdot(a, b, axis=axis), rtol=1e-14)


@pytest.mark.parametrize(("a", "b"), [((2, 1), (2, 3)), ((), (2, 3)), ((1,), (3,))])
def test_vectors_of_two_lengths_have_no_product(a, b):
    with pytest.raises(ad.ShapeError, match=r"vecdot: .*\n.*test_summaries\.py"):
        ad.vecdot(np.ones(a), np.ones(b))


@pytest.mark.parametrize("axis", [(1, 2), (2, 1), (0,), -1, np.int64(1), None])
def test_weights_lie_along_the_axes_in_the_order_of_their_names(axis, rng):
    x = rng.uniform(1.0, 2.0, (2, 3, 3))
    axes = range(3) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    w = rng.random([x.shape[a] for a in axes])
    for found, wanted in zip(ad.average(x, axis, w, True), np.average(x, axis, w, True), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
    given = {"axis": axis, "weights": w, "method": "inverted_cdf"}
    np.testing.assert_array_equal(ad.quantile(x, [0.3, 0.6], **given), np.quantile(x, [0.3, 0.6], **given))
    with pytest.raises(ad.ShapeError, match="average: weights"):
        ad.average(x, axis, np.ones(7))
