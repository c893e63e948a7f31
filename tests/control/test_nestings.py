"""Control flow within control flow: values and derivatives of first and second order, whatever depends on what.

Each program is a chain of loops, branches, `checkpoint` and `vmap`, one within the other.  What an inner one gets is
the state of the outer one, or something that the outer one does not change: the argument from outside, or a number.
The same program runs on `Jet`, plain Python numbers with two derivatives, whose loops are Python's own.
"""

import itertools
import math
import random

import numpy as np
import pytest

import autodiff as ad

KINDS = ("cond", "while_loop", "fori_loop", "scan", "checkpoint", "vmap")
#: What the inner one is given at each level; what the innermost reads; how many steps it takes.
FEEDS, LEAVES, TRIPS = ("state", "outside", "number"), ("own", "array", "outside"), (2, 0)


class Jet:
    """A number and its first and second derivative along a line."""

    def __init__(self, value, first=0.0, second=0.0):
        self.parts = (value, first, second)

    def __add__(self, other):
        return Jet(*[a + b for a, b in zip(self.parts, jet(other).parts, strict=True)])

    def __mul__(self, other):
        (a, a1, a2), (b, b1, b2) = self.parts, jet(other).parts
        return Jet(a * b, a1 * b + a * b1, a2 * b + 2 * a1 * b1 + a * b2)

    def __gt__(self, other):
        return self.parts[0] > other

    __radd__, __rmul__ = __add__, __mul__


def jet(x):
    return x if isinstance(x, Jet) else Jet(float(x))


class InPython:
    """The functions that the programs use, of `Jet`s."""

    def sin(x):
        a, a1, a2 = jet(x).parts
        return Jet(math.sin(a), math.cos(a) * a1, math.cos(a) * a2 - math.sin(a) * a1 * a1)

    def sum(xs):
        return sum(xs, Jet(0.0))

    def cond(chosen, yes, no, x):
        return yes(x) if chosen else no(x)

    def while_loop(goes_on, step, value):
        while goes_on(value):
            value = step(value)
        return value

    def fori_loop(lower, upper, step, value):
        for i in range(lower, upper):
            value = step(i, value)
        return value

    def scan(step, carry, xs):
        given = []
        for x in xs:
            carry, y = step(carry, x)
            given.append(y)
        return carry, given

    def checkpoint(f):
        return f

    def vmap(f):
        return lambda xs: [f(x) for x in xs]


def program(levels, leaf):
    """f(functions, x, w) of these levels (kind, feed, trips), from outside in."""

    def f(lib, x, w):
        def innermost(c):
            if leaf == "array":
                return lib.sin(c) + 0.3 * lib.sum(w * c if lib is ad else [v * c for v in w])
            return lib.sin(x) * x + 0.5 * w[1] if leaf == "outside" else lib.sin(c) * c

        g = innermost
        for kind, feed, trips in reversed(levels):
            g = level(lib, kind, fed(g, feed, x), feed, trips, x, w)
        return g(x) + 0.1 * x

    return f


def fed(g, feed, x):
    return lambda state: g({"state": state, "outside": x, "number": 1.2}[feed])


def level(lib, kind, g, feed, trips, x, w):
    def run(c):
        if kind == "cond":
            return lib.cond((c if feed == "state" else x) > 0.1, g, lambda a: a * a, c)
        if kind == "while_loop":
            step = lambda s: (s[0] + 1, g(s[1]) * 0.5 + s[1] * 0.3)  # noqa: E731  as users do
            return lib.while_loop(lambda s: s[0] < trips, step, (0, c * 1.0))[1]
        if kind == "fori_loop":
            return lib.fori_loop(0, trips, lambda i, s: s * 0.4 + g(s) * 0.7, c * 1.0)
        if kind == "scan":
            step = lambda s, e: ((s[0] * 0.5 + g(s[0]) * e, s[1] + s[0]), s[0] * e)  # noqa: E731  as users do
            (one, other), given = lib.scan(step, (c * 1.0, c * 0.5), w[:trips])
            return one + other * 0.2 + lib.sum(given)
        if kind == "checkpoint":
            return lib.checkpoint(g)(c)
        return lib.sum(lib.vmap(lambda e: g(e * c))(w))

    return run


X, W = 0.7, np.array([0.6, -0.4, 0.9])
DX, DW = 0.5, np.array([0.3, 0.8, -0.2])


def wrong(f, *, jitted):
    """The differences of a program from the same in Python."""
    value, first, second = jet(f(InPython, Jet(X, DX), [Jet(a, d) for a, d in zip(W, DW, strict=True)])).parts

    def g(x, w):
        return f(ad, x, w)

    g = ad.jit(g) if jitted else g
    found, (gx, gw) = ad.value_and_grad(g, argnums=(0, 1))(X, W)
    hx, hw = ad.hvp(g, (X, W), (DX, DW))
    _, pushed = ad.jvp(g, (X, W), (DX, DW))
    pairs = {
        "value": (found, value), "reverse": (gx * DX + gw @ DW, first), "forward": (pushed, first),
        "second order": (hx * DX + hw @ DW, second),
    }  # fmt: skip
    return {k: both for k, both in pairs.items() if not np.isclose(*both, rtol=1e-9, atol=1e-12)}


def check(kinds, draw):
    # Values that the outermost does not change went wrong most.
    feeds = [draw.choice(FEEDS[1:]), *[draw.choice(FEEDS) for _ in kinds[1:]]]
    leaf, trips = draw.choice(LEAVES), draw.choice(TRIPS)
    levels = [*zip(kinds, feeds, [2] * (len(kinds) - 1) + [trips], strict=True)]
    assert wrong(program(levels, leaf), jitted=draw.random() < 0.3) == {}, (levels, leaf)


PAIRS = [*itertools.product(KINDS, KINDS)]
TRIPLES = [*itertools.product(KINDS, KINDS, KINDS)]


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_one_in_another_is_right_to_second_order(kinds):
    check(kinds, random.Random("-".join(kinds)))


@pytest.mark.parametrize("kinds", random.Random(1).sample(TRIPLES, 5), ids="-".join)
def test_three_deep_is_right_to_second_order(kinds):
    check(kinds, random.Random("-".join(kinds)))


@pytest.mark.slow
@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_one_in_another_is_right_whatever_depends_on_what(kinds):
    for (one, other), leaf, trips in itertools.product(itertools.product(FEEDS, FEEDS), LEAVES, TRIPS):
        levels = [(kinds[0], one, 2), (kinds[1], other, trips)]
        assert wrong(program(levels, leaf), jitted=False) == {}, (levels, leaf)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", TRIPLES, ids="-".join)
def test_three_deep_is_right_to_second_order_for_many_dependencies(kinds):
    draw = random.Random("many " + "-".join(kinds))
    for _ in range(4):
        check(kinds, draw)


def test_a_choice_on_what_a_loop_does_not_change_has_its_derivative():
    def chosen(y):
        return ad.cond(y > 0, lambda y: y * y, lambda y: y, y)

    assert ad.grad(lambda x: ad.fori_loop(0, 2, lambda i, c: c + chosen(x), 0.0))(3.0) == 12.0


def test_a_checkpointed_loop_that_does_not_depend_on_the_input_is_a_constant():
    def f(y):
        return y * ad.fori_loop(0, 3, lambda i, c: c * 2.0, 1.0)

    assert ad.grad(ad.checkpoint(f))(3.0) == 8.0


def test_a_loop_of_a_checkpointed_body_reads_an_array_that_the_loop_around_it_does_not_change():
    v, k = np.arange(9.0) * 0.1, np.array([1.0, 2.0, 3.0])

    def f(v):
        step = ad.checkpoint(lambda a, b: (ad.sum(ad.sin(v)), a))
        return ad.sum(ad.scan(lambda c, r: (c, ad.scan(step, 1.0, k)[0]), 0.0, k)[1])

    np.testing.assert_allclose(ad.grad(f)(v), 3 * np.cos(v), rtol=1e-14)


def test_a_loop_that_does_a_call_once_does_not_differentiate_what_the_call_computes_inside():
    @ad.function
    def safe_log(x): ...

    @safe_log.forward(ad.Tensor)
    def _(ctx, x):
        return ad.log(x)  # whose own derivative at 0 is infinite

    @safe_log.backward(ad.Tensor)
    def _(ctx, y_bar):
        return 2.0 * y_bar

    f = ad.grad(lambda x: ad.fori_loop(0, 3, lambda i, c: c * 0.5 + safe_log(x), 0.0))
    assert f(0.0) == ad.jit(f)(0.0) == 3.5
