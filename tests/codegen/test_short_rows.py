"""Rows of a few elements run side by side, and every second, third or fourth element is taken out of whole vectors."""

import re

import numpy as np
import pytest
from emitted import emit_module
from fusible import check
from nests import Nest, call, memref

import autodiff as ad
from codegen.compiler import compile_graph
from codegen.ir import OPS, Aval, Graph, apply, input_node
from codegen.kernel.nest import F64, INDEX
from codegen.passes.plan import plan
from codegen.runtime import engine

MACHINES = {"widest": engine.target_features(), "masks": "+avx2,+fma", "plain": ""}
EACH_MACHINE = pytest.mark.parametrize("features", MACHINES.values(), ids=MACHINES)
WIDEST = "+avx512f,+avx512dq,+avx512vl,+avx512bw,+fma"


def every(step, first):
    """y[i] = x[step * i + first]."""
    nest = Nest("every", writes=("y",), x=memref(F64), y=memref(F64), n=INDEX)
    with nest.parallel(nest.n) as i:
        at = nest.op("arith.muli", i, nest.constant(step, INDEX))
        nest.store(nest.load(nest.x, nest.op("arith.addi", at, nest.constant(first, INDEX))), nest.y, i)
    return nest.end()


@EACH_MACHINE
@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_every_few_elements_are_read_and_nothing_behind_them(step, features, rng):
    for first in (0, step - 1):
        function = every(step, first)
        code = engine.compile(emit_module([function], features))
        for n in (0, 1, 7, 8, 31, 32, 33, 100):
            # The last element read is the last one there is.
            x, y = rng.normal(size=max(0, step * (n - 1) + 1) + first), np.zeros(n)
            assert call(code, function, (x, y, n)) == 0
            np.testing.assert_array_equal(y, x[first::step][:n])


def test_every_second_element_is_taken_out_of_whole_vectors():
    text = emit_module([every(2, 1)], WIDEST)
    assert "shufflevector" in text and re.search(r"masked\.load\.v\d+f64", text)
    for step in (3, 5):
        text = emit_module([every(step, 1)], WIDEST)
        assert "gather" not in text and "masked" not in text  # one by one


@pytest.mark.parametrize("columns", [2, 3, 4, 5, 6, 7, 10, 12, 13, 17])
@pytest.mark.parametrize("rows", [3, 40, 1003])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_reductions_of_short_rows_are_right(rows, columns, dtype):
    x = input_node(Aval((rows, columns), dtype))
    outputs = [apply(OPS[name], x, axis=(1,)) for name in ("sum", "max", "argmin")]
    if dtype != np.int32:
        outputs.append(apply(OPS["sqrt"], apply(OPS["sum"], apply(OPS["mul"], x, x), axis=(1,))))
    for output in outputs:
        check(Graph.of([x], [output]))
    check(Graph.of([x], outputs))


@pytest.mark.parametrize(("name", "most"), [("sum", 6), ("max", 12), ("argmax", 12)])
def test_short_rows_fill_whole_vectors(name, most):
    for columns in (3, most, most + 1):
        x = input_node(Aval((1000, columns), np.float32))
        (step,) = plan(Graph.of([x], [apply(OPS[name], x, axis=(1,))])).steps
        stores = re.findall(r"store <(?:8|16|32|64) x (?:float|i64)>", emit_module([step.work.function], WIDEST))
        assert bool(stores) == (columns <= most)


@pytest.mark.parametrize("columns", [2, 4, 5, 9, 16, 17])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_beside_each_other_are_the_same_as_alone(columns, dtype, rng):
    f = ad.jit(lambda x: ad.logsumexp(x, axis=1))
    for rows in (1, 8, 15, 16, 17, 100, 1000):
        x = rng.normal(size=(rows, columns)).astype(dtype)
        x[0, 0], x[-1, -1] = -np.inf, 3e4
        if rows > 8:
            x[5], x[6, 1], x[7] = -np.inf, np.inf, 1e-40
            x[8, columns // 2] = np.nan
        wide = x.astype(np.float64)
        with np.errstate(all="ignore"):
            expected = np.logaddexp.reduce(wide, axis=1)
        np.testing.assert_allclose(f(x), expected, rtol=1e-6 if dtype == np.float32 else 1e-14, atol=1e-6)


@pytest.mark.parametrize("columns", [2, 3, 5, 12, 13])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_written_run_beside_each_other_too(columns, dtype, rng):
    def of_rows(x):
        return ad.softmax(x, axis=1), ad.log_softmax(x, axis=1), x - ad.mean(x, axis=1, keepdims=True)

    softmax = ad.jit(of_rows)
    gradient = ad.jit(ad.value_and_grad(lambda x: ad.sum(ad.logsumexp(x, axis=1) * ad.max(x, axis=1))))
    rtol = 4e-6 if dtype == np.float32 else 1e-13
    for rows in (1, 7, 16, 17, 100, 1000):
        x = rng.normal(size=(rows, columns)).astype(dtype)
        before = x.copy()
        wide = x.astype(np.float64)
        e = np.exp(wide)
        p = e / e.sum(axis=1, keepdims=True)
        expected = p, np.log(p), wide - wide.mean(axis=1, keepdims=True)
        for ours, right in zip(softmax(x), expected, strict=True):
            np.testing.assert_allclose(ours, right, rtol=rtol, atol=rtol)
        top, log = wide.max(axis=1, keepdims=True), np.log(e.sum(axis=1, keepdims=True))
        value, bar = gradient(x)
        np.testing.assert_allclose(value, np.sum(log * top), rtol=10 * rtol, atol=10 * rtol)
        np.testing.assert_allclose(bar, p * top + log * (wide == top), rtol=10 * rtol, atol=10 * rtol)
        np.testing.assert_array_equal(x, before)


def test_what_rows_keep_for_themselves_is_handed_on_without_memory():
    x = input_node(Aval((1000, 3), np.float32))
    top = apply(OPS["exp"], x)
    total = apply(OPS["sum"], top, axis=(1,))
    spread = apply(OPS["broadcast_to"], apply(OPS["reshape"], total, shape=(1000, 1)), shape=(1000, 3))
    (step,) = plan(Graph.of([x], [apply(OPS["div"], top, spread)])).steps
    text = emit_module([step.work.function], WIDEST)
    assert re.search(r"@exp\.v16f32", text) and "extractelement <16 x float>" in text
    check(Graph.of([x], [apply(OPS["div"], top, spread)]))


def weighted(places, step):
    """y[i] = sum of (k + 1) x[step * i + places[k]]."""
    nest = Nest("weighted", writes=("y",), x=memref(F64), y=memref(F64), n=INDEX)
    with nest.parallel(nest.n) as i:
        at, total = nest.op("arith.muli", i, nest.constant(step, INDEX)), nest.constant(0.0, F64)
        for k, place in enumerate(places):
            x = nest.load(nest.x, nest.op("arith.addi", at, nest.constant(place, INDEX)))
            total = nest.op("arith.addf", total, nest.op("arith.mulf", x, nest.constant(k + 1.0, F64)))
        nest.store(total, nest.y, i)
    return nest.end()


@EACH_MACHINE
@pytest.mark.parametrize(("places", "step"), [
    ((2, 0, 1), 3), ((3, 1, 2, 0), 4), ((5, 4, 6, 7), 4), ((0, 2), 3), ((0, 1, 3), 4), ((1, 2, 3), 3),
    ((0, 0, 1, 2), 3),
])  # fmt: skip
def test_columns_are_read_in_any_order_and_not_all_of_them(places, step, features, rng):
    function = weighted(places, step)
    code = engine.compile(emit_module([function], features))
    for n in (1, 8, 33, 100):
        x, y = rng.normal(size=step * (n - 1) + max(places) + 1), np.zeros(n)
        assert call(code, function, (x, y, n)) == 0
        expected = sum((k + 1) * x[place::step][:n] for k, place in enumerate(places))
        np.testing.assert_allclose(y, expected, rtol=1e-13, atol=1e-13)


def energy(x):
    apart = x[:, None, :] - x[None, :, :]
    return ad.sum(1.0 / ad.sqrt(ad.sum(apart * apart, axis=2) + 0.5))


@pytest.mark.parametrize("bodies", [1, 2, 5, 16, 17, 40, 70])
@pytest.mark.parametrize("columns", [2, 3, 5, 7, 8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_short_rows_that_add_to_places_in_memory_are_right(dtype, columns, bodies, rng):
    """The force on each body, of which every pair adds to a place for each column, twice."""
    x = rng.normal(size=(bodies, columns)).astype(dtype)
    value, slope = ad.jit(ad.value_and_grad(energy))(x)
    apart = x[:, None, :].astype(np.float64) - x[None, :, :]
    near = (apart * apart).sum(axis=2) + 0.5
    eps = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(value, (1.0 / np.sqrt(near)).sum(), rtol=eps)
    expected = -2.0 * (near[:, :, None] ** -1.5 * apart).sum(axis=1)
    np.testing.assert_allclose(slope, expected, rtol=eps, atol=eps * max(1.0, np.abs(expected).max()))


def adding(*places):
    """a[place] += (k + 1) x[i] for the k-th of these places: arguments, or one of them and how far behind it."""
    names = dict.fromkeys([name for name, _ in places], INDEX)
    nest = Nest("adding", writes=("a",), x=memref(F64), a=memref(F64), n=INDEX, **names)
    at = [nest.op("arith.addi", getattr(nest, name), nest.constant(behind, INDEX)) for name, behind in places]

    def body(i):
        for k, place in enumerate(at):
            more = nest.op("arith.mulf", nest.load(nest.x, i), nest.constant(k + 1.0, F64))
            nest.store(nest.op("arith.addf", nest.load(nest.a, place), more), nest.a, place)
        return ()

    nest.loop(nest.n, (), body)
    return nest.end()


@EACH_MACHINE
@pytest.mark.parametrize("q", [1, 3])
def test_places_that_may_be_one_are_added_to_one_by_one(q, features, rng):
    function = adding(("p", 0), ("q", 0))
    text = emit_module([function], features)
    assert "fadd <" not in text
    code = engine.compile(text)
    x, a, expected = rng.normal(size=37), np.zeros(4), np.zeros(4)
    assert call(code, function, (x, a, 37, 1, q)) == 0
    np.add.at(expected, [1, q], [x.sum(), 2.0 * x.sum()])
    np.testing.assert_allclose(a, expected, rtol=1e-12, atol=1e-12)


@EACH_MACHINE
def test_places_at_a_known_distance_have_lanes_of_their_own(features, rng):
    function = adding(("p", 0), ("p", 1), ("p", 2))
    text = emit_module([function], features)
    assert "fadd <" in text
    code = engine.compile(text)
    for n in (0, 1, 5, 8, 37):
        x, a = rng.normal(size=n), np.ones(5)
        assert call(code, function, (x, a, n, 1)) == 0
        expected = [1.0, *[1.0 + k * x.sum() for k in (1, 2, 3)], 1.0]
        np.testing.assert_allclose(a, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("columns", [2, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("rows", [3, 17, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_short_rows_that_are_written_and_added_up_are_right(dtype, rows, columns):
    x = input_node(Aval((rows, columns), dtype))
    total = apply(OPS["reshape"], apply(OPS["sum"], x, axis=(1,)), shape=(rows, 1))
    y = apply(OPS["sub"], x, apply(OPS["broadcast_to"], total, shape=(rows, columns)))
    squares = apply(OPS["mul"], y, y)
    check(Graph.of([x], [y, apply(OPS["sum"], squares, axis=(0, 1)), apply(OPS["sum"], squares, axis=(0,))]))


@pytest.mark.parametrize("columns", [2, 3, 7, 10, 12, 13])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_looked_up_element_of_each_short_row_is_the_one(columns, dtype, rng):
    def loss(z, labels):
        return -ad.mean(ad.take_along_axis(ad.log_softmax(z, axis=1), labels[:, None], axis=1))

    f = ad.jit(ad.value_and_grad(loss))
    for rows in (1, 4, 31, 100, 1003):
        z, labels = rng.normal(size=(rows, columns)).astype(dtype), rng.integers(-columns, columns, rows)
        value, gradient = f(z, labels)
        chances = np.exp(z.astype(np.float64))
        chances /= chances.sum(axis=1, keepdims=True)
        ones = np.eye(columns)[labels]
        tolerance = 2e-6 if dtype is np.float32 else 1e-14
        np.testing.assert_allclose(value, -np.log((chances * ones).sum(axis=1)).mean(), rtol=tolerance)
        np.testing.assert_allclose(gradient, (chances - ones) / rows, rtol=0, atol=tolerance / rows)
        for place in (0, rows // 2, rows - 1):
            wrong = labels.copy()
            wrong[place] = columns
            with pytest.raises(IndexError):
                f(z, wrong)


@pytest.mark.parametrize("columns", [3, 10])
def test_short_rows_of_which_one_element_is_looked_up_run_side_by_side(columns):
    x, at = input_node(Aval((1000, columns), np.float32)), input_node(Aval((1000, 1), np.int64))
    total = apply(OPS["reshape"], apply(OPS["sum"], apply(OPS["exp"], x), axis=(1,)), shape=(1000, 1))
    chances = apply(OPS["div"], apply(OPS["exp"], apply(OPS["take_along"], x, at, axis=1)), total)
    (step,) = plan(Graph.of([x, at], [chances])).steps
    text = emit_module([step.work.function], WIDEST)
    # Places are i64, of which a vector has eight.
    assert re.search(r"masked\.gather\.v(16|32)f32", text) and re.search(r"exp\.v(16|32)f32", text)


@pytest.mark.parametrize(
    ("rows", "columns", "blocks"),
    [(10, 40_000, 10), (7, 12_000, 4), (5, 300, 1), (200, 500, 4), (130, 1_500, 9), (130, 5_000, 22)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_long_rows_that_meet_in_one_number_are_blocks_for_threads(rows, columns, blocks, dtype, rng):
    x = input_node(Aval((rows, columns), dtype))
    e = apply(OPS["exp"], x)
    norm = apply(OPS["sum"], e, axis=(1,))
    spread = apply(OPS["broadcast_to"], apply(OPS["reshape"], norm, shape=(rows, 1)), shape=(rows, columns))
    total = apply(OPS["sum"], apply(OPS["log"], norm), axis=(0,))
    graph = Graph.of([x], [apply(OPS["div"], e, spread), total])
    program = plan(graph)
    (step,) = program.steps
    assert any(o.name == "scf.parallel" for o in step.work.function.body.operations) == (blocks > 1)
    assert ((blocks,) in [b.aval.shape for b in program.buffers if b.role == "temporary"]) == (blocks > 1)
    array = rng.normal(size=(rows, columns)).astype(dtype)
    found = compile_graph(graph).call(array)
    exact = np.exp(array.astype(np.longdouble))
    tolerance = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(found[1], np.log(exact.sum(axis=1)).sum(), rtol=tolerance)
    np.testing.assert_allclose(found[0], exact / exact.sum(axis=1, keepdims=True), rtol=2 * tolerance)
