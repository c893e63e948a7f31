"""Generic functions as the floors above use them: adopted and converted arguments, and who hears of changes."""

from __future__ import annotations

import functools
import inspect

import pytest
from dispatch_kinds import Animal, Cat, Dog, declare, linear, returning, two

import autodiff as ad
from autodiff.dispatch import GenericFunction
from autodiff.dispatch.declaration import has_body


def test_a_body_is_the_least_specific_method_and_anything_less_is_none():
    def nothing(): ...

    def passes():
        pass

    def documented():
        """Only words."""

    def documented_ellipsis():
        """Only words."""
        ...

    def returns_none():
        return None

    def works():
        return 1

    def refuses():
        raise ValueError

    outer = 1

    def closes():
        return outer

    assert [has_body(f) for f in (nothing, passes, documented, documented_ellipsis, returns_none)] == [False] * 5
    assert all(has_body(f) for f in (works, refuses, closes, len, functools.partial(int)))

    @declare
    def f(a, b=0):
        return "anything"

    f.method(Dog)(lambda a, b: "dog")
    assert f(Dog()) == "dog"
    assert f(1) == f(None, 3) == "anything"


def test_every_change_is_counted():
    f = two()
    before = f.changes
    method = f.method(Dog)(returning(1))
    method.backward(lambda ctx, g: 0)
    method.delete()
    assert f.changes == before + 3
    method.delete()
    assert f.changes == before + 3


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
    @Boxing
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

    @Counting
    def f(a, b): ...

    f.forward(Animal)(lambda ctx, a, b: 0)
    for _ in range(3):
        assert f(Dog(), 1)[0] == f(b=1, a=Cat())[0] == "run"
    assert asked == [(Dog, int), (Cat, int)]


def test_a_generic_function_looks_like_the_function_that_declares_it():
    assert linear.__name__ == "linear"
    assert linear.__doc__ == "x times weight."
    assert linear.__module__ == "dispatch_kinds"
    assert str(inspect.signature(linear)) == "(x, weight, bias=None)"
    assert repr(linear) == "<linear: generic function of 2 methods>"
    assert isinstance(linear, GenericFunction)
