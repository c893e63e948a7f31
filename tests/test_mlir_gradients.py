"""Gradients of real programs, run by the real MLIR: recorded, differentiated, planned, printed, lowered, called.

    autodiff records and differentiates -> codegen plans -> MLIR text -> xDSL and mlir-opt verify it
      -> mlir-opt lowers it -> LLVM runs it  ==  what our own executable gives  ==  the evaluator
"""

import re

import numpy as np
import pytest
from mlir_tools import run_program

import autodiff as ad
from codegen import compiler
from codegen.ir import evaluate
from codegen.kernel.mlir import print_module
from codegen.kernel.verify import verify_function
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


def batched(a, b):
    return ad.sum(ad.tanh(ad.matmul(a, b)))


def moves(x):
    y = ad.concatenate([ad.flip(x, axis=0), ad.transpose(x)[:3]], axis=1)
    return ad.sum(ad.cumsum(y, axis=1)[1:, ::2] ** 3)


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
    "batched": (batched, 2, lambda r, d: arrays(r, d, (3, 4, 5), (5, 2))),
    "moves": (moves, 1, lambda r, d: arrays(r, d, (3, 5))),
}


def compiled(case, dtype, rng):
    """The graphs compiled for the value and gradient of a case, and the arguments."""
    f, count, make = CASES[case]
    arguments = make(rng, dtype)
    compiler.clear()
    with compiler.recorded() as graphs:
        ad.value_and_grad(f, argnums=tuple(range(count)))(*arguments)
    assert graphs
    return graphs, arguments


def inputs_of(graph, arguments, rng):
    """An array for each input of a graph: the argument of its aval, else a number."""
    known = {(a.shape, a.dtype): a for a in arguments}
    found = []
    for node in graph.inputs:
        aval = node.aval
        made = known.get((aval.shape, aval.dtype))
        if made is None:
            made = np.asarray(rng.random(aval.shape) + 0.5).astype(aval.dtype)
        found.append(made)
    return found


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("case", CASES)
def test_a_gradient_runs_through_the_real_mlir_and_is_ours(case, dtype, rng):
    graphs, arguments = compiled(case, dtype, rng)
    for graph in graphs:
        inputs = inputs_of(graph, arguments, rng)
        program = compiler.make_program(graph)
        own = compiler.compile_graph(graph).call(*inputs)
        by_mlir = run_program(program, inputs)
        reference = evaluate(graph, inputs)
        assert len(own) == len(by_mlir) == len(reference)
        for ours, theirs, wanted in zip(own, by_mlir, reference, strict=True):
            eps = np.finfo(wanted.dtype).eps if wanted.dtype.kind == "f" else 0
            size = np.max(np.abs(wanted), initial=1)
            np.testing.assert_allclose(theirs, ours, rtol=64 * eps, atol=64 * eps * size)
            np.testing.assert_allclose(theirs, wanted, rtol=256 * eps, atol=256 * eps * size)


@pytest.mark.parametrize("case", CASES)
def test_every_kernel_of_a_gradient_keeps_the_rules_of_the_loop_level(case, rng):
    graphs, _ = compiled(case, np.float64, rng)
    for graph in graphs:
        for step in compiler.make_program(graph).steps:
            if isinstance(step.work, Kernel):
                verify_function(step.work.function)


@pytest.mark.parametrize("case", ["chain", "embedding"])
def test_the_kernels_of_a_gradient_as_mlir(case, rng, golden):
    graphs, _ = compiled(case, np.float64, rng)
    golden("\n".join(print_module(compiler.make_program(graph)) for graph in graphs))


@pytest.mark.parametrize("case", CASES)
def test_the_text_of_a_program_is_the_same_each_time(case, rng):
    graphs, _ = compiled(case, np.float64, rng)
    texts = {print_module(compiler.make_program(graph)) for graph in graphs for _ in range(2)}
    assert len(texts) == len(graphs)
    assert not re.search(r"0x[0-9a-f]{6,}", "".join(texts))
