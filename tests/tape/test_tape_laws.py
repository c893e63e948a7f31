"""Laws of the tape: laziness must not surprise.

What people write must neither grow the tape, nor compute twice, nor compile or run rules again."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
from spied import GRADIENT, RNG, W0, X0, counts, parameter, step
from work_done import work

import autodiff as ad

# ---------------------------------------------------------------- known shapes


def test_backward_gives_the_gradient():
    w = parameter()
    step(w, ad.tensor(X0)).backward()
    np.testing.assert_allclose(w.grad, GRADIENT, rtol=1e-10, atol=1e-10)


def test_a_known_shape_runs_no_rule_and_compiles_nothing(spy):
    w = parameter()
    for i in range(5):
        w.grad = None
        step(w, ad.tensor(X0 + i)).backward()
        if i == 0:
            known = counts(spy)
    assert counts(spy) == known


def test_an_unrelated_operation_does_not_touch_the_known_shape(spy):
    w, x = parameter(), ad.tensor(X0)
    for i in range(30):
        w.grad = None
        p = x @ w
        loss = ad.sin(p).sum()
        if i == 10:
            known = counts(spy)
        if i % 10 == 9:
            z = p * 3.0
            del z
            q = ad.tensor(X0[:3]) * 2
            del q
        loss.backward()
    assert counts(spy) == known


def test_an_occasional_print_compiles_once(spy):
    w, x = parameter(), ad.tensor(X0)
    seen = []
    for i in range(40):
        w.grad = None
        p = x @ w
        loss = ad.sin(p).sum()
        if i % 10 == 9:
            p.sum().item()
        loss.backward()
        seen.append(counts(spy))
    assert seen[19] == seen[39] and seen[39][1] <= 4, seen


def test_numbers_are_arguments_of_the_executable(spy):
    w = parameter()
    for i in range(5):
        (w * (0.1 * i)).sum().backward()
        w.grad = None
        if i == 0:
            known = counts(spy)
    assert counts(spy) == known


def test_starts_of_slices_are_arguments_of_the_executable(spy):
    w, x = parameter(np.ones(8)), ad.tensor(X0)
    for i in range(0, 100, 10):
        w.grad = None
        (x[i : i + 10] @ w).sum().backward()
        np.testing.assert_allclose(w.grad, X0[i : i + 10].sum(axis=0))
        if i == 0:
            known = counts(spy)
    assert counts(spy) == known


def test_a_higher_derivative_is_known_too(spy):
    x = parameter(RNG.normal(size=100))
    for i in range(3):
        y = (x * x * x).sum()
        g = ad.grad(y, x, create_graph=True)
        g2 = ad.grad(g.sum(), x, create_graph=True)
        g3 = ad.grad(g2.sum(), x)
        np.testing.assert_allclose(g.detach(), 3 * x.detach().numpy() ** 2)
        np.testing.assert_allclose(g2.detach(), 6 * x.detach().numpy())
        np.testing.assert_allclose(g3, 6.0)
        if i == 0:
            known = len(spy.compiled)
    assert len(spy.compiled) == known


# ---------------------------------------------------------------- nothing is computed twice


def test_item_before_backward_does_not_run_the_model_twice(spy):
    w = parameter()
    loss = step(w, ad.tensor(X0))
    loss.item()
    loss.backward()
    assert spy.ran["matmul"] == 2
    np.testing.assert_allclose(w.grad, GRADIENT, rtol=1e-10, atol=1e-10)


def test_item_after_backward_runs_nothing(spy):
    w = parameter()
    loss = step(w, ad.tensor(X0))
    loss.backward()
    runs = work().runs
    loss.item()
    assert work().runs == runs and spy.ran["matmul"] == 2


def test_a_metric_after_backward_reuses_the_live_product(spy):
    w, x = parameter(), ad.tensor(X0)
    p = x @ w
    ad.sin(p).sum().backward()
    (p.detach() * 2).sum().item()
    assert spy.ran["matmul"] == 2


def test_a_recurrence_with_an_ask_at_each_step_runs_each_product_once(spy):
    w, h = parameter(RNG.normal(size=(30, 30)) * 0.01), ad.tensor(RNG.normal(size=(30, 30)))
    for i in range(20):
        h = ad.sin(h @ w)
        h.sum().item()
        if i == 3:
            known = len(spy.compiled)
    assert len(spy.compiled) == known and spy.ran["matmul"] == 20


def test_an_update_under_no_grad_fuses_with_what_comes_next(spy):
    w, x, by_hand = parameter(), ad.tensor(X0), W0.copy()
    for i in range(6):
        w.grad = None
        step(w, x).backward()
        with ad.no_grad():
            w -= w.grad * 0.01
        by_hand -= 0.01 * (X0.T @ np.cos(X0 @ by_hand))
        if i == 1:
            known, runs = counts(spy), work().runs
    assert w.is_leaf and w.requires_grad
    assert counts(spy) == known and work().runs - runs == 4
    np.testing.assert_allclose(w.detach(), by_hand, rtol=1e-9)


def test_an_existing_gradient_is_added_in_the_same_run(spy):
    w = parameter()
    step(w, ad.tensor(X0)).backward()
    runs = work().runs
    step(w, ad.tensor(X0)).backward()
    assert work().runs - runs == 1
    np.testing.assert_allclose(w.grad, 2 * GRADIENT, rtol=1e-10, atol=1e-10)


# ---------------------------------------------------------------- nothing grows


def test_a_running_total_of_losses_stays_flat(spy):
    w, x, total = parameter(W0[:, :2]), ad.tensor(X0[:4]), ad.tensor(0.0)
    for i in range(1500):
        loss = step(w, x)
        loss.backward()
        w.grad = None
        total += loss.detach()
        if i == 99:
            tracemalloc.start()
        if i == 299:
            known, before = counts(spy), tracemalloc.get_traced_memory()[0]
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert counts(spy) == known
    np.testing.assert_allclose(total.item(), 1500 * loss.item(), rtol=1e-9)
    assert grown < 20_000, grown


def test_a_list_of_kept_losses_costs_their_values_only(spy):
    w, kept = parameter(), []
    tracemalloc.start()
    for i in range(300):
        loss = step(w, ad.tensor(X0))
        loss.backward()
        w.grad = None
        kept.append((loss * 2).detach())
        if i == 100:
            before = tracemalloc.get_traced_memory()[0]
    per_loss = (tracemalloc.get_traced_memory()[0] - before) / 199
    tracemalloc.stop()
    assert per_loss < 2000, per_loss


def test_an_endless_recording_evaluates_itself():
    x = ad.tensor(np.ones(100))
    y = x
    for _ in range(12_000):
        y = y + x
    assert y.numpy()[0] == 12_001


def test_a_dropped_graph_is_freed_at_once_without_the_collector():
    gc.disable()
    try:
        big = parameter(np.ones(100_000))
        leaf = weakref.ref(big.node.leaf)
        y = big * 2.0
        z = ad.sin(y).sum()
        handle = weakref.ref(z)
        del y, z, big
        assert leaf() is None and handle() is None
    finally:
        gc.enable()


def test_a_chain_of_20000_operations_neither_recurses_nor_overflows(monkeypatch):
    monkeypatch.setattr(ad.config, "patience", 8)  # it is evaluated, as what users do once is
    x = parameter(RNG.normal(size=3))
    y = x
    for _ in range(20_000):
        y = y * 1.0
    y.sum().backward()
    np.testing.assert_allclose(x.grad, 1.0)
    y = x
    for _ in range(20_000):
        y = y + x
    del y
