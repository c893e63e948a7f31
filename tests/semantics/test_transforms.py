"""Transformations of functions: values, nestings, composition laws, second order.

Laws run on a list of programs, recorded and under jit, and a second time from the cache."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from transformed import RNG, A, X, close, cube

import autodiff as ad

V = RNG.normal(size=4)


def chain(x):
    return (ad.sin(x) * ad.exp(-x) + ad.sqrt(x)).sum()


def rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def network(x):
    return ad.logsumexp(ad.tanh(ad.asarray(A) @ x) @ ad.asarray(A) * x)


def branches(x):
    return ad.where(x > 1.0, ad.log(x), x * x).sum() + ad.maximum(x, 0.9).prod()


def custom(x):
    return cube(ad.sin(x)).sum() + cube(x)[0]


def reductions(x):
    y = x / x.mean()
    return ad.var(y) + ad.softmax(y)[1] * y.max()


PROGRAMS = [chain, rosenbrock, network, branches, custom, reductions]
each = pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)


def difference(f, x, v, h=1e-6):
    """The derivative of f along v by central difference."""
    return (np.asarray(f(x + h * v)) - np.asarray(f(x - h * v))) / (2 * h)


# ---------------------------------------------------------------- laws


@each
def test_the_gradient_is_that_of_a_difference(f):
    def value(x):
        return ad.value_and_grad(f)(x)[0]

    for _ in range(2):
        close(ad.grad(f)(X) @ V, difference(value, X, V), rtol=1e-6)


@each
def test_grad_of_jit_is_jit_of_grad_is_grad(f):
    expected = ad.grad(f)(X)
    inner, outer, both = ad.grad(ad.jit(f)), ad.jit(ad.grad(f)), ad.jit(ad.grad(ad.jit(f)))
    for _ in range(2):
        close(inner(X), expected)
        close(outer(X), expected)
        close(both(X), expected)


@each
def test_forward_mode_is_the_adjoint_of_reverse_mode(f):
    push = ad.jit(lambda x, v: ad.jvp(f, (x,), (v,))[1])
    for _ in range(2):
        _, dot = ad.jvp(f, (X,), (V,))
        close(dot, ad.grad(f)(X) @ V)
        close(push(X, V), dot)


@each
def test_jvp_of_grad_is_grad_along_a_direction(f):
    expected = difference(ad.grad(f), X, V)
    product = ad.jit(lambda x, v: ad.hvp(f, x, v))
    for _ in range(2):
        close(ad.jvp(ad.grad(f), (X,), (V,))[1], expected, rtol=1e-5)
        close(ad.grad(lambda x: (ad.grad(f)(x) * V).sum())(X), expected, rtol=1e-5)
        close(ad.hvp(f, (X,), (V,)), expected, rtol=1e-5)
        close(product(X, V), expected, rtol=1e-5)


@each
def test_the_hessian_is_symmetric_and_the_jacobian_of_the_gradient(f):
    h = ad.hessian(f)(X)
    assert h.shape == (4, 4)
    close(h, h.T)
    close(h @ V, ad.hvp(f, X, V))
    close(h, ad.jacobian(ad.grad(f), mode="forward")(X))
    close(h, ad.jit(ad.hessian(f))(X))


@each
def test_the_third_derivative_agrees_in_every_order_of_modes(f):
    def along(g):
        return lambda x: (ad.grad(g)(x) * V).sum()

    third = ad.grad(along(along(f)))(X)
    close(third, ad.jvp(lambda x: ad.hvp(f, x, ad.asarray(V)), (X,), (V,))[1], rtol=1e-8)
    close(third, difference(lambda x: ad.hvp(f, x, V), X, V), rtol=1e-4)


# ---------------------------------------------------------------- nesting


@pytest.mark.smoke
def test_a_derivative_inside_a_derivative_is_not_confused():
    for x in (3.0, np.float64(3.0), np.array(3.0)):
        assert ad.grad(lambda x: ad.grad(lambda y: x * y)(x))(x) == 1.0
        assert ad.grad(lambda x: x * ad.grad(lambda y: x + y)(1.0))(x) == 1.0
        assert ad.grad(lambda x: x * ad.grad(lambda y: x * y * y)(x))(x) == 6 * x * x
        assert ad.jvp(lambda x: x * ad.jvp(lambda y: x + y, (1.0,), (1.0,))[1], (x,), (1.0,))[1] == 1.0


def test_an_inner_derivative_at_a_plain_number_keeps_the_outer_one():
    for _ in range(4):
        assert ad.grad(lambda x: ad.grad(lambda y: x * y)(1.0))(3.0) == 1.0
        assert ad.jvp(lambda x: ad.grad(lambda y: x * x * y)(1.0), (3.0,), (1.0,))[1] == 6.0
        assert ad.grad(lambda x: ad.jvp(lambda y: x * y, (1.0,), (2.0,))[1])(3.0) == 2.0
        assert ad.grad(lambda x: ad.vjp(lambda y: x * y, 1.0)[1](2.0)[0])(3.0) == 2.0


def test_a_gradient_that_is_its_own_seed_is_right_every_time():
    for _ in range(5):
        assert ad.grad(lambda x: x + 1.0)(1.0) == 1.0
        assert ad.grad(lambda x, y: x + y, argnums=(0, 1))(1.0, 2.0) == (1.0, 1.0)


def test_nesting_is_right_under_jit():
    f = ad.jit(ad.grad(lambda x: ad.grad(lambda y: x * y * y)(x)))
    g = ad.grad(lambda x: ad.jit(ad.grad(lambda y: x * y * y))(x))
    for _ in range(2):
        assert f(3.0) == 4 * 3.0
        assert g(3.0) == 4 * 3.0


def test_grad_inside_an_enclosing_recording_keeps_the_outer_gradient():
    w = ad.tensor(2.0, requires_grad=True)
    for _ in range(2):
        w.grad = None
        g = ad.grad(lambda y: w * y * y)(ad.tensor(3.0))
        g.backward()
        assert w.grad.item() == 6.0


def test_stop_gradient_stops_both_modes():
    def f(x):
        return x * ad.stop_gradient(x)

    for run in (f, ad.jit(f)):
        assert ad.grad(run)(3.0) == 3.0
        assert ad.jvp(run, (3.0,), (1.0,))[1] == 3.0
        assert ad.grad(ad.grad(run))(3.0) == 0.0


# ---------------------------------------------------------------- arguments and results


class Pair(NamedTuple):
    a: object
    b: object


@pytest.mark.smoke
def test_gradients_have_the_nesting_of_their_argument():
    params = {"w": np.ones(2), "rest": [Pair(np.array(2.0), "name"), None]}

    def f(p):
        return (p["w"] * p["rest"][0].a).sum()

    for run in (ad.grad(f), ad.jit(ad.grad(f))):
        for _ in range(2):
            g = run(params)
            close(g["w"], [2.0, 2.0])
            assert type(g["rest"][0]) is Pair and g["rest"][0].b == "name" and g["rest"][1] is None
            close(g["rest"][0].a, 2.0)


def test_argnums_choose_arguments_and_a_tuple_gives_a_tuple():
    def f(x, y, z):
        return (x * y * z).sum()

    x, y, z = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([5.0, 6.0])
    close(ad.grad(f, argnums=1)(x, y, z), x * z)
    gx, gz = ad.grad(f, argnums=(0, 2))(x, y, z)
    close(gx, y * z)
    close(gz, x * y)
    close(ad.grad(f, argnums=-1)(x, y, z), x * y)
    value, (g,) = ad.value_and_grad(f, argnums=(1,))(x, y, z)
    close(value, f(x, y, z))
    close(g, x * z)


def test_has_aux_returns_what_is_no_part_of_the_derivative():
    def f(x):
        return (x * x).sum(), {"double": x * 2, "name": "f"}

    g, aux = ad.grad(f, has_aux=True)(X)
    close(g, 2 * X)
    close(aux["double"], 2 * X)
    assert aux["name"] == "f" and type(aux["double"]) is np.ndarray
    (value, aux), g = ad.value_and_grad(f, has_aux=True)(X)
    close(value, (X * X).sum())


def test_has_aux_of_vjp_is_that_of_value_and_grad():
    def f(x):
        return x * x, {"double": x * 2, "name": "f"}

    value, pullback, aux = ad.vjp(f, X, has_aux=True)
    close(value, X * X)
    close(pullback(np.ones_like(X))[0], 2 * X)
    assert aux["name"] == "f" and type(aux["double"]) is np.ndarray
    close(aux["double"], 2 * X)
    for wrong, got in ((X, "an ndarray"), ((X, X, X), "a tuple of 3"), ([X, X], "a list")):
        with pytest.raises(ad.GradientError, match=rf"must return \(value, aux\) under has_aux=True, not {got}"):
            ad.vjp(lambda x, wrong=wrong: wrong, X, has_aux=True)


@pytest.mark.parametrize(
    "aux_of",
    [
        lambda f, x: ad.vjp(f, x, has_aux=True)[2],
        lambda f, x: ad.value_and_grad(f, has_aux=True)(x)[0][1],
        lambda f, x: ad.grad(f, has_aux=True)(x)[1],
    ],
)
def test_aux_tracks_what_is_outside_of_the_call_and_nothing_else(aux_of):
    w = ad.tensor(3.0, requires_grad=True)
    x = ad.tensor(X)
    assert not aux_of(lambda x: ((x * x).sum(), x * 2), x).requires_grad
    aux_of(lambda x: ((x * x).sum(), x * w), x).sum().backward()
    close(w.grad, X.sum())
    x.requires_grad_()
    aux_of(lambda x: ((x * x).sum(), x * 2), x).sum().backward()
    close(x.grad, np.full(X.shape, 2.0))
    close(ad.grad(lambda x: ad.sum(aux_of(lambda z: ((z * z).sum(), z * z), x)))(X), 2 * X)


def test_plain_code_gets_arrays_and_tensors_get_tensors():
    value, g = ad.value_and_grad(chain)(X)
    assert isinstance(value, np.float64) and type(g) is np.ndarray
    value, g = ad.value_and_grad(chain)(ad.tensor(X))
    assert isinstance(value, ad.Tensor) and isinstance(g, ad.Tensor)
    assert not g.requires_grad and not value.requires_grad


def test_a_returned_array_belongs_to_the_caller():
    run = ad.value_and_grad(lambda x: (x * x).sum())
    _, first = run(X)
    first += 1.0
    _, second = run(X)
    close(second, 2 * X)
    close(first, 2 * X + 1)


def test_a_transformation_locks_and_keeps_no_array_of_the_caller():
    x = X.copy()
    ad.value_and_grad(lambda x: x.sum())(x)
    out, pullback = ad.vjp(lambda x: x * x, x)
    assert x.flags.writeable and not np.shares_memory(out, x)
    close(pullback(np.ones(4))[0], 2 * X)


def test_vjp_pulls_back_any_number_of_times():
    out, pullback = ad.vjp(lambda x, y: {"p": x * y, "s": x.sum()}, X, V)
    close(out["p"], X * V)
    for k in (1.0, 2.0):
        gx, gy = pullback({"p": np.full(4, k), "s": 0.0})
        close(gx, k * V)
        close(gy, k * X)


def test_an_argument_that_is_not_used_has_a_zero_gradient():
    close(ad.grad(lambda x, y: x.sum(), argnums=1)(X, V), np.zeros(4))
    close(ad.jacobian(lambda x, y: x * 2, argnums=1)(X, V), np.zeros((4, 4)))
    close(ad.jvp(lambda x: ad.ones(3), (X,), (V,))[1], np.zeros(3))


# ---------------------------------------------------------------- with SciPy


def test_scipy_minimizes_without_glue():
    from scipy.optimize import minimize

    x0 = np.array([-1.2, 1.0, 0.5])
    f = ad.value_and_grad(rosenbrock)
    found = minimize(f, x0, jac=True, method="L-BFGS-B")
    close(found.x, np.ones(3), rtol=1e-3)
    before = ad.cache_info().compiles
    found = minimize(ad.jit(rosenbrock), x0, jac=ad.grad(rosenbrock), hessp=lambda x, p: ad.hvp(rosenbrock, x, p),
                     method="Newton-CG", options={"xtol": 1e-10})
    close(found.x, np.ones(3), rtol=1e-6)
    assert ad.cache_info().compiles - before <= 3


# ---------------------------------------------------------------- misuse


def test_one_argument_and_its_direction_may_be_given_by_themselves():
    for x, v in ((X, V), (X[:1], V[:1]), (2.0, 3.0)):
        for together, apart in zip(ad.jvp(np.square, x, v), ad.jvp(np.square, (x,), (v,)), strict=True):
            np.testing.assert_array_equal(together, apart, strict=True)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ad.jacobian(chain, mode="sideways"), ad.GradientError, "sideways"),
        (lambda: ad.jacobian(lambda x: "text")(X), ad.GradientError, "returned a str"),
        (lambda: ad.jacobian(lambda x: x > 0)(X), ad.GradientError, r"returned bool\[4\]"),
        (lambda: ad.jacobian(chain)(np.arange(3)), ad.DTypeError, "argument 0 of chain is int64"),
        (lambda: ad.hessian(lambda x: x * 2)(X), ad.GradientError, r"float scalar, not f64\[4\]"),
        (lambda: ad.hvp(chain, (X,), (V, V)), ad.GradientError, "1 primal but 2 tangents"),
        (lambda: ad.hvp(chain, X, V[:2]), ad.ShapeError, r"f64\[4\], its tangent f64\[2\]"),
        (lambda: ad.jvp(chain, (X,), (V.astype(np.float32),)), ad.DTypeError, r"f64\[4\], its tangent f32\[4\]"),
        (lambda: ad.jvp(chain, (X,), ()), ad.GradientError, "1 primal but 0 tangents"),
        (lambda: ad.jvp(chain, (X,), V), ad.GradientError, "jvp of chain: 1 primal but no tuple of tangents"),
        (lambda: ad.vjp(chain, X)[1](np.ones(2)), ad.ShapeError, r"f64\[\], its cotangent f64\[2\]"),
        (lambda: ad.vjp(chain, X)[1]((1.0, 2.0)), ad.GradientError, "1 results but 2 cotangents"),
        (lambda: ad.grad(chain, argnums=2)(X), TypeError, "chain: argnums=2"),
        (lambda: ad.grad(lambda x: x)(X), ad.GradientError, r"float scalar, not f64\[4\]"),
        (lambda: ad.grad(lambda x: "s")(X), ad.GradientError, "not a str"),
        (lambda: ad.grad(chain, has_aux=True)(X), ad.GradientError, r"\(value, aux\)"),
    ],
)
def test_misuse_of_a_transformation_is_a_typed_error(call, error, message):
    with pytest.raises(error, match=message):
        call()
    close(ad.grad(lambda x: (x * x).sum())(X), 2 * X)
