"""SEMANTICS 1 and 2: the three teaching examples, and what a backward may return."""

from __future__ import annotations

import dataclasses
from collections import namedtuple

import numpy as np
import pytest
from custom_functions import exp2, linear, mul_constant
from three_ways import difference, gradients, recorded, refused

import autodiff as ad

X = np.array([1.0, -2.0, 3.0])
W = np.array([0.5, 0.25, -1.0])


def pair(forward, backward, types=(ad.Tensor, ad.Tensor)):
    """A custom function of x and w."""

    @ad.function
    def f(x, w): ...

    f.forward(*types)(forward)
    f.backward(*types)(backward)
    return f


def product(returns):
    """x * w with a backward that returns `returns(g, saved)`."""

    def forward(ctx, x, w):
        ctx.save_for_backward(x=x, w=w)
        return x * w

    return pair(forward, lambda ctx, g: returns(g, ctx.saved_variables))


def total(f):
    return lambda *xs: f(*xs).sum()


# ---------------------------------------------------------------- 1. the teaching examples


@pytest.mark.smoke
def test_linear_gives_the_gradients_of_all_three_inputs(rng):
    x, w, b = rng.normal(size=(4, 3)), rng.normal(size=(2, 3)), rng.normal(size=2)
    weights = rng.normal(size=(4, 2))
    gx, gw, gb = gradients(lambda x, w, b: (linear(x, w, b) * weights).sum(), x, w, b)
    np.testing.assert_allclose(gx, weights @ w)
    np.testing.assert_allclose(gw, weights.T @ x)
    np.testing.assert_allclose(gb, weights.sum(axis=0))


def test_linear_without_bias_needs_none(rng):
    x, w = rng.normal(size=(4, 3)), rng.normal(size=(2, 3))
    gx, gw = gradients(lambda x, w: linear(x, w).sum(), x, w)
    np.testing.assert_allclose(gx, np.ones((4, 2)) @ w)
    np.testing.assert_allclose(gw, np.ones((4, 2)).T @ x)


def test_linear_is_right_to_second_order(rng):
    x, w, b = rng.normal(size=(3, 2)), rng.normal(size=(2, 2)), rng.normal(size=2)

    def inner(w):
        return (ad.grad(lambda w: (ad.sin(linear(x, w, b)) * 2.0).sum())(w) ** 2).sum()

    expected = difference(inner, w)
    np.testing.assert_allclose(ad.grad(inner)(w), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(ad.jit(ad.grad(inner))(w), expected, rtol=1e-6, atol=1e-6)


def test_mul_constant_scales_the_gradient():
    x = ad.tensor(1.0, requires_grad=True)
    o = mul_constant(x, 2)
    o.backward()
    assert x.grad.item() == 2.0


@pytest.mark.smoke
def test_mul_constant_with_1000_constants_compiles_once_and_is_right_each_time():
    x = ad.tensor(X, requires_grad=True)
    mul_constant(x, 0.5).sum().backward()
    with ad.max_compiles(0):
        for c in np.linspace(-3.0, 3.0, 1000).tolist():
            x.grad = None
            mul_constant(x, c).sum().backward()
            np.testing.assert_array_equal(x.grad.numpy(), np.full(3, c))


def test_mul_constant_under_jit_takes_the_constant_as_an_argument():
    g = ad.jit(lambda x, c: ad.grad(lambda x: mul_constant(x, c).sum())(x))
    g(X, 1.5)
    with ad.max_compiles(0):
        for c in (2.5, -1.0, 0.0):
            np.testing.assert_array_equal(g(X, c), np.full(3, c))


@pytest.mark.smoke
def test_exp2_saves_its_result_and_is_right_to_third_order():
    (g,) = gradients(lambda x: exp2(x).sum(), X)
    np.testing.assert_allclose(g, np.exp(X))
    h = exp2
    for _ in range(3):
        h = ad.grad(lambda x, h=h: h(x).sum())
        np.testing.assert_allclose(h(X), np.exp(X))
        np.testing.assert_allclose(ad.jit(h)(X), np.exp(X))


def test_custom_derivatives_through_a_saved_intermediate_are_right_to_third_order():
    @ad.function
    def quartic(x): ...

    @quartic.forward(ad.Tensor)
    def _(ctx, x):
        t = x * x
        ctx.save_for_backward(x=x, t=t)
        return t * x * x

    @quartic.backward(ad.Tensor)
    def _(ctx, g):
        s = ctx.saved_variables
        return 4.0 * g * s.t * s.x

    h = quartic
    for expected in (4 * X**3, 12 * X**2, 24 * X):
        h = ad.grad(lambda x, h=h: h(x).sum())
        np.testing.assert_allclose(h(X), expected)
        np.testing.assert_allclose(ad.jit(h)(X), expected)
    x = ad.tensor(X, requires_grad=True)
    for _ in range(2):
        y = quartic(x).sum()
        for expected in (4 * X**3, 12 * X**2, 24 * X):
            (y,) = ad.grad(y, [x], create_graph=True)
            np.testing.assert_allclose(y.detach().numpy(), expected)
            y = y.sum()


# ---------------------------------------------------------------- 2. what backward may return


def test_a_dict_may_come_in_any_order():
    f = product(lambda g, s: {"w": g * s.x, "x": g * s.w})
    gx, gw = gradients(total(f), X, W)
    np.testing.assert_array_equal(gx, W)
    np.testing.assert_array_equal(gw, X)


@pytest.mark.parametrize("container", [tuple, list])
def test_a_tuple_or_list_has_one_entry_per_parameter_in_order(container):
    f = product(lambda g, s: container([g * s.w, g * s.x]))
    gx, gw = gradients(total(f), X, W)
    np.testing.assert_array_equal(gx, W)
    np.testing.assert_array_equal(gw, X)


def test_trailing_entries_may_be_left_off_when_none_of_them_needs_a_gradient():
    f = product(lambda g, s: (g * s.w,))
    (gx,) = gradients(lambda x: f(x, ad.tensor(W)).sum(), X)
    np.testing.assert_array_equal(gx, W)
    error = refused(total(f), X, W)
    assert isinstance(error, ad.GradientError) and "'w' needs one too" in str(error)


def test_surplus_entries_must_be_none():
    fine = product(lambda g, s: (g * s.w, g * s.x, None, None))
    np.testing.assert_array_equal(gradients(total(fine), X, W)[0], W)
    error = refused(total(product(lambda g, s: (g * s.w, g * s.x, g))), X, W)
    assert "3 gradients for 2 parameters (x, w)" in str(error)


def test_a_single_gradient_stands_for_itself_where_one_argument_is_a_tensor():
    f = pair(lambda ctx, x, w: x * w, lambda ctx, g: g * 5.0, (ad.Tensor, ad.Number))
    (g,) = gradients(lambda x: f(x, 5.0).sum(), X)
    np.testing.assert_array_equal(g, np.full(3, 5.0))


def test_a_single_gradient_for_two_tensors_is_refused():
    error = refused(total(product(lambda g, s: g * s.w)), X, W)
    assert "for 2 tensor arguments" in str(error) and "'x', 'w'" in str(error)


@pytest.mark.parametrize("wrong", ["text", object(), {1, 2}])
def test_anything_else_is_refused(wrong):
    f = pair(lambda ctx, x, w: x * w, lambda ctx, g: wrong, (ad.Tensor, ad.Number))
    assert isinstance(refused(lambda x: f(x, 2.0).sum(), X), ad.GradientError)


Point = namedtuple("Point", "a b")


@dataclasses.dataclass
class Layer:
    weight: object
    bias: object
    name: str = "dense"


CONTAINERS = {
    "tuple": (lambda a, b: (a, b), lambda p: (p[0], p[1])),
    "list": (lambda a, b: [a, b], lambda p: (p[0], p[1])),
    "dict": (lambda a, b: {"a": a, "b": b}, lambda p: (p["a"], p["b"])),
    "namedtuple": (Point, lambda p: (p.a, p.b)),
    "dataclass": (Layer, lambda p: (p.weight, p.bias)),
    "nested": (lambda a, b: {"l": [a, (b, None)]}, lambda p: (p["l"][0], p["l"][1][0])),
}


def of_container(parts, gradient):
    """A function of one container of two tensors; its backward returns `gradient(ctx, g, a, b)` for it."""

    @ad.function
    def f(p): ...

    @f.forward
    def _(ctx, p):
        a, b = parts(p)
        ctx.save_for_backward(p=p)
        return a * b

    @f.backward
    def _(ctx, g):
        return {"p": gradient(ctx, g, *parts(ctx.saved_variables.p))}

    return f


@pytest.mark.parametrize("kind", CONTAINERS)
def test_the_gradient_of_a_container_is_the_same_container(kind):
    make, parts = CONTAINERS[kind]
    f = of_container(parts, lambda ctx, g, a, b: make(g * b, g * a))
    ga, gb = gradients(lambda a, b: f(make(a, b)).sum(), X, W)
    np.testing.assert_array_equal(ga, W)
    np.testing.assert_array_equal(gb, X)


def test_needs_input_grad_of_a_container_is_one_bool_any_inside():
    seen = []
    f = of_container(lambda p: p, lambda ctx, g, a, b: (seen.append(tuple(ctx.needs_input_grad)), (g * b, None))[1])
    gradients(lambda a: f((a, ad.tensor(W))).sum(), X, kept=False)
    assert set(seen) == {(True,)}


def test_none_stands_for_a_whole_subtree():
    f = of_container(lambda p: (p["a"], p["b"][0]), lambda ctx, g, a, b: {"a": g * b, "b": None})
    ga, gb = gradients(lambda a, b: f({"a": a, "b": [b, b]}).sum(), X, W)
    np.testing.assert_array_equal(ga, W)
    assert not gb.any()
    assert recorded(lambda a, b: f({"a": a, "b": [b, b]}).sum(), X, W)[1] is None


def test_another_container_is_refused_with_the_place_where_they_differ():
    f = of_container(lambda p: (p["a"], p["b"]), lambda ctx, g, a, b: {"a": g * b})
    error = refused(lambda a, b: f({"a": a, "b": b}).sum(), X, W)
    assert "must have the argument's container" in str(error) and "['b']" in str(error)


@pytest.mark.smoke
def test_an_unknown_name_lists_the_valid_names_and_the_closest():
    error = refused(total(product(lambda g, s: {"x": g * s.w, "ww": g * s.x})), X, W)
    assert "'ww'" in str(error) and "the parameters are x, w; did you mean 'w'?" in str(error)


def test_a_dict_that_lacks_a_needed_input_is_refused_unless_it_says_none():
    error = refused(total(product(lambda g, s: {"x": g * s.w})), X, W)
    assert "no gradient for 'w', which needs one" in str(error)
    gx, gw = gradients(total(product(lambda g, s: {"x": g * s.w, "w": None})), X, W)
    np.testing.assert_array_equal(gx, W)
    assert not gw.any()


def test_none_is_zero_end_to_end_and_leaves_grad_alone():
    f = product(lambda g, s: {"x": g * s.w, "w": None})
    x, w = ad.tensor(X, requires_grad=True), ad.tensor(W, requires_grad=True)
    for _ in range(3):
        f(x, ad.sin(w) * 3.0).sum().backward()
        assert w.grad is None
    ran = []
    g = pair(lambda ctx, x, w: x * w, lambda ctx, g: (ran.append(1), None, None)[1:])
    f(x, g(w, w)).sum().backward()
    assert not ran, "a rule below a None is not called"


@pytest.mark.parametrize(
    ("gradient", "said"),
    [(lambda g: g.sum(), "f64[]"), (lambda g: ad.stack([g, g]), "f64[2,3]"), (lambda g: 1.0, "the number 1.0")],
)
def test_a_gradient_of_another_shape_is_refused_also_where_it_would_broadcast(gradient, said):
    error = refused(total(product(lambda g, s: {"x": gradient(g), "w": None})), X, W)
    assert isinstance(error, ad.ShapeError) and isinstance(error, ad.GradientError)
    for part in ("f ", "'x'", "f64[3]", said, "test_custom.py", "ad.unbroadcast"):
        assert part in str(error)


def test_a_python_number_is_accepted_for_a_0d_input():
    f = pair(lambda ctx, x, w: x * w, lambda ctx, g: {"x": 2, "w": 3.5})
    gx, gw = gradients(lambda x, w: f(x, w), np.array(1.0), np.array(2.0))
    assert (gx, gw) == (2.0, 3.5)


def test_a_float_of_another_width_is_cast_to_the_input():
    f = product(lambda g, s: {"x": ad.astype(g * s.w, ad.float32), "w": ad.astype(g, ad.float32)})
    gx, gw = gradients(total(f), X, W)
    assert gx.dtype == np.float64 and gw.dtype == np.float64
    (narrow,) = gradients(lambda x: f(x, x).sum(), X.astype(np.float32))
    assert narrow.dtype == np.float32


def test_an_integer_gradient_is_refused():
    error = refused(total(product(lambda g, s: {"x": ad.astype(g, ad.int64), "w": None})), X, W)
    assert isinstance(error, ad.DTypeError) and "integer gradient i64[3] for 'x': f64[3]" in str(error)


def test_a_complex_gradient_for_a_real_input_gives_its_real_part():
    f = product(lambda g, s: {"x": np.array([1 + 5j, 2 - 1j, 3j]), "w": None})
    np.testing.assert_array_equal(gradients(total(f), X, W, kept=False)[0], [1.0, 2.0, 0.0])
    f = product(lambda g, s: {"x": g * (7.0 + 2j), "w": None})
    np.testing.assert_array_equal(gradients(total(f), X, W)[0], [7.0, 7.0, 7.0])


def test_a_gradient_for_what_is_no_tensor_is_refused_naming_the_argument():
    f = pair(lambda ctx, x, w: x * w, lambda ctx, g: {"x": g, "w": g.sum()}, (ad.Tensor, ad.Number))
    x = ad.tensor(X, requires_grad=True)
    with pytest.raises(ad.GradientError, match="'w', which is no tensor; return None"):
        f(x, 2.0).sum().backward()
    assert x.grad is None


def test_the_gradient_of_an_array_in_a_container_goes_nowhere():
    """As of an array that is an argument itself: one rule serves parameters that track, and constant ones."""
    rule = {"x": lambda g, s: g * s.w["a"], "w": lambda g, s: {"a": g * s.x, "b": g, "name": None}}
    f = pair(
        lambda ctx, x, w: ctx.save_for_backward(x=x, w=w) or x * w["a"] + w["b"],
        lambda ctx, g: {name: of(g, ctx.saved_variables) for name, of in rule.items()},
        (ad.Tensor, dict),
    )
    arrays = {"a": W, "b": X, "name": "layer"}
    for way in (ad.grad, lambda f: ad.jit(ad.grad(f)), lambda f: lambda x: ad.vmap(ad.grad(f))(x[None])[0]):
        np.testing.assert_array_equal(way(lambda x: f(x, arrays).sum())(X), W)
    a = ad.tensor(W, requires_grad=True)
    f(X, {**arrays, "a": a}).sum().backward()
    np.testing.assert_array_equal(a.grad, X)
    with pytest.raises(ad.GradientError, match="inside 'w' for what is no tensor; return None for it"):
        f(ad.tensor(X, requires_grad=True), {**arrays, "b": 2.0}).sum().backward()


def test_one_object_returned_for_two_inputs_shares_no_memory():
    f = pair(lambda ctx, x, w: x + w, lambda ctx, g: {"x": g, "w": g})
    for create_graph in (False, True):
        x, w = ad.tensor(X, requires_grad=True), ad.tensor(W, requires_grad=True)
        f(x, w).sum().backward(create_graph=create_graph)
        assert x.grad is not w.grad
        x.grad *= 10.0
        np.testing.assert_array_equal(w.grad.detach().numpy(), np.ones(3))
        assert create_graph or not np.shares_memory(x.grad.numpy(), w.grad.numpy())


def test_a_backward_cannot_change_the_seed_of_the_caller():
    def backward(ctx, g):
        g *= 100.0
        return {"x": g, "w": g}

    f = pair(lambda ctx, x, w: x + w, backward)
    seed = np.ones(3)
    tensor_seed = ad.tensor(np.ones(3))
    x = ad.tensor(X, requires_grad=True)
    f(x, x).backward(seed)
    f(x, x).backward(tensor_seed)
    np.testing.assert_array_equal(seed, np.ones(3))
    np.testing.assert_array_equal(tensor_seed.numpy(), np.ones(3))
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 400.0))


def test_errors_name_the_line_of_the_call_and_of_the_rule():
    def explode(ctx, g):
        raise ZeroDivisionError("boom")

    f = pair(lambda ctx, x, w: x * w, explode)
    with pytest.raises(ZeroDivisionError) as caught:
        f(ad.tensor(X, requires_grad=True), ad.tensor(W)).sum().backward()
    notes = "\n".join(caught.value.__notes__)
    assert "backward rule of f" in notes and notes.count("test_custom.py:") == 2


def test_a_huge_number_for_an_array_is_refused_by_its_shape():
    @ad.function
    def same(x): ...

    @same.forward(ad.Tensor)
    def _(ctx, x):
        return x * 1.0

    @same.backward(ad.Tensor)
    def _(ctx, g):
        return {"x": 10**400}

    @same.jvp(ad.Tensor)
    def _(ctx, dx):
        return 10**400

    with pytest.raises(ad.GradientError, match=r"returned the number 10+ as the gradient for 'x': f64\[3\]"):
        ad.grad(lambda x: ad.sum(same(x)))(np.ones(3))
    with pytest.raises(ad.GradientError, match=r"returned the number 10+ as the tangent of output 0: f64\[3\]"):
        ad.jvp(same, (np.ones(3),), (np.ones(3),))


@pytest.mark.parametrize("given", [1j, np.ones(3) * 1j, np.float64(1.0) * np.ones(3, np.complex64)])
def test_a_complex_tangent_of_a_real_output_is_refused(given):
    @ad.function
    def same(x): ...

    @same.forward(ad.Tensor)
    def _(ctx, x):
        return x * 1.0

    @same.jvp(ad.Tensor)
    def _(ctx, dx):
        return given

    with pytest.raises(ad.GradientError, match=r"returned a complex tangent c\d+\[3?\] of output 0: f64\[3\]"):
        ad.jvp(same, (np.ones(3),), (np.ones(3),))
