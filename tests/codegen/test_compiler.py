"""The pipeline end to end: graphs of real operations, compiled, equal what the evaluator says."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from graphs import graphs
from hypothesis import given, settings

import autodiff as ad
import autodiff.ops
from codegen import compiler
from codegen.ir import evaluate, parse
from codegen.runtime.cache import LRU
from codegen.runtime.executable import Executable
from codegen.runtime.kernels import KernelTable

GRAPHS = {
    "elementwise": "f(x: f64[8], w: f64[8]) { a = mul(x, w)  b = exp(a)  c = add(b, x)  return c }",
    "sum of a chain": "f(x: f64[100], w: f64[100]) { a = mul(x, w)  b = sin(a)  c = sum(b, axis=(0,))  return c }",
    "two outputs": "f(x: f64[3,4]) { a = exp(x)  b = sum(a, axis=(1,))  return a, b }",
    "softmax": """f(x: f64[5,7]) {
        m = max(x, axis=(1,))  k = reshape(m, shape=(5, 1))  d = sub(x, k)  e = exp(d)
        s = sum(e, axis=(1,))  t = reshape(s, shape=(5, 1))  y = div(e, t)  return y }""",
    "column sums": "f(x: f32[6,5]) { a = mul(x, x)  b = sum(a, axis=(0,))  return b }",
    "product": "f(x: f64[6,5], w: f64[5,4]) { a = matmul(x, w)  b = tanh(a)  return b }",
    "large product": "f(x: f32[40,50], w: f32[50,60]) { a = matmul(x, w)  b = tanh(a)  return b }",
    "product of transposes": """f(x: f64[6,5], y: f64[6,4]) {
        t = transpose(x, axes=(1, 0))  a = matmul(t, y)  return a }""",
    "batched product": "f(x: f64[3,6,5], w: f64[3,5,4]) { a = matmul(x, w)  return a }",
    "scalar": "f(x: f64[]) { a = exp(x)  b = mul(a, x)  return b }",
    "empty": "f(x: f64[0,3]) { a = exp(x)  b = sum(a, axis=(0,))  return a, b }",
    "an input is an output": "f(x: f64[4], y: f64[4]) { return x, y, x }",
    "one node twice": "f(x: f64[4]) { a = exp(x)  return a, a }",
    "unread input": "f(x: f64[4], y: f32[2,2]) { a = neg(x)  return a }",
    "constant": 'f() { a = constant(value=2.5, dtype="f64")  return a }',
    "integers": "f(x: i32[7], y: i32[7]) { a = add(x, y)  b = mul(a, x)  return b }",
    "truth": "f(x: f64[7], y: f64[7]) { a = less(x, y)  b = where(a, x, y)  return a, b }",
    "running sum": "f(x: f64[4,5]) { a = cumsum(x, axis=1, reverse=False)  b = exp(a)  return b }",
    "f32": "f(x: f32[33]) { a = exp(x)  b = log(a)  c = sum(b, axis=(0,))  return b, c }",
}


@pytest.fixture
def table():
    """A compiler that has seen nothing."""
    compiler.clear()
    yield
    compiler.clear()


def inputs_of(graph, rng):
    found = []
    for node in graph.inputs:
        values = rng.standard_normal(node.aval.shape) * 2
        found.append(np.asarray(values > 0 if node.aval.dtype.kind == "b" else values).astype(node.aval.dtype))
    return found


def assert_equal(got, expected, coarsest=np.float64):
    """Equal to some last places, of `coarsest` where the graph computes in it on the way."""
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert type(g) is np.ndarray and g.dtype == e.dtype and g.shape == e.shape
        if e.dtype.kind == "f":
            scale = max(np.finfo(e.dtype).eps, np.finfo(coarsest).eps) * 128
            np.testing.assert_allclose(g, e, rtol=scale, atol=scale)
        else:
            np.testing.assert_array_equal(g, e)


@pytest.mark.parametrize("name", GRAPHS)
def test_compiled_equals_evaluated(table, rng, name):
    graph = parse(GRAPHS[name])
    arrays = inputs_of(graph, rng)
    got = compiler.compile_graph(graph).call(*arrays)
    assert_equal(got, evaluate(graph, *arrays))
    for position, result in enumerate(got):
        assert not any(np.shares_memory(result, other) for other in (*arrays, *got[:position]))


@given(graphs())
@settings(max_examples=30, deadline=None)
def test_compiled_equals_evaluated_for_random_graphs(graph):
    arrays = inputs_of(graph, np.random.default_rng(0))
    has_floats = any(node.aval.dtype == np.float32 for node in (*graph.inputs, *graph.nodes))
    expected = evaluate(graph, *arrays)
    assert_equal(compiler.compile_graph(graph).call(*arrays), expected, np.float32 if has_floats else np.float64)


def test_specials_reach_the_result(table):
    graph = parse("f(x: f64[6]) { a = mul(x, x)  b = add(a, x)  c = sum(b, axis=(0,))  return b, c }")
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-320, 1.0])
    assert_equal(compiler.compile_graph(graph).call(x), evaluate(graph, x))


def test_graphs_of_one_shape_share_an_executable(table):
    text = GRAPHS["softmax"]
    first, before = compiler.compile_graph(parse(text)), compiler.counts()
    assert compiler.compile_graph(parse(text.replace("f(", "another("))) is first
    after = compiler.counts()
    assert (after.compiles - before.compiles, after.hits - before.hits) == (0, 1)
    assert compiler.compile_graph(parse(text.replace("f64[5,7]", "f32[5,7]"))) is not first
    assert ad.cache_info().compiles == before.compiles + 1 and ad.cache_info().entries == 2


def test_counts_say_what_is_kept(table):
    before = compiler.counts()
    assert (before.entries, before.kernels, before.bytes) == (0, 0, 0)
    compiler.compile_graph(parse(GRAPHS["softmax"]))
    after = compiler.counts()
    assert after.compiles == before.compiles + 1 and after.entries == 1 and after.modules == before.modules + 1
    assert after.kernels >= 1 and after.bytes > 500


def test_clearing_forgets_but_what_is_held_goes_on(table, rng):
    graph = parse(GRAPHS["elementwise"])
    arrays = inputs_of(graph, rng)
    call = compiler.compile_graph(graph).call
    compiler.clear()
    gc.collect()
    assert_equal(call(*arrays), evaluate(graph, *arrays))
    assert ad.cache_info().entries == 0


def test_an_executable_goes_when_nobody_holds_it(table):
    executable = compiler.compile_graph(parse(GRAPHS["elementwise"]))
    watched = weakref.ref(executable)
    compiler.clear()
    del executable
    gc.collect()
    assert watched() is None


def test_an_executable_is_called_by_the_name_of_its_graph(table):
    graph = parse(GRAPHS["elementwise"].replace("f(", "energy("))
    with pytest.raises(TypeError, match="energy: expected 2 arguments"):
        compiler.compile_graph(graph).call()


def test_what_is_compiled_inside_is_recorded_in_order(table):
    first, second = parse(GRAPHS["scalar"]), parse(GRAPHS["f32"])
    with compiler.recorded() as outer:
        compiler.compile_graph(first)
        with compiler.recorded() as inner:
            compiler.compile_graph(second)
            compiler.compile_graph(first)
    compiler.compile_graph(parse(GRAPHS["integers"]))
    assert outer == [first, second] and inner == [second]


def test_threads_that_ask_for_one_graph_compile_it_once(table, rng):
    graph = parse(GRAPHS["softmax"])
    before, found = ad.cache_info().compiles, []
    threads = [threading.Thread(target=lambda: found.append(compiler.compile_graph(graph))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(executable) for executable in found}) == 1 and ad.cache_info().compiles == before + 1


def test_threads_may_compile_call_and_evict_at_once(table, monkeypatch):
    monkeypatch.setattr(compiler.store, "executables", LRU(3))
    monkeypatch.setattr(compiler, "_kernels", KernelTable(2))
    graphs = [
        parse(f"f(x: f64[{n}]) {{ a = exp(x)  b = add(a, x)  c = sum(b, axis=(0,))  return b, c }}")
        for n in range(2, 10)
    ]
    wrong = []

    def work(seed):
        order = np.random.default_rng(seed).integers(0, len(graphs), 40)
        for turn, number in enumerate(order):
            x = np.full(number + 2, float(seed))
            b, c = compiler.compile_graph(graphs[number]).call(x)
            if not (np.allclose(b, np.exp(x) + x, rtol=1e-14) and np.isclose(c, b.sum(), rtol=1e-14)):
                wrong.append((seed, number))
            if turn == 20 and seed == 0:
                compiler.clear()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and ad.cache_info().entries <= 3


STAGES = ("graph", "optimized", "fused", "mlir", "llvm", "llvm_optimized", "asm", "stats")


@pytest.mark.parametrize("name", ["softmax", "large product", "an input is an output", "empty"])
def test_every_stage_is_text(name):
    stages = compiler.stages(parse(GRAPHS[name]))
    for stage in STAGES:
        text = getattr(stages, stage)
        assert isinstance(text, str) and text.strip(), stage
        assert text == getattr(compiler.stages(parse(GRAPHS[name])), stage), stage


def test_stages_show_what_runs():
    stages = compiler.stages(parse(GRAPHS["large product"]))
    assert "matmul" in stages.graph and "gemm f32 40x60x50 (x0, x1) -> y0" in stages.fused
    assert "func.func" in stages.mlir and "define i32 @" in stages.llvm
    assert "ret" in stages.asm and "products              1" in stages.stats
    assert parse(stages.optimized).key == stages.program.graph.key


def test_looking_compiles_nothing(table):
    before = compiler.counts()
    assert compiler.stages(parse(GRAPHS["softmax"])).llvm
    assert compiler.counts() == before


def test_stages_are_the_same_in_every_process():
    script = (
        "import autodiff.ops\nfrom codegen import compiler\nfrom codegen.ir import parse\n"
        f"stages = compiler.stages(parse({GRAPHS['softmax']!r}))\n"
        f"print(*[getattr(stages, stage) for stage in {STAGES!r}], sep='')"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(texts) == 1 and "0x7f" not in texts.pop()


def test_facts_name_the_machine():
    facts = compiler.facts()
    assert set(facts) == {
        "LLVM", "target", "calls", "threads", "fast math", "subnormal numbers", "deterministic",
        "debug info", "cache of code",
    } and all(facts.values())  # fmt: skip
    assert facts["cache of code"] == "off"  # tests leave the user's cache alone


def test_programs_become_executables_without_a_graph_table(table, rng):
    graph = parse(GRAPHS["sum of a chain"])
    program = compiler.make_program(graph)
    arrays = inputs_of(graph, rng)
    assert_equal(Executable(program, compiler._kernels).call(*arrays), evaluate(graph, *arrays))
