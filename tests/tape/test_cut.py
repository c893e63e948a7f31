"""Recordings that are cut: segments that are found, tried, made one, remembered."""

import numpy as np
import pytest
from episodes import policy

import autodiff as ad
from autodiff.session import programs
from autodiff.tape import cut, parts

varied_from_the_start = pytest.mark.usefixtures("at_the_first_time")


@varied_from_the_start
def test_the_last_step_is_gone_back_through_by_the_code_of_all_others(monkeypatch, taken_apart):
    monkeypatch.setattr("autodiff.tape.tier.prices.seconds", lambda count: 1e-9, raising=False)
    for seed, length in enumerate((40, 23, 57, 31)):
        policy(length, seed)
    pulls = [pull for top in cut.segments for s in cut.segments.get(top) if len(s) > 5 for pull in s.pulls]
    assert len(pulls) == 3  # of the last step, of those in the middle, of the first one
    assert len({pull.runs.tier for pull in pulls}) == 1
    assert all([pull.runs.tier.compiled is not None for pull in pulls])
    assert len(taken_apart) == 4


@varied_from_the_start
def test_memory_stays_flat_over_many_lengths_and_sorts_of_steps():
    for size in range(2, 120):
        w = ad.tensor(np.linspace(0.1, 0.9, size), requires_grad=True)
        total = 0.0
        for t in range(24):
            total = total + ad.sin(w * float(t)).sum()
        total.backward()
    assert sum(len(cut.segments.get(top)) for top in cut.segments) * cut.WEIGHT <= programs.most


def weights(seed):
    rng = np.random.default_rng(seed)
    return ad.tensor(rng.normal(size=(4, 4)) / 2, requires_grad=True), ad.tensor(rng.normal(size=4), requires_grad=True)


def stacked(length):
    """Stacked, and weighted all at once."""
    w, v = weights(7)
    losses = [v @ ad.tanh(w @ np.full(4, 0.2 * t)) for t in range(length)]
    (ad.stack(losses) * np.linspace(-1.0, 2.0, length)).sum().backward()
    return [w.grad.numpy(), v.grad.numpy(), *[x.detach().numpy() for x in losses]]


@varied_from_the_start
def test_a_list_of_a_length_that_was_stacked_before_makes_nothing_new(taken_apart):
    lengths = range(20, 36)
    for length in lengths:
        stacked(length)
    made, taken = [], len(taken_apart)
    with pytest.MonkeyPatch.context() as patch:
        make = cut.Cut._make
        patch.setattr(cut.Cut, "_make", lambda self, *what: (made.append(what), make(self, *what)))
        for length in lengths:
            stacked(length)
    assert not made
    assert len(taken_apart) - taken == len(lengths)


@pytest.mark.usefixtures("patience")
def test_what_never_falls_into_segments_is_tried_now_and_then(monkeypatch):
    """Sums of different functions, in an order that never repeats."""
    tried = []
    monkeypatch.setattr(parts, "Cut", lambda *what: tried.append(1) or cut.Cut(*what))
    x = ad.tensor(np.linspace(0.1, 1.0, 5))
    functions = [ad.sin, ad.cos, ad.tanh, ad.exp, ad.sqrt, ad.log1p, ad.arctan, ad.abs]
    rng = np.random.default_rng(0)
    for length in range(15, 115):
        y = x
        for k in rng.integers(len(functions), size=length):
            y = functions[k](y)
        y.sum().numpy()
    assert 3 <= len(tried) < 30


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("put_together", [lambda ys: [y.item() for y in ys][-1], lambda ys: ad.stack(ys).numpy()[-1]])
def test_values_of_a_list_are_run_in_parts_from_the_second_length_on(taken_apart, put_together):
    w = ad.tensor(np.linspace(0.0, 1.0, 16).reshape(4, 4))
    for length in (24, 31, 47):
        ys = [ad.sin(w @ np.full(4, 0.1 * t)).sum() for t in range(length)]
        expected = np.sin(w.numpy() @ np.full(4, 0.1 * (length - 1))).sum()
        np.testing.assert_allclose(put_together(ys), expected, rtol=1e-12)
    assert [parts >= 30 for parts in taken_apart] == [True, True]
