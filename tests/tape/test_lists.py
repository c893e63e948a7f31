"""Losses kept in a list and added up at the end: each is gone back through with the step that it belongs to."""

import gc

import numpy as np
import pytest
from episodes import step_by_step

import autodiff as ad

pytestmark = pytest.mark.usefixtures("at_the_first_time")


def assert_all_close(found, expected, rtol=1e-11):
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * max(np.abs(y).max(), 1e-3))


def weights(seed):
    rng = np.random.default_rng(seed)
    return ad.tensor(rng.normal(size=(4, 4)) / 2, requires_grad=True), ad.tensor(rng.normal(size=4), requires_grad=True)


def added(length):
    w, v = weights(0)
    losses = [ad.log1p(ad.exp(v @ ad.tanh(w @ np.full(4, 1.0 + t)))) for t in range(length)]
    sum(losses).backward()
    return [w.grad.numpy(), v.grad.numpy()]


def weighted(length):
    """A state is carried, chances are asked for; the mean is taken of what the list holds, times returns."""
    w, v = weights(1)
    h, losses = ad.tensor(np.ones(4)), []
    for t in range(length):
        h = ad.tanh(w @ h + 0.1 * t)
        p = ad.softmax(h)
        a = int(np.searchsorted(np.cumsum(p.detach().numpy())[:-1], (0.37 * t) % 1))
        losses.append(ad.log(p[a]) * (v @ h))
    (-sum([loss * 0.9**t for t, loss in enumerate(losses)]) / length).backward()
    return [w.grad.numpy(), v.grad.numpy(), *[loss.detach().numpy() for loss in losses]]


def backwards(length):
    """Returns are added up from the last step to the first."""
    w, v = weights(2)
    ys = [v @ ad.tanh(w @ np.full(4, 0.1 * t)) for t in range(length)]
    value = loss = 0.0
    for t in reversed(range(length)):
        value = t % 3 + 0.9 * value
        loss = loss + (value - ys[t].item()) * ad.sin(ys[t]) + 0.5 * (ys[t] - value) ** 2.0
    loss.backward()
    return [w.grad.numpy(), v.grad.numpy()]


def two_lists(length):
    w, v = weights(3)
    h, first, second = v * 1.0, [], []
    for t in range(length):
        h = ad.tanh(w @ h + 0.01 * t)
        first.append(ad.sum(h * h))
        second.append(ad.log1p(ad.exp(v @ h)))
    (sum(first) + 0.5 * sum(second)).backward()
    return [w.grad.numpy(), v.grad.numpy(), *[x.detach().numpy() for x in first]]


def beside_a_shared_one(length):
    """A value that all steps read is made before them, and has a history of its own."""
    w, v = weights(4)
    shared = ad.tanh(w) * 0.5
    losses = [ad.exp(ad.sin(v @ (shared @ np.full(4, 0.2 * t)))) for t in range(length)]
    sum(losses).backward()
    return [w.grad.numpy(), v.grad.numpy()]


def backwards_through_states(length):
    """The states are a chain forward, the losses one backward."""
    w, v = weights(5)
    h, states = v * 0.5, []
    for _ in range(length):
        h = ad.tanh(w @ h)
        states.append(h)
    loss = 0.0
    for h in reversed(states):
        loss = loss * 0.9 + (v @ h) ** 2.0
    loss.backward()
    return [w.grad.numpy(), v.grad.numpy()]


def stacked(length):
    """Stacked, and weighted all at once."""
    w, v = weights(7)
    losses = [v @ ad.tanh(w @ np.full(4, 0.2 * t)) for t in range(length)]
    (ad.stack(losses) * np.linspace(-1.0, 2.0, length)).sum().backward()
    return [w.grad.numpy(), v.grad.numpy(), *[x.detach().numpy() for x in losses]]


def neighbours(length):
    """Each term reads two steps, and what is within them."""
    w, v = weights(6)
    inner = [ad.tanh(w @ np.full(4, 0.3 * t)) for t in range(length)]
    outer = [ad.exp(v @ x) for x in inner]
    terms = [outer[t] * (inner[t - 1] @ v) + outer[t - 1] for t in range(1, length)]
    sum(terms).backward()
    return [w.grad.numpy(), v.grad.numpy(), outer[3].detach().numpy()]


PLAYS = [added, weighted, backwards, two_lists, beside_a_shared_one, backwards_through_states, stacked, neighbours]
#: Of these each step is one part, with its place in the sum.
STEPWISE = [added, weighted, beside_a_shared_one]


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("play", PLAYS)
def test_gradients_are_those_of_each_operation_by_itself(monkeypatch, play, is_compiled):
    monkeypatch.setattr("autodiff.tape.tier.prices.seconds", lambda count: 1e-9 if is_compiled else 1e9, raising=False)
    for length in (40, 23, 57, 12, 40, 31, 64):
        assert_all_close(play(length), step_by_step(play, length))


@pytest.mark.parametrize("play", STEPWISE)
def test_a_new_length_makes_nothing_new(monkeypatch, taken_apart, play):
    monkeypatch.setattr("autodiff.tape.tier.prices.seconds", lambda count: 1e-9, raising=False)
    quiet = 0
    for length in range(40, 90):
        before = ad.cache_info().compiles
        play(length)
        quiet = quiet + 1 if ad.cache_info().compiles == before else 0
        if quiet == 4:
            break
    assert quiet == 4  # of a graph for each length every one would compile
    assert max(taken_apart) >= 40


def test_what_the_list_holds_has_its_value_after_a_backward(taken_apart):
    for length in (30, 45, 61):
        w, _ = weights(0)
        losses = [ad.sin(w * float(t)).sum() for t in range(length)]
        beside = ad.sum(w.detach() * 2.0)
        sum(losses).backward()
        assert all([loss.node.value is not None for loss in [*losses, beside]])
        at = w.detach().numpy()
        for t, loss in enumerate(losses):
            assert np.isclose(loss.item(), np.sin(at * t).sum(), rtol=1e-11)
    assert len(taken_apart) >= 3


def test_lists_that_are_kept_for_ever_keep_values_only():
    """The values that a kept loss was computed from are let go of with the history."""
    kept, graphs = [], []
    for length in range(20, 40):
        w, _ = weights(length)
        losses = [ad.sin(w * float(t)).sum() for t in range(length)]
        sum(losses).backward()
        kept += losses
        graphs.append(sum([bool(loss.node.inputs) for loss in losses]))
    gc.collect()
    assert graphs == [0] * 20


@pytest.mark.parametrize("seed", range(12))
def test_loops_made_at_random(monkeypatch, seed):
    """States, lists and sums in any order: what falls into parts, and what does not."""
    monkeypatch.setattr("autodiff.tape.tier.prices.seconds", lambda count: 1e-9 if seed % 2 else 1e9, raising=False)
    chances = np.random.default_rng(seed)
    choices = [int(x) for x in chances.integers(0, 6, 40)]

    def play(length):
        w, v = weights(seed)
        pick = iter([*choices, *choices])
        states, lists = [v * 1.0, v * 0.5], [[], []]
        body = [(next(pick), next(pick) % 2, next(pick) % 2) for _ in range(4)]
        for t in range(length):
            for what, a, b in body:
                if what < 2:
                    states[a] = ad.tanh(w @ states[b] + 0.1 * t)
                elif what == 2:
                    states[a] = ad.where(states[b] > 0.2, ad.sin(states[a]), states[b] * 0.9)
                elif what == 3:
                    lists[a].append((states[b] * v).sum())
                elif what == 4:
                    lists[a].append(ad.log1p(ad.exp(v @ (w @ np.full(4, 0.1 * t)))))
                else:
                    float(states[b].sum().detach())
        total = (states[0] * states[1]).sum() + w.sum()
        for k, some in enumerate(lists):
            part = 0.0
            for x in some if next(pick) % 2 else reversed(some):
                part = part * 0.9 + x * (0.5 + k) if choices[k] % 2 else part + x
            total = total + part
        total.backward()
        return [w.grad.numpy(), v.grad.numpy()]

    for length in (14, 20, 27, 33):
        assert_all_close(play(length), step_by_step(play, length), 1e-9)


def predicted(length):
    """Values of their own, asked for one by one, and stacked."""
    w, v = weights(8)
    w, v = w.detach(), v.detach()
    asked = [v @ ad.tanh(w @ np.full(4, 0.1 * t)) for t in range(length)]
    found = np.array([y.item() for y in asked])
    return [found, ad.stack([ad.sin(w @ np.full(4, 0.2 * t)).sum() for t in range(length)]).numpy()]


@pytest.mark.parametrize("is_compiled", [True, False])
def test_values_of_a_list_are_computed_with_the_steps_that_they_belong_to(monkeypatch, taken_apart, is_compiled):
    monkeypatch.setattr("autodiff.tape.tier.prices.seconds", lambda count: 1e-9 if is_compiled else 1e9, raising=False)
    for length in (40, 23, 57, 12, 40, 31, 64):
        assert_all_close(predicted(length), step_by_step(predicted, length))
    assert sum([parts >= 40 for parts in taken_apart]) >= 8
