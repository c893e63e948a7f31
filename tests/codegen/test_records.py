"""Records: what they promise, and that they are made quickly because nothing is compiled for them."""

import pytest

from codegen.records import field, record, replace


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
