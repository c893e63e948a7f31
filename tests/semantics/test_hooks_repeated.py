"""SEMANTICS 6 and 7: hooks in a recording that repeats are called as ever, and run no rule again."""

from __future__ import annotations

import numpy as np
import pytest
from custom_functions import X, leaf, parameter
from work_done import work

import autodiff as ad
from autodiff.transforms import reverse

TIMES = 9


def repeated(step, times=TIMES):
    """step(k), for k = 0, 1, ...; the last ones run no rule, this library's or the user's."""
    for k in range(times):
        with pytest.MonkeyPatch.context() as patch:
            if k >= times - 3:
                patch.setattr(reverse, "pulled_by_rule", pytest.fail)
                patch.setattr(reverse, "call_rule", None)
            step(k)


def data(k):
    return X * (1.0 + 0.1 * k)


def test_a_hook_on_an_inner_tensor_is_called_with_what_it_closes_over_now():
    seen = []

    def step(k):
        x = leaf(data(k))
        y = ad.sin(x)
        y.register_hook(lambda g: (seen.append(g), g * k)[1])
        (y * y).sum().backward()
        np.testing.assert_allclose(x.grad, 2 * k * np.sin(data(k)) * np.cos(data(k)))
        np.testing.assert_allclose(seen[-1], 2 * np.sin(data(k)))

    repeated(step)
    assert len(seen) == TIMES


def test_a_hook_on_a_leaf_sees_the_sum_and_may_replace_it():
    x = leaf()
    x.register_hook(lambda g: g.clip(-1.0, 1.0))

    def step(k):
        x.grad = None
        (x * x + k * x).sum().backward()
        np.testing.assert_allclose(x.grad, np.clip(2 * X + k, -1, 1))

    repeated(step)


def test_gradients_are_added_to_those_that_are_there():
    x = leaf()
    x.register_hook(lambda g: g * 2.0)
    total = np.zeros(3)
    for k in range(TIMES):
        (ad.exp(x * 0.1) * k).sum().backward()
        total = total + 0.2 * k * np.exp(0.1 * X)
        np.testing.assert_allclose(x.grad, total)


def test_hooks_that_ask_record_and_return_nothing():
    norms = []

    def step(k):
        x = leaf(data(k))
        y = x * x
        y.register_hook(lambda g: norms.append(float((g * g).sum())))
        z = ad.exp(y * 0.1)
        z.register_hook(lambda g: g / (1e-3 + ad.sqrt((g * g).sum())))
        (z * z).sum().backward()
        z0 = np.exp(0.1 * data(k) ** 2)
        bar = 2 * z0 / (1e-3 + np.sqrt((4 * z0 * z0).sum())) * 0.1 * z0
        np.testing.assert_allclose(x.grad, bar * 2 * data(k))
        np.testing.assert_allclose(norms[-1], (bar * bar).sum())

    repeated(step)


def test_several_hooks_run_in_order_also_on_the_result():
    order = []

    def step(k):
        order.clear()
        x = leaf(data(k))
        y = x * 3.0
        for name in ("a", "b"):
            y.register_hook(lambda g, name=name: (order.append(name), g + 1.0)[1])
        loss = (y * y).sum()
        loss.register_hook(lambda g: (order.append("loss"), g * 2.0)[1])
        x.register_hook(lambda g: order.append("x"))
        loss.backward()
        np.testing.assert_allclose(x.grad, 3 * (2 * 2 * 3 * data(k) + 2))
        assert order == ["loss", "a", "b", "x"]

    repeated(step)


def test_adding_and_removing_hooks_is_honoured_in_between():
    x = leaf()
    handle = None
    for k in range(18):
        if k in (4, 13):
            handle = x.register_hook(lambda g: g * 2.0)
        if k == 9:
            handle.remove()
        x.grad = None
        y = ad.sin(x)
        if k % 6 < 3:
            y.register_hook(lambda g: g * 3.0)
        if k % 6 == 1:
            y.register_hook(lambda g: g).remove()
        y.sum().backward()
        factor = (2 if 4 <= k < 9 or k >= 13 else 1) * (3 if k % 6 < 3 else 1)
        np.testing.assert_allclose(x.grad, factor * np.cos(X))


def test_a_hook_that_fails_leaves_every_gradient_as_it_was():
    x, w = leaf(), leaf()

    def step(k):
        x.grad = w.grad = None
        y = x * w

        def hook(g):
            if k == 6:
                raise KeyError("mine")
            return ad.tensor(np.ones(4)) if k == 7 else g * 2.0

        y.register_hook(hook)
        y.sum().backward()
        np.testing.assert_allclose(x.grad, 2 * w.detach())

    for k in range(12):
        if k in (6, 7):
            with pytest.raises(KeyError if k == 6 else ad.GradientError, match="mine" if k == 6 else r"f64\[3\] into"):
                step(k)
            assert x.grad is None and w.grad is None
        else:
            step(k)


@ad.function
def both(x): ...


@both.forward(ad.Tensor)
def _(ctx, x):
    s, c = ad.sin(x), ad.cos(x)
    ctx.save_for_backward(s=s, c=c)
    return s, c


@both.backward(ad.Tensor)
def _(ctx, gs, gc):
    return gs * ctx.saved_variables.c - gc * ctx.saved_variables.s


@ad.function
def scaled(x, c): ...


@scaled.forward(ad.Tensor, ad.Number)
def _(ctx, x, c):
    ctx.save_for_backward(c=c)
    return x * c


@scaled.backward(ad.Tensor, ad.Number)
def _(ctx, g):
    return {"x": g * ctx.saved_variables.c}


@pytest.mark.parametrize("on", ["input", "first", "second", "all"])
def test_hooks_around_custom_functions(on):
    def step(k):
        x = leaf(data(k))
        y = x * 2.0
        s, c = both(y)
        for name, t in (("input", y), ("first", s), ("second", c)):
            if on in (name, "all"):
                t.register_hook(lambda g: g * (k + 1.0))
        (scaled(s, 3.0) + c).sum().backward()
        a, b, f = [k + 1.0 if on in (name, "all") else 1.0 for name in ("first", "second", "input")]
        y0 = 2 * data(k)
        np.testing.assert_allclose(x.grad, 2 * f * (3 * a * np.cos(y0) - b * np.sin(y0)))

    repeated(step)


def test_numbers_of_custom_functions_are_those_of_now():
    for k in range(TIMES):
        x = leaf(data(k))
        y = scaled(x, 1.0 + k)
        y.register_hook(lambda g: g * 2.0)
        scaled(y, 0.5 * k).sum().backward()
        np.testing.assert_allclose(x.grad, np.full(3, (1.0 + k) * k))


def test_hooks_may_call_backward_and_use_tensors_that_track():
    w = leaf()

    def step(k):
        w.grad = None
        x = leaf(data(k))
        y = x * 2.0

        def hook(g):
            (w * g.detach()).sum().backward()
            return g * w

        y.register_hook(hook)
        (y * k).sum().backward()
        np.testing.assert_allclose(x.grad, 2.0 * k * X)
        np.testing.assert_allclose(w.grad, np.full(3, float(k)))

    repeated(step)


def test_a_hook_that_goes_back_into_the_same_leaf_is_added_to():
    x = leaf()
    for k in range(TIMES):
        x.grad = None
        y = x * 2.0
        y.register_hook(lambda g: (x * 10.0).sum().backward())
        (y * k).sum().backward()
        np.testing.assert_allclose(x.grad, np.full(3, 10.0 + 2.0 * k))


def test_retained_gradients_and_hooks_on_what_retains_them():
    def step(k):
        x = leaf(data(k))
        y = ad.sin(x)
        y.retain_grad()
        if k % 2:
            y.register_hook(lambda g: g * 2.0)
        (y * y).sum().backward()
        factor = 1 + k % 2
        np.testing.assert_allclose(y.grad, 2 * factor * np.sin(data(k)))
        np.testing.assert_allclose(x.grad, 2 * factor * np.sin(data(k)) * np.cos(data(k)))

    repeated(step, 12)


def test_what_is_kept_and_what_is_given_up_is_as_ever():
    for k in range(TIMES):
        x = leaf(data(k))
        y = ad.exp(x * 0.1)
        y.register_hook(lambda g: g * 2.0)
        loss = (y * y).sum()
        loss.backward(retain_graph=True)
        once = x.grad.numpy().copy()
        loss.backward()
        np.testing.assert_allclose(x.grad, 2 * once)
        np.testing.assert_allclose(loss.item(), np.exp(0.2 * data(k)).sum())
        with pytest.raises(ad.GradientError, match="retain_graph=True"):
            loss.backward()
        with pytest.raises(ad.GradientError, match="retain_graph=True"):
            y.sum().backward()


def test_one_tensor_for_two_leaves_gives_two_gradients():
    kept = ad.tensor([5.0, 6.0, 7.0])

    for _ in range(TIMES):
        x, w = leaf(), leaf()
        for t in (x, w):
            t.register_hook(lambda g: kept)
        (x + w).sum().backward()
        assert not np.shares_memory(x.grad.numpy(), w.grad.numpy())
        assert not np.shares_memory(x.grad.numpy(), kept.numpy())
        np.testing.assert_array_equal(x.grad, kept)
        v, u = leaf(), leaf()
        y = v + u
        y.register_hook(lambda g: None)
        y.sum().backward()
        assert not np.shares_memory(v.grad.numpy(), u.grad.numpy())


def test_versions_of_a_leaf_that_is_updated_in_place_belong_together():
    def step(k):
        x = leaf(data(k))
        x.register_hook(lambda g: g * 2.0)
        a = (x * x).sum()
        with ad.no_grad():
            x *= 3.0
        (a + (x * x).sum()).backward()
        np.testing.assert_allclose(x.grad, 16.0 * data(k))

    repeated(step)


def test_two_leaves_are_not_one():
    """The same recording with another leaf, and with one leaf twice."""
    for k in range(12):
        x = leaf(data(k))
        w = x if k % 3 == 2 else leaf(2.0 * X)
        y = x * w
        y.register_hook(lambda g: g * 3.0)
        w.register_hook(lambda g: g * 5.0)
        y.sum().backward()
        if w is x:
            np.testing.assert_allclose(x.grad, 30.0 * data(k))
        else:
            np.testing.assert_allclose(x.grad, 6.0 * X)
            np.testing.assert_allclose(w.grad, 15.0 * data(k))


def test_a_loss_that_lives_and_metrics_are_computed_along():
    def step(k):
        x = leaf(data(k))
        y = ad.exp(x * 0.1)
        y.register_hook(lambda g: g * 2.0)
        metric = y.detach().max()
        loss = (y * y).sum()
        loss.backward()
        runs = work().runs
        np.testing.assert_allclose(float(loss), np.exp(0.2 * data(k)).sum())
        np.testing.assert_allclose(float(metric), np.exp(0.1 * data(k)).max())
        assert work().runs == runs

    repeated(step)


def test_a_method_that_is_registered_later_changes_what_rules_record():
    @ad.function
    def twice(x):
        return x * 2.0

    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        return x * 1.0

    @f.backward(ad.Tensor)
    def _(ctx, g):
        return twice(g)

    for k in range(12):
        if k == 7:
            @twice.method(ad.Tensor)
            def _(x):
                return x * 20.0

        x = leaf()
        y = f(x)
        y.register_hook(lambda g: g + 1.0)
        y.sum().backward()
        np.testing.assert_allclose(x.grad, np.full(3, 4.0 if k < 7 else 40.0))


@pytest.mark.parametrize("seed", range(5))
def test_random_programs_with_hooks_are_as_without_anything_remembered(seed):
    rng = np.random.default_rng(seed)
    plan = [(rng.integers(5), rng.integers(8), rng.integers(6)) for _ in range(rng.integers(3, 12))]
    on_leaf = rng.integers(3)

    def run(k):
        x, w = parameter(data(k)), parameter(np.cos(data(k)))
        values, kept, seen = [x, w], [x, w], []
        for op, which, hook in plan:
            a, b = values[which % len(values)], values[-1]
            t = (a * b, ad.sin(a), a + 0.5 * b, ad.where(a > 0, a, b), (a - b.mean()) * 0.5)[op]
            if hook == 0:
                t.register_hook(lambda g: g * (1.0 + 0.1 * k))
            elif hook == 1:
                t.register_hook(lambda g: seen.append(g.numpy().copy()))
            elif hook == 2:
                t.register_hook(lambda g: g - g.mean())
            elif hook == 3:
                t.retain_grad()
                kept.append(t)
            values.append(t)
        if on_leaf == 0:
            x.register_hook(lambda g: g * 2.0)
        ad.sum(values[-1] * values[-2]).backward()
        return [None if t.grad is None else t.grad.numpy().copy() for t in kept] + seen

    found = [run(k) for k in range(6)]
    for k in (2, 5):
        ad.clear_cache()
        for mine, other in zip(found[k], run(k), strict=True):
            assert (mine is None) == (other is None)
            if mine is not None:
                np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)


def test_a_hook_runs_once_where_the_rule_before_it_is_not_known():
    for k, last in enumerate((ad.sin, ad.exp, ad.tanh, ad.cumsum, ad.sort, ad.softplus)):
        x, seen = leaf(), []
        a = ad.cos(last(x) * (0.5 + k))  # what comes before the hook is another operation each time
        a.register_hook(lambda g, seen=seen: seen.append(g) or 2.0 * g)
        ad.sin(a).sum().backward()
        expected = ad.grad(lambda v, last=last, k=k: 2.0 * ad.sin(ad.cos(last(v) * (0.5 + k))).sum())(X)
        np.testing.assert_allclose(x.grad, expected, rtol=1e-12)
        assert len(seen) == 1


def test_an_error_in_a_hook_that_is_known_changes_no_gradient():
    x = leaf()
    for k in range(TIMES):
        x.grad = None
        a, b = ad.sin(x), ad.cos(x)
        a.register_hook(lambda g, k=k: 1 / (k - 6) * g)
        product = (a * b).sum()
        if k == 6:
            with pytest.raises(ZeroDivisionError):
                product.backward()
            assert x.grad is None
        else:
            product.backward()
            np.testing.assert_allclose(x.grad, np.cos(X) ** 2 / (k - 6) - np.sin(X) ** 2, rtol=1e-12)


def test_a_hook_that_goes_back_itself_leaves_the_pass_around_it_as_it_is():
    inner = leaf()

    def hook(g):
        inner.grad = None
        t = ad.sin(inner)
        t.register_hook(lambda h: 3.0 * h)
        (t * t).sum().backward()
        return g + inner.grad

    for _ in range(TIMES):
        x = leaf()
        y = ad.exp(x)
        y.register_hook(hook)
        (y * 2.0).sum().backward()
        np.testing.assert_allclose(x.grad, np.exp(X) * (2.0 + 6 * np.sin(X) * np.cos(X)), rtol=1e-12)
