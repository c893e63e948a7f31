"""Jacobians and Hessians whose passes are done many at once: the same as one by one, as small ones are."""

from __future__ import annotations

import numpy as np
import pytest
from custom_functions import squared

import autodiff as ad
from autodiff.transforms import second_order

RNG = np.random.default_rng(41)
N = 12
W = RNG.normal(size=(N, N)) / 3
X = RNG.normal(size=N)


def layers(x):
    return ad.tanh(W @ ad.tanh(ad.tensor(W) @ x)) * x


def energy(x):
    return (ad.sin(W @ x) ** 2).sum() + ad.exp(-(x @ x))


def nested(p):
    return {"y": ad.outer(p["a"], p["b"]).sum(axis=0), "z": p["a"] * p["a"].sum()}


twice = squared(lambda g, x: 2.0 * g * x)


@pytest.fixture
def one_by_one(monkeypatch):
    """The way of each where passes are few."""

    def run(f, *args):
        with monkeypatch.context() as patch:
            patch.setattr(second_order, "LIMIT", 0)
            return f(*args)

    return run


def assert_same(found, wanted):
    for a, b in zip(ad.tree.leaves(found), ad.tree.leaves(wanted), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


PROGRAMS = {
    "rows": (ad.jacobian(layers, mode="reverse"), X),
    "columns": (ad.jacobian(layers, mode="forward"), X),
    "hessian": (ad.hessian(energy), X),
    "rows, custom rule": (ad.jacobian(lambda x: twice(ad.sin(x)), mode="reverse"), X),
    "columns, custom rule": (ad.jacobian(lambda x: twice(ad.sin(x)), mode="forward"), X),
    "hessian, custom rule": (ad.hessian(lambda x: (twice(x) * x).sum()), X),
    "nested": (ad.jacobian(nested), {"a": X, "b": X[:10] * 2}),
    "nested columns": (ad.jacobian(nested, mode="forward"), {"a": X, "b": X[:10] * 2}),
    "a result that does not depend": (ad.jacobian(lambda x: (x * 2, ad.ones(N))), X),
    "a loop": (ad.jacobian(lambda x: ad.fori_loop(0, 3, lambda i, v: ad.sin(W @ v), x)), X),
    "float32": (ad.jacobian(lambda x: ad.tanh(x)), X.astype(np.float32)),
    "matrices": (ad.jacobian(lambda x: ad.linalg.inv(x)), np.eye(4) + 0.1 * RNG.normal(size=(4, 4))),
    "jacobian of a jacobian": (ad.jacobian(ad.jacobian(lambda x: ad.sin(x) * x[0])), X[:9]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_many_passes_at_once_are_what_each_is(name, one_by_one):
    f, x = PROGRAMS[name]
    wanted = one_by_one(f, x)
    assert_same(f(x), wanted)
    assert_same(ad.jit(f)(x), wanted)


@pytest.mark.parametrize("limit", [100, 150, N * N])
def test_large_passes_are_done_in_parts(limit, monkeypatch, one_by_one):
    for mode in ("forward", "reverse"):
        f = ad.jacobian(layers, mode=mode)
        wanted = one_by_one(f, X)
        with monkeypatch.context() as patch:
            patch.setattr(second_order, "LIMIT", limit)
            assert_same(f(X), wanted)
            assert_same(ad.jit(f)(X), wanted)


def test_a_jacobian_of_tensors_can_be_differentiated():
    def steepness(x):
        return (ad.jacobian(layers)(x) ** 2).sum()

    x = ad.tensor(X, requires_grad=True)
    steepness(x).backward()
    d, h = RNG.normal(size=N), 1e-6
    slope = (steepness(ad.tensor(X + h * d)).item() - steepness(ad.tensor(X - h * d)).item()) / (2 * h)
    np.testing.assert_allclose(x.grad.numpy() @ d, slope, rtol=1e-7)


def test_a_repeated_jacobian_compiles_once():
    f, h = ad.jacobian(layers), ad.hessian(energy)
    f(X), h(X)
    with ad.max_compiles(0):
        f(X + 1), h(X + 1)


def test_a_rule_that_needs_values_has_them():
    asking = squared(lambda g, x: g * ad.tensor(2 * np.asarray(x)) if float(g.sum()) else g * 0.0)
    np.testing.assert_allclose(ad.jacobian(asking)(X), np.diag(2 * X))


def test_a_rule_that_breaks_its_promise_is_told_as_ever():
    @ad.function
    def broken(x): ...

    @broken.forward
    def _(ctx, x: ad.Tensor):
        return x * x

    @broken.backward
    def _(ctx, g):
        return g[:-1]

    with pytest.raises(ad.ShapeError, match=r"broken.*test_jacobians\.py"):
        ad.jacobian(broken)(X)


def test_an_operation_without_a_batch_rule_is_gone_through_one_by_one(monkeypatch):
    from codegen.ir import OPS

    monkeypatch.setattr(OPS["cumsum"], "batch", None)
    np.testing.assert_allclose(ad.jacobian(ad.cumsum)(X), np.tril(np.ones((N, N))))


def test_a_host_forward_inside_is_run_as_ever():
    @ad.function
    def hosted(x): ...

    @hosted.forward(ad.Tensor, host=True)
    def _(ctx, x):
        ctx.save_for_backward(c=np.cos(x))
        return np.sin(x)

    @hosted.backward(ad.Tensor, host=True)
    def _(ctx, g):
        return g * ctx.saved_variables.c

    np.testing.assert_allclose(ad.jacobian(lambda x: hosted(x) * 2.0)(X), np.diag(2 * np.cos(X)))
    np.testing.assert_allclose(ad.jit(ad.jacobian(lambda x: hosted(x) * 2.0))(X), np.diag(2 * np.cos(X)))


KINKS = {
    "maximum": lambda x: (ad.maximum(x, 0.0) ** 2).sum(),
    "abs": lambda x: (ad.abs(x) ** 2 * x).sum() + ad.cos(ad.abs(x)).sum(),
    "norm": lambda x: ad.norm(x) ** 2,
}


@pytest.mark.parametrize("name", KINKS)
def test_at_a_kink_all_ways_to_a_hessian_give_the_same(name):
    f, x = KINKS[name], np.array([0.0, 1.0, -2.0, 0.0])
    t = ad.tensor(x, requires_grad=True)
    for _ in range(4):
        known = ad.hessian(f)(x)
        g = ad.grad(f(t), t, create_graph=True)
        rows = [ad.grad(g[i], t, retain_graph=True).numpy() for i in range(4)]
        np.testing.assert_allclose(known, np.stack(rows), rtol=1e-13)
        np.testing.assert_allclose(known, np.stack([ad.hvp(f, x, e) for e in np.eye(4)]), rtol=1e-13)
        np.testing.assert_allclose(known, ad.jacobian(ad.grad(f), mode="forward")(x), rtol=1e-13)
    if name == "maximum":
        np.testing.assert_allclose(known, np.diag([1.0, 2.0, 0.0, 1.0]))  # the mean of both sides
