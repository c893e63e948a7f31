"""In-place changes of tensors that a differentiated or traced function captures, and of copies of them."""

import numpy as np
import pytest
from covering import covering

import autodiff as ad

ONES = np.ones(2)


def _item(t, x):
    t[0] = x[1]


UPDATES = {
    "+=": lambda t, x: t.__iadd__(x),
    "*=": lambda t, x: t.__imul__(x),
    "[0] =": _item,
    "add_": lambda t, x: t.add_(x),
    "copy_": lambda t, x: t.copy_(x),
}
DIFFERENTIATED = {
    "grad": lambda f: ad.grad(f)(ONES),
    "grad at a tensor": lambda f: ad.grad(f)(ad.tensor(ONES)),
    "value_and_grad": lambda f: ad.value_and_grad(f)(ONES),
    "vjp": lambda f: ad.vjp(f, ONES),
    "jvp": lambda f: ad.jvp(f, ONES, ONES),
    "jacobian": lambda f: ad.jacobian(f)(ONES),
    "hessian": lambda f: ad.hessian(f)(ONES),
    "hvp": lambda f: ad.hvp(f, ONES, ONES),
    "grad of grad": lambda f: ad.grad(lambda x: ad.sum(ad.grad(f)(x)))(ONES),
    "check_gradients": lambda f: ad.check_gradients(f, ONES),
}
TRACED = {
    "jit": lambda f: ad.jit(f)(ONES),
    "vmap": lambda f: ad.vmap(lambda _: f(ad.tensor(ONES)))(ONES),
    "checkpoint": lambda f: ad.checkpoint(f)(ONES),
}


def _captured(kind):
    leaf = ad.tensor([1.0, 2.0], requires_grad=True)
    return {"plain": ad.tensor([1.0, 2.0]), "computed": ad.ones(2) * 2.0, "with a history": leaf * 2.0}[kind]


def _learnt(update, kind):
    """The same updates of tensors that a function made itself: what is recorded natively from then on."""

    def f(x):
        t = {"plain": lambda: ad.zeros(2), "computed": lambda: ad.ones(2) * 2.0}.get(kind, lambda: _captured(kind))()
        t = t.copy()
        update(t, x)
        update(t, x)
        return ad.sum(t * x)

    for _ in range(3):
        ad.grad(f)(ONES)


@covering(update=UPDATES, route=DIFFERENTIATED | TRACED, kind=("plain", "computed", "with a history"))
def test_no_captured_tensor_keeps_the_history_of_an_argument(update, route, kind):
    _learnt(UPDATES[update], kind)
    t = _captured(kind)
    before, tracked = t.detach().numpy().copy(), t.requires_grad

    def f(x):
        UPDATES[update](t, x)
        return ad.sum(t * x)

    for _ in range(2):
        with pytest.raises((ad.GradientError, ad.ConcretizationError), match=r"captured tensor(.|\n)*test_captured"):
            (DIFFERENTIATED | TRACED)[route](f)
    np.testing.assert_array_equal(t.detach().numpy(), before)
    assert t.requires_grad is tracked


COPIES = {
    "copy": lambda t: t.copy(),
    "detach": lambda t: t.detach(),
    "+t": lambda t: +t,
    "t[...]": lambda t: t[...],
    "t[:]": lambda t: t[:],
    "T": lambda t: t.T,
    "reshape": lambda t: t.reshape(2),
    "astype": lambda t: ad.astype(t, ad.float64),
    "asarray": lambda t: ad.asarray(t, copy=True),
    "tensor": lambda t: ad.tensor(t.numpy()),
    "broadcast_to": lambda t: ad.broadcast_to(t, (2,)),
    "stop_gradient": ad.stop_gradient,
    "squeeze": ad.squeeze,
    "real": ad.real,
    "product": lambda t: t * 1.0,
}


@covering(copy=COPIES, route=["grad", "jit of grad", "grad of jit", "vmap", "checkpoint", "hessian"], update=UPDATES)
def test_a_copy_of_a_captured_tensor_is_changed_as_any_value(copy, route, update):
    if copy == "tensor" and route != "grad" and route != "hessian":
        pytest.skip("a trace has no values")
    w = ad.tensor([1.0, 2.0])

    def f(x):
        t = COPIES[copy](w)
        UPDATES[update](t, x)
        return ad.sum(t * x * x)

    x = np.array([3.0, 5.0])
    run = {
        "grad": ad.grad(f),
        "jit of grad": ad.jit(ad.grad(f)),
        "grad of jit": ad.grad(ad.jit(f)),
        "vmap": lambda x: ad.vmap(ad.grad(f))(x[None])[0],
        "checkpoint": ad.grad(ad.checkpoint(f)),
        "hessian": ad.hessian(f),
    }[route]
    a, b = [1.0, 2.0], x
    first = {
        "+=": 2 * np.multiply(a, b) + 3 * b**2, "add_": 2 * np.multiply(a, b) + 3 * b**2,
        "*=": 3 * np.multiply(a, b**2), "[0] =": np.array([2 * 5 * 3, 9 + 2 * 2 * 5.0]), "copy_": 3 * b**2,
    }[update]  # fmt: skip
    second = {
        "+=": np.diag(2 * np.array(a) + 6 * b), "add_": np.diag(2 * np.array(a) + 6 * b),
        "*=": np.diag(6 * np.multiply(a, b)), "[0] =": np.array([[10.0, 6.0], [6.0, 4.0]]), "copy_": np.diag(6 * b),
    }[update]  # fmt: skip
    for _ in range(3):
        np.testing.assert_allclose(run(x), second if route == "hessian" else first, rtol=1e-13)
        np.testing.assert_array_equal(w.numpy(), [1.0, 2.0])


def test_a_value_is_noted_under_no_grad_and_an_outer_history_stays():
    seen, leaf = ad.zeros(2), ad.tensor([1.0, 2.0], requires_grad=True)
    total = leaf * 2.0

    def f(x):
        with ad.no_grad():
            seen.copy_(x)
        total.add_(leaf)
        return ad.sum(x * x)

    np.testing.assert_array_equal(ad.grad(f)(np.array([3.0, 4.0])), [6.0, 8.0])
    np.testing.assert_array_equal(seen.numpy(), [3.0, 4.0])
    assert not seen.requires_grad and total.requires_grad
    ad.sum(total).backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), [3.0, 3.0])


def test_an_inner_function_keeps_no_argument_of_its_own_in_a_tensor_of_the_outer_one():
    def outer(x):
        t = ad.zeros(2)

        def inner(y):
            t.add_(y)
            return ad.sum(t * y)

        return ad.sum(ad.grad(inner)(x))

    def outside(x):
        t = ad.zeros(2)
        t.add_(x)
        return ad.sum(ad.grad(lambda y: ad.sum(t * y * y))(x))

    with pytest.raises(ad.GradientError, match="captured tensor"):
        ad.grad(outer)(ONES)
    np.testing.assert_array_equal(ad.grad(outside)(ONES), [4.0, 4.0])


@covering(place=("after", "before", "keyword"), update=UPDATES)
def test_an_argument_that_is_not_differentiated_is_changed_as_any_value(place, update):
    given = ad.ones(2) * 2.0

    def f(x, t):
        UPDATES[update](t, x)
        return ad.sum(t * x)

    for _ in range(3):
        if place == "after":
            ad.grad(f)(ONES, given)
        elif place == "before":
            ad.grad(lambda t, x: f(x, t), argnums=1)(given, ONES)
        else:
            ad.grad(f)(ONES, t=given)
        np.testing.assert_array_equal(given.numpy(), [2.0, 2.0])
        assert not given.requires_grad
