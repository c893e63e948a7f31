"""Gradients of tensors that are known: by a check, whatever was asked for first."""

import numpy as np
import pytest
from exact_keys import IS_COMPARED
from spied import tell_of_exact_keys

import autodiff as ad

A, B = np.array([0.3, -1.2, 2.0]), np.array([1.5, 0.4, -0.7])


def leaves():
    return ad.tensor(A, requires_grad=True), ad.tensor(B, requires_grad=True)


def result(a, b):
    return ad.sum(ad.sin(a) * b * b)


EXPECTED = {"a": np.cos(A) * B**2, "b": 2 * B * np.sin(A)}


@pytest.fixture
def keyless(native, monkeypatch):
    """From its call on no exact key of a recording is made: what is asked for must be found by machine code."""
    if IS_COMPARED:
        pytest.skip("exact keys are made here, to be compared")

    def refuse():
        raise AssertionError("an exact key was made of a known recording")

    return lambda: tell_of_exact_keys(monkeypatch, refuse)


@pytest.mark.parametrize("holds_gradients", [False, True])
def test_gradients_of_tensors_are_found_by_machine_code(keyless, holds_gradients):
    ad.clear_cache()  # else the gradients would be known from the other case
    a, b = leaves()
    for k in range(8):
        if k == 4:
            keyless()
        if holds_gradients:
            a.grad = ad.tensor(A * k)
        y = result(a, b)
        of_b, of_a = ad.grad(y, [b, a])
        np.testing.assert_allclose(of_a, EXPECTED["a"])
        np.testing.assert_allclose(of_b, EXPECTED["b"])
        with pytest.raises(ad.GradientError, match="second backward"):
            ad.grad(y, [b, a])
    assert (a.grad is not None) is holds_gradients and b.grad is None


def test_targets_in_another_order_get_their_own_gradients():
    a, b = leaves()
    for k in range(12):
        names = ("ab", "ba")[k % 2]
        found = ad.grad(result(a, b), {n: {"a": a, "b": b}[n] for n in names})
        for name in names:
            np.testing.assert_allclose(found[name], EXPECTED[name])


def test_an_intermediate_and_what_it_is_made_of_are_targets_again_and_again():
    a, _ = leaves()
    for _ in range(6):
        h = ad.exp(a)
        of_h, of_a = ad.grad(ad.sum(h * h), [h, a])
        np.testing.assert_allclose(of_h, 2 * np.exp(A))
        np.testing.assert_allclose(of_a, 2 * np.exp(2 * A))
        h = ad.exp(a)
        y = ad.sum(h * h)
        np.testing.assert_allclose(ad.grad(y, h), 2 * np.exp(A))
        np.testing.assert_allclose(h.detach(), np.exp(A))


@pytest.mark.parametrize("first", ["grad", "backward"])
def test_what_one_way_to_ask_has_compiled_is_found_by_a_check_of_the_other(keyless, first):
    a, b = leaves()

    def by_grad():
        return ad.grad(result(a, b), [a, b])

    def by_backward():
        a.grad = b.grad = None
        result(a, b).backward()
        return a.grad, b.grad

    ways = [by_grad, by_backward] if first == "grad" else [by_backward, by_grad]
    for way in ways:
        for _ in range(4):
            way()
    keyless()
    for way in ways:
        for found, name in zip(way(), "ab", strict=True):
            np.testing.assert_allclose(found, EXPECTED[name])


def test_a_pullback_of_a_known_function_is_found_by_a_check(keyless):
    def f(a, b):
        return ad.sin(a) * b, ad.sum(b * b)

    bars = [np.array([1.0, 2.0, -1.0]), np.array([0.5, 0.0, 3.0])]
    for k in range(8):
        if k == 4:
            keyless()
        (y, z), pullback = ad.vjp(f, A + k, B)
        np.testing.assert_allclose(y, np.sin(A + k) * B)
        np.testing.assert_allclose(z, np.sum(B * B))
        for bar, scale in zip(bars, (2.0, -1.0), strict=True):
            of_a, of_b = pullback((bar, scale))
            np.testing.assert_allclose(of_a, bar * np.cos(A + k) * B)
            np.testing.assert_allclose(of_b, bar * np.sin(A + k) + 2 * scale * B)


def test_what_is_known_is_looked_at_all_the_same_where_anomalies_are_looked_for():
    def root(x):
        return ad.sum(ad.sqrt(x))

    for _ in range(4):
        ad.grad(root)(np.array([1.0, 4.0]))
        ad.vjp(root, np.array([1.0, 4.0]))[1](1.0)
    with np.errstate(all="ignore"), ad.detect_anomaly():
        with pytest.raises(ad.GradientError):
            ad.grad(root)(np.array([0.0, np.nan]))
        with pytest.raises(ad.GradientError):
            ad.vjp(root, np.array([0.0, np.nan]))[1](1.0)


def test_the_rest_of_a_graph_stands_behind_gradients_of_an_intermediate_that_a_check_found(keyless):
    a, _ = leaves()
    for k in range(6):
        h = ad.sin(a)
        y = ad.sum(h * h)
        if k == 4:
            keyless()
        np.testing.assert_allclose(ad.grad(y, h), 2 * np.sin(A))
        with pytest.raises(ad.GradientError, match="second backward"):
            ad.grad(y, h)
        np.testing.assert_allclose(ad.grad(ad.sum(h), a), np.cos(A))


def test_a_graph_that_is_retained_and_several_results_are_found_by_machine_code(keyless):
    a, b = leaves()
    for k in range(6):
        h = ad.sin(a) * b
        y, z = ad.sum(h), ad.sum(h * h)
        if k == 4:
            keyless()
        np.testing.assert_allclose(ad.grad(y, b, retain_graph=True), np.sin(A))
        of_b, of_a = ad.grad([y, z], [b, a], [ad.tensor(2.0), ad.tensor(1.0)])
        np.testing.assert_allclose(of_b, 2 * np.sin(A) + 2 * B * np.sin(A) ** 2)
        np.testing.assert_allclose(of_a, np.cos(A) * B * (2 + 2 * np.sin(A) * B))
        with pytest.raises(ad.GradientError, match="second backward"):
            ad.grad(y, b)


def test_what_is_not_used_is_refused_or_has_no_gradient_whenever_it_is_asked_for(keyless):
    a, b = leaves()
    for k in range(6):
        y = ad.sum(ad.sin(a))
        if k == 4:
            keyless()
        if k < 4:
            with pytest.raises(ad.GradientError, match=r"input 1 .* is not used"):
                ad.grad(y, [a, b])  # and gives nothing up
        of_a, of_b = ad.grad(y, [a, b], allow_unused=True)
        np.testing.assert_allclose(of_a, np.cos(A))
        assert of_b is None


def test_a_leaf_of_which_an_older_value_was_used_is_used():
    a, b = leaves()
    c = ad.tensor(B, requires_grad=True)
    for k in range(12):
        used = c if k % 3 else b
        value = used.detach().numpy()
        y = ad.sum(a * used)
        with ad.no_grad():
            b += 1.0
        of_a, of_b = ad.grad(y, [a, b], allow_unused=True)
        np.testing.assert_allclose(of_a, value)
        if used is b:
            np.testing.assert_allclose(of_b, A)
        else:
            assert of_b is None


def test_a_rule_that_gives_none_does_so_whenever_it_is_asked():
    @ad.function
    def first_only(x, y): ...

    @first_only.forward
    def _(ctx, x: ad.Tensor, y: ad.Tensor):
        return x * y

    @first_only.backward
    def _(ctx, grad_output):
        return {"x": grad_output, "y": None}

    a, b = leaves()
    for k in range(6):
        y = ad.sum(first_only(a, b) + a)
        if k % 2:
            with pytest.raises(ad.GradientError, match=r"input 1 .* is not used"):
                ad.grad(y, [a, b])
        else:
            of_a, of_b = ad.grad(y, [a, b], allow_unused=True)
            np.testing.assert_allclose(of_a, np.full(3, 2.0))
            assert of_b is None
