"""The law of suggestions: what an error of dispatch says to register pastes and runs, and then the call works."""

import abc
import re
import typing

import numpy as np
import pytest

import autodiff as ad


class Interval:
    """A class of a user."""


def one(*types):
    """A function of two parameters with one method."""

    @ad.function
    def two(a, b): ...

    @two.method(*types)
    def _(a, b):
        return "before"

    return two


def many():
    @ad.function
    def all_of(x, *xs): ...

    @all_of.method(ad.Matrix, ad.Matrix)
    def _(x, *xs):
        return "before"

    return all_of


VECTOR = np.ones(3)
CALLS = {
    "own": (one(ad.Tensor, ad.Tensor), (1.0, Interval())),
    "none": (one(ad.Tensor, ad.Tensor), (None, 2)),
    "array": (one(ad.Matrix, ad.Matrix), (VECTOR, Interval())),
    "f32": (one(ad.Matrix, ad.Matrix), (ad.tensor(VECTOR, dtype=ad.float32), "text")),
    "bool": (one(ad.Matrix, str), (ad.tensor([True]), np.float32(1))),
    "structured": (one(str, str), (ad.Diagonal([1.0, 2.0]), np.bool_(True))),
    "names": (one(str, str), (ad.tensor(VECTOR), {"a": 1})),
    "objects": (one(str, str), (np.array(["a"]), [1])),
    "rest": (many(), (np.ones((2, 2)), Interval(), 2.0, None)),
    "no rest": (many(), (Interval(),)),
}


def suggestion(error, mark):
    return re.search(rf"{mark}: (@.*)", str(error.value))[1]


def pasted(line, function):
    """Run what an error says, with a method below it."""
    names = {"ad": ad, "np": np, "typing": typing, "Interval": Interval, function.__name__: function}
    exec(f"{line}\ndef _{function.declaration.signature}:\n    return 'after'", names)


@pytest.mark.parametrize("name", list(CALLS))
def test_the_method_that_an_error_suggests_takes_the_call(name):
    function, args = CALLS[name]
    with pytest.raises(ad.DispatchError) as error:
        function(*args)
    pasted(suggestion(error, "to add one"), function)
    assert function(*args) == "after"


@pytest.mark.parametrize("args", [(1.0, 2.0), (np.ones((2, 2)), np.ones((2, 2))), (np.float32(1), 1)])
def test_the_signature_that_settles_an_ambiguity_does(args):
    @ad.function
    def f(x, y): ...

    for types in ((ad.Number, object), (object, ad.Number), (ad.Matrix, ad.Tensor), (ad.Tensor, ad.Matrix)):

        @f.method(*types)
        def _(x, y):
            return "before"

    with pytest.raises(ad.AmbiguityError) as error:
        f(*args)
    pasted(suggestion(error, "to settle it"), f)
    assert f(*args) == "after"


def test_the_backward_that_an_error_suggests_is_the_calls():
    @ad.function
    def half(x): ...

    @half.forward(ad.Tensor)
    def _(ctx, x):
        return x / 2

    with pytest.raises(ad.GradientError) as error:
        ad.grad(lambda x: ad.sum(half(x)))(VECTOR)
    line = suggestion(error, "register one")
    exec(f"{line}\ndef _(ctx, g):\n    return g * 7", {"ad": ad, "half": half})
    np.testing.assert_array_equal(ad.grad(lambda x: ad.sum(half(x)))(VECTOR), 7 * VECTOR)


def test_an_error_names_only_arguments_that_fit_in_no_form():
    with pytest.raises(ad.DispatchError) as error:
        one(ad.Tensor, ad.Tensor)(1.0, Interval())
    assert "b is Interval, not Tensor" in str(error.value) and "a is float" not in str(error.value)
    with pytest.raises(ad.DispatchError) as error:
        one(ad.Tensor, ad.Tensor)(Interval(), ad.Diagonal([1.0, 2.0]))
    assert "a is Interval, not Tensor" in str(error.value) and "b is" not in str(error.value)


def test_a_class_registered_with_an_abstract_one_after_a_call_is_dispatched_as_such():
    class Shape(abc.ABC):
        @abc.abstractmethod
        def sides(self): ...

    class Square:
        pass

    @ad.function
    def area(x): ...

    @area.method(object)
    def _(x):
        return "object"

    @area.method(Shape)
    def _(x):
        return "shape"

    assert area(Square()) == area(x=Square()) == "object"
    Shape.register(Square)
    assert area(x=Square()) == area(Square()) == "shape"
    assert not ad.exp.is_abstract, "functions without abstract classes look at nothing"


def test_the_gradient_of_an_empty_rest_may_be_an_empty_tuple():
    for rest in ((), [], None):

        @ad.function
        def total(x, *xs): ...

        @total.forward(ad.Tensor, ad.Tensor)
        def _(ctx, x, *xs):
            return x + sum(xs)

        @total.backward(ad.Tensor, ad.Tensor)
        def _(ctx, g, rest=rest):
            return g, rest

        assert ad.grad(total)(2.0) == 1.0


def test_an_article_fits_its_noun():
    with pytest.raises(ad.DTypeError, match="is an Interval: only float arrays"):
        ad.grad(lambda x: x)(Interval())
