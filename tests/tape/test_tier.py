"""A recorded program is not compiled until that pays; one that repeats is."""

import itertools
import sys
import threading
from collections import deque
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

import autodiff as ad
from autodiff.tape import tier
from codegen import compiler


@pytest.fixture
def clock(monkeypatch):
    """Every look at the clock is a millisecond later; compiling pays after dozens of runs, or at once in a loop."""
    prices = tier._Prices()
    prices.now = itertools.count(0.0, 1e-3).__next__
    prices.seconds_per_operation = 0.3e-3
    monkeypatch.setattr(tier, "prices", prices)
    return prices


def play(w, steps):
    """One episode and its gradient; how many graphs that compiled."""
    before = ad.cache_info().compiles
    w.grad = None
    episode(w, steps).backward()
    return ad.cache_info().compiles - before


def operations_of(w, steps):
    with compiler.recorded() as graphs, patience_of(0):
        ad.clear_cache()
        play(w, steps)
    ad.clear_cache()
    (graph,) = graphs
    return len(graph.nodes)


@contextmanager
def patience_of(count):
    before, ad.config.patience = ad.config.patience, count
    try:
        yield
    finally:
        ad.config.patience = before


@ad.function
def squashed(x):
    """tanh, by a rule of its own: what has rules of the user's is not cut into segments.   f[n] -> f[n]"""


@squashed.forward(ad.Vector)
def _(ctx, x):
    y = ad.tanh(x)
    ctx.save_for_backward(y=y)
    return y


@squashed.backward(ad.Vector)
def _(ctx, g):
    y = ctx.saved_variables.y
    return g * (1 - y * y)


def episode(w, steps):
    """A recurrence of some length: another graph for each."""
    y = w
    for _ in range(steps):
        y = squashed(y * w + 0.5)
    return y.sum()


def gradient_by_hand(w, steps):
    _, dy = ad.jvp(lambda w: episode(w, steps), (w,), (np.ones_like(w),))
    return dy


def test_shapes_that_are_used_once_are_not_compiled(patience, clock):
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    before = ad.cache_info().compiles
    for steps in range(1, 40):
        w.grad = None
        episode(w, steps).backward()
    assert ad.cache_info().compiles == before
    assert np.isclose(w.grad.numpy().sum(), gradient_by_hand(np.array([0.3, 0.7]), 39))


def test_a_shape_that_waited_is_compiled_when_it_is_run_in_a_loop(patience, clock):
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    for steps in range(1, 15):
        episode(w, steps).backward()
    gradients = []
    before = ad.cache_info().compiles
    for _ in range(4):
        w.grad = None
        episode(w, 30).backward()
        gradients.append(w.grad.numpy())
    assert ad.cache_info().compiles - before == 1
    for g in gradients[1:]:
        np.testing.assert_allclose(g, gradients[0], rtol=1e-13)


def test_shapes_that_take_turns_are_a_loop_too(patience, clock):
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    for steps in range(1, 15):
        play(w, steps)
    turns = [[play(w, steps) for steps in (20, 21, 22)] for _ in range(4)]
    assert turns == [[0, 0, 0], [0, 0, 0], [1, 1, 1], [0, 0, 0]]


def test_a_shape_is_compiled_when_evaluating_it_has_cost_as_much(patience, clock):
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    operations = operations_of(w, 3)
    for steps in range(4, 18):
        play(w, steps)
    clock.seconds_per_operation = 3.5e-3 / (operations + clock.OWN)  # as long as three and a half evaluations
    met = iter(range(100, 200))
    compiled = []
    for _ in range(6):
        compiled.append(play(w, 3))
        for _ in range(next(met) % 5 + 1):  # at no two equal distances
            play(w, next(met))
    assert compiled == [0, 0, 0, 0, 1, 0]


def test_where_shapes_are_varied_meeting_one_again_is_no_reason_to_compile_it(patience, clock):
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    rng = np.random.default_rng(0)
    lengths = [*range(1, 41), *rng.permutation(np.arange(1, 41)), *rng.permutation(np.arange(1, 41))]
    assert sum([play(w, steps) for steps in lengths]) <= 2


def test_large_arrays_are_compiled_at_once(patience, monkeypatch):
    monkeypatch.setattr(tier, "prices", tier._Prices())  # not those that other tests' programs have taught
    w = ad.tensor(np.linspace(0.1, 0.9, 1_000_000), requires_grad=True)
    assert [play(w, 3) for _ in range(3)] == [1, 0, 0]


@pytest.mark.parametrize("count", [3, 10_000])
def test_loops_are_compiled_at_once(patience, clock, count):
    w = ad.tensor(0.3, requires_grad=True)
    before = ad.cache_info().compiles
    ad.fori_loop(0, count, lambda i, c: ad.sin(c) * w, w).backward()
    assert ad.cache_info().compiles == before + 1


def test_what_is_learnt_is_what_compiling_costs(patience, clock):
    before = clock.seconds_per_operation = 1e-3
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    for steps in range(1, 8):
        for _ in range(3):
            play(w, steps)
    assert 0 < clock.seconds_per_operation < before  # a millisecond each: less than for each of some hundred operations


def test_a_program_that_was_met_before_a_block_does_not_count_in_it(patience, clock):
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    with ad.max_compiles(1):
        with ad.max_compiles(0):
            play(w, 5)
        with ad.max_compiles(0):
            turns = [play(w, 5) for _ in range(5)]
    assert sum(turns) == 1
    with pytest.raises(ad.Error, match="1 graph was compiled"), ad.max_compiles(0):
        for _ in range(5):
            play(w, 6)
    assert not tier.EARLIER_COMPILES


def test_what_waited_and_is_compiled_is_explained(patience, clock, nothing_to_explain):
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    for steps in range(1, 15):
        play(w, steps)
    nothing_to_explain()
    for _ in range(3):
        play(w, 30)
    found = [miss for miss in ad.explain() if "in a loop" in miss.reason]
    assert [miss.compiles for miss in found] == [1]
    assert "test_tier.py" in found[0].line


def test_an_index_out_of_range_is_refused_also_where_the_graph_waits(patience):
    x = ad.tensor(np.arange(4.0))
    for n in range(1, 14):
        assert ad.take(x, ad.tensor([3] * n)).numpy().shape == (n,)
    with pytest.raises(IndexError):
        ad.take(x, ad.tensor([0, 7] * 20)).numpy()
    assert ad.take(x, ad.tensor([1] * 40)).numpy().tolist() == [1.0] * 40


@pytest.mark.parametrize("wrong", [-1, 65, 0.5, None])
def test_patience_is_a_small_number(wrong):
    with pytest.raises(ValueError, match="from 0 to 64"):
        ad.config.patience = wrong


def test_a_loop_is_not_compiled_where_so_many_runs_would_not_pay_for_it(patience, clock):
    clock.seconds_per_operation = 1e9
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    assert [play(w, 5) for _ in range(12)] == [0] * 12


def test_a_loop_whose_compile_takes_seconds_has_to_pay_for_it_first(patience, clock):
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    price = clock.WAIT_S = 25e-3
    clock.seconds_per_operation = price / (operations_of(w, 5) + clock.OWN)
    compiled = [play(w, 5) for _ in range(40)]
    assert compiled[:25] == [0] * 25 and sum(compiled) == 1
    clock.WAIT_S = 2 * price
    assert [play(w, 6) for _ in range(3)] == [0, 1, 0]


@pytest.mark.parametrize("first", [1e-6, 1e3])
def test_a_price_that_is_wrong_at_first_comes_to_what_compiling_takes(monkeypatch, first):
    prices, now = tier._Prices(), [0.0]
    prices.seconds_per_operation, prices.now = first, lambda: now[0]

    def compiled(graph, _):
        now[0] += 2.0 + 0.02 * len(graph.nodes)

    monkeypatch.setattr(tier, "compiled_in_sight", compiled)
    for count in (10, 3_000, 50, 400) * 12:
        prices.compiled(SimpleNamespace(nodes=range(count)))
    for count in (10, 100, 10_000):
        assert 0.95 < prices.seconds(count) / (2.0 + 0.02 * count) < 1.05


def test_a_tier_of_any_size_takes_over_while_other_threads_run_theirs(monkeypatch):
    """What ran last is looked through while they add to it."""
    one, other = (tier.Tier(1, lambda *_: False, tuple) for _ in range(2))
    monkeypatch.setattr(tier.latest_runs, "ran", deque([None] * 126 + [other], maxlen=128))
    added, interval = threading.Event(), sys.getswitchinterval()

    def run():
        while not added.is_set():
            tier.latest_runs.ran.append(None)

    thread = threading.Thread(target=run)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(1000):
            tier.SizedTier.take_over(one, other)
    finally:
        added.set()
        thread.join()
        sys.setswitchinterval(interval)
