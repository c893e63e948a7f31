"""The proof of a law of SEMANTICS: recorded, under jit, and both once more from the cache."""

from __future__ import annotations

import numpy as np
from work_done import work

import autodiff as ad


def done():
    """(rules run, graphs compiled) so far: what a known shape must not change."""
    return work()[:2]


def recorded(f, *arrays, inputs=None):
    """The gradients of `f(*leaves)` by `.backward()`; None where none is reached."""
    leaves = [ad.tensor(a, requires_grad=True) for a in arrays]
    f(*leaves).backward()
    return [None if t.grad is None else t.grad.numpy() for t in leaves]


def gradients(f, *arrays, kept=True):
    """The gradients of f in three ways, which must agree; arrays, zeros for None.

    kept   nothing of f has to run again for a known shape: then no rule runs and nothing is compiled
    """
    compiled = ad.jit(ad.grad(f, tuple(range(len(arrays)))))
    first = recorded(f, *arrays)
    traced = compiled(*arrays)
    recorded(f, *arrays)
    before = done()
    again = recorded(f, *arrays)
    traced_again = compiled(*arrays)
    if kept:
        assert done() == before, "a known shape ran a rule or compiled"
    found = [np.zeros_like(a) if g is None else g for g, a in zip(first, arrays, strict=True)]
    for g, h, j, k in zip(found, again, traced, traced_again, strict=True):
        np.testing.assert_array_equal(g, np.zeros_like(g) if h is None else h)
        np.testing.assert_allclose(j, g, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(j, k)
    return found


def refused(f, *arrays):
    """The errors of f's gradient, recorded and in a trace: (type, message) of each; and nothing is left half-done."""
    errors = []
    leaves = [ad.tensor(a, requires_grad=True) for a in arrays]
    for ask in (lambda: f(*leaves).backward(), lambda: ad.jit(ad.grad(f, tuple(range(len(arrays)))))(*arrays)):
        try:
            ask()
        except ad.Error as error:
            errors.append(error)
    assert len(errors) == 2, f"only {len(errors)} of the two ways was refused"
    assert type(errors[0]) is type(errors[1])
    assert all(t.grad is None for t in leaves)
    return errors[0]


def difference(f, x, eps=1e-6):
    """The gradient of a scalar function by central differences."""
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += eps
        down[i] -= eps
        g[i] = (float(f(up)) - float(f(down))) / (2 * eps)
    return g
