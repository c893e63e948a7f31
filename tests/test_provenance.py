"""Every value of a graph says where it comes from, in every stage, and nothing else depends on it."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from differential.random_programs import programs
from hypothesis import given, settings
from mlir_tools import tools, verify

import autodiff as ad
from autodiff.inspection_data import steps_of
from codegen import ir
from codegen.ir import Region
from codegen.runtime import engine

KERNELS = np.linspace(0.0, 1.0, 6).reshape(6, 1)


@ad.function
def softplus(x): ...


@softplus.forward(ad.Tensor)
def _(ctx, x):
    ctx.save_for_backward(x)
    return ad.log1p(ad.exp(x))


@softplus.backward(ad.Tensor)
def _(ctx, y_bar):
    (x,) = ctx.saved_tensors
    return y_bar / (1 + ad.exp(-x))


def dense(params, x):
    h = softplus(x @ params["w"] + params["b"])
    return ad.mean(h * h)


def scanned(a, xs):
    def step(c, x):
        return ad.sin(c) * a + x, c

    last, seen = ad.scan(step, 0.5, xs)
    return last + ad.sum(seen)


def gaussian(noise, y):
    distance = (KERNELS - KERNELS.T) ** 2
    lower = ad.linalg.cholesky(ad.exp(-distance) + ad.exp(noise) * ad.eye(6))
    z = ad.linalg.solve_triangular(lower, y, lower=True)
    return 0.5 * ad.sum(z**2) + ad.sum(ad.log(ad.diagonal(lower)))


def structured(d, m):
    return ad.sum(ad.Diagonal(d) @ m @ ad.Diagonal(d))


def mapped(w, xs):
    return ad.sum(ad.vmap(lambda x: ad.tanh(ad.sum(w * x)))(xs) ** 2)


def second(x):
    return ad.sum(ad.grad(lambda t: ad.sum(ad.tanh(t) ** 3))(x) ** 2)


def complex_(z):
    return ad.sum(ad.abs(z * z + 1) ** 2)


AVAL = ir.parse_aval
PROGRAMS = {
    "dense": (dense, {"w": AVAL("f64[4,3]"), "b": AVAL("f64[3]")}, AVAL("f64[8,4]")),
    "scanned": (scanned, AVAL("f64[]"), AVAL("f64[7]")),
    "gaussian": (gaussian, AVAL("f64[]"), AVAL("f64[6]")),
    "structured": (structured, AVAL("f64[5]"), AVAL("f64[5,5]")),
    "mapped": (mapped, AVAL("f64[4]"), AVAL("f64[9,4]")),
    "second": (second, AVAL("f64[4]")),
    "complex": (complex_, AVAL("c128[4]")),
}
BOTH = pytest.mark.parametrize("backward", [False, True])
EACH = pytest.mark.parametrize("name", PROGRAMS)


def inspected(name, backward=True):
    f, *args = PROGRAMS[name]
    return ad.inspect(f, *args, backward=backward)


def graphs(graph):
    """A graph and those inside of it."""
    yield graph
    for node in graph.nodes:
        for value in node.params:
            if isinstance(value, Region):
                yield from graphs(value.graph)


@EACH
@BOTH
def test_every_node_has_a_line_of_this_file_and_every_backward_one_a_rule(name, backward):
    seen = inspected(name, backward)
    for graph in graphs(seen.stages.recorded):
        for node in graph.nodes:
            (origin, *_) = node.origins
            assert origin.lines and origin.lines[0].file == __file__, (graph, node)
            assert origin.half != "backward" or origin.rule is not None, node
    halves = {node.origins[0].half for node in seen.stages.recorded.nodes}
    assert ("backward" in halves) is (backward or name == "second")


@EACH
@BOTH
def test_no_pass_drops_an_origin(name, backward):
    stages = inspected(name, backward).stages
    recorded = ir.Graph.of(stages.recorded.inputs, stages.recorded.outputs)
    for graph in (stages.program.graph, stages.program.drawn):
        for node in graph.nodes:
            assert graph.origins_of(node), node
        kept = {o for node in (*graph.inputs, *graph.nodes) for o in graph.origins_of(node)}
        lost = [n for n in recorded.nodes if n.op.name != "constant" and not kept.issuperset(n.origins)]
        assert lost == []


@EACH
@BOTH
def test_every_computed_value_is_a_member_of_a_step(name, backward):
    data = inspected(name, backward).data
    drawn = {node["id"] for node in data["program"]["drawn"] if node["op"] not in ("input", "constant")}
    steps = [step for path, step in steps_of(data["program"]) if "." not in path]
    assert {n for step in steps for n in step["nodes"]} <= drawn | {n["id"] for n in data["program"]["drawn"]}
    moves = {n["id"] for n in data["program"]["drawn"] if n["op"] in ("pair", "join", "workspace")}
    assert drawn - moves <= {n for step in steps for n in step["nodes"]} | {b for s in steps for b in s["stored"]} | {
        i for n in data["program"]["drawn"] for i in n["inputs"]
    }
    buffers = {b["id"] for b in data["program"]["buffers"]}
    assert all(buffers >= {*step["reads"], *step["writes"]} for step in steps)


@EACH
def test_every_name_is_that_of_the_recorded_value_in_all_stages(name):
    data = inspected(name).data
    recorded = {node["id"]: node for node in data["nodes"]}
    for node in (*data["optimized"], *data["program"]["drawn"]):
        assert node["id"] in recorded or node["id"].rpartition("_")[0] in recorded, node
        assert node["from"] and set(node["from"]) <= recorded.keys()
        assert node["of"] is None or node["of"] in recorded


def test_equal_graphs_of_other_lines_are_one_executable_and_have_one_key():
    before = ad.cache_info()
    one = ad.jit(lambda x: ad.sum(ad.sin(x) * 3.25))
    two = ad.jit(
        lambda other: ad.sum(ad.sin(other) * 3.25)
    )
    one(np.ones(3)), two(np.ones(3))
    (a,), (b,) = one.traced.entries.values(), two.traced.entries.values()
    assert a.executable is b.executable and a.graph.key == b.graph.key
    (one_line, *_), (other_line, *_) = [e.graph.set_origins().nodes[0].origins[0].lines for e in (a, b)]
    assert one_line.line + 2 == other_line.line
    assert ad.cache_info().compiles == before.compiles + 1


def test_the_graph_of_an_inspection_has_nodes_to_walk():
    graph = inspected("dense").graph
    assert str(graph).startswith("dense_gradient(params['w']: f64[4,3]")
    by_name = {node.name: node for node in graph.nodes}
    exp = next(n for n in graph.nodes if n.op == "exp")
    assert (exp.shape, exp.dtype, exp.half, exp.rule) == ((8, 3), np.float64, "forward", None)
    assert [i.op for i in exp.inputs] == ["add"] and by_name[exp.name] is exp
    assert exp.lines[0].function == "_" and exp.lines[1].function == "dense"
    rule = next(n for n in graph.nodes if n.half == "backward" and n.rule.function == "softplus")
    assert rule.of.op == "log1p" and rule.rule.file == __file__ and rule.rule.kind == "backward"


@settings(max_examples=20, deadline=None)
@given(programs())
def test_no_value_of_any_program_is_without_a_line(program):
    numbers = tuple(range(program.count))
    stages = ad.inspect(program.function(), *program.arguments, backward=True, argnums=numbers).stages
    for node in stages.recorded.nodes:
        (origin, *_) = node.origins
        assert origin.lines and origin.lines[-1].file == "<string>", node
        assert origin.half != "backward" or origin.rule is not None, node
    for graph in (stages.program.graph, stages.program.drawn):
        assert all([graph.origins_of(node) for node in graph.nodes])
        names = {node.origins[0].name for node in (*stages.recorded.inputs, *stages.recorded.nodes)}
        assert {o.name for node in graph.nodes for o in graph.origins_of(node)} <= names


# ---------------------------------------------------------------- in code


CODE = ("mlir", "llvm", "llvm-opt", "asm")


def instructions(stage, text):
    """The lines that compute something in the bodies of kernels, by number."""
    pattern = {
        "mlir": r"    \s*(%\w+ = (arith|math)\.(?!constant)|memref\.store)",
        "llvm": r"  (%[\w.]+ = (?!phi)|store)",
        "llvm-opt": r"  (%[\w.]+ = (?!phi)|store)",
        "asm": r"\tv?\w+\s+.*%[xyz]mm",
    }[stage]
    inside = False
    for k, line in enumerate(text.splitlines()):
        if stage in ("llvm", "llvm-opt") and line.startswith("define"):
            inside = ".body(" in line and "nest" not in line.partition("(")[0].removesuffix(".body")
        if stage == "mlir" and line.startswith("  func.func"):
            inside = line.startswith("  func.func @k")
        if stage == "asm" and re.match(r"\S+:$", line) and not line.startswith(".L"):
            inside = line.endswith(".body:") and not line.startswith("nest")
        if inside and re.match(pattern, line) and not line.endswith(": index"):
            yield k


@EACH
@pytest.mark.parametrize("stage", CODE)
def test_ninety_five_of_a_hundred_instructions_of_kernels_name_a_value_and_a_line(name, stage):
    data = inspected(name).data
    text, runs = data["texts"][stage]["text"], data["texts"][stage]["lines"]
    named = {k for first, count, _, nodes in runs if nodes for k in range(first, first + count)}
    wanted = [*instructions(stage, text)]
    assert wanted or name == "scanned"
    assert len(named.intersection(wanted)) >= 0.95 * len(wanted)


@EACH
def test_machine_code_is_the_same_with_debug_info(name):
    stages = inspected(name).stages
    plain, told = [engine.assembly_text(text) for text in (stages.module(None), stages.module())]
    assert "\t.loc\t" in told and "\t.loc\t" not in plain
    code = [[line for line in text.splitlines() if re.match(r"\t[a-z]", line)] for text in (plain, told)]
    assert code[0] == code[1]


@pytest.mark.parametrize("name", ["dense", "scanned", "structured"])
def test_mlir_opt_keeps_the_locations(name):
    text = inspected(name).mlir
    verify(text)
    command = [tools()[0], "--mlir-print-debuginfo", "--canonicalize"]
    printed = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    assert len(re.findall(r'loc\("test_provenance\.py":\d+:\d+\)', printed)) > 2


def test_gdb_shows_the_line_of_the_program_in_a_kernel(tmp_path):
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not there")
    stages = inspected("dense").stages
    kernel = next(step.work.function.name for step in stages.program.steps if hasattr(step.work, "function"))
    (tmp_path / "k.o").write_bytes(stages.object_file)
    command = ["gdb", "-batch", "-ex", f"disassemble /s '{kernel}.body'", str(tmp_path / "k.o")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^\d+\t    return ad\.mean\(h \* h\)$", shown, re.MULTILINE)


# ---------------------------------------------------------------- names


class Model:
    def __init__(self):
        self.w = ad.tensor(np.ones((4, 3)), requires_grad=True)

    def loss(self, x):
        return ad.sum((x @ self.w + SHIFTS["bias"]) ** 2) * RATE * 2.5


RATE = 0.125
SHIFTS = {"bias": ad.tensor(np.ones(3))}


def test_inputs_have_the_names_of_arguments_and_of_variables():
    seen = ad.inspect(Model().loss, "f64[8,4]", backward=True)
    inputs = [node.name for node in seen.graph.nodes if node.op == "input"]
    assert inputs == ["x", "self.w", "SHIFTS['bias']", "RATE", "x4", "seed"]  # 2.5 stands in the program
    assert "RATE = number 0.125" in seen.tape and "a = matmul(" in seen.tape
    assert ir.parse(seen.graph).key == seen.stages.recorded.key


@EACH
def test_tape_graph_and_code_have_one_name_for_a_value(name):
    seen = inspected(name)
    of_tape = {line.partition(" = ")[0] for line in seen.tape.splitlines()[:-1]}
    recorded = {node.name for node in seen.graph.nodes}
    assert {n for n in of_tape if not n.startswith("%")} <= recorded
    data = seen.data
    known = {node["id"] for node in data["program"]["drawn"]}
    known |= {n["id"] for _, step in steps_of(data["program"]) for body in step["bodies"] for n in body["drawn"]}
    for stage in CODE:
        assert {n for _, _, _, nodes in data["texts"][stage]["lines"] for n in nodes} <= known


def test_a_name_that_no_text_can_have_is_spelled_with_underscores():
    def f(f64, x):
        return f64[0] * x[("a", 1)]

    graph = ad.inspect(f, [AVAL("f64[3]")], {("a", 1): AVAL("f64[3]")}).graph
    assert [n.name for n in graph.nodes[:2]] == ["f64_0", "x_a_1"]
    ir.parse(graph)


def test_assembly_of_a_loop_names_the_lines_of_its_body():
    """The body becomes part of the loop's function: what is inlined keeps its lines if that function has some."""

    def repeated(x):
        return ad.fori_loop(0, 5, lambda i, y: ad.sin(y) * 1.5, x)

    line = repeated.__code__.co_firstlineno + 1
    assert ad.inspect(repeated, "f64[1000]").asm.count(f"test_provenance.py:{line}") > 3


def test_an_argument_of_a_gradient_has_the_line_of_the_users_function():
    def loss(w):
        return ad.sum(ad.sin(w))

    line = loss.__code__.co_firstlineno
    for f in (loss, ad.grad(loss), ad.value_and_grad(loss), ad.hessian(loss), ad.jit(ad.grad(ad.checkpoint(loss)))):
        first = ad.inspect(f, "f64[3]").tape.splitlines()[0]
        assert f"test_provenance.py:{line}, in loss" in first, first
