"""Signatures of generic functions, their order and ambiguities, and what is dropped when a method is added."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import types
import typing

import numpy as np
import pytest
from dispatch_kinds import Animal, Cat, Dog, Puppy, Robot, RobotDog, gradient, pair, returning, two
from hypothesis import given
from hypothesis import strategies as st
from work_done import work

import autodiff as ad
from autodiff.dispatch import Choice, GenericFunction, Signature, all_functions, is_observed, reliance
from autodiff.dispatch.method import choice_of
from autodiff.dispatch.signature import NamedUnion, meets
from autodiff.session import plans
from autodiff.tape.known import plan_of


def test_a_new_backward_takes_effect_and_drops_only_the_plans_that_it_changes():
    f, other = pair(), pair(lambda ctx, g: g * 7.0)
    for _ in range(4):
        assert gradient(f)[0] == 2.0 and gradient(other)[0] == 7.0
    known, before = len({id(plan_of(entry)) for entry in plans.values()}), work()[:2]
    f.backward(ad.Vector)(lambda ctx, g: g * 4.0)
    assert len({id(plan_of(entry)) for entry in plans.values()}) == known - 1
    assert gradient(other)[0] == 7.0
    assert work()[:2] == before, "the other one's plan is still there"
    assert gradient(f)[0] == 4.0


def test_the_library_s_own_list_of_ambiguities_is_empty():
    own = [f for f in all_functions() if (f.__module__ or "").partition(".")[0] == "autodiff"]
    assert len(own) > 50
    assert [a for f in own for a in ad.ambiguities(f)] == []


CLASSES = (object, Animal, Dog, Puppy, Cat, Robot, RobotDog, int, bool)
CONCRETE = (Animal, Dog, Puppy, Cat, Robot, RobotDog, int, bool)
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
            f.table.find(call)
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


def test_classes_without_a_common_subclass_do_not_meet():
    assert meets(Cat, Robot) == ()
    assert meets(Dog, Robot) == (RobotDog,)
    assert meets(Animal, Puppy) == (Puppy,)


@pytest.mark.parametrize("count", range(6))
def test_functions_of_any_number_of_parameters_bind_alike(count):
    names = [f"p{i}" for i in range(count)]
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, either, default=-i) for i, name in enumerate(names)]

    def declared(): ...

    declared.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    f = GenericFunction(declared)
    parts = ", ".join(names)
    f.method(*[int] * count)(eval(f"lambda {parts}: ({parts}{',' if count == 1 else ''})"))
    full = tuple(-i for i in range(count))
    for given_by_position in range(count + 1):
        for by_name in range(count - given_by_position + 1):
            args = tuple(range(10, 10 + given_by_position))
            keywords = {n: 20 for n in names[count - by_name :]}
            middle = full[given_by_position : count - by_name]
            for _ in range(2):
                assert f(*args, **keywords) == (*args, *middle, *[20] * by_name)
    with pytest.raises(ad.DispatchError, match="too many"):
        f(*range(count + 1))


def test_a_choice_drops_members_that_others_contain():
    assert choice_of(bool | int | Dog | Animal, "").members == (int, Animal)
    assert choice_of((Dog, None, (Cat, Dog)), "").members == (Dog, types.NoneType, Cat)
    assert choice_of(typing.Any, "") == Choice((object,))
    assert str(choice_of(Dog | None, "")) == "Dog | None"


def test_a_named_union_is_written_by_its_name():
    class Toy(metaclass=NamedUnion):
        members = (Puppy, Robot)

    assert str(choice_of(Robot | Puppy, "")) == str(choice_of(Toy, "")) == "Toy"
    assert choice_of(Toy | None, "") == choice_of(Robot | Puppy | None, "")
    assert str(choice_of(Robot | Puppy | None, "")) == "Robot | Puppy | None"


def test_a_named_union_has_the_instances_and_subclasses_of_its_members_and_none_of_its_own():
    class Toy(metaclass=NamedUnion):
        members = (Puppy, Robot)

    assert isinstance(Puppy(), Toy) and issubclass(Robot, Toy) and issubclass(Toy, Toy)
    assert not isinstance(Dog(), Toy) and not issubclass(Dog, Toy)
    with pytest.raises(TypeError, match=r"ad\.Toy stands for Puppy, Robot: call one of these"):
        Toy()


def test_a_task_that_outlives_the_trace_in_which_it_began_is_observed_no_more():
    @ad.function
    def doubled(x):
        return x * 2.0

    @ad.function
    def halved(x):
        return x * 0.5

    seen, tasks = [], []

    async def later():
        await asyncio.sleep(0)
        assert halved(ad.tensor(3.0)).item() == 1.5
        seen.append((is_observed(), set(collected[0].answers)))

    def traced(x):
        collected.append(reliance.OBSERVERS.get()[-1])
        tasks.append(asyncio.ensure_future(later()))
        return doubled(x)

    async def main():
        assert ad.jit(traced)(np.ones(2)).tolist() == [2.0, 2.0]
        assert not is_observed()
        await tasks[0]

    collected = []
    asyncio.run(main())
    ((observed, functions),) = seen
    assert not observed
    assert doubled in functions
    assert halved not in functions
