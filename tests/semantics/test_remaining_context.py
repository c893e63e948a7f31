"""SEMANTICS 3, what is left: names of the context itself, everything in any order, tensors by keyword."""

from __future__ import annotations

import numpy as np
import pytest
from three_ways import gradients, refused

import autodiff as ad

X = np.array([1.0, -2.0, 3.0])
W = np.array([0.5, 0.25, -1.0])


@pytest.mark.parametrize("name", ["saved_variables", "saved_tensors", "outputs"])
def test_an_attribute_that_backward_could_not_read_is_refused(name):
    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: (setattr(ctx, name, 3.0), x * 1.0)[1])
    f.backward(ad.Tensor)(lambda ctx, g: g)
    error = refused(lambda x: f(x).sum(), X)
    assert f"f: forward sets ctx.{name}, which is a context's own" in str(error)
    assert "test_remaining_context.py" in str(error)


def test_values_by_position_and_by_name_keep_their_order_and_their_none():
    seen = []

    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        ctx.save_for_backward(x, None, 3, a=x * 2.0, b=None, c="text")
        return x * x

    @f.backward(ad.Tensor)
    def _(ctx, g):
        s = ctx.saved_variables
        seen.append((len(s), s[1], s[2], s.b, s["c"], ctx.saved_tensors[4:], type(ctx.saved_tensors)))
        return g * (s[0] + s.a / 2.0)

    (g,) = gradients(lambda x: f(x).sum(), X, kept=False)
    np.testing.assert_array_equal(g, 2 * X)
    assert set(seen) == {(6, None, 3, None, "text", (None, "text"), tuple)}


def test_a_constant_that_forward_returns_carries_the_rule_and_stays_a_constant():
    constant = ad.zeros(3)

    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: constant)
    f.backward(ad.Tensor)(lambda ctx, g: g * 5.0)
    (g,) = gradients(lambda x: f(x).sum(), X, kept=False)
    np.testing.assert_array_equal(g, np.full(3, 5.0))
    assert not constant.requires_grad


def test_a_parameter_may_have_the_name_of_anything_a_sequence_has():
    names = ["index", "count", "keys", "values", "items", "names"]

    @ad.function
    def f(index, count, keys, values, items, names): ...

    @f.forward
    def _(ctx, index, count, keys, values, items, names):
        ctx.save_for_backward(index=index, count=count, keys=keys, values=values, items=items, names=names)
        return index * count * keys

    @f.backward
    def _(ctx, g):
        s, i, needs = ctx.saved_variables, ctx.inputs, ctx.needs_input_grad
        assert [s[n] for n in names[3:]] == [getattr(i, n) for n in names[3:]] == [1, 2, 3]
        assert [getattr(needs, n) for n in names] == [True, True, True, False, False, False]
        return {"index": g * s.count * s.keys, "count": g * i.index * i.keys, "keys": g * s.index * s.count}

    a, b, c = gradients(lambda a, b, c: f(a, b, c, 1, 2, 3).sum(), X, W, X + W, kept=False)
    np.testing.assert_allclose(a, W * (X + W))
    np.testing.assert_allclose(b, X * (X + W))
    np.testing.assert_allclose(c, X * W)
