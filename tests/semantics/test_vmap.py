"""`ad.vmap`: which arguments, which axes, what comes out, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import autodiff as ad

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 4))
W = RNG.normal(size=(4, 2))


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    name: str


# ---------------------------------------------------------------- axes


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_the_examples_lie_along_any_axis(axis):
    y = ad.vmap(lambda x: x * x.sum(), axis)(X)
    rows = X if axis % 2 == 0 else X.T
    np.testing.assert_allclose(y, rows * rows.sum(1, keepdims=True))


def test_none_is_shared_by_all():
    np.testing.assert_allclose(ad.vmap(lambda w, x: x @ w, (None, 0))(W, X), X @ W)
    np.testing.assert_allclose(ad.vmap(lambda w, x: x @ w, [None, 0])(W, X), X @ W)


def test_arguments_may_have_their_examples_along_different_axes():
    np.testing.assert_allclose(ad.vmap(lambda x, y: x * y, (0, 1))(X, X.T), X * X)
    np.testing.assert_allclose(ad.vmap(lambda x, y: x * y, (-1, 0))(X, X.T), (X * X).T)


def test_in_axes_is_any_prefix_of_the_nesting():
    params = {"w": W, "b": (RNG.normal(size=(2, 3)), 2.0)}

    def f(p, x):
        return x @ p["w"] + p["b"][0] * p["b"][1]

    y = ad.vmap(f, ({"w": None, "b": (1, None)}, 0))(params, X)
    np.testing.assert_allclose(y, X @ W + params["b"][0].T * 2.0)
    swapped = ad.vmap(f, ({"b": (1, None), "w": None}, 0))(params, X)
    np.testing.assert_array_equal(swapped, y)


def test_keyword_arguments_have_their_examples_along_axis_0():
    np.testing.assert_allclose(ad.vmap(lambda w, *, x: x @ w, in_axes=(None,))(W, x=X), X @ W)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_out_axes_says_where_the_examples_go(axis):
    y = ad.vmap(lambda x: 2 * x, out_axes=axis)(X)
    np.testing.assert_allclose(y, 2 * X if axis == 0 else 2 * X.T)


def test_out_axes_is_any_prefix_of_the_result():
    y = ad.vmap(lambda x: {"s": x.sum(), "p": (x, x)}, out_axes={"p": (1, 0), "s": 0})(X)
    np.testing.assert_allclose(y["s"], X.sum(1))
    np.testing.assert_allclose(y["p"][0], X.T)
    np.testing.assert_allclose(y["p"][1], X)


def test_what_does_not_differ_is_repeated_or_with_none_returned_once():
    def f(x):
        return x.sum(), ad.tensor(W) * 2, 1.5

    total, repeated, number = ad.vmap(f)(X)
    assert total.shape == (3,)
    np.testing.assert_array_equal(repeated, np.stack([2 * W] * 3))
    np.testing.assert_array_equal(number, [1.5] * 3)
    _, once, number = ad.vmap(f, out_axes=(0, None, None))(X)
    np.testing.assert_array_equal(once, 2 * W)
    assert number == 1.5


# ---------------------------------------------------------------- what goes in and out


@pytest.mark.smoke
def test_f_is_called_once_on_one_example():
    calls = []

    def f(x):
        calls.append((x.aval, type(x)))
        return x

    ad.vmap(f)(X)
    assert [str(aval) for aval, _ in calls] == ["f64[4]"]
    assert issubclass(calls[0][1], ad.Vector)


def test_arrays_give_arrays_and_tensors_tensors():
    assert type(ad.vmap(lambda x: x * 2)(X)) is np.ndarray
    assert isinstance(ad.vmap(lambda x: x * 2)(ad.tensor(X)), ad.Tensor)
    assert isinstance(ad.vmap(lambda w, x: x @ w, (None, 0))(ad.tensor(W), X), ad.Tensor)


def test_integers_and_bools_are_mapped_as_well():
    np.testing.assert_array_equal(ad.vmap(lambda n: n * 2 + 1)(np.arange(3)), [1, 3, 5])
    np.testing.assert_array_equal(ad.vmap(lambda b: ~b)(np.array([True, False])), [False, True])


def test_containers_come_back_as_they_are():
    y = ad.vmap(lambda p: Pair(p.a * 2, [p.b.sum()]), (Pair(0, None),))(Pair(X, W))
    assert type(y) is Pair
    np.testing.assert_allclose(y.a, 2 * X)
    np.testing.assert_allclose(y.b[0], [W.sum()] * 3)


def test_what_is_no_array_is_handed_on():
    layer = ad.vmap(lambda q, n: Layer(q.weight.sum(), q.name + str(n)))(Layer(X, "first"), None)
    np.testing.assert_allclose(layer.weight, X.sum(1))
    assert layer.name == "firstNone"


def test_a_number_that_is_shared_stays_a_number():
    def f(x, n):
        assert n == 3 and type(n) is int
        return x**n

    np.testing.assert_allclose(ad.vmap(f, (0, None))(X, 3), X**3)


def test_a_number_argument_of_jit_stays_a_number():
    @ad.function
    def scaled(x, c): ...

    @scaled.method(ad.Vector, ad.Number)
    def _(x, c):
        return x * c

    f = ad.jit(lambda x, c: ad.vmap(scaled, (0, None))(x, c))
    y = f(X.astype(np.float32), 2.0)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, 2 * X.astype(np.float32))
    g = ad.jit(lambda x, c: ad.vmap(lambda x: x * c)(x))
    assert g(X.astype(np.float32), 2.0).dtype == np.float32


def test_no_examples_give_results_of_no_examples():
    y, total = ad.vmap(lambda x: (ad.exp(x), x.sum()))(np.ones((0, 4)))
    assert y.shape == (0, 4) and total.shape == (0,)
    assert ad.vmap(ad.grad(lambda x: x @ x))(np.ones((0, 4))).shape == (0, 4)
    assert ad.vmap(lambda x: ad.linalg.inv(x))(np.ones((0, 2, 2))).shape == (0, 2, 2)


def test_a_structured_argument_that_is_shared_keeps_its_structure():
    d = RNG.normal(size=4)

    def f(m, x):
        assert type(m) is ad.Diagonal
        return m @ x

    y = ad.vmap(f, (None, 0))(ad.Diagonal(d), X)
    np.testing.assert_allclose(y.numpy(), X * d)


def test_a_structured_argument_that_is_mapped_is_one_for_each_example():
    many = ad.vmap(ad.Diagonal)(ad.tensor(X))
    y = ad.vmap(lambda m, x: m @ x)(many, X)
    np.testing.assert_allclose(y.numpy(), X * X)
    rows = ad.vmap(lambda row, x: row * x)(ad.dense(ad.Diagonal([1.0, 2.0, 3.0])), np.ones((3, 3)))
    np.testing.assert_allclose(rows.numpy(), np.diag([1.0, 2.0, 3.0]))


def test_structured_values_inside_stay_so_and_come_out_as_many():
    y = ad.vmap(lambda d, x: (ad.Diagonal(d) @ x, ad.Diagonal(d)))(X, X)
    np.testing.assert_allclose(y[0], X * X)
    assert type(y[1]) is ad.Diagonal
    np.testing.assert_allclose(y[1].diagonal, X)
    g = ad.vmap(ad.grad(lambda m, x: (m @ x) @ x), (None, 0))(ad.Diagonal([1.0] * 4), X)
    assert type(g) is ad.Diagonal
    np.testing.assert_allclose(g.diagonal.numpy(), X * X)


def test_the_caller_may_change_the_arrays_afterwards():
    x = X.copy()
    y = ad.vmap(lambda x: x * 1)(x)
    x[:] = 0
    np.testing.assert_array_equal(y, X)


# ---------------------------------------------------------------- inside


def test_in_place_changes_are_those_of_each_example():
    def f(x, i):
        x = x * 1.0
        x[i] = 7.0
        x[1:3] = x[0:2]
        x += 1.0
        total = ad.zeros(2)
        total[0] = x.sum()
        return x, total

    def by_numpy(x, i):
        x = x.copy()
        x[i] = 7.0
        x[1:3] = x[0:2].copy()
        return x + 1, np.array([(x + 1).sum(), 0])

    places = np.array([0, 3, 1])
    y, total = ad.vmap(f)(X, places)
    for found, wanted in zip(zip(y, total, strict=True), map(by_numpy, X, places), strict=True):
        np.testing.assert_allclose(found[0], wanted[0])
        np.testing.assert_allclose(found[1], wanted[1])


@pytest.mark.parametrize("traced", [ad.jit, ad.vmap, lambda f: lambda x: ad.scan(lambda c, e: (c, f(e)), 0.0, x)[1]])
def test_what_a_traced_function_made_it_may_change_in_place(traced):
    def f(x):
        y = ad.zeros(2)
        y[0] = x.sum()
        y += 1.0
        return y

    total = X.sum() if traced is ad.jit else X.sum(1)
    np.testing.assert_allclose(np.asarray(traced(f)(X))[..., 0], total + 1)


def test_a_shared_tensor_changed_in_place_is_not_the_callers():
    shared = ad.tensor([1.0, 2.0, 3.0, 4.0])

    def f(s, x):
        s += x
        return s

    np.testing.assert_allclose(ad.vmap(f, (None, 0))(shared, X).numpy(), shared.numpy() + X)
    np.testing.assert_array_equal(shared.numpy(), [1.0, 2.0, 3.0, 4.0])


def test_a_captured_tensor_is_not_changed_in_place():
    captured = ad.tensor([1.0, 2.0])

    def f(x):
        captured.mul_(2.0)
        return x

    with pytest.raises(ad.ConcretizationError, match=r"captured.*\n.*test_vmap\.py"):
        ad.vmap(f)(X)


def test_indices_that_differ_read_and_write_where_each_example_says():
    table, places = RNG.normal(size=(6, 2)), np.array([5, 0, 5])
    np.testing.assert_array_equal(ad.vmap(lambda i: ad.tensor(table)[i])(places), table[places])
    np.testing.assert_array_equal(ad.vmap(lambda x, i: x[i])(X, places % 4), X[np.arange(3), places % 4])
    g = ad.grad(lambda t: ad.vmap(lambda i: (t[i] ** 2).sum())(places).sum())(table)
    wanted = np.zeros_like(table)
    np.add.at(wanted, places, 2 * table[places])
    np.testing.assert_allclose(g, wanted)


def test_where_chooses_for_each_example_and_its_zeros_are_strong():
    g = ad.vmap(ad.grad(lambda x: ad.where(x > 0, ad.log(x), 0.0)))(np.array([-1.0, 0.0, 2.0]))
    np.testing.assert_array_equal(g, [0.0, 0.0, 0.5])


# ---------------------------------------------------------------- what is refused


def test_different_numbers_of_examples_are_refused_by_name():
    with pytest.raises(ad.ShapeError) as refused:
        ad.vmap(lambda p, y: p["w"] * y)({"w": X, "c": np.ones(4)}, X)
    assert str(refused.value) == (
        "vmap of <lambda>: the arguments differ in the number of examples\n"
        "  p['w'], f64[3,4]: 3 along axis 0\n"
        "  p['c'], f64[4]: 4 along axis 0\n"
        "  y, f64[3,4]: 3 along axis 0\n"
        "  called at test_vmap.py:"
        + str(refused.value).partition("test_vmap.py:")[2].partition("\n")[0]
        + "\n  in_axes says along which axis the examples are, None what all of them share"
    )


def over(in_axes: Any = 0, out_axes: Any = 0, f: Any = lambda a, b: a):
    return lambda *args: ad.vmap(f, in_axes, out_axes)(*args)


@pytest.mark.parametrize(
    ("call", "args", "error", "says"),
    [
        (over(), (X, 3.0), ad.ShapeError, "b, the float 3.0, has no axis to take examples from"),
        (over(), (X, np.float64(3)), ad.ShapeError, r"b, f64\[\], has no axis to take examples from"),
        (over((0, 2)), (X, X), ad.ShapeError, r"b, f64\[3,4\], has no axis 2"),
        (over((0, -3)), (X, X), ad.ShapeError, r"b, f64\[3,4\], has no axis -3"),
        (over(None), (X, X), ad.ShapeError, "no argument has examples"),
        (over((0, 0, 0)), (X, X), ad.ShapeError, "in_axes has 3 entries for 2 positional arguments"),
        (over(({"v": 0}, None)), ({"w": X}, X), ad.ShapeError, r"differ at in_axes\[0\]"),
        (over((0, "a")), (X, X), ad.DispatchError, "in_axes holds 'a'"),
        (over((0, True)), (X, X), ad.DispatchError, "in_axes holds True"),
        (over(0, 1.5), (X, X), ad.DispatchError, "out_axes holds 1.5"),
        (over(0, None), (X, X), ad.ShapeError, r"the result, f64\[4\], differs between examples"),
        (over(0, 3), (X, X), ad.ShapeError, r"the result, f64\[4\], has no place 3"),
        (over(0, (0, 0)), (X, X), ad.ShapeError, "differ at out_axes"),
        (over(), (X.astype(np.float16), X), ad.DTypeError, "float16"),
        (over(f=3), (X, X), ad.DispatchError, "takes a function"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_users_line(call, args, error, says):
    with pytest.raises(error, match=says) as refused:
        call(*args)
    assert "called at test_vmap.py" in str(refused.value)


@pytest.mark.parametrize("eager", [False, True])
def test_asking_for_a_value_is_refused_with_the_way_out(eager, monkeypatch):
    monkeypatch.setattr(ad.config, "eager", eager)

    def f(x):
        if x.sum() > 0:
            return x
        return -x

    for ask in (f, lambda x: float(x.sum()), lambda x: np.asarray(x), lambda x: x.sum().item()):
        with pytest.raises(ad.ConcretizationError, match=r"(?s)vmap.*test_vmap\.py.*in vmap give it in_axes=None"):
            ad.vmap(ask)(X)
    with pytest.raises(ad.ConcretizationError, match=r"ad\.where\(mask"):
        ad.vmap(lambda x: x[x > 0])(X)


def test_what_all_examples_share_has_a_value():
    def f(flag, x):
        return x if flag > 0 else -x

    np.testing.assert_array_equal(ad.vmap(f, (None, 0))(np.array(-1.0), X), -X)


def test_backward_inside_is_refused():
    with pytest.raises(ad.GradientError, match=r"test_vmap\.py"):
        ad.vmap(lambda x: (x * 1).sum().backward())(ad.tensor(X, requires_grad=True))


def test_an_example_that_escapes_has_no_value():
    kept = []
    ad.vmap(lambda x: kept.append(x * 2) or x)(X)
    with pytest.raises(ad.ConcretizationError):
        kept[0].numpy()


def test_an_error_inside_leaves_the_library_usable():
    with pytest.raises(ZeroDivisionError):
        ad.vmap(lambda x: x / (1 // 0))(X)
    np.testing.assert_array_equal(ad.vmap(lambda x: x)(X), X)
    assert ad.tensor(2.0).item() == 2.0
