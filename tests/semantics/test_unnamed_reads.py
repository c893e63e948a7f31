"""SEMANTICS 7: what methods read that a rule runs without naming them (operators, classes, what the library calls)."""

from __future__ import annotations

import dataclasses
import types
import typing

import numpy as np
import pytest
from rule_slopes import pair, slope
from three_ways import done

import autodiff as ad

ALPHA = 2.0
OBJECT = types.SimpleNamespace(alpha=2.0)


class Half(ad.AbstractTensor):
    """A structured type of the user's."""

    def __init__(self, entries):
        self.entries = entries

    shape = property(lambda self: self.entries.shape)
    dtype = property(lambda self: self.entries.dtype)

    def scaled(self):
        return self.entries * ALPHA


@dataclasses.dataclass(frozen=True)
class Box:
    entries: object
    unused: list = dataclasses.field(default_factory=list)

    @property
    def scaled(self):
        return self.entries * ALPHA


class BoxOfBox(Box):
    @property
    def scaled(self):
        return super().scaled * 1.0


class Pair(typing.NamedTuple):
    entries: object
    unused: float = 0.0

    def scaled(self):
        return self.entries * ALPHA


@pytest.fixture
def methods_of_ours():
    """Methods of ours for functions of the library, for as long as a test runs."""
    made = []

    def add(function, *types_):
        def register(implementation):
            made.append(function.method(*types_)(implementation))
            return implementation

        return register

    yield add
    for method in made:
        method.delete()


def read_alpha(x1, x2):
    return x1 * ALPHA


def read_object(x1, x2):
    return x1 * OBJECT.alpha


def read_array(x1, x2):
    return x1 * np.full(3, ALPHA)


ALPHAS = (2.0, 2.0, 2.0, 2.0, 5.0, 5.0, 3.0)


def slopes_for(f, values=ALPHAS):
    """The slope of f while ALPHA and OBJECT.alpha have these values."""
    found = []
    try:
        for value in values:
            globals()["ALPHA"] = OBJECT.alpha = value
            found.append(slope(f))
    finally:
        globals()["ALPHA"] = OBJECT.alpha = 2.0
    return found


@pytest.mark.parametrize("method", [read_alpha, read_object, read_array])
@pytest.mark.parametrize(
    "rule",
    [
        lambda ctx, g: g - Half(g),
        lambda ctx, g: ad.subtract(g, Half(g)),
        lambda ctx, g: ad.tree.map(lambda v: v - Half(v), g),
    ],
)
def test_what_a_method_behind_an_operator_reads_is_never_stale(method, rule, methods_of_ours):
    methods_of_ours(ad.subtract, ad.Tensor, Half)(method)
    assert slopes_for(pair(rule)) == list(ALPHAS)


def test_what_a_method_reads_that_the_rule_of_an_operation_runs_is_never_stale(methods_of_ours):
    methods_of_ours(ad.cosh, ad.Vector)(lambda x: x * 0.0 + ALPHA)
    assert slopes_for(ad.sinh) == list(ALPHAS)


def test_what_a_method_reads_that_a_function_of_the_library_runs_is_never_stale(methods_of_ours):
    methods_of_ours(ad.exp, ad.Vector)(lambda x: x * 0.0 + ALPHA)
    sum_of_exponentials = pair(lambda ctx, g: g * 0.0 + ad.exp(ad.logsumexp(g, axis=0)))
    e = ad.exp(ad.tensor(1.0)).item()
    np.testing.assert_allclose(slopes_for(sum_of_exponentials), [3.0 * e * alpha for alpha in ALPHAS])


def test_a_method_behind_an_operator_that_reads_what_can_be_checked_runs_once(methods_of_ours):
    methods_of_ours(ad.subtract, ad.Tensor, Half)(read_alpha)
    f = pair(lambda ctx, g: g - Half(g))
    for _ in range(3):
        slope(f)
    before = done()
    assert slope(f) == 2.0
    assert done() == before


@pytest.mark.parametrize(
    "rule",
    [
        lambda ctx, g: Half(g).scaled(),
        lambda ctx, g: Box(g).scaled,
        lambda ctx, g: BoxOfBox(g).scaled,
        lambda ctx, g: Pair(g).scaled(),
    ],
)
def test_what_a_method_of_a_class_reads_is_never_stale(rule):
    f = pair(rule)
    assert slopes_for(f) == list(ALPHAS)
    for _ in range(3):
        slope(f)
    before = done()
    assert slope(f) == 2.0
    assert done() == before


def test_a_class_that_is_changed_is_another_one():
    class Local(Half):
        def scaled(self):
            return self.entries * 3.0

    f = pair(lambda ctx, g: Local(g).scaled())
    assert [slope(f) for _ in range(4)] == [3.0] * 4
    Local.scaled = lambda self: self.entries * 4.0
    assert slope(f) == 4.0
    del Local.scaled
    assert slope(f) == 2.0
