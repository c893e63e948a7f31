"""Lines of SEMANTICS that no other test holds by itself; README.md here says which test holds which line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from three_ways import gradients

import autodiff as ad

X = np.array([1.0, -2.0, 3.0])
LIMITS = Path(__file__).parents[2] / "docs" / "limits.md"


def pair(forward, backward, types=(ad.Tensor,)):
    @ad.function
    def f(x): ...

    f.forward(*types)(forward)
    f.backward(*types)(backward)
    return f


# ---------------------------------------------------------------- None


def test_a_leaf_reached_only_by_none_has_nothing_computed_for_it():
    def never(ctx, g):
        raise AssertionError("a gradient was made of None")

    below = pair(lambda ctx, x: x * 2.0, never)
    stops = pair(lambda ctx, x: x * 3.0, lambda ctx, g: None)
    for _ in range(3):
        x, y = (ad.tensor(X, requires_grad=True) for _ in range(2))
        (stops(below(x)) * y).sum().backward()
        assert x.grad is None
        np.testing.assert_array_equal(y.grad.numpy(), 6 * X)
    g = ad.jit(ad.grad(lambda x, y: (stops(below(x)) * y).sum(), (0, 1)))
    for _ in range(3):
        np.testing.assert_array_equal(g(X, X), (np.zeros(3), 6 * X))
    graph = str(ad.inspect(lambda x: (stops(ad.sin(x)) * 5.0).sum(), X, backward=True).graph)
    assert "cos" not in graph


# ---------------------------------------------------------------- what the docs say


def test_the_docs_say_which_writes_are_not_seen():
    for text in (LIMITS.read_text(encoding="utf-8"), ad.tensor.__doc__):
        assert "a write to one of these before the call returns is not noticed" in " ".join(text.split())


# ---------------------------------------------------------------- numbers and names


class Meters(float):
    """A number that is no plain float."""


def test_a_number_of_another_class_than_pythons_own_is_strong():
    x = ad.tensor([1.0], dtype=ad.float32)
    for weak in (True, 2, 2.0):
        assert (x * weak).dtype == (weak * x).dtype == np.float32
    for strong in (np.float64(2.0), Meters(2.0)):
        assert (x * strong).dtype == (strong * x).dtype == np.float64
        assert ad.jit(lambda x, c: x * c)(x, strong).dtype == np.float64
    assert (x * 2j).dtype == np.complex64


def test_steps_and_result_extents_are_static_and_right():
    x = np.arange(12.0)
    for step in (1, 2, 3, -1, -2):
        (g,) = gradients(lambda x, s=step: (x[::s] * np.arange(float(len(x[::s])))).sum(), x)
        expected = np.zeros(12)
        expected[::step] = np.arange(float(len(x[::step])))
        np.testing.assert_array_equal(g, expected)
    for rows in (1, 2, 3, 4, 6, 12):
        (g,) = gradients(lambda x, r=rows: (ad.reshape(x, (r, 12 // r))[0] * 2.0).sum(), x)
        np.testing.assert_array_equal(g, np.where(x < 12 // rows, 2.0, 0.0))


def test_another_random_key_compiles_nothing():
    @ad.jit
    def noisy(x, key):
        return (x * ad.random.normal(key, (3,))).sum()

    def recorded(x, key):
        return (ad.tensor(x) * ad.random.normal(key, (3,))).sum().item()

    for f in (noisy, recorded):
        for seed in range(6):
            found = f(X, ad.random.key(seed))
            np.testing.assert_allclose(found, X @ ad.random.normal(ad.random.key(seed), (3,)).numpy(), rtol=1e-14)
            if seed == 2:
                compiles = ad.cache_info().compiles
        assert ad.cache_info().compiles == compiles


factor = 2.0
table = np.array([1.0, 1.0, 1.0])


def test_a_name_that_is_bound_again_is_not_seen_by_a_trace(monkeypatch):
    f = ad.jit(lambda x: x * factor + table)
    before = f(X)
    np.testing.assert_array_equal(before, 2 * X + 1)
    monkeypatch.setitem(globals(), "factor", 5.0)
    old = table
    monkeypatch.setitem(globals(), "table", np.zeros(3))
    np.testing.assert_array_equal(f(X), before)
    old[:] = 7.0
    try:
        np.testing.assert_array_equal(f(X), 2 * X + 7)  # the array itself is an input, with its present contents
    finally:
        old[:] = 1.0


# ---------------------------------------------------------------- dispatch


def test_rules_are_keyed_on_the_types_of_the_inputs():
    """A call takes a matrix and gives a number: its rules are those written for a matrix."""

    @ad.function
    def total(x): ...

    @total.forward(ad.Tensor)
    def _(ctx, x):
        ctx.save_for_backward(x=x)
        return ad.sum(x)

    total.backward(ad.Scalar)(lambda ctx, g: g * 1000.0)
    rule = total.backward(ad.Matrix)(lambda ctx, g: g * 2.0 * ad.ones((2, 2)))
    total.jvp(ad.Scalar)(lambda ctx, dx: dx * 1000.0)
    total.jvp(ad.Matrix)(lambda ctx, dx: ad.sum(dx) * 2.0)
    (g,) = gradients(total, np.ones((2, 2)))
    np.testing.assert_array_equal(g, np.full((2, 2), 2.0))
    assert ad.jvp(total, (np.ones((2, 2)),), (np.ones((2, 2)),)) == (4.0, 8.0)
    assert ad.which_backward(total, np.ones((2, 2))).method is rule


#: Each type contains the next ones.
LATTICE = [
    (ad.AbstractTensor, ad.Tensor), (ad.Tensor, ad.Tensor[ad.float32]), (ad.Tensor, ad.Matrix),
    (ad.Tensor[ad.float32], ad.Tensor[ad.float32, 2]), (ad.Matrix, ad.Tensor[ad.float32, 2]),
    (ad.Tensor[ad.floating], ad.Tensor[ad.float32]), (ad.Tensor[ad.floating], ad.Tensor[ad.float64, 3]),
    (ad.Tensor[ad.integer], ad.Tensor[ad.int32, 1]), (ad.AbstractTensor[..., 2], ad.Matrix),
    (ad.AbstractTensor[..., 2], ad.Diagonal), (ad.AbstractTensor, ad.Diagonal),
]  # fmt: skip


@pytest.mark.parametrize(("wide", "narrow"), LATTICE)
def test_the_lattice_of_tensor_types_is_as_it_is_written(wide, narrow):
    assert issubclass(narrow, wide) and not issubclass(wide, narrow)

    @ad.function
    def f(x): ...

    for first, second in ((wide, narrow), (narrow, wide)):  # whichever is registered first
        kept = {t: f.method(t)(lambda x: x) for t in (first, second)}
        assert ad.which(f, narrow).method is kept[narrow] and ad.which(f, wide).method is kept[wide]
        for method in kept.values():
            method.delete()


def test_names_of_ranks_are_types_of_the_lattice():
    assert ad.Tensor[..., 0] is ad.Scalar and ad.Tensor[..., 1] is ad.Vector and ad.Tensor[..., 2] is ad.Matrix
    assert not issubclass(ad.Tensor[ad.int32], ad.Tensor[ad.floating])
    assert not issubclass(ad.Tensor[ad.float32], ad.Tensor[ad.integer])
    assert type(ad.tensor([[1]], dtype=ad.int32)) is ad.Tensor[ad.int32, 2]


@pytest.mark.parametrize("number", [True, 3, 2.5, 1j, np.float32(2.5), np.float64(2.5), np.int32(3), np.bool_(True)])
def test_every_scalar_is_a_number(number):
    @ad.function
    def kind(x): ...

    kind.method(ad.Number)(lambda x: "number")
    kind.method(ad.Scalar)(lambda x: "tensor")
    kind.method(ad.Vector)(lambda x: "vector")
    assert kind(number) == "number"
    assert kind(np.asarray(number)) == kind(ad.tensor(number)) == "tensor"


# ---------------------------------------------------------------- NumPy beside tensors

MIXED = {
    "ndarray + tensor": lambda a, x: (a + x).sum(),
    "tensor + ndarray": lambda a, x: (x + a).sum(),
    "ndarray * tensor": lambda a, x: (a * x).sum(),
    "ndarray @ tensor": lambda a, x: a @ x,
    "tensor @ ndarray": lambda a, x: x @ a,
    "np.exp(tensor)": lambda a, x: np.sum(np.exp(x)),
    "np.add(ndarray, tensor)": lambda a, x: np.sum(np.add(a, x)),
    "number * tensor": lambda a, x: (2.0 * x).sum(),
    "NumPy's number * tensor": lambda a, x: (np.float64(2.0) * x).sum(),
    "ndarray ** tensor": lambda a, x: (np.abs(a) ** x).sum(),
    "ndarray - tensor": lambda a, x: ((a - x) ** 2).sum(),
}


@pytest.mark.parametrize("name", MIXED)
def test_numpy_and_tensors_record_alike_on_either_side(name):
    f, a = MIXED[name], np.array([0.5, 2.0, -1.5])
    (g,) = gradients(lambda x: f(a, x), X)
    eps = 1e-6
    slope = [(f(a, X + eps * e) - f(a, X - eps * e)) / (2 * eps) for e in np.eye(3)]
    np.testing.assert_allclose(g, slope, rtol=1e-6, atol=1e-8)


def test_a_numpy_function_that_would_lose_a_gradient_names_the_supported_one_also_in_a_trace():
    into = np.empty(3)
    lost = {"np.partition": lambda x: np.partition(x, 1), "ad.add": lambda x: np.add(x, 1.0, out=into)}
    ways = (lambda f: f(ad.tensor(X, requires_grad=True)), lambda f: ad.jit(f)(X), lambda f: ad.grad(f)(X),
            lambda f: ad.vmap(f)(np.ones((2, 3))))
    for named, f in lost.items():
        for ask in ways:
            with pytest.raises(ad.Error, match=r"called at test_remaining_lines.py") as refusal:
                ask(f)
            assert named in str(refusal.value)
    np.testing.assert_array_equal(np.partition(ad.tensor(X), 1), np.partition(X, 1))


def test_a_known_program_gives_the_same_bits_each_time_and_agrees_with_its_trace():
    """Recorded, from the cache, under jit and again: one graph shape is one executable."""

    def f(x):
        return (ad.exp(x) * ad.tanh(x) - ad.log(x * x + 1.0)).sum()

    x = np.random.default_rng(0).normal(size=1000)
    recorded = []
    for _ in range(4):
        t = ad.tensor(x, requires_grad=True)
        y = f(t)
        y.backward()
        recorded.append((y.item(), t.grad.numpy().tobytes()))
    assert len(set(recorded)) == 1
    compiled = ad.jit(ad.value_and_grad(f))
    traced = {(float(v), g.tobytes()) for v, g in (compiled(x) for _ in range(4))}
    assert len(traced) == 1
    np.testing.assert_allclose(np.frombuffer(recorded[0][1]), np.frombuffer(next(iter(traced))[1]), rtol=1e-14)
