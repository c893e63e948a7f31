"""Graph shapes that do not repeat are not compiled; those that do are."""

import numpy as np
import pytest

import autodiff as ad
from codegen import compiler


@pytest.fixture
def patience():
    """The setting that users have; the rest of the tests compile at once."""
    ad.clear_cache()
    ad.config.patience = 8
    yield 8
    ad.config.patience = 0
    ad.clear_cache()


def episode(w, steps):
    """A recurrence of some length: another graph for each."""
    y = w
    for _ in range(steps):
        y = ad.tanh(y * w + 0.5)
    return y.sum()


def gradient_by_hand(w, steps):
    _, dy = ad.jvp(lambda w: episode(w, steps), (w,), (np.ones_like(w),))
    return dy


def test_after_several_shapes_that_were_used_once_a_new_one_is_not_compiled(patience):
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    before = compiler.counts().compiles
    for steps in range(1, 40):
        w.grad = None
        episode(w, steps).backward()
    assert compiler.counts().compiles - before == patience
    assert np.isclose(w.grad.numpy().sum(), gradient_by_hand(np.array([0.3, 0.7]), 39))


def test_a_shape_that_waited_is_compiled_when_it_is_seen_again(patience):
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    for steps in range(1, 15):
        episode(w, steps).backward()
    gradients = []
    before = compiler.counts().compiles
    for _ in range(4):
        w.grad = None
        episode(w, 30).backward()
        gradients.append(w.grad.numpy())
    assert compiler.counts().compiles - before == 1
    for g in gradients[1:]:
        np.testing.assert_allclose(g, gradients[0], rtol=1e-13)


def test_when_shapes_repeat_again_new_ones_are_compiled_at_once(patience):
    w = ad.tensor([0.3, 0.7], requires_grad=True)
    for _ in range(2):
        for steps in range(1, 15):
            episode(w, steps).backward()
    before = compiler.counts().compiles
    episode(w, 31).backward()
    assert compiler.counts().compiles - before == 1


def test_an_index_out_of_range_is_refused_also_where_the_graph_waits(patience):
    x = ad.tensor(np.arange(4.0))
    for n in range(1, 14):
        assert ad.take(x, ad.tensor([3] * n)).numpy().shape == (n,)
    with pytest.raises(IndexError):
        ad.take(x, ad.tensor([0, 7] * 20)).numpy()
    assert ad.take(x, ad.tensor([1] * 40)).numpy().tolist() == [1.0] * 40


@pytest.mark.parametrize("wrong", [-1, 65, 0.5, None])
def test_patience_is_a_small_number(wrong):
    with pytest.raises(ValueError, match="from 0 to 64"):
        ad.config.patience = wrong
