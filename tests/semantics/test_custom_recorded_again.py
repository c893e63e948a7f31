"""Recordings of custom functions' rules inside of other transformations are put down again, as long as they would
record the same."""

import numpy as np
import pytest
from watched_rules import runs_of

import autodiff as ad

A = np.linspace(-1.5, 1.7, 40)
B = np.linspace(0.3, 2.1, 40)


@ad.function
def power(x): ...


@power.forward(ad.Tensor)
def _(ctx, x):
    y = ad.exp(x)
    ctx.save_for_backward(y=y)
    return y


@power.backward(ad.Tensor)
def power_rule(ctx, g):
    return g * ctx.saved_variables.y


@ad.function
def squashed(x, scale): ...


@squashed.forward(ad.Tensor, ad.Number)
def _(ctx, x, scale):
    inside = x * scale
    ctx.save_for_backward(inside=inside, scale=scale)
    return ad.tanh(inside)


@squashed.backward(ad.Tensor, ad.Number)
def squashed_rule(ctx, g):
    s = ctx.saved_variables
    return g * (1 - ad.tanh(s.inside) ** 2) * s.scale, None


@ad.function
def product(x, y): ...


@product.forward(ad.Tensor, ad.Tensor)
def _(ctx, x, y):
    ctx.save_for_backward(x=x, y=y)
    return x * y


@product.backward(ad.Tensor, ad.Tensor)
def product_rule(ctx, g):
    s, needs = ctx.saved_variables, ctx.needs_input_grad
    return {"x": g * s.y if needs.x else None, "y": g * s.x if needs.y else None}


@product.jvp(ad.Tensor, ad.Tensor)
def product_push(ctx, dx, dy):
    s = ctx.saved_variables
    terms = [t for t in (None if dx is None else dx * s.y, None if dy is None else dy * s.x) if t is not None]
    return sum(terms[1:], terms[0])


@ad.function
def both(x): ...


@both.forward(ad.Tensor)
def _(ctx, x):
    ctx.save_for_backward(x=x)
    return ad.sin(x), ad.cos(x)


@both.backward(ad.Tensor)
def both_rule(ctx, g, h):
    x = ctx.saved_variables.x
    return g * ad.cos(x) - h * ad.sin(x)


def custom(x, scale=0.75):
    s, c = both(x)
    return (product(power(0.5 * squashed(x, scale)), s) + product(c, x)).sum()


def plainly(x, scale=0.75):
    return (ad.exp(0.5 * ad.tanh(x * scale)) * ad.sin(x) + ad.cos(x) * x).sum()


def with_create_graph(f, x):
    t = ad.tensor(x, requires_grad=True)
    g = ad.grad(f(t), t, create_graph=True)
    return ad.grad((g * g).sum(), t).numpy()


def with_backward(f, x):
    t = ad.tensor(x, requires_grad=True)
    f(t).backward(create_graph=True)
    g, t.grad = t.grad, None
    (g * g).sum().backward()
    return t.grad.numpy()


def of_examples(f, x):
    t = ad.tensor(x.reshape(5, 8), requires_grad=True)
    ad.vmap(f)(t).sum().backward()
    return t.grad.numpy()


def of_tangents(f, x):
    xs = x.reshape(5, 8)
    return ad.vmap(lambda x: ad.jvp(ad.grad(f), (x,), (x,))[1])(xs)


WAYS = {
    "grad of tensors": lambda f, x: ad.grad(f)(ad.tensor(x)).numpy(),
    "jvp": lambda f, x: ad.jvp(f, (x,), (B,))[1],
    "hvp": lambda f, x: ad.hvp(f, x, B),
    "grad of grad": lambda f, x: ad.grad(lambda x: (ad.grad(f)(x) ** 2).sum())(x),
    "pullback of tensors": lambda f, x: ad.vjp(f, ad.tensor(x))[1](ad.tensor(3.0))[0].numpy(),
    "create_graph": with_create_graph,
    "backward with create_graph": with_backward,
    "backward of examples": of_examples,
    "grad of each example": lambda f, x: ad.vmap(ad.grad(f))(x.reshape(5, 8)),
    "grad of each example of each": lambda f, x: ad.vmap(ad.vmap(ad.grad(f)))(x.reshape(5, 2, 4)),
    "jvp of the grad of each example": of_tangents,
}  # fmt: skip
RULES = [m.implementation for m in (power_rule, squashed_rule, product_rule, product_push)]


@pytest.mark.parametrize("way", WAYS)
def test_it_is_right_the_first_time_and_when_it_is_known(way):
    run = WAYS[way]
    for k in range(6):
        x = A * (1 + 0.1 * k)
        np.testing.assert_allclose(run(custom, x), run(plainly, x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_no_rule_runs_for_what_is_known(way):
    run = WAYS[way]

    def f(x):
        return (product(power(0.5 * squashed(x, 1.25)), x)).sum()

    for _ in range(4):
        known = run(f, A)
    for rule in RULES:
        assert runs_of(rule, lambda: run(f, A)) == 0
    np.testing.assert_array_equal(run(f, A), known)


@pytest.mark.parametrize("way", WAYS)
def test_another_number_is_what_counts(way):
    run = WAYS[way]
    for k in range(9):
        scale = 0.5 + 0.25 * (k % 3)
        found = run(lambda x, c=scale: custom(x, c), A)
        np.testing.assert_allclose(found, run(lambda x, c=scale: plainly(x, c), A), rtol=1e-9, atol=1e-9)


FACTOR = 2.0


def test_what_a_rule_reads_by_name_counts_as_it_is_now():
    global FACTOR
    cell, box = 1.0, np.ones(40)

    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        ctx.save_for_backward(x=x)
        return x * x

    @f.backward(ad.Tensor)
    def _(ctx, g):
        return g * ctx.saved_variables.x * (FACTOR * cell) * box

    for k in range(12):
        FACTOR, cell = 2.0 + k % 2, 1.0 + k // 6
        box[:] = 1.0 + k // 3
        # the rule is g x c, so its own derivative along B is c B
        np.testing.assert_allclose(ad.hvp(lambda x: f(x).sum(), A, B), FACTOR * cell * box * B, rtol=1e-12)


def test_which_gradients_are_wanted_counts():
    seen = []

    @ad.function
    def f(x, y): ...

    @f.forward(ad.Tensor, ad.Tensor)
    def _(ctx, x, y):
        ctx.save_for_backward(x=x, y=y)
        return x * x * y

    @f.backward(ad.Tensor, ad.Tensor)
    def _(ctx, g):
        s, needs = ctx.saved_variables, ctx.needs_input_grad
        return {
            "x": 2 * g * s.x * s.y if needs.x else None,
            "y": g * s.x * s.x * (1.0 if needs.x else 10.0) if needs.y else None,
        }

    for _ in range(5):
        x, y = ad.tensor(A, requires_grad=True), ad.tensor(B, requires_grad=True)
        z = f(x, y).sum()
        for targets, expected in (([x, y], [2 * A * B, A * A]), ([y], [10 * A * A]), ([x], [2 * A * B])):
            found = ad.grad(z, targets, create_graph=True)
            for g, e in zip(found, expected, strict=True):
                np.testing.assert_allclose(g.detach().numpy(), e, rtol=1e-12)
            seen.append(len(found))
    assert seen == [2, 1, 1] * 5


def test_a_rule_that_asks_for_values_runs_each_time():
    ran = []

    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        ctx.save_for_backward(x=x)
        return x * x

    @f.backward(ad.Tensor)
    def _(ctx, g):
        ran.append(float(g.sum()))
        return g * ctx.saved_variables.x * (2.0 if ran[-1] > 0 else 20.0)

    for k in range(8):
        x = ad.tensor(A, requires_grad=True)
        seed = -1.0 if k % 2 else 1.0
        (g,) = ad.grad((f(x) * seed).sum(), [x], create_graph=True)
        np.testing.assert_allclose(g.detach().numpy(), A * (2.0 if seed > 0 else -20.0), rtol=1e-12)
    assert len(ran) >= 8


def test_a_rule_that_is_registered_later_takes_effect():
    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def forward(ctx, x):
        ctx.save_for_backward(x=x)
        return x * x * x

    @forward.backward
    def _(ctx, g):
        return g * 3.0 * ctx.saved_variables.x ** 2

    for _ in range(4):
        np.testing.assert_allclose(ad.hvp(lambda x: f(x).sum(), A, B), 6.0 * A * B, rtol=1e-12)

    @forward.backward
    def _(ctx, g):
        return g * 5.0 * ctx.saved_variables.x ** 2

    for _ in range(4):
        np.testing.assert_allclose(ad.hvp(lambda x: f(x).sum(), A, B), 10.0 * A * B, rtol=1e-12)


def test_what_a_forward_made_of_asked_values_has_no_derivative_also_where_the_rest_is_known():
    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        s = float(x.sum())
        ctx.save_for_backward(s=s)
        return x * s

    @f.backward(ad.Tensor)
    def _(ctx, g):
        return g * ctx.saved_variables.s

    for _ in range(5):
        x = ad.tensor(B, requires_grad=True)
        (g,) = ad.grad(f(x).sum(), [x], create_graph=True)
        np.testing.assert_allclose(g.detach().numpy(), np.full(40, B.sum()), rtol=1e-12)
        with pytest.raises(ad.GradientError):
            ad.grad(g.sum(), [x])


def test_hooks_are_honoured_where_the_rest_is_known():
    def gradient(x, hooked):
        y = power(x)
        if hooked:
            y.register_hook(lambda g: g * 7.0)
        return ad.grad(y.sum(), x, create_graph=True).detach().numpy()

    for k in range(9):
        x = ad.tensor(A, requires_grad=True)
        hooked = k in (4, 7)
        np.testing.assert_allclose(gradient(x, hooked), np.exp(A) * (7.0 if hooked else 1.0), rtol=1e-12)
