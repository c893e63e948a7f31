"""A call of a pair is the same in straight-line code as it is in general: what it returns, keeps, and says."""

from __future__ import annotations

import importlib
import threading

import numpy as np
import pytest

import autodiff as ad

X, Y = np.array([1.0, -2.0, 3.0]), np.array([0.5, 1.5, -1.0])


def saving(*values, **named):
    """A forward that saves functions of (x, y, c, out)."""

    def forward(ctx, x, y, c):
        t = x * y
        out = t * 2.0 + y
        given = (x, y, c, out, t)
        ctx.save_for_backward(*[v(*given) for v in values], **{k: v(*given) for k, v in named.items()})
        return out

    return forward


def with_attribute(ctx, x, y, c):
    ctx.factor = c
    ctx.t = x * y
    return ctx.t * 2.0 + y


def without_gradients_for_unused(ctx, x, y, c):
    ctx.set_materialize_grads(False)
    return x * y * 2.0 + y


def of_two(ctx, x, y, c):
    return x * y * 2.0 + y, x + y


def of_a_dict(ctx, x, y, c):
    t, out = x * y, x * y * 2.0 + y
    ctx.save_for_backward(t=t, again=t, x=x, out=out, c=c)
    ctx.factor, ctx.out, ctx.t = 2.0, out, t
    return {"out": out, "more": (out, x, [t])}


def of_a_tuple_with_no_zeros(ctx, x, y, c):
    ctx.set_materialize_grads(False)
    ctx.y = y
    return x * y * 2.0 + y, y, y


def of_a_list_and_an_attribute(ctx, x, y, c):
    ctx.save_for_backward(y, None, "text")
    ctx.x, ctx.number = x, 3
    return [x * y * 2.0 + y]


def of_a_tensor_and_a_number(ctx, x, y, c):
    return x * y * 2.0 + y, 7


def of_nothing_but_a_container(ctx, x, y, c):
    ctx.kept = [x, y]
    return x * y * 2.0 + y, x


def with_a_name_of_the_context(ctx, x, y, c):
    ctx.inputs_ = x
    ctx.saved_tensors = x
    return x * y * 2.0 + y


def with_a_constant(ctx, x, y, c):
    out, place = x * y * 2.0 + y, y * 1.0
    ctx.mark_non_differentiable(place)
    return out, place


def of_an_array(ctx, x, y, c):
    return x.detach().numpy() * y.detach().numpy() * 2.0 + y.detach().numpy()


def that_asks(ctx, x, y, c):
    ctx.save_for_backward(s=float(x.sum()))
    return x * y * 2.0 + y


def that_changes(ctx, x, y, c):
    x *= y
    x *= 2.0
    x += y
    ctx.mark_dirty(x)
    return x


FORWARDS = {
    "inputs": saving(x=lambda x, y, c, out, t: x, y=lambda x, y, c, out, t: y),
    "by position": saving(lambda x, y, c, out, t: y, lambda x, y, c, out, t: None, lambda x, y, c, out, t: x),
    "an intermediate, twice": saving(a=lambda x, y, c, out, t: t, b=lambda x, y, c, out, t: t),
    "the output": saving(out=lambda x, y, c, out, t: out, x=lambda x, y, c, out, t: x),
    "numbers and text": saving(c=lambda x, y, c, out, t: c, d=lambda *_: 2.5, e=lambda *_: "text", f=lambda *_: (1, 2)),
    "an array": saving(a=lambda x, y, c, out, t: np.arange(3.0)),
    "a container": saving(d=lambda x, y, c, out, t: {"t": t, "c": [c, None]}),
    "nothing": lambda ctx, x, y, c: x * y * 2.0 + y,
    "an input returned": lambda ctx, x, y, c: x,
    "attributes": with_attribute,
    "no zeros": without_gradients_for_unused,
    "two outputs": of_two,
    "a dict": of_a_dict,
    "inputs among the outputs": of_a_tuple_with_no_zeros,
    "a list and an attribute": of_a_list_and_an_attribute,
    "a tensor and a number": of_a_tensor_and_a_number,
    "a container that is set": of_nothing_but_a_container,
    "a name that is taken": with_a_name_of_the_context,
    "a marked output": with_a_constant,
    "an array returned": of_an_array,
    "a value asked for": that_asks,
    "in place": that_changes,
    "a list returned": lambda ctx, x, y, c: [x * y * 2.0 + y],
}


def pair(forward):
    @ad.function
    def f(x, y, c=3.0): ...

    f.forward(ad.Tensor, ad.Tensor, object)(forward)

    @f.backward(ad.Tensor, ad.Tensor, object)
    def _(ctx, *bars):
        bar = bars[0]["out"] if isinstance(bars[0], dict) else bars[0][0] if isinstance(bars[0], list) else bars[0]
        x, y = ctx.inputs.x, ctx.inputs.y
        return {"x": 2.0 * y * bar, "y": (2.0 * x + 1.0) * bar if ctx.needs_input_grad.y else None}

    return f


def untracked(f, x, y, c):
    """Everything that can be seen of a call that no gradient is wanted of."""
    a, b = ad.tensor(x, requires_grad=True), ad.tensor(y)
    found = []
    for arguments in ((a.detach(), b), (a, b)):
        with ad.no_grad():
            given = (arguments[0] * 1.0, b) if y is not x else arguments[:1] * 2
            try:
                result = f(*given, *c)
            except (ad.Error, AttributeError) as error:
                found.append([str(error).partition("\n")[0], len(getattr(error, "__notes__", ()))])
                continue
        leaves = ad.tree.leaves(result)
        tensors = [t for t in leaves if isinstance(t, ad.Tensor)]
        found.append([
            ad.tree.flatten(result)[1], [type(t) for t in leaves], [t.requires_grad for t in tensors],
            [t.masked for t in tensors], [t.detach().numpy().tolist() for t in (*tensors, given[0])],
        ])  # fmt: skip
    return found


def called(f, x, y, c):
    """Everything that can be seen of one call and its backward."""
    a = ad.tensor(x, requires_grad=True)
    b = ad.tensor(y, requires_grad=True) if y is not x else a
    try:
        result = f(a * 1.0, b, *c) if y is not x else f(a, a, *c)
    except ad.GradientError as error:
        return [str(error).partition("\n")[0], len(getattr(error, "__notes__", ()))]
    leaves = [t for t in ad.tree.leaves(result) if isinstance(t, ad.Tensor)]
    calls = [call_of(t) for t in leaves]
    leaves[0].sum().backward()
    return {
        "structure": ad.tree.flatten(result)[1],
        "values": [t.detach().numpy().tolist() for t in leaves],
        "tracks": [t.requires_grad for t in leaves],
        "gradients": [None if t.grad is None else t.grad.numpy().tolist() for t in (a, b)],
        "shape": [c and c.shape for c in calls],
        "statics": [c and repr(c.statics) for c in calls],
        "rest": [c and (c.avals, c.opaque, c.token, c.types, str(c.line).partition(":")[0]) for c in calls],
    }


def call_of(t):
    node = t.node
    return node.inputs[0].call if node.slot is not None else node.call


CALLS = [(c, y) for c in ((2.0,), (), (None,), ("text",)) for y in (Y, X)]


def both(make, monkeypatch, called=called):
    """The calls in straight-line code, and in general."""
    f = make()
    straight = [called(f, X, y, c) for c, y in CALLS]
    monkeypatch.setattr(importlib.import_module("autodiff.custom.forward"), "_are_leaves", lambda _site: False)
    f = make()
    return straight, [called(f, X, y, c) for c, y in CALLS]


@pytest.mark.parametrize("name", FORWARDS)
def test_a_call_is_what_it_is_in_general(name, monkeypatch):
    straight, general = both(lambda: pair(FORWARDS[name]), monkeypatch)
    assert straight == general


@pytest.mark.parametrize("name", FORWARDS)
def test_a_call_that_no_gradient_is_wanted_of_is_what_it_is_in_general(name, monkeypatch):
    def forward(ctx, x, y, c):
        assert tuple(ctx.needs_input_grad) == (False, False, False)
        assert not (x.requires_grad or y.requires_grad)
        return FORWARDS[name](ctx, x, y, c)

    straight, general = both(lambda: pair(forward), monkeypatch, untracked)
    assert straight == general


@pytest.mark.parametrize("name", ["nothing", "an input returned", "two outputs", "a list returned"])
def test_a_method_with_a_rule_is_what_it_is_in_general(name, monkeypatch):
    forward = FORWARDS[name]

    def make():
        @ad.function
        def f(x, y, c=3.0): ...

        f.method(ad.Tensor, ad.Tensor, object)(lambda x, y, c: forward(None, x, y, c))
        f.backward(ad.Tensor, ad.Tensor, object)(lambda ctx, *g: {"x": ctx.inputs.y * 2.0, "y": ctx.inputs.x})
        return f

    straight, general = both(make, monkeypatch)
    assert straight == general


def test_inside_a_forward_inputs_are_masked_and_the_result_is_not():
    seen = []

    def forward(ctx, x, y, c):
        seen.append((x.requires_grad, y.requires_grad, inner(x, y).requires_grad, tuple(ctx.needs_input_grad)))
        return x * y

    inner, f = pair(FORWARDS["inputs"]), pair(forward)
    assert f(ad.tensor(X, requires_grad=True), Y).requires_grad
    assert seen == [(False, False, False, (True, False, False))]


def test_a_forward_runs_each_time_and_without_gradients_too():
    ran = []

    def forward(ctx, x, y, c):
        ran.append(c)
        return x * y

    f = pair(forward)
    x = ad.tensor(X, requires_grad=True)
    for i in range(3):
        f(x, x, i)
        with ad.no_grad():
            assert not f(x, x * 1.0, i).requires_grad
        assert not f(X, ad.tensor(Y), i).requires_grad
    assert ran == [i for i in range(3) for _ in range(3)]


def test_an_error_in_a_forward_names_it_and_the_line_of_the_call():
    def forward(ctx, x, y, c):
        raise ValueError("no good")

    f = pair(forward)
    x = ad.tensor(X, requires_grad=True)
    with pytest.raises(ValueError, match="no good") as caught:
        f(x, x * 2.0)
    (note,) = caught.value.__notes__
    assert note.startswith("in the forward method of f (test_custom_straight.py:")
    assert "called at test_custom_straight.py:" in note and "test_an_error_in_a_forward" in note
    assert (x * 2.0).requires_grad, "the recording is not inside a forward any more"


def test_the_line_of_a_call_is_the_user_s_also_where_a_thread_begins_with_it():
    f = pair(FORWARDS["inputs"])
    x, y = ad.tensor(X, requires_grad=True), ad.tensor(Y)
    (made,) = map(f, [x], [y])
    assert "test_the_line_of_a_call" in str(call_of(made).line)
    found = []
    threads = [threading.Thread(target=lambda: found.append(f(x, y))) for _ in range(2)]
    for t in threads:
        t.start()
        t.join()
    assert ["<lambda>" in str(call_of(t).line) for t in found] == [True, True]


def test_what_calls_share_is_one_object():
    f, g = pair(FORWARDS["numbers and text"]), pair(FORWARDS["numbers and text"])
    x, y = ad.tensor(X, requires_grad=True), ad.tensor(Y)
    first, second, other = [call_of(h(x, y, c)) for h, c in ((f, 1.0), (f, 2.0), (g, 3.0))]
    assert first.shape is second.shape is other.shape
    assert first.statics == (1.0, 1.0, 2.5, "text", 1, 2) and second.statics[:2] == (2.0, 2.0)


def test_a_call_in_a_forward_that_reads_an_input_of_it_refuses_gradients_through_that():
    @ad.function
    def outer(x, a): ...

    @outer.forward(ad.Tensor, ad.Tensor)
    def _(ctx, x, a):
        @ad.function
        def inner(u): ...

        inner.forward(ad.Tensor)(lambda c, u: ad.sin(u) * x)
        inner.backward(ad.Tensor)(lambda c, g: g * ad.cos(c.inputs.u) * x)
        t = inner(a)
        ctx.save_for_backward(t=t)
        return t * 1.0

    outer.backward(ad.Tensor, ad.Tensor)(lambda ctx, g: {"x": g * ctx.saved_variables.t, "a": None})
    x, a = ad.tensor(2.0, requires_grad=True), ad.tensor(0.5, requires_grad=True)
    (slope,) = ad.grad(outer(x, a), (x,), create_graph=True)
    with pytest.raises(ad.GradientError, match="inner: a gradient is wanted through 'x'"):
        ad.grad(slope, (x,))
