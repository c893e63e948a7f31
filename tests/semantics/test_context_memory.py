"""SEMANTICS 3: NumPy memory that a pending graph still needs is its own."""

from __future__ import annotations

import contextlib
import gc
import weakref

import numpy as np
import pytest

import autodiff as ad


@pytest.fixture
def a():
    return np.array([1.0, 2.0, 3.0])


@pytest.fixture
def x():
    return ad.tensor([1.0, 10.0, 100.0], requires_grad=True)


def test_what_is_written_after_an_array_was_recorded_changes_nothing_and_no_lock_is_left(a, x):
    y, z = x * a, x + a
    assert a.flags.writeable
    a[0] = 7.0
    np.testing.assert_array_equal(y.detach().numpy(), [1.0, 20.0, 300.0])
    np.testing.assert_array_equal(z.detach().numpy(), [2.0, 12.0, 103.0])


@pytest.mark.parametrize("ask", [lambda y: y.backward(), lambda y: y.item(), lambda y: ad.grad(y, []) or float(y)])
def test_no_array_is_locked_before_or_after_an_ask(a, x, ask):
    y = (x * a).sum()
    assert a.flags.writeable
    ask(y)
    assert a.flags.writeable


@pytest.mark.parametrize("call", ["grad", "value_and_grad", "jacobian", "hessian", "jvp", "vjp"])
def test_what_a_call_from_plain_code_writes_through_an_earlier_view_changes_nothing(call):
    large, w = np.ones(2000), np.ones(2)
    earlier, kept = large[:], []

    def f(w):
        y = (w[0] * w[1] * large).sum()
        kept.append(y)
        earlier[0] = 7.0
        return y

    def called():
        kept.clear()
        large[0] = 1.0
        if call == "jvp":
            return ad.jvp(f, (w,), (w,))[1]
        return ad.vjp(f, w)[1](1.0)[0] if call == "vjp" else getattr(ad, call)(f)(w)

    whole = {
        "value_and_grad": (2000.0, [2000.0, 2000.0]), "hessian": [[0.0, 2000.0], [2000.0, 0.0]], "jvp": 4000.0,
    }  # fmt: skip
    for _ in range(3):
        np.testing.assert_equal(called(), whole.get(call, [2000.0, 2000.0]))
        assert large.flags.writeable
    large[:] = 0.0
    assert kept[0].item() == 2000.0


def test_what_something_live_still_needs_is_copied_at_the_ask(a, x):
    y = (x * a).sum()
    y.item()
    a[:] = 0.0
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 2.0, 3.0])
    t = ad.asarray(a)
    v = t.numpy()
    a[:] = 5.0
    assert not t.numpy().any() and not v.any()


def test_an_array_that_was_read_only_stays_so(a, x):
    a.flags.writeable = False
    (x * a).sum().backward()
    assert not a.flags.writeable


def test_a_view_and_foreign_memory_are_copied_when_recorded(a, x):
    view, foreign = a[:], np.frombuffer(bytearray(a.tobytes()))
    y, z = x * view, x * foreign
    view[0] = 50.0
    foreign[0] = 50.0
    np.testing.assert_array_equal(y.detach().numpy(), [1.0, 20.0, 300.0])
    np.testing.assert_array_equal(z.detach().numpy(), [1.0, 20.0, 300.0])


def test_ad_tensor_copies_and_locks_nothing(a):
    t = ad.tensor(a)
    assert a.flags.writeable
    a[0] = 9.0
    assert t.numpy()[0] == 1.0


def test_an_array_passed_to_a_custom_function_is_copied_like_any_other(a, x):
    @ad.function
    def f(x, w): ...

    @f.forward(ad.Tensor, ad.Tensor)
    def _(ctx, x, w):
        ctx.save_for_backward(w=w)
        return x * w

    @f.backward(ad.Tensor, ad.Tensor)
    def _(ctx, g):
        return {"x": g * ctx.saved_variables.w}

    for i in range(4):
        a[:] = i
        x.grad = None
        y = f(x, a).sum()
        a[:] = -1.0
        y.backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full(3, float(i)))


def test_no_transformation_called_from_plain_code_leaves_a_lock_or_holds_memory(a):
    w = np.ones(3)

    def f(w):
        return (w * w * a).sum()

    pullback = ad.vjp(f, w)[1]
    ways = (ad.grad(f), ad.value_and_grad(f), ad.jit(f), ad.jit(ad.grad(f)), lambda w: ad.jvp(f, (w,), (w,)))
    for call in ways:
        call(w)
        assert w.flags.writeable and a.flags.writeable
    w[:] = 100.0
    a[:] = 100.0
    np.testing.assert_array_equal(pullback(1.0)[0], [2.0, 4.0, 6.0])


FACTOR = np.full(3, 2.0)


def summed(w):
    return (w * w * FACTOR).sum()


#: Ways to call a transformation from plain code with one array.
CALLS = {
    "grad": lambda: ad.grad(summed), "value_and_grad": lambda: ad.value_and_grad(summed),
    "jvp": lambda: lambda w: ad.jvp(summed, (w,), (w,)), "vjp": lambda: lambda w: ad.vjp(summed, w)[1](1.0),
    "jit": lambda: ad.jit(summed), "jit of grad": lambda: ad.jit(ad.grad(summed)),
    "grad of jit": lambda: ad.grad(ad.jit(summed)), "vmap": lambda: ad.vmap(lambda x: x * 2),
    "vmap of grad": lambda: ad.vmap(ad.grad(lambda x: x * x)), "jit of vmap": lambda: ad.jit(ad.vmap(lambda x: x * 2)),
    "jacobian": lambda: ad.jacobian(lambda x: x * FACTOR), "hessian": lambda: ad.hessian(summed),
    "hvp": lambda: lambda w: ad.hvp(summed, (w,), (w,)), "checkpoint": lambda: ad.grad(ad.checkpoint(summed)),
    "scan": lambda: ad.grad(lambda x: ad.scan(lambda c, t: (c * t, c), 1.0, x)[0]),
    "a mistake": lambda: ad.jit(lambda w: w @ FACTOR[:2]), "a mistake in vmap": lambda: ad.vmap(float),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_call_from_plain_code_holds_no_argument_whether_it_is_new_or_known(name):
    call = CALLS[name]()
    gc.disable()
    try:
        for _ in range(5):
            w = np.linspace(0.5, 1.5, 3)
            given = weakref.ref(w)
            with contextlib.suppress(ad.Error):
                call(w)
            assert w.flags.writeable and FACTOR.flags.writeable
            del w
            assert given() is None
    finally:
        gc.enable()


def test_arrays_met_by_a_trace_count_with_their_present_contents(a):
    f = ad.jit(lambda w: (w * a).sum())
    w = np.ones(3)
    assert f(w) == 6.0
    a[:] = 10.0
    assert f(w) == 30.0
