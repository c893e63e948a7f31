"""Generic functions, on plain Python classes: what floors above change, what is said, a function as an object."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import types

import pytest
from dispatch_kinds import Animal, Cat, Dog, Puppy, declare, linear, returning, two, with_bias

import autodiff as ad
from autodiff.dispatch import GenericFunction

# ---------------------------------------------------------------- hooks


class Box:
    """Stands for an array: dispatches as what it holds."""

    def __init__(self, inside):
        self.inside = inside


class Boxing(GenericFunction):
    """Boxes are adopted as what they hold; strings are converted to ints, floats to strings."""

    adopted = (Box,)

    def adopt(self, argument):
        return argument if argument.inside is None else argument.inside

    def convert(self, arguments, classes):
        if float in classes:
            return [str(a) if type(a) is float else a for a in arguments]
        if str in classes:
            return [len(a) if type(a) is str else a for a in arguments]
        return None


def boxing():
    @Boxing.declare
    def f(a, b=0): ...

    return f


def test_an_adopted_argument_dispatches_and_arrives_as_what_stands_for_it():
    f = boxing()
    f.method(int)(lambda a, b: ("int", a))
    f.method(Dog)(lambda a, b: ("dog", a))
    dog = Dog()
    for _ in range(2):
        assert f(Box(3)) == ("int", 3)
        assert f(Box(dog)) == ("dog", dog)
        assert f(a=Box(3), b=Box(1)) == ("int", 3)
    with pytest.raises(ad.DispatchError, match=r"\(Box, int\)"):
        f(Box(None))
    assert f(Box(3)) == ("int", 3)


def test_a_method_that_names_the_class_itself_gets_it_as_it_is():
    f = boxing()
    f.method(int, int)(lambda a, b: ("ints", a, b))
    f.method(Box, int)(lambda a, b: ("box", a, b))
    box = Box(3)
    assert f(box, Box(1)) == ("box", box, 1)
    f.method(Dog, Box)(lambda a, b: ("dog", a, b))
    assert f(Dog(), box)[0] == "dog"
    assert f(1, box) == ("ints", 1, 3), "the method that names Box does not fit here"


def test_conversions_follow_each_other_until_a_method_fits_and_never_precede_one_that_does():
    f = boxing()
    f.method(int)(lambda a, b: a)
    for _ in range(2):
        assert f(1.25) == 4, "1.25 is '1.25' is 4"
        assert f("abc") == 3
    f.method(str)(lambda a, b: a)
    assert f(1.25) == "1.25"
    with pytest.raises(ad.DispatchError, match=r"no method for \(NoneType|no method for \(None, int\)"):
        f(None)


def test_only_the_arguments_that_do_not_fit_are_converted():
    f = boxing()
    f.method(str, float)(lambda a, b: (a, b))
    assert f(2.5, 1.5) == ("2.5", 1.5)
    f.method(int, str)(lambda a, b: (a, b))
    assert f(2.5, "b") == (3, "b"), "twice converted beside one that fits as it is"
    f.method(str, str)(lambda a, b: ("strings", a, b))
    assert f(2.5, 1.5) == ("2.5", 1.5), "one conversion rather than two"
    assert f(2.5, "b") == ("strings", "2.5", "b")


def test_which_says_what_is_converted():
    f = boxing()
    m = f.method(int)(lambda a, b: a)
    assert ad.which(f, 1).method is m
    assert ad.which(f, int, int).method is m
    assert ad.which(f, 1).converted == ()
    match = ad.which(f, 1.5, Box(2))
    assert match.method is m
    assert match.types == (int, int)
    assert match.converted == ("a: float to int", "b: Box to int")
    assert "converted: a: float to int" in repr(match)
    with pytest.raises(ad.DispatchError):
        ad.which(f, None)
    with pytest.raises(ad.DispatchError):
        ad.which(f, Dog, int)


def test_what_a_method_runs_is_asked_once_for_each_combination_of_classes():
    asked = []

    class Counting(GenericFunction):
        def implementation(self, method, classes):
            asked.append(classes)
            return lambda *args: ("run", *args)

    @Counting.declare
    def f(a, b): ...

    f.forward(Animal)(lambda ctx, a, b: 0)
    for _ in range(3):
        assert f(Dog(), 1)[0] == f(b=1, a=Cat())[0] == "run"
    assert asked == [(Dog, int), (Cat, int)]


def test_calls_made_while_a_method_is_added_do_not_leave_the_old_choice_behind():
    f = two()
    f.method(Animal)(returning("animal"))

    class Racing(type(f)):
        def find(self, classes):
            found = super().find(classes)
            if not racing:
                racing.append(f.method(Dog)(returning("dog")))
            return found

    racing = []
    f.__class__ = Racing
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


def test_a_generic_function_looks_like_the_function_that_declares_it():
    assert linear.__name__ == "linear"
    assert linear.__doc__ == "x times weight."
    assert linear.__module__ == "dispatch_kinds"
    assert str(inspect.signature(linear)) == "(x, weight, bias=None)"
    assert repr(linear) == "<linear: generic function of 2 methods>"
    assert isinstance(linear, GenericFunction)


def test_a_generic_function_is_not_copied(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, __name__, types.SimpleNamespace(linear=linear))
    assert pickle.loads(pickle.dumps(linear)) is linear
    assert copy.deepcopy(linear) is copy.copy(linear) is linear


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
    assert len(f._runs) <= 4096
