"""The record of what a custom rule or forward looked at: what it holds, and until when."""

from __future__ import annotations

import gc
import json

import numpy as np
import pytest
from watched_rules import pair, slope

import autodiff as ad
from autodiff.ops import recorder
from autodiff.session import plans
from autodiff.tape.record import state
from autodiff.tape.watched import plain


def test_what_leaves_a_rule_behaves_like_the_number():
    kept = []

    def rule(ctx, g):
        kept.append(ctx.saved_variables.c * 2)
        return {"x": g * ctx.saved_variables.c}

    f = pair(rule)
    slope(f, 1.5)
    slope(f, 2.5)
    assert kept == [3.0, 5.0] and json.dumps([plain(x) for x in kept]) == "[3.0, 5.0]"


def test_a_forward_that_fails_keeps_nothing_of_what_it_looked_at():
    y, x = ad.tensor(2.0, requires_grad=True), ad.tensor(3.0, requires_grad=True)

    def fails(ctx, x):
        raise ValueError(float(y * 2.0))

    for options in ({}, {"host": True}):

        @ad.function
        def f(x): ...

        f.forward(ad.Tensor, **options)(fails)
        f.backward(ad.Tensor)(lambda ctx, g: g)
        with pytest.raises(ValueError, match=r"4\.0"):
            f(x)
        assert state.now.asked_in_forward == []


def _assigned(x, w):
    y = x * 1.0
    y[0] = w[1]
    return y


def _updated(x, w):
    y = x * 1.0
    y += w
    return y


def _updated_by_method(x, w):
    return (x * 1.0).copy_(w) * x


def _filled(x, w):
    y = ad.zeros(3)
    y[0] = x[0] * w[0]
    return y


@ad.function
def _doubled(x): ...


_doubled.forward(ad.Tensor)(lambda ctx, x: x * 2.0)
_doubled.backward(ad.Tensor)(lambda ctx, g: g * 2.0)


def _nested(x, w):
    @ad.function
    def inner(x): ...

    inner.forward(ad.Tensor)(lambda ctx, x: _doubled(x) * w)
    inner.backward(ad.Tensor)(lambda ctx, g: g)
    return inner(x)


def _nested_twice(x, w):
    return _nested(_doubled(x), w) + x


#: Bodies of a forward of x that reads w.
BODIES = {
    "an operator": lambda x, w: x * w,
    "only the value": lambda x, w: w * 2.0,
    "the value itself": lambda x, w: w,
    "a function": lambda x, w: ad.maximum(x, w),
    "one of NumPy's": lambda x, w: np.multiply(x, w),
    "made of it first": lambda x, w: x + ad.exp(w * 2.0),
    "a product of vectors": lambda x, w: x @ w,
    "a product of matrices": lambda x, w: ad.outer(x, w) @ x,
    "einsum": lambda x, w: ad.einsum("i,j->ij", x, w),
    "a reduction": lambda x, w: ad.sum(x[None] * w, axis=0),
    "joined": lambda x, w: ad.concatenate([x, w]),
    "stacked": lambda x, w: ad.stack([x, w]),
    "a list": lambda x, w: ad.asarray([x[0], w[0]]),
    "chosen": lambda x, w: ad.where(x > 1.0, w, x),
    "an element": lambda x, w: x * w[1],
    "a slice": lambda x, w: x[:2] * w[1:],
    "a number": lambda x, w: x * float(w[0]),
    "added at": lambda x, w: ad.add_at(x, np.array([0, 0]), w[:2]),
    "assigned": _assigned,
    "updated": _updated,
    "updated by a method": _updated_by_method,
    "filled": _filled,
    "cast": lambda x, w: x * ad.astype(ad.astype(w, ad.float32), ad.float64),
    "power": lambda x, w: x**w,
    "solve": lambda x, w: ad.linalg.solve(ad.diag(w), x),
    "fft": lambda x, w: ad.real(ad.fft.ifft(ad.fft.fft(x) * ad.fft.fft(w))),
    "a structured value": lambda x, w: ad.Diagonal(w) @ x,
    "several results": lambda x, w: (x, {"w": x * w}),
    "a custom function": lambda x, w: _doubled(w) * x,
    "a custom function of both": lambda x, w: _doubled(x * w),
    "one that closes over it": _nested,
    "one that closes over it, twice": _nested_twice,
    "jit": lambda x, w: ad.jit(lambda a: a * w)(x),
    "vmap": lambda x, w: ad.vmap(lambda a: a * w)(x),
    "scan": lambda x, w: ad.scan(lambda c, a: (c * w[0], c), x[0], x)[1],
    "cond": lambda x, w: ad.cond(x[0] > 0.0, lambda: x * w, lambda: x),
    "checkpoint": lambda x, w: ad.checkpoint(lambda a: a * w)(x),
    "grad": lambda x, w: ad.grad(lambda a: ad.sum(a * a * w))(x),
    "a rule of the library": lambda x, w: ad.linalg.norm(x * w),
}


def _of(body, w):
    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: body(x, w(x)))
    f.backward(ad.Tensor)(lambda ctx, *g: ad.ones(3) * 7.0)
    return f


def _total(found):
    return sum(ad.sum(x) for x in ad.tree.leaves(found))


@pytest.fixture(params=["python", "native"])
def recording(request):
    was_installed = recorder.is_installed()
    recorder.install() if request.param == "native" else recorder.uninstall()
    yield
    recorder.install() if was_installed else recorder.uninstall()


@pytest.mark.parametrize("name", BODIES)
def test_whatever_a_forward_makes_of_a_value_is_noticed_and_nothing_else(name, recording):
    body = BODIES[name]
    w = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = ad.tensor([0.5, 1.5, 2.5], requires_grad=True)
    closes = _of(body, lambda _: w)
    given, constant = _of(body, lambda x: x + 1.0), _of(body, lambda _: w.detach())
    for _ in range(4):
        with pytest.raises(ad.GradientError, match="f: a gradient is wanted through"):
            _total(closes(x)).backward()
        with pytest.raises(ad.GradientError, match="f: a gradient is wanted through"):
            ad.grad(_total(closes(x.detach())), [w])
        assert w.grad is None and x.grad is None
        for f in (closes, given, constant):
            (g,) = ad.grad(_total(f(x)), [x])
            np.testing.assert_array_equal(g.numpy(), [7.0, 7.0, 7.0])


def test_what_was_made_for_a_number_leaves_no_cycle_behind():
    f = pair(lambda ctx, g: {"x": g * ctx.saved_variables.c if ctx.saved_variables.c > 0 else g})
    slope(f, 0.25)
    plans.clear()  # those of other tests hold functions
    gc.collect()
    gc.disable()
    try:
        for i in range(1, 301):  # each is looked at, so each makes a plan
            slope(f, i * 0.5)
        plans.clear()
        # Machine code that is loaded meanwhile leaves some hundred objects, however many plans there are.
        assert gc.collect() < 300
    finally:
        gc.enable()
