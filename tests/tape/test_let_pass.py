"""Laws of programs that are new one after the other: each has its right results, and is kept when it comes again."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.session import Session, plans

N = 5


def _program(seed, x):
    """Another program for each seed."""
    rng = np.random.default_rng(seed)
    steps = (
        lambda a, b: ad.sin(a) * 0.5, lambda a, b: ad.tanh(a * b), lambda a, b: ad.exp(-a * a),
        lambda a, b: a * b + 0.5, lambda a, b: a - 0.3 * b, lambda a, b: ad.where(a > b, a, 2.0 * b),
    )  # fmt: skip
    values = [x]
    for choice in rng.integers(len(steps), size=8):
        values.append(steps[choice](values[-1], values[rng.integers(len(values))]))
    return values


def _gradient(seed, x):
    x.grad = None
    ad.sum(_program(seed, x)[-1]).backward()
    return x.grad.numpy().copy()


@pytest.fixture
def many(patience):
    """A leaf, after so many new programs that others are let pass."""
    with Session():
        x = ad.tensor(np.linspace(0.1, 1.0, N), requires_grad=True)
        for seed in range(1000, 1120):
            _gradient(seed, x)
        yield x


def test_none_of_many_new_programs_is_kept(many):
    before = len(plans)
    for seed in range(20):
        _gradient(seed, many)
    assert len(plans) == before


def test_gradients_are_those_of_every_other_road(many):
    for seed in range(40):
        found = _gradient(seed, many)
        x = ad.tensor(np.linspace(0.1, 1.0, N), requires_grad=True)
        ad.config.eager = True
        try:
            expected = _gradient(seed, x)
        finally:
            ad.config.eager = False
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_a_program_that_comes_again_is_kept(many):
    first = _gradient(7, many)
    before = ad.cache_info()
    found = [_gradient(7, many) for _ in range(3)]
    after = ad.cache_info()
    assert after.misses == before.misses + 1
    assert after.hits == before.hits + 2
    for g in found:
        np.testing.assert_allclose(g, first, rtol=1e-12)


def test_a_new_program_is_kept_at_once_where_others_are_known(many):
    for _ in range(30):
        _gradient(7, many)
    _gradient(8, many)
    before = ad.cache_info()
    _gradient(8, many)
    assert ad.cache_info().misses == before.misses


def test_gradients_are_added_to_what_is_there(many):
    for seed in range(10):
        one = _gradient(seed, many)
        many.grad = ad.tensor(np.full(N, 2.0))
        ad.sum(_program(seed, many)[-1]).backward()
        np.testing.assert_allclose(many.grad.numpy(), one + 2.0, rtol=1e-15)


def test_what_is_live_is_computed_along_and_the_history_is_given_up(many):
    for seed in range(10):
        many.grad = None
        values = _program(seed, many)
        loss = ad.sum(values[-1])
        loss.backward()
        assert loss.item() == pytest.approx(float(np.sum(values[-1].detach().numpy())))
        with pytest.raises(ad.GradientError, match="second backward"):
            loss.backward()


def test_a_history_that_is_retained_is_gone_through_again(many):
    for seed in range(10):
        many.grad = None
        loss = ad.sum(_program(seed, many)[-1])
        loss.backward(retain_graph=True)
        once = many.grad.numpy().copy()
        loss.backward()
        np.testing.assert_allclose(many.grad.numpy(), 2 * once, rtol=1e-15)


def test_an_index_that_is_outside_is_told_and_nothing_is_kept(many):
    for seed in range(5):
        many.grad = None
        at = ad.tensor(np.array([0, 2, N + seed]))
        loss = ad.sum(ad.take(_program(seed, many)[-1], at * 1) * 2.0)
        for _ in range(2):
            with pytest.raises(IndexError, match=f"index {N + seed} is out of bounds for axis 0 with size {N}"):
                loss.backward()
        assert many.grad is None


def test_each_gradient_has_memory_of_its_own(many):
    for seed in range(10):
        many.grad = None
        other = ad.tensor(np.linspace(0.2, 0.9, N), requires_grad=True)
        both = many + other  # one cotangent for both
        loss = ad.sum(_program(seed, both)[-1])
        loss.backward()
        assert many.grad.tolist() == other.grad.tolist()
        held = [many.grad.numpy(), other.grad.numpy(), both.detach().numpy(), loss.detach().numpy()]
        assert not any([np.shares_memory(a, b) for k, a in enumerate(held) for b in held[:k]])


def test_hooks_run_for_programs_that_are_let_pass(many):
    seen = []
    for seed in range(10):
        many.grad = None
        values = _program(seed, many)
        values[3].register_hook(lambda g: seen.append(1))
        ad.sum(values[-1] + values[3]).backward()
    assert len(seen) == 10
    handle = many.register_hook(lambda g: g * 2.0)
    for seed in range(20, 25):
        twice = _gradient(seed, many)
        handle.remove()
        np.testing.assert_allclose(twice, 2 * _gradient(seed, many))
        handle = many.register_hook(lambda g: g * 2.0)
    handle.remove()


def test_the_size_may_be_another_when_it_comes_again(many):
    for n in (20, 30, 40, 50):
        x = ad.tensor(np.linspace(0.1, 1.0, n), requires_grad=True)
        found = _gradient(3, x)
        with Session():
            np.testing.assert_allclose(found, _gradient(3, x), rtol=1e-12)


def test_explain_says_that_nothing_is_kept(many):
    _gradient(1, many)
    assert "one new program comes after another" in str(ad.explain())
