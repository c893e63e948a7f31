"""Loops of random bodies: the native loop equals the reference, its gradient that of the same steps unrolled."""

import random

import numpy as np
import pytest

import autodiff as ad
from codegen import compiler
from codegen.ir import evaluate

OPERATIONS = (
    lambda a, b: a + b,
    lambda a, b: a * 0.5 - b,
    lambda a, b: ad.tanh(a) * b,
    lambda a, b: ad.where(a > 0, a, b),
    lambda a, b: a + b.sum(),
    lambda a, b: a @ b + a,
    lambda a, b: ad.maximum(a, b).T,
    lambda a, b: ad.cumsum(a, axis=0) * 0.1 + b,
)


class Case:
    """A random body, with arguments for it."""

    def __init__(self, seed):
        choose, rng = random.Random(seed), np.random.default_rng(seed)
        states, scanned = choose.randrange(0, 4), choose.randrange(1, 3)
        self.length, self.reverse = choose.choice([1, 2, 3, 6]), choose.random() < 0.5
        count = choose.randrange(1, 8)
        self.plan = [(choose.choice(OPERATIONS), choose.random(), choose.random()) for _ in range(count)]
        self.outs = [choose.random() for _ in range(states)]
        self.ys = [choose.random() for _ in range(choose.randrange(1, 3))]
        carry = tuple(rng.normal(size=(3, 3)) for _ in range(states))
        self.args = carry, tuple(rng.normal(size=(self.length, 3, 3)) for _ in range(scanned))

    def body(self, carry, x):
        values = [*carry, *x]

        def pick(place):
            return values[int(place * len(values))]

        for operation, first, second in self.plan:
            values.append(operation(pick(first), pick(second)))
        return tuple(ad.clip(pick(place), -3.0, 3.0) for place in self.outs), [pick(place) for place in self.ys]

    def scanned(self, carry, xs):
        return ad.scan(self.body, carry, xs, reverse=self.reverse)

    def loss(self, carry, xs):
        last, ys = self.scanned(carry, xs)
        return sum([ad.sin(t).sum() for t in (*last, *ys)])

    def unrolled(self, carry, xs):
        total = 0.0
        for t in reversed(range(self.length)) if self.reverse else range(self.length):
            carry, ys = self.body(carry, tuple(x[t] for x in xs))
            total = total + sum([ad.sin(y).sum() for y in ys])
        return total + sum([ad.sin(c).sum() for c in carry], 0.0)


@pytest.mark.parametrize("seed", range(12))
def test_a_random_loop_and_its_gradient_are_those_of_its_steps(seed):
    case = Case(seed)
    with compiler.recorded() as graphs:
        ad.jit(case.scanned)(*case.args)
        found = ad.jit(ad.value_and_grad(case.loss, (0, 1)))(*case.args)
    expected = ad.value_and_grad(case.unrolled, (0, 1))(*case.args)
    for a, b in zip(ad.tree.leaves(found), ad.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    rng = np.random.default_rng(seed)
    for graph in graphs:
        inputs = [np.asarray(rng.normal(size=i.aval.shape), i.aval.dtype) for i in graph.inputs]
        for a, b in zip(compiler.compile_graph(graph).call(*inputs), evaluate(graph, *inputs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("seed", [12, 24, 40])
def test_two_loops_of_a_body_that_does_not_read_where_they_differ_give_their_results_each(seed):
    case = Case(seed)
    carry, (*xs, other) = case.args

    def both(carry, xs, other):
        return case.scanned(carry, (*xs, other)), ad.tree.map(ad.sin, case.scanned(carry, (*xs, -other)))

    expected = case.scanned(carry, case.args[1])
    found, sines = ad.jit(both)(carry, tuple(xs), other)
    for a, b, c in zip(*map(ad.tree.leaves, (found, sines, expected)), strict=True):
        np.testing.assert_allclose(a, c, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(b, np.sin(c), rtol=1e-7, atol=1e-9)
