"""Updates of a copy at an index, and the references and graphs of indexing."""

import numpy as np
import pytest

import autodiff as ad
from autodiff.ops import index_update
from codegen import compiler
from codegen.ir import Aval

X = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def x():
    return ad.tensor(X)


def _graph_of(f, *args):
    with compiler.recorded() as graphs:
        f(*args)
    return graphs[-1]


def test_a_start_is_a_constant_of_what_jit_compiles_as_it_traces_once():
    f = ad.jit(lambda x: ad.sum(x[1:-1] * x[2:] * x[:, 1:][:-2, :1] * x[-2]))
    x = np.arange(400.0).reshape(100, 4)
    graph = _graph_of(f, x)
    # The last rows of many begin elsewhere for each number of rows: that start is an argument.
    assert [i.aval for i in graph.inputs] == [Aval((100, 4), np.dtype(np.float64)), Aval((), np.dtype(np.int64))]
    np.testing.assert_allclose(f(x), np.sum(x[1:-1] * x[2:] * x[:-2, 1:2] * x[-2]))


@pytest.mark.parametrize("key", [3, -4, (0, 4), (slice(None), -5), (..., 4), [0, 3], (slice(None), [-5]), (1, [4])])
def test_a_known_index_outside_raises_when_recorded(x, key):
    with pytest.raises(IndexError, match=r"test_index_update.py"):
        x[key]
    with pytest.raises(IndexError):
        index_update(x, key, 0.0)


def test_the_references_raise_index_errors():
    x, i = np.zeros(3), np.array([3])
    from codegen.ir import OPS

    for call in (
        lambda: OPS["take"].reference(x, i, axes=(0,), place=0),
        lambda: OPS["scatter_add"].reference(i, np.ones(1), shape=(3,), axes=(0,), place=0),
        lambda: OPS["scatter_set"].reference(x, i, np.ones(1), axes=(0,), place=0),
        lambda: OPS["take_along"].reference(x, i, axis=0),
        lambda: OPS["scatter_along"].reference(i, np.ones(1), shape=(3,), axis=0),
    ):
        with pytest.raises(IndexError):
            call()


def test_what_an_update_replaces_gets_exactly_zero():
    g = ad.grad(lambda x: ad.sum(index_update(ad.log(x), 0, 5.0)))(np.array([0.0, 2.0]))
    np.testing.assert_array_equal(g, [0, 0.5])
    g = ad.grad(lambda x: ad.sum(index_update(ad.log(x), [0], 5.0)))(np.array([0.0, 2.0]))
    np.testing.assert_array_equal(g, [0, 0.5])


def test_the_last_of_two_values_for_one_place_wins_and_gets_the_gradient():
    def f(v):
        return ad.sum(index_update(ad.tensor(np.zeros(3)), [1, 2, 1], v) * np.array([1.0, 10.0, 100.0]))

    value, g = ad.value_and_grad(f)(np.array([1.0, 2.0, 3.0]))
    assert value == 230
    np.testing.assert_array_equal(g, [0, 100, 10])


def test_integers_are_indexed_and_updated_without_gradients():
    t = ad.tensor(np.arange(4))
    np.testing.assert_array_equal(index_update(t, slice(1, 3), 9).numpy(), [0, 9, 9, 3])
    assert t[1].dtype == np.int64


def test_a_number_is_written_by_a_mask_inside_jit():
    y = ad.jit(lambda x: index_update(x, x > 4, 0.0))(X)
    np.testing.assert_array_equal(y, np.where(X > 4, 0, X))


def test_values_that_do_not_fit_are_refused(x):
    with pytest.raises(ad.ShapeError, match="broadcast"):
        index_update(x, 0, np.zeros(3))
    with pytest.raises(ad.ShapeError, match="broadcast"):
        index_update(x, [0, 1], np.zeros(3))
    with pytest.raises(ad.DTypeError, match=r"i64\[3\] cannot take f64"):
        index_update(ad.tensor([1, 2, 3]), 0, 1.5)
