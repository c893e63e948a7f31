"""A known ask is answered natively as Python answers it: see `codegen.runtime.recording_keys`."""

import sys
import threading

import numpy as np
import pytest
from asked_steps import steps
from spied import tell_of_exact_keys, uncompared

import autodiff as ad


def test_without_gradients_other_answers_are_kept(way):
    w = ad.tensor(np.ones(3), requires_grad=True)
    for i in range(12):
        z = ad.sum(w * float(i))
        assert float(z) == 3.0 * i and z.requires_grad
        with ad.no_grad():
            z = ad.sum(w * float(i))
            assert float(z) == 3.0 * i and not z.requires_grad and not z.node.inputs


def test_any_number_of_live_results(way):
    for i in range(6):
        x = ad.tensor(np.full(4, float(i)))
        metrics = [ad.sum(x) * float(k) for k in range(40)]
        assert float(ad.sum(x) + 1.0) == 4.0 * i + 1.0
        assert [float(m) for m in metrics] == [4.0 * i * k for k in range(40)]


def test_other_recordings_that_end_alike_are_told_apart(way):
    functions = [lambda x: x, lambda x: x * 2.0, lambda x: np.exp(x * 0.1), lambda x: x + x, lambda x: x * x,
                 lambda x: x - 1.0, lambda x: -x]  # fmt: skip
    for i in range(30):
        v, f = np.full(4, float(i)), functions[i % 7]
        np.testing.assert_allclose(float(ad.sum(f(ad.tensor(v)))), f(v).sum())


def test_an_index_out_of_range_says_where_it_was_asked_for(way):
    x, w = ad.tensor(np.arange(4.0)), ad.tensor(np.ones(2), requires_grad=True)
    for i in range(10):
        places = ad.tensor(np.array([0, 9 if i > 5 else i % 4])) + 0
        beside = ad.sum(w * 2.0)
        z = ad.sum(ad.take(x, places) * w)
        if i > 5:
            with pytest.raises(IndexError, match=r"out of range(.|\n)*test_native_answers.py"):
                float(z)
            assert z.node.value is None and beside.node.value is None
        else:
            assert float(z) == i % 4
        z = ad.sum(ad.take(x, ad.tensor(np.array([1, 2])) + 0) * w)
        assert float(z) == 3.0


def test_answers_go_with_the_cache(way):
    for _ in range(2):
        assert steps(float)[0] == steps(float)[0]
        ad.clear_cache()


def test_a_method_that_is_defined_later_counts(way):
    f = ad.function(lambda x: x * 2.0)
    x = ad.tensor(np.ones(3))
    for _ in range(6):
        assert float(ad.sum(f(x))) == 6.0
    f.method(ad.Vector)(lambda x: x * 3.0)
    for _ in range(3):
        assert float(ad.sum(f(x))) == 9.0


@uncompared
def test_threads_that_share_what_is_asked_for(way):
    w = ad.tensor(np.linspace(0.0, 1.0, 7), requires_grad=True)
    wrong = []

    def ask_all(shared, barrier):
        barrier.wait()
        wrong.extend([z for z, v in shared if abs(float(z) - v) > 1e-12])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(30):
            shared = [(ad.sum(w * float(k)) + ad.sum(ad.exp(w)), 3.5 * k + np.exp(np.linspace(0, 1, 7)).sum())
                      for k in range(20)]  # fmt: skip
            barrier = threading.Barrier(3)
            threads = [threading.Thread(target=ask_all, args=(shared, barrier)) for _ in range(3)]
            [t.start() for t in threads]
            [t.join() for t in threads]
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


@uncompared
@pytest.mark.usefixtures("native")
def test_steps_of_several_sorts_are_each_answered_by_a_check(monkeypatch):
    terms = [lambda y: ad.log1p(ad.exp(-y)), lambda y: 0.5 * y * y + y, ad.tanh, ad.sin, lambda y: y * y]
    w, v = ad.tensor(np.eye(3) / 2, requires_grad=True), ad.tensor(np.ones(3), requires_grad=True)
    looked = []
    tell_of_exact_keys(monkeypatch, lambda: looked.append(True))

    def play(seed, length):
        rng = np.random.default_rng(seed)
        loss = 0.0
        for _ in range(length):
            y = v @ ad.tanh(w @ ad.tensor(rng.normal(size=3)))
            assert np.isfinite(y.item())
            loss = loss + terms[rng.integers(len(terms))](y)

    for seed in range(40):
        play(seed, 20)
    looked.clear()
    for seed in range(20):
        play(seed, 40)
    assert not looked  # an exact key of one of 800 asks
