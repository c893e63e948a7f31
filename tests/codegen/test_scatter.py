"""Scatters: rows that go to one place each, in their order, with their elements side by side."""

import numpy as np
import pytest

import autodiff.ops  # noqa: F401  (declares the operations)
from codegen.compiler import compile_graph
from codegen.ir import OPS, Aval, Graph, apply, evaluate, input_node
from codegen.kernel.edges import kept_first_axes, kept_last_axes
from codegen.kernel.mlir import print_function
from codegen.passes.plan import plan

I64, F32 = np.dtype(np.int64), np.dtype(np.float32)

#: (shape of the result, axes that are indexed, shape of the indices, place) -> how many axes of an update are copied,
#: the first and the last ones.
CASES = {
    ((7, 16), (0,), (20,), 0): (0, 1),
    ((7, 3, 5), (0,), (20,), 0): (0, 2),
    ((7, 3, 5), (0, 1), (4, 5), 0): (0, 1),
    ((7, 3, 5), (1,), (20,), 1): (1, 1),
    ((7, 3, 5), (2,), (20,), 2): (2, 0),
    ((7, 3, 5), (1, 2), (4, 6), 1): (1, 0),
    ((7, 1, 5), (2,), (20,), 2): (2, 0),
    ((9,), (0,), (20,), 0): (0, 0),
    ((7, 16), (0,), (), 0): (0, 1),
    ((16, 7), (1,), (), 1): (1, 0),
}


def _graph(shape, axes, indices, place, name):
    rest = [n for a, n in enumerate(shape) if a not in axes]
    updates = input_node(Aval((*rest[:place], *indices, *rest[place:]), F32))
    at = [input_node(Aval(indices, I64)) for _ in axes]
    if name == "scatter_add":
        return Graph.of([*at, updates], [apply(OPS[name], *at, updates, shape=shape, axes=axes, place=place)])
    x = input_node(Aval(shape, F32))
    return Graph.of([x, *at, updates], [apply(OPS[name], x, *at, updates, axes=axes, place=place)])


@pytest.mark.parametrize("name", ["scatter_add", "scatter_set"])
@pytest.mark.parametrize("case", CASES)
def test_rows_meet_in_their_order_whatever_is_copied(case, name, rng):
    shape, axes, *_ = case
    graph = _graph(*case, name)
    (scatter,) = graph.outputs
    assert (kept_first_axes(scatter), kept_last_axes(scatter)) == CASES[case]
    least = min(shape[a] for a in axes)
    arrays = [
        rng.integers(-least, least, i.aval.shape) if i.aval.dtype == I64 else rng.normal(size=i.aval.shape).astype(F32)
        for i in graph.inputs
    ]
    arrays = [np.asarray(a) for a in arrays]
    (expected,) = evaluate(graph, *arrays)
    (found,) = compile_graph(graph).call(*arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_place_of_a_row_is_looked_up_once():
    (step,) = plan(_graph((7, 16), (0,), (20,), 0, "scatter_add")).steps
    text = print_function(step.work.function)
    assert "divsi" not in text and "remsi" not in text
    assert text.count("scf.for") == 3  # zeros, rows, the elements of a row


def test_what_lies_in_rows_of_its_own_is_found_without_dividing():
    (step,) = plan(_graph((7, 16), (1,), (20,), 1, "scatter_add")).steps
    text = print_function(step.work.function)
    assert "divsi" not in text and "remsi" not in text
    assert text.count("scf.for") == 3  # zeros, rows, the elements of a row


def test_an_index_outside_fails_behind_rows_too():
    graph = _graph((7, 16), (0,), (3,), 0, "scatter_add")
    with pytest.raises(IndexError):
        compile_graph(graph).call(np.array([0, 7, 1]), np.ones((3, 16), F32))


@pytest.mark.parametrize(("name", "count"), [("exp", 2), ("neg", 1)])
def test_what_is_dear_is_computed_in_vectors_before_numbers_go_to_their_places(name, count):
    at, x = input_node(Aval((20,), I64)), input_node(Aval((20,), F32))
    added = apply(OPS["scatter_add"], at, apply(OPS[name], x), shape=(9,), axes=(0,), place=0)
    graph = Graph.of([at, x], [added])
    assert len(plan(graph).steps) == count
    indices, numbers = np.arange(20) % 9, np.linspace(-1, 1, 20, dtype=F32)
    (expected,) = evaluate(graph, indices, numbers)
    np.testing.assert_allclose(compile_graph(graph).call(indices, numbers)[0], expected, rtol=1e-5)


def test_rows_go_to_their_places_as_they_are_computed():
    at, x = input_node(Aval((20,), I64)), input_node(Aval((20, 16), F32))
    added = apply(OPS["scatter_add"], at, apply(OPS["exp"], x), shape=(9, 16), axes=(0,), place=0)
    assert len(plan(Graph.of([at, x], [added])).steps) == 1
