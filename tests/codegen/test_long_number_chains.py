"""Numbers that are computed on a long way are handed on between kernels: no kernel computes all of their ways again."""

import re

import numpy as np
import pytest
from emitted import emit_module

import autodiff as ad
from codegen.compiler import make_program
from codegen.kernel.scalar import Scalar
from codegen.passes import reach
from codegen.program import Kernel

X = np.array([0.3, 0.7])


def elements(n, x):
    """A long chain of numbers, each of which depends on an element of x and on a part of it."""
    a = x[0]
    for k in range(n):
        a = a * x[k % 2] + ad.sum(x[:1]) * 0.01 + 0.3
    return a


def oscillator(n, x):
    q, p = x[0], x[1]
    for _ in range(n):
        p = p - 0.01 * ad.sin(q)
        q = q + 0.01 * p
    return q * p


def value(program, n, x):
    """The value of a program, by NumPy."""
    ad.config.eager = True
    try:
        return float(program(n, ad.tensor(x)))
    finally:
        ad.config.eager = False


@pytest.fixture
def built(monkeypatch):
    """The number of elements that kernels are built of, with limits so low that a short program passes them."""
    seen, remember = [0], Scalar.remember

    def counted(self, *args):
        seen[0] += 1
        return remember(self, *args)

    monkeypatch.setattr(Scalar, "remember", counted)
    monkeypatch.setattr(reach, "TREE_LIMIT", 512)
    monkeypatch.setattr(reach, "_NUMBERS_LIMIT", 128)
    before, ad.config.patience = ad.config.patience, 0
    yield seen
    ad.config.patience = before


@pytest.mark.parametrize("transformed", [ad.grad, lambda f: ad.jit(ad.grad(f))], ids=["grad", "jit of grad"])
@pytest.mark.parametrize("program", [elements, oscillator])
def test_kernels_grow_as_their_program_does(program, transformed, built):
    sizes = []
    for n in (100, 200, 400):
        built[0] = 0
        found = transformed(lambda x, n=n: program(n, x))(X)
        sizes.append(built[0] / n)
        expected = [(value(program, n, X + 1e-6 * e) - value(program, n, X - 1e-6 * e)) / 2e-6 for e in np.eye(2)]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    assert sizes[-1] < 1.6 * sizes[0], sizes


@pytest.mark.parametrize("features", ["+avx2,+fma", "+avx512f,+avx512dq,+avx512vl,+avx512bw,+fma"])
@pytest.mark.parametrize("n", [10, 1001])
def test_blocks_of_a_kernel_grow_with_its_loops_only(n, features):
    """LLVM's time to give out registers grows with the product of values and blocks."""

    def many(*xs):
        return [ad.sin(x) * y + ad.exp(y) for x, y in zip(xs, (*xs[1:], xs[0]), strict=True)]

    program = make_program(ad.jit(many).traced.entry((np.linspace(0.1, 0.9, n),) * 110, {})[0].graph)
    functions = [step.work.function for step in program.steps if isinstance(step.work, Kernel)]
    loads = 0
    for function in functions:
        for body in emit_module([function], features).split("\ndefine ")[1:]:
            labels = re.findall(r"^([a-z]+)\.?\d*:", body, re.MULTILINE)
            loads += len(re.findall(r"= load <|masked.load", body))
            # A loop begins and ends, its accesses are behind two branches of three blocks each.
            assert len(labels) <= 4 + 9 * labels.count("loop"), function.name
    assert loads > 100
