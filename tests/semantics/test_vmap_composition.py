"""`vmap` with everything else: the same as a Python loop over the examples, stacked."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from example_loops import assert_same, evaluated, looped

import autodiff as ad

RNG = np.random.default_rng(11)
X = RNG.normal(size=(5, 3))
Y = RNG.normal(size=5)
W = RNG.normal(size=(3, 3))
A = RNG.normal(size=(5, 3, 3))


def energy(w, x):
    return (ad.tanh(w @ x) * x).sum() + ad.exp(-(x @ x))


def features(w, x):
    return {"h": ad.sin(w @ x), "n": ad.logsumexp(x) * x[0]}


def loss(w, x, y):
    return (ad.tanh(x @ w).sum() - y) ** 2


PROGRAMS = {
    "value": (energy, (None, 0)),
    "nested result": (features, (None, 0)),
    "gradient by what is shared": (ad.grad(energy), (None, 0)),
    "gradient by what differs": (ad.grad(energy, 1), (None, 0)),
    "gradients by both": (ad.grad(energy, (0, 1)), (None, 0)),
    "value and gradient": (ad.value_and_grad(energy, 1), (None, 0)),
    "gradient of a gradient": (ad.grad(lambda w, x: (ad.grad(energy, 1)(w, x) ** 2).sum()), (None, 0)),
    "pullback": (lambda w, x: ad.vjp(energy, w, x)[1](ad.tensor(2.0)), (None, 0)),
    "tangent": (lambda w, x: ad.jvp(lambda x: energy(w, x), (x,), (x * 2,)), (None, 0)),
    "hessian times direction": (lambda w, x: ad.hvp(lambda x: energy(w, x), x, x), (None, 0)),
    "jacobian": (lambda w, x: ad.jacobian(lambda x: ad.sin(w @ x))(x), (None, 0)),
    "jacobian by columns": (lambda w, x: ad.jacobian(lambda x: ad.sin(w @ x), mode="forward")(x), (None, 0)),
    "hessian": (ad.hessian(energy, 1), (None, 0)),
    "jit": (ad.jit(energy), (None, 0)),
    "gradient of jit": (ad.grad(ad.jit(energy), 1), (None, 0)),
    "jit of a gradient": (ad.jit(ad.grad(energy, 1)), (None, 0)),
    "vmap": (ad.vmap(energy, (0, None)), (None, 0)),
    "vmap of a gradient": (ad.vmap(ad.grad(energy, 1), (0, None)), (None, 0)),
    "gradient of vmap": (ad.grad(lambda w, x: ad.vmap(lambda r: ad.sin(r) @ x)(w).sum(), (0, 1)), (None, 0)),
    "checkpoint": (ad.grad(ad.checkpoint(energy), 1), (None, 0)),
    "everything differs": (ad.grad(energy, (0, 1)), (0, 0)),
    "only the weights differ": (ad.grad(energy, (0, 1)), (0, None)),
}  # fmt: skip


def arguments(in_axes):
    return (W if in_axes[0] is None else A), (X if in_axes[1] is not None else X[0])


@pytest.mark.parametrize("name", PROGRAMS)
def test_vmap_of_a_transformed_function_is_a_loop(name):
    f, in_axes = PROGRAMS[name]
    args = arguments(in_axes)
    wanted = evaluated(looped(f, in_axes), *map(ad.tensor, args))
    assert_same(ad.vmap(f, in_axes)(*args), wanted)
    assert_same(ad.vmap(f, in_axes)(*map(ad.tensor, args)), wanted)
    mapped = ad.jit(ad.vmap(f, in_axes))
    assert_same(mapped(*args), wanted)
    assert_same(mapped(*args), wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_gradient_through_vmap_is_one_through_a_loop(name):
    f, in_axes = PROGRAMS[name]
    args = arguments(in_axes)

    def total(run):
        return lambda *a: sum([ad.sin(y).sum() for y in ad.tree.leaves(run(f, in_axes)(*a))], ad.tensor(0.0))

    wanted = evaluated(ad.grad(total(looped), (0, 1)), *args)
    assert_same(ad.grad(total(ad.vmap), (0, 1))(*args), wanted, 9)
    assert_same(ad.jit(ad.grad(total(ad.vmap), (0, 1)))(*args), wanted, 9)
    leaves = [ad.tensor(a, requires_grad=True) for a in args]
    total(ad.vmap)(*leaves).backward()
    assert_same([t.grad for t in leaves], wanted, 9)
    direction = tuple(RNG.normal(size=a.shape) for a in args)
    _, found = ad.jvp(total(ad.vmap), args, direction)
    np.testing.assert_allclose(found, sum((g * d).sum() for g, d in zip(wanted, direction, strict=True)), rtol=1e-8)


def test_the_gradient_of_a_mean_loss():
    found = ad.grad(lambda w: ad.vmap(loss, (None, 0, 0))(w, X, Y).mean())(W)
    np.testing.assert_allclose(found, np.mean([ad.grad(loss)(W, x, y) for x, y in zip(X, Y, strict=True)], 0))


def test_gradients_of_each_example_are_clipped_before_they_are_added():
    def clipped(w, x, y):
        g = ad.grad(loss)(w, x, y)
        return g / ad.maximum(1.0, ad.linalg.norm(g))

    found = ad.jit(lambda w: ad.vmap(clipped, (None, 0, 0))(w, X, Y).sum(axis=0))(W)
    each = [ad.grad(loss)(W, x, y) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(found, sum(g / max(1.0, np.linalg.norm(g)) for g in each))


def test_three_deep():
    f = ad.vmap(ad.vmap(ad.vmap(lambda a, b: ad.exp(a) * b, (0, None)), (None, 0)), (0, None))
    y = f(X, Y)
    np.testing.assert_allclose(y, np.exp(X)[:, None, :] * Y[None, :, None])
    g = ad.grad(lambda x: f(x, Y).sum())(X)
    np.testing.assert_allclose(g, np.exp(X) * Y.sum())


def test_an_inner_vmap_maps_what_an_outer_one_does_not():
    y = ad.vmap(lambda r: ad.vmap(lambda c: r @ c)(ad.tensor(W).T))(X)
    np.testing.assert_allclose(y, X @ W)


def test_tensors_that_are_captured_get_their_gradients():
    w = ad.tensor(W, requires_grad=True)
    x = ad.tensor(X, requires_grad=True)
    ad.vmap(lambda x: energy(w, x))(x).sum().backward()
    assert_same([w.grad, x.grad], ad.grad(lambda w, x: looped(energy, (None, 0))(w, x).sum(), (0, 1))(W, X))


def test_a_captured_tensor_counts_at_every_call_of_jit():
    w = ad.tensor(W)
    f = ad.jit(ad.vmap(lambda x: energy(w, x)))
    assert_same(f(X), looped(energy, (None, 0))(ad.tensor(W), ad.tensor(X)))
    w += 1.0
    assert_same(f(X), looped(energy, (None, 0))(ad.tensor(W + 1), ad.tensor(X)))


def test_perturbations_are_not_confused():
    g = ad.grad(lambda x: ad.vmap(lambda y: ad.grad(lambda z: x * y * z)(y))(Y).sum())(np.array(2.0))
    np.testing.assert_allclose(g, Y.sum())


def test_no_grad_inside_stays_so():
    def f(x):
        with ad.no_grad():
            scale = x * x
        return ad.stop_gradient(x) * scale * x

    x = ad.tensor(X, requires_grad=True)
    ad.vmap(f)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), X**3)
    np.testing.assert_allclose(ad.vmap(ad.grad(lambda x: f(x).sum()))(X), X**3)


def test_under_no_grad_nothing_is_tracked():
    x = ad.tensor(X, requires_grad=True)
    with ad.no_grad():
        y = ad.vmap(lambda x: x * x)(x)
    assert not y.requires_grad


def test_a_hook_sees_the_gradient_of_each_example():
    seen = []

    def f(x):
        y = x * 2.0
        y.register_hook(lambda g: seen.append(g.shape) or g / ad.sqrt((g * g).sum()))
        return ad.sin(y)

    x = ad.tensor(X, requires_grad=True)
    for _ in range(2):
        x.grad = None
        ad.vmap(f)(x).sum().backward()
    g = np.cos(2 * X)
    np.testing.assert_allclose(x.grad.numpy(), 2 * g / np.linalg.norm(g, axis=1, keepdims=True))
    assert seen == [(3,), (3,)]


def test_a_hook_on_an_argument_can_be_removed():
    handles = []

    def f(x):
        handles.append(x.register_hook(lambda g: g * 10.0))
        return ad.sin(x)

    x = ad.tensor(X, requires_grad=True)
    y = ad.vmap(f)(x).sum()
    y.backward(retain_graph=True)
    np.testing.assert_allclose(x.grad.numpy(), 10 * np.cos(X))
    handles[0].remove()
    x.grad = None
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(X))


def test_a_repeated_call_compiles_once():
    f = ad.grad(lambda w: ad.vmap(loss, (None, 0, 0))(w, X, Y).mean())
    f(W)
    with ad.max_compiles(0):
        for _ in range(3):
            f(W + 1)
            ad.vmap(energy, (None, 0))
    g = ad.jit(ad.vmap(ad.grad(loss), (None, 0, 0)))
    g(W, X, Y)
    with ad.max_compiles(0):
        g(W, X, Y)


def test_one_product_serves_all_examples():
    text = str(ad.inspect(ad.vmap(lambda w, x: w @ x, (None, 0)), "f64[64,64]", "f64[128,64]").graph)
    assert text.count("matmul") == 1 and "f64[128,64] = matmul" in text
    gradient = ad.grad(lambda w, x: ad.vmap(lambda x: ad.tanh(x @ w).sum())(x).sum())
    text = str(ad.inspect(gradient, "f64[64,64]", "f64[128,64]").graph)
    assert all(len(line.partition(":")[2].partition("=")[0].split(",")) == 2
               for line in text.splitlines() if "matmul" in line)  # fmt: skip


def test_a_shared_matrix_is_factored_once():
    text = str(ad.inspect(ad.vmap(ad.linalg.solve, (None, 0)), "f64[3,3]", "f64[50,3]").graph)
    assert "f64[3,50] = solve(" in text
    np.testing.assert_allclose(ad.vmap(ad.linalg.solve, (None, 0))(W, X), np.linalg.solve(W, X.T).T)


def test_both_branches_are_run_where_examples_choose_differently():
    def f(x):
        return ad.cond(x > 0, lambda x: ad.linalg.inv(ad.reshape(x, (1, 1)))[0, 0], lambda x: x, x)

    np.testing.assert_allclose(ad.vmap(f)(np.array([2.0, -4.0])), [0.5, -4.0])
    with pytest.raises(ad.LinAlgError):
        ad.vmap(f)(np.array([2.0, 0.0]))


def test_a_dropped_result_is_freed_at_once():
    x = ad.tensor(X, requires_grad=True)

    def f(x):
        y = ad.sin(x)
        y.register_hook(lambda g: g * 2.0)
        return (y * x).sum()

    kept = []
    gc.collect()
    gc.disable()
    try:
        y = ad.vmap(lambda x: kept.append(weakref.ref(x)) or f(x))(x)
        assert kept[0]() is None
        y.sum().backward()
        seen = weakref.ref(y)
        del y
        assert seen() is None
    finally:
        gc.enable()


def test_eager_mode_gives_the_same():
    wanted = ad.vmap(ad.grad(energy, (0, 1)), (None, 0))(W, X)
    ad.config.eager = True
    try:
        found = ad.vmap(ad.grad(energy, (0, 1)), (None, 0))(W, X)
    finally:
        ad.config.eager = False
    assert_same(found, wanted)
