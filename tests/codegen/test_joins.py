"""Arrays of many parts: sums of what slices give back, and concatenations whose parts are stored where they go."""

import numpy as np
import pytest
from fusible import check
from numpy.testing import assert_allclose, assert_array_equal

import autodiff as ad
from codegen.ir import CONSTANT, OPS, Aval, Graph, Node, apply, evaluate, input_node
from codegen.passes import optimize
from codegen.passes.plan import plan
from codegen.passes.rewrites import dce
from codegen.passes.windows import windows


def start_at(place):
    return Node(CONSTANT, (), (place, "i64"), Aval((), np.int64))


def embedded(x, shape, **starts):
    """x at these starts ("axis0=3") in zeros of a shape."""
    axes = tuple(int(name.removeprefix("axis")) for name in starts)
    return apply(OPS["embed"], x, *map(start_at, starts.values()), axes=axes, steps=(1,) * len(axes), shape=shape)


def added(*terms):
    total = terms[0]
    for term in terms[1:]:
        total = apply(OPS["add"], total, term)
    return total


def names(graph):
    return [n.op.name for n in dce(graph).nodes if n.op is not CONSTANT]


def parts(count, shape, dtype=np.float64):
    return [input_node(Aval(shape, dtype)) for _ in range(count)]


def test_parts_for_the_same_place_are_added_before_they_are_put_there():
    a, b, c = xs = parts(3, (2,))
    graph = Graph.of(xs, [added(*[embedded(x, (7,), axis0=at) for x, at in ((a, 1), (b, 4), (c, 1))])])
    after = windows(graph)
    assert names(after) == ["add", "embed", "embed", "add"]
    check(after)
    assert windows(after) is after


def test_parts_side_by_side_are_a_concatenation_with_zeros_in_its_gaps():
    xs = parts(4, (2, 3))
    places = (7, 0, 4, 0)
    graph = Graph.of(xs, [added(*[embedded(x, (10, 3), axis0=at) for x, at in zip(xs, places, strict=True)])])
    after = windows(graph)
    assert "embed" not in names(after) and names(after).count("concatenate") == 1
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(2, 3)) for _ in xs]
    expected = np.zeros((10, 3))
    for value, at in zip(values, places, strict=True):
        expected[at : at + 2] += value
    assert_array_equal(evaluate(after, *values)[0], expected)


def test_what_is_added_besides_stays():
    xs = parts(3, (1,))
    y, z = parts(2, (3,))
    terms = [y, *[embedded(x, (3,), axis0=j) for j, x in enumerate(xs)], z]
    after = windows(Graph.of([*xs, y, z], [added(*terms)]))
    assert sorted(names(after)) == ["add", "add", "concatenate"]
    assert windows(after) is after
    check(after)


@pytest.mark.parametrize(
    "places", [((0, 0), (1, 1), (0, 0)), ((0, 2), (2, 0), (0, 2), (2, 2))], ids=["two", "three"]
)
def test_windows_that_differ_along_several_axes_are_merged_where_none_meet(places):
    xs = parts(len(places), (1, 1))
    terms = [embedded(x, (3, 3), axis0=i, axis1=j) for x, (i, j) in zip(xs, places, strict=True)]
    graph = Graph.of(xs, [added(*terms)])
    after = windows(graph)
    assert names(after).count("embed") == len(set(places))
    check(after)


def test_windows_that_overlap_are_left_alone():
    xs = parts(3, (4,))
    graph = Graph.of(xs, [added(*[embedded(x, (9,), axis0=at) for x, at in zip(xs, (0, 2, 0), strict=True)])])
    assert windows(graph) is graph


def test_a_part_whose_place_is_known_at_run_time_only_is_left_alone():
    at = input_node(Aval((), np.int64))
    xs = parts(2, (2,))
    terms = [apply(OPS["embed"], x, at, axes=(0,), steps=(1,), shape=(5,)) for x in xs]
    graph = Graph.of([*xs, at], [added(*terms)])
    assert windows(graph) is graph


def test_a_sum_that_is_read_in_between_stays():
    xs = parts(3, (2,))
    first = added(*[embedded(x, (7,), axis0=1) for x in xs[:2]])
    whole = apply(OPS["add"], first, embedded(xs[2], (7,), axis0=1))
    after = windows(Graph.of(xs, [apply(OPS["exp"], first), whole]))
    assert names(after).count("embed") == 2
    check(after)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.bool_])
@pytest.mark.parametrize(("shape", "axis"), [((1, 5), 0), ((3,), 0), ((1, 2, 3), 1), ((4, 1), 1), ((2, 3, 1), 2)])
def test_many_parts_are_stored_where_they_go(shape, axis, dtype):
    xs = parts(11, shape, dtype)
    twice = [x if dtype is np.bool_ else apply(OPS["add"], x, x) for x in xs]
    graph = Graph.of(xs, [apply(OPS["concatenate"], *twice, axis=axis)])
    program = plan(optimize(graph))
    assert not [b for b in program.buffers if b.role == "temporary"]
    check(graph, native=True)


def test_parts_of_different_lengths_are_stored_where_they_go_and_read_from_there():
    xs = [input_node(Aval((n, 4), np.float64)) for n in range(1, 13)]
    joined = apply(OPS["concatenate"], *[apply(OPS["exp"], x) for x in xs], axis=0)
    columns = apply(OPS["sum"], joined, axis=(0,))
    graph = Graph.of(xs, [columns, apply(OPS["mul"], joined, joined), apply(OPS["exp"], xs[3])])
    check(graph, native=True)


def test_the_same_part_may_stand_in_several_places_and_be_a_result_too():
    x, y = parts(2, (1, 6))
    e = apply(OPS["exp"], x)
    graph = Graph.of([x, y], [apply(OPS["concatenate"], *[e, y, x] * 4, axis=0), e])
    check(graph, native=True)


@pytest.mark.parametrize("steps", [3, 12, 40])
def test_a_recurrence_written_out_has_the_gradient_of_a_scan(steps, rng):
    def written_out(x, w):
        h, kept = w * 0.0, []
        for t in range(steps):
            h = ad.tanh(h * w + x[t])
            kept.append(h)
        return ad.sum(h) + ad.sum(ad.stack(kept, axis=1) ** 2)

    def scanned(x, w):
        def step(h, row):
            h = ad.tanh(h * w + row)
            return h, h

        h, kept = ad.scan(step, w * 0.0, x)
        return ad.sum(h) + ad.sum(kept**2)

    x, w = rng.normal(size=(steps, 6)), rng.normal(size=6)
    value, grads = ad.jit(ad.value_and_grad(written_out, argnums=(0, 1)))(x, w)
    expected, expected_grads = ad.jit(ad.value_and_grad(scanned, argnums=(0, 1)))(x, w)
    assert_allclose(value, expected, rtol=1e-12)
    for got, right in zip(grads, expected_grads, strict=True):
        assert_allclose(got, right, rtol=1e-9, atol=1e-12)


def test_parameters_read_again_and_again_by_their_places_give_few_kernels(rng):
    def orbit(p):
        x, y = p[0] * 0 + 1.0, p[0] * 0 + 1.0
        for _ in range(30):
            x, y = x + 0.01 * (p[0] * x - p[1] * x * y), y + 0.01 * (p[2] * x * y - p[3] * y)
        return x + y

    p = np.array([1.0, 0.5, 0.3, 0.2])
    f = ad.jit(ad.grad(orbit))
    slope = f(p)
    each = [(orbit(p + d) - orbit(p - d)) / 2e-6 for d in np.eye(4) * 1e-6]
    assert_allclose(slope, each, rtol=1e-6)
    (entry,) = f.traced.entries.values()
    assert len(plan(optimize(entry.graph)).steps) <= 4
