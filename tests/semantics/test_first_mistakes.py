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
