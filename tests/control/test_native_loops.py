"""Loops in native code: no Python between steps, and to the bit what Python driving the same body gives."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor

import mlir_tools
import numpy as np
import pytest
from hosted import noted_function

import autodiff as ad
from codegen import compiler
from codegen.ir import evaluate
from codegen.program import Gemm, HostCall, Kernel, Loop, every_step
from codegen.runtime.launcher import PackedCall

RNG = np.random.default_rng(3)
W = RNG.normal(size=(6, 6)) * 0.4
X = RNG.normal(size=(9, 3, 6))


def caught(f, *args):
    """The graph that `f(*args)` compiles, with its executable and the program."""
    ad.clear_cache()
    with compiler.recorded() as graphs:
        ad.jit(f)(*args)
    graph = graphs[0]
    return graph, compiler.compile_graph(graph), compiler.make_program(graph)


def driven_by_python(graph, inputs):
    """The loop's reference calls the compiled body for each step."""
    return evaluate(graph, *inputs)


def inputs_of(graph):
    """Anything that fits, but no index out of range."""
    rng = np.random.default_rng(11)
    return [
        rng.normal(size=i.aval.shape).astype(i.aval.dtype) if i.aval.dtype.kind == "f" else np.zeros(*_zeros(i.aval))
        for i in graph.inputs
    ]


def _zeros(aval):
    return aval.shape, aval.dtype


def cell(h, x):
    new = ad.tanh(h @ W + x)
    return new, (new.sum(axis=1), h)


def swapped(c, x):
    a, b = c
    return (b, a + b * x), a


def counted(c, x):
    value, count = c
    return (value * 0.5 + x.sum(), count + 1), {"half": value, "count": count, "bit": x > 0}


def nested(c, x):
    return ad.scan(lambda d, e: (d * 0.9 + e, d), c, x)


def untouched(c, x):
    return c, c[0] + x


def threaded(c, x):
    return ad.sin(c) + x.sum(), ad.exp(c[:2])


LOOPS = {
    "a recurrent cell": (cell, np.zeros((3, 6)), X),
    "states that change places": (swapped, (1.0, 2.0), X[:, 0, 0]),
    "several dtypes": (counted, (0.0, 0), X),
    "a loop in a loop": (nested, np.zeros(6), X),
    "a state that stays": (untouched, (1.0, np.arange(3)), X),
    "one element": (cell, np.zeros((3, 6)), X[:1]),
    "two elements": (swapped, (1.0, 2.0), X[:2, 0, 0]),
    "no elements": (counted, (4.0, 2), X[:0]),
    "no state": (lambda c, x: (c, x * 2), None, X),
    "nothing stacked": (lambda c, x: (c + x, None), np.zeros((3, 6)), X),
    "single precision": (lambda c, x: (ad.sin(c) + x, c.sum()), np.zeros((3, 6), "f4"), X.astype("f4")),
    "a kernel that threads share": (threaded, np.linspace(0, 1, 400_000), X[:3]),
}
each_loop = pytest.mark.parametrize("name", LOOPS)
both_ways = pytest.mark.parametrize("reverse", [False, True], ids=["forwards", "backwards"])


@each_loop
@both_ways
def test_a_native_loop_equals_one_driven_by_python_bit_for_bit(name, reverse):
    step, init, xs = LOOPS[name]
    graph, executable, program = caught(lambda init, xs: ad.scan(step, init, xs, reverse=reverse), init, xs)
    assert any(isinstance(s.work, Loop) for s in program.steps)
    assert not any(isinstance(s.work, HostCall) for s, _, _ in every_step(program)) and executable.plan
    inputs = inputs_of(graph)
    for found in (executable.call(*inputs), PackedCall(executable.plan)(*inputs)):
        for a, b in zip(found, driven_by_python(graph, inputs), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def gradient_of_cell(w, xs):
    def loss(w, xs):
        h, ys = ad.scan(lambda h, x: (ad.tanh(h @ w + x), h.sum()), np.zeros((3, 6)), xs)
        return (h * h).sum() + (ys * ys).sum()

    return ad.value_and_grad(loss, (0, 1))(w, xs)


def test_a_gradient_is_two_native_loops_and_no_vector_is_made_of_their_results():
    graph, executable, program = caught(gradient_of_cell, W, X)
    loops = [s for s in program.steps if isinstance(s.work, Loop)]
    assert [s.work.is_reversed for s in loops] == [False, True] and executable.plan
    vectors = {n.aval for n in graph.nodes if n.op.name == "scan"}
    assert len(vectors) == 2 and not vectors & {b.aval for b in program.buffers}


def test_all_results_of_a_loop_are_made_in_one_run():
    _, _, program = caught(lambda c, xs: ad.scan(counted, c, xs), (0.0, 0), X)
    assert sum(isinstance(s.work, Loop) for s in program.steps) == 1


def test_what_nobody_wants_of_a_loop_is_not_computed():
    _, _, program = caught(lambda c, xs: ad.scan(counted, c, xs)[1]["half"], (0.0, 0), X)
    (loop,) = [s.work for s in program.steps if isinstance(s.work, Loop)]
    # The half is the state before each step; the count is not there at all.
    assert not loop.stacked and loop.lasts == (None,) and len(loop.befores) == 1


def large(h, x):
    return ad.tanh(h @ LARGE + x), None


LARGE = RNG.normal(size=(16, 16)) * 0.2


def gradient_of_large(step):
    def loss(h, xs):
        return (ad.scan(step, h, xs)[0] ** 2).sum()

    return caught(ad.grad(loss), np.zeros((8, 16)), RNG.normal(size=(5, 8, 16)))


def products_of(program):
    return sum(isinstance(step.work, Gemm) for step, _, _ in every_step(program))


def test_no_product_of_a_step_is_computed_twice_unless_it_is_checkpointed():
    _, kept, program = gradient_of_large(large)
    assert products_of(program) == 2  # h @ W, and the cotangent of h
    (forwards, backwards) = [s.work for s in program.steps if isinstance(s.work, Loop)]
    assert [a.shape for a in forwards.stacked] == [(8, 16)] and len(backwards.scanned) == 1
    graph, again, program = gradient_of_large(ad.checkpoint(large))
    assert products_of(program) == 3
    (forwards, _) = [s.work for s in program.steps if isinstance(s.work, Loop)]
    assert not forwards.stacked
    inputs = inputs_of(graph)
    np.testing.assert_allclose(kept.call(*inputs)[0], again.call(*inputs)[0], rtol=1e-12, atol=1e-14)


def test_inputs_that_no_step_reads_do_not_enter_the_loop():
    _, _, program = caught(lambda xs: ad.scan(lambda c, x: (c + x[0], None), 0.0, (xs, ad.exp(xs)))[0], X[:, 0, 0])
    (step,) = program.steps
    assert len(step.work.scanned) == 1


def test_a_solve_in_a_step_is_done_once_forwards_and_once_backwards():
    a, xs = np.eye(3) * 4.0 + RNG.normal(size=(3, 3)) * 0.1, RNG.normal(size=(3, 3))

    def loss(a, xs):
        return (ad.scan(lambda c, x: (ad.linalg.solve(a, c + x), None), np.zeros(3), xs)[0] ** 2).sum()

    def by_hand(a, xs):
        c = np.zeros(3)
        for k in range(3):
            c = ad.linalg.solve(a, c + xs[k])
        return (c * c).sum()

    _, executable, program = caught(ad.grad(loss, (0, 1)), a, xs)
    kernels = [s.work.function.name for s, _, _ in every_step(program) if isinstance(s.work, Kernel)]
    assert sum("solve" in name for name in kernels) == 2 and executable.plan
    for found, expected in zip(ad.grad(loss, (0, 1))(a, xs), ad.grad(by_hand, (0, 1))(a, xs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_asking_for_the_loss_first_does_not_run_the_loop_again():
    w = ad.tensor(W, requires_grad=True)
    with compiler.recorded() as graphs:
        h, ys = ad.scan(lambda h, x: (ad.tanh(h @ w + x), h.sum()), np.zeros((3, 6)), X)
        loss = (h * h).sum() + (ys * ys).sum()
        loss.item()
        loss.backward()
    assert [sum(n.op.name == "scan" for n in g.nodes) for g in graphs] == [1, 1]
    program = compiler.make_program(graphs[1])  # reads what was kept where it lies
    (loop,) = [s for s in program.steps if isinstance(s.work, Loop)]
    assert sum(start > 0 for _, start in loop.work.scanned) == 2  # states and products
    inputs = inputs_of(graphs[1])
    for expected in (compiler.compile_graph(graphs[1]).call(*inputs), mlir_tools.run_program(program, inputs)):
        for a, b in zip(expected, evaluate(graphs[1], *inputs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), gradient_of_cell(W, X)[1][0], rtol=1e-12)


def test_a_body_that_needs_python_is_driven_by_python_and_all_results_are_made_in_one_run():
    noted, calls = noted_function()
    def program(x):
        return ad.scan(lambda c, e: ((c[0] + noted(e), c[1] + 1), c[0]), (0.0, 0), x)

    compiled = ad.jit(program)
    compiled(np.arange(4.0))
    calls.clear()
    (total, count), before = compiled(np.arange(4.0))
    assert (total, count, before.tolist(), len(calls)) == (12.0, 4, [0.0, 0.0, 2.0, 6.0], 4)


def test_an_index_out_of_range_in_a_step_is_an_error_and_the_next_call_is_right():
    take = ad.jit(lambda x, places: ad.scan(lambda c, i: (c + x[i], c), 0.0, places))
    x = np.arange(1.0, 4.0)
    assert take(x, np.array([0, 1, 2]))[0] == 6.0
    with pytest.raises(IndexError, match="out of range"):
        take(x, np.array([0, 5, 2]))
    assert take(x, np.array([2, 2, 2]))[0] == 9.0


def test_one_loop_runs_in_several_threads_at_once():
    f = ad.jit(gradient_of_cell)
    expected = f(W, X)
    with ThreadPoolExecutor(4) as pool:
        for value, (w_bar, x_bar) in pool.map(lambda _: f(W, X), range(40)):
            assert value == expected[0]
            np.testing.assert_array_equal(w_bar, expected[1][0])
            np.testing.assert_array_equal(x_bar, expected[1][1])


def test_a_long_loop_lets_other_threads_run():
    _, executable, _ = caught(lambda c, xs: ad.scan(cell, c, xs), np.zeros((3, 6)), np.tile(X, (3000, 1, 1)))
    _, short, _ = caught(lambda c, xs: ad.scan(cell, c, xs), np.zeros((3, 6)), X)
    assert executable.plan.is_long and not short.plan.is_long


def test_results_outlive_the_loop_and_its_inputs_are_left_alone():
    init, xs, plain = np.zeros((3, 6)), X.copy(), object()
    f = ad.jit(lambda c, xs: ad.scan(cell, c, xs))
    last, (sums, before) = f(init, xs)
    kept = last.copy(), sums.copy(), before.copy()
    del f
    ad.clear_cache()
    for a, b in zip((last, sums, before), kept, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not init.any() and (xs == X).all() and sys.getrefcount(last) == sys.getrefcount(plain)


def test_a_program_with_loops_prints_with_the_programs_of_their_bodies(golden):
    graph, _, _ = caught(gradient_of_cell, W, X)
    stages = compiler.stages(graph)
    golden(re.sub("  # .*", "", stages.fused))  # without names and lines
    assert "loops                 2" in stages.stats and "define" in stages.llvm


@pytest.mark.parametrize("name", ["several dtypes", "a loop in a loop", "no elements", "states that change places"])
@both_ways
def test_the_body_of_a_loop_is_accepted_by_mlir_and_gives_the_same(name, reverse):
    step, init, xs = LOOPS[name]
    graph, executable, program = caught(lambda init, xs: ad.scan(step, init, xs, reverse=reverse), init, xs)
    inputs = inputs_of(graph)
    for a, b in zip(mlir_tools.run_program(program, inputs), executable.call(*inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_the_gradient_of_a_loop_runs_in_mlir():
    graph, executable, program = caught(gradient_of_cell, W, X)
    inputs = inputs_of(graph)
    for a, b in zip(mlir_tools.run_program(program, inputs), executable.call(*inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("derived", [lambda f: f, ad.grad], ids=["values", "gradients"])
def test_what_no_step_changes_is_computed_before_the_loop(derived):
    def looped(a, h):
        return ad.sum(ad.fori_loop(0, 5, lambda i, h: ad.tanh(ad.linalg.inv(a) @ h) + h, h))

    def unrolled(a, h):
        for _ in range(5):
            h = ad.tanh(ad.linalg.inv(a) @ h) + h
        return ad.sum(h)

    a, h = np.cos(np.arange(16.0)).reshape(4, 4) + 3.0 * np.eye(4), np.arange(4.0)
    ad.clear_cache()
    with compiler.recorded() as graphs:
        found = ad.jit(derived(looped))(a, h)
    np.testing.assert_allclose(found, derived(unrolled)(a, h), rtol=1e-12)
    assert [node.op.name for node in graphs[-1].nodes].count("inv") == 1


def test_the_inside_of_a_checkpoint_stays_in_its_step():
    def looped(a, h):
        return ad.sum(ad.scan(ad.checkpoint(lambda h, _: (ad.tanh(ad.linalg.inv(a) @ h), None)), h, length=3)[0])

    a, h = np.cos(np.arange(16.0)).reshape(4, 4) + 3.0 * np.eye(4), np.arange(4.0)
    ad.clear_cache()
    with compiler.recorded() as graphs:
        ad.jit(ad.grad(looped))(a, h)
    assert "inv" not in [node.op.name for node in graphs[-1].nodes]
