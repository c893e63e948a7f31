"""Figures that issue 3 asks to be seen: small programs whose figures are exact, run recorded and compiled."""

from __future__ import annotations

import sys
import threading
import weakref

import numpy as np
import pytest

import autodiff as ad

X = np.array([1.0, -2.0, 3.0])


def test_second_order_through_a_host_rule_raises_and_names_the_way_out():
    @ad.function
    def sine(x): ...

    @sine.forward(ad.Tensor, host=True)
    def _(ctx, x):
        ctx.save_for_backward(x=x)
        return np.sin(x)

    @sine.backward(ad.Tensor, host=True)
    def _(ctx, g):
        return g * np.cos(ctx.saved_variables.x)

    first = ad.grad(lambda x: sine(x).sum())
    for f in (first, ad.jit(first)):
        np.testing.assert_allclose(f(X), np.cos(X))
        with pytest.raises(ad.GradientError, match=r"(?s)sine .*another ad\.function with a backward of its own"):
            ad.grad(lambda x, f=f: f(x).sum())(X)


def test_a_more_specific_backward_for_matmul_on_a_users_type_is_used_at_the_next_call():
    class Wrapped(ad.AbstractTensor[..., 2]):
        def __init__(self, inside):
            self.inside = inside

    ad.tree.register(Wrapped, lambda w: ((w.inside,), None), lambda _aux, children: Wrapped(*children))
    ad.dense.method(Wrapped)(lambda x: x.inside)
    method = ad.matmul.method(Wrapped, ad.Tensor)(lambda x1, x2: x1.inside @ x2)
    compiled = ad.jit(ad.grad(lambda m: (Wrapped(m) @ ad.ones((2, 2))).sum()))

    def recorded():
        m = ad.tensor(np.eye(2), requires_grad=True)
        (Wrapped(m) @ ad.ones((2, 2))).sum().backward()
        return m.grad.numpy()

    try:
        for _ in range(2):
            assert (recorded() == 2.0).all() and (compiled(np.eye(2)) == 2.0).all()
        rule = ad.matmul.backward(Wrapped, ad.Tensor)(lambda ctx, g: (Wrapped(g * 7.0), None))
        assert (recorded() == 7.0).all() and (compiled(np.eye(2)) == 7.0).all()
        rule.delete()
        assert (recorded() == 2.0).all() and (compiled(np.eye(2)) == 2.0).all()
    finally:
        method.delete()


def test_four_threads_a_thousand_backwards_each_on_one_leaf_sum_exactly():
    w = ad.tensor(np.ones(3), requires_grad=True)

    def work():
        for _ in range(1000):
            (w * 2.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_array_equal(w.grad.numpy(), np.full(3, 8000.0))


def test_a_chain_of_custom_calls_much_longer_than_the_recursion_limit_is_dropped():
    @ad.function
    def step(x): ...

    step.forward(ad.Tensor)(lambda ctx, x: (ctx.save_for_backward(x=x), x + 1.0)[1])
    step.backward(ad.Tensor)(lambda ctx, g: g * 1.0)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(min(limit, 800))
    try:
        x = ad.tensor(np.zeros(2), requires_grad=True)
        first = step(x)
        y = first
        for _ in range(4_000):
            y = step(y)
        dropped = weakref.ref(y)
        del y
        assert dropped() is None
        first.sum().backward()
        assert first.tolist() == [1.0, 1.0] and x.grad.tolist() == [1.0, 1.0]
    finally:
        sys.setrecursionlimit(limit)
