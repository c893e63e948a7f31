"""SEMANTICS 7: an object that a rule reads counts with what it is now; one that stays runs no rule again."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import pytest
from custom_functions import leaf
from work_done import work

import autodiff as ad


class Tag:
    """Chooses a method, and holds nothing."""


@dataclass(frozen=True)
class Frozen:
    alpha: float = 2.0
    power: int = 1

    def scaled(self, g):
        return g * self.alpha


@dataclass(slots=True)
class Slotted:
    alpha: float = 2.0


class Mode(enum.Enum):
    DOUBLE = 2.0
    TRIPLE = 3.0

    def factor(self):
        return self.value


class Nested:
    def __init__(self, inner, hidden):
        self.inner = inner
        self.__hidden = hidden


class Holder:
    def __init__(self, x):
        self.x = x


def function(read):
    """x -> x with the slope read(k), and how often its rule ran."""
    ran = []

    @ad.function
    def f(x, k): ...

    @f.forward(ad.Tensor, object)
    def _(ctx, x, k):
        ctx.save_for_backward(k=k)
        return x * 1.0

    f.backward(ad.Tensor, object)(lambda ctx, g: {"x": g * read(ctx.saved_variables.k)})

    def slope(k):
        before = work().rules
        x = leaf()
        f(x, k).sum().backward()
        ran.append(work().rules > before)
        return float(x.grad.numpy()[0])

    return slope, ran


@pytest.mark.parametrize(
    ("made", "read", "expected"),
    [
        (Tag, lambda k: 2.0, 2.0),
        (object, lambda k: 2.0, 2.0),
        (Frozen, lambda k: k.alpha, 2.0),
        (Frozen, lambda k: k.scaled(3.0), 6.0),
        (Slotted, lambda k: k.alpha, 2.0),
        (lambda: Nested(Frozen(), Tag()), lambda k: k.inner.alpha, 2.0),
        (lambda: Mode.TRIPLE, lambda k: k.factor(), 3.0),
    ],
)
def test_an_object_that_stays_runs_no_rule_again(made, read, expected):
    slope, ran = function(read)
    k = made()
    assert [slope(k) for _ in range(8)] == [expected] * 8
    assert ran[-4:] == [False] * 4


class Answers:
    """Has every attribute, as mocks and proxies do."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return 3.0


def test_an_object_that_has_every_attribute_is_none_of_ours():
    k = Answers()
    by_name = lambda saved: getattr(k, "alpha")  # noqa: B009, E731  users do both
    for read in (lambda saved: saved.alpha, lambda saved: k.alpha, by_name):
        slope, _ = function(read)
        assert [slope(k) for _ in range(4)] == [3.0] * 4


def test_an_attribute_that_changes_is_never_stale():
    slope, _ = function(lambda k: k.alpha)
    for k in (Slotted(), Holder(0.0)):
        for value in (1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 1.0, 3.0, 1.0):
            k.alpha = value
            assert slope(k) == value


def test_what_an_object_holds_is_never_stale():
    slope, _ = function(lambda k: k.inner.alpha if k.inner.power == 1 else 0.0)
    k = Nested(Frozen(), Tag())
    for _ in range(5):
        assert slope(k) == 2.0
    k.inner = Frozen(alpha=7.0)
    assert [slope(k) for _ in range(3)] == [7.0] * 3
    object.__setattr__(k.inner, "power", 3)
    assert [slope(k) for _ in range(3)] == [0.0] * 3


def test_a_method_that_is_replaced_is_never_stale(monkeypatch):
    slope, _ = function(lambda k: k.scaled(1.0))
    k = Frozen()
    assert [slope(k) for _ in range(5)] == [2.0] * 5
    monkeypatch.setattr(Frozen, "scaled", lambda self, g: g * 11.0)
    assert [slope(k) for _ in range(3)] == [11.0] * 3


FACTOR = 2.0


@dataclass
class Weights:
    w: object

    def scaled(self, g):
        return g * self.w * FACTOR


def test_what_a_method_of_a_container_reads_is_never_stale(monkeypatch):
    @ad.function
    def f(p): ...

    @f.forward(Weights)
    def _(ctx, p):
        ctx.save_for_backward(p=p)
        return p.w * p.w

    f.backward(Weights)(lambda ctx, g: {"p": Weights(ctx.saved_variables.p.scaled(g))})

    def slope():
        x = leaf(np.array([1.0, 1.0]))
        f(Weights(x)).sum().backward()
        return float(x.grad.numpy()[0])

    assert [slope() for _ in range(4)] == [2.0] * 4
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert [slope() for _ in range(4)] == [5.0] * 4
    monkeypatch.setattr(Weights, "scaled", lambda self, g: g * 7.0)
    assert [slope() for _ in range(4)] == [7.0] * 4


MARK = Holder(1.0)


def test_which_object_it_is_counts():
    slope, _ = function(lambda k: 5.0 if k is MARK else 1.0)
    other = Holder(1.0)
    for _ in range(4):
        assert [slope(MARK), slope(other), slope(Holder(1.0))] == [5.0, 1.0, 1.0]


def test_tensors_and_arrays_and_lists_in_an_object_are_read_each_time():
    slope, _ = function(lambda k: float(np.asarray(k.x).sum()))
    for made in (ad.tensor, np.asarray, list):
        k = Holder(made([1.0, 1.0]))
        assert [slope(k) for _ in range(4)] == [2.0] * 4
        k.x = made([2.0, 1.0])
        assert [slope(k) for _ in range(4)] == [3.0] * 4


def test_a_method_that_looks_at_a_number_is_given_the_number():
    class Particular:
        def times(self, c):
            return 2.0 if type(c) is float else 100.0

    @ad.function
    def f(x, c, k): ...

    @f.forward(ad.Tensor, ad.Number, object)
    def _(ctx, x, c, k):
        ctx.save_for_backward(c=c, k=k)
        return x * 1.0

    f.backward(ad.Tensor, ad.Number, object)(
        lambda ctx, g: {"x": g * ctx.saved_variables.k.times(ctx.saved_variables.c)}
    )
    k = Particular()
    for c in (1.0, 1.0, 2.0, 3.0, 4.0, 5, 6, 7.0):
        x = leaf()
        f(x, c, k).sum().backward()
        assert x.grad.numpy()[0] == (2.0 if type(c) is float else 100.0)


def test_an_object_that_refers_to_itself_is_read_each_time():
    slope, _ = function(lambda k: k.alpha)
    k = Holder(None)
    k.x, k.alpha = k, 2.0
    assert [slope(k) for _ in range(4)] == [2.0] * 4
    k.alpha = 3.0
    assert slope(k) == 3.0
