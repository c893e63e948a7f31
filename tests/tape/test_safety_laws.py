"""Laws of the tape: errors, hooks, custom functions, threads and tasks leave every value right."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from spied import GRADIENT, RNG, W0, X0, counts, parameter, step
from work_done import WAITING

import autodiff as ad

# ---------------------------------------------------------------- errors leave nothing behind


def test_an_error_while_recording_leaves_the_tape_usable():
    w = parameter()
    y = ad.tensor(X0) @ w
    with pytest.raises(ad.ShapeError):
        y @ ad.tensor(X0[:3])
    y.sum().backward()
    np.testing.assert_allclose(w.grad, X0.T @ np.ones((100, 200)))


def custom(forward, backward):
    """A custom function of any arguments, from two functions."""

    @ad.function
    def f(x, k=None): ...

    f.forward(forward)
    f.backward(backward)
    return f


def test_a_failing_rule_leaves_every_gradient_as_it_was():
    a, b = parameter(), parameter()

    def fails(ctx, g):
        return 1 / 0

    f = custom(lambda ctx, x, k: x * 1.0, fails)
    a.sum().backward()
    before = a.grad.numpy().copy()
    with pytest.raises(ZeroDivisionError):
        (a.sum() + f(b).sum() + (a * 2.0).sum()).backward()
    assert b.grad is None
    np.testing.assert_array_equal(a.grad, before)
    assert ad.is_grad_enabled()


def test_a_rule_that_fails_is_found_by_backward_not_by_item():
    w = parameter()

    def fails(ctx, g):
        return 1 / 0

    loss = custom(lambda ctx, x, k: x * 1.0, fails)(w).sum()
    np.testing.assert_allclose(loss.item(), W0.sum())
    with pytest.raises(ZeroDivisionError):
        loss.backward()


def test_a_second_backward_is_an_error_unless_the_graph_is_retained():
    w = parameter()
    loss = step(w, ad.tensor(X0))
    loss.backward()
    with pytest.raises(ad.GradientError, match="retain_graph"):
        loss.backward()
    h = ad.tensor(X0) @ w
    a, b = h.sum(), (h * 2.0).sum()
    a.backward()
    with pytest.raises(ad.GradientError, match="retain_graph"):
        b.backward()
    w.grad = None
    loss = step(w, ad.tensor(X0))
    loss.backward(retain_graph=True)
    loss.backward()
    np.testing.assert_allclose(w.grad, 2 * GRADIENT, rtol=1e-10, atol=1e-10)


def test_what_a_released_graph_computed_keeps_its_value():
    w = parameter()
    p = ad.sin(ad.tensor(X0) @ w)
    loss = p.sum()
    loss.item()
    loss.backward()
    with pytest.raises(ad.GradientError):
        (p * 2.0).sum().backward()
    np.testing.assert_allclose(p.detach(), np.sin(X0 @ W0))


def test_two_losses_over_one_leaf_are_independent():
    w = parameter()
    a, b = (w * 2.0).sum(), (w * 3.0).sum()
    a.backward()
    b.backward()
    np.testing.assert_allclose(w.grad, 5.0)


# ---------------------------------------------------------------- values never change


def test_a_captured_value_survives_an_update_of_its_handle():
    w = parameter()
    y = (w * w).sum()
    with ad.no_grad():
        w -= 1.0
    y.backward()
    np.testing.assert_allclose(w.grad, 2 * W0)
    w.grad = None
    (w * w).sum().backward()
    np.testing.assert_allclose(w.grad, 2 * (W0 - 1))


def test_gradients_of_both_versions_of_a_leaf_accumulate():
    w = parameter()
    y = w * w
    with ad.no_grad():
        w -= 1.0
    (y + w * w).sum().backward()
    np.testing.assert_allclose(w.grad, 2 * W0 + 2 * (W0 - 1))


def test_a_pending_gradient_can_be_scaled():
    w = parameter()
    step(w, ad.tensor(X0)).backward()
    w.grad = w.grad * 0.5
    step(w, ad.tensor(X0)).backward()
    np.testing.assert_allclose(w.grad, 1.5 * GRADIENT, rtol=1e-10, atol=1e-10)


# ---------------------------------------------------------------- hooks


def test_a_hook_is_called_at_every_backward_and_can_be_removed():
    w, seen = parameter(), []
    ones = X0.T @ np.ones((100, 200))
    for i in range(4):
        w.grad = None
        y = ad.tensor(X0) @ w

        def double(g):
            seen.append(g.shape)
            return g * 2.0

        handle = y.register_hook(double)
        if i == 2:
            handle.remove()
        y.sum().backward()
        np.testing.assert_allclose(w.grad, ones * (1 if i == 2 else 2))
    assert len(seen) == 3


def test_a_hook_may_call_backward_itself():
    for before in (None, ad.tensor(np.zeros_like(W0))):
        w = parameter()
        w.grad = before
        y = w * 1.0
        y.register_hook(lambda g, w=w: (w * 3.0).sum().backward())
        y.sum().backward()
        np.testing.assert_allclose(w.grad, 4.0)


# ---------------------------------------------------------------- custom functions


def test_a_rule_made_anew_in_a_loop_hits_while_its_constants_are_equal(spy):
    w = parameter()

    def once(k):
        f = custom(lambda ctx, x, k: x * 1.0, lambda ctx, g: g * k)
        w.grad = None
        f(w).sum().backward()
        return counts(spy)

    known = once(2.0)
    assert once(2.0) == known
    assert once(3.0)[1] == known[1]
    np.testing.assert_allclose(w.grad, 3.0)


def test_a_number_in_a_rule_recompiles_nothing(spy):
    w = parameter()

    def forward(ctx, x, k):
        ctx.save_for_backward(k)
        return x * k

    f = custom(forward, lambda ctx, g: (g * ctx.saved_variables[0],))
    for i in range(5):
        w.grad = None
        f(w, 0.5 * i).sum().backward()
        np.testing.assert_allclose(w.grad, 0.5 * i)
        if i == 0:
            known = len(spy.compiled)
    assert len(spy.compiled) == known


def test_second_order_through_saved_values_is_right():
    v = RNG.normal(size=100)
    x = parameter(v)

    def forward(ctx, x, k):
        h = ad.sin(x)
        ctx.save_for_backward(x, h)
        return h * h

    def backward(ctx, g):
        x, h = ctx.saved_variables
        return g * (h * ad.cos(x) * 2.0)

    f = custom(forward, backward)
    for _ in range(2):
        g = ad.grad(f(x).sum(), x, create_graph=True)
        np.testing.assert_allclose(ad.grad(g.sum(), x), 2 * np.cos(2 * v))


def test_a_rule_that_asks_for_a_value_is_run_each_time(spy):
    x, runs = parameter(RNG.normal(size=100)), []

    def backward(ctx, g):
        runs.append(1)
        return g * float(g.sum())

    f = custom(lambda ctx, x, k: x * 1.0, backward)
    for i in range(3):
        x.grad = None
        (f(x) * (i + 1.0)).sum().backward()
        np.testing.assert_allclose(x.grad, 100 * (i + 1) ** 2)
        if i == 0:
            known = len(spy.compiled)
    assert len(runs) == 3 and len(spy.compiled) == known


def test_second_order_through_an_array_that_forward_made_is_refused():
    x = parameter(RNG.normal(size=100))

    def forward(ctx, x, k):
        h = ad.tensor(np.cos(x.numpy()))
        ctx.save_for_backward(h)
        return ad.tensor(np.sin(x.numpy()))

    f = custom(forward, lambda ctx, g: g * ctx.saved_variables[0])
    f(x).sum().backward()
    np.testing.assert_allclose(x.grad, np.cos(x.detach().numpy()))
    g = ad.grad(f(x).sum(), x, create_graph=True)
    with pytest.raises(ad.GradientError, match=r"another ad\.function"):
        ad.grad(g.sum(), x)


def test_inside_forward_inputs_report_no_gradient():
    seen = []

    def forward(ctx, x, k):
        seen.append((x.requires_grad, (x * 2.0).requires_grad))
        return x * 2.0

    custom(forward, lambda ctx, g: g * 2.0)(parameter()).sum().backward()
    assert seen == [(False, False)]


# ---------------------------------------------------------------- threads and tasks


def test_threads_record_apart():
    failures = []

    def work(k):
        try:
            w = parameter(W0 + k)
            for i in range(30):
                w.grad = None
                loss = step(w, ad.tensor(X0))
                if i % 3 == 0:
                    loss.item()
                loss.backward()
            np.testing.assert_allclose(w.grad, X0.T @ np.cos(X0 @ (W0 + k)), rtol=1e-9, atol=1e-9)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[:1]


def test_grad_mode_belongs_to_the_task():
    seen = []

    async def quiet():
        with ad.no_grad():
            await asyncio.sleep(0.01)

    async def other():
        await asyncio.sleep(0.001)
        seen.append(ad.is_grad_enabled())

    async def both():
        await asyncio.gather(quiet(), other())

    asyncio.run(both())
    assert seen == [True]


def test_a_very_long_known_recording_gives_the_gradient_of_its_own_data(monkeypatch):
    monkeypatch.setattr(ad.config, "patience", 8)  # the first one is evaluated, the others' is compiled once

    def long(x):
        y = x
        for _ in range(3 * WAITING // 2):
            y = y * 0.9999
        return (y * y).sum()

    factor = 2 * 0.9999 ** (3 * WAITING)
    for k in (1.0, 2.0, 3.0):
        x = ad.tensor(np.full(3, k), requires_grad=True)
        long(x).backward()
        np.testing.assert_allclose(x.grad.numpy(), factor * k, rtol=1e-9)


def test_a_very_long_trace_evaluates_nothing():
    def long(x):
        for _ in range(3 * WAITING // 2):
            x = -x  # nothing is left of it to be compiled
        return x

    assert WAITING % 4 == 0
    assert ad.jit(long)(np.array([1.0, -2.0])).tolist() == [1.0, -2.0]
