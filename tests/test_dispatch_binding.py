"""Generic functions, on plain Python classes: binding of calls, and the types that methods may take."""

from __future__ import annotations

import typing

import pytest
from dispatch_kinds import Cat, Dog, declare, linear, returning, two

import autodiff as ad

# ---------------------------------------------------------------- binding


def test_arguments_dispatch_however_they_are_passed():
    for _ in range(2):  # the second time from the cache
        assert linear(3, 4) == 12
        assert linear(3, weight=4) == 12
        assert linear(weight=4, x=3) == 12
        assert linear(3, 4, 5) == linear(3, 4, bias=5) == linear(bias=5, x=3, weight=4) == 17


@pytest.mark.parametrize("args, keywords, said", [
    ((), {}, "missing a required argument: 'x'"),
    ((1,), {}, "missing a required argument: 'weight'"),
    ((1,), {"wieght": 2}, "missing a required argument: 'weight'"),
    ((1, 2), {"wieght": 2}, "unexpected keyword argument 'wieght'"),
    ((1, 2), {"x": 2}, "multiple values for argument 'x'"),
    ((1, 2, 3, 4), {}, "too many positional arguments"),
])
def test_a_call_that_does_not_bind_is_a_type_error_of_ours(args, keywords, said):
    with pytest.raises(TypeError, match=said) as caught:
        linear(*args, **keywords)
    assert isinstance(caught.value, ad.Error)
    assert "linear(x, weight, bias=None) at dispatch_kinds.py:" in str(caught.value)


def test_a_skipped_default_in_the_middle_counts_with_its_type():
    @declare
    def f(a, b=1.5, c=None):
        return "anything"

    f.method(int, float, str)(lambda a, b, c: (a, b, c))
    assert f(1, c="s") == (1, 1.5, "s")
    assert f(1) == "anything"


def test_keyword_only_parameters_never_dispatch():
    @declare
    def f(a, *, scale=2, offset): ...

    @f.method(int)
    def _(a, *, scale=2, offset):
        return a * scale + offset

    assert f(1, offset=0) == 2
    assert f(1, offset=1, scale=10) == 11
    with pytest.raises(TypeError, match="offset"):
        f(1)
    with pytest.raises(TypeError):
        f(1, 2, offset=1)


def test_the_declared_default_of_a_keyword_only_parameter_counts():
    @declare
    def f(a, *, axis=None): ...

    f.method(int)(lambda a, *, axis: ("int", axis))
    f.method(str)(lambda a, *, axis=7: ("str", axis))
    assert f(1) == ("int", None)
    assert f("") == ("str", None)
    assert f("", axis=3) == ("str", 3)


def test_the_last_type_of_a_variadic_function_holds_for_each_further_argument():
    @declare
    def f(first, *xs): ...

    f.method(str, int)(lambda first, *xs: ("ints", xs))
    f.method(str, int | str)(lambda first, *xs: ("mixed", xs))
    for _ in range(2):
        assert f("a", 1, 2, True) == ("ints", (1, 2, True))
        assert f("a", 1, "b") == ("mixed", (1, "b"))
        assert f("a") == ("ints", ())
    with pytest.raises(ad.DispatchError, match=r"\*xs is float, not int"):
        f("a", 1, 2.0)
    assert f.invoke((str, str), "a", "b", "c") == ("mixed", ("b", "c"))


def test_a_variadic_call_without_further_arguments_is_settled_by_never():
    @declare
    def f(*xs): ...

    f.method(int)(lambda *xs: "ints")
    f.method(str)(lambda *xs: "strings")
    assert (f(1), f("")) == ("ints", "strings")
    with pytest.raises(ad.AmbiguityError, match=r"@f\.method\(typing\.Never\)"):
        f()
    assert len(ad.ambiguities(f)) == 1
    f.method(typing.Never)(lambda *xs: "none")
    assert f() == "none"
    assert ad.ambiguities(f) == []


def test_open_keywords_are_passed_on():
    @declare
    def f(a, **options): ...

    f.method(int)(lambda a, **options: options)
    assert f(1, deep=True) == {"deep": True}


def test_positional_only_parameters_are_not_taken_by_name():
    @declare
    def f(a, /, b): ...

    f.method(int, int)(lambda a, b: a - b)
    assert f(3, b=1) == 2
    with pytest.raises(ad.DispatchError):
        f(a=3, b=1)


def test_parameters_may_have_any_name():
    @declare
    def f(self, args, keywords=0): ...

    f.method(int, int, int)(lambda self, args, keywords: (self, args, keywords))
    assert f(1, args=2, keywords=3) == f(self=1, args=2, keywords=3) == (1, 2, 3)


# ---------------------------------------------------------------- types


def test_a_bare_decorator_reads_annotations_also_unions_text_and_none():
    @declare
    def f(a, b, c, d): ...

    @f.method
    def whole(a: Dog, b: Cat | None, c: typing.Optional[int], d): ...  # noqa: UP045 (the old spelling counts too)

    assert str(whole.signature) == "(Dog, Cat | None, int | None, object)"
    assert isinstance(whole.implementation.__annotations__["a"], str)


def test_annotations_may_name_classes_local_to_a_function():
    class Local: ...

    f = two()

    @f.method
    def local(a: Local, b: "Local | int"): ...  # noqa: UP037 (text within text, as some write it)

    assert local.signature.takes((Local, int))


def test_annotations_may_name_what_the_function_closes_over():
    def make(cls):
        def method(a: cls, b):
            return cls

        return method

    f = two()
    f.method(make(Dog))
    f.method(make(Cat))
    assert f(Dog(), 0) is Dog
    assert f(Cat(), 0) is Cat


def test_an_annotation_that_means_nothing_is_refused_with_its_place():
    f = two()
    with pytest.raises(ad.DispatchError, match=r"parameter 'b': cannot make out the annotation 'Unicorn'"):

        @f.method
        def _(a, b: Unicorn): ...  # noqa: F821 (the point)

    assert len(ad.methods(f)) == 0


@pytest.mark.parametrize(
    "spec", [list[int], typing.Literal[1], typing.Sequence[int], "Dog", 3, typing.TypeVar("T"), int | list[str]]
)
def test_what_cannot_be_dispatched_on_is_refused(spec):
    f = two()
    with pytest.raises(ad.DispatchError, match="not a type"):
        f.method(spec)(returning(0))


def test_never_is_for_further_arguments_only():
    with pytest.raises(ad.DispatchError, match="Never"):
        two().method(typing.Never)(returning(0))


def test_a_shorter_list_of_types_leaves_the_rest_open_and_a_longer_one_is_refused():
    f = two()
    assert str(f.method(Dog)(returning(1)).signature) == "(Dog, object)"
    with pytest.raises(ad.DispatchError, match="3 types, but the parameters are a, b"):
        f.method(Dog, Dog, Dog)(returning(1))
