"""The histories that results of control flow have, and the gradients that its rules compute: no more than is wanted."""

import numpy as np
import pytest

import autodiff as ad

X = np.array([1.0, 2.0])

#: A step in a body of each kind, run once.
BODIES = {
    "checkpoint": lambda step, x: ad.checkpoint(step)(x),
    "cond": lambda step, x: ad.cond(ad.sum(X) > ad.tensor(0.0), step, step, x),
    "fori_loop": lambda step, x: ad.fori_loop(0, 2, lambda i, c: step(c), x),
    "scan": lambda step, x: ad.scan(lambda c, _: (step(c), None), x, length=2)[0],
    "elements": lambda step, x: ad.scan(lambda c, row: (c, step(row)), 0.0, x[None])[1][0],
    "scan(checkpoint)": lambda step, x: ad.scan(lambda c, _: (ad.checkpoint(step)(c), None), x, length=2)[0],
    "closed over": lambda step, x: ad.scan(lambda c, _: (c + step(x), None), ad.tensor(X), length=2)[0],
}
STEPS = {
    "detach": (lambda x: x.detach() * 2.0, False),
    "stop_gradient": (lambda x: ad.stop_gradient(ad.sin(x)), False),
    "no_grad": (lambda x: without_gradients(x), False),
    "a constant": (lambda x: ad.tensor(X) * 1.0, False),
    "floor": (ad.floor, True),
    "one of two": (lambda x: x.detach() * x, True),
}


def without_gradients(x):
    with ad.no_grad():
        return x * 2.0


@pytest.mark.parametrize("jitted", [False, True], ids=["", "jit"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("body", BODIES)
def test_a_result_requires_grad_where_it_does_in_the_open(body, step, jitted):
    f, tracks = STEPS[step]

    def program(x):
        return BODIES[body](f, x)

    x = ad.tensor(X, requires_grad=True)
    assert f(x).requires_grad == tracks
    y = (ad.jit(program) if jitted else program)(x)
    assert y.requires_grad == tracks
    assert not (ad.jit(program) if jitted else program)(ad.tensor(X)).requires_grad
    if tracks:
        ad.sum(y).backward()
        assert x.grad.shape == (2,)
    np.testing.assert_array_equal(ad.grad(lambda x: ad.sum(program(x) + 0.0 * x))(X) == 0.0, step != "one of two")


def test_one_result_may_have_a_history_and_another_none():
    x = ad.tensor(X, requires_grad=True)
    (a, b), ys = ad.scan(lambda c, y: ((c[0] + y, c[1].detach()), y.detach()), (x * 0.0, x), ad.stack([x, x]))
    assert (a.requires_grad, b.requires_grad, ys.requires_grad) == (True, False, False)
    a, b = ad.checkpoint(lambda x: (x * x, x.detach()))(x)
    assert (a.requires_grad, b.requires_grad) == (True, False)
    last, _ = ad.scan(lambda c, _: ((c[1], c[0].detach()), None), (x, ad.tensor(X)), length=2)
    assert not any(t.requires_grad for t in last)


def test_a_loop_without_steps_gives_what_it_was_given():
    x = ad.tensor(X, requires_grad=True)
    assert ad.scan(lambda c, _: (c.detach(), None), x, length=0)[0].requires_grad
    assert ad.while_loop(lambda c: ad.sum(c) < 0.0, lambda c: c.detach(), x).requires_grad


def reading(x):
    """A function whose forward reads x, which an outer gradient is of."""

    @ad.function
    def p(y): ...

    @p.forward(ad.Tensor)
    def _(ctx, y):
        return y * y * x

    @p.backward(ad.Tensor)
    def _(ctx, g):
        return g * 2.0 * ctx.inputs.y * x

    return p


#: Of bodies in which no result of the function is read again.
READ_ONCE = {
    "checkpoint": lambda p, y: ad.checkpoint(p)(y),
    "cond": lambda p, y: ad.cond(ad.sum(y) > 0, p, lambda y: y, y),
    "elements": lambda p, y: ad.scan(lambda c, row: (c + 1.0, p(row)), 0.0, ad.stack([y, y]))[1],
    "sums": lambda p, y: ad.scan(lambda c, row: (c + p(row), None), y * 0.0, ad.stack([y, y]))[0],
    "scan(checkpoint)": lambda p, y: ad.scan(lambda c, row: (c, ad.checkpoint(p)(row)), 0.0, y[None])[1],
    "fori_loop": lambda p, y: ad.fori_loop(0, 2, lambda i, c: c + p(y), y * 0.0),
}


@pytest.mark.parametrize("jitted", [False, True], ids=["", "jit"])
@pytest.mark.parametrize("body", READ_ONCE)
def test_a_gradient_that_nobody_asks_for_is_not_refused(body, jitted):
    """The inner gradient is of y alone; that the forward reads x, which the outer one is of, is nothing to it."""

    def outer(run):
        def f(x):
            y = ad.stop_gradient(x) * 1.0
            return ad.sum(ad.grad(lambda y: ad.sum(run(reading(x), y)))(y))

        return f

    def open_loop(p, y):
        return p(y) * (2.0 if body in ("elements", "sums", "fori_loop") else 1.0)

    g = ad.grad(outer(READ_ONCE[body]))
    np.testing.assert_allclose((ad.jit(g) if jitted else g)(X), ad.grad(outer(open_loop))(X))


#: Bodies in which an outer variable is read: of the inner gradient they are no argument, of the outer they are.
WHOLE = BODIES | {
    "while_loop": lambda step, x: ad.while_loop(
        lambda c: c[1] < 2, lambda c: (step(c[0]), c[1] + 1), (x, ad.tensor(0)))[0],
    "while_loop(checkpoint)": lambda step, x: ad.while_loop(
        lambda c: c[1] < 2, lambda c: (ad.checkpoint(step)(c[0]), c[1] + 1), (x, ad.tensor(0)))[0],
}  # fmt: skip


@pytest.mark.parametrize("route", ["grad", "jvp", "hessian"])
@pytest.mark.parametrize("body", WHOLE)
def test_the_gradient_of_a_gradient_by_what_the_body_closes_over(body, route):
    def outer(run):
        def f(x):
            return ad.sum(ad.grad(lambda y: ad.sum(run(lambda y: ad.sin(y) * x + y, y)))(ad.stop_gradient(x) * 0.5))

        return f

    def in_the_open(step, y):
        if body in ("checkpoint", "cond", "elements"):
            return step(y)
        if body == "closed over":
            return 2.0 * step(y)
        return step(step(y))

    derivative = {"grad": ad.grad, "hessian": ad.hessian, "jvp": lambda f: lambda x: ad.jvp(f, (x,), (x,))[1]}[route]
    np.testing.assert_allclose(derivative(outer(WHOLE[body]))(X), derivative(outer(in_the_open))(X), rtol=1e-12)


@pytest.mark.parametrize("call", [ad.round, ad.around, np.round, lambda x: ad.round(x, 1), round])
def test_rounding_complex_numbers_names_the_function_that_was_called(call):
    with pytest.raises(ad.DTypeError, match=r"(?s)^round: takes .* got complex128.*ad\.real"):
        call(ad.tensor(1.5 + 2j))
