"""Tangents of operations that forward mode finds by their VJP rules, and of matrices at which these are not plain."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

import autodiff as ad

POINT, DIRECTION = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([[0.5, -1.0], [2.0, 0.3]])


@ad.function
def squared(x):
    """x * x, with a backward method alone."""


@squared.forward
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return x * x


@squared.backward
def _(ctx, y_bar):
    return {"x": y_bar * 2 * ctx.saved_variables.x}


OPERATIONS = {
    "cholesky": ad.linalg.cholesky, "cumprod": lambda x: ad.cumprod(x, axis=0), "custom": squared, "det": ad.linalg.det,
    "eigvalsh": ad.linalg.eigvalsh, "inv": ad.linalg.inv, "max": ad.max, "norm": ad.norm, "pinv": ad.linalg.pinv,
    "prod": ad.prod, "slogdet": lambda x: ad.linalg.slogdet(x)[1], "solve": lambda x: ad.linalg.solve(x, x @ x),
    "svdvals": ad.linalg.svdvals,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_tangent_tracks_where_something_given_does(name):
    f = OPERATIONS[name]
    x, dot = ad.tensor(POINT), ad.tensor(DIRECTION)
    expected = ad.jvp(f, (POINT,), (DIRECTION,))[1]
    found = {
        "jvp": ad.jvp(f, (x,), (dot,))[1],
        "jit": ad.jit(lambda x: ad.jvp(f, (x,), (dot,))[1])(x),
        "vmap": ad.vmap(lambda dot: ad.jvp(f, (x,), (dot,))[1])(ad.stack([dot, dot]))[1],
        "jacobian": (ad.jacobian(f, mode="forward")(x) * dot).sum((-2, -1)),
    }
    for way, tangent in found.items():
        assert not tangent.requires_grad, way
        np.testing.assert_allclose(np.asarray(tangent), expected, rtol=1e-12, err_msg=way)
    assert ad.jvp(f, (x,), (ad.tensor(DIRECTION, requires_grad=True),))[1].requires_grad
    with ad.no_grad():
        assert not ad.jvp(f, (x,), (ad.tensor(DIRECTION, requires_grad=True),))[1].requires_grad


@pytest.mark.parametrize(
    "matrix", [[[1.0, 2.0], [2.0, 4.0]], np.diag([3.0, 1.0, 0.0]), [[2.0, 1.0], [0.5, 1.0]]],
    ids=["of rank one", "of rank two", "of full rank"],
)  # fmt: skip
def test_the_sum_of_squared_singular_values_has_the_hessian_of_that_of_squares(matrix):
    def squares(x):
        return (ad.linalg.svdvals(x) ** 2).sum()

    x = np.array(matrix)
    direction = np.sin(np.arange(1.0, x.size + 1).reshape(x.shape))
    np.testing.assert_allclose(ad.hvp(squares, (x,), (direction,)), 2 * direction, rtol=1e-12)
    np.testing.assert_allclose(ad.jvp(ad.grad(squares), (x,), (direction,))[1], 2 * direction, rtol=1e-12)


def test_finite_tangents_are_no_anomaly():
    with ad.detect_anomaly():
        _, dot = ad.jvp(ad.linalg.eigvalsh, (2 * np.eye(2),), (np.ones((2, 2)),))
    np.testing.assert_allclose(dot, [1.0, 1.0])


@pytest.mark.parametrize(
    "x", [[1e-200, 1e-200, 1e200, 1e200], [1e200, 1e200, 1e-200, 1e-200], [1e200, 1e200, 0.0, 1.0]]
)
def test_the_product_of_others_is_in_range_where_that_of_its_halves_is(x):
    expected = [float(np.prod(np.delete(np.array(x, np.longdouble), i))) for i in range(len(x))]
    np.testing.assert_allclose(ad.grad(ad.prod)(np.array(x)), expected, rtol=1e-14)


@pytest.mark.parametrize("weights", [{}, {"fweights": [1, 2, 1, 3]}, {"aweights": [0.5, 1.0, 2.0, 1.0]}], ids=str)
def test_a_covariance_has_the_dtype_of_its_data(weights):
    x = np.array([[1.0, 2.0, 4.0, 3.0], [0.0, 1.0, -1.0, 5.0]], np.float32)
    given = {name: np.array(w) for name, w in weights.items()}
    found = ad.cov(x, **given)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.cov(x, **given), rtol=1e-5)


def test_an_axis_that_a_vector_product_has_not_is_its_own_error():
    with pytest.raises(ad.ShapeError, match="cross: no axis 4 in the result"):
        ad.cross(np.ones((2, 3)), np.ones((2, 3)), axisc=4)


def test_results_track_nothing_where_only_arguments_of_inner_transformations_track():
    x, y = ad.tensor(POINT), ad.tensor(DIRECTION)
    w = ad.tensor(2.0, requires_grad=True)

    def inner(x, factor=1.0):
        return ad.grad(lambda x, y: ad.sum(ad.cos(x)) * ad.sum(ad.tanh(y)) * factor, argnums=(0, 1))(x, y)

    def tracking(found):
        return {t.requires_grad for t in ad.tree.leaves(found)}

    def transformed(f):
        yield ad.jvp(f, (x,), (x,))
        yield ad.vjp(f, x)[0]
        yield ad.jacobian(f)(x)
        yield ad.value_and_grad(lambda x: ad.sum(f(x)[1]))(x)

    assert [tracking(found) for found in transformed(inner)] == [{False}] * 4
    assert [tracking(found) for found in transformed(lambda x: inner(x, w))] == [{True}] * 4
    assert tracking(ad.jvp(lambda y, x: x * ad.sum(ad.tanh(y)), (y, x), (None, x))) == {False}


@pytest.mark.parametrize("inner", [
    lambda x: ad.grad(lambda z: ad.sum(z * 3 * x * x))(ad.ones_like(x)),
    lambda x: ad.grad(lambda z: (ad.sum(z), 3 * x * x), has_aux=True)(ad.ones_like(x))[1],
    lambda x: ad.jvp(lambda x: x ** 3, (x,), (ad.ones_like(x),))[1],
])  # fmt: skip
def test_a_rule_that_differentiates_keeps_the_history_of_what_it_closes_over(inner):
    @ad.function
    def cube(x): ...

    @cube.forward
    def _(ctx, x):
        ctx.save_for_backward(x=x)
        return x ** 3

    @cube.backward
    def _(ctx, y_bar):
        return {"x": y_bar * inner(ctx.saved_variables.x)}

    x = ad.tensor(POINT)
    found = ad.hvp(lambda x: ad.sum(cube(x)), (x,), (ad.ones_like(x),))
    np.testing.assert_allclose(found, 6 * POINT)


KINKED = {
    "abs": lambda x, c: ad.sum(ad.abs(x * c) * ad.abs(x) ** 2),
    "maximum": lambda x, c: ad.sum(ad.maximum(x, c * x) ** 3),
    "norm": lambda x, c: ad.sum(x / (1 + c * ad.linalg.norm(x))),
    "changing": lambda x, c: ad.sum(ad.abs(x) * (ad.abs(x) if c > 1 else x)),
    "beside its sign": lambda x, c: ad.sum(ad.abs(x) * (ad.sign(x) if c > 1 else ad.tensor(DIRECTION.ravel())) * c),
    "of a tensor": lambda x, c: ad.sum(ad.abs(x * ad.exp(ad.tensor(c))) ** 3),
}  # fmt: skip


def searches(call):
    """The result of a call, and the names of the functions that it enters."""
    entered = set()
    sys.setprofile(lambda frame, *_: entered.add(frame.f_code.co_name))
    try:
        return call(), entered
    finally:
        sys.setprofile(None)


def derivatives(f, x, v, c):
    """The tangent of f(x, c) along v, and the second derivatives along v."""
    return ad.jvp(lambda x: f(x, c), (x,), (v,))[1], ad.hvp(lambda x: f(x, c), (x,), (v,))


@pytest.mark.parametrize("name", KINKED)
def test_a_known_pass_looks_for_no_kinks(name, monkeypatch):
    x = np.array([0.5, -2.0, 1.5, 0.0])
    for k in range(8):
        given = KINKED[name], np.roll(x, k) * (k != 3), np.roll(DIRECTION.ravel(), k), 1.0 + k % 2
        found, met = searches(functools.partial(derivatives, *given))
        assert "cancelling" not in met or k < 6
        with monkeypatch.context() as patch:
            patch.setattr(ad.config, "eager", True)
            for one, other in zip(found, derivatives(*given), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_a_known_pass_with_kinks_keeps_the_history_of_what_it_closes_over():
    w = ad.tensor(POINT, requires_grad=True)
    for k in range(6):
        x, v = ad.tensor(DIRECTION + k), ad.tensor(POINT - k)
        found = ad.hvp(lambda x: ad.sum(ad.abs(x * w) ** 2), (x,), (v,))
        w.grad = None
        ad.sum(found * found).backward()
        np.testing.assert_allclose(w.grad, 16 * POINT**3 * (POINT - k) ** 2, rtol=1e-12)


@pytest.mark.parametrize("n", [3, np.int64(3), np.array([3, 3]), ad.tensor([3, 3]), True])
def test_an_integer_without_a_direction_is_a_constant(n):
    x = ad.tensor(POINT)
    y, dy = ad.jvp(lambda x, n: x * n, (x, n), (ad.tensor(DIRECTION), None))
    np.testing.assert_array_equal(y, POINT * np.asarray(n))
    np.testing.assert_array_equal(dy, DIRECTION * np.asarray(n))
    if n is not True:
        product = ad.hvp(lambda x, n: ad.sum(x**2 * n), (x, n), (ad.tensor(DIRECTION), None))
        np.testing.assert_array_equal(product[0], 2 * DIRECTION * np.asarray(n))
        assert product[1] is None
    with pytest.raises(ad.DTypeError, match="only float arrays have gradients"):
        ad.jvp(lambda x, n: x * n, (x, 3), (x, 3))
