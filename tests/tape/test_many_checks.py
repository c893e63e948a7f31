"""Recordings of many sizes are each answered by a check of their own: see `autodiff.tape.check`."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.tape import check
from autodiff.tape.check import checks

RNG = np.random.default_rng(3)


@pytest.fixture
def accepted(monkeypatch, way):
    """What the checks said of each recording, in order."""
    said = []
    find = check.Checks.find

    def spied(self, *arguments):
        found = find(self, *arguments)
        said.append(found is not None)
        return found

    monkeypatch.setattr(check.Checks, "find", spied)
    return said


def gradient_of_rows(w, n):
    x = RNG.normal(size=(n, 3))
    w.grad = None
    ad.mean(ad.tanh(ad.tensor(x) @ w) ** 2).backward()
    y = np.tanh(x @ w.detach().numpy())
    np.testing.assert_allclose(w.grad.numpy(), 2 * x.T @ (y * (1 - y * y)) / y.size, rtol=1e-12, atol=1e-15)


def test_each_of_many_batch_sizes_has_its_check(accepted):
    w = ad.tensor(RNG.normal(size=(3, 2)), requires_grad=True)
    sizes = range(40, 52)
    assert len(sizes) > check.PER_KEY
    for _ in range(4):
        for n in sizes:
            gradient_of_rows(w, n)
    accepted.clear()
    for n in RNG.permutation(np.repeat(sizes, 3)):
        gradient_of_rows(w, int(n))
    assert accepted and all(accepted)


def test_a_value_at_many_sizes_has_its_checks(accepted):
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


@pytest.mark.parametrize("limit", ["KEYS", "LENGTHS"])
def test_what_a_full_table_forgot_gets_a_check_again(accepted, monkeypatch, limit):
    monkeypatch.setattr(check, limit, 3)
    w = ad.tensor(RNG.normal(size=(3, 2)), requires_grad=True)
    roots = [ad.exp, ad.sin, ad.cos, ad.tanh, ad.expm1] if limit == "KEYS" else [ad.exp] * 5

    def run(k):
        w.grad = None
        y = w[0, 0]
        for _ in range(k):
            y = y * 1.0
        roots[k](y).backward()

    for k in range(5):
        for _ in range(4):
            run(k)
    assert len(checks._found) <= 3
    for _ in range(3):
        run(0)
    accepted.clear()
    run(0)
    run(0)
    assert accepted == [True, True]


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
def test_gradients_asked_for_again_in_the_same_way_are_answered_by_a_check(accepted, name):
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


def test_a_size_that_was_never_met_is_compared_with_no_check_but_that_of_its_length(accepted):
    w = ad.tensor(RNG.normal(size=(3, 2)), requires_grad=True)
    for _ in range(4):
        for n in range(40, 48):
            gradient_of_rows(w, n)
    compared = []
    known = [c for tried in checks._found.values() for c in tried.of_plan.values()]
    assert len(known) >= check.PER_KEY
    for one in known:
        one.accepts = lambda *given, accepts=one.accepts: compared.append(1) or accepts(*given)
    accepted.clear()
    gradient_of_rows(w, 77)
    assert len(compared) <= len(accepted) and not any(accepted)
    gradient_of_rows(w, 41)
    assert accepted[-1]
