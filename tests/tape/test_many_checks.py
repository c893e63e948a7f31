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
