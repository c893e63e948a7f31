"""Mistakes that people make in their first hour get an error that names the way out."""

import re

import numpy as np
import pytest

import autodiff as ad

X = np.array([1.0, -1.0])


@pytest.mark.parametrize(
    ("call", "way_out"),
    [
        (lambda: ad.zeros(2, 3), "a shape of several numbers is a tuple: (2, 3)"),
        (lambda: ad.max(ad.tensor(X), 0.0), "ad.maximum(a, b) compares elements"),
        (lambda: ad.tensor(X).max(0.5), "ad.maximum(a, b) compares elements"),
        (lambda: ad.min(ad.tensor(X), np.zeros(2)), "ad.minimum(a, b) compares elements"),
        (lambda: ad.stack(ad.tensor(X), ad.tensor(X)), "arrays stand in a list: ad.stack([a, b])"),
        (lambda: ad.concatenate(ad.tensor([1.0]), ad.tensor(X)), "arrays stand in a list"),
        (lambda: ad.jit(lambda v: ad.sum(np.array([v[0], v[1]])))(X), "ad.stack([a, b]) is np.array([a, b])"),
        (lambda: ad.grad(lambda v: ad.sum(np.array([v[0], v[1]])))(X), "ad.stack one of a list of tensors"),
    ],
)
def test_a_first_mistake_is_answered_with_what_was_meant(call, way_out):
    with pytest.raises(Exception, match=re.escape(way_out)) as caught:
        call()
    assert "test_first_mistakes.py" in str(caught.value)


ROUTES = {
    "plainly": lambda f: f(ad.tensor(X)),
    "backward": lambda f: ad.sum(f(ad.tensor(X, requires_grad=True))).backward(),
    "grad": lambda f: ad.grad(lambda x: ad.sum(f(x)))(X),
    "jit": lambda f: ad.jit(f)(X),
    "vmap": lambda f: ad.vmap(f)(X),
    "jvp": lambda f: ad.jvp(f, (X,), (X,)),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("host", [False, True])
def test_a_forward_without_a_return_is_refused_at_the_call(route, host):
    @ad.function
    def double(x): ...

    @double.forward(ad.Tensor, host=host)
    def _(ctx, x):
        y = x * 2.0  # noqa: F841  and it is never returned

    with pytest.raises(ad.GradientError, match=r"double: its forward \(test_first.*, called at test_first.*\breturn\b"):
        ROUTES[route](double)


def test_a_forward_may_say_that_it_returns_nothing():
    @ad.function
    def look(x): ...

    seen = []

    @look.forward(ad.Tensor)
    def _(ctx, x):
        seen.append(x.shape)
        return None

    assert look(ad.tensor(X)) is None and seen == [(2,)]


class Length(ad.AbstractTensor):
    """A type without a dense form; its dtype is written as people write it."""

    shape, dtype = (), ad.float64

    def __init__(self, metres):
        self.metres = metres


ad.tree.register(Length, lambda x: ((x.metres,), None), lambda rest, children: Length(children[0]))


def _squared(factor):
    @ad.function
    def squared(x): ...

    @squared.forward(Length)
    def _(ctx, x):
        ctx.save_for_backward(metres=x.metres)
        return x.metres * x.metres

    @squared.backward(Length)
    def _(ctx, grad_output):
        return Length(factor * ctx.saved_variables.metres * grad_output)

    return squared


def test_rules_of_a_type_without_a_dense_form_are_checked():
    assert ad.grad(_squared(2.0))(Length(2.0)).metres == 4.0
    ad.check_gradients(_squared(2.0), Length(2.0))
    ad.check_gradients(lambda x: x.metres**3, Length(ad.tensor(2.0)))
    with pytest.raises(ad.GradientError, match="the derivative is wrong at first order, in reverse mode"):
        ad.check_gradients(_squared(2.5), Length(2.0))


def test_a_dtype_given_as_numpys_class_is_one():
    @ad.dense.method(Length)
    def _(x):
        return ad.asarray(x.metres)

    @ad.function
    def tripled(x): ...

    @tripled.forward(Length)
    def _(ctx, x):
        return x.metres * 3.0

    @tripled.backward(Length)
    def _(ctx, grad_output):
        return grad_output * 3.0

    assert ad.grad(tripled)(Length(2.0)).metres == 3.0
