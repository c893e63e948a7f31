"""Programs of what rules recorded: made once, put down by machine code or by Python, and forgotten."""

import numpy as np
import pytest
from known_derivatives import VS, WAYS, A, B

import autodiff as ad
from autodiff.ops import recorder
from autodiff.transforms import forward, reverse


@pytest.mark.parametrize("way", WAYS)
def test_no_rule_runs_for_what_is_known(way, monkeypatch):
    run, _ = WAYS[way]
    for _ in range(4):
        known = run(A)
    monkeypatch.setattr(reverse, "pulled_by_rule", pytest.fail)
    monkeypatch.setattr(forward, "_tangent_by_rule", None)
    np.testing.assert_array_equal(run(A), known)


def test_python_puts_down_the_same_where_nothing_does_it_natively():
    def f(x):
        return (ad.sin(x) ** 3 * 1.25).sum()

    recorder.uninstall()
    try:
        for _ in range(4):
            found = ad.hvp(f, A, B)
    finally:
        recorder.install()
    s, c = np.sin(A), np.cos(A)
    np.testing.assert_allclose(found, 1.25 * (6 * s * c * c - 3 * s**3) * B, rtol=1e-12, atol=1e-12)


def test_what_was_forgotten_is_recorded_again():
    def f(x):
        return (ad.cos(x) * ad.exp(-x)).sum()

    for _ in range(4):
        known = ad.hvp(f, A, B)
    ad.clear_cache()
    for _ in range(3):
        np.testing.assert_allclose(ad.hvp(f, A, B), known, rtol=1e-13)


def test_a_hessian_runs_no_rule_when_it_is_known(monkeypatch):
    def f(x):
        return (ad.exp(x) * x[::-1]).sum()

    def expected(x):
        cross = np.diag(np.exp(x))[::-1]
        return np.diag(np.exp(x) * x[::-1]) + cross + cross.T

    for k in range(4):
        x = np.linspace(0, 1, 5) + k
        np.testing.assert_allclose(ad.hessian(f)(x), expected(x), rtol=1e-12)
    monkeypatch.setattr(reverse, "pulled_by_rule", pytest.fail)
    np.testing.assert_allclose(ad.hessian(f)(-x), expected(-x), rtol=1e-12)


def test_the_gradient_of_each_example_runs_no_rule_when_it_is_known(monkeypatch):
    def f(x):
        return (ad.exp(x) * x * x).sum()

    for _ in range(5):
        known = ad.vmap(ad.grad(f))(VS)
    np.testing.assert_allclose(known, np.exp(VS) * (VS * VS + 2 * VS), rtol=1e-13)
    monkeypatch.setattr(reverse, "pulled_by_rule", pytest.fail)
    np.testing.assert_allclose(ad.vmap(ad.grad(f))(-VS), np.exp(-VS) * (VS * VS - 2 * VS), rtol=1e-13)
