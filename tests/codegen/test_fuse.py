"""Fusion: whatever is put together computes what the graph says, on random graphs of everything."""

from contextlib import contextmanager

import numpy as np
import pytest
from emitted import emit_module
from fusible import check, random_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.compiler import compile_graph
from codegen.ir import OPS, Aval, Graph, apply, input_node, parse
from codegen.kernel import parts
from codegen.kernel.mlir import print_function
from codegen.passes import fuse, loops, reach
from codegen.passes.plan import plan
from codegen.program import Gemm
from codegen.runtime.cost import operations_of

#: Graphs that once went wrong.
GRAPHS = {
    "a reduction that only an empty array needs":
        "f(x: f64[3]) { a = prod(x, axis=(0,)) b = broadcast_to(a, shape=(0, 3)) return b }",
    "a value that a running sum and a reduction both compute":
        """f(x: f32[4,3]) {
            t = tanh(x) a = cumsum(t, axis=0, reverse=False) m = max(t, axis=(0,)) k = reshape(m, shape=(1, 3))
            d = sub(t, k) b = cumsum(d, axis=0, reverse=False) return a, b
        }""",
    "a value that an earlier broadcast and a later reduction both compute":
        """f(x: f32[2,1,3]) {
            t = tanh(x) c = cast(t, dtype='i64') s = constant(value=1, dtype='i64')
            d = slice(c, s, axes=(2,), steps=(1,), shape=(2, 1, 1)) e = broadcast_to(d, shape=(2, 3, 4))
            m = min(d, axis=(0, 2)) g = reshape(m, shape=(1, 1, 1)) h = sub(d, g) i = cumsum(h, axis=2, reverse=False)
            j = add(i, d) k = concatenate(h, i, axis=2) return e, j, k
        }""",
    "a product of a value that becomes stored for others":
        """f(x: f64[2,3,4], z: i64[4]) {
            t = tanh(x) g = cast(t, dtype='i64') e = cumsum(g, axis=1, reverse=False) l = less(e, g) m = where(l, e, g)
            n = cast(m, dtype='f32') o = transpose(n, axes=(0, 2, 1)) p = matmul(n, o) q = flip(p, axes=(2,))
            r = neg(m) s = flip(r, axes=(2,)) return q, s
        }""",
}


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 30))
def test_a_planned_program_computes_what_its_graph_says(seed, size):
    check(random_graph(seed, size), native=False)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 30))
def test_a_native_program_computes_what_its_graph_says(seed, size):
    check(random_graph(seed, size))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_that_once_went_wrong_is_right(name):
    check(parse(GRAPHS[name]), native=False)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_planning_twice_gives_the_same_program(seed):
    graph = random_graph(seed)
    one, other = plan(graph), plan(graph)
    assert [s.buffers for s in one.steps] == [s.buffers for s in other.steps]
    assert [b.place for b in one.buffers] == [b.place for b in other.buffers]


# ---------------------------------------------------------------- large sweeps, sums cut into blocks


@contextmanager
def small_limits():
    """Limits so low that small graphs meet them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "BLOCK", 8)
        patch.setattr(parts, "SHORTEST", 2)
        patch.setattr(parts, "WORK", 50)
        patch.setattr(parts, "ROWS", 2)
        patch.setattr(parts, "ELEMENTS", 4)
        patch.setattr(parts, "ADDITIONS", 4)
        yield


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 30))
def test_blocks_compute_what_the_graph_says(seed, size):
    with small_limits():
        check(random_graph(seed, size), native=False)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), tree=st.integers(2, 8))
def test_kernels_of_few_operations_compute_what_the_graph_says(seed, tree):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reach, "TREE_LIMIT", tree)
        patch.setattr(fuse, "TREE_LIMIT", tree)
        check(random_graph(seed, 25), native=False)


def chain_with_sweep_back(n, length):
    """v = sin(v) * w over and over, then what a gradient does: all the v again, last one first."""
    x = input_node(Aval((n,), np.float64))
    w = input_node(Aval((), np.float64))
    values = [x]
    for _ in range(length):
        values.append(apply(OPS["mul"], apply(OPS["sin"], values[-1]), w))
    back = values[-1]
    for v in reversed(values[:-1]):
        back = apply(OPS["mul"], back, apply(OPS["mul"], apply(OPS["cos"], v), w))
    return Graph.of([x, w], [apply(OPS["sum"], values[-1], axis=(0,)), back])


@pytest.mark.parametrize("tree", [12, 30, 100, 1024])
def test_a_chain_and_the_way_back_are_right_however_they_are_divided(monkeypatch, tree):
    monkeypatch.setattr(reach, "TREE_LIMIT", tree)
    monkeypatch.setattr(fuse, "TREE_LIMIT", tree)
    check(chain_with_sweep_back(7, 40), native=False)


def test_a_chain_of_a_hundred_operations_and_the_way_back_are_one_kernel_with_a_number_per_block():
    program = plan(chain_with_sweep_back(1000, 100))
    assert len(program.steps) == 1
    assert program.workspace_bytes <= 256, "the sums of 16 blocks of 64"


def test_blocks_of_dear_elements_are_shorter():
    assert [parts.block_of(cost) for cost in (0, 1, 64, 65, 140, 4000, 10**6)] == [4096, 4096, 4096, 2048, 1024, 64, 64]


def test_a_large_sweep_is_one_loop_and_right():
    graph = chain_with_sweep_back(1003, 400)
    (step,) = plan(graph).steps
    assert not [o for o in step.work.function.body.operations if o.name == "memref.alloca"]
    check(graph)


def test_a_chain_of_forty_thousand_operations_is_planned_without_recursion():
    x = y = input_node(Aval((3,), np.float64))
    for _ in range(20_000):
        y = apply(OPS["add"], apply(OPS["neg"], y), x)
    program = plan(Graph.of([x], [y]))
    assert len(program.steps) == 1


@pytest.mark.parametrize("n", [1, 8, 9, 1000])
def test_a_long_sum_is_added_up_in_blocks_that_depend_on_its_length_alone(n):
    x = input_node(Aval((n,), np.float64))
    graph = Graph.of([x], [apply(OPS["sum"], x, axis=(0,)), apply(OPS["argmax"], x, axis=(0,))])
    with small_limits(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "WORK", 1000)
        blocks = [b.aval.shape for b in plan(graph).buffers if b.role == "temporary"]
        assert blocks == ([(-(-n // 8),)] * 3 if n > 8 else [])
        check(graph, native=False)


def test_a_long_sum_errs_as_little_as_one_by_pairs():
    x = input_node(Aval((3_000_000,), np.float32))
    array = np.full(3_000_000, 0.1, np.float32)
    (total,) = compile_graph(Graph.of([x], [apply(OPS["sum"], x, axis=(0,))])).call(array)
    exact = 3_000_000 * float(array[0])
    assert abs(float(total) - exact) / exact < 1e-6


@pytest.mark.parametrize("rows", [64, 65, 200, 1000])
def test_column_sums_of_many_rows_have_accumulators_per_block_of_rows(rows):
    x = input_node(Aval((rows, 300), np.float64))
    y = apply(OPS["exp"], x)
    graph = Graph.of([x], [y, apply(OPS["sum"], y, axis=(0,)), apply(OPS["sum"], y, axis=(0, 1))])
    program = plan(graph)
    blocks = -(-rows // 64)
    assert len(program.steps) == 1
    assert sorted(b.aval.shape for b in program.buffers if b.role == "temporary") == (
        # Of the columns also what a run of rows adds up to, and what rounding takes from the sums of many blocks.
        [(blocks,), *[(300,)] * (blocks >= 16), *[(300 * blocks,)] * 2] if blocks > 1 else [(300,)]
    )
    check(graph)


# ---------------------------------------------------------------- products


def test_a_product_that_is_only_read_transposed_is_right():
    graph = parse(
        """f(x: f64[9,5], g: f64[9,7]) {
            t = transpose(x, axes=(1, 0)) p = matmul(t, g) w = transpose(p, axes=(1, 0)) return w
        }"""
    )
    assert sum(isinstance(step.work, Gemm) for step in plan(graph).steps) == 1
    check(graph)


def test_batches_of_products_and_products_of_products_are_right():
    check(parse(
        """f(x: f64[2,9,5], y: f64[5,7], z: f64[3,9]) {
            p = matmul(x, y) q = transpose(p, axes=(0, 2, 1)) r = transpose(q, axes=(0, 2, 1))
            s = matmul(z, r) t = transpose(s, axes=(0, 2, 1)) return t
        }"""
    ))


def test_a_product_that_is_also_read_as_it_is_is_one_product():
    graph = parse(
        "f(x: f64[9,5], y: f64[5,7]) { p = matmul(x, y) t = transpose(p, axes=(1, 0)) e = exp(p) return t, e }"
    )
    assert sum(isinstance(step.work, Gemm) for step in plan(graph).steps) == 1
    check(graph)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_product_of_a_row_and_a_column_is_a_sum_with_what_it_reads(dtype):
    x, z = (input_node(Aval(shape, np.dtype(dtype))) for shape in ((1, 100_003), (100_003, 1)))
    graph = Graph.of([x, z], [apply(OPS["matmul"], apply(OPS["mul"], x, x), z)])
    (step,) = plan(graph).steps
    assert not isinstance(step.work, Gemm)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(i.aval.shape).astype(dtype) for i in (x, z))
    (found,) = compile_graph(graph).call(a, b)
    wide = np.float64(a) ** 2 * np.float64(b).T
    assert abs(float(found[0, 0]) - wide.sum()) <= 4 * np.finfo(dtype).eps * np.abs(wide).sum()
    short = parse("f(x: f64[1,100], z: f64[100,1]) { y = matmul(x, z) return y }")
    assert isinstance(plan(short).steps[0].work, Gemm)


@pytest.mark.parametrize("shape", [(100, 8), (37, 3), (7, 200, 5), (8, 1), (200, 40), (5000, 6)])
@pytest.mark.parametrize("name", ["sum", "max", "argmin", "prod"])
def test_rows_that_meet_in_columns_are_added_several_at_a_time(shape, name):
    x = input_node(Aval(shape, np.float64))
    check(Graph.of([x], [apply(OPS[name], x, axis=(len(shape) - 2,))]), native=True)


def test_several_rows_at_a_time_are_one_kernel_for_any_number_of_rows_of_a_block():
    texts = set()
    for n in (300, 301, 303, 400, 402):
        x = input_node(Aval((n, 8), np.float64))
        (step,) = plan(Graph.of([x], [apply(OPS["sum"], x, axis=(0,))])).steps
        texts.add(emit_module([step.work.function]))
    assert len(texts) == 1


def test_a_concatenation_is_several_loops_that_choose_nothing():
    x, y = input_node(Aval((50, 40), np.float64)), input_node(Aval((50, 60), np.float64))
    joined = apply(OPS["concatenate"], x, y, axis=1)
    graph = Graph.of([x, y], [apply(OPS["exp"], joined)])
    (step,) = plan(graph).steps
    text = print_function(step.work.function)
    assert text.count("scf.for") == 2 and "select" not in text and "minsi" not in text
    check(graph)


@pytest.mark.parametrize(
    ("one", "other"), [((50, 40), (50, 3)), ((50, 9), (50, 9)), ((1, 40), (1, 60)), ((3, 2), (3, 2))]
)
def test_concatenations_are_right_whatever_they_are_cut_into(one, other):
    x, y = input_node(Aval(one, np.float64)), input_node(Aval(other, np.float64))
    joined = apply(OPS["concatenate"], x, y, x, axis=1)
    doubled = apply(OPS["add"], joined, joined)
    check(Graph.of([x, y], [doubled, apply(OPS["sum"], joined, axis=(0,)), apply(OPS["max"], doubled, axis=(1,))]))
    flat = [apply(OPS["reshape"], v, shape=(v.aval.size,)) for v in (x, y)]
    check(Graph.of([x, y], [apply(OPS["exp"], apply(OPS["concatenate"], *flat, axis=0))]))


def test_slices_from_places_that_only_the_run_knows_are_different_reads():
    # Taken for one, each step of a stencil computes all steps before it again, once for each of its slices.
    def steps(count):
        x = input_node(Aval((40, 40), np.float64))
        starts, y = [], x
        for _ in range(count):
            own = [input_node(Aval((), np.int64)) for _ in range(6)]
            parts = [
                apply(OPS["slice"], y, *own[2 * j : 2 * j + 2], axes=(0, 1), steps=(1, 1), shape=(38, 38))
                for j in range(3)
            ]
            total = apply(OPS["add"], apply(OPS["add"], *parts[:2]), parts[2])
            y = _embedded(total, (1, 1), (40, 40))
            starts += own
        return Graph.of([x, *starts], [y])

    assert operations_of(plan(steps(4))) < 2.5 * operations_of(plan(steps(2)))


def test_what_several_maps_read_at_one_place_each_is_read_at_several_places():
    # The gradient of a filter: each weight times the same values, put at a place of its own.
    x = input_node(Aval((1000,), np.float64))
    dear = apply(OPS["sin"], apply(OPS["exp"], x))
    parts = []
    for j in range(9):
        weight = apply(OPS["constant"], value=j + 1.0, dtype="f64")
        weighted = apply(OPS["mul"], dear, apply(OPS["broadcast_to"], weight, shape=(1000,)))
        parts.append(_embedded(weighted, (j,), (1008,)))
    total = parts[0]
    for part in parts[1:]:
        total = apply(OPS["add"], total, part)
    graph = Graph.of([x], [total])
    once = operations_of(plan(Graph.of([x], [dear])))
    assert operations_of(plan(graph)) < 6 * once
    check(graph)


def _constant(value):
    return apply(OPS["constant"], value=value, dtype="i64")


def _embedded(x, starts, shape):
    axes = tuple(range(len(starts)))
    return apply(OPS["embed"], x, *map(_constant, starts), axes=axes, steps=(1,) * len(axes), shape=shape)


def test_parts_of_a_stored_value_are_not_stored_for_a_start_in_common():
    x, one = input_node(Aval((40, 40), np.float64)), _constant(1)
    y = apply(OPS["embed"], apply(OPS["exp"], x), one, one, axes=(0, 1), steps=(1, 1), shape=(42, 42))
    parts = [
        apply(OPS["slice"], y, one, _constant(start), axes=(0, 1), steps=(1, 1), shape=(40, 40)) for start in (0, 2)
    ]
    total = apply(OPS["add"], *parts)
    graph = Graph.of([x], [apply(OPS["embed"], total, one, one, axes=(0, 1), steps=(1, 1), shape=(42, 42))])
    assert len(plan(graph).steps) == 2
    check(graph)


def _padded(x, before, after):
    wide = apply(OPS["broadcast_to"], apply(OPS["constant"], value=0.5, dtype="f64"), shape=(50, 40 + before + after))
    return apply(OPS["slice_update"], wide, x, _constant(before), axes=(1,), steps=(1,))


@pytest.mark.parametrize("widths", [(1, 1), (3, 0), (0, 2)])
def test_what_is_padded_is_several_loops_that_choose_nothing(widths):
    x = input_node(Aval((50, 40), np.float64))
    graph = Graph.of([x], [apply(OPS["exp"], _padded(x, *widths))])
    (step,) = plan(graph).steps
    text = print_function(step.work.function)
    assert "select" not in text and "minsi" not in text
    check(graph)


def test_what_stands_at_known_places_among_zeros_is_several_loops_that_choose_nothing():
    x = input_node(Aval((50, 40), np.float64))
    parts = [
        apply(OPS["embed"], x, _constant(start), axes=(1,), steps=(1,), shape=(50, 44)) for start in (0, 2, 3)
    ]
    whole = apply(OPS["add"], apply(OPS["add"], *parts[:2]), parts[2])
    seen = apply(OPS["slice"], whole, _constant(1), axes=(1,), steps=(1,), shape=(50, 42))
    graph = Graph.of([x], [seen])
    (step,) = plan(graph).steps
    assert "select" not in print_function(step.work.function)
    check(graph)


def test_short_pieces_are_read_one_after_the_other():
    x = input_node(Aval((20, 30, 3), np.float32))
    parts = [
        apply(OPS["slice"], x, _constant(i), _constant(j), axes=(0, 1), steps=(1, 1), shape=(18, 28, 3))
        for i in range(3) for j in range(3)
    ]
    graph = Graph.of([x], [apply(OPS["concatenate"], *parts, axis=2)])
    (step,) = plan(graph).steps
    text = print_function(step.work.function)
    assert "select" not in text and "minsi" not in text
    check(graph)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "argmax", "argmin"])
def test_a_reduction_goes_on_from_piece_to_piece(name):
    x = input_node(Aval((50, 40), np.float64))
    joined = apply(OPS["concatenate"], _padded(x, 1, 2), apply(OPS["sin"], x), axis=1)
    found = [apply(OPS[name], joined, axis=axis) for axis in ((1,), (0, 1))]
    check(Graph.of([x], [*found, apply(OPS["sum"], joined, axis=(0,))]))


def test_of_many_pieces_the_longest_and_what_is_around_it_are_loops(monkeypatch):
    monkeypatch.setattr(loops, "_PIECES_COST", 40)
    x = input_node(Aval((50, 90), np.float64))
    parts = [apply(OPS["embed"], x, _constant(i), axes=(1,), steps=(1,), shape=(50, 96)) for i in range(6)]
    whole = parts[0]
    for part in parts[1:]:
        whole = apply(OPS["add"], whole, part)
    graph = Graph.of([x], [whole])
    (step,) = plan(graph).steps
    assert print_function(step.work.function).count("scf.for") == 3
    check(graph)


@pytest.mark.parametrize(("shape", "kept"), [((4, 30, 50, 8), 3), ((3000, 8), 1)])
def test_a_sum_of_many_rows_errs_as_little_as_one_of_few(shape, kept):
    x = input_node(Aval(shape, np.float32))
    axes = tuple(d for d in range(len(shape)) if d != kept)
    sums = compile_graph(Graph.of([x], [apply(OPS["sum"], apply(OPS["exp"], x), axis=axes)]))
    # Equal numbers: every addition rounds the same way.
    (found,) = sums.call(np.full(shape, 0.1, np.float32))
    expected = np.exp(np.float64(np.float32(0.1))) * (x.aval.size // shape[kept])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_running_sum_of_many_floats_errs_as_little_as_one_of_few():
    x = input_node(Aval((2, 50_000), np.float32))
    running = compile_graph(Graph.of([x], [apply(OPS["cumsum"], x, axis=1, reverse=False)]))
    # Equal numbers: every addition rounds the same way.
    (found,) = running.call(np.full(x.aval.shape, 0.1, np.float32))
    expected = np.cumsum(np.full(x.aval.shape, np.float32(0.1), np.float64), axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize(("axis", "steps"), [(1, 2), (0, 1)])
def test_what_is_dear_is_computed_in_vectors_before_it_is_added_up_along_a_row(axis, steps):
    x = input_node(Aval((20, 300), np.float64))
    graph = Graph.of([x], [apply(OPS["cumsum"], apply(OPS["sin"], x), axis=axis, reverse=False)])
    assert len(plan(graph).steps) == steps
    check(graph)
    cheap = Graph.of([x], [apply(OPS["cumsum"], apply(OPS["mul"], x, x), axis=axis, reverse=False)])
    assert len(plan(cheap).steps) == 1


def test_a_sum_of_short_rows_beside_what_is_stored_errs_as_little_as_one_of_few():
    x = input_node(Aval((50_000, 3), np.float32))
    squares = apply(OPS["sum"], apply(OPS["mul"], x, x), axis=(1,))
    scaled = apply(OPS["mul"], apply(OPS["reshape"], squares, shape=(50_000, 1)), x)
    run = compile_graph(Graph.of([x], [apply(OPS["sum"], squares, axis=(0,)), scaled]))
    found, _ = run.call(np.full(x.aval.shape, 0.1, np.float32))
    np.testing.assert_allclose(found, 150_000 * np.float64(np.float32(0.1)) ** 2, rtol=2e-7)
