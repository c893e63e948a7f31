"""Functions of one example, and bodies of loops, are recorded natively; what a trace refuses is refused there too."""

import numpy as np
import pytest
from spied import calls_of_python, is_unwatched

import autodiff as ad

XS = np.arange(12.0).reshape(4, 3)


def operations(x, w):
    return ad.sum(ad.exp(x * w) - 2.0 / (x[1:] @ w[:-1] + 9.0), axis=0) + w


def test_operations_on_an_example_run_no_python(native):
    """Examples of a tensor: those of an array dispatch as arrays once any function has a method for `np.ndarray`."""
    w, seen = ad.tensor([0.1, 0.2, 0.3], requires_grad=True), []

    def one(x):
        called, y = calls_of_python(lambda: operations(x, w))
        seen.append(called)
        return y

    for _ in range(6):
        found = ad.vmap(one)(ad.tensor(XS))
    assert seen[-1] == ["operations"]
    np.testing.assert_array_equal(found.detach(), [operations(ad.tensor(x), w).detach() for x in XS])
    gradients = ad.vmap(ad.grad(lambda x: ad.sum(one(x))))(XS)
    np.testing.assert_array_equal(gradients, [ad.grad(lambda x: ad.sum(operations(x, w)))(x) for x in XS])


def test_a_trace_inside_of_an_example_still_sees_what_is_met(native):
    held = ad.tensor([1.0, 2.0, 3.0])
    inner = ad.jit(lambda x: ad.sum(x * held))
    for _ in range(4):
        np.testing.assert_array_equal(ad.vmap(lambda x: inner(x) * 2.0)(XS), 2.0 * XS @ held.numpy())
        with ad.no_grad():
            held += 1.0
    assert is_unwatched()


def set_item(t):
    t[0] = 1.0


def add_in_place(t):
    t += 1.0


REFUSED = {
    "in place": (add_in_place, ad.ConcretizationError, "in-place change of a captured tensor"),
    "an element": (set_item, ad.ConcretizationError, "in-place change of a captured tensor"),
    "a gradient": (lambda t: setattr(t, "grad", None), ad.GradientError, "inside a traced function"),
    "backward": (lambda t: ad.sum(t * t).backward(), ad.GradientError, "inside a traced function"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_example_may_not_do_to_what_is_captured_is_refused_natively(name, native):
    change, error, says = REFUSED[name]
    held = ad.tensor([1.0, 2.0, 3.0], requires_grad=name in ("a gradient", "backward"))

    def f(x):
        change(held)
        return x * held

    for _ in range(4):
        with pytest.raises(error, match=says):
            ad.vmap(f)(XS)
        assert is_unwatched()
    np.testing.assert_array_equal(held.detach(), [1.0, 2.0, 3.0])


def test_the_body_of_a_loop_runs_no_python_and_leaves_arrays_as_they_were(native):
    w, c, seen = ad.tensor([0.1, 0.2, 0.3], requires_grad=True), np.array([1.0, 2.0, 3.0]), []

    def body(_, h):
        called, y = calls_of_python(lambda: ad.sin(h * w) + h[0])
        seen.append(called)
        return y * c

    def by_hand(h):
        for _ in range(3):
            h = (ad.sin(h * w) + h[0]) * c
        return h

    for k in range(6):
        h = XS[1] * (k + 1)
        found = ad.fori_loop(0, 3, body, h)
        np.testing.assert_allclose(found.detach(), by_hand(ad.tensor(h)).detach(), rtol=1e-14)
        assert c.flags.writeable
        c[0] = k
    assert seen[-1] == []
    for change, error, says in REFUSED.values():
        held = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
        with pytest.raises(error if error is ad.GradientError else (error, ad.GradientError), match=says):
            ad.fori_loop(0, 3, lambda _, h, change=change, held=held: (change(held), h * 2.0)[1], XS[1])
    assert is_unwatched()


def test_the_value_of_an_example_is_refused_natively(native):
    for ask in (float, bool, lambda t: t.item(), lambda t: t.numpy(), np.asarray):
        for _ in range(3):
            with pytest.raises(ad.ConcretizationError, match="value of a traced argument"):
                ad.vmap(lambda x, ask=ask: x * ask(x[0]))(XS)


def test_an_array_that_an_example_closes_over_is_the_callers_again_when_the_call_returns(native):
    c = np.array([1.0, 2.0, 3.0])

    def both(x):
        return x * c + 1.0, 3

    of_all = ad.vmap(both)
    for k in range(5):
        np.testing.assert_array_equal(of_all(XS)[0], XS * c + 1.0)
        assert c.flags.writeable
        c[:] = k
