"""SEMANTICS 3: `ctx`.  Saved variables, lifetimes, needs_input_grad, attributes, memory that is lent."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest
from custom_functions import X, leaf, pair
from three_ways import gradients

import autodiff as ad

W = np.array([0.5, 0.25, -1.0])


def saving(save, backward):
    """sin(x), after save(ctx, x)."""

    def forward(ctx, x):
        save(ctx, x)
        return ad.sin(x)

    return pair(forward, backward)


# ---------------------------------------------------------------- save_for_backward


def test_names_order_and_none_are_kept():
    seen = []

    def backward(ctx, g):
        s = ctx.saved_variables
        seen.append((len(s), s[0], s[1] is None, s.text, s["flag"], s.nothing, list(s)[2:]))
        return g * 1.0

    f = saving(lambda ctx, x: ctx.save_for_backward(1.5, None, text="t", flag=True, nothing=None), backward)
    gradients(lambda x: f(x).sum(), X, kept=False)
    assert seen and all(s == (5, 1.5, True, "t", True, None, ["t", True, None]) for s in seen)


def test_inputs_outputs_and_intermediates_read_back_with_their_values():
    def forward(ctx, x):
        t = x * x
        y = t + 1.0
        ctx.save_for_backward(x=x, t=t, y=y)
        return y

    f = pair(forward, lambda ctx, g: g * (ctx.saved_variables.x + ctx.saved_variables.t + ctx.saved_variables.y))
    (g,) = gradients(lambda x: f(x).sum(), X)
    np.testing.assert_allclose(g, X + X**2 + X**2 + 1)


def test_a_saved_input_reads_back_as_that_input():
    f = saving(lambda ctx, x: ctx.save_for_backward(x=x), lambda ctx, g: g * ad.cos(ctx.saved_variables.x))
    h = ad.grad(lambda x: f(x).sum())
    np.testing.assert_allclose(ad.grad(lambda x: h(x).sum())(X), -np.sin(X))
    seen = []
    x = leaf()
    f = saving(lambda ctx, x: ctx.save_for_backward(x), lambda ctx, g: (seen.append(ctx.saved_variables[0]), g)[1])
    f(x).sum().backward()
    assert seen[0].is_leaf and seen[0].requires_grad


def test_a_number_that_nothing_was_saved_under_says_how_many_there_are():
    f = saving(lambda ctx, x: ctx.save_for_backward(x), lambda ctx, g: g * ctx.saved_variables[1])
    with pytest.raises(IndexError, match="saved_variables has 1 values, none of number 1"):
        f(leaf()).sum().backward()


def test_a_saved_output_reads_back_behind_its_rule():
    def forward(ctx, x):
        y = ad.exp(x)
        ctx.save_for_backward(y=y)
        return y

    # Wrong by intent: twice the derivative.  So the second derivative shows which rule was used.
    f = pair(forward, lambda ctx, g: 2.0 * g * ctx.saved_variables.y)
    second = ad.grad(lambda x: ad.grad(lambda x: f(x).sum())(x).sum())
    np.testing.assert_allclose(second(X), 4 * np.exp(X))
    np.testing.assert_allclose(ad.jit(second)(X), 4 * np.exp(X))


def test_a_second_call_is_an_error_that_names_the_line():
    def save(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_backward(x)

    f = saving(save, lambda ctx, g: g)
    for call in (lambda: f(leaf()), lambda: ad.jit(f)(X)):
        with pytest.raises(ad.GradientError, match=r"f: save_for_backward was called before.*\n.*test_context.py"):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda ctx, g: ctx.save_for_backward(g),
        lambda ctx, g: ctx.mark_dirty(g),
        lambda ctx, g: ctx.mark_non_differentiable(g),
        lambda ctx, g: ctx.set_materialize_grads(False),
    ],
)
def test_what_belongs_in_forward_is_refused_in_backward(call):
    f = pair(lambda ctx, x: x * 1.0, lambda ctx, g: call(ctx, g))
    for ask in (lambda: f(leaf()).sum().backward(), lambda: ad.jit(ad.grad(lambda x: f(x).sum()))(X)):
        with pytest.raises(ad.GradientError, match=r"belongs in forward; backward only reads\n.*test_context.py"):
            ask()


def test_saved_variables_read_by_name_attribute_and_position_and_as_a_tuple():
    seen = []

    def backward(ctx, g):
        s = ctx.saved_variables
        seen.append((s.x is not None, s["x"].shape, s[0].shape, s[-1], ctx.saved_tensors[1], type(ctx.saved_tensors)))
        return g

    f = saving(lambda ctx, x: ctx.save_for_backward(x=x, k=3), backward)
    f(leaf()).sum().backward()
    assert seen == [(True, (3,), (3,), 3, 3, tuple)]


def test_an_unknown_saved_name_lists_the_names_and_the_closest():
    f = saving(lambda ctx, x: ctx.save_for_backward(weight=x), lambda ctx, g: ctx.saved_variables.wieght)
    with pytest.raises(AttributeError, match=r"no 'wieght', only 'weight'; did you mean 'weight'\?"):
        f(leaf()).sum().backward()


def test_saved_and_parameter_names_win_over_any_attribute_of_the_record():
    @ad.function
    def f(index, count, keys): ...

    seen = []

    @f.forward
    def _(ctx, index, count, keys):
        seen.append(ctx.inputs.count)
        ctx.save_for_backward(index=1, count=2, keys=3, self=4, _values=5, _names=6)
        return index * 1.0

    @f.backward
    def _(ctx, g):
        s, needs = ctx.saved_variables, ctx.needs_input_grad
        seen.append((s.index, s.count, s.keys, s["self"], s._values, s._names))
        seen.append((needs.index, needs.count, needs.keys, ctx.inputs.keys))
        return g

    f(leaf(), "c", "k").sum().backward()
    assert seen == ["c", (1, 2, 3, 4, 5, 6), (True, False, False, "k")]


# ---------------------------------------------------------------- lifetimes


def test_reading_after_the_graph_is_released_is_an_error_that_names_retain_graph():
    kept = []

    def forward(ctx, x):
        ctx.note = x * 2.0
        ctx.save_for_backward(x=x)
        return x * 1.0

    f = pair(forward, lambda ctx, g: (kept.append((ctx, ctx.saved_variables)), g)[1])
    y = f(leaf()).sum()
    y.backward(retain_graph=True)
    ctx, saved = kept[0]
    assert saved.x.shape == ctx.saved_variables.x.shape == ctx.note.shape == (3,)
    y.backward()
    reads = (
        lambda: ctx.saved_variables, lambda: ctx.saved_tensors, lambda: ctx.inputs, lambda: ctx.outputs,
        lambda: ctx.note, lambda: saved.x, lambda: saved[0], lambda: list(saved),
    )
    for read in reads:
        with pytest.raises(ad.GradientError, match=r"(?s)f: .* after the graph was released.*retain_graph=True"):
            read()
    assert ctx.needs_input_grad.x is True


def test_attributes_belong_to_the_call():
    def forward(ctx, x):
        ctx.t = x * x
        ctx.power = 3.0
        return x * 1.0

    f = pair(forward, lambda ctx, g: g * ctx.t * ctx.power)
    gx, gw = gradients(lambda x, w: (f(x) + f(w)).sum(), X, W)
    np.testing.assert_allclose(gx, 3 * X**2)
    np.testing.assert_allclose(gw, 3 * W**2)


def test_an_attribute_that_forward_did_not_set_is_named():
    f = pair(lambda ctx, x: x * 1.0, lambda ctx, g: ctx.missing)
    with pytest.raises(AttributeError, match="ctx has no 'missing': forward did not set it"):
        f(leaf()).sum().backward()


def test_backward_reads_inputs_by_name_and_outputs_in_their_container():
    @ad.function
    def f(x, k=2.0): ...

    @f.forward(ad.Tensor)
    def _(ctx, x, k=2.0):
        return {"y": x * k, "n": 7, "i": ad.astype(x, ad.int64)}

    @f.backward(ad.Tensor)
    def _(ctx, g):
        out = ctx.outputs
        assert set(out) == {"y", "n", "i"} and out["n"] == 7 and out["i"].dtype == np.int64
        return {"x": g["y"] * ctx.inputs.k + 0.0 * out["y"] * ctx.inputs.x}

    (g,) = gradients(lambda x: f(x)["y"].sum(), X, kept=False)
    np.testing.assert_allclose(g, np.full(3, 2.0))


def test_no_reference_cycle_keeps_a_dropped_graph():
    def forward(ctx, x):
        ctx.t = x * 2.0
        ctx.save_for_backward(x=x, y=ctx.t)
        return ctx.t

    f = pair(forward, lambda ctx, g: g * 2.0 + 0.0 * ctx.t)
    gc.collect()
    gc.disable()
    try:
        for ends in (lambda y: None, lambda y: y.backward(), lambda y: y.item()):
            big = np.ones(1000)
            x = ad.tensor(big, requires_grad=True)
            dead = weakref.ref(x.node)
            y = f(x).sum()
            ends(y)
            del x, y
            assert dead() is None
    finally:
        gc.enable()


def test_ten_thousand_custom_calls_and_backwards_leave_memory_flat():
    f = saving(lambda ctx, x: ctx.save_for_backward(x=x), lambda ctx, g: g * ad.cos(ctx.saved_variables.x))
    x = leaf(np.ones(100))

    def loop(n):
        for _ in range(n):
            x.grad = None
            f(x).sum().backward()

    loop(50)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        loop(20)
        before = tracemalloc.get_traced_memory()[0]
        loop(1000)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        gc.enable()
    assert grown < 20_000, f"{grown} bytes in 1000 calls"


# ---------------------------------------------------------------- needs_input_grad


def three(seen):
    @ad.function
    def f(a, b, c=1.0, *, mode="m"): ...

    @f.forward
    def _(ctx, a, b, c=1.0, *, mode="m"):
        seen.append(dict(zip(("a", "b", "c", "mode"), ctx.needs_input_grad, strict=True)))
        return a * b * c

    @f.backward
    def _(ctx, g):
        needs = ctx.needs_input_grad
        seen.append((needs.a, needs.b, needs.c, needs.mode, needs[0], len(needs)))
        i = ctx.inputs
        return {"a": g * i.b if needs.a else None, "b": g * i.a if needs.b else None}

    return f


def test_needs_input_grad_has_an_entry_for_every_declared_parameter():
    seen = []
    f = three(seen)
    f(leaf(), ad.tensor(W)).sum().backward()
    assert seen == [{"a": True, "b": False, "c": False, "mode": False}, (True, False, False, False, True, 4)]


def test_needs_input_grad_is_true_only_for_what_the_caller_asked_for():
    for how in ("tensors", "inputs", "function", "jit"):
        seen = []
        f = three(seen)
        a, b = leaf(), leaf(W)
        if how == "tensors":
            ad.grad(f(a, b).sum(), [a])
        elif how == "inputs":
            f(a, b).sum().backward(inputs=[a])
            assert b.grad is None
        elif how == "function":
            ad.grad(lambda a, b, f=f: f(a, b).sum(), 0)(X, W)
        else:
            ad.jit(ad.grad(lambda a, b, f=f: f(a, b).sum(), 0))(X, W)
        assert seen[-1][:2] == (True, False), how


def test_what_is_asked_for_is_part_of_what_is_cached():
    f = three([])
    a, b = leaf(), leaf(W)
    for _ in range(3):
        (ga,) = ad.grad(f(a, b).sum(), [a])
        (gb,) = ad.grad(f(a, b).sum(), [b])
        np.testing.assert_array_equal(ga.numpy(), W)
        np.testing.assert_array_equal(gb.numpy(), X)


def test_needs_input_grad_and_saved_variables_are_read_only():
    def backward(ctx, g):
        for record in (ctx.needs_input_grad, ctx.saved_variables, ctx.inputs):
            with pytest.raises(AttributeError, match="read only"):
                record.x = False
        return g

    saving(lambda ctx, x: ctx.save_for_backward(x=x), backward)(leaf()).sum().backward()


# ---------------------------------------------------------------- values never change


def test_saved_tensors_cannot_be_corrupted():
    f = saving(lambda ctx, x: ctx.save_for_backward(x=x), lambda ctx, g: g * ad.cos(ctx.saved_variables.x))
    x = leaf()
    y = f(x * 1.0).sum()
    view = x.detach().numpy()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 100.0
    with ad.no_grad():
        x += 100.0
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(X))


def test_views_of_a_tensor_are_read_only_and_np_array_copies():
    t = ad.tensor(X)
    for view in (t.numpy(), np.asarray(t)):
        assert not view.flags.writeable
    copy = np.array(t)
    copy[0] = 50.0
    np.testing.assert_array_equal(t.numpy(), X)
