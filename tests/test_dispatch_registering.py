"""Generic functions, on plain Python classes: methods and rules come and go."""

from __future__ import annotations

import sys
import warnings

import pytest
from dispatch_kinds import Animal, Cat, Dog, Puppy, returning, two

import autodiff as ad

# ---------------------------------------------------------------- registering


@pytest.mark.parametrize("wrong", [
    lambda b, a: 0,
    lambda a: 0,
    lambda a, b, c=0: 0,
    lambda a, *, b: 0,
    lambda *xs: 0,
    lambda ctx, a, b: 0,
])
def test_a_method_whose_parameters_differ_is_refused(wrong):
    f = two()
    with pytest.raises(ad.DispatchError, match=r"declared f\(a, b\) at dispatch_kinds.py:"):
        f.method(Dog, Dog)(wrong)
    assert len(ad.methods(f)) == 0


def test_a_forward_has_a_leading_ctx_and_then_the_declared_parameters():
    f = two()
    f.forward(Dog)(lambda ctx, a, b: 0)
    for wrong in (lambda a, b: 0, lambda ctx, b, a: 0, lambda: 0):
        with pytest.raises(ad.DispatchError, match="after a leading ctx"):
            f.forward(Cat)(wrong)


def test_a_rule_takes_ctx_first():
    f = two()
    for wrong in (lambda: 0, lambda *, g: 0):
        with pytest.raises(ad.DispatchError, match=r"takes \(ctx, \.\.\.\)"):
            f.backward(Dog)(wrong)
    f.backward(Dog)(lambda *everything: 0)


def test_only_what_can_be_called_is_a_method():
    with pytest.raises(ad.DispatchError, match="3 cannot be called"):
        two().method(Dog)(3)


def test_a_new_method_takes_effect_at_the_next_call():
    f = two()
    f.method(Animal)(returning("animal"))
    assert f(Dog(), 0) == "animal"
    dog = f.method(Dog)(returning("dog"))
    assert f(Dog(), 0) == "dog"
    dog.delete()
    dog.delete()
    assert f(Dog(), 0) == "animal"


def test_redefining_in_the_same_file_replaces_quietly():
    f = two()
    first = f.method(Dog)(returning(1))
    f.method(Dog)(returning(2))
    assert f(Dog(), 0) == 2
    assert len(ad.methods(f)) == 1
    first.delete()
    assert f(Dog(), 0) == 2, "a replaced method cannot take its successor away"
    assert first(Dog(), 0) == 1, "and can still be called"


def test_redefining_from_another_file_warns_and_a_notebook_cell_does_not():
    def written(file, module):
        space = {"__name__": module}
        exec(compile("def g(a, b): return 0", file, "exec"), space)
        return space["g"]

    f = two()
    f.method(Dog)(written("one.py", "one"))
    with pytest.warns(UserWarning, match=r"f\(a: Dog, b\): the method at two.py:1 replaces the method at one.py:1"):
        f.method(Dog)(written("two.py", "two"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f.method(Cat)(written("cell1", "__main__"))
        f.method(Cat)(written("cell2", "__main__"))


# ---------------------------------------------------------------- rules


def test_a_decorated_method_is_an_object_that_carries_its_own_rules():
    f = two()

    @f.method(Dog)
    def scale(a, b):
        return "scaled"

    @scale.backward
    def back(ctx, g): ...

    @scale.jvp
    def push(ctx, da, db): ...

    @scale.backward(host=True)
    def again(ctx, g): ...

    assert scale(Dog(), 0) == "scaled"
    assert f.rule_for("backward", scale, (Dog, int)) is again
    assert f.rule_for("jvp", scale, (Dog, int)) is push
    assert again.host and not push.host
    assert str(again.signature) == str(scale.signature)
    again.delete()
    assert f.rule_for("backward", scale, (Dog, int)) is None
    with pytest.raises(ad.DispatchError, match="takes no types"):
        scale.backward(Dog)


def test_a_pair_takes_its_attached_backward_before_the_most_specific_typed_one():
    f = two()
    wide = f.backward(Animal)(lambda ctx, g: "wide")
    narrow = f.backward(Dog)(lambda ctx, g: "narrow")
    pair = f.forward(Animal)(lambda ctx, a, b: 0)
    assert f.rule_for("backward", pair, (Cat, int)) is wide
    assert f.rule_for("backward", pair, (Puppy, int)) is narrow
    own = pair.backward(lambda ctx, g: "own")
    assert f.rule_for("backward", pair, (Puppy, int)) is own


def test_a_backward_applies_to_a_plain_method_only_if_it_is_at_least_as_specific():
    f = two()
    dog = f.method(Dog)(returning(1))
    wide = f.backward(Animal)(lambda ctx, g: 0)
    assert f.rule_for("backward", dog, (Puppy, int)) is None
    animal = f.method(Animal)(returning(2))
    assert f.rule_for("backward", animal, (Cat, int)) is wide
    narrow = f.backward(Puppy)(lambda ctx, g: 0)
    assert f.rule_for("backward", dog, (Puppy, int)) is narrow
    assert f.rule_for("backward", dog, (Dog, int)) is None


def test_ambiguous_backwards_are_refused_and_listed():
    f = two()
    pair = f.forward(Animal)(lambda ctx, a, b: 0)
    f.backward(Dog, Animal)(lambda ctx, g: 0)
    f.backward(Animal, Dog)(lambda ctx, g: 0)
    with pytest.raises(ad.AmbiguityError, match=r"@f\.backward\(Dog, Dog\)"):
        f.rule_for("backward", pair, (Dog, Dog))
    assert len(ad.ambiguities(f)) == 1


def test_a_forward_and_a_method_share_one_table():
    f = two()
    f.forward(Animal)(lambda ctx, a, b: 0)
    f.method(Animal)(lambda a, b: 1)
    assert [m.kind for m in ad.methods(f)] == ["method"]
    assert f(Cat(), 0) == 1


def test_coverage_reports_forwards_that_no_backward_was_written_for():
    f = two()
    animal = f.forward(Animal)(lambda ctx, a, b: 0)
    dog = f.forward(Dog)(lambda ctx, a, b: 0)
    attached = f.forward(Cat)(lambda ctx, a, b: 0)
    attached.backward(lambda ctx, g: 0)
    assert {(g.forward, g.backward) for g in ad.coverage(f)} == {(animal, None), (dog, None)}
    wide = f.backward(Animal)(lambda ctx, g: 0)
    assert [(g.forward, g.backward) for g in ad.coverage(f)] == [(dog, wide)]
    f.backward(Dog)(lambda ctx, g: 0)
    assert ad.coverage(f) == []


def test_a_method_more_costs_as_much_as_the_first_ones():
    def calls(count):
        """Calls of Python functions, while so many methods are registered, and then called once each."""
        found = []

        @ad.function
        def f(x, y): ...

        classes = [type(f"C{i}", (), {}) for i in range(count)]
        sys.setprofile(lambda frame, event, _: found.append(event) if event == "call" else None)
        try:
            for i, cls in enumerate(classes):
                f.method(*((cls,) if i % 2 else (object, cls)))(lambda x, y: type(x))
                f(cls(), cls())
            for cls in classes:
                assert f(cls(), cls()) is cls
        finally:
            sys.setprofile(None)
        return len(found)

    few, many = calls(40), calls(160)
    assert many < 6 * few, (few, many)


def test_a_method_that_is_deleted_or_replaced_is_found_no_more():
    class A: ...

    class B(A): ...

    @ad.function
    def f(x): ...

    f.method(A)(lambda x: "a")
    of_b = f.method(B)(lambda x: "b")
    f.method(int | str)(lambda x: "int or str")
    assert (f(A()), f(B()), f(1), f("x")) == ("a", "b", "int or str", "int or str")
    of_b.delete()
    assert (f(A()), f(B())) == ("a", "a")
    f.method(A)(lambda x: "a again")
    f.method(object)(lambda x: "anything")
    assert (f(A()), f(B()), f(True), f(1.0)) == ("a again", "a again", "int or str", "anything")
