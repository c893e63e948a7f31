"""Results that are not taken apart hold no tensor of a trace: such a tensor would never get a value."""

from collections import deque
from functools import partial

import numpy as np
import pytest

import autodiff as ad

X = np.array([1.0, 2.0])


class Box:
    """A class that `ad.tree` does not know."""

    def __init__(self, held):
        self.held = held


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held


class Rows(list):
    """A list of another class: a leaf."""


RESULTS = {
    "set": (lambda y: {y}, "a set"),
    "frozenset": (lambda y: frozenset([y]), "a frozenset"),
    "deque": (lambda y: deque([y]), "a deque"),
    "object": (Box, "a Box"),
    "slots": (Slotted, "a Slotted"),
    "a list of another class": (lambda y: Rows([y]), "a Rows"),
    "deep": (lambda y: Box({"a": [Box(y)]}), "a Box"),
    "beside others": (lambda y: {"y": y, "more": (1, {y})}, "a set"),
    "values": (lambda y: {"y": y}.values(), "a dict_values"),
    "generator": (lambda y: (y for _ in range(2)), "a generator"),
    "function": (lambda y: lambda x: x * y, "a function"),
    "default": (lambda y: lambda x, y=y: x * y, "a function"),
    "partial": (lambda y: partial(np.add, y), "a partial"),
    "method": (lambda y: Box(y).__init__, "a method"),
}


@pytest.mark.parametrize("transformation", ["jit", "vmap"])
@pytest.mark.parametrize(("result", "kind"), RESULTS.values(), ids=RESULTS)
def test_a_traced_tensor_in_what_is_not_taken_apart_is_refused(result, kind, transformation):
    def f(x):
        return result(x * 2)

    with pytest.raises(ad.DispatchError) as refused:
        getattr(ad, transformation)(f)(X)
    text = str(refused.value)
    shape = "f64[2]" if transformation == "jit" else "f64[]"
    assert text.startswith(f"{transformation}: f returned {kind} that holds a tensor of the trace, {shape}\n")
    assert "called at test_leaks.py:" in text
    assert text.splitlines()[-1].startswith(("  return ", "  call it inside"))


def test_a_pullback_of_the_trace_is_refused_and_called_inside_it_is_right():
    with pytest.raises(ad.DispatchError, match="call it inside"):
        ad.jit(lambda x: ad.vjp(ad.sin, x))(X)
    np.testing.assert_allclose(ad.jit(lambda x: ad.vjp(ad.sin, x)[1](x)[0])(X), np.cos(X) * X)


def test_a_tensor_of_an_outer_trace_may_pass_through_an_inner_vmap():
    def f(x):
        box = ad.vmap(lambda row: (row * 2, Box(x)))(x)[1]
        return box.held + 1

    np.testing.assert_array_equal(ad.jit(f)(X), X + 1)


def test_what_a_trace_made_by_calling_jit_inside_is_refused_too():
    with pytest.raises(ad.DispatchError, match="jit: inner returned a set"):

        @ad.jit
        def outer(x):
            @ad.jit
            def inner(y):
                return y, {x}

            return inner(x)[0]

        outer(X)


def test_objects_that_hold_nothing_of_the_trace_are_results_as_before():
    held = ad.tensor(X)
    box, y = Box(held), {1, 2}

    @ad.jit
    def f(x):
        return x * 2, box, y, Box, np.add, len

    for _ in range(3):
        found = f(X)
        np.testing.assert_array_equal(found[0], X * 2)
        assert found[1] is box and found[2] is y and found[3:] == (Box, np.add, len)
