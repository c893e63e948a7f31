"""A repeated training step is answered by machine code: no walk over the graph in Python, one native call."""

import numpy as np
import pytest
from work_done import work

import autodiff as ad
from autodiff.session import plans
from autodiff.tape import known, machine
from codegen.runtime.cache import LRU


@ad.function
def scaled_norm(x, w):
    """Sum of (x @ w)², whose rule reads an intermediate and an input.   f[n,k], f[k,m] -> f[]"""


@scaled_norm.forward(ad.Matrix, ad.Matrix)
def _(ctx, x, w):
    y = x @ w
    z = ad.exp(y - y.max(axis=1, keepdims=True))
    ctx.save_for_backward(x=x, z=z)
    return (z * z).sum()


@scaled_norm.backward(ad.Matrix, ad.Matrix)
def _(ctx, grad_output):
    s = ctx.saved_variables
    return {"x": None, "w": grad_output * (s.x.T @ s.z)}


WORDS = {
    known.VALUE: "value", known.BACKWARD: "backward", known.TENSORS: "tensors", known.SOME: "tensors",
    known.NODES: "value and gradient",
}  # fmt: skip


def answered(monkeypatch):
    """The asks from now on, in order, each with True if machine code answered it."""
    found, asks = [], machine.asks

    class Spied:
        def __getattr__(self, name):
            return getattr(asks, name)

        @staticmethod
        def ask(purpose, *given):
            answer = asks.ask(purpose, *given)
            if not (type(answer) is list and type(answer[0]) is bytes):  # else it asks for keys of calls
                found.append((WORDS[purpose], answer is not None))
            return answer

    monkeypatch.setattr(machine, "asks", Spied())
    return found


@pytest.mark.smoke
def test_a_step_with_a_custom_loss_and_a_running_total_is_one_look_and_one_run(native, monkeypatch):
    rng = np.random.default_rng(0)
    data, w = ad.tensor(rng.normal(size=(12, 3))), ad.tensor(rng.normal(size=(3, 2)), requires_grad=True)
    total = ad.tensor(0.0)

    def step(i):
        nonlocal total
        value = scaled_norm(data[i : i + 4], w)
        value.backward()
        with ad.no_grad():
            w.__isub__(0.01 * w.grad)
            w.grad = None
        total += value.detach()

    for i in range(4):
        step(i)
    found = answered(monkeypatch)
    runs = work().runs
    for i in range(4, 8):
        step(i)
    assert found == [("backward", True)] * 4
    assert work().runs - runs == 4


def test_a_running_total_is_computed_along_with_the_next_step():
    x = ad.tensor(np.ones(3), requires_grad=True)
    total = ad.tensor(0.0)
    for _ in range(5):
        loss = (x * x).sum()
        loss.backward()
        total += loss.detach()
    runs = work().runs
    loss = (x * x).sum()
    loss.backward()
    assert work().runs - runs == 1
    assert total.item() == 15.0
    assert work().runs - runs == 1


def test_episodes_of_many_lengths_are_each_answered_by_their_plan(native, monkeypatch):
    w = ad.tensor([0.3, 0.7], requires_grad=True)

    def play(length):
        total = 0.0
        for i in range(length):
            total = total + ad.sin(w * (0.5 + i)).sum()
        total.backward()
        gradient, w.grad = w.grad.numpy(), None
        return gradient

    def by_hand(length):
        steps = 0.5 + np.arange(length)[:, None]
        return (steps * np.cos(w.detach().numpy() * steps)).sum(axis=0)

    lengths = (3, 9, 5, 12, 7, 4, 10, 6)  # more than are tried one after the other
    for _ in range(5):
        for length in lengths:
            play(length)
    found = answered(monkeypatch)
    for length in (*lengths, *lengths[::-1]):
        np.testing.assert_allclose(play(length), by_hand(length), rtol=1e-12)
    assert [is_known for purpose, is_known in found if purpose == "backward"][1:] == [True] * 15


def test_an_episode_between_others_of_its_length_is_told_from_them(way):
    x = ad.tensor([0.3, 0.7], requires_grad=True)

    def play(f, length):
        y = x
        for _ in range(length):
            y = f(y) * 0.5
        y.sum().backward()
        gradient, x.grad = x.grad.numpy(), None
        return gradient

    programs = [(f, n) for n in (3, 4, 5, 6, 7) for f in (ad.sin, ad.cos, ad.tanh)]
    first = [play(f, n) for f, n in programs]
    for _ in range(5):
        for (f, n), expected in zip(programs, first, strict=True):
            np.testing.assert_allclose(play(f, n), expected, rtol=1e-14)


def test_updates_that_an_ask_left_pending_are_evaluated_together():
    rng = np.random.default_rng(0)
    data = ad.tensor(rng.normal(size=(30, 20)))
    leaves = [ad.tensor(rng.normal(size=s), requires_grad=True) for s in ((20, 70), (70,), (70, 3))]
    runs = []
    for step in range(9):
        before = work().runs
        w, b, v = leaves
        loss = (ad.tanh(data @ w + b) @ v).sum()
        loss.backward()
        with ad.no_grad():
            for t in leaves:
                t -= 0.01 * t.grad
                t.grad = None
        if step in (3, 6):
            assert float(loss.detach() * 2) == 2 * float(loss.detach())
        runs.append(work().runs - before)
    # The print is a run of its own, and so are, once, the updates at the next step.
    assert runs == [1, 1, 1, 2, 2, 1, 2, 2, 1]


def test_loops_of_many_lengths_have_a_plan_for_each(native, monkeypatch):
    w = ad.tensor(np.full(70, 0.5), requires_grad=True)

    def episode(steps):
        w.grad = None
        y = w
        for _ in range(steps):
            y = ad.tanh(y * w)
        y.sum().backward()

    for _ in range(3):
        for steps in range(2, 14):
            episode(steps)
    found = answered(monkeypatch)
    for steps in np.random.default_rng(0).integers(2, 14, size=30):
        episode(steps)
    assert found == [("backward", True)] * 30


def test_episodes_of_several_lengths_that_ask_at_each_step_each_have_a_plan(native):
    w = ad.tensor([0.3, 0.7], requires_grad=True)

    def play(steps):
        total = 0.0
        for _ in range(steps):
            z = (w * 0.5).sum()
            total = total + ad.exp(z if float(z) > 0 else -z)
        total.backward()
        gradient, w.grad = w.grad.numpy(), None
        return gradient

    lengths = range(3, 13)  # more than are tried one after the other
    for _ in range(3):
        for steps in lengths:
            play(steps)
    looked_up = []
    get = LRU.get
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LRU, "get", lambda self, key, *rest: looked_up.append(self) or get(self, key, *rest))
        for steps in reversed(lengths):
            np.testing.assert_allclose(play(steps), np.full(2, 0.5 * steps * np.exp(0.5)), rtol=1e-13)
    assert not any([table is plans for table in looked_up])


def test_one_program_that_is_asked_for_in_two_ways_is_known_in_each(native, monkeypatch):
    """The plan is one: `backward` makes it, and `value_and_grad` finds it."""
    a = np.linspace(0.1, 0.9, 5)

    def loss(x):
        return ad.sum(ad.sin(x) * ad.exp(x))

    def backward():
        x = ad.tensor(a, requires_grad=True)
        loss(x).backward()
        return x.grad.numpy()

    both = ad.value_and_grad(loss)
    for _ in range(4):
        backward()
    for _ in range(4):
        both(a)
    found = answered(monkeypatch)
    np.testing.assert_array_equal(both(a)[1], backward())
    assert [is_known for _, is_known in found] == [True, True]


def test_a_recording_of_thousands_of_nodes_is_answered_by_machine_code_too(native, monkeypatch):
    def loss(x):
        y = x
        for _ in range(1300):
            y = (y + x) * 0.5
        return ad.sum(ad.sin(y))

    both, a = ad.value_and_grad(loss), np.array([0.2, 0.7])
    monkeypatch.setattr("autodiff.transforms.gradient.in_parts", lambda *_: None)  # as if the steps were not alike
    for _ in range(6):
        both(a)
    found = answered(monkeypatch)
    np.testing.assert_allclose(both(a)[1], np.cos(a), rtol=1e-12)
    assert found == [("value and gradient", True)]
