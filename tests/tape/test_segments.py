"""A long recording whose steps are alike is run step by step, by code that every length shares."""

import itertools

import numpy as np
import pytest
from episodes import assert_all_close, policy, step_by_step

import autodiff as ad

pytestmark = pytest.mark.usefixtures("at_the_first_time")


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_are_those_of_the_whole_graph(taken_apart, asks, dtype, keeps):
    rtol = 3e-5 if dtype is np.float32 else 1e-12
    steps = [40, 23, 57, 5, 40, 31, 12, 70]
    for seed, length in enumerate(steps):
        found = policy(length, seed, asks, dtype, keeps)
        assert_all_close(found, step_by_step(policy, length, seed, asks, dtype, keeps), rtol)
    assert len(taken_apart) == len(steps)
    assert max(taken_apart) >= 70


def test_a_new_length_compiles_nothing(taken_apart, steady_clock):
    for seed in range(30):
        policy(40 + seed, seed)
    before = ad.cache_info().compiles
    for seed in range(20):
        policy(100 + seed, seed)
    assert ad.cache_info().compiles == before
    assert len(taken_apart) == 50


@pytest.mark.parametrize("is_evaluated", [True, False])
def test_steps_are_evaluated_until_compiling_them_pays(monkeypatch, is_evaluated):
    monkeypatch.setattr("autodiff.tape.tier.prices.seconds", lambda count: 1e9 if is_evaluated else 1e-9, raising=False)
    assert_all_close(policy(40, 1), step_by_step(policy, 40, 1))


def recurrence(w, x, steps):
    y = x
    for _ in range(steps):
        y = ad.tanh(w @ y + x)
    return (y * y).sum()


def test_a_state_that_goes_from_step_to_step_is_gone_back_through(taken_apart):
    rng = np.random.default_rng(0)
    w0, x0 = rng.normal(size=(4, 4)), rng.normal(size=4)
    for steps in (30, 41, 17, 52):
        w, x = (ad.tensor(a, requires_grad=True) for a in (w0, x0))
        recurrence(w, x, steps).backward()
        expected = step_by_step(ad.grad(recurrence, (0, 1)), w0, x0, steps)
        assert_all_close([w.grad.numpy(), x.grad.numpy()], expected)
    assert len(taken_apart) == 4


def test_gradients_of_functions_and_of_tensors_are_found_in_parts_too(taken_apart):
    rng = np.random.default_rng(0)
    w0, x0 = rng.normal(size=(4, 4)), rng.normal(size=4)
    of_both = ad.value_and_grad(recurrence, (0, 1))
    for steps in (30, 41, 17):
        value, gradients = of_both(w0, x0, steps)
        expected, others = step_by_step(of_both, w0, x0, steps)
        assert np.isclose(value, expected, rtol=1e-13)
        assert_all_close(gradients, others)
        w, x = (ad.tensor(a, requires_grad=True) for a in (w0, x0))
        loss = recurrence(w, x, steps)
        assert_all_close([g.numpy() for g in ad.grad(loss, (w, x))], others)
        with pytest.raises(ad.GradientError, match="second backward"):
            ad.grad(loss, (w, x))
    assert len(taken_apart) == 6


def test_a_result_that_is_no_number_has_no_gradient_in_parts_either():
    w = ad.tensor([0.3, 0.4], requires_grad=True)
    for steps in (30, 41, 33):
        y = w
        for _ in range(steps):
            y = ad.sin(y) * 1.01 + w
        with pytest.raises(ad.GradientError, match="not a scalar"):
            ad.grad(y, [w])


def test_a_gradient_for_one_of_two_leaves_releases_what_leads_to_it_only(taken_apart):
    w, x = (ad.tensor(np.full((2, 2), 0.3), requires_grad=True) for _ in range(2))
    side = (x * x).sum()
    loss = side
    for t in range(30):
        loss = loss + ad.sin(w * float(t)).sum()
    (of_w,) = ad.grad(loss, [w])
    assert of_w.shape == (2, 2)
    (of_x,) = ad.grad(side, [x])
    np.testing.assert_allclose(of_x.numpy(), 0.6)


def test_a_leaf_that_no_gradient_reaches_has_none(taken_apart):
    w, u = (ad.tensor([0.3, -0.2, 0.5], requires_grad=True) for _ in range(2))
    for steps in (30, 25, 44):
        total = 0.0
        for t in range(steps):
            total = total + ad.where(u > 0.1 * t, ad.sin(w * float(t)), 0.0).sum()
        total.backward()
        assert u.grad is None
        expected = np.sum([np.where(u.detach().numpy() > 0.1 * t, t * np.cos(w.detach().numpy() * t), 0)
                           for t in range(steps)], axis=0)  # fmt: skip
        np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-12)
        w.grad = None
    assert len(taken_apart) == 3


def test_a_leaf_that_early_steps_read_gets_their_gradient_only(taken_apart):
    def play(steps):
        w, u = (ad.tensor([0.3, -0.2, 0.5], requires_grad=True) for _ in range(2))
        total = 0.0
        for t in range(steps):
            total = total + (ad.sin(w * float(t)) * (u if t < 15 else w)).sum()
        total.backward()
        return [w.grad.numpy(), u.grad.numpy()]

    for steps in (40, 35, 44):
        assert_all_close(play(steps), step_by_step(play, steps))
    assert len(taken_apart) == 3


def test_what_is_the_same_in_every_step_is_gone_back_through_once(taken_apart):
    def play(steps):
        w = ad.tensor([0.3, -0.2, 0.5], requires_grad=True)
        gate = ad.exp(w) * 0.1  # read in every step
        total = 0.0
        for t in range(steps):
            total = total + ad.sin(gate * float(t)).sum()
        total.backward()
        return [w.grad.numpy()]

    for steps in (30, 25, 44):
        assert_all_close(play(steps), step_by_step(play, steps))
    assert len(taken_apart) == 3


def test_steps_of_several_sorts_in_any_order(taken_apart):
    def play(seed):
        rng = np.random.default_rng(seed)
        w = ad.tensor(rng.normal(size=4), requires_grad=True)
        total = 0.0
        for _ in range(rng.integers(20, 60)):
            z = (w * rng.normal(size=4)).sum()
            sort = rng.integers(3)
            total = total + (ad.exp(-z * z) if sort == 0 else ad.log1p(z * z) * w[1] if sort == 1 else z)
        total.backward()
        return [w.grad.numpy()]

    for seed in range(12):
        assert_all_close(play(seed), step_by_step(play, seed))
    assert len(taken_apart) == 12


def test_losses_that_were_kept_in_a_list_are_added_up_at_the_end(taken_apart):
    def play(seed):
        rng = np.random.default_rng(seed)
        w = ad.tensor(rng.normal(size=3), requires_grad=True)
        losses = [ad.log1p(ad.exp((w * rng.normal(size=3)).sum())) for _ in range(rng.integers(10, 40))]
        loss = sum([x * (0.9**t) for t, x in enumerate(losses)])
        loss.backward()
        return [w.grad.numpy(), *[x.detach().numpy() for x in losses]]

    for seed in range(6):
        assert_all_close(play(seed), step_by_step(play, seed))
    assert taken_apart


def test_a_masked_cotangent_stays_masked_from_step_to_step(taken_apart):
    def play(steps):
        x = ad.tensor([0.0, 1.0, 4.0], requires_grad=True)
        y = x
        for _ in range(steps):
            y = ad.where(y > 0, ad.sqrt(y) * 1.01, y)  # the square root has no derivative at the 0 that is not taken
        y.sum().backward()
        return [x.grad.numpy()]

    for steps in (20, 33):
        found = play(steps)
        assert np.isfinite(found[0]).all()
        assert_all_close(found, step_by_step(play, steps))
    assert len(taken_apart) == 2


def test_a_leaf_that_is_updated_on_the_way_gets_the_gradients_of_all_its_values(taken_apart):
    def play(steps):
        w = ad.tensor([0.5, -0.3], requires_grad=True)
        total = 0.0
        for t in range(steps):
            if t % 7 == 3:
                with ad.no_grad():
                    w *= 1.1
            total = total + ad.sin(w * float(t)).sum()
        total.backward()
        return [w.grad.numpy()]

    for steps in (30, 41):
        assert_all_close(play(steps), step_by_step(play, steps))
    assert len(taken_apart) == 2


def test_gradients_add_up_and_go_on_from_a_retained_graph(taken_apart):
    w = ad.tensor([0.5, -0.3], requires_grad=True)
    total = 0.0
    for t in range(30):
        total = total + ad.sin(w * float(t)).sum()
    total.backward(retain_graph=True)
    once = w.grad.numpy()
    total.backward(retain_graph=True)
    np.testing.assert_allclose(w.grad.numpy(), 2 * once, rtol=1e-13)
    total.backward()
    np.testing.assert_allclose(w.grad.numpy(), 3 * once, rtol=1e-13)
    with pytest.raises(ad.GradientError, match="second backward"):
        total.backward()
    assert len(taken_apart) >= 2


def test_gradients_of_several_leaves_share_no_memory(taken_apart):
    x, y = (ad.tensor(np.ones(100), requires_grad=True) for _ in range(2))
    total = x + y
    for _ in range(30):
        total = ad.sin(total) * 1.01
    total.sum().backward()
    assert len(taken_apart) == 1
    assert not np.shares_memory(x.grad.numpy(), y.grad.numpy())
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())


@pytest.mark.parametrize("place", ["leaf", "step", "retained", "after"])
def test_hooks_and_retained_gradients_are_respected(place):
    def play(steps):
        seen = []
        w = ad.tensor([0.5, -0.3], requires_grad=True)
        if place == "leaf":
            w.register_hook(lambda g: g * 2)
        if place == "after":
            w.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.numpy()))
        total = 0.0
        for t in range(steps):
            y = ad.sin(w * float(t)).sum()
            if place == "step" and t == 9:
                y.register_hook(lambda g: g * 3)
            if place == "retained" and t == 9:
                y.retain_grad()
                middle = y
            total = total + y * y
        total.backward()
        return [w.grad.numpy(), *seen, *([middle.grad.numpy()] if place == "retained" else [])]

    for steps in (30, 36):
        assert_all_close(play(steps), step_by_step(play, steps))


def test_custom_functions_keep_their_rules():
    @ad.function
    def wavy(x):
        """Its rule is not its derivative.   f[n] -> f[n]"""

    @wavy.forward(ad.Vector)
    def _(ctx, x):
        return ad.sin(x)

    @wavy.backward(ad.Vector)
    def _(ctx, g):
        return g * 7.0

    def play(steps):
        w = ad.tensor([0.5, -0.3], requires_grad=True)
        total = 0.0
        for t in range(steps):
            total = total + (wavy(w * 0.1) * float(t)).sum()
        total.backward()
        return [w.grad.numpy()]

    assert_all_close(play(40), step_by_step(play, 40))


def test_an_index_out_of_range_leaves_everything_as_it_was(taken_apart):
    def play(times, last):
        w = ad.tensor(np.arange(4.0), requires_grad=True)
        total = 0.0
        for i in [*range(4)] * times + [last]:
            total = total + ad.exp(ad.take(w, ad.tensor(i) + 0) * 0.1)
        return w, total

    for times, last in ((7, 1), (9, 2)):
        w, total = play(times, last)
        total.backward()
    w, total = play(8, 9)
    with pytest.raises(IndexError):
        total.backward()
    assert w.grad is None
    assert len(taken_apart) == 2


def test_the_loss_can_be_asked_for_before_and_after(taken_apart):
    for steps, asks in itertools.product((30, 47), ("before", "after", "never")):
        w = ad.tensor([0.5, -0.3], requires_grad=True)
        total = 0.0
        for t in range(steps):
            total = total + ad.sin(w * float(t)).sum()
        values = [total.item()] if asks == "before" else []
        total.backward()
        values += [total.item()] if asks == "after" else []
        times = np.arange(float(steps))[:, None]
        at = np.array([0.5, -0.3])
        np.testing.assert_allclose(w.grad.numpy(), (times * np.cos(times * at)).sum(0), rtol=1e-11)
        for value in values:
            assert np.isclose(value, np.sin(times * at).sum(), rtol=1e-12)
    assert len(taken_apart) >= 6


def test_a_metric_beside_the_loss_is_computed_in_the_same_run(taken_apart):
    for steps in (30, 45, 61):
        w = ad.tensor([0.5, -0.3], requires_grad=True)
        total, metric = 0.0, ad.tensor(0.0)
        for t in range(steps):
            y = ad.sin(w * float(t)).sum()
            metric = metric + y.detach() * y.detach()
            total = total + y
        total.backward()
        assert metric.node.value is not None
        times, at = np.arange(float(steps))[:, None], np.array([0.5, -0.3])
        assert np.isclose(metric.item(), (np.sin(times * at).sum(1) ** 2).sum(), rtol=1e-12)
    assert taken_apart


