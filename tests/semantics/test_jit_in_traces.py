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
