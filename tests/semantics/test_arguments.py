"""SEMANTICS 4, arguments: binding, pass-through, containers, duplicates, the body's own recording."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from three_ways import gradients

import autodiff as ad

X = np.array([1.0, -2.0, 3.0])
W = np.array([0.5, 0.25, -1.0])


@ad.function
def scaled(x, y=2.0, z=3.0, *, mode="sum"): ...


@scaled.forward
def _(ctx, x, y=2.0, z=3.0, *, mode="sum"):
    ctx.save_for_backward(y=y, z=z)
    return x * y + z


@scaled.backward
def _(ctx, g):
    return {"x": g * ctx.saved_variables.y, "z": (g * 1.0) if ctx.needs_input_grad.z else None}


@pytest.mark.parametrize(
    ("call", "slope"),
    [
        (lambda x: scaled(x), 2.0),
        (lambda x: scaled(x=x), 2.0),
        (lambda x: scaled(x, 5.0), 5.0),
        (lambda x: scaled(x, y=5.0, mode="other"), 5.0),
        (lambda x: scaled(x, z=1.0), 2.0),
        (lambda x: scaled(z=1.0, y=4.0, x=x), 4.0),
    ],
)
def test_arguments_bind_by_the_declared_signature(call, slope):
    (g,) = gradients(lambda x: call(x).sum(), X)
    np.testing.assert_array_equal(g, np.full(3, slope))


def test_a_skipped_default_in_the_middle_may_be_followed_by_a_tensor():
    gx, gz = gradients(lambda x, z: scaled(x, z=z).sum(), X, W)
    np.testing.assert_array_equal(gx, np.full(3, 2.0))
    np.testing.assert_array_equal(gz, np.ones(3))


@pytest.mark.parametrize("call", [lambda x: scaled(x, w=1.0), lambda x: scaled(), lambda x: scaled(x, 1, 2, 3)])
def test_a_call_that_does_not_bind_is_a_type_error_that_shows_the_declaration(call):
    for ask in (lambda: call(ad.tensor(X)), lambda: ad.jit(call)(X)):
        with pytest.raises(TypeError, match=r"(?s)scaled: .*declared scaled\(x, y=2.0, z=3.0, \*, mode='sum'\)"):
            ask()


def test_arguments_that_are_no_tensors_pass_through_untouched():
    class Thing:
        pass

    given = (Thing(), "text", None, {"k": 1}, [1, 2], 3, 2.5, True, np.float32(1.5), print)
    seen = []

    @ad.function
    def f(x, *rest): ...

    @f.forward
    def _(ctx, x, *rest):
        seen.append(rest)
        return x * 1.0

    @f.backward
    def _(ctx, g):
        seen.append(ctx.inputs.rest)
        return (g,)

    f(ad.tensor(X, requires_grad=True), *given).sum().backward()
    for rest in seen:
        for a, b in zip(rest, given, strict=True):
            assert a is b or (type(a) in (dict, list) and a == b)


def test_an_array_is_untouched_where_a_method_names_ndarray():
    seen = []

    @ad.function
    def f(x, a): ...

    @f.forward(ad.Tensor, np.ndarray)
    def _(ctx, x, a):
        seen.append(a)
        ctx.save_for_backward(a=a)
        return x * a

    @f.backward(ad.Tensor, np.ndarray)
    def _(ctx, g):
        return {"x": g * ctx.saved_variables.a}

    x = ad.tensor(X, requires_grad=True)
    for i in range(3):
        a, x.grad = W + i, None
        f(x, a).sum().backward()
        assert seen[-1] is a
        np.testing.assert_array_equal(x.grad.numpy(), W + i)
    np.testing.assert_array_equal(ad.jit(ad.grad(lambda x: f(x, W).sum()))(X), W)


@dataclasses.dataclass
class Layer:
    weight: object
    bias: object


@pytest.mark.parametrize(
    "wrap",
    [
        lambda a, b: (a, [b]),
        lambda a, b: [a, (b, None)],
        lambda a, b: {"w": a, "deep": {"b": b, "n": 3}},
        lambda a, b: Layer(a, {"b": b}),
    ],
)
def test_tensors_inside_containers_are_tracked_like_direct_ones(wrap):
    def tensors(p):
        return [x for x in ad.tree.leaves(p) if isinstance(x, ad.Tensor)]

    @ad.function
    def f(p, scale=1.0): ...

    @f.forward
    def _(ctx, p, scale=1.0):
        a, b = tensors(p)
        assert not a.requires_grad and not b.requires_grad
        return a * b * scale

    @f.backward
    def _(ctx, g):
        p, scale = ctx.inputs
        a, b = tensors(p)
        bars = iter((g * b * scale, g * a * scale))
        return {"p": ad.tree.map(lambda x: next(bars) if isinstance(x, ad.Tensor) else None, p)}

    ga, gb = gradients(lambda a, b: f(wrap(a, b), 2.0).sum(), X, W, kept=False)
    np.testing.assert_array_equal(ga, 2 * W)
    np.testing.assert_array_equal(gb, 2 * X)
    for side in (0, 1):
        h = ad.grad(lambda a, b, side=side: (ad.grad(lambda a, b: f(wrap(a, b), 2.0).sum(), side)(a, b) ** 2).sum(), 0)
        expected = np.zeros(3) if side == 0 else 8 * X
        np.testing.assert_allclose(h(X, W), expected)


def test_gradients_of_a_tensor_that_is_passed_twice_add():
    @ad.function
    def f(x, y, rest): ...

    @f.forward
    def _(ctx, x, y, rest):
        ctx.save_for_backward(x, y)
        return x * y + 3.0 * rest[0]

    @f.backward
    def _(ctx, g):
        x, y = ctx.saved_variables
        return g * y, g * x, [3.0 * g]

    (g,) = gradients(lambda x: f(x, x, [x]).sum(), X)
    np.testing.assert_array_equal(g, 2 * X + 3.0)


def test_a_tensor_without_requires_grad_passes_untouched():
    x, w = ad.tensor(X, requires_grad=True), ad.tensor(W)
    scaled(x, z=w).sum().backward()
    assert w.grad is None and not w.requires_grad
    y = scaled(w)
    assert not y.requires_grad
    np.testing.assert_array_equal(y.numpy(), W * 2 + 3)


@pytest.mark.parametrize("data", [[1, 2], [True, False]])
def test_integer_and_bool_tensors_never_require_gradients_and_say_why(data):
    for ask in (lambda: ad.tensor(data, requires_grad=True), lambda: ad.tensor(data).requires_grad_()):
        with pytest.raises(ad.DTypeError, match="require gradients: a gradient is a limit, and their values are"):
            ask()


def test_inside_forward_inputs_report_no_gradient_and_the_boundary_carries_the_rule():
    seen = []

    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        seen.append((x.requires_grad, (x * 2.0).requires_grad, ad.is_grad_enabled()))
        return x * 2.0

    f.backward(ad.Tensor)(lambda ctx, g: g * 100.0)
    y = f(ad.tensor(X, requires_grad=True))
    assert y.requires_grad and not y.is_leaf
    assert seen == [(False, False, True)]
    (g,) = gradients(lambda x: f(x).sum(), X)
    np.testing.assert_array_equal(g, np.full(3, 100.0))


def test_a_forward_may_call_custom_functions_itself():
    @ad.function
    def outer(x): ...

    @outer.forward(ad.Tensor)
    def _(ctx, x):
        y = scaled(x, 5.0)
        assert not y.requires_grad
        ctx.save_for_backward(y=y)
        return y * y

    @outer.backward(ad.Tensor)
    def _(ctx, g):
        return g * 2.0 * ctx.saved_variables.y * 5.0

    (g,) = gradients(lambda x: outer(x).sum(), X)
    np.testing.assert_allclose(g, 10 * (5 * X + 3))
    second = ad.grad(lambda x: ad.grad(lambda x: outer(x).sum())(x).sum())
    np.testing.assert_allclose(second(X), np.full(3, 50.0))


def test_an_error_in_forward_keeps_its_type_names_the_function_and_leaves_no_trace():
    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        return x @ ad.tensor(np.ones((7, 7)))

    f.backward(ad.Tensor)(lambda ctx, g: g)
    x = ad.tensor(X, requires_grad=True)
    for call in (lambda: f(x), lambda: ad.jit(f)(X)):
        with pytest.raises(ad.ShapeError, match=r"test_arguments\.py") as caught:
            call()
        assert "in the forward method of f (test_arguments.py:" in caught.value.__notes__[0]
    y = x * 2.0
    assert y.requires_grad
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 2.0))
