"""A jit function that closes over values of a trace that is going on: of another jit, a loop, vmap."""

import numpy as np
import pytest

import autodiff as ad

X = np.array([0.3, -0.4, 1.5])


def around(x):
    """y -> y * x * sin(x), at y = x."""
    inner = ad.jit(lambda y: y * x * ad.sin(x))
    return inner(x) + inner(2 * x)


def wanted(x):
    return 3 * x * x * np.sin(x)


def slope(x):
    return 6 * x * np.sin(x) + 3 * x * x * np.cos(x)


def bend(x):
    return 6 * np.sin(x) + 12 * x * np.cos(x) - 3 * x * x * np.sin(x)


def summed(x):
    return ad.sum(around(x))


WAYS = {
    "jit": (ad.jit(around), wanted),
    "vmap": (ad.vmap(around), wanted),
    "jit of vmap": (ad.jit(ad.vmap(around)), wanted),
    "grad": (ad.grad(summed), slope),
    "jit of grad": (ad.jit(ad.grad(summed)), slope),
    "jit of grad of jit": (ad.jit(ad.grad(ad.jit(summed))), slope),
    "vmap of grad": (ad.vmap(ad.grad(around)), slope),
    "jit of grad of grad": (ad.jit(ad.grad(lambda x: ad.sum(ad.grad(summed)(x)))), bend),
    "jit of jvp": (ad.jit(lambda x: ad.jvp(around, (x,), (ad.ones_like(x),))[1]), slope),
    "checkpoint": (ad.jit(ad.grad(lambda x: ad.sum(ad.checkpoint(around)(x)))), slope),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_jit_function_may_close_over_what_is_being_traced_or_differentiated(way):
    f, reference = WAYS[way]
    for x in (X, X + 1, X[:2]):
        np.testing.assert_allclose(f(x), reference(x), rtol=1e-13)


def test_a_jit_function_may_close_over_the_state_of_a_loop():
    def powers(x):
        return ad.scan(lambda c, _: (ad.jit(lambda y: y * c)(x), c), x, None, 3)[0]

    np.testing.assert_allclose(ad.jit(powers)(X), X**4, rtol=1e-14)
    np.testing.assert_allclose(ad.jit(ad.grad(lambda x: ad.sum(powers(x))))(X), 4 * X**3, rtol=1e-14)
    doubled = ad.jit(lambda x: ad.fori_loop(0, 3, lambda _, c: ad.jit(lambda: c + c)(), x))
    np.testing.assert_array_equal(doubled(X), 8 * X)
    either = ad.jit(lambda x: ad.cond(x[0] > 0, lambda y: ad.jit(lambda z: y * z)(x), lambda y: -y, x))
    np.testing.assert_array_equal(either(X), X * X)
    np.testing.assert_array_equal(either(-X), X)


def test_what_one_trace_closes_over_is_not_kept_for_the_next_call():
    held = []
    shared = ad.jit(lambda y: y * held[-1])

    @ad.jit
    def outer(x):
        held.append(x)
        return shared(ad.ones_like(x))

    np.testing.assert_array_equal(outer(X), X)
    held.append(ad.tensor(7.0))
    np.testing.assert_array_equal(shared(X), 7 * X)
    np.testing.assert_array_equal(outer(2 * X[:2]), 2 * X[:2])


def bare(x):
    """y -> y * x * sin(x), at 1 and 2: no argument is a tensor."""
    inner = ad.jit(lambda y: y * x * ad.sin(x))
    return inner(1.0) + inner(np.full(3, 2.0))


WAYS_OF_BARE = {
    "grad": (ad.grad(lambda x: ad.sum(bare(x))), lambda x: 3 * (np.sin(x) + x * np.cos(x))),
    "jvp": (lambda x: ad.jvp(bare, x, np.ones(3))[1], lambda x: 3 * (np.sin(x) + x * np.cos(x))),
    "vjp": (lambda x: ad.vjp(bare, x)[1](np.ones(3))[0], lambda x: 3 * (np.sin(x) + x * np.cos(x))),
    "hessian": (
        ad.hessian(lambda x: ad.sum(bare(x))),
        lambda x: np.diag(3 * (2 * np.cos(x) - x * np.sin(x))),
    ),
    "jacobian": (ad.jacobian(bare, mode="forward"), lambda x: np.diag(3 * (np.sin(x) + x * np.cos(x)))),
    "no argument": (
        ad.grad(lambda x: ad.sum(ad.jit(lambda: x * ad.sin(x))())),
        lambda x: np.sin(x) + x * np.cos(x),
    ),
}


@pytest.mark.parametrize("is_eager", [False, True], ids=["recorded", "eager"])
@pytest.mark.parametrize("way", WAYS_OF_BARE)
def test_what_is_differentiated_is_not_lost_where_no_argument_of_jit_is_a_tensor(way, is_eager):
    f, reference = WAYS_OF_BARE[way]
    ad.config.eager = is_eager
    try:
        for x in (X, X + 1):
            np.testing.assert_allclose(f(x), reference(x), rtol=1e-13)
    finally:
        ad.config.eager = False


def test_nested_gradients_reach_a_jit_function_without_arguments():
    def slope_squared(c):
        return ad.grad(lambda w: ad.jit(lambda: w * c)())(2.0) ** 2

    assert ad.grad(slope_squared)(5.0) == 10.0
    assert ad.grad(ad.grad(lambda w: ad.jit(lambda: w * w * w)()))(3.0) == 18.0


def test_a_jit_function_that_plain_code_has_called_gives_tensors_where_one_differentiates():
    w = ad.tensor(2.0, requires_grad=True)
    f = ad.jit(lambda y: ad.sum(w * y))

    def many(x):
        scaled = ad.jit(lambda y: ad.sum(x * y))
        return sum([scaled(X + i) * f(X) for i in range(5)])

    for _ in range(5):  # from the second call on by a caller, later by machine code alone
        assert f(X) == pytest.approx(2.8)
    assert type(f(X)) is np.float64
    assert ad.grad(many)(3.0) == pytest.approx(2.8 * np.sum([X + i for i in range(5)]))
    out, _ = ad.vjp(many, ad.tensor(3.0))
    out.backward()
    assert w.grad.item() == pytest.approx(3 * 1.4 * np.sum([X + i for i in range(5)]))
    assert type(f(X)) is np.float64


def test_a_rule_may_use_a_jit_function_that_closes_over_its_cotangent():
    @ad.function
    def square(x): ...

    @square.forward(ad.Tensor)
    def _(ctx, x):
        ctx.save_for_backward(x=x)
        return x * x

    @square.backward(ad.Tensor)
    def _(ctx, g):
        x = ctx.saved_variables.x
        return ad.jit(lambda two: g * x * two)(2.0)

    for value in (1.0, 2.0, 3.0, 4.0):
        x = ad.tensor(value, requires_grad=True)
        square(x).backward()
        assert x.grad.item() == 2 * value
    g = ad.grad(square(x), x, create_graph=True)
    with pytest.raises(ad.GradientError, match="made of asked values"):
        g.backward()
