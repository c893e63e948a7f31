"""Elementwise operations: kinks, strong zeros, promotion, what is refused."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from natively import fuses_products

import autodiff as ad

from .cases import eager


def gradient(f, *xs):
    """The gradients of sum(f(*xs)) by all arguments, by the references alone."""
    with eager():
        y, pullback = ad.vjp(f, *[ad.tensor(x) for x in xs])
        found = pullback(ad.ones_like(y))
        return [np.asarray(g.detach()) for g in (found if isinstance(found, tuple) else (found,))]


def dtype(f, *xs):
    return f(*xs).dtype


f32, f64, i32, i64 = (ad.tensor([1], dtype=d) for d in ("f32", "f64", "i32", "i64"))
truth = ad.tensor([True])

# ---------------------------------------------------------------- kinks


@pytest.mark.parametrize(
    ("f", "x", "wanted"),
    [
        (ad.abs, 0.0, 0.0),
        (ad.sign, 2.0, 0.0),
        (ad.relu, 0.0, 0.0),
        (ad.sqrt, 0.0, math.inf),
        (lambda x: x**0.5, 0.0, math.inf),
        (lambda x: x**0, 0.0, 0.0),
        (lambda x: x**1, 0.0, 1.0),
        (lambda x: x**2, 0.0, 0.0),
        (lambda x: ad.clip(x, 1.0, 2.0), 1.0, 1.0),
        (lambda x: ad.clip(x, 1.0, 2.0), 2.0, 1.0),
        (lambda x: ad.clip(x, 1.0, 2.0), 2.5, 0.0),
        (lambda x: ad.maximum(x, 1.0), 1.0, 0.5),
        (lambda x: ad.minimum(x, 1.0), 1.0, 0.5),
        (lambda x: ad.floor(x) + ad.round(x, 1), 0.7, 0.0),
        (lambda x: ad.sigmoid(x), -800.0, 0.0),
        (lambda x: ad.softplus(x), 800.0, 1.0),
    ],
)
def test_derivatives_at_kinks_are_as_documented(f, x, wanted):
    (found,) = gradient(f, x)
    assert found == wanted


def test_ties_share_the_gradient_evenly():
    assert gradient(ad.maximum, [1.0, 2.0, 3.0], [1.0, 3.0, 2.0])[0].tolist() == [0.5, 0.0, 1.0]
    assert gradient(ad.minimum, [1.0, 2.0, 3.0], [1.0, 3.0, 2.0])[1].tolist() == [0.5, 0.0, 1.0]


def test_bounds_get_the_gradient_of_what_they_clip():
    x = [-1.0, 0.0, 0.5, 1.0, 2.0]
    for_x, for_low, for_high = gradient(ad.clip, x, np.zeros(5), np.ones(5))
    assert for_x.tolist() == [0, 1, 1, 1, 0]
    assert for_low.tolist() == [1, 0, 0, 0, 0]
    assert for_high.tolist() == [0, 0, 0, 0, 1]


def test_crossed_bounds_give_the_upper_one_all_of_the_gradient():
    for_x, for_low, for_high = gradient(ad.clip, 1.5, 2.0, 1.0)
    assert (for_x, for_low, for_high) == (0, 0, 1)


def test_the_derivative_of_hypot_at_the_origin_is_zero():
    assert [g.item() for g in gradient(ad.hypot, 0.0, 0.0)] == [0.0, 0.0]


def test_the_derivative_of_a_power_at_base_zero_is_finite_where_the_power_is_constant():
    for_base, for_exponent = gradient(ad.power, [0.0, 0.0, 0.0], [2.0, 1.0, 0.0])
    assert for_base.tolist() == [0.0, 1.0, 0.0]
    assert for_exponent.tolist() == [0.0, 0.0, 0.0]


def test_infinite_arguments_of_logaddexp_share_the_gradient_or_one_has_it_all():
    inf = math.inf
    a, b = [0.0, inf, -inf, inf, 0.0, -inf, 1e5], [0.0, inf, -inf, 0.0, -inf, 0.0, -1e5]
    for_a, for_b = gradient(ad.logaddexp, a, b)
    assert for_a.tolist() == [0.5, 0.5, 0.5, 1.0, 1.0, 0.0, 1.0]
    assert for_b.tolist() == [0.5, 0.5, 0.5, 0.0, 0.0, 1.0, 0.0]


def test_the_second_derivative_of_logaddexp_of_equal_numbers_is_a_quarter():
    second = ad.grad(ad.grad(lambda a: ad.logaddexp(a, 2.0)))
    np.testing.assert_allclose(second(2.0), 0.25)
    np.testing.assert_allclose(second(np.float32(1.5)), 0.5 / (1 + np.cosh(0.5)) , rtol=1e-6)


def test_the_angle_of_far_points_has_a_derivative():
    for_y, for_x = gradient(ad.arctan2, 1e200, 1e200)
    np.testing.assert_allclose([for_y, for_x], [0.5e-200, -0.5e-200])


# ---------------------------------------------------------------- strong zero


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ad.where(x > 0, ad.log(x), 0),
        lambda x: ad.where(x > 0, ad.sqrt(x), 0.0),
        lambda x: ad.where(x > 0, 1 / x, x * 0),
        lambda x: ad.where(x > 0, x**-0.5, 1.0),
        lambda x: ad.where(x > 0, ad.log(x * x), 0),
        lambda x: ad.where(x > 0, ad.sum(ad.sqrt(x)), 0),
        lambda x: ad.relu(ad.log(x)),
        lambda x: ad.maximum(ad.log(x), 0.0),
        lambda x: ad.clip(ad.log(x), 0.0, 1.0),
    ],
)
def test_a_branch_not_taken_has_gradient_zero(f):
    assert gradient(f, [0.0])[0].tolist() == [0.0]


def test_a_branch_not_taken_has_second_derivative_zero():
    def f(x):
        return ad.where(x > 0, ad.log(x), 0)

    with eager():
        assert ad.grad(ad.grad(f))(0.0) == 0.0
        assert ad.grad(ad.grad(f))(2.0) == -0.25


def test_an_infinite_gradient_does_not_reach_what_was_not_chosen():
    _, for_b = gradient(lambda a, b: ad.sqrt(ad.where(True, a, b)), 0.0, 1.0)
    assert for_b == 0.0


# ---------------------------------------------------------------- promotion


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (f32, 2), (f32, 2.5), (f64, 2), (i32, 2), (i64, 2), (i32, 2.5), (i64, 2.5), (truth, 2), (truth, 2.5),
        (f32, True), (i32, True), (truth, True), (f32, f64), (i32, i64), (i32, f32), (i64, f32), (truth, f32),
        (truth, i32), (f32, np.float64(2)), (f32, np.float32(2)), (i32, np.int64(2)), (f32, np.ones(1)),
        (i64, np.bool_(True)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "where", "equal"])
def test_dtypes_are_promoted_as_in_numpy(name, x, y):
    theirs = [np.ones(1, a.dtype) if isinstance(a, ad.Tensor) else a for a in (x, y)]
    first = [np.array([True])] if name == "where" else []
    wanted = getattr(np, name)(*first, *theirs).dtype
    ours = getattr(ad, name)
    assert dtype(ours, *first, x, y) == wanted
    assert dtype(ours, *first, y, x) == getattr(np, name)(*first, *theirs[::-1]).dtype


def test_functions_of_floats_take_integers_as_float64():
    for x in (i32, i64, truth, 3, True, np.int32(3), [1, 2]):
        assert dtype(ad.exp, x) == np.float64
        assert dtype(ad.divide, x, x) == np.float64


def test_sums_and_products_of_bool_are_logic():
    with eager():
        a, b = ad.tensor([True, True, False]), ad.tensor([True, False, False])
        assert (a + b).tolist() == [True, True, False]
        assert (a * b).tolist() == [True, False, False]
        assert ad.maximum(a, b).tolist() == [True, True, False]
        assert (a // a).dtype == np.int64


@pytest.mark.parametrize("f", [lambda: truth - truth, lambda: -truth, lambda: ad.sign(truth)])
def test_differences_of_bool_are_refused(f):
    message = r"takes float or integer.* arguments, got bool\n  called at test_elementwise"
    with pytest.raises(ad.DTypeError, match=message):
        f()


def test_an_int_that_does_not_fit_raises_when_recorded():
    with pytest.raises(OverflowError, match="3000000000 does not fit i32"):
        i32 + 3_000_000_000
    with pytest.raises(OverflowError):
        i64 * 2**70


def test_a_complex_number_makes_a_real_array_complex():
    assert (f64 + 1j).dtype == np.complex128
    assert (ad.astype(f64, ad.float32) * 1j).dtype == np.complex64
    with pytest.raises(ad.DTypeError, match="floor: takes float or integer or bool arguments, got complex128"):
        ad.floor(f64 + 1j)


def test_bits_of_floats_are_refused():
    with pytest.raises(ad.DTypeError, match="bitwise_and: takes integer or bool arguments, got float64"):
        f64 & 1


# ---------------------------------------------------------------- refusals


def test_shapes_that_do_not_broadcast_are_refused_at_the_users_line():
    a, b = ad.zeros((3, 4)), ad.zeros(3)
    with pytest.raises(ad.ShapeError) as refusal:
        a + b
    assert str(refusal.value).splitlines()[:2] == [
        "add: shapes do not broadcast: f64[3,4], f64[3]",
        "  along axis -1 the sizes are 3 and 4",
    ]
    assert "  called at test_elementwise.py:" in str(refusal.value)
    assert "write v[:, None]" in str(refusal.value)


@pytest.mark.parametrize(
    ("x", "named"), [(None, "None"), ("1", "a str"), (object(), "an object"), ({"a": 1}, "a dict")]
)
def test_what_is_no_tensor_is_refused_by_name(x, named):
    with pytest.raises(ad.DispatchError, match=f"exp: argument 'x' is {named}, not a tensor"):
        ad.exp(x)


def test_a_list_of_tensors_is_taken_if_it_makes_an_array():
    np.testing.assert_array_equal(ad.exp([f64, f64]), ad.exp(ad.stack([f64, f64])))
    with pytest.raises(ad.DispatchError, match="differ in length or depth"):
        ad.exp([[f64], f64[0]])


@pytest.mark.parametrize("name", ["float16", "uint8", "int8", "<U1", "object", "datetime64[s]"])
def test_dtypes_that_are_not_ours_are_refused_by_name(name):
    with pytest.raises(ad.DTypeError, match=r"add: argument 'x2' has dtype"):
        ad.add(f64, np.zeros(1, name))


def test_arrays_of_the_other_byte_order_are_taken():
    with eager():
        assert ad.exp(np.zeros(2, ">f8")).tolist() == [1.0, 1.0]


def test_integers_to_known_negative_powers_are_refused():
    for exponent in (-1, np.int64(-2), ad.tensor([1, -1])):
        with pytest.raises(ValueError, match="integers to negative powers"):
            i64**exponent


def test_integers_to_computed_negative_powers_are_refused_when_asked():
    exponent = -ad.abs(i64)
    power = i64**exponent
    with pytest.raises(ValueError, match="power: integers to negative powers"):
        power.numpy()


# ---------------------------------------------------------------- numbers are arguments


def test_another_number_is_no_other_kind_of_node():
    x = ad.tensor([1.0, 2.0])
    kinds = {(x * c).node.kind for c in (0.5, 2.0, 3, 1e300)}
    assert len(kinds) == 1
    assert len({ad.clip(x, -c, c).node.kind for c in (0.5, 2.0)}) == 1


def test_small_integer_exponents_are_part_of_the_graph_and_others_are_not():
    x = ad.tensor([1.0, 2.0])
    assert (x**2).node.kind is (x**2.0).node.kind
    assert (x**2).node.kind is not (x**3).node.kind
    assert (x**2.5).node.kind is (x**3.5).node.kind
    assert (x**17).node.kind is (x**18).node.kind
    assert x**1 is not None and (x**1).node is x.node


def test_casting_between_floats_passes_the_gradient_in_the_inputs_dtype():
    x = ad.tensor([1.5, 2.5], requires_grad=True)
    with eager():
        ad.sum(ad.astype(x, ad.float32) * 3).backward()
        assert x.grad.dtype == np.float64
        assert x.grad.tolist() == [3.0, 3.0]
    assert not ad.astype(x, ad.int64).requires_grad


def test_an_array_is_copied_when_recorded():
    array = np.ones(3)
    y = ad.tensor(np.zeros(3)) + array
    array[:] = 5
    assert y.tolist() == [1.0, 1.0, 1.0]
    array[:] = 6
    assert y.tolist() == [1.0, 1.0, 1.0]


def test_a_view_is_copied_when_recorded():
    array = np.ones(6)
    y = ad.tensor(np.zeros(3)) + array[::2]
    array[:] = 5
    assert y.tolist() == [1.0, 1.0, 1.0]


# ---------------------------------------------------------------- references


@pytest.mark.parametrize("x", [-30.0, -6.0, -1.0, -1e-3, -1e-300, 0.0, 1e-8, 0.5, 3.0, 5.9, 27.0])
def test_the_references_we_write_are_right_to_an_ulp(x):
    mp = mpmath.mp.clone()
    mp.dps = 60
    exact = {
        "erf": mp.erf(x),
        "sigmoid": 1 / (1 + mp.exp(-mp.mpf(x))),
        "softplus": mp.log1p(mp.exp(x)),
    }
    with eager():
        for name, wanted in exact.items():
            found = getattr(ad, name)(x).item()
            assert abs(found - wanted) <= 2 * math.ulp(float(wanted)), name


@pytest.mark.parametrize("decimals", [0, 1, 3, -1])
def test_rounding_to_decimals_is_numpys(decimals, rng):
    x = rng.uniform(-200, 200, 50)
    with eager():
        np.testing.assert_array_equal(ad.round(x, decimals), np.round(x, decimals))
        whole = np.arange(-25, 26, 5)
        np.testing.assert_array_equal(ad.round(whole, decimals), np.round(whole, decimals))


def test_decimals_are_an_integer():
    with pytest.raises(TypeError, match=r"round: decimals is an integer, not float \(1.5\)"):
        ad.round([1.25], 1.5)


# ---------------------------------------------------------------- generic functions


def test_a_users_rule_replaces_the_derivative_of_an_operation_and_can_be_taken_back():
    x = ad.tensor([1.0, 2.0])
    rule = ad.softplus.backward(ad.Tensor)(lambda ctx, g: g * 100)
    try:
        assert gradient(ad.softplus, x)[0].tolist() == [100.0, 100.0]
    finally:
        rule.delete()
    np.testing.assert_allclose(gradient(ad.softplus, x)[0], 1 / (1 + np.exp([-1.0, -2.0])))


def test_a_method_for_exact_types_is_chosen_before_the_library_body():
    method = ad.hypot.method(ad.Tensor[ad.float32, 1], ad.Number)(lambda x1, x2: "mine")
    try:
        assert ad.hypot(f32, 2.0) == "mine"
        assert ad.hypot(f64, 2.0).dtype == np.float64
    finally:
        method.delete()
    assert ad.hypot(f32, 2.0).dtype == np.float32


@pytest.mark.parametrize("name", [n for n in ad.ops.__all__ if hasattr(getattr(ad, n), "primitive")])
def test_every_public_operation_is_documented_and_named(name):
    function = getattr(ad, name)
    assert function.__doc__
    if function.primitive is not None:
        assert function.__name__ in ad.ops.__all__


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cross_entropy_loses_no_digits_where_the_sigmoid_is_nearly_one(dtype):
    """That of 1 - sigmoid(x) has the digits of this difference; sigmoid(-x), which is the same number, has all."""
    x, eps = np.linspace(4, 60, 31).astype(dtype), np.finfo(dtype).eps
    expected = 1 / (1 + np.exp(-x.astype(np.longdouble)))
    for loss in (lambda x: -ad.log(ad.sigmoid(-x)), lambda x: -ad.log_sigmoid(-x), ad.softplus):
        slopes = ad.grad(lambda x, loss=loss: ad.sum(loss(x)))(x)
        assert np.abs(slopes / expected - 1).max() <= 4 * eps
    x, expected = x[:4], expected[:4]
    slopes = ad.grad(lambda x: -ad.sum(ad.log1p(-ad.sigmoid(x))))(x)
    assert np.all(np.abs(slopes / expected - 1) <= eps / (1 - expected))


@pytest.mark.skipif(not fuses_products(), reason="a product is rounded by itself here")
@pytest.mark.parametrize(
    "f",
    [
        lambda x, a, b, half: x * half + a * b,
        lambda x, a, b, half: a * b + half * x,
        lambda x, a, b, half: half * x - a * b,
        lambda x, a, b, half: a * b - x * 2,
        lambda x, a, b, half: a * b + x,
    ],
)
@pytest.mark.parametrize("n", [3, 8, 1_000])
def test_of_two_products_that_by_a_number_is_the_one_that_is_rounded(f, n, rng):
    x, a, b = rng.normal(size=(3, n))
    each = zip(*([Fraction(v) for v in array.tolist()] for array in (x, a, b)), strict=True)
    exact = [float(f(*numbers, Fraction(1, 2))) for numbers in each]
    np.testing.assert_array_equal(ad.jit(lambda *v: f(*v, 0.5))(x, a, b), exact)


def test_a_product_by_a_number_that_is_used_twice_is_the_same_in_both(rng):
    x, a, b = rng.normal(size=(3, 100))
    once, difference = ad.jit(lambda x, a, b: (0.3 * x, 0.3 * x - a * b))(x, a, b)
    np.testing.assert_array_equal(once, 0.3 * x)
    np.testing.assert_allclose(difference, 0.3 * x - a * b, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("bounds", [
    (False, True), (True, 2), (0, None), (None, 0.5), (np.float32(0), None), (True, False),
])  # fmt: skip
def test_bools_are_clipped_as_by_numpy(bounds):
    def f(x):
        return ad.clip(x, *bounds)

    x = np.array([True, False])
    expected = np.clip(x, *bounds)
    for found in (f(x), ad.jit(f)(x), ad.vmap(f)(x)):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
