"""`ad.check_gradients`: passes what is right, and names what is not: mode, input, entry, rule."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pytest
from custom_functions import mul_constant

import autodiff as ad

RNG = np.random.default_rng(11)
X = RNG.normal(size=(4, 3))
W = RNG.normal(size=(2, 3))
B = RNG.normal(size=2)


def affine(weight_factor=1.0):
    """input @ weight.T + bias, with one entry of the weight's gradient scaled."""

    @ad.function
    def linear(input, weight, bias=None): ...

    @linear.forward(ad.Matrix, ad.Matrix, ad.Vector | None)
    def _(ctx, input, weight, bias=None):
        ctx.save_for_backward(input=input, weight=weight)
        output = input @ weight.T
        return output if bias is None else output + bias

    factors = np.ones((2, 3))
    factors[1, 2] = weight_factor

    @linear.backward(ad.Matrix, ad.Matrix, ad.Vector | None)
    def _(ctx, g):
        s, needs = ctx.saved_variables, ctx.needs_input_grad
        return {
            "input": g @ s.weight if needs.input else None,
            "weight": (g.T @ s.input) * ad.asarray(factors) if needs.weight else None,
            "bias": g.sum(axis=0) if needs.bias else None,
        }

    return linear


def pair(forward, backward):
    @ad.function
    def f(t): ...

    f.forward(ad.Tensor)(forward)
    f.backward(ad.Tensor)(backward)
    return f


class Params(NamedTuple):
    w: np.ndarray
    name: str


# ---------------------------------------------------------------- what is right passes


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_right_rule_passes(dtype, order):
    linear = affine()
    ad.check_gradients(linear, *[a.astype(dtype) for a in (X, W, B)], order=order)
    ad.check_gradients(linear, X.astype(dtype), W.astype(dtype), order=order)


def test_arguments_may_be_nests_tensors_and_numbers():
    ad.check_gradients(lambda p, k: {"y": ad.tanh(p.w) * k, "n": 3}, Params(W, "net"), 2)
    ad.check_gradients(lambda t: ad.exp(t), ad.tensor(B, requires_grad=True))
    ad.check_gradients(ad.sin, 0.5)
    ad.check_gradients(lambda x, k: x**k, np.abs(B) + 1, 2.5, argnums=(0, 1))


def test_a_structured_argument_is_moved_within_its_kind():
    ad.check_gradients(lambda d, x: d @ x, ad.Diagonal(RNG.normal(size=3)), X.T)


def test_a_number_beside_arrays_stays_a_number():
    ad.check_gradients(mul_constant, B, 3.0)


def test_large_and_small_arguments_pass():
    for scale in (1e-3, 1.0, 1e3):
        ad.check_gradients(lambda x: (x * x * x).sum(), B * scale)
        ad.check_gradients(lambda x: ad.log(x), (np.abs(B) + 0.5) * scale)


def test_a_linear_function_has_a_zero_second_order():
    ad.check_gradients(lambda x: 3.0 * x, B, order=3)
    ad.check_gradients(lambda x: x.reshape(3, 2).T, W)


def test_the_programs_random_numbers_are_left_alone():
    np.random.seed(0)
    first = np.random.rand()
    np.random.seed(0)
    ad.check_gradients(ad.sin, B)
    assert np.random.rand() == first


# ---------------------------------------------------------------- what is wrong is named


def test_a_wrong_entry_is_named_with_its_input_and_rule():
    linear = affine(weight_factor=2.0)
    with pytest.raises(ad.GradientError) as caught:
        ad.check_gradients(linear, X, W, B)
    message = str(caught.value)
    assert "check_gradients of linear: the derivative is wrong at first order, in reverse mode" in message
    assert "input weight: f64[2,3], entry [1, 2]: it is " in message
    assert "the rule: the backward of linear at test_check_gradients.py:" in message
    assert "called at test_check_gradients.py:" in message
    got, expected = [float(n) for n in re.findall(r"(?:it is|gives) ([-.\de]+)", message)]
    np.testing.assert_allclose(got, 2 * expected, rtol=1e-6)


def test_a_failed_check_is_an_assertion_error_too():
    with pytest.raises(AssertionError):
        ad.check_gradients(affine(weight_factor=2.0), X, W, B)


def test_the_guilty_rule_is_found_among_several():
    good = pair(lambda ctx, t: t * 2.0, lambda ctx, g: g * 2.0)

    def wrong(ctx, g):
        return g * 4.0

    bad = pair(lambda ctx, t: t * 3.0, wrong)
    with pytest.raises(ad.GradientError) as caught:
        ad.check_gradients(lambda p: good(bad(good(ad.sin(p["w"])))).sum(), {"w": B})
    assert f"the backward of f at test_check_gradients.py:{wrong.__code__.co_firstlineno}" in str(caught.value)
    assert "input p['w']: f64[2], entry [0]" in str(caught.value)


def test_a_rule_that_is_wrong_only_at_second_order_is_found():
    def backward(ctx, g):
        return g * 2.0 * ad.stop_gradient(ctx.saved_variables.t)

    def forward(ctx, t):
        ctx.save_for_backward(t=t)
        return t * t

    square = pair(forward, backward)
    ad.check_gradients(square, B, order=1)
    with pytest.raises(ad.GradientError, match=r"at second order, in reverse mode\n(.|\n)*the backward of f at"):
        ad.check_gradients(square, B)


def test_a_wrong_gradient_of_the_dtype_float32_is_found():
    with pytest.raises(ad.GradientError, match=r"input weight: f32\[2,3\], entry \[1, 2\]"):
        ad.check_gradients(affine(weight_factor=4.0), *[a.astype(np.float32) for a in (X, W, B)])


def test_a_kink_is_told_as_such():
    with pytest.raises(ad.GradientError, match="look for a kink"):
        ad.check_gradients(lambda x: ad.maximum(x, 2.0 * x), np.zeros(2))


def test_a_gradient_that_was_stopped_is_found():
    with pytest.raises(ad.GradientError, match="first order"):
        ad.check_gradients(lambda x: ad.stop_gradient(x) * x, B)


# ---------------------------------------------------------------- misuse


def test_nothing_to_differentiate_is_an_error():
    for args in ((3,), ("text",), (np.arange(3),)):
        with pytest.raises(ad.DTypeError, match="no argument is a float array"):
            ad.check_gradients(lambda x: x, *args)


def test_no_float_result_is_an_error():
    with pytest.raises(ad.GradientError, match="returned no float array"):
        ad.check_gradients(lambda x: "text", B)


def test_what_the_function_raises_is_passed_on():
    def fails(x):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        ad.check_gradients(fails, B)


# ---------------------------------------------------------------- host rules


def host_solve(factor=1.0):
    """a @ u = b by NumPy, forward and back."""

    @ad.function
    def solve(a, b): ...

    @solve.forward(ad.Matrix, ad.Vector, host=True)
    def _(ctx, a, b):
        u = np.linalg.solve(a, b)
        ctx.save_for_backward(a=a, u=u)
        return u

    @solve.backward(ad.Matrix, ad.Vector, host=True)
    def _(ctx, g):
        a, u = ctx.saved_variables
        b_bar = np.linalg.solve(a.T, g)
        return {"a": -factor * np.outer(b_bar, u), "b": b_bar}

    return solve


MATRIX = RNG.normal(size=(3, 3)) + 3 * np.eye(3)


def test_a_host_backward_is_checked_in_reverse_mode():
    def loss(a, b):
        return ad.sum(host_solve()(ad.exp(a), b) ** 2)

    ad.check_gradients(loss, MATRIX / 3, B[[0, 1, 0]], order=1)
    with pytest.raises(ad.GradientError, match=r"in reverse mode(.|\n)*input a\b"):
        ad.check_gradients(host_solve(1.01), MATRIX, B[[0, 1, 0]], order=1)


def test_a_second_derivative_through_a_host_backward_names_the_order_that_can_be_checked():
    with pytest.raises(ad.GradientError, match=r"host backward of solve(.|\n)*order=1"):
        ad.check_gradients(host_solve(), MATRIX, B[[0, 1, 0]])


def test_a_wrong_derivative_of_a_program_with_a_loop_is_said_to_be_wrong():
    def held(x):
        last, path = ad.scan(lambda s, t: (s * 0.9 + t, s * t), 0.0, x)
        return ad.stop_gradient(last) * 2.0 + path.sum()

    with pytest.raises(ad.GradientError, match=r"derivative is wrong at first order(.|\n)*no custom rule in it"):
        ad.check_gradients(held, np.array([0.5, 1.5, 2.0]), order=1)


class Sphere(ad.AbstractTensor):
    """A vector of length one, whose gradients are tangent; `held` what it is put into."""

    def __init__(self, x):
        self.x = x

    aval = property(lambda self: self.x.aval)
    shape = property(lambda self: self.x.shape)
    dtype = property(lambda self: self.x.dtype)


ad.tree.register(Sphere, lambda s: ([s.x], None), lambda _, leaves: Sphere(leaves[0]))


@ad.dense.method(Sphere)
def _(x):
    return x.x


@ad.project.method(object, Sphere)
def _(g, like):
    g = ad.dense(g)
    return Sphere(g - like.x * ad.sum(g * like.x))


FORM = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]])


def _form(factor):
    """x A x of a point of the sphere, with its gradient times a number."""

    @ad.function
    def form(s): ...

    @form.forward(Sphere)
    def _(ctx, s):
        ctx.save_for_backward(s=s)
        return ad.sum(s.x * (FORM @ s.x))

    @form.backward(Sphere)
    def _(ctx, g):
        return 2 * factor * g * (FORM @ ctx.saved_variables.s.x)

    return form


@pytest.mark.parametrize(
    ("held", "taken"),
    [(lambda s: s, lambda x: x), (lambda s: {"a": [s]}, lambda x: x["a"][0])],
    ids=["alone", "nested"],
)
def test_a_rule_whose_gradient_is_projected_is_checked_along_what_the_projection_leaves(held, taken):
    point = held(Sphere(ad.tensor(np.array([1.0, 2.0, 2.0]) / 3)))
    right, wrong = _form(1.0), _form(1.1)
    ad.check_gradients(lambda x: right(taken(x)), point, order=2)
    ad.check_gradients(lambda x: ad.sum(ad.dense(taken(x)) ** 3), point, order=2)  # nothing is projected here
    with pytest.raises(ad.GradientError, match=r"wrong at first order[\s\S]*the backward of form"):
        ad.check_gradients(lambda x: wrong(taken(x)), point, order=1)
    with pytest.raises(ad.GradientError, match="wrong at first order"):
        ad.check_gradients(lambda x: wrong(taken(x)), point)


@pytest.mark.parametrize(
    "value",
    [ad.Diagonal(np.array([1.0, 2.0])), ad.Fill(2.0, (2, 2)), ad.Symmetric(np.array([[1.0, 2.0], [2.0, 5.0]])),
     ad.LowerTriangular(np.array([[1.0, 0.0], [2.0, 5.0]]))],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_structured_arguments_are_checked_in_their_own_directions(value):
    @ad.function
    def cubes(a): ...

    @cubes.forward(ad.AbstractTensor)
    def _(ctx, a):
        a = ad.dense(a)
        ctx.save_for_backward(a=a)
        return ad.sum(a**3)

    @cubes.backward(ad.AbstractTensor)
    def _(ctx, g):
        return 3 * g * ctx.saved_variables.a ** 2

    ad.check_gradients(cubes, value, order=2)
    ad.check_gradients(lambda a: ad.sum(ad.dense(a) ** 3), value, order=2)


def test_a_jvp_whose_own_derivative_is_wrong_is_found_at_second_order():
    square = pair(lambda ctx, t: (ctx.save_for_backward(t=t), t * t)[1], lambda ctx, g: 2 * g * ctx.saved_variables.t)

    @square.jvp(ad.Tensor)
    def _(ctx, dt):
        return 2 * dt * ctx.saved_variables.t

    ad.check_gradients(square, X, order=3)

    @square.jvp(ad.Tensor)
    def _(ctx, dt):
        return 2 * dt * ad.stop_gradient(ctx.saved_variables.t)

    ad.check_gradients(square, X, order=1)
    with pytest.raises(ad.GradientError, match=r"(?s)second order.*of the tangent that the jvp gives.*the jvp of f at"):
        ad.check_gradients(square, X)


@pytest.mark.parametrize("argnums", [5, -3, 1.0, "a", (0, 7), (0, 0)])
def test_arguments_to_check_that_the_call_lacks_are_refused(argnums):
    with pytest.raises(ad.DispatchError, match="argnums"):
        ad.check_gradients(lambda x, y: ad.sum(x * y), X, X, argnums=argnums)


def test_an_integer_of_numpys_numbers_one_argument():
    def f(x, y):
        return ad.sum(x * y)

    ad.check_gradients(f, X, X, argnums=np.int64(1))
    for transformed in (ad.grad(f, np.int64(1)), lambda *xs: ad.value_and_grad(f, np.int64(1))(*xs)[1]):
        np.testing.assert_array_equal(transformed(X, 2 * X), X)
