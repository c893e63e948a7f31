"""A pass whose rules look at recordings is replayed from its third run on: its results are those of the first runs."""

import numpy as np
import pytest

import autodiff as ad

MATRIX = np.random.default_rng(5).normal(size=(4, 4)) * 0.6


def made_scaled():
    """A custom function x, c -> c sin(x), whose rule can be exchanged."""

    @ad.function
    def scaled(x, c): ...

    @scaled.forward(ad.Tensor, ad.Number)
    def forward(ctx, x, c):
        ctx.save_for_backward(x=x, c=c)
        return c * ad.sin(x)

    @scaled.backward(ad.Tensor, ad.Number)
    def backward(ctx, grad_output):
        return {"x": grad_output * ctx.saved_variables.c * ad.cos(ctx.saved_variables.x)}

    return scaled


def exchange_rule(scaled):
    """Register another rule, which gives half the gradient."""

    @scaled.backward(ad.Tensor, ad.Number)
    def backward(ctx, grad_output):
        return {"x": 0.5 * grad_output * ctx.saved_variables.c * ad.cos(ctx.saved_variables.x)}


def program(through):
    """A function of x, two kinks in each of two steps, in which `through(h, c)` stands for a step's custom function."""

    def f(x, c):
        h = x
        for _ in range(2):
            h = ad.maximum(through(MATRIX @ h, c), 0.3 * h) + 0.1 * ad.abs(h)
        h = h / (1.0 + ad.norm(h))
        return ad.sum(h * h * ad.abs(h))

    return f


def recorded(f, x, v):
    """The product of the Hessian of f and v, by two recorded backward passes."""
    t = ad.tensor(x, requires_grad=True)
    gradient = ad.grad(f(t), t, create_graph=True)
    ad.sum(gradient * v).backward()
    return t.grad.numpy()


def penalty(f, x, v):
    """`recorded` in one backward: the gradient of a sum of f and its slope, without that of f."""
    t = ad.tensor(x, requires_grad=True)
    y = f(t)
    (y + ad.sum(ad.grad(y, t, create_graph=True) * v)).backward()
    return t.grad.numpy() - ad.grad(f)(x)


ROUTES = {
    "hvp": ad.hvp,
    "forward over reverse": lambda f, x, v: ad.jvp(ad.grad(f), (x,), (v,))[1],
    "reverse over forward": lambda f, x, v: ad.grad(lambda x: ad.jvp(f, (x,), (v,))[1])(x),
    "reverse over reverse": lambda f, x, v: ad.grad(lambda x: ad.sum(ad.grad(f)(x) * v))(x),
    "recorded": recorded,
    "penalty": penalty,
}


def difference(f, x, v, h=1e-6):
    """The product of the Hessian and v, by central differences of the gradient."""
    return (ad.grad(f)(x + h * v) - ad.grad(f)(x - h * v)) / (2 * h)


@pytest.mark.parametrize("route", ROUTES)
def test_each_run_has_its_own_values_and_numbers(route):
    f, r = program(made_scaled()), np.random.default_rng(3)
    for k in range(5):
        x, v, c = r.normal(size=4), r.normal(size=4), 0.5 + 0.25 * (k % 5)
        found = ROUTES[route](lambda x, c=c: f(x, c), x, v)
        np.testing.assert_allclose(found, difference(lambda x, c=c: f(x, c), x, v), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("route", ROUTES)
def test_a_run_after_a_rule_was_exchanged_uses_the_new_rule(route):
    first, other = made_scaled(), made_scaled()
    exchange_rule(other)
    x, v = np.random.default_rng(4).normal(size=(2, 4))
    run = ROUTES[route]
    for _ in range(4):
        before = run(lambda x: program(first)(x, 1.5), x, v)
    exchange_rule(first)
    expected = run(lambda x: program(other)(x, 1.5), x, v)
    for _ in range(4):
        np.testing.assert_allclose(run(lambda x: program(first)(x, 1.5), x, v), expected, rtol=1e-9)
    assert not np.allclose(expected, before)


@pytest.mark.parametrize("route", ["recorded", "penalty"])
def test_hooks_run_each_time(route):
    x, v = np.array([0.3, -0.8, 1.2, 0.5]), np.ones(4)
    plain, seen = program(lambda h, c: c * ad.sin(h)), []

    def hooked(x):
        t = x * 1.0
        t.register_hook(lambda g: seen.append(g.shape))
        return plain(t, 1.5)

    for _ in range(4):
        expected = ROUTES[route](lambda x: plain(x, 1.5), x, v)
    counts = []
    for _ in range(4):
        before = len(seen)
        np.testing.assert_allclose(ROUTES[route](hooked, x, v), expected, rtol=1e-9)
        counts.append(len(seen) - before)
    assert counts[0] > 0 and len(set(counts)) == 1


def test_kinds_that_only_the_search_sees_decide_too():
    """The same pass with another history of its direction: |x| cancels in x * |x|, and does not in x * |w|."""
    for _ in range(4):
        for other in (ad.abs, lambda x: ad.abs(x + 1.0) - 1.0, lambda x: ad.sqrt(x * x + 1.0) - 1.0):
            t = ad.tensor(np.zeros(2), requires_grad=True)
            y = ad.sum(ad.abs(t) * other(t))
            second = ad.grad(ad.sum(ad.grad(y, t, create_graph=True)), t).numpy()
            np.testing.assert_allclose(second, 2.0 if other is ad.abs else 0.0)


def test_how_a_given_cotangent_was_recorded_decides_too():
    """(2 |x|) sign(x) is 2 x, which has the slope 2 at 0; the |x| in (2 + |x|) sign(x) gives 1."""
    for _ in range(5):
        for given, slope in ((lambda y: y * 2.0, 2.0), (lambda y: y + 2.0, 1.0)):
            t = ad.tensor(np.zeros(2), requires_grad=True)
            y, pullback = ad.vjp(ad.abs, t)
            (gradient,) = pullback(given(y))
            np.testing.assert_allclose(ad.grad(ad.sum(gradient), t).numpy(), slope)
