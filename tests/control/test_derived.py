"""Derivatives of loops and branches within each other: how many bodies are recorded for them, at any depth."""

import numpy as np
import pytest
from work_done import work

import autodiff as ad
from autodiff.control import trace
from autodiff.control.body import Body
from autodiff.tape.modes import tracing
from autodiff.tape.node import new_number

X, V = np.array([0.3, 0.7]), np.array([1.0, 2.0])


@ad.function
def twice(x): ...


@twice.forward(ad.Tensor)
def _(ctx, x):
    return x + x


@twice.backward(ad.Tensor)
def _(ctx, g):
    return {"x": g * 2.0}


def whiles(depth):
    """A `while_loop` in a branch in a `while_loop` ..., so deep."""

    def inner(x):
        return ad.cond(ad.sum(x) > -9.0, of_inside, lambda x: x, x)

    of_inside = whiles(depth - 1) if depth else lambda x: ad.sin(x) * 1.1
    return lambda x: ad.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, inner(c[1])), (0, x))[1]


def scans(depth):
    """A `scan` in a `fori_loop` in a `scan` ..., so deep."""

    def step(c, x):
        return ad.sin(c) * x if not depth else scans(depth - 1)(c) * x, ad.sum(c)

    def f(x):
        last, given = ad.fori_loop(0, 2, lambda i, c: ad.scan(step, c[0], V), (x, V))
        return last * ad.sum(given)

    return f


def checkpoints(depth):
    """`checkpoint` around a branch around `checkpoint` ..., so deep."""
    inside = checkpoints(depth - 1) if depth else lambda x: ad.sin(x) * 1.1
    return ad.checkpoint(lambda x: ad.cond(ad.sum(x) > -9.0, inside, lambda x: x, x) * x)


def customs(depth):
    """A custom function, whose rule states a number, in a `fori_loop` in a `fori_loop` ..., so deep."""
    inside = customs(depth - 1) if depth else twice
    return lambda x: ad.fori_loop(0, 2, lambda i, c: inside(twice(c)), x)


KINDS = {
    "while_loop and cond": whiles, "scan and fori_loop": scans, "checkpoint and cond": checkpoints, "custom": customs,
}  # fmt: skip
PRODUCTS = {
    "grad": lambda f: ad.grad(f)(X),
    "jvp": lambda f: ad.jvp(f, (X,), (V,)),
    "hvp": lambda f: ad.hvp(f, X, V),
    "grad of grad": lambda f: ad.grad(lambda x: ad.sum(ad.grad(f)(x) * V))(X),
    "hessian": lambda f: ad.hessian(f)(X),
    "vmap of grad": lambda f: ad.vmap(ad.grad(f))(np.stack([X, V])),
}


class Counted:
    """Work since `start`: functions recorded as bodies, bodies made of them, rules applied."""

    def __init__(self, patch):
        self.recorded = self.made = self.rules = 0
        record, make = trace._recorded, Body.__init__

        def counting_record(*given):
            self.recorded += 1
            return record(*given)

        def counting_make(body, *given):
            self.made += 1
            make(body, *given)

        patch.setattr(trace, "_recorded", counting_record)
        patch.setattr(Body, "__init__", counting_make)

    def of(self, f, *given):
        self.recorded = self.made = 0
        before = work().rules
        with tracing(new_number()):  # nothing is evaluated
            f(*given)
        return self.recorded, self.made, work().rules - before


@pytest.fixture
def counted(monkeypatch):
    return Counted(monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_bodies_are_made_once_and_their_number_grows_with_the_depth(product, kind, counted):
    at_first, again = [], []
    for depth in range(1, 5):
        inside = KINDS[kind](depth)
        ad.clear_cache()

        def f(x, inside=inside):
            return ad.sum(inside(x))

        values_alone = counted.of(f, ad.tensor(X))[0]
        at_first.append(counted.of(PRODUCTS[product], f))
        counted.of(PRODUCTS[product], f)
        recorded, made, rules = counted.of(PRODUCTS[product], f)
        assert (recorded, made) == (values_alone, 0)
        again.append(rules)
    assert len(set(again)) == 1  # what is inside takes no rule
    recorded, made, rules = [np.diff(of_depth) for of_depth in zip(*at_first, strict=True)]
    assert made[1] == made[2] and rules[1] == rules[2], at_first
    # With nothing known, the user's function inside may be recorded once for each that it is in.
    assert recorded[2] - recorded[1] in (0, recorded[1] - recorded[0]), at_first


# ---------------------------------------------------------------- what is kept stays right


FACTOR = 3.0


def new_function():
    """A custom function whose rule reads a name of this module."""

    @ad.function
    def scaled(x): ...

    @scaled.forward(ad.Tensor)
    def _(ctx, x):
        return ad.sin(x)

    @scaled.backward(ad.Tensor)
    def _(ctx, g):
        return {"x": g * FACTOR}

    return scaled


LOOPS = {
    "scan": lambda g, x: ad.scan(lambda c, v: (g(c) * v, c), x, V)[0],
    "while_loop": lambda g, x: ad.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, g(c[1])), (0, x))[1],
    "cond": lambda g, x: ad.cond(ad.sum(x) > 0, g, lambda x: x, x),
    "cond in fori_loop": lambda g, x: ad.fori_loop(0, 2, lambda i, c: ad.cond(ad.sum(c) > 0, g, g, c), x),
    "checkpoint in scan": lambda g, x: ad.scan(lambda c, v: (ad.checkpoint(g)(c), c), x, V)[0],
}
DERIVATIVES = {
    "grad": lambda f: ad.grad(lambda x: ad.sum(f(x)))(X),
    "jvp": lambda f: ad.jvp(f, (X,), (V,))[1],
    "vmap of grad": lambda f: ad.vmap(ad.grad(lambda x: ad.sum(f(x))))(np.stack([X, V])),
    "grad of grad": lambda f: ad.grad(lambda x: ad.sum(ad.grad(lambda x: ad.sum(f(x) * x))(x)))(X),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("derivative", DERIVATIVES)
def test_a_rule_that_changed_is_run_again(derivative, loop, monkeypatch):
    """It reads another value, or another one is registered in its place."""
    scaled = new_function()

    def computed():
        return DERIVATIVES[derivative](lambda x: LOOPS[loop](scaled, x))

    first = [computed() for _ in range(3)][-1]
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    second = computed()
    scaled.backward(ad.Tensor)(lambda ctx, g: {"x": g * 7.0})
    third = computed()
    monkeypatch.setitem(globals(), "FACTOR", 7.0)
    assert np.abs(first - second).max() > 0.1
    expected = DERIVATIVES[derivative](lambda x: LOOPS[loop](new_function(), x))
    np.testing.assert_allclose(third, expected, rtol=1e-12)
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    expected = DERIVATIVES[derivative](lambda x: LOOPS[loop](new_function(), x))
    np.testing.assert_allclose(second, expected, rtol=1e-12)


@pytest.mark.parametrize("loop", LOOPS)
def test_functions_that_differ_in_their_jvp_are_not_taken_for_each_other(loop):
    found = []
    for slope in (2.0, 4.0):
        scaled = new_function()
        scaled.jvp(ad.Tensor)(lambda ctx, dx, slope=slope: dx * slope)
        found.append(ad.jvp(lambda x, g=scaled: LOOPS[loop](g, x), (X,), (np.ones(2),))[1])
    np.testing.assert_allclose(found[1], found[0] * (2.0 if loop == "cond" else 4.0))


def test_third_derivatives_behind_a_branch_are_those_of_what_it_computes():
    def third(square):
        x = ad.tensor([0.7, -0.4, 1.2], requires_grad=True)
        found = ad.sin(ad.exp(square(x)[::-1]) * 2.0).sum()
        for weights in ([0.3, -1.0, 0.5], [1.1, 0.2, -0.6]):
            found = (ad.grad(found, x, create_graph=True) * ad.tensor(weights)).sum()
        return ad.grad(found, x).numpy()

    found = third(lambda x: ad.cond(x[0] > 0.9, lambda x: x, lambda x: x * x, x))
    np.testing.assert_allclose(found, third(lambda x: x * x), rtol=1e-10)
