"""Storage: buffers live as long as they are read, and a last reader writes in place."""

import numpy as np
import pytest
from fusible import check

from codegen.compiler import compile_graph
from codegen.ir import OPS, Aval, Graph, apply, evaluate, input_node
from codegen.passes.plan import plan
from codegen.passes.storage import ALIGNMENT
from codegen.program import bytes_moved


def array(*shape):
    return input_node(Aval(shape, np.float64))


def op(name, *inputs, **params):
    return apply(OPS[name], *inputs, **params)


def temporaries(program):
    return [b.aval.shape for b in program.buffers if b.role == "temporary"]


def layer(x, w, b):
    return op("relu", op("add", op("matmul", x, w), b))


def test_what_follows_a_product_is_written_in_its_place():
    x, w, b, v = array(16, 16), array(16, 16), array(16), array(16, 16)
    program = plan(Graph.of([x, w, b, v], [op("matmul", layer(x, w, b), v)]))
    assert temporaries(program) == [(16, 16)]
    check(program.graph)


def test_what_ends_in_an_output_is_made_in_the_output():
    x, w, b = array(16, 16), array(16, 16), array(16)
    program = plan(Graph.of([x, w, b], [layer(x, w, b)]))
    assert temporaries(program) == []
    check(program.graph)


def test_a_softmax_of_a_product_is_made_in_its_place_row_by_row():
    x, w = array(16, 16), array(16, 16)
    z = op("matmul", x, w)
    e = op("exp", op("sub", z, op("reshape", op("max", z, axis=(1,)), shape=(16, 1))))
    y = op("div", e, op("reshape", op("sum", e, axis=(1,)), shape=(16, 1)))
    program = plan(Graph.of([x, w], [y]))
    assert len(program.steps) == 2
    assert temporaries(program) == []
    check(program.graph)


@pytest.mark.parametrize("move", [
    lambda z: op("flip", z, axes=(0,)),
    lambda z: op("transpose", op("exp", z), axes=(1, 0)),
    lambda z: op("add", z, op("flip", z, axes=(1,))),
])
def test_what_reads_elsewhere_is_not_written_in_place(move):
    x, w = array(16, 16), array(16, 16)
    program = plan(Graph.of([x, w], [move(op("matmul", x, w))]))
    assert temporaries(program) == [(16, 16)]
    check(program.graph)


def test_what_is_read_again_or_given_out_keeps_its_place():
    x, w = array(16, 16), array(16, 16)
    z = op("matmul", x, w)
    y = op("exp", z)
    given_out = plan(Graph.of([x, w], [z, y]))
    assert len({j for step in given_out.steps for j in step.buffers}) == 4
    check(given_out.graph)
    read_again = plan(Graph.of([x, w], [op("matmul", y, z)]))
    assert temporaries(read_again) == [(16, 16), (16, 16)]
    check(read_again.graph)


def test_temporaries_that_do_not_meet_share_memory():
    x, w = array(64, 64), array(64, 64)
    y = x
    for _ in range(6):
        y = op("matmul", y, w)
    program = plan(Graph.of([x, w], [y]))
    assert program.workspace_bytes == 2 * 64 * 64 * 8


def test_temporaries_are_aligned_and_never_overlap_while_both_are_alive():
    x, w = array(7, 7), array(7, 7)
    values = [x]
    for _ in range(12):
        values.append(op("matmul", values[-1], w))
    total = values[0]
    for v in reversed(values):
        total = op("matmul", v, total)
    program = plan(Graph.of([x, w], [total]))
    alive = {}
    for step, s in enumerate(program.steps):
        for j in s.buffers:
            first, _ = alive.get(j, (step, step))
            alive[j] = first, step
    blocks = [(program.buffers[j], span) for j, span in alive.items() if program.buffers[j].role == "temporary"]
    for number, (a, (first, last)) in enumerate(blocks):
        assert a.place % ALIGNMENT == 0
        assert a.place + a.aval.nbytes <= program.workspace_bytes
        for b, (start, end) in blocks[:number]:
            apart = a.place + a.aval.nbytes <= b.place or b.place + b.aval.nbytes <= a.place
            assert apart or last < start or end < first
    check(program.graph)


def test_a_chain_and_its_gradient_need_no_memory_but_their_outputs():
    n = 10_000_000
    x = array(n)
    y = op("mul", op("exp", op("neg", op("mul", x, x))), op("sin", x))
    gradient = op("add", op("mul", y, x), op("cos", x))
    program = plan(Graph.of([x], [op("sum", y, axis=(0,)), gradient]))
    assert program.workspace_bytes < 0.01 * n * 8
    assert bytes_moved(program) < 2.01 * n * 8


def test_bytes_moved_counts_what_each_step_reads_and_writes():
    x, w, b = array(16, 16), array(16, 16), array(16)
    program = plan(Graph.of([x, w, b], [layer(x, w, b)]))
    assert bytes_moved(program) == (3 * 256 + 2 * 256 + 16) * 8


def test_a_vector_is_read_by_a_product_as_it_is_and_gets_one_as_it_is():
    a, x = array(20, 30), array(30)
    column = op("matmul", a, op("reshape", x, shape=(30, 1)))
    program = plan(Graph.of([a, x], [op("reshape", column, shape=(20,))]))
    assert len(program.steps) == 1
    assert temporaries(program) == []
    check(program.graph)


def test_an_input_an_output_or_what_one_kernel_reads_in_both_shapes_is_copied():
    x, w = array(16, 16), array(16, 16)
    z = op("matmul", x, w)
    flat = op("reshape", z, shape=(256,))
    for outputs, steps in (([z, flat], 2), ([op("reshape", x, shape=(256,))], 1)):
        program = plan(Graph.of([x, w], outputs))
        assert len(program.steps) == steps
        check(program.graph)


@pytest.mark.parametrize(("shape", "same"), [((5, 3), True), ((5, 3), False), ((1, 3), False), ((5, 3, 2), True)])
def test_rows_that_meet_are_not_read_where_they_were_written(shape, same, rng):
    x, i, j = array(*shape), *[input_node(Aval((4,), np.int64)) for _ in range(2)]
    w = op("sin", x)
    rows = op("add", op("take", w, i, axes=(0,), place=0), op("take", w, i if same else j, axes=(0,), place=0))
    graph = Graph.of([x, i, j], [op("scatter_set", w, i, rows, axes=(0,), place=0)])
    at = np.array([0, shape[0] - 1, 0, 0])
    arrays = rng.normal(size=shape), at, at[::-1].copy()
    np.testing.assert_allclose(compile_graph(graph).call(*arrays)[0], evaluate(graph, *arrays)[0], rtol=1e-12)


def test_what_is_copied_before_rows_are_written_is_made_in_the_same_place():
    x, w, i, rows = array(5, 5), array(5, 5), input_node(Aval((4,), np.int64)), array(4, 5)
    y = op("exp", op("scatter_set", op("matmul", x, w), i, rows, axes=(0,), place=0))
    program = plan(Graph.of([x, w, i, rows], [op("matmul", y, w)]))
    assert len(temporaries(program)) == 1


@pytest.mark.parametrize("is_first", [False, True])
def test_what_else_reads_a_value_does_so_before_its_place_is_taken(is_first):
    x, w = array(16, 16), array(16, 16)
    z = op("matmul", x, w)
    outputs = [op("sum", op("mul", z, z), axis=(0, 1)), op("exp", z), op("flip", op("sum", z, axis=(0,)), axes=(0,))]
    check(plan(Graph.of([x, w], outputs[::-1] if is_first else outputs)).graph)


@pytest.mark.parametrize("size", [3, 50, 5000])
def test_what_a_kernel_makes_again_at_other_places_is_made_of_what_is_there_still(size, rng):
    x, y = array(size), array(size)
    total = op("cumsum", op("mul", x, x), axis=0, reverse=False)
    both = op("add", op("sin", y), total)
    turned = op("cumsum", op("mul", op("flip", both, axes=(0,)), x), axis=0, reverse=False)
    last = op("cumsum", op("mul", op("flip", op("add", x, both), axes=(0,)), turned), axis=0, reverse=False)
    graph, arrays = Graph.of([x, y], [last]), rng.normal(size=(2, size)) / size
    np.testing.assert_allclose(compile_graph(graph).call(*arrays)[0], evaluate(graph, *arrays)[0], rtol=1e-9)
