"""Answers of machine code to what is asked for: from when on, what else is computed, what is counted."""

import sys

import numpy as np
import pytest
from asked_steps import steps
from work_done import work

import autodiff as ad
from autodiff.tape import ask
from autodiff.tape.record import state


@pytest.fixture
def by_python(monkeypatch):
    """The times that Python looked for a plan."""
    found = []
    planned = ask.Question.known

    def noted(*given):
        found.append(given)
        return planned(*given)

    monkeypatch.setattr(ask.Question, "known", noted)
    return found


READS = {
    "float": float, "item": lambda z: z.item(), "bool": bool, "if": lambda z: 1 if z > 0.4 else 0,
    "numpy": lambda z: z.detach().numpy().tolist(), "array": lambda z: np.asarray(z.detach()).tolist(),
    "int": int, "format": lambda z: f"{z:.6f}", "list": lambda z: z.tolist(),
}  # fmt: skip


@pytest.mark.parametrize("read", READS)
def test_what_is_read_in_a_loop_is_right(way, read, by_python):
    z = [np.linspace(-1.0, 1.0, 5).sum() * (0.1 * i + 1.0) + 0.5 for i in range(12)]
    expected = [READS[read](ad.tensor(v)) for v in z]
    for _ in range(4):
        by_python.clear()
        found, gradient = steps(READS[read])
        assert found == expected
        np.testing.assert_allclose(gradient, np.full(5, sum(np.exp(v) * (0.1 * i + 1.0) for i, v in enumerate(z))))
    if way == "native":
        assert not by_python  # not once in the last round
    else:
        assert by_python


def test_what_is_alive_is_computed_along(way):
    for i in range(10):
        x = ad.tensor(np.full(4, float(i)))
        metric = ad.sum(x * x)
        loss = ad.sum(x) + 1.0
        ad.sum(x * 3.0)  # nobody has this one
        assert float(loss) == 4.0 * i + 1.0
        assert metric.node.value is not None and float(metric) == 4.0 * i * i
        assert state.now.small == []


def test_asks_are_counted(way):
    steps(float)
    steps(float)
    before, asked = (ad.cache_info().hits, work().runs), state.now.asked
    steps(float)
    assert (ad.cache_info().hits - before[0], work().runs - before[1]) == (13, 13)  # with the backward
    assert state.now.asked - asked == 26  # the gradient is read, too


def test_eagerly_nothing_is_answered(way, monkeypatch):
    steps(float)
    steps(float)
    by_python, evaluate = [], ask._evaluate_by_reference
    monkeypatch.setattr(ask, "_evaluate_by_reference", lambda roots: by_python.append(roots) or evaluate(roots))
    ad.config.eager = True
    try:
        found, _ = steps(float, count=3)
    finally:
        ad.config.eager = False
    assert len(by_python) >= 3
    np.testing.assert_allclose(found, [0.5] * 3)


def test_no_array_or_node_is_left_behind(way):
    steps(float), steps(float)
    w = ad.tensor(np.ones(5), requires_grad=True)
    steps(float, w=w)
    z = ad.sum(w * 2.0)
    float(z)
    values = [sys.getrefcount(o) for o in (w.node, w.node.value, w.node.kind, state.now)]
    for _ in range(50):
        z = ad.sum(w * 2.0)
        float(z)
    assert [sys.getrefcount(o) for o in (w.node, w.node.value, w.node.kind, state.now)] == values


