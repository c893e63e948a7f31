"""Generic functions, on plain Python classes."""

from __future__ import annotations

import itertools

import pytest
from dispatch_kinds import Animal, Cat, Dog, Puppy, Robot, RobotDog, returning, two

import autodiff as ad

# ---------------------------------------------------------------- choosing


def test_the_most_specific_method_runs_in_whatever_order_they_were_registered():
    for order in itertools.permutations((Animal, Dog, Puppy)):
        f = two()
        for cls in order:
            f.method(cls)(returning(cls))
        assert [f(cls(), 0) for cls in (Animal, Cat, Dog, Puppy)] == [Animal, Animal, Dog, Puppy]


@pytest.mark.smoke
def test_a_diamond_is_refused_at_the_call_and_not_when_registered():
    f = two()
    f.method(Dog)(returning("dog"))
    f.method(Robot)(returning("robot"))
    assert f(Dog(), 0) == "dog"
    with pytest.raises(ad.AmbiguityError) as caught:
        f(RobotDog(), 0)
    message = str(caught.value)
    assert message.count("dispatch_kinds.py:") == 2, "both methods"
    assert message.count("test_dispatch.py:") == 1, "the call"
    assert "@f.method(RobotDog, object)" in message
    f.method(RobotDog)(returning("both"))
    assert f(RobotDog(), 0) == "both"


def test_a_refused_call_leaves_the_function_usable():
    f = two()
    f.method(Dog, Animal)(returning(1))
    f.method(Animal, Dog)(returning(2))
    for _ in range(2):
        with pytest.raises(ad.AmbiguityError):
            f(Dog(), Dog())
    assert f(Dog(), Cat()) == 1


def test_a_member_beats_a_union_that_contains_it():
    f = two()
    f.method(Dog | None)(returning("either"))
    f.method(None)(returning("none"))
    assert f(Dog(), 0) == "either"
    assert f(None, 0) == "none"


def test_overlapping_unions_are_ambiguous_in_what_they_share_only():
    f = two()
    f.method(Dog | Cat)(returning(1))
    f.method(Cat | int)(returning(2))
    assert f(Dog(), 0) == 1
    assert f(1, 0) == 2
    with pytest.raises(ad.AmbiguityError, match=r"@f\.method\(Cat, object\)"):
        f(Cat(), 0)


def test_a_metaclass_may_name_a_meet_that_does_not_exist_yet():
    made = {}

    class Lattice(type):
        def __meet__(cls, other):
            if {cls, other} == {Wide, Tall}:
                return made.setdefault("both", type("Both", (Wide, Tall), {}))
            return None

    class Wide(metaclass=Lattice): ...

    class Tall(metaclass=Lattice): ...

    f = two()
    f.method(Wide)(returning(1))
    f.method(Tall)(returning(2))
    with pytest.raises(StopIteration):
        next(cls for cls in Wide.__subclasses__())
    (pair,) = ad.ambiguities(f)
    assert str(pair.calls[0]) == "(Both, object)"


def test_not_found_ranks_the_nearest_and_says_what_did_not_fit():
    f = two()
    f.method(Dog, int)(returning(1))
    f.method(Cat, str)(returning(2))
    with pytest.raises(ad.DispatchError) as caught:
        f(Dog(), "x")
    lines = str(caught.value).splitlines()
    assert lines[0] == "f has no method for (Dog, str)"
    assert lines[1].startswith("  near: f(a: ")
    assert "b is str, not int" in str(caught.value)
    assert "a is Dog, not Cat" in str(caught.value)
    assert "called at test_dispatch.py:" in str(caught.value)
    assert "@f.method(Dog, str)" in str(caught.value)


def test_not_found_without_any_method_says_where_the_function_is_declared():
    with pytest.raises(ad.DispatchError, match=r"none at all; declared at dispatch_kinds.py:"):
        two()(1, 2)


def test_invoke_runs_a_less_specific_method():
    f = two()
    f.method(Animal)(returning("animal"))

    @f.method(Dog)
    def _(a, b):
        return "dog and " + f.invoke((Animal,), a, b)

    assert f(Dog(), 0) == "dog and animal"
    with pytest.raises(ad.DispatchError, match="not of the types"):
        f.invoke((Cat,), Dog(), 0)
    with pytest.raises(ad.DispatchError, match="no method"):
        f.invoke((object,), Dog(), 0)
