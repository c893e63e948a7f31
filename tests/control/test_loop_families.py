"""Loops that differ in how long they are, or in how large their states, share machine code."""

import random
import threading

import numpy as np
import pytest

import autodiff as ad
from autodiff.tape.node import Kind
from autodiff.tape.watched import Watched
from codegen import compiler
from codegen.families import Families


class Compiled:
    """The work of the compiler from now on: modules, and how many graphs needed no planning."""

    def __init__(self, patch):
        ad.clear_cache()
        self.before = self._count()
        self.general = 0
        original, here = Families.find, threading.get_ident()

        def find(families, graph):
            found = original(families, graph)
            # Programs of earlier tests may still be compiled beside this one.
            self.general += found is not None and threading.get_ident() == here
            return found

        patch.setattr(Families, "find", find)

    def _count(self):
        counts = compiler.counts()
        return counts.modules + counts.disk_objects

    @property
    def modules(self):
        return self._count() - self.before

    def agrees(self, f, *args, rtol=1e-9):
        """The value and gradient of f are those that NumPy gives, step by step."""
        of = ad.value_and_grad(f, argnums=tuple(range(len(args))))
        with np.errstate(all="ignore"):
            ad.config.eager = True
            try:
                expected = of(*args)
            finally:
                ad.config.eager = False
            found = ad.jit(of)(*args)
        for ours, theirs in zip(ad.tree.leaves(found), ad.tree.leaves(expected), strict=True):
            scale = float(np.max(np.abs(theirs), initial=1.0))
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * scale)


@pytest.fixture
def compiled(monkeypatch):
    return Compiled(monkeypatch)


def array(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape) * 0.3


def recurrent(xs, w, u, h):
    h, ys = ad.scan(lambda h, x: (ad.tanh(h @ w + x @ u),) * 2, h, xs)
    return ad.sum(ys * ys) + ad.sum(h)


def backwards(xs, w, u, h):
    h, ys = ad.scan(lambda h, x: (ad.sin(h @ w) + x @ u, (h, x * 2.0)), h, xs, reverse=True)
    return ad.sum(ys[0] * h) + ad.sum(ys[1])


def filtered(xs, a, b):
    def step(c, x):
        y = x - a * c[0] - b * c[1]
        return (y, c[0]), y

    return ad.sum(ad.scan(step, (0.0, 0.0), xs)[1] ** 2)


def nested(xs, a):
    def step(c, x):
        c = ad.fori_loop(0, 3, lambda i, v: ad.sin(v) * a + x, c)
        return ad.while_loop(lambda v: ad.sum(v * v) < 1.0, lambda v: v * 1.5 + 0.1, c), ad.sum(c)

    last, ys = ad.scan(step, a, xs)
    return ad.sum(last) + ad.sum(ys)


def chosen(xs, a):
    def step(c, x):
        return ad.cond(x > 0, lambda c: ad.cos(c) * a, lambda c: ad.cumsum(c * 0.5, axis=0), c), None

    return ad.sum(ad.scan(step, a, xs)[0])


def doubled(a):
    return ad.sum(ad.while_loop(lambda v: ad.sum(v * v) < 99.0, lambda v: v * 1.5 + ad.sin(v) + 0.1, a))


def counted(length, a):
    return ad.sum(ad.fori_loop(0, length, lambda i, v: ad.sin(v) * a + i * 0.01, a))


LENGTHS = {
    "a whole loop": (filtered, lambda t: (array(t), 0.3, 0.2)),
    "a small cell": (recurrent, lambda t: (array(t, 1, 2), array(4, 4), array(2, 4), array(1, 4))),
    "a loop in parts": (recurrent, lambda t: (array(t, 5, 3), array(7, 7), array(3, 7), array(5, 7))),
    "a loop from the last to the first": (backwards, lambda t: (array(t, 5, 3), array(7, 7), array(3, 7), array(5, 7))),
    "loops in a loop": (nested, lambda t: (array(t), array(3))),
    "a branch in a loop": (chosen, lambda t: (array(t), array(3))),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_loops_of_all_lengths_take_three_runs_of_llvm(name, compiled):
    f, arguments = LENGTHS[name]
    for t in (2, 3, 5, 4, 17, 33, 64, 100):
        compiled.agrees(f, *arguments(t))
    assert compiled.modules <= 3
    assert compiled.general == 7


def test_numbers_of_steps_that_no_array_has_are_arguments_too(compiled):
    for length in range(2, 101):
        found = ad.jit(ad.value_and_grad(lambda a, length=length: counted(length, a)))(array(5))
        if length % 7 == 2:
            value, slope = array(5), np.ones(5)
            for i in range(length):
                value, slope = np.sin(value) * array(5) + i * 0.01, np.cos(value) * slope * array(5) + np.sin(value)
            np.testing.assert_allclose(found[0], value.sum(), rtol=1e-9)
            np.testing.assert_allclose(found[1], slope, rtol=1e-9, atol=1e-12)
    assert compiled.modules <= 3
    assert compiled.general == 98


SIZES = {
    "a loop in parts": (recurrent, lambda n: (array(6, n, 3), array(7, 7), array(3, 7), array(n, 7))),
    "a while loop": (doubled, lambda n: (array(n),)),
    "a counting loop": (lambda a: counted(9, a), lambda n: (array(n),)),
    "loops in a loop": (nested, lambda n: (array(4), array(n))),
    "a branch in a loop": (chosen, lambda n: (array(4), array(n))),
}


@pytest.mark.parametrize("name", SIZES)
def test_from_the_second_size_on_all_but_small_states_take_no_llvm(name, compiled):
    f, arguments = SIZES[name]
    compiled.agrees(f, *arguments(50))
    compiled.agrees(f, *arguments(60))
    before = compiled.modules
    for n in (33, 40, 64, 1000, 5000):
        compiled.agrees(f, *arguments(n))
    assert (compiled.modules, compiled.general) == (before, 6)


@pytest.mark.parametrize(("f", "least"), [(doubled, 33), (lambda a: counted(9, a), 9)], ids=["sums", "states"])
def test_what_a_step_adds_up_and_states_in_registers_are_compiled_for_their_size(f, least, compiled):
    """100 steps of 9 elements that are added up take 3.4 times as long where 9 is unknown."""
    for n in (3, 5, 300, 200, least):
        compiled.agrees(f, array(n))
    general = compiled.general
    assert general == 3
    for n in (2, 4, least - 1):
        compiled.agrees(f, array(n))
    assert compiled.general == general


def test_lengths_and_sizes_may_vary_each_by_itself(compiled):
    for t, n in ((9, 20), (10, 20), (11, 20), (11, 24), (12, 30), (40, 31), (9, 33), (100, 17), (100, 64)):
        compiled.agrees(recurrent, array(t, n, 3), array(7, 7), array(3, 7), array(n, 7))
    assert compiled.modules <= 3
    assert compiled.general == 8


def test_lengths_that_are_special_are_planned_for_themselves(compiled):
    for t in (9, 10, 1, 11, 12):
        compiled.agrees(filtered, array(t), 0.3, 0.2)
    assert compiled.general == 3


OPERATIONS = (
    lambda a, b: a + b,
    lambda a, b: a * 0.5 - b,
    lambda a, b: ad.tanh(a) * b,
    lambda a, b: ad.where(a > 0, a, b),
    lambda a, b: a + b.sum(axis=0),
    lambda a, b: (a.T @ b).sum() * 0.01 + a,
    lambda a, b: ad.cumsum(a, axis=0) * 0.1 + b,
)


@pytest.mark.parametrize("seed", range(12))
def test_loops_of_random_bodies_agree_at_every_size(seed, compiled):
    choose = random.Random(seed)
    plan = [(choose.choice(OPERATIONS), choose.random(), choose.random()) for _ in range(choose.randrange(1, 6))]
    states, reverse = choose.randrange(1, 4), choose.random() < 0.5

    def f(xs, *first):
        def step(carry, x):
            values = [*carry, x]
            for operation, a, b in plan:
                values.append(operation(values[int(a * len(values))], values[int(b * len(values))]))
            return tuple(ad.clip(v, -3.0, 3.0) for v in values[-states:]), values[-1]

        last, ys = ad.scan(step, first, xs, reverse=reverse)
        return sum([ad.sin(t).sum() for t in (*last, ys)])

    for t, n in ((5, 4), (7, 4), (7, 9), (4, 12), (13, 40)):
        compiled.agrees(f, array(t, n, 3), *[array(n, 3, seed=k) for k in range(states)], rtol=1e-7)


STEPS = {
    "scan": lambda rate, n: ad.scan(lambda x, _: (x - rate * x, x), 1.0, length=n)[0],
    "stacked": lambda rate, n: ad.sum(ad.scan(lambda x, _: (x - rate * x, x), 1.0, length=n)[1]),
    "while": lambda rate, n: ad.while_loop(lambda v: v[1] < n, lambda v: (v[0] * rate, v[1] + 1), (1.0, 0))[0],
    "nested": lambda rate, n: ad.scan(lambda x, _: (ad.fori_loop(0, n, lambda i, y: y * rate, x), x), 1.0, length=n)[0],
}


@pytest.mark.parametrize("name", STEPS)
def test_a_gradient_leaves_extents_that_are_plain_integers(name, monkeypatch):
    """An interned value is found again by equality: where a number was a watched one all later graphs held it."""
    seen = []
    made = Kind.__init__

    def init(kind, op, params, out, *rest, **options):
        seen.append((op.name, params, out.aval.shape))
        made(kind, op, params, out, *rest, **options)

    monkeypatch.setattr(Kind, "__init__", init)
    extent = 331 + list(STEPS).index(name)  # of no other test
    for f in (ad.grad(STEPS[name]), ad.grad(ad.grad(STEPS[name]))):
        f(0.5, extent)
    assert seen and [s for s in seen if watched_within(s)] == []


def watched_within(x):
    return any(map(watched_within, x)) if isinstance(x, tuple) else isinstance(x, Watched)
