"""SEMANTICS 7: what a rule reads besides tensors is never stale, and what it does not change runs no rule."""

from __future__ import annotations

import math
import operator
import types

import numpy as np
import pytest
from rule_slopes import X, pair, slope
from three_ways import done

import autodiff as ad

ALPHA = 2.0
TABLE = {"alpha": 2.0}
NAME = "alpha"
SETTINGS = types.ModuleType("settings")
SETTINGS.alpha = 2.0


class Config:
    alpha = 2.0


class Instance:
    def __init__(self, alpha):
        self.alpha = alpha


OBJECT = Instance(2.0)


def helper(g):
    return g * ALPHA


def tagged(g):
    return g * tagged.alpha


tagged.alpha = 2.0


def saving(**values):
    """A forward that saves functions of c."""

    def forward(ctx, x, c):
        ctx.save_for_backward(**{k: v(c) for k, v in values.items()})
        return x * 1.0

    return forward


# ---------------------------------------------------------------- numbers


def test_numbers_that_a_rule_only_computes_with_compile_once():
    sources = (
        (pair(lambda ctx, g: g * ctx.saved_variables.c, saving(c=lambda c: c)), 0),
        (pair(lambda ctx, g: (g * ctx.inputs.c, None)), 1),
        (pair(lambda ctx, g: g * ctx.c, lambda ctx, x, c: (setattr(ctx, "c", c), x * 1.0)[1]), 2),
    )
    for f, _ in sources:
        slope(f, 0.5)
        with ad.max_compiles(0):
            for c in (1.5, -2.5, 7.0, 0.0):
                assert slope(f, c) == c


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        (lambda c: math.cos(c), math.cos),
        (lambda c: 10.0 if c > 1.0 else 20.0, lambda c: 10.0 if c > 1.0 else 20.0),
        (lambda c: float(int(c)), lambda c: float(int(c))),
        (lambda c: len(f"{c:.3f}") * 1.0, lambda c: len(f"{c:.3f}") * 1.0),
    ],
)
def test_a_rule_that_looks_at_a_value_is_always_right(look, expected):
    f = pair(lambda ctx, g: g * look(ctx.saved_variables.c), saving(c=lambda c: c))
    for c in (0.5, 2.25, -10.125, 0.5, 2.25):
        assert slope(f, c) == pytest.approx(expected(c))


def test_the_kind_and_the_sign_of_a_number_count():
    f = pair(lambda ctx, g: g * (1.0 if isinstance(ctx.saved_variables.c, int) else 2.0), saving(c=lambda c: c))
    assert [slope(f, c) for c in (1, 1.0, True, 1, 1.0)] == [1.0, 2.0, 1.0, 1.0, 2.0]
    f = pair(lambda ctx, g: g * math.copysign(3.0, ctx.saved_variables.c), saving(c=lambda c: c))
    assert [slope(f, c) for c in (0.0, -0.0, 0.0)] == [3.0, -3.0, 3.0]


@pytest.mark.parametrize("values", [("a", "bb"), (None, "x"), ((1, 2), (1, 2, 3)), (np.float32, np.float64), (0, 1)])
def test_strings_shapes_axes_dtypes_and_none_count_by_value(values):
    f = pair(lambda ctx, g: g * (1.0 if ctx.saved_variables.c == values[0] else 2.0), saving(c=lambda c: c))
    for _ in range(2):
        assert [slope(f, v) for v in values] == [1.0, 2.0]
    before = done()
    assert [slope(f, v) for v in values] == [1.0, 2.0]
    assert values == (0, 1) or done() == before or not isinstance(values[0], str)


def test_a_saved_array_counts_with_its_contents():
    f = pair(lambda ctx, g: g * ctx.saved_variables.a, saving(a=lambda c: np.full(3, c)))
    slope(f, 1.0)
    with ad.max_compiles(0):
        assert [slope(f, c) for c in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]


def test_a_mutable_object_is_read_again_each_time():
    thing = Instance(1.0)
    f = pair(lambda ctx, g: g * ctx.saved_variables.o.alpha, saving(o=lambda c: thing))
    for alpha in (1.0, 5.0, 9.0):
        thing.alpha = alpha
        assert slope(f) == alpha


# ---------------------------------------------------------------- globals, cells, defaults, functions called


GLOBALS = {
    "a global": (lambda ctx, g: g * ALPHA, lambda v: globals().__setitem__("ALPHA", v)),
    "a global of a function that it calls": (
        lambda ctx, g: helper(g), lambda v: globals().__setitem__("ALPHA", v),
    ),
    "an entry of a dict": (lambda ctx, g: g * TABLE["alpha"], lambda v: TABLE.__setitem__("alpha", v)),
    "an attribute of a module": (lambda ctx, g: g * SETTINGS.alpha, lambda v: setattr(SETTINGS, "alpha", v)),
    "an attribute of a class": (lambda ctx, g: g * Config.alpha, lambda v: setattr(Config, "alpha", v)),
    "an attribute of an object": (lambda ctx, g: g * OBJECT.alpha, lambda v: setattr(OBJECT, "alpha", v)),
    "an attribute of a function": (lambda ctx, g: tagged(g), lambda v: setattr(tagged, "alpha", v)),
    "getattr": (lambda ctx, g: g * getattr(SETTINGS, NAME), lambda v: setattr(SETTINGS, "alpha", v)),
}


@pytest.mark.parametrize("source", GLOBALS)
def test_what_a_rule_reads_by_name_is_never_stale(source):
    rule, change = GLOBALS[source]
    f = pair(rule)
    try:
        for value in (2.0, 2.0, 2.0, 2.0, 3.0, 4.0, 3.0):
            change(value)
            assert slope(f) == value, source
    finally:
        change(2.0)


def test_a_closure_cell_is_never_stale():
    alpha = 2.0
    module, cls = types.ModuleType("local"), type("Local", (), {})

    def set_all(value):
        nonlocal alpha
        alpha = module.alpha = cls.alpha = value

    rules = (lambda ctx, g: g * alpha, lambda ctx, g: g * module.alpha, lambda ctx, g: g * cls.alpha)
    for f in map(pair, rules):
        for value in (2.0, 2.0, 2.0, 2.0, 5.0, 2.0):
            set_all(value)
            assert slope(f) == value


def test_a_default_and_what_it_holds_are_never_stale():
    held = [2.0]

    def rule(ctx, g, values=held, *, k=3.0):
        return g * values[0] * k

    f = pair(rule)
    for value in (2.0, 2.0, 2.0, 4.0):
        held[0] = value
        assert slope(f) == value * 3.0
    rule.__kwdefaults__["k"] = 10.0
    assert slope(f) == 40.0


def test_a_rule_re_created_in_a_loop_with_equal_constants_hits():
    def make(c):
        return pair(lambda ctx, g: g * c + operator.mul(0.0, g))

    for _ in range(3):
        slope(make(2.0))
    before = done()
    for _ in range(5):
        assert slope(make(2.0)) == 2.0
    assert done() == before
    assert slope(make(3.0)) == 3.0
    assert done()[1] == before[1], "another constant records again and compiles nothing"


def test_a_rule_that_reads_only_what_can_be_checked_runs_once():
    def rule(ctx, g):
        t = helper(g) * math.sqrt(4.0) + np.pi * 0.0
        return ad.tree.map(lambda v: v * ALPHA, t)

    f = pair(rule)
    for _ in range(3):
        slope(f)
    before = done()
    assert slope(f) == 8.0
    assert done() == before


@pytest.mark.parametrize(
    "make", [lambda: ad.ones(3), lambda: ad.zeros(3) + 1.0, lambda: ad.eye(3).sum(axis=0),
             lambda: ad.arange(1.0, 2.0, 0.5)[0], lambda: ad.full(3, 1.0), lambda: ad.linspace(1.0, 1.0, 3)],
    ids=["ones", "zeros", "eye", "arange", "full", "linspace"],
)  # fmt: skip
def test_a_rule_that_makes_an_array_by_a_function_of_the_library_runs_once(make):
    f = pair(lambda ctx, g: g * ALPHA * make())
    for _ in range(3):
        slope(f)
    before = done()
    assert slope(f) == ALPHA
    assert done() == before


def test_a_side_effect_runs_with_the_rule_and_host_rules_run_each_time():
    ran = []

    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: x * 1.0)
    f.backward(ad.Tensor, host=True)(lambda ctx, g: (ran.append(1), g)[1])
    for i in range(1, 6):
        x = ad.tensor(X, requires_grad=True)
        f(x).sum().backward()
        assert len(ran) == i


# ---------------------------------------------------------------- under jit


def test_numbers_closed_over_are_frozen_under_jit_and_arrays_are_not():
    scale, table = 2.0, np.array([1.0, 1.0, 1.0])
    f = ad.jit(lambda x: (x * scale * table).sum())
    assert f(X) == 4.0
    scale = 100.0
    table[:] = 3.0
    assert f(X) == 12.0


def test_rules_run_while_tracing_only():
    f = pair(lambda ctx, g: g * TABLE["alpha"])
    g = ad.jit(ad.grad(lambda x: f(x).sum()))
    g(X)
    before = done()
    for _ in range(3):
        np.testing.assert_array_equal(g(X), np.full(3, 2.0))
    assert done() == before
