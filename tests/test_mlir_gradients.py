"""Gradients of real programs, run by the real MLIR: recorded, differentiated, planned, printed, lowered, called.

    autodiff records and differentiates -> codegen plans -> MLIR text -> xDSL and mlir-opt verify it
      -> mlir-opt lowers it -> LLVM runs it  ==  what our own executable gave  ==  the evaluator

The graphs are those that ran when a user asked for the gradient, with the inputs they were given.
"""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import mlir_tools
import numpy as np
import pytest
from command_line import autodiff
from mlir_tools import run_program, verify
from nest_verify import verify_function

import autodiff as ad
from codegen import compiler
from codegen.ir import evaluate
from codegen.kernel.mlir import print_module
from codegen.program import Kernel


def chain(x):
    return ad.sum(ad.exp(-x * x) * ad.sin(x) + ad.log1p(x * x) * ad.tanh(x) + ad.erf(x) / (2.0 + ad.cos(x)))


def logistic_regression(w, b, x, labels):
    logits = x @ w + b
    return ad.mean(ad.softplus(logits) - labels * logits)


def softmax_cross_entropy(logits, labels):
    log_p = logits - ad.logsumexp(logits, axis=1, keepdims=True)
    return -ad.mean(ad.take_along_axis(log_p, ad.expand_dims(labels, 1), axis=1))


def embedding(table, scale, labels):
    return ad.sum(ad.square(table[labels] * scale))


def mlp(w1, b1, w2, b2, x, y):
    hidden = ad.relu(x @ w1 + b1)
    return ad.mean(ad.square(hidden @ w2 + b2 - y))


def standardised(x, gain):
    centred = x - ad.mean(x, axis=0)
    scaled = centred / ad.sqrt(ad.var(x, axis=0) + 1e-5)
    return ad.sum(ad.where(scaled > 0.5, scaled * gain, ad.maximum(scaled, -gain)))


def layer_norm(x, gain, bias):
    centred = x - ad.mean(x, axis=-1, keepdims=True)
    scaled = centred / ad.sqrt(ad.var(x, axis=-1, keepdims=True) + 1e-5)
    return ad.sum(ad.tanh(scaled * gain + bias))


def batched(a, b):
    return ad.sum(ad.tanh(ad.matmul(a, b)))


def moves(x):
    y = ad.concatenate([ad.flip(x, axis=0), ad.transpose(x)[:3]], axis=1)
    return ad.sum(ad.cumsum(y, axis=1)[1:, ::2] ** 3)


def gradient_penalty(x, w):
    """A gradient in the loss: its own gradient is of second order."""
    slope = ad.grad(lambda x: ad.sum(ad.tanh(x @ w) ** 2))(x)
    return ad.sum(slope * slope)


def arrays(rng, dtype, *shapes):
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


#: function, number of arguments to differentiate by, arguments(rng, dtype)
CASES = {
    "chain": (chain, 1, lambda r, d: arrays(r, d, (37,))),
    "logistic_regression": (
        logistic_regression,
        2,
        lambda r, d: [*arrays(r, d, (6, 3), (3,), (8, 6)), (r.random((8, 3)) > 0.5).astype(d)],
    ),
    "softmax_cross_entropy": (softmax_cross_entropy, 1, lambda r, d: [*arrays(r, d, (7, 4)), r.integers(0, 4, 7)]),
    "embedding": (embedding, 2, lambda r, d: [*arrays(r, d, (5, 3), (3,)), r.integers(0, 5, 11)]),
    "mlp": (mlp, 4, lambda r, d: arrays(r, d, (2, 16), (16,), (16, 1), (1,), (9, 2), (9, 1))),
    "standardised": (standardised, 2, lambda r, d: arrays(r, d, (10, 4), (4,))),
    "layer_norm": (layer_norm, 3, lambda r, d: arrays(r, d, (5, 13), (13,), (13,))),
    "batched": (batched, 2, lambda r, d: arrays(r, d, (3, 4, 5), (5, 2))),
    "moves": (moves, 1, lambda r, d: arrays(r, d, (3, 5))),
    "gradient_penalty": (gradient_penalty, 2, lambda r, d: arrays(r, d, (4, 3), (3, 2))),
}


class Watched:
    """An executable that notes what it is called with and what it gives."""

    def __init__(self, graph, executable, runs):
        self.graph, self.executable, self.runs = graph, executable, runs

    def call(self, *inputs):
        outputs = self.executable.call(*inputs)
        avals = [node.aval for node in self.graph.inputs]
        given = [np.asarray(x, aval.dtype) for x, aval in zip(inputs, avals, strict=True)]
        self.runs.append((self.graph, given, outputs))
        return outputs

    def launcher(self, slow):
        return None


@contextmanager
def watched():
    """The runs of executables inside, as (graph, inputs, outputs).  Nothing compiled before is used."""
    runs = []
    ad.clear_cache()
    import_module("autodiff.entry")  # jit imports it when it is first called
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ad.config, "patience", 0)  # what is new is compiled at once
        callers = [m for n, m in sys.modules.items() if n.startswith("autodiff.") and hasattr(m, "compile_graph")]
        assert callers
        for module in callers:
            patch.setattr(module, "compile_graph", lambda graph: Watched(graph, compiler.compile_graph(graph), runs))
        yield runs
    ad.clear_cache()  # plans that hold watched executables


def gradient_of(case, dtype, rng):
    """The function that gives value and gradients of a case, and its arguments."""
    f, count, make = CASES[case]
    return ad.value_and_grad(f, argnums=tuple(range(count))), make(rng, dtype)


def graphs_of(case, dtype, rng):
    """The graphs that a recording of a case compiles."""
    gradient, arguments = gradient_of(case, dtype, rng)
    with watched() as runs:
        gradient(*arguments)
    assert runs
    return [graph for graph, _, _ in runs]


def assert_near(found, wanted, ulps):
    """Equal but for so many units in the last place of the largest number."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted)
        return
    eps = np.finfo(wanted.dtype).eps
    np.testing.assert_allclose(found, wanted, rtol=ulps * eps, atol=ulps * eps * np.max(np.abs(wanted), initial=1))


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("case", CASES)
def test_a_gradient_runs_through_the_real_mlir_and_is_ours(case, dtype, rng):
    gradient, arguments = gradient_of(case, dtype, rng)
    with watched() as runs:
        results = ad.tree.leaves(gradient(*arguments))
    assert runs
    kept = [output for _, _, outputs in runs for output in outputs]
    for result in results:
        assert any(np.array_equal(result, output) for output in kept), "a result that no watched graph gave"
    for graph, inputs, own in runs:
        by_mlir = run_program(compiler.make_program(graph), inputs)
        reference = evaluate(graph, *inputs)
        for ours, theirs, wanted in zip(own, by_mlir, reference, strict=True):
            assert_near(theirs, ours, 16)
            assert_near(theirs, wanted, 32)


@pytest.mark.parametrize("case", CASES)
def test_a_traced_gradient_runs_through_the_real_mlir_and_is_the_recorded_one(case, rng):
    gradient, arguments = gradient_of(case, np.float64, rng)
    recorded = ad.tree.leaves(gradient(*arguments))
    with watched() as runs:
        traced = ad.tree.leaves(ad.jit(gradient)(*arguments))
    ((graph, inputs, own),) = runs
    for given, argument in zip(inputs, arguments, strict=False):
        np.testing.assert_array_equal(given, argument)
    by_mlir = run_program(compiler.make_program(graph), inputs)
    for ours, theirs, returned, wanted in zip(own, by_mlir, traced, recorded, strict=True):
        assert_near(theirs, ours, 16)
        assert_near(theirs, wanted, 32)
        np.testing.assert_array_equal(ours, returned)


@pytest.mark.parametrize("case", CASES)
def test_every_kernel_of_a_gradient_keeps_the_rules_of_the_loop_level(case, rng):
    kernels = [
        step.work.function
        for graph in graphs_of(case, np.float64, rng)
        for step in compiler.make_program(graph).steps
        if isinstance(step.work, Kernel)
    ]
    assert kernels
    for function in kernels:
        verify_function(function)


@pytest.mark.parametrize("case", CASES)
def test_the_text_of_a_program_is_the_same_each_time(case, rng):
    first, second = (
        [print_module(compiler.make_program(graph)) for graph in graphs_of(case, np.float64, rng)] for _ in range(2)
    )
    assert first == second
    assert not re.search(r"0x[0-9a-f]{6,}", "".join(first))


ROOT = Path(__file__).parents[1]
DIGITS = "f32[64,64], f32[64], f32[64,10], f32[10], f32[64,64], f32[64,10]"


@pytest.mark.parametrize("which", ["forward", "backward"])
def test_the_mlir_that_the_command_line_shows_passes_the_verifiers(which):
    pytest.importorskip("sklearn")
    command = ["inspect", f"{ROOT}/examples/digits.py:loss", "--args", DIGITS, "--stage", "mlir", "--pass", which]
    shown = autodiff(*command, *(["--argnums", "0,1,2,3"] if which == "backward" else []))
    assert shown.exit_code == 0, shown.output
    assert "func.func @k" in shown.stdout
    verify(shown.stdout)


def test_the_mlir_that_the_command_line_shows_is_the_same_in_every_process():
    command = [sys.executable, "-m", "autodiff", "inspect", "examples/linear.py:linear", "--stage", "mlir"]
    command += ["--pass", "backward", "--argnums", "0,1,2", "--args", "f64[5,3], f64[2,3], f64[2]"]
    texts = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
        for seed in ("1", "2")
    }
    (text,) = texts
    verify(text)


def test_without_mlirs_tools_a_test_is_skipped_unless_they_are_required(monkeypatch):
    monkeypatch.setattr(mlir_tools, "find_tools", lambda: None)
    monkeypatch.delenv("AUTODIFF_REQUIRE_MLIR", raising=False)
    with pytest.raises(pytest.skip.Exception, match="mlir-19-tools"):
        mlir_tools.tools()
    monkeypatch.setenv("AUTODIFF_REQUIRE_MLIR", "1")
    with pytest.raises(pytest.fail.Exception, match="mlir-19-tools"):
        mlir_tools.tools()
