"""A new size of a known program is found by the hash of its families, without the key of its recording."""

import gc
import weakref

import numpy as np
import pytest
from spied import compile_any_size, tell_of_exact_keys, uncompared

import autodiff as ad
from autodiff.ops import recorder
from autodiff.tape import families
from tests.ops.cases import eager

RNG = np.random.default_rng(12)
ROWS, WEIGHTS = RNG.normal(size=(40, 5)), RNG.normal(size=5)


@pytest.fixture(params=["natively", "in Python"])
def hits(request, monkeypatch, patience):
    """True if recordings were answered by plans for any size; None in Python, where each size has a plan of its own."""
    if request.param == "natively":
        request.getfixturevalue("native")
        return _noted(monkeypatch, families, "_at_size")
    was_installed = recorder.is_installed()
    recorder.uninstall()
    request.addfinalizer(recorder.install if was_installed else recorder.uninstall)
    return None


def _noted(monkeypatch, owner, name):
    """True for each call of a function that found something."""
    found = []
    find = getattr(owner, name)

    def noted(*given):
        known = find(*given)
        found.append(known is not None)
        return known

    monkeypatch.setattr(owner, name, noted)
    return found


natively = pytest.mark.parametrize("hits", ["natively"], indirect=True)


def slope(f, x, **flags):
    w, x = ad.tensor(WEIGHTS, requires_grad=True), ad.tensor(x, **flags)
    y = f(x, w)
    y.backward()
    return y.item(), w.grad.numpy(), None if x.grad is None else x.grad.numpy()


def agrees(f, x, **flags):
    with eager():
        right = slope(f, x, **flags)
    for ours, expected in zip(slope(f, x, **flags), right, strict=True):
        assert (ours is None) == (expected is None)
        if ours is not None:
            np.testing.assert_allclose(ours, expected, rtol=1e-6 if np.result_type(ours) == np.float32 else 1e-11)


def squares(x, w):
    return ad.mean((x @ w) ** 2)


def met(f=squares, ns=(3, 4, 6, 7)):
    """So that f is known at any size."""
    for n in ns:
        agrees(f, ROWS[:n])


@uncompared
@natively
def test_a_new_size_of_a_known_program_is_answered_without_its_key(hits, monkeypatch):
    met()
    described = []
    tell_of_exact_keys(monkeypatch, lambda: described.append(1))
    for n in (9, 12, 2, 31, 33):
        np.testing.assert_allclose(slope(squares, ROWS[:n])[1], 2 / n * ROWS[:n].T @ (ROWS[:n] @ WEIGHTS), rtol=1e-12)
    assert not described and all(hits[-5:])


@natively
def test_a_size_that_comes_again_and_again_is_left_to_its_key(hits, monkeypatch):
    compile_any_size(monkeypatch)
    met()
    before = hits.count(True)
    for n in (9, 9, 9, 9):
        agrees(squares, ROWS[:n])
    assert hits.count(True) == before + 1


OTHERS = {
    "another power": lambda x, w: ad.mean((x @ w) ** 3),
    "another operation": lambda x, w: ad.mean(ad.exp(x @ w)),
    "another wiring": lambda x, w: ad.mean((x @ w) * (x @ w)),
    "a slice": lambda x, w: ad.mean((x[1:] @ w) ** 2),
    "another number": lambda x, w: ad.sum((x @ w) ** 2) / (x.shape[0] + 1),
    "the size of a step before": lambda x, w: ad.sum((x @ w) ** 2) / 7.0,
    "a detached factor": lambda x, w: ad.mean((x @ w.detach()) * (x @ w)),
    "held": lambda x, w: ad.mean(held(x @ w) ** 2),
}
HELD = []


def held(t):
    HELD[:] = [t]
    return t


@pytest.mark.parametrize("name", OTHERS)
def test_a_program_that_is_nearly_a_known_one_is_right(hits, name):
    other = OTHERS[name]
    met()
    for n in (9, 10, 7, 12, 13, 5):
        agrees(other, ROWS[:n])
        agrees(squares, ROWS[:n])
    HELD.clear()


def test_other_columns_dtypes_and_gradients_are_right(hits):
    def f(x, w):
        return ad.mean((x * w[: x.shape[1]]) ** 2)

    met(f)
    for n, m in ((9, 4), (10, 5), (11, 3), (5, 5), (12, 1), (1, 5), (14, 5)):
        agrees(f, ROWS[:n, :m])
        agrees(f, ROWS[:n, :m], requires_grad=True)
        agrees(f, ROWS[:n, :m].astype(np.float32))
    assert hits is None or any(hits)


def test_gradients_add_up_and_a_second_backward_is_an_error_at_a_new_size(hits):
    met()
    w = ad.tensor(WEIGHTS, requires_grad=True)
    expected = np.zeros(5)
    for n in (9, 10, 11, 12, 13):
        y = squares(ad.tensor(ROWS[:n]), w)
        y.backward()
        expected = expected + 2 / n * ROWS[:n].T @ (ROWS[:n] @ WEIGHTS)
        np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-12)
        with pytest.raises(ad.GradientError, match="retain_graph"):
            y.backward()
    assert hits is None or any(hits[-5:])


def test_a_hook_or_a_vector_without_a_seed_is_seen_at_a_new_size(hits):
    met()
    w, seen = ad.tensor(WEIGHTS, requires_grad=True), []
    handle = w.register_hook(lambda g: seen.append(g.shape))
    squares(ad.tensor(ROWS[:15]), w).backward()
    assert seen == [(5,)]
    handle.remove()
    with pytest.raises(ad.GradientError, match="not a scalar"):
        (ad.tensor(ROWS[:16]) @ w).backward()


def test_values_of_new_sizes_are_found_too(hits):
    for n in (3, 4, 6, 7, 9, 12, 14):
        found = ad.exp(ad.tensor(ROWS[:n]) * 2.0).numpy()
        np.testing.assert_allclose(found, np.exp(ROWS[:n] * 2), rtol=1e-14)
    assert hits is None or hits[-1]


def test_where_a_size_is_decided_otherwise_it_is_so(hits):
    def f(x, w):  # one row is spread
        return ad.sum(x * w + ad.mean(x, axis=0)) if x.shape[0] % 4 else ad.sum(ad.sin(x) * w)

    for n in (3, 5, 6, 7, 9, 4, 8, 1, 2, 11, 12, 13):
        agrees(f, ROWS[:n])


FUNCTIONAL = {
    "value_and_grad": lambda f, x, w: ad.value_and_grad(lambda w: f(x, w))(w),
    "grad of both": lambda f, x, w: ad.grad(lambda x, w: f(x, w), argnums=(0, 1))(x, w),
    "vjp": lambda f, x, w: ad.vjp(lambda x, w: ad.tanh(x @ w), x, w)[1](np.ones(x.shape[0])),
}


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_gradients_of_functions_are_found_at_any_size(hits, name):
    def flat(found):
        return [np.asarray(x) for part in found for x in (part if isinstance(part, tuple) else (part,))]

    run = FUNCTIONAL[name]
    for n in (3, 4, 6, 7, 9, 12, 2, 1, 0, 31, 33, 8, 8, 8):
        found = flat(run(squares, ROWS[:n], WEIGHTS))
        if n in (31, 33):
            assert hits is None or hits[-1]
        with eager():
            right = flat(run(squares, ROWS[:n], WEIGHTS))
        for ours, expected in zip(found, right, strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-11)


def test_gradients_of_tensors_are_found_at_any_size(hits):
    for n in (3, 4, 6, 7, 9, 12, 2, 31, 33):
        x, w = ad.tensor(ROWS[:n]), ad.tensor(WEIGHTS, requires_grad=True)
        y = squares(x, w)
        (found,) = ad.grad(y, [w])
        np.testing.assert_allclose(found.numpy(), 2 / n * ROWS[:n].T @ (ROWS[:n] @ WEIGHTS), rtol=1e-12)
        with pytest.raises(ad.GradientError):
            ad.grad(y, [w])
        v = ad.tensor(WEIGHTS, requires_grad=True)
        with pytest.raises(ad.GradientError):  # not reached
            ad.grad(squares(x, w), [w, v])
    assert hits is None or any(hits[-6:])


@natively
def test_what_was_forgotten_is_found_again(hits):
    met()
    for n in (9, 10, 11):
        agrees(squares, ROWS[:n])
    assert hits[-1]
    families.forms.clear()  # as where there are many
    for n in (12, 13, 14, 15):
        agrees(squares, ROWS[:n])
    assert hits[-1]


def test_gradients_have_the_sizes_of_their_leaves(hits):
    def f(x, w):
        return ad.mean((x * w) ** 2)

    met(f)
    for n in (9, 12, 2, 31, 33):
        x, w = ad.tensor(ROWS[:n], requires_grad=True), ad.tensor(WEIGHTS, requires_grad=True)
        f(x, w).backward()
        assert (x.grad.shape, w.grad.shape) == ((n, 5), (5,))
        assert x.grad.dtype == w.grad.dtype == np.float64 and not x.grad.requires_grad
        np.testing.assert_allclose((x.grad * 1.0).numpy(), 2 / (5 * n) * ROWS[:n] * WEIGHTS**2, rtol=1e-12)
    assert hits is None or all(hits[-4:])


@natively
def test_answers_hold_no_recording_and_are_forgotten_with_the_rest(hits):
    met()
    x = ad.tensor(ROWS[:17])
    squares(x, ad.tensor(WEIGHTS, requires_grad=True)).backward()
    assert hits[-1]
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None and families.forms
    ad.clear_cache()
    assert not families.forms
    agrees(squares, ROWS[:18])
