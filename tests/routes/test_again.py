"""One program gives the same whatever came before it.

A call is the first of its kind, or the second, or the tenth; arrays have other sizes, a hook hangs somewhere, a method
was registered in between, another thread does the same, everything kept was forgotten: values and gradients are those
of a pure function in NumPy, whose gradient is taken by complex steps.  Nothing internal is imported.
"""

import threading
from collections.abc import Callable

import numpy as np
import pytest
from covering import covering

import autodiff as ad

TIMES = 10
SIZES = [4, 5, 17, 4, 40, 300, 17, 3, 1, 0]


def numbers(n: int, seed: int = 0) -> np.ndarray:
    """n numbers with no tie among them, none near 0."""
    return np.random.default_rng(seed).uniform(0.3, 1.4, n)


def slope(oracle: Callable, x: np.ndarray) -> np.ndarray:
    """The gradient of the oracle, by complex steps."""
    return np.array([np.imag(oracle(x + 1e-30j * e)) / 1e-30 for e in np.eye(len(x))])


# ---------------------------------------------------------------- programs for any number of elements


def chain(lib, x):
    for i in range(12):
        x = lib.sin(x) * (1.0 + 0.01 * i) + 0.1
    return (x * x).sum()


def neighbours(lib, x):
    return (x[1:] * lib.exp(-x[:-1])).sum() + x.sum() * 0.5


def centred(lib, x):
    d = x - x.sum() / max(len(x), 1)
    return (d * d * lib.exp(d)).sum()


def outer(lib, x):
    return (lib.exp(x[:, None] * 0.3) * x[None, :]).sum()


def table(lib, x):
    a = lib.stack([x, x * x, lib.sin(x)])
    return (a @ a.T).sum()


def halves(lib, x):
    n = len(x) // 2
    return (lib.concatenate([x[n:] * 2.0, x[:n]]) * x).sum()


def in_place(lib, x):
    y = x * 1.5
    y[1:] = y[:-1] * 2.0
    y *= x
    return y.sum()


def branching(lib, x):
    return (lib.exp(x) * x).sum() if len(x) % 2 else (lib.sin(x) + x).sum()


PROGRAMS = {f.__name__: f for f in (chain, neighbours, centred, outer, table, halves, in_place, branching)}


def backward(f, x):
    """The value and the gradient, by `.backward()` of what is recorded."""
    t = ad.tensor(x, requires_grad=True)
    y = f(ad, t * 1.0)
    y.backward()
    return float(y.detach()), t.grad.numpy()


def two_losses(f, x):
    """The same, from two losses of one trunk, of which the second is asked for after the first."""
    t = ad.tensor(x, requires_grad=True)
    trunk = t * 1.0
    first, second = f(ad, trunk * 1.0), f(ad, trunk * 1.0)
    first.backward(retain_graph=True)
    half = t.grad.numpy()
    t.grad = None
    second.backward()
    np.testing.assert_allclose(half, t.grad.numpy(), rtol=1e-12, atol=1e-12)
    return float(second.detach()), t.grad.numpy()


def by(transformed: Callable) -> Callable:
    """A route through one transformed function, which lives as long as the route and so learns."""

    def route(f):
        g = transformed(lambda x: f(ad, x * 1.0))

        def call(_, x):
            value, gradient = g(x)
            return float(value), np.asarray(gradient)

        return call

    return route


ROUTES: dict[str, Callable] = {
    "backward": lambda f: backward,
    "two losses": lambda f: two_losses,
    "value_and_grad": by(ad.value_and_grad),
    "jit": by(lambda f: ad.jit(ad.value_and_grad(f))),
    "grad of jit": by(lambda f: ad.value_and_grad(ad.jit(f))),
    "vjp": by(lambda f: lambda x: (lambda value, pull: (value, pull(1.0)[0]))(*ad.vjp(f, x))),
}


def check(route, f, x, what):
    value, gradient = route(f, x)
    np.testing.assert_allclose(value, np.real(f(np, x)), rtol=1e-11, atol=1e-11, err_msg=what)
    wanted = slope(lambda x: f(np, x), x)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-10, atol=1e-10, err_msg=what)


@pytest.fixture(autouse=True, params=[0, 2])
def patience(request):
    """Compiled at once; interpreted first and compiled later, as users have it."""
    before, ad.config.patience = ad.config.patience, request.param
    yield
    ad.config.patience = before


@covering(times=3, name=PROGRAMS, route=ROUTES)
def test_the_tenth_call_gives_what_the_first_gave(name, route):
    f = PROGRAMS[name]
    run = ROUTES[route](f)
    for i in range(TIMES):
        check(run, f, numbers(6, i), f"{name} by {route}, call {i + 1}")


@covering(times=3, name=PROGRAMS, route=ROUTES)
def test_other_sizes_in_between_change_nothing(name, route):
    f = PROGRAMS[name]
    run = ROUTES[route](f)
    for i, n in enumerate(SIZES):
        check(run, f, numbers(n, i), f"{name} by {route}, call {i + 1}, {n} elements")


@covering(times=2, name=PROGRAMS, route=ROUTES)
def test_what_was_forgotten_in_between_is_made_again(name, route):
    f = PROGRAMS[name]
    run = ROUTES[route](f)
    for i in range(6):
        check(run, f, numbers(6, i), f"{name} by {route}, call {i + 1}")
        if i % 2:
            ad.clear_cache()


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_forgotten_in_the_midst_of_a_recording_is_no_loss(name):
    f = PROGRAMS[name]
    for i in range(4):
        x = numbers(6, i)
        t = ad.tensor(x, requires_grad=True)
        trunk = ad.sin(t) * 1.1
        ad.clear_cache()
        y = f(ad, trunk * 1.0)
        ad.clear_cache()
        y.backward()
        oracle = lambda x: f(np, np.sin(x) * 1.1)  # noqa: E731  as written
        np.testing.assert_allclose(t.grad.numpy(), slope(oracle, x), rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hook_that_comes_and_goes_changes_what_it_says_and_nothing_else(name):
    f = PROGRAMS[name]
    for i in range(TIMES):
        x, met = numbers(6, i), []
        t = ad.tensor(x, requires_grad=True)
        inner = t * 1.0
        if i % 3 == 1:
            inner.register_hook(lambda g: g * 2.0)
        elif i % 3 == 2:
            inner.register_hook(met.append)
        f(ad, inner * 1.0).backward()
        wanted = slope(lambda x: f(np, x), x)
        np.testing.assert_allclose(t.grad.numpy(), wanted * (2.0 if i % 3 == 1 else 1.0), rtol=1e-10, atol=1e-10)
        for g in met:
            np.testing.assert_allclose(np.asarray(g), wanted, rtol=1e-10, atol=1e-10)
        assert len(met) == (i % 3 == 2)


@covering(times=2, name=PROGRAMS, route=ROUTES)
def test_two_threads_at_once_give_what_one_gives(name, route):
    f = PROGRAMS[name]
    shared, failures = ROUTES[route](f), []
    start = threading.Barrier(2)

    def work(offset):
        try:
            start.wait()
            for i in range(6):
                check(shared, f, numbers(6 + (i + offset) % 3, i), f"{name} by {route}, thread {offset}, call {i + 1}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]


# ---------------------------------------------------------------- methods registered in between


class Scaled(ad.AbstractTensor):
    """A vector that knows its unit."""

    shape, dtype = (3,), ad.float64

    def __init__(self, parts, unit):
        self.parts, self.unit = parts, unit


ad.tree.register(Scaled, lambda s: ((s.parts,), s.unit), lambda unit, parts: Scaled(parts[0], unit))


def gradients(loss):
    """Routes to the gradient of a function of one array, each of which lives on and so learns."""

    def recorded(x):
        t = ad.tensor(x, requires_grad=True)
        loss(t).backward()
        return t.grad.numpy()

    return {
        "backward": recorded,
        "grad": ad.grad(loss),
        "jit": ad.jit(ad.grad(loss)),
        "grad of jit": ad.grad(ad.jit(loss)),
    }


LEARNING = ["backward", "grad", "jit", "grad of jit"]


@pytest.mark.parametrize("route", LEARNING)
def test_a_method_registered_in_between_is_used_from_the_next_call_on(route):
    @ad.function
    def measure(s): ...

    @measure.method(ad.AbstractTensor)
    def _(s):
        return s.parts * 2.0

    run, x = gradients(lambda parts: ad.sum(measure(Scaled(parts, 10.0))))[route], numbers(3)
    for _ in range(4):
        np.testing.assert_allclose(run(x), np.full(3, 2.0))

    @measure.method(Scaled)
    def _(s):
        return s.parts * s.parts * s.unit

    for i in range(4):
        np.testing.assert_allclose(run(x), 20.0 * x, err_msg=f"call {i + 1} after the method came")


@pytest.mark.parametrize("route", LEARNING)
def test_a_rule_registered_in_between_is_used_from_the_next_call_on(route):
    @ad.function
    def cube(y): ...

    @cube.forward(ad.Tensor)
    def _(ctx, y):
        ctx.save_for_backward(y=y)
        return y * y * y

    @cube.backward(ad.Tensor)
    def _(ctx, grad_output):
        y = ctx.saved_variables.y
        return grad_output * 3.0 * y * y

    run = gradients(lambda x: ad.sum(cube(x * 1.0)))[route]
    x = numbers(3)
    for _ in range(4):
        np.testing.assert_allclose(run(x), 3.0 * x * x)

    @cube.backward(ad.Tensor)
    def _(ctx, grad_output):
        return grad_output * 7.0

    for i in range(4):
        np.testing.assert_allclose(run(x), np.full(3, 7.0), err_msg=f"call {i + 1} after the rule came")
