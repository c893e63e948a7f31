"""Numbers that are computed on a long way are handed on between kernels: no kernel computes all of their ways again."""

import numpy as np
import pytest

import autodiff as ad
from codegen.kernel.scalar import Scalar
from codegen.passes import reach

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
    """How many elements kernels are built of, with limits so low that a short program passes them."""
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
