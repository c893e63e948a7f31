"""Control flow under `vmap`: what each example would do by itself."""

from __future__ import annotations

import numpy as np
import pytest
from example_loops import assert_same, evaluated, looped

import autodiff as ad

RNG = np.random.default_rng(31)
X = RNG.normal(size=(5, 3))
S = RNG.normal(size=(5, 4, 3))
R = RNG.normal(size=(3, 3))
T = np.array([0.3, 0.5, 0.9])


def recurrence(w, x):
    return ad.scan(lambda h, e: (ad.tanh(w @ h + e), h * 2.0), ad.zeros(3), x)


def kept_less(w, x):
    return ad.scan(ad.checkpoint(lambda h, e: (ad.tanh(w @ h + e), h)), ad.zeros(3), x)


def differs_later(x):
    return ad.scan(lambda c, e: ((c[0] + 1.0, c[1] * 0.5 + e.sum()), c[0] * 2.0), (0.0, 0.0), x)


def counts_along(x):
    return ad.scan(lambda c, e: ((c[0] * 0.5 + e, c[1] + 1), (c[0], c[1])), (ad.zeros(3), 0), x)


def loop_in_a_loop(x):
    return ad.scan(lambda c, e: (ad.fori_loop(0, 2, lambda i, v: ad.sin(v) + e, c), c), ad.zeros(3), x)


def choice_in_a_loop(x):
    def step(c, e):
        return ad.cond(c.sum() > 0, lambda c, e: c * 0.5 - e, lambda c, e: ad.sin(c) + e, c, e), c

    return ad.scan(step, ad.zeros(3), x)


def cubed_until_small(x):
    return ad.while_loop(lambda v: ad.max(ad.abs(v)) > 0.1, lambda v: v * v * 0.3, x)


def steps_to_a_threshold(t, x):
    return ad.while_loop(lambda v: (v * v).sum() > t, lambda v: v * 0.7, x)


def shared_factor(w, x):
    return ad.while_loop(lambda s: (s[0] * s[0]).sum() > 0.2, lambda s: (s[0] * w, s[1] + 1.0), (x, 0.0))


def three_times(w, x):
    return ad.while_loop(lambda s: s[1] < 2.5, lambda s: (ad.sin(s[0]) * w, s[1] + 1.0), (x, 0.0))


def root_or_line(x):
    return ad.cond(x[0] > 0, lambda x: ad.sqrt(x[0]) * x, lambda x: x * 3.0, x)


def square_or_exp(t, x):
    return ad.cond(t > 0.4, lambda x: (x * x, 1.0), lambda x: (ad.exp(x), t), x)


def vmap_in_a_loop(w, x):
    return ad.scan(lambda c, e: (ad.vmap(lambda a, b: ad.tanh(a * b.sum()), (0, None))(c, e), e), w[0], x)


def while_of_rows(x):
    return ad.vmap(lambda r: ad.while_loop(lambda v: ad.max(ad.abs(v)) > 0.5, lambda v: v * 0.7, r))(x)


PROGRAMS = {
    "a vmap in a loop": (vmap_in_a_loop, (R, S), (None, 0)),
    "a loop in a vmap in a vmap": (
        lambda x: ad.vmap(lambda r: ad.scan(lambda c, e: (c * 0.5 + e, c * e), 0.0, r))(x), (S,), (0,)),
    "steps in a vmap in a vmap": (while_of_rows, (S,), (0,)),
    "a choice in a vmap in a vmap": (
        lambda x: ad.vmap(lambda r: ad.cond(r.sum() > 0, lambda r: r * r, lambda r: -r, r))(x), (S,), (0,)),
    "what a loop captures": (lambda x, w: ad.scan(lambda c, e: (c * x.sum() + e @ x, c), 0.0, w)[0], (X, R), (0, None)),
    "what a choice captures": (
        lambda x, w: ad.cond(w.sum() > 100.0, lambda: x * w[0], lambda: x @ w), (X, R), (0, None)),
    "what each choice captures": (
        lambda x, w: ad.cond(x.sum() > 0, lambda: x * w[0], lambda: x @ w), (X, R), (0, None)),
    "a recurrence with shared weights": (recurrence, (R, S), (None, 0)),
    "a recurrence with weights that differ": (recurrence, (RNG.normal(size=(5, 3, 3)), S), (0, 0)),
    "what is computed again": (kept_less, (R, S), (None, 0)),
    "a start that differs": (lambda h, x: ad.scan(lambda h, e: (ad.tanh(h + e[0]), h), h, x), (X, S[0]), (0, None)),
    "a state that differs from the second step on": (differs_later, (S,), (0,)),
    "backwards": (lambda x: ad.scan(lambda c, e: (c * 0.5 + e, c), ad.zeros(3), x, reverse=True), (S,), (1,)),
    "integers along": (counts_along, (S,), (0,)),
    "a loop in a loop": (loop_in_a_loop, (S,), (0,)),
    "a choice in a loop": (choice_in_a_loop, (S,), (0,)),
    "a counted loop": (lambda x: ad.fori_loop(0, 3, lambda i, v: ad.tanh(v) * (i + 1), x), (X,), (0,)),
    "a choice by what differs": (
        lambda x: ad.cond(x.sum() > 0, lambda x: x * x, lambda x: ad.exp(x), x), (X,), (0,)),
    "a choice whose other side has no derivative": (root_or_line, (X,), (0,)),
    "a choice by what is shared": (square_or_exp, (np.array(0.5), X), (None, 0)),
    "a choice between what is shared": (square_or_exp, (T, X[0]), (0, None)),
    "steps until each is done": (cubed_until_small, (X,), (0,)),
    "steps as many as all": (three_times, (np.array(0.7), X), (None, 0)),
    "a threshold that differs": (steps_to_a_threshold, (T, X[:3]), (0, 0)),
    "a threshold alone": (steps_to_a_threshold, (T, X[0]), (0, None)),
    "a shared factor, each its number of steps": (shared_factor, (np.array(0.6), X), (None, 0)),
    "a factor that differs": (shared_factor, (T - 0.2, X[0]), (0, None)),
}  # fmt: skip


def floats(run):
    return lambda *args: [y for y in ad.tree.leaves(run(*args)) if y.dtype.kind == "f"]


def total(run):
    return lambda *args: sum([ad.sin(y).sum() for y in floats(run)(*args)], ad.tensor(0.0))


@pytest.mark.parametrize("name", PROGRAMS)
def test_control_flow_is_that_of_each_example(name):
    f, args, axes = PROGRAMS[name]
    wanted = evaluated(looped(f, axes), *map(ad.tensor, args))
    assert_same(ad.vmap(f, axes)(*args), wanted)
    assert_same(ad.jit(ad.vmap(f, axes))(*args), wanted)


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_of_control_flow_are_those_of_each_example(name):
    f, args, axes = PROGRAMS[name]
    everything = tuple(range(len(args)))
    loop, mapped = total(looped(f, axes)), total(ad.vmap(f, axes))
    wanted = evaluated(ad.grad(loop, everything), *args)
    assert_same(ad.grad(mapped, everything)(*args), wanted)
    assert_same(ad.jit(ad.grad(mapped, everything))(*args), wanted)
    each = ad.grad(total(f), everything)
    assert_same(ad.vmap(each, axes)(*args), evaluated(looped(each, axes), *map(ad.tensor, args)))
    directions = tuple(RNG.normal(size=a.shape) for a in args)
    assert_same(ad.jvp(mapped, args, directions), evaluated(ad.jvp, loop, args, directions))


@pytest.mark.parametrize("name", ["a recurrence with shared weights", "a shared factor, each its number of steps"])
def test_second_derivatives_of_loops(name):
    f, args, axes = PROGRAMS[name]

    def steepness(run):
        return lambda *a: sum([(g**2).sum() for g in ad.grad(total(run(f, axes)), (0, 1))(*a)], ad.tensor(0.0))

    wanted = evaluated(ad.grad(steepness(looped), (0, 1)), *args)
    assert_same(ad.grad(steepness(ad.vmap), (0, 1))(*args), wanted, 8)


def test_a_loop_of_all_examples_is_one_native_loop():
    gradient = ad.grad(lambda w, x: ad.vmap(recurrence, (None, 0))(w, x)[0].sum())
    text = str(ad.inspect(gradient, "f64[3,3]", "f64[8,50,3]").graph)
    assert text.count(" = scan(") == 2  # there, and back
    assert " = concatenate(" not in text


def test_loops_in_eager_mode_are_unrolled():
    ad.config.eager = True
    try:
        found = ad.vmap(recurrence, (None, 0))(R, S)
    finally:
        ad.config.eager = False
    assert_same(found, looped(recurrence, (None, 0))(ad.tensor(R), ad.tensor(S)))


def test_no_examples_take_no_steps():
    assert ad.vmap(cubed_until_small)(np.ones((0, 3))).shape == (0, 3)
    last, ys = ad.vmap(recurrence, (None, 0))(R, np.ones((0, 4, 3)))
    assert last.shape == (0, 3) and ys.shape == (0, 4, 3)
