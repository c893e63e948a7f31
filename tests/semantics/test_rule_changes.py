"""SEMANTICS 7: what a rule reads by name is never stale, however often it was the same before."""

from __future__ import annotations

import math
import types
from dataclasses import dataclass

import numpy as np
import pytest
from custom_functions import leaf

import autodiff as ad

TEXT = """
def rule(ctx, g):
    return g * factor()

def factor():
    return table[0] * settings.alpha * beta * (2.0 if mode == "double" else 1.0) * sign(beta) * plain() * box().scale()

def sign(b):
    return abs(b) / b
"""


@dataclass
class Box:
    width: float = 1.0

    def scale(self):
        return SCALE * self.width * self.unit

    unit = "a class holds it"


SCALE = 1.0


@pytest.fixture
def program():
    """A rule of many reads: its namespace, and a step that gives its slope and checks it against a plain call."""
    settings = types.ModuleType("settings")
    settings.alpha = 2.0

    @ad.function
    def plain():
        return 1.0

    class Own(Box):
        unit = 1.0

    names = {"__name__": "program", "table": (3.0, "unused"), "settings": settings, "beta": 0.5, "mode": "single"}
    names |= {"plain": plain, "box": Own}
    exec(TEXT, names)

    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        return x * 1.0

    f.backward(ad.Tensor)(names["rule"])

    def slope():
        x = leaf()
        f(x).sum().backward()
        expected = names["rule"](None, 1.0)
        np.testing.assert_allclose(x.grad.numpy(), [expected] * 3)
        return expected

    for _ in range(6):
        assert slope() == 3.0
    return names, slope


def _new_helper(names):
    exec("def sign(b):\n    return 5.0", names)


def _other_code(names):
    names["sign"].__code__ = (lambda b: 7.0).__code__


def _shadowed(names):
    names["abs"] = lambda b: 4.0 * b


def _module(names):
    names["settings"] = types.SimpleNamespace(alpha=10.0)


def _method(names):
    @names["plain"].method()
    def _():
        return 6.0


CHANGES = {
    "a tuple": lambda names: names.update(table=(4.0, "unused")),
    "an attribute of a module": lambda names: setattr(names["settings"], "alpha", 8.0),
    "a number": lambda names: names.update(beta=2.5),
    "the kind of a number": lambda names: names.update(beta=2),
    "a string": lambda names: names.update(mode="double"),
    "a helper": _new_helper,
    "the code of a helper": _other_code,
    "a name of Python's": _shadowed,
    "another thing for a module": _module,
    "a method of a generic function": _method,
    "an attribute of a class": lambda names: setattr(names["box"], "unit", 3.0),
    "a method of a class": lambda names: setattr(names["box"], "scale", lambda self: 9.0),
    "another class": lambda names: names.update(box=lambda: Box(width=0.0)) or setattr(Box, "unit", 1.0),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_a_rule_reads_is_never_stale_once_it_is_remembered(what, program):
    names, slope = program
    before = slope()
    CHANGES[what](names)
    assert len({slope() for _ in range(4)}) == 1
    if what != "the kind of a number":  # 2 for 2.0
        assert slope() != before
    if what == "another class":
        Box.unit = "a class holds it"


def test_what_a_class_reads_by_name_is_never_stale(program, monkeypatch):
    _, slope = program
    before = slope()
    monkeypatch.setitem(globals(), "SCALE", 11.0)
    assert slope() == pytest.approx(11 * before)


def test_what_a_method_reads_that_was_registered_later_is_never_stale(program):
    names, slope = program
    names["later"] = 2.0
    exec("def method():\n    return later", names)
    with pytest.warns(UserWarning, match="replaces"):
        names["plain"].method()(names["method"])
    assert [slope() for _ in range(4)] == [6.0] * 4
    names["later"] = 5.0
    assert [slope() for _ in range(4)] == [15.0] * 4


def test_a_cell_and_a_default_are_never_stale_once_remembered():
    factor = [2.0]

    def made(name, second):
        def rule(ctx, g, k=second):
            return g * k * (3.0 if name == "three" else 1.0)

        def rename(new):
            nonlocal name
            name = new

        return rule, rename

    rule, rename = made("one", 2.0)

    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        return x * 1.0

    f.backward(ad.Tensor)(rule)

    def slopes():
        found = []
        for _ in range(5):
            x = leaf()
            f(x).sum().backward()
            found.append(float(x.grad.numpy()[0]))
        return found

    assert slopes() == [factor[0]] * 5
    rename("three")
    assert slopes() == [6.0] * 5
    rule.__defaults__ = (5.0,)
    assert slopes() == [15.0] * 5


def test_a_rule_that_reads_another_string_each_time_is_right():
    rule = {"__name__": "program", "mode": "0"}
    exec("def rule(ctx, g):\n    return g * (1.0 + len(mode))", rule)

    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        return x * 1.0

    f.backward(ad.Tensor)(rule["rule"])
    for k in range(30):
        rule["mode"] = "x" * (k % 13)
        x = leaf()
        f(x).sum().backward()
        assert x.grad.numpy()[0] == 1 + k % 13


def test_an_array_that_a_rule_reads_counts_with_its_contents_once_remembered():
    names = {"__name__": "program", "a": np.array([1.0, 2.0, 3.0])}
    exec("def rule(ctx, g):\n    return g * a", names)

    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        return x * 1.0

    f.backward(ad.Tensor)(names["rule"])
    for k in range(12):
        if k == 5:
            names["a"][0] = 10.0
        if k == 7:
            names["a"] = np.array([4.0, 5.0, 6.0])
        if k == 9:
            names["a"] = np.array([2.0])
        x = leaf()
        f(x).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.broadcast_to(names["a"], 3))


def test_numbers_behind_a_native_check_are_those_of_now():
    """Several calls of several functions, some of whose rules read numbers: all are asked for at once."""

    def function(name, read):
        names = {"__name__": "program", "c": 1.0}
        exec(f"def rule(ctx, g):\n    return g * {read}", names)

        @ad.function
        def f(x, k): ...

        @f.forward(ad.Tensor, ad.Number)
        def _(ctx, x, k):
            ctx.save_for_backward(k=k)
            return x * k

        f.backward(ad.Tensor, ad.Number)(
            lambda ctx, g, rule=names["rule"]: {"x": rule(ctx, g) * ctx.saved_variables.k}
        )
        return f, names

    f, of_f = function("f", "c")
    h, of_h = function("h", "(c * 2.0 + 1.0)")
    for k in range(12):
        of_f["c"], of_h["c"] = 0.5 * k, 3.0 - k
        x = leaf()
        h(f(h(f(x, 2.0), k + 1.0), 3.0), 0.1 * k).sum().backward()
        slope = (2.0 * 0.5 * k) * ((k + 1.0) * (7.0 - 2 * k)) * (3.0 * 0.5 * k) * (0.1 * k * (7.0 - 2 * k))
        np.testing.assert_allclose(x.grad.numpy(), [slope] * 3)
    assert math.isfinite(slope)
