"""SEMANTICS 7, what is left: what a trace meets counts with its present contents, whichever way the trace runs."""

from __future__ import annotations

import numpy as np
import pytest
from work_done import WAITING

import autodiff as ad

X = np.array([1.0, 2.0, 3.0])


@ad.function
def product(x, w): ...


@product.forward(ad.Tensor, ad.Tensor)
def _(ctx, x, w):
    ctx.save_for_backward(x=x, w=w)
    return x * w


@product.backward(ad.Tensor, ad.Tensor)
def _(ctx, g):
    s = ctx.saved_variables
    return g * s.w, g * s.x


def through_jit(w):
    inner = ad.jit(lambda x: product(x, w).sum())
    return ad.jit(lambda x: inner(x) * 1.0)


#: Functions of x that meet w, all with the value sum(x * w).
PROGRAMS = {
    "operation": lambda w: ad.jit(lambda x: (x * w).sum()),
    "custom function": lambda w: ad.jit(lambda x: product(x, w).sum()),
    "jit in jit": through_jit,
}


@pytest.mark.parametrize("pending", [False, True], ids=["known", "pending"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_captured_parameter_counts_with_its_present_value_and_gets_its_gradient(name, pending):
    w = ad.tensor(np.ones(3), requires_grad=True)
    if pending:
        with ad.no_grad():
            w *= 1.0  # pending when it is first met
    f = PROGRAMS[name](w)
    plain, tracking = ad.tensor(X), ad.tensor(X, requires_grad=True)
    for value in (1.0, 10.0, 100.0):
        w.grad = tracking.grad = None
        with ad.no_grad():
            w.fill_(value)
        assert f(X) == 6 * value
        assert f(plain).item() == 6 * value
        f(tracking).backward()
        np.testing.assert_array_equal(tracking.grad.numpy(), np.full(3, value))
        np.testing.assert_array_equal(w.grad.numpy(), X)
        f(plain).backward()
        np.testing.assert_array_equal(w.grad.numpy(), 2 * X)
        with ad.no_grad():
            assert not f(plain).requires_grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_training_loop_may_capture_its_parameters(name):
    w = ad.tensor(np.zeros(3), requires_grad=True)
    f = PROGRAMS[name](w)
    x = ad.tensor(X)
    for _ in range(200):
        w.grad = None
        ((f(x) - 14.0) ** 2).backward()
        with ad.no_grad():
            w -= 0.01 * w.grad
    assert f(X) == pytest.approx(14.0)
    np.testing.assert_allclose(w.detach().numpy(), X, rtol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_captured_array_counts_with_its_present_contents_also_where_gradients_flow(name):
    k = np.ones(3)
    f = PROGRAMS[name](k)
    x = ad.tensor(X, requires_grad=True)
    compiled = ad.jit(ad.grad(lambda x: f(x)))
    for value in (1.0, 10.0, 100.0):
        k[:] = value
        x.grad = None
        f(x).backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full(3, value))
        np.testing.assert_array_equal(ad.grad(f)(X), np.full(3, value))
        np.testing.assert_array_equal(compiled(X), np.full(3, value))


def test_a_gradient_with_respect_to_a_captured_tensor_is_that_at_its_present_value():
    w = ad.tensor(np.ones(3), requires_grad=True)
    f = ad.jit(lambda x: ad.grad(lambda w: (x * w * w).sum())(w))
    for value in (1.0, 10.0):
        with ad.no_grad():
            w.fill_(value)
        np.testing.assert_array_equal(np.asarray(f(X)), 2 * value * X)


def test_a_captured_tensor_may_come_to_require_a_gradient():
    w = ad.tensor(np.ones(3))
    f, x = ad.jit(lambda x: (x * w).sum()), ad.tensor(X)
    assert not f(x).requires_grad
    w.requires_grad_()
    f(x).backward()
    np.testing.assert_array_equal(w.grad.numpy(), X)


@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype):DeprecationWarning")
def test_a_captured_array_of_another_shape_or_dtype_is_traced_again():
    k = np.arange(3.0)
    f = ad.jit(lambda x: x * k)
    np.testing.assert_array_equal(f(X), X * k)
    k.shape = (3, 1)
    np.testing.assert_array_equal(f(X), X * k)
    k.dtype = np.int64
    np.testing.assert_array_equal(f(X), X * k)
    np.testing.assert_array_equal(f(ad.tensor(X)).numpy(), X * k)


#: What a trace may do with w first: each works on a handle of its own inside of the library.
FIRST = {
    "reshape": lambda w, x: w.reshape(3, 1) * x,
    "transpose": lambda w, x: w.T @ x,
    "new axis": lambda w, x: w[:, None] * x,
    "gather": lambda w, x: w[np.array([0, 2])] * x[:2],
    "slice": lambda w, x: w[1:] * x[1:],
    "cast": lambda w, x: ad.astype(w, ad.float64) * x,
    "plus": lambda w, x: (+w) * x,
    "broadcast": lambda w, x: ad.broadcast_to(w, (2, 3)) * x,
    "stack": lambda w, x: ad.stack([w, x]),
    "einsum": lambda w, x: ad.einsum("i,i", w, x),
    "copy": lambda w, x: ad.tensor(w) * x,
    "copy in another dtype": lambda w, x: ad.tensor(w, dtype=ad.float32) * x,
    "detach": lambda w, x: w.detach() * x,
    "diagonal": lambda w, x: ad.Diagonal(w) @ x,
    "loop": lambda w, x: ad.fori_loop(0, 2, lambda i, c: c * w, x),
    "branch": lambda w, x: ad.cond(x.sum() > 0.0, lambda x: x * w, lambda x: x, x),
    "checkpoint": lambda w, x: ad.checkpoint(lambda x: x * w)(x),
    "only": lambda w, x: w,
    "among others": lambda w, x: (x, [w, x * w]),
}


@pytest.mark.parametrize("tracks", [True, False], ids=["parameter", "data"])
@pytest.mark.parametrize("name", FIRST)
def test_whatever_a_trace_does_with_a_captured_tensor_first_its_present_value_counts(name, tracks):
    g = FIRST[name]
    w = ad.tensor(np.ones(3), requires_grad=tracks)
    f = ad.jit(lambda x: g(w, x))
    for value in (1.0, 7.0):
        with ad.no_grad():
            w.fill_(value)
        expected = [np.array(t.detach()) for t in ad.tree.leaves(g(w, ad.tensor(X)))]
        for x in (X, ad.tensor(X), ad.tensor(X, requires_grad=True)):
            found = [np.array(t.detach() if isinstance(t, ad.Tensor) else t) for t in ad.tree.leaves(f(x))]
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b)


def test_inspect_lists_what_is_frozen_and_the_hidden_inputs():
    c, k, w = 2.5, np.arange(3.0), ad.tensor(np.ones(3), requires_grad=True)
    tape = ad.inspect(lambda x: x * c + k * w, "f64[3]").tape
    lines = tape.splitlines()
    told = [line.partition(", test_remaining_jit.py")[0].partition(" = ") for line in lines]
    assert sorted([(name, what) for name, _, what in told if "hidden input" in what]) == [
        ("w", "leaf: f64[3]  # hidden input, grad"), ("x2", "leaf: f64[3]  # hidden input"),
    ]
    assert [(name, what) for name, _, what in told if "frozen" in what] == [("c", "number 2.5: f64[]  # frozen")]
    assert "hidden" not in ad.inspect(ad.ones(3) * 2.0).tape


def test_a_slice_with_a_traced_start_is_refused_with_what_to_write():
    data = np.arange(100.0).reshape(50, 2)
    said = r"(?s)f64\[50,2\].*test_remaining_jit.py.*ad\.take\(x, start \+ ad\.arange\(size\), axis=0\)"
    with pytest.raises(ad.ConcretizationError, match=said):
        ad.jit(lambda x, i: x[i : i + 5].sum())(data, 3)
    f = ad.jit(lambda x, i: ad.take(x, i + ad.arange(5), axis=0).sum())
    f(data, 0)
    with ad.max_compiles(0):
        for i in range(46):
            assert f(data, i) == data[i : i + 5].sum()
        with pytest.raises(IndexError):
            f(data, 46)


def test_a_long_trace_never_asks_for_values():
    def long(x):
        for _ in range(3 * WAITING):
            x = x + 1.0
        return x

    assert ad.inspect(long, "f64[2]").tape.count("add(") == 3 * WAITING
