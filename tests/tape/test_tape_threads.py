"""Threads may share pending graphs and leaves: each gets right values, and no gradient is lost."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from spied import uncompared

import autodiff as ad
from autodiff.ops import recorder
from autodiff.session import plans
from autodiff.tape import ask, plan
from autodiff.tape.ask import still_true
from autodiff.tape.node import released
from autodiff.tape.plan import answer_computing, set_value
from autodiff.tape.walk import needed, structure

PROGRAM = Path(__file__).parent / "threads_program.py"


@uncompared
@pytest.mark.parametrize("how", ["native", "python"])
@pytest.mark.parametrize("what", ["values", "gradients", "random_asks"])
def test_threads_that_ask_at_once_get_what_they_would_alone(what, how, sharing):
    command = [sys.executable, PROGRAM, what, how]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, env=sharing)
    assert (said.returncode, said.stdout, said.stderr) == (0, "0 mistakes\n", "")


def test_one_thread_attaches_to_the_recorder_at_a_time(monkeypatch):
    inside, most = [], []

    class Slow:
        def attach(self, recording):
            inside.append(recording)
            time.sleep(0.01)
            most.append(len(inside))
            inside.pop()

        def detach(self):
            self.attach(None)

    monkeypatch.setattr(recorder._installed, "recorder", Slow())
    monkeypatch.setattr(recorder._installed, "here", (None, 0))
    threads = [threading.Thread(target=work) for work in [recorder._attach, recorder._moved] * 3]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert most == [1] * 6


def test_a_sum_that_is_left_to_the_commit_is_there_at_once():
    """So that no two threads go through one pending sum: both would evaluate it."""
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda g: g)
    for _ in range(2):
        (x * 3.0).sum().backward()
    assert x.grad.node.value is not None
    assert x.grad.numpy().tolist() == [6.0, 6.0]


def described(y):
    order = needed([y.node])
    parts, number, order = structure(order, [y.node])
    return order, parts, number


def pending():
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    s = ad.sin(x)
    return s, s * s


def test_a_description_is_true_until_a_node_gets_its_value():
    s, y = pending()
    order, parts, _ = described(y)
    assert still_true(parts, order)
    set_value(s.node, np.zeros(2))
    assert not still_true(parts, order)


def test_a_description_is_true_until_its_history_is_released():
    s, y = pending()
    y.detach().numpy()
    past = frozenset(n for n in (s.node, y.node))
    order = needed([y.node], past)
    parts, _, order = structure(order, [y.node], past)
    assert still_true(parts, order)
    s.node.kind = released(s.node.kind)
    assert not still_true(parts, order)


def test_a_value_that_another_thread_gave_stays():
    s, _ = pending()
    first, second = np.zeros(2), np.ones(2)
    set_value(s.node, first)
    set_value(s.node, second)
    assert s.node.value is first


def test_a_program_without_an_operation_is_not_run(monkeypatch):
    """Another thread evaluates all that is asked for while the program is written."""
    data = np.linspace(0.0, 1.0, 5000)  # too large to be computed along with something else, and asked for again
    value, told = ad.exp(ad.tensor(data, requires_grad=True)).detach(), plan._program_with_origins

    def meanwhile(wanted, *rest):
        for node in wanted:
            set_value(node, np.exp(data))
        return told(wanted, *rest)

    monkeypatch.setattr(plan, "_program_with_origins", meanwhile)
    ad.clear_cache()
    assert np.array_equal(value.numpy(), np.exp(data))


def test_no_plan_is_kept_of_what_changed_while_it_was_looked_at(monkeypatch):
    s, y = pending()
    value = y.detach()

    def meanwhile(roots, number):
        found = answer_computing(roots, number)
        set_value(s.node, np.sin([1.0, 2.0]))
        return found

    monkeypatch.setattr(ask, "answer_computing", meanwhile)
    ad.clear_cache()
    assert value.numpy().tolist() == (np.sin([1.0, 2.0]) ** 2).tolist()
    assert len(plans) == 0
