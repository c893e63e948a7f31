"""Generic functions, on plain Python classes."""

from __future__ import annotations

import itertools

import pytest
from dispatch_kinds import Animal, Cat, Dog, Puppy, Robot, returning, two
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
from autodiff.dispatch import Choice, Signature
from autodiff.dispatch.signature import meets


class RobotDog(Dog, Robot): ...


CLASSES = (object, Animal, Dog, Puppy, Cat, Robot, RobotDog, int, bool)
CONCRETE = (Animal, Dog, Puppy, Cat, Robot, RobotDog, int, bool)


# ---------------------------------------------------------------- laws of the order


choices = st.lists(st.sampled_from(CLASSES), min_size=1, max_size=3).map(Choice)
signatures = st.lists(choices, min_size=2, max_size=2).map(Signature)
calls = st.tuples(st.sampled_from(CONCRETE), st.sampled_from(CONCRETE))


@given(signatures, signatures, signatures, calls)
def test_more_specific_is_a_partial_order_and_means_fewer_calls(a, b, c, call):
    assert a <= a
    assert not (a <= b and b <= c) or a <= c
    assert not (a <= b and b <= a) or a == b
    assert not (a <= b and a.takes(call)) or b.takes(call)


@given(signatures, signatures, calls)
def test_the_meet_of_two_signatures_takes_what_both_take(a, b, call):
    meet = a.meet(b)
    both = a.takes(call) and b.takes(call)
    assert (meet is not None and meet.takes(call)) == both
    if meet is not None:
        assert meet <= a and meet <= b


@given(signatures)
def test_equal_signatures_are_written_alike_whatever_the_order_of_their_members(a):
    again = Signature([Choice(reversed(c.members)) for c in a.choices])
    assert again == a
    assert hash(again) == hash(a)


@given(st.lists(signatures, min_size=1, max_size=5), calls)
def test_the_method_that_runs_is_below_all_that_fit_or_the_call_is_refused(all_signatures, call):
    f = two()
    for signature in all_signatures:
        f.method(*[c.members for c in signature.choices])(returning(signature))
    fits = {s for s in all_signatures if s.takes(call)}
    lowest = [s for s in fits if all(s <= other for other in fits)]
    args = [cls() for cls in call]
    if lowest:
        assert f(*args) == lowest[0]
    else:
        with pytest.raises(ad.AmbiguityError if fits else ad.DispatchError):
            f(*args)


@given(st.lists(signatures, min_size=2, max_size=5))
def test_a_function_without_listed_ambiguities_has_no_ambiguous_call(all_signatures):
    f = two()
    for signature in all_signatures:
        f.method(*[c.members for c in signature.choices])(returning(signature))
    ambiguous = []
    for call in itertools.product(CONCRETE, repeat=2):
        try:
            f.find(call)
        except ad.AmbiguityError:
            ambiguous.append(call)
    assert bool(ambiguous) == bool(ad.ambiguities(f))
    for call in ambiguous:
        assert any(s.takes(call) for pair in ad.ambiguities(f) for s in pair.calls)


@given(st.lists(signatures, min_size=2, max_size=4))
def test_adding_the_listed_signatures_settles_every_ambiguity(all_signatures):
    f = two()
    for signature in all_signatures:
        f.method(*[c.members for c in signature.choices])(returning(signature))
    for _ in range(20):
        found = ad.ambiguities(f)
        if not found:
            break
        for call in found[0].calls:
            f.method(*[c.members for c in call.choices])(returning(call))
    assert not ad.ambiguities(f)


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


def test_crossed_positions_are_ambiguous_until_their_meet_has_a_method():
    f = two()
    f.method(Dog, Animal)(returning(1))
    f.method(Animal, Dog)(returning(2))
    (pair,) = ad.ambiguities(f)
    assert pair.calls == (Signature([Choice((Dog,)), Choice((Dog,))]),)
    with pytest.raises(ad.AmbiguityError, match=r"@f\.method\(Dog, Dog\)"):
        f(Puppy(), Dog())
    f.method(Dog, Dog)(returning(3))
    assert f(Puppy(), Dog()) == 3
    assert ad.ambiguities(f) == []


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


def test_classes_without_a_common_subclass_do_not_meet():
    assert meets(Cat, Robot) == ()
    assert meets(Dog, Robot) == (RobotDog,)
    assert meets(Animal, Puppy) == (Puppy,)


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
