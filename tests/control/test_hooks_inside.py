"""Hooks that are registered inside of a body that is recorded once: they change gradients as in a Python loop."""

import numpy as np
import pytest

import autodiff as ad

X = np.array([1.0, 2.0])


def hooked(t):
    """The tensor, with a hook whose derivative is no constant."""
    t.register_hook(lambda g: g * g * 3.0 + g)
    return t


def on_result(x):
    return hooked(x * 2.0) * x


def on_argument(x):
    return hooked(x) * x * 2.0


def on_product(x):
    return hooked(ad.asarray(np.array([[1.0, 2.0], [3.0, 4.0]])) @ x) * x  # kept for the gradient of a loop


STEPS = {"a result": on_result, "an argument": on_argument, "a product": on_product}
#: The step, once, in bodies of each kind; `plain` records it in the open.
BODIES = {
    "checkpoint": lambda step, x: ad.checkpoint(step)(x),
    "cond": lambda step, x: ad.cond(ad.sum(x) > 0, step, lambda x: x * 0.0, x),
    "fori_loop": lambda step, x: ad.fori_loop(0, 1, lambda i, c: step(c), x),
    "scan": lambda step, x: ad.scan(lambda c, _: (step(c), None), x, length=1)[0],
    "scan over elements": lambda step, x: ad.scan(lambda c, row: (c, step(row)), 0.0, x[None])[1][0],
    "scan(checkpoint)": lambda step, x: ad.scan(lambda c, _: (ad.checkpoint(step)(c), None), x, length=1)[0],
    "cond(fori_loop)": lambda step, x: ad.cond(
        ad.sum(x) > 0, lambda x: ad.fori_loop(0, 1, lambda i, c: step(c), x), lambda x: x, x),
    "closed over": lambda step, x: ad.scan(lambda c, _: (c + step(x * 1.0), None), x * 0.0, length=1)[0],
}  # fmt: skip
#: Only to first order: see the error.
WHILE = {
    "while_loop": lambda step, x: ad.while_loop(
        lambda c: c[1] < 1, lambda c: (step(c[0]), c[1] + 1), (x, ad.tensor(0)))[0],
    "while_loop(checkpoint)": lambda step, x: ad.while_loop(
        lambda c: c[1] < 1, lambda c: (ad.checkpoint(step)(c[0]), c[1] + 1), (x, ad.tensor(0)))[0],
}  # fmt: skip


def plain(step, x):
    return step(x * 1.0)


def recorded(f):
    def gradient(x):
        t = ad.tensor(x, requires_grad=True)
        f(t).backward()
        return t.grad.numpy()

    return gradient


def eager(f):
    def gradient(x):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ad.config, "eager", True)
            return ad.grad(f)(x)

    return gradient


FIRST = {
    "recorded": recorded,
    "eager": eager,
    "grad": ad.grad,
    "jit(grad)": lambda f: ad.jit(ad.grad(f)),
    "grad(jit)": lambda f: ad.grad(ad.jit(f)),
    "vmap(grad)": lambda f: lambda x: ad.vmap(ad.grad(f))(x[None])[0],
    "grad(vmap)": lambda f: ad.grad(lambda x: ad.sum(ad.vmap(f)(x[None]))),
    "jvp": lambda f: lambda x: ad.jvp(f, (x,), (x,))[1],
}
SECOND = {
    "hessian": ad.hessian,
    "grad(grad)": lambda f: ad.grad(lambda x: ad.sum(ad.grad(f)(x) * x)),
    "jvp(grad)": lambda f: lambda x: ad.jvp(ad.grad(f), (x,), (x,))[1],
    "grad(jvp)": lambda f: ad.grad(lambda x: ad.jvp(f, (x,), (X,))[1]),
    "jit(hessian)": lambda f: ad.jit(ad.hessian(f)),
    "vmap(hessian)": lambda f: lambda x: ad.vmap(ad.hessian(f))(x[None])[0],
}


def inside(body, step):
    return lambda x: ad.sum(body(step, x) * np.array([1.0, 3.0]))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("body", BODIES | WHILE)
@pytest.mark.parametrize("route", FIRST)
def test_hooks_are_called_as_in_the_open(route, body, step):
    found = FIRST[route](inside((BODIES | WHILE)[body], STEPS[step]))(X)
    np.testing.assert_allclose(found, FIRST["jvp" if route == "jvp" else "grad"](inside(plain, STEPS[step]))(X))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("route", SECOND)
def test_hooks_are_differentiated_as_in_the_open(route, body, step):
    found = SECOND[route](inside(BODIES[body], STEPS[step]))(X)
    np.testing.assert_allclose(found, SECOND[route](inside(plain, STEPS[step]))(X))


@pytest.mark.parametrize("body", WHILE)
@pytest.mark.parametrize("route", ["hessian", "grad(grad)", "jvp(grad)"])
def test_a_second_derivative_of_a_while_loop_with_hooks_is_refused(route, body):
    with pytest.raises(ad.GradientError, match="while_loop: a second derivative through a step with hooks"):
        SECOND[route](inside(WHILE[body], on_result))(X)


def test_a_hook_sees_the_gradient_of_each_step():
    """In the open a hook sees the sum of what comes to a tensor from both passes of a second derivative, where a loop
    computes a step again each by itself: for what is linear that is the same.
    """

    def linear(x):
        y = x * 2.0
        y.register_hook(lambda g: g * 10.0)
        return ad.sin(y) * x

    def loop(step):
        def run(x):
            for _ in range(3):
                x = step(x)
            return ad.sum(x)

        return run

    def scanned(step):
        return lambda x: ad.sum(ad.scan(lambda c, _: (step(c), None), x, length=3)[0])

    def again(step):
        return loop(ad.checkpoint(step))

    for kind in (scanned, again):
        for step, routes in ((on_result, (ad.grad, SECOND["jvp(grad)"])), (linear, (ad.grad, *SECOND.values()))):
            for route in routes:
                np.testing.assert_allclose(route(kind(step))(X * 0.1), route(loop(step))(X * 0.1))


def test_a_removed_hook_is_called_no_more():
    kept = []

    def step(x):
        y = x * 2.0
        kept.append(y.register_hook(lambda g: g * 10.0))
        return y * x

    t = ad.tensor(X, requires_grad=True)
    for remove, slope in ((False, 22.0), (True, 4.0)):
        y = ad.sum(ad.checkpoint(step)(t))
        if remove:
            kept[-1].remove()
        t.grad = None
        y.backward()
        assert t.grad.numpy().tolist() == (slope * X).tolist()
