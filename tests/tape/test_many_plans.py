"""Recordings of many sizes are each answered by a plan of their own, found by its key: see `autodiff.tape.known`."""

import threading

import numpy as np
import pytest

import autodiff as ad
from autodiff import session
from autodiff.tape import families, machine

RNG = np.random.default_rng(3)


@pytest.fixture
def accepted(monkeypatch, native):
    """True for each ask that machine code answered, in order."""
    said, asks = [], machine.asks

    class Spied:
        def __getattr__(self, name):
            return getattr(asks, name)

        @staticmethod
        def ask(*given):
            found = asks.ask(*given)
            said.append(found is not None)
            return found

    ad.clear_cache()
    monkeypatch.setattr(machine, "asks", Spied())
    return said


def gradient_of_rows(w, n):
    x = RNG.normal(size=(n, 3))
    w.grad = None
    ad.mean(ad.tanh(ad.tensor(x) @ w) ** 2).backward()
    y = np.tanh(x @ w.detach().numpy())
    np.testing.assert_allclose(w.grad.numpy(), 2 * x.T @ (y * (1 - y * y)) / y.size, rtol=1e-12, atol=1e-15)


def test_each_of_many_batch_sizes_has_its_plan(accepted):
    w = ad.tensor(RNG.normal(size=(3, 2)), requires_grad=True)
    sizes = range(40, 52)
    for _ in range(4):
        for n in sizes:
            gradient_of_rows(w, n)
    accepted.clear()
    for n in RNG.permutation(np.repeat(sizes, 3)):
        gradient_of_rows(w, int(n))
    assert accepted and all(accepted)


def test_a_value_at_many_sizes_has_its_plans(accepted):
    w = ad.tensor(RNG.normal(size=(3, 2)))

    def value(n):
        x = RNG.normal(size=(n, 3))
        got = float(ad.mean(ad.tanh(ad.tensor(x) @ w) ** 2))
        np.testing.assert_allclose(got, np.mean(np.tanh(x @ w.numpy()) ** 2), rtol=1e-12)

    for _ in range(4):
        for n in range(40, 52):
            value(n)
    accepted.clear()
    for n in RNG.permutation(np.repeat(range(40, 52), 3)):
        value(int(n))
    assert all(accepted)  # what a native answer knows is not even asked


def test_what_a_full_table_forgot_is_learnt_again(accepted, monkeypatch):
    monkeypatch.setattr(session.plans, "maxsize", 6)
    w = ad.tensor(RNG.normal(size=(3, 2)), requires_grad=True)
    roots = [ad.exp, ad.sin, ad.cos, ad.tanh, ad.expm1]

    def run(k):
        w.grad = None
        y = w[0, 0]
        for _ in range(k):
            y = y * 1.0
        roots[k](y).backward()

    for k in range(5):
        for _ in range(4):
            run(k)
    assert len(session.plans) <= 6
    accepted.clear()
    for _ in range(4):
        run(0)
    assert not accepted[0] and accepted[-1]


def test_what_is_used_again_and_again_is_not_forgotten(accepted, monkeypatch):
    monkeypatch.setattr(session.plans, "maxsize", 6)
    w = ad.tensor(RNG.normal(size=(3, 2)), requires_grad=True)
    for n in range(1, 15):
        gradient_of_rows(w, 40)
        gradient_of_rows(w, n)
        gradient_of_rows(w, 40)
    accepted.clear()
    gradient_of_rows(w, 40)
    assert accepted == [True]


ASKED = {
    "a list of tensors": lambda y, x, w, seed: ad.grad(y.sum(), [x, w]),
    "with a cotangent": lambda y, x, w, seed: ad.grad(y, [x, w], grad_outputs=seed),
    "with an array": lambda y, x, w, seed: ad.grad(y, [x, w], grad_outputs=seed.numpy()),
    "backward": lambda y, x, w, seed: y.sum().backward(),
    "backward from a cotangent": lambda y, x, w, seed: y.backward(seed),
    "backward from an array": lambda y, x, w, seed: y.backward(seed.numpy().copy()),
    "backward of several": lambda y, x, w, seed: ad.backward([y.sum(), (x * 1.0).sum()]),
    "backward of several from some": lambda y, x, w, seed: ad.backward([y, (x * 1.0).sum()], [seed, None]),
}


@pytest.mark.parametrize("name", ASKED)
def test_gradients_asked_for_again_in_the_same_way_are_answered_by_machine_code(accepted, name):
    w = ad.tensor(RNG.normal(size=(4, 3)), requires_grad=True)
    for step in range(6):
        accepted.clear()
        x = ad.tensor(RNG.normal(size=(3, 2)), requires_grad=True)
        seed = ad.tensor(RNG.normal(size=(4, 2)))
        w.grad = None
        y = ad.tanh(w @ x) ** 2
        found = ASKED[name](y, x, w, seed)
        by_x, by_w = (x.grad, w.grad) if found is None else found
        t = np.tanh(w.detach().numpy() @ x.detach().numpy())
        bar = 2 * t * (1 - t * t) * (seed.numpy() if "from" in name or "with" in name else 1.0)
        extra = 1.0 if "several" in name else 0.0
        np.testing.assert_allclose(by_x.numpy(), w.detach().numpy().T @ bar + extra, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(by_w.numpy(), bar @ x.detach().numpy().T, rtol=1e-12, atol=1e-14)
        assert not np.shares_memory(by_x.numpy(), seed.numpy())
        if step > 3:
            assert accepted == [True]
        with pytest.raises(ad.GradientError, match="second backward"):
            ASKED[name](y, x, w, seed)


def test_a_cotangent_of_another_kind_is_another_question(accepted):
    x = ad.tensor(RNG.normal(size=3), requires_grad=True)
    for _ in range(5):
        for seed in (ad.tensor(np.ones(3)), ad.tensor(np.zeros(3)), x.detach(), ad.tensor(np.ones(3)) * 2.0):
            value = np.array(seed)
            (by_x,) = ad.grad(x * x, [x], grad_outputs=seed)
            np.testing.assert_array_equal(by_x.numpy(), 2 * x.detach().numpy() * value)
            x.grad = None
            (x * x).backward(seed)
            np.testing.assert_array_equal(x.grad.numpy(), 2 * x.detach().numpy() * value)
            (x * x).backward(x.grad)
            np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy() * value * (1 + 2 * x.detach().numpy()))
            for wrong in (ad.tensor(np.ones(2)), np.ones(3, np.float32)):
                with pytest.raises(ad.Error):
                    (x * x).backward(wrong)
                with pytest.raises(ad.Error):
                    ad.grad(x * x, [x], grad_outputs=wrong)


def test_only_sizes_that_come_again_get_plans_of_their_own(native, patience):
    """Data that grows by a row at each step, and a leaf of another shape for each pass over it."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(140, 12)), rng.normal(size=140)

    def slopes(rows, columns):
        w = rng.normal(size=(columns, 5))
        a, b = ad.tensor(w, requires_grad=True), ad.tensor(np.ones(5), requires_grad=True)
        apart = ad.tanh(ad.tensor(x[:rows, :columns]) @ a) @ b - y[:rows]
        (apart * apart).mean().backward()
        h = np.tanh(x[:rows, :columns] @ w)
        bar = (h.sum(axis=1) - y[:rows]) * (2 / rows)
        np.testing.assert_allclose(a.grad.numpy(), x[:rows, :columns].T @ (bar[:, None] * (1 - h * h)), atol=1e-12)
        np.testing.assert_allclose(b.grad.numpy(), h.T @ bar, atol=1e-12)
        assert a.grad.shape == (columns, 5)

    def plans_after(columns):
        for rows in range(20, 140):
            slopes(rows, columns)
        return len(session.plans)

    ad.clear_cache()
    new = [plans_after(columns) for columns in (7, 8, 9)]
    assert new[0] < 100 and new[2] - new[0] < 20, "plans are kept of sizes that are new"
    again = [plans_after(9) for _ in range(2)]
    assert again[0] - new[2] >= 100, "sizes that came again have none"
    assert again[1] == again[0]


def test_a_thread_that_comes_meanwhile_with_another_size_changes_no_answer(native, patience, monkeypatch):
    data = np.random.default_rng(3).uniform(0.1, 1, size=400)

    def slope(rows):
        w = ad.tensor(1.5, requires_grad=True)
        ad.log1p(ad.tensor(data[:rows]) * w).sum().backward()
        np.testing.assert_allclose(w.grad.numpy(), (data[:rows] / (1 + data[:rows] * 1.5)).sum())

    class Meanwhile:
        """Tables in which another thread looks something up before this one goes on."""

        rows = 0

        def __getattr__(self, name):
            return getattr(session.plans, name)

        def put(self, key, value):
            session.plans.put(key, value)
            rows, self.rows = self.rows, 0
            if rows:
                other.append(threading.Thread(target=slope, args=(rows,)))
                other[-1].start()
                other[-1].join()

    other = []
    ad.clear_cache()
    for rows in range(20, 30):
        slope(rows)
    plans = Meanwhile()
    monkeypatch.setattr(families, "plans", plans)
    for rows in range(30, 40):
        plans.rows = 100 + rows
        slope(rows)
        slope(rows)
    assert other, "no size was answered by a plan of its own"
