"""Loops and branches around each call of the sweep: the same as one call for each step, stacked; so are its gradients.

Each call is in one kind of loop, another one in turn; a part of the calls by default, the others under --slow.
"""

import numpy as np
import pytest

import autodiff as ad

from .cases import Case, all_cases, eager, law, rng_of

STEPS = 3
LOOPS = ("scan", "scan backwards", "checkpoint", "cond", "fori_loop", "while_loop")

#: The largest case of each call.
LARGEST = list({c.call: c for c in sorted(all_cases(), key=lambda c: c.size) if c.traced and c.avals}.values())
SMOOTH = [c for c in LARGEST if c.wrt and all(c.avals[i].dtype == np.float64 for i in c.wrt)]


def value(t):
    return np.asarray(t.detach() if isinstance(t, ad.Tensor) else t)


def close(a, b, rtol):
    a, b = value(a), value(b)
    assert (a.shape, a.dtype) == (b.shape, b.dtype)
    size = np.max(np.abs(b[np.isfinite(b)]), initial=1.0) if b.dtype.kind in "fc" else 1
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * size)


def in_loop(loop, f, like):
    """A function of stacked arguments that calls f once for each step.   like: an array as it gives"""

    def other(*x):
        return f(*x)

    def looped(*xs):
        def step(i, found):
            found = found.copy()
            found[i] = f(*[x[i] for x in xs])
            return found

        zeros = ad.zeros(like.shape, dtype=like.dtype)
        if loop == "fori_loop":
            return ad.fori_loop(0, STEPS, step, zeros)
        if loop == "while_loop":
            return ad.while_loop(lambda s: s[0] < STEPS, lambda s: (s[0] + 1, step(*s)), (0, zeros))[1]
        body = {
            "checkpoint": lambda k, *x: ad.checkpoint(f)(*x),
            "cond": lambda k, *x: ad.cond(k % 2 == 0, f, other, *x),
        }.get(loop, lambda k, *x: f(*x))
        return ad.scan(lambda k, x: (k + 1, body(k, *x)), 0, xs, reverse=loop == "scan backwards")[1]

    return looped


def drawn(case):
    """The kind of loop, the arguments of each step, these stacked, and what the steps give."""
    rng = rng_of(case)
    points = [case.point(rng) for _ in range(STEPS)]
    with eager(), np.errstate(all="ignore"):
        expected = np.stack([value(case.f(*map(ad.tensor, p))) for p in points])
    return LOOPS[rng.integers(len(LOOPS))], points, [np.stack(c) for c in zip(*points, strict=True)], expected


def values_are_those_of_each_step(case: Case):
    loop, _, stacked, expected = drawn(case)
    rtol = 3e-4 if expected.dtype in (np.float32, np.complex64) else 1e-10
    close(ad.jit(in_loop(loop, case.f, expected))(*stacked), expected, rtol)


def gradients_are_those_of_each_step(case: Case):
    loop, points, stacked, expected = drawn(case)
    weights = np.random.default_rng(1).uniform(-1, 1, expected.shape)

    def gradient(f, w):
        return ad.grad(lambda *xs: ad.sum(f(*xs) * w), argnums=tuple(case.wrt))

    with eager():
        each = [gradient(case.f, w)(*map(ad.tensor, p)) for p, w in zip(points, weights, strict=True)]
    found = ad.jit(gradient(in_loop(loop, case.f, expected), weights))(*stacked)
    for k, g in enumerate(found):
        close(g, np.stack([value(gs[k]) for gs in each]), 1e-8)


PART = 8


@law(LARGEST[::PART])
def test_values_in_a_loop_are_those_of_each_step(case: Case):
    values_are_those_of_each_step(case)


@law(SMOOTH[1::PART])
def test_gradients_in_a_loop_are_those_of_each_step(case: Case):
    gradients_are_those_of_each_step(case)


@pytest.mark.slow
@law(LARGEST)
def test_values_of_all_calls_in_a_loop_are_those_of_each_step(case: Case):
    values_are_those_of_each_step(case)


@pytest.mark.slow
@law(SMOOTH)
def test_gradients_of_all_calls_in_a_loop_are_those_of_each_step(case: Case):
    gradients_are_those_of_each_step(case)
