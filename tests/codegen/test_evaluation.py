"""A graph is evaluated for any inputs."""

import numpy as np
import pytest

import autodiff.ops  # noqa: F401  (declares the operations)
from codegen.ir import evaluate, parse

GRAPH = """f(x: f64[3], y: f64[3]) {
  two = constant(value=2.0, dtype="f64")
  a = mul(x, two)
  unused = exp(a)
  b = div(a, y)
  return x, b, two, b
}"""


def test_each_call_has_values_of_its_own():
    graph = parse(GRAPH)
    first = evaluate(graph, np.ones(3), np.full(3, 4.0))
    for array in first:
        array[...] = 7.0
    x = np.arange(3.0)
    second = evaluate(graph, x, np.full(3, 4.0))
    assert [a.tolist() for a in second] == [[0, 1, 2], [0, 0.5, 1], 2.0, [0, 0.5, 1]]
    second[0][...] = 5.0
    second[1][...] = 5.0
    assert x.tolist() == [0, 1, 2] and second[3].tolist() == [0, 0.5, 1]


def test_division_by_zero_is_a_value_and_no_warning():
    assert evaluate(parse(GRAPH), np.ones(3), np.zeros(3))[1].tolist() == [np.inf] * 3


def test_what_a_reference_raises_shows_the_node():
    graph = parse("f(x: f64[3], i: i64[2]) { a = take(x, i, axes=(0,), place=0)  return a }")
    with pytest.raises(IndexError) as error:
        evaluate(graph, np.ones(3), np.array([0, 9]))
    assert "take" in error.value.__notes__[0]


@pytest.mark.parametrize("arrays", [(np.ones(4), np.ones(3)), (np.ones(3, np.float32), np.ones(3))])
def test_an_input_of_another_aval_is_refused(arrays):
    with pytest.raises(ValueError, match="input 0 of graph f is"):
        evaluate(parse(GRAPH), *arrays)
