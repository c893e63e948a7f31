"""Records: what they promise, and that they are made quickly because nothing is compiled for them."""

from __future__ import annotations

import copy
import inspect
import pickle
import typing

import pytest

from autodiff import tree
from codegen.records import NamedTuple, field, record, replace


@record(frozen=True)
class Point:
    x: int
    y: int = 2


@record(eq=False, slots=True)
class Bag:
    name: str
    things: list = field(default_factory=list)

    def count(self) -> int:
        return len(self.things)


def test_a_record_takes_its_fields_by_place_and_by_name():
    assert Point(1) == Point(1, 2) == Point(y=2, x=1)
    assert Point(1) != Point(1, 3)
    assert Point(1) != (1, 2)
    assert repr(Point(3)) == "Point(x=3, y=2)"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()


def test_constructors_are_compiled_once_for_all_of_as_many_fields_and_have_names_of_their_own(monkeypatch):
    @record()
    class Line:
        start: int
        end: int = 7

    @record()
    class Mark:
        text: str
        place: Point = Point(4)

    class Pair(NamedTuple):
        left: int
        right: int = 5

    class Couple(NamedTuple):
        one: int
        other: int

    assert (Line(1).end, Mark("a").place, Pair(1), Couple(1, 2)) == (7, Point(4), (1, 5), (1, 2))
    assert str(inspect.signature(Line)) == "(start, end=7)"
    assert str(inspect.signature(Couple.__new__)) == "(_cls, one, other)"
    with pytest.raises(TypeError, match=r"__init__\(\) got an unexpected keyword argument 'start'"):
        Mark(start=1)
    with pytest.raises(TypeError, match=r"__new__\(\) missing 1 required positional argument: 'other'"):
        Couple(1)
    for name in ("exec", "compile"):
        monkeypatch.setattr(f"builtins.{name}", lambda *_: pytest.fail("something is compiled"))
    Third = record()(type("Third", (), {"__annotations__": {"a": int, "b": int}}))
    assert Third(b=1, a=2).a == 2


def test_constructors_stand_in_the_file_of_their_class():
    made = Point(1).__init__.__code__
    assert (made.co_filename, made.co_qualname) == (__file__, "Point.__init__")


def test_a_default_stands_behind_what_has_none():
    with pytest.raises(AssertionError, match="Wrong: a default before a field without"):

        @record()
        class Wrong:
            start: int = 1
            end: int


def test_a_frozen_record_is_a_key_and_others_that_compare_are_not():
    @record()
    class Loose:
        x: int

    assert {Point(1): "one"}[Point(1, 2)] == "one"
    assert Loose(1) == Loose(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Loose(1))


def test_each_instance_has_its_own_made_default():
    first, second = Bag("a"), Bag("b")
    first.things.append(1)
    assert (first.count(), second.count()) == (1, 0)
    assert first != Bag("a", [1])
    assert not hasattr(first, "__dict__")


def test_a_record_matches_by_place_and_is_replaced_by_name():
    match replace(Point(1), x=5):
        case Point(5, y):
            assert y == 2
        case other:
            pytest.fail(f"{other} does not match")


def test_a_record_without_fields_equals_others_of_its_class():
    @record(frozen=True)
    class Nothing:
        pass

    @record(frozen=True)
    class Void:
        pass

    assert Nothing() == Nothing()
    assert Nothing() != Void()
    assert hash(Nothing()) == hash(Nothing())


class Ours(NamedTuple):
    """Three places."""

    first: int
    second: str = "b"
    third: tuple[Ours, ...] = ()

    def doubled(self) -> int:
        return 2 * self.first


class Pythons(typing.NamedTuple):
    """Three places."""

    first: int
    second: str = "b"
    third: tuple[Pythons, ...] = ()

    def doubled(self) -> int:
        return 2 * self.first


def test_named_tuples_are_those_of_typing():
    for make in (lambda c: c(1), lambda c: c(1, "x"), lambda c: c(third=(2,), first=3), lambda c: c._make([1, 2, 3])):
        one, other = make(Ours), make(Pythons)
        assert one == other == tuple(other) and hash(one) == hash(other) and isinstance(one, tuple)
        assert repr(one).replace("Ours", "Pythons") == repr(other)
        assert one._asdict() == other._asdict() and one.doubled() == other.doubled()
        assert one._replace(second="y") == other._replace(second="y") and type(one._replace(first=0)) is Ours
        assert (one.first, one.second, one.third) == one and [*one] == [*other]
        assert copy.deepcopy(one) == one == copy.copy(one) and type(copy.copy(one)) is Ours
        assert pickle.loads(pickle.dumps(one)) == one and type(pickle.loads(pickle.dumps(one))) is Ours
    for name in ("_fields", "_field_defaults", "__match_args__", "__doc__"):
        assert getattr(Ours, name) == getattr(Pythons, name)


@pytest.mark.parametrize(
    "wrong",
    [lambda c: c(), lambda c: c(1, 2, 3, 4), lambda c: c(1, fourth=2), lambda c: setattr(c(1), "first", 2),
     lambda c: setattr(c(1), "other", 2), lambda c: c(1)._replace(other=2), lambda c: c._make([])],
)  # fmt: skip
def test_a_named_tuple_refuses_what_those_of_typing_refuse(wrong):
    errors = []
    for cls in (Ours, Pythons):
        with pytest.raises((TypeError, AttributeError, ValueError)) as caught:
            wrong(cls)
        errors.append(caught.type)
    assert errors[0] is errors[1] or errors == [TypeError, ValueError]  # of older Pythons


def test_a_named_tuple_s_subclass_may_make_itself():
    class Even(Ours):
        def __new__(cls, number):
            return super().__new__(cls, 2 * number)

    assert Even(3) == (6, "b", ()) and type(Even(3)) is Even and type(Ours(3)) is Ours
    match Even(4):
        case Ours(first, second=second):
            assert (first, second) == (8, "b")


def test_fields_of_a_named_tuple_may_have_any_name():
    class Odd(NamedTuple):
        cls: int
        new: int
        tuple: int
        self: int = 4

    assert Odd(1, new=2, tuple=3) == (1, 2, 3, 4) == Odd(1, 2, 3)._replace(new=2)


def test_a_named_tuple_is_a_tree_of_its_places():
    flat, structure = tree.flatten(Ours(1, (2.0, 3.0), ()))
    assert tree.unflatten(structure, flat) == Ours(1, (2.0, 3.0), ()) and len(flat) == 3
