"""`jacobian`, `hessian` and `hvp`."""

from __future__ import annotations

import numpy as np
import pytest
from transformed import RNG, A, X, close, cube

import autodiff as ad

# ---------------------------------------------------------------- jacobian, hessian, hvp


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_a_jacobian_has_the_results_axes_then_the_arguments(mode):
    def f(x):
        return ad.asarray(A) @ ad.sin(x)

    expected = A * np.cos(X)
    for run in (ad.jacobian(f, mode=mode), ad.jit(ad.jacobian(f, mode=mode))):
        for _ in range(2):
            got = run(X)
            assert type(got) is np.ndarray
            close(got, expected)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_jacobian_of_nests_is_a_nest_of_nests(mode):
    def f(p, k):
        return {"s": (p["a"] * k).sum(), "m": ad.outer(p["a"], p["b"])}

    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])
    j = ad.jacobian(f, mode=mode)({"a": a, "b": b}, 2.0)
    close(j["s"]["a"], [2.0, 2.0])
    close(j["s"]["b"], np.zeros(3))
    close(j["m"]["a"], np.einsum("ik,j->ijk", np.eye(2), b))
    close(j["m"]["b"], np.einsum("i,jk->ijk", a, np.eye(3)))
    jk = ad.jacobian(f, argnums=1, mode=mode)({"a": a, "b": b}, 2.0)
    assert jk["s"] == 3.0 and jk["m"].shape == (2, 3)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_jacobian_of_empty_and_scalar_arrays(mode):
    assert ad.jacobian(lambda x: x * x, mode=mode)(np.zeros((0, 2))).shape == (0, 2, 0, 2)
    assert ad.jacobian(lambda x: x * x, mode=mode)(3.0) == 6.0
    assert ad.jacobian(lambda x: x[:0], mode=mode)(X).shape == (0, 4)


def test_a_jacobian_compiles_as_often_for_many_rows_as_for_few():
    def f(x):
        return ad.sin(x) * x.sum()

    for mode in ("forward", "reverse"):
        before = ad.cache_info().compiles
        ad.jacobian(f, mode=mode)(np.ones(97))
        assert ad.cache_info().compiles - before <= 3


def test_auto_takes_the_mode_with_fewer_passes():
    order = []

    @ad.function
    def seen(t): ...

    @seen.forward
    def _(ctx, t: ad.Tensor):
        return t * 2.0

    @seen.backward
    def _(ctx, g):
        order.append("backward")
        return g * 2.0

    ad.jacobian(lambda x: seen(x).sum())(np.ones(50))
    assert len(order) <= 1


def test_a_hessian_over_several_arguments_is_a_nest_of_blocks():
    def f(x, y):
        return (x * x * y).sum()

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    h = ad.hessian(f, argnums=(0, 1))(x, y)
    close(h[0][0], np.diag(2 * y))
    close(h[0][1], np.diag(2 * x))
    close(h[1][0], np.diag(2 * x))
    close(h[1][1], np.zeros((2, 2)))


def test_hvp_takes_one_primal_or_several():
    def f(x, y):
        return (x * x * y).sum()

    x, y, v, w = (RNG.normal(size=2) for _ in range(4))
    hx, hy = ad.hvp(f, (x, y), (v, w))
    close(hx, 2 * y * v + 2 * x * w)
    close(hy, 2 * x * v)
    p = {"x": x}
    close(ad.hvp(lambda p: (p["x"] ** 3).sum(), p, {"x": v})["x"], 6 * x * v)


def test_a_jacobian_of_a_tensor_keeps_its_history():
    w = ad.tensor([1.0, 2.0], requires_grad=True)
    for mode in ("forward", "reverse"):
        w.grad = None
        j = ad.jacobian(lambda x: w * x * x, mode=mode)(ad.tensor([3.0, 4.0]))
        j.sum().backward()
        close(w.grad, [6.0, 8.0])


def test_custom_second_and_third_order_through_a_saved_intermediate():
    derivatives = [cube, ad.grad(cube), ad.grad(ad.grad(cube)), ad.grad(ad.grad(ad.grad(cube)))]
    for _ in range(2):
        close([float(d(1.5)) for d in derivatives], [1.5**3, 3 * 1.5**2, 6 * 1.5, 6.0])


# ---------------------------------------------------------------- leaves that are no float arrays

DERIVATIVES = {
    "grad": lambda f, x: ad.grad(f)(x),
    "jacobian": lambda f, x: ad.jacobian(f)(x),
    "forward": lambda f, x: ad.jacobian(f, mode="forward")(x),
    "hessian": lambda f, x: ad.hessian(f)(x),
    "hvp": lambda f, x: ad.hvp(f, x, x),
}


def cubed(p):
    return (p["x"] ** 3).sum()


@pytest.mark.parametrize("other", [True, "relu", None, np.sin, frozenset([1])], ids=str)
def test_what_is_no_array_stays_in_its_place_but_a_hessian_refuses_it(other):
    given = {"x": X, "other": other}
    for name in ("grad", "jacobian", "forward"):
        found = DERIVATIVES[name](cubed, given)
        close(found["x"], 3 * X**2)
        assert found["other"] is other
    found = ad.hvp(cubed, (given,), ({"x": X, "other": None},))
    close(found["x"], 6 * X**2)
    assert found["other"] is None
    with pytest.raises(ad.GradientError, match=r"hessian: an argument of cubed holds (None|an? )"):
        ad.hessian(cubed)(given)


@pytest.mark.parametrize("other", [3, np.int64(3), np.arange(3), ad.tensor([1, 2])], ids=str)
@pytest.mark.parametrize("name", DERIVATIVES)
def test_integers_in_a_container_are_refused(name, other):
    with pytest.raises(ad.DTypeError, match=r"\['other'\] of .*cubed is int64: only float arrays have gradients"):
        DERIVATIVES[name](cubed, {"x": X, "other": other})
