"""Generic functions, on plain Python classes: what floors above change, what is said, a function as an object."""

from __future__ import annotations

import copy
import gc
import pickle
import types

import pytest
from dispatch_kinds import Animal, Cat, Dog, Puppy, declare, linear, returning, two, with_bias

import autodiff as ad

# ---------------------------------------------------------------- hooks


def test_calls_made_while_a_method_is_added_do_not_leave_the_old_choice_behind():
    f = two()
    f.method(Animal)(returning("animal"))

    class Racing(type(f.table)):
        def find(self, classes):
            found = super().find(classes)
            if not racing:
                racing.append(f.method(Dog)(returning("dog")))
            return found

    racing = []
    f.table.__class__ = Racing
    assert f(Dog(), 0) == "animal"
    assert f(Dog(), 0) == "dog"


# ---------------------------------------------------------------- what is said


PROGRAM = """
@declare
def area(shape, unit=None): ...

class Shape: ...
class Square(Shape): ...
class Red: ...
class RedSquare(Square, Red): ...

@area.method
def _(shape: Square, unit: str | None = None): ...

@area.forward(Red)
def _(ctx, shape, unit): ...

@area.backward(Square, int)
def _(ctx, g): ...
"""


@pytest.mark.parametrize("call", [
    pytest.param("area(RedSquare())", id="ambiguous"),
    pytest.param("area(Shape(), unit=1)", id="not_found"),
    pytest.param("area(Square(), units='m')", id="unbound"),
    pytest.param("area.invoke((Red,), Square())", id="not_invoked"),
    pytest.param("area.method(lambda unit, shape: 0)", id="swapped"),
    pytest.param("area.method(list[int])(lambda shape, unit: 0)", id="untyped"),
    pytest.param("ambiguities(area)", id="listed"),
    pytest.param("methods(area)", id="methods"),
    pytest.param("coverage(area)", id="uncovered"),
    pytest.param("which_backward(area, Red())", id="without_rule"),
])
def test_what_dispatch_says_reads_well(call, golden):
    asked = (ad.ambiguities, ad.coverage, ad.methods, ad.which_backward)
    space = {"declare": declare, "__name__": "shapes"} | {f.__name__: f for f in asked}
    exec(compile(PROGRAM, "shapes.py", "exec"), space)
    try:
        said = repr(eval(compile(call, "main.py", "eval"), space))
    except ad.DispatchError as error:
        said = f"{type(error).__name__}: {error}"
    golden(said)


# ---------------------------------------------------------------- being an object


def test_methods_are_listed_most_specific_first_with_file_and_line():
    listing = repr(ad.methods(linear)).splitlines()
    assert len(listing) == 2
    line = with_bias.implementation.__code__.co_firstlineno
    assert f"linear(x: int, weight: int, bias: int)  dispatch_kinds.py:{line}" in listing
    f = two()
    for cls in (Animal, Puppy, Dog):
        f.method(cls)(returning(0))
    assert [str(m.signature.choices[0]) for m in ad.methods(f)] == ["Puppy", "Dog", "Animal"]
    assert repr(ad.methods(two())) == "(none)"


def test_which_backward_tells_the_rule_its_absence_and_its_lack():
    f = two()
    plain = f.method(Cat)(returning(0))
    f.forward(Dog)(lambda ctx, a, b: 0)
    assert ad.which(f, Cat(), 0).method is plain
    assert ad.which_backward(f, Cat(), 0) is None
    with pytest.raises(ad.DispatchError, match="has no backward for"):
        ad.which_backward(f, Dog(), 0)
    rule = f.backward(Dog)(lambda ctx, g: 0)
    assert ad.which_backward(f, Dog(), 0).method is rule


@pytest.mark.parametrize("ask", [ad.methods, ad.which, ad.which_backward, ad.ambiguities, ad.coverage])
def test_what_is_no_generic_function_is_refused(ask):
    with pytest.raises(ad.DispatchError, match="not a generic function"):
        ask(len)


def test_a_generic_function_is_not_copied(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, __name__, types.SimpleNamespace(linear=linear))
    assert pickle.loads(pickle.dumps(linear)) is linear
    assert copy.deepcopy(linear) is copy.copy(linear) is linear
    nameless = ad.function(lambda x: x * 2.0)
    assert copy.deepcopy([nameless])[0] is copy.copy(nameless) is nameless


def test_a_generic_function_holds_no_argument():
    f = two()
    f.method(Dog)(returning(0))
    dog = Dog()
    f(dog, 1)
    f(a=dog, b=1)
    assert not [r for r in gc.get_referrers(dog) if isinstance(r, dict | tuple) and r is not locals()]


def test_many_types_do_not_fill_memory():
    classes = [type(f"C{i}", (), {}) for i in range(70)]
    f = two()
    f.method(object)(returning(1))
    assert all(f(a(), b()) == 1 for a in classes for b in classes)
    assert len(f._cache) <= 4096
