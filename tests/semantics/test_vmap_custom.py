"""Custom functions and control flow under `vmap`: the rule of one call, applied to each example."""

from __future__ import annotations

import numpy as np
import pytest
from custom_functions import linear, squared
from example_loops import assert_same, evaluated, looped

import autodiff as ad

RNG = np.random.default_rng(23)
X = RNG.normal(size=(5, 3))
M = RNG.normal(size=(5, 4, 3))
W = RNG.normal(size=(2, 3))
B = RNG.normal(size=2)


@ad.function
def exp2(x): ...


@exp2.forward
def _(ctx, x: ad.Tensor):
    y = ad.exp(2.0 * x)
    ctx.save_for_backward(y)
    return y


@exp2.backward
def _(ctx, g):
    (y,) = ctx.saved_tensors
    return 2.0 * g * y


@ad.function
def wave(x, c): ...


@wave.forward
def _(ctx, x: ad.Tensor, c: ad.Number):
    s = ad.sin(x)
    ctx.save_for_backward(s=s, c=c)
    ctx.power = 2.0
    return s * c, {"square": x**2}


@wave.backward
def _(ctx, g, h):
    s = ctx.saved_variables
    x = ctx.inputs.x
    slope = ad.sqrt(1.0 - s.s**2) * ad.sign(ad.cos(x))
    return {"x": g * s.c * slope + h["square"] * ctx.power * x}


@ad.function
def tripled_sine(x):
    return ad.sin(x) * 3.0


@tripled_sine.jvp(ad.Tensor)
def _(ctx, dx):
    return 3.0 * dx * ad.cos(ctx.inputs.x)


@ad.function
def straight_through(x): ...


@straight_through.forward
def _(ctx, x: ad.Tensor):
    return ad.round(x)


@straight_through.backward
def _(ctx, g):
    return g


@ad.function
def mixed(x, *rest, k=2): ...


@mixed.forward
def _(ctx, x, *rest, k=2):
    ctx.set_materialize_grads(False)
    floor = ad.floor(x)
    ctx.mark_non_differentiable(floor)
    ctx.save_for_backward(x=x, nothing=None, text="t")
    return x * k, ad.argmax(x), {"floor": floor, "product": rest[0] * x, "none": None, "number": 7}


@mixed.backward
def _(ctx, g, _place, rest_bars):
    saved, (w,) = ctx.saved_variables, ctx.inputs.rest
    assert saved.nothing is None and saved.text == "t"
    bars = [] if g is None else [g * 2.0]
    h = rest_bars["product"]
    bars += [] if h is None else [h * w]
    return {"x": sum(bars[1:], bars[0]), "rest": (None if h is None else h * saved.x,)}


@ad.function
def raised(t): ...


@raised.forward
def _(ctx, t: ad.Tensor):
    ctx.mark_dirty(t)
    t += 1.0
    return t


@raised.backward
def _(ctx, g):
    return g


def in_place(x):
    y = x * 2.0
    raised(y)
    return y * y


CALLS = {
    "what is changed in place": (in_place, (X,), (0,)),
    "outputs of all kinds": (
        lambda x, w: (mixed(x, w)[0], mixed(x, w)[1] * 1.0, mixed(x, w)[2]["product"]), (X, W[0]), (0, None)),
    "an output that is not used": (lambda x, w: mixed(x, w)[2]["product"], (X, W[0]), (0, None)),
    "another that is not": (lambda x, w: mixed(x, w)[0] * w, (X, W[0]), (0, None)),
    "matrices and weights": (lambda x, w, b: linear(x, w, b), (M, W, B), (0, None, None)),
    "weights that differ": (lambda x, w: linear(x, w), (M, RNG.normal(size=(2, 5, 3))), (0, 1)),
    "the bias alone": (lambda x, w, b: linear(x, w, b), (M[0], W, RNG.normal(size=(5, 2))), (None, None, 0)),
    "a saved output": (exp2, (X,), (0,)),
    "several outputs, attributes": (lambda x: wave(x, 3.0), (X,), (0,)),
    "one output of several": (lambda x: wave(x, 3.0)[0], (X,), (0,)),
    "a jvp and no backward": (tripled_sine, (X,), (0,)),
    "inside another vmap": (lambda m: ad.vmap(lambda x: wave(x, 3.0))(m), (M,), (0,)),
    "inside jit": (ad.jit(lambda x: exp2(x) + wave(x, 2.0)[0]), (X,), (0,)),
    "inside checkpoint": (ad.checkpoint(lambda x: exp2(ad.sin(x))), (X,), (0,)),
    "inside a loop": (lambda x: ad.fori_loop(0, 2, lambda i, v: exp2(v * 0.1), x), (X,), (0,)),
    "twice": (lambda x, w: ad.tanh(linear(linear(x, w) @ w, w)), (M, W), (0, None)),
}


def total(run):
    return lambda *args: sum([ad.sin(y).sum() for y in ad.tree.leaves(run(*args))], ad.tensor(0.0))


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_custom_functions_are_a_loop_of_calls(name):
    f, args, axes = CALLS[name]
    everything = tuple(range(len(args)))
    loop = looped(f, axes)
    wanted = evaluated(loop, *map(ad.tensor, args))
    assert_same(ad.vmap(f, axes)(*args), wanted)
    assert_same(ad.jit(ad.vmap(f, axes))(*args), wanted)
    wanted = evaluated(ad.grad(total(loop), everything), *args)
    assert_same(ad.grad(total(ad.vmap(f, axes)), everything)(*args), wanted)
    assert_same(ad.jit(ad.grad(total(ad.vmap(f, axes)), everything))(*args), wanted)
    each = ad.grad(total(f), everything)
    assert_same(ad.vmap(each, axes)(*args), evaluated(looped(each, axes), *map(ad.tensor, args)))


@pytest.mark.parametrize("name", CALLS)
def test_second_derivatives_and_tangents_too(name):
    f, args, axes = CALLS[name]
    everything = tuple(range(len(args)))

    def steepness(run):
        return lambda *a: sum([(g**2).sum() for g in ad.grad(total(run), everything)(*a)], ad.tensor(0.0))

    loop, mapped = looped(f, axes), ad.vmap(f, axes)
    wanted = evaluated(ad.grad(steepness(loop), everything), *args)
    assert_same(ad.grad(steepness(mapped), everything)(*args), wanted, 8)
    directions = tuple(RNG.normal(size=a.shape) for a in args)
    assert_same(ad.jvp(total(mapped), args, directions), evaluated(ad.jvp, total(loop), args, directions), 8)
    each = ad.grad(steepness(f), everything)
    assert_same(ad.vmap(each, axes)(*args), evaluated(looped(each, axes), *map(ad.tensor, args)), 8)


def test_the_rule_is_the_functions_own():
    x = ad.tensor(X, requires_grad=True)
    ad.vmap(straight_through)(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.ones_like(X))  # that of the program is 0
    np.testing.assert_array_equal(ad.vmap(ad.grad(lambda x: straight_through(x).sum()))(X), np.ones_like(X))


def test_a_rule_is_told_what_is_needed_and_asked_once():
    told = []

    @ad.function
    def product(a, b): ...

    @product.forward
    def _(ctx, a: ad.Tensor, b: ad.Tensor):
        return a * b

    @product.backward
    def _(ctx, g):
        told.append(tuple(ctx.needs_input_grad))
        a, b = ctx.inputs
        return (g * b, g * a) if all(ctx.needs_input_grad) else (g * b, None)

    a, b = ad.tensor(X, requires_grad=True), ad.tensor(X + 1, requires_grad=True)
    y = ad.vmap(product)(a, b).sum()
    (g,) = ad.grad(y, [a], retain_graph=True)
    np.testing.assert_allclose(g.numpy(), X + 1)
    y.backward()
    assert told == [(True, False), (True, True)]


@pytest.mark.smoke
def test_the_gradient_of_shared_weights_is_one_product():
    gradient = ad.grad(lambda w, x: ad.vmap(lambda x: linear(x, w))(x).sum())
    text = str(ad.inspect(gradient, "f64[32,64]", "f64[16,8,64]").graph)
    assert "f64[32,64] = matmul" in text


def test_a_rule_is_not_run_again_for_the_same_recording():
    runs = []

    @ad.function
    def cube(x): ...

    @cube.forward
    def _(ctx, x: ad.Tensor):
        ctx.save_for_backward(x)
        return x**3

    @cube.backward
    def _(ctx, g):
        runs.append(None)
        (x,) = ctx.saved_tensors
        return 3.0 * g * x**2

    f = ad.jit(ad.vmap(ad.grad(lambda x: cube(x).sum())))
    for scale in (1.0, 2.0, 3.0):
        np.testing.assert_allclose(f(scale * X), 3 * (scale * X) ** 2)
    assert len(runs) == 1


def test_an_error_in_a_rule_names_it_and_the_line_of_the_call():
    @ad.function
    def broken(x): ...

    @broken.forward
    def _(ctx, x: ad.Tensor):
        return x * 1.0

    @broken.backward
    def _(ctx, g):
        return ad.ones(7)

    with pytest.raises(ad.ShapeError, match=r"broken.*called at test_vmap_custom\.py"):
        ad.grad(lambda x: ad.vmap(broken)(x).sum())(X)


def test_a_function_without_a_rule_says_so():
    @ad.function
    def opaque(x): ...

    @opaque.forward
    def _(ctx, x: ad.Tensor):
        return x * 1.0

    np.testing.assert_array_equal(ad.vmap(opaque)(X), X)
    with pytest.raises(ad.GradientError, match=r"opaque.*has no backward"):
        ad.grad(lambda x: ad.vmap(opaque)(x).sum())(X)


# ---------------------------------------------------------------- host rules


@ad.function
def hosted(x, w): ...


@hosted.forward(ad.Tensor, ad.Tensor, host=True)
def _(ctx, x, w):
    assert isinstance(x, np.ndarray) and x.shape == (3,)
    ctx.save_for_backward(x=x, w=w, s=np.sin(x))
    return np.sin(x) * w, np.cos(x)


@hosted.backward(ad.Tensor, ad.Tensor, host=True)
def _(ctx, g, h):
    s = ctx.saved_variables
    assert isinstance(g, np.ndarray) and g.shape == (3,)
    return {"x": g * np.cos(s.x) * s.w - h * s.s, "w": (g * s.s).sum()}


def by_operations(x, w):
    return ad.sin(x) * w, ad.cos(x)


@ad.function
def asking(x): ...


@asking.forward
def _(ctx, x: ad.Tensor):
    ctx.save_for_backward(x=x)
    return x * float(x.sum())


@asking.backward
def _(ctx, g):
    x = ctx.saved_variables.x
    return g * float(x.sum()) + (g * x).sum()


HOSTED = {
    "declared": (hosted, by_operations),
    "found out": (lambda x, w: asking(x) * w, lambda x, w: x * x.sum() * w),
}


@pytest.mark.parametrize("name", HOSTED)
def test_host_rules_are_called_for_each_example(name):
    f, same = HOSTED[name]
    args, axes = (X, np.array(1.5)), (0, None)
    wanted = evaluated(looped(same, axes), *map(ad.tensor, args))
    assert_same(ad.vmap(f, axes)(*args), wanted)
    assert_same(ad.jit(ad.vmap(f, axes))(*args), wanted)
    gradients = evaluated(ad.grad(total(looped(same, axes)), (0, 1)), *args)
    assert_same(ad.grad(total(ad.vmap(f, axes)), (0, 1))(*args), gradients)
    assert_same(ad.jit(ad.grad(total(ad.vmap(f, axes)), (0, 1)))(*args), gradients)
    each = ad.vmap(ad.grad(total(same), (0, 1)), axes)(*args)
    assert_same(ad.vmap(ad.grad(total(f), (0, 1)), axes)(*args), each)
    leaves = [ad.tensor(a, requires_grad=True) for a in args]
    total(ad.vmap(f, axes))(*leaves).backward()
    assert_same([t.grad for t in leaves], gradients)


def test_a_second_derivative_through_a_host_rule_is_refused():
    def slope(x):
        return ad.grad(lambda x: ad.vmap(hosted, (0, None))(x, 1.5)[0].sum())(x)

    with pytest.raises(ad.GradientError, match="host backward of hosted"):
        ad.grad(lambda x: (slope(x) ** 2).sum())(X)


def test_a_backward_that_asks_is_called_for_each_example():
    asking = squared(lambda g, x: g * ad.tensor(2 * np.asarray(x)))
    np.testing.assert_allclose(ad.grad(lambda x: ad.vmap(asking)(x).sum())(X), 2 * X)
    np.testing.assert_allclose(ad.vmap(ad.grad(lambda x: asking(x).sum()))(X), 2 * X)


def test_no_examples_call_no_host_rule():
    ad.vmap(hosted, (0, None))(X, np.array(1.5))  # what it returns is known from here on
    y, z = ad.vmap(hosted, (0, None))(np.ones((0, 3)), np.array(1.5))
    assert y.shape == z.shape == (0, 3)
