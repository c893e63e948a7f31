"""SEMANTICS 7 and 8: registering, replacing and deleting methods; what that drops; what can be asked about it."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from dispatch_kinds import X, gradient, pair

import autodiff as ad


def traced(f):
    """jit of f, and the list of its traces."""
    runs = []

    def counted(*args):
        runs.append(1)
        return f(*args)

    return ad.jit(counted), runs


# ---------------------------------------------------------------- what takes effect


def test_a_more_specific_method_takes_effect_at_the_next_call_of_functions_already_held():
    @ad.function
    def f(x): ...

    f.method(ad.Tensor)(lambda x: x * 2.0)
    held, (compiled, runs) = f, traced(lambda x: f(x))
    derivative = ad.jit(ad.grad(lambda x: f(x).sum()))
    for _ in range(2):
        assert held(X)[0].item() == compiled(X)[0] == derivative(X)[0] == 2.0
    new = f.method(ad.Vector)(lambda x: x * 5.0)
    assert held(X)[0].item() == compiled(X)[0] == derivative(X)[0] == 5.0
    new.delete()
    assert held(X)[0].item() == compiled(X)[0] == derivative(X)[0] == 2.0
    assert len(runs) == 3


def test_exactly_the_entries_whose_choice_changes_are_dropped():
    @ad.function
    def f(x): ...

    @ad.function
    def g(x): ...

    for each in (f, g):
        each.method(ad.Tensor)(lambda x: x * 2.0)
    on_f, runs_f = traced(lambda x: f(x).sum())
    on_g, runs_g = traced(lambda x: g(x).sum())
    matrix = np.ones((2, 2))
    for call in (on_f, on_g):
        for a in (X, matrix):
            call(a)
    f.method(str)(lambda x: x)
    f.method(ad.Tensor[ad.float32])(lambda x: x)
    for call in (on_f, on_g):
        for a in (X, matrix):
            call(a)
    assert (len(runs_f), len(runs_g)) == (2, 2), "methods for other types drop nothing"
    f.method(ad.Matrix)(lambda x: x * 3.0)
    assert (on_f(X), on_f(matrix)) == (4.0, 12.0)
    on_g(X), on_g(matrix)
    assert (len(runs_f), len(runs_g)) == (3, 2), "only the trace on a matrix was dropped"


def test_a_new_method_of_a_library_function_drops_the_traces_that_use_it_on_those_types():
    sines, runs_sine = traced(lambda x: ad.sin(x).sum())
    cosines, runs_cosine = traced(lambda x: ad.cos(x).sum())
    sines(X), cosines(X)
    method = ad.sin.method(ad.Tensor[ad.float64, 1])(lambda x: x * 0.0)
    try:
        assert sines(X) == 0.0
        cosines(X)
        assert (len(runs_sine), len(runs_cosine)) == (2, 1)
    finally:
        method.delete()
    assert sines(X) == pytest.approx(np.sin(X).sum())


def test_the_choice_made_inside_an_inner_jit_counts_for_the_outer_one():
    @ad.function
    def f(x): ...

    f.method(ad.Tensor)(lambda x: x * 2.0)
    inner = ad.jit(lambda x: f(x))
    inner(X)
    outer = ad.jit(lambda x: inner(x).sum())
    assert outer(X) == 4.0
    f.method(ad.Vector)(lambda x: x * 3.0)
    assert outer(X) == 6.0


def test_a_method_that_a_rule_calls_is_part_of_what_its_plan_relies_on():
    @ad.function
    def helper(g): ...

    helper.method(ad.Tensor)(lambda g: g * 2.0)
    f = pair(lambda ctx, g: helper(g))
    derivative = ad.jit(ad.grad(lambda x: f(x).sum()))
    for _ in range(4):
        assert gradient(f)[0] == derivative(X)[0] == 2.0
    helper.method(ad.Vector)(lambda g: g * 3.0)
    assert gradient(f)[0] == derivative(X)[0] == 3.0


def test_replacing_a_method_of_the_same_signature_takes_effect():
    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: x * 1.0)
    derivative = ad.jit(ad.grad(lambda x: f(x).sum()))
    for slope in (2.0, 3.0, 4.0, 5.0):
        f.backward(ad.Tensor)(lambda ctx, g, slope=slope: g * slope)
        for _ in range(3):
            assert gradient(f)[0] == derivative(X)[0] == slope


def test_deleting_an_attached_rule_leaves_the_typed_one():
    f = pair()
    forward = ad.methods(f)[0]
    attached = forward.backward(lambda ctx, g: g * 9.0)
    assert gradient(f)[0] == 9.0
    attached.delete()
    attached.delete()
    assert gradient(f)[0] == 2.0


def test_what_is_dropped_is_freed_and_nothing_keeps_a_dropped_function():
    def used():
        @ad.function
        def f(x): ...

        f.method(ad.Tensor)(lambda x: x * 2.0)
        ad.jit(lambda x: f(x))(X)
        return weakref.ref(f)

    dead = used()
    gc.collect()
    assert dead() is None


# ---------------------------------------------------------------- what can be asked


def test_invoke_runs_the_less_specific_method_also_in_a_trace():
    @ad.function
    def f(x): ...

    f.method(ad.Tensor)(lambda x: x * 2.0)
    f.method(ad.Vector)(lambda x: f.invoke((ad.Tensor,), x) + 1.0)
    for call in (f, ad.jit(f), ad.jit(f)):
        np.testing.assert_array_equal(np.asarray(call(X)), 2 * X + 1)
    compiled = ad.jit(f)
    compiled(X)
    f.method(ad.Tensor)(lambda x: x * 10.0)
    np.testing.assert_array_equal(compiled(X), 10 * X + 1)


def test_a_decorated_method_can_be_called_and_has_its_rules():
    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def general(ctx, x):
        return x * 2.0

    @general.backward
    def _(ctx, g):
        return g * 20.0

    f.method(ad.Vector)(lambda x: x * 3.0)
    x = ad.tensor(X, requires_grad=True)
    general(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 20.0))


def test_coverage_reports_a_forward_more_specific_than_every_backward():
    f = pair()
    assert ad.coverage(f) == []
    f.forward(ad.Matrix)(lambda ctx, x: x * 1.0)
    (gap,) = ad.coverage(f)
    assert "f(x: Tensor[..., 2])  forward" in str(gap) and "test_dispatch_changes.py:" in str(gap)
    f.backward(ad.Matrix)(lambda ctx, g: g)
    assert ad.coverage(f) == []


def test_which_tells_methods_and_backwards_for_values_and_types():
    f = pair()
    special = f.backward(ad.Matrix)(lambda ctx, g: g)
    assert ad.which(f, X).method is ad.methods(f)[0]
    assert ad.which_backward(f, ad.Matrix).method is special
    assert ad.which_backward(f, np.ones((2, 2))).method is special
    assert ad.which_backward(f, X).method is not special


def test_an_ambiguous_call_names_both_candidates_and_the_signature_that_settles_it():
    @ad.function
    def f(a, b): ...

    f.method(ad.Tensor, ad.Vector)(lambda a, b: 1)
    f.method(ad.Vector, ad.Tensor)(lambda a, b: 2)
    for call in (f, ad.jit(f)):
        with pytest.raises(ad.AmbiguityError) as caught:
            call(X, X)
        assert str(caught.value).count("test_dispatch_changes.py:") >= 2
        assert "@f.method(ad.Tensor[..., 1], ad.Tensor[..., 1])" in str(caught.value)
    compiled = ad.jit(f)
    f.method(ad.Vector, ad.Vector)(lambda a, b: a + b)
    np.testing.assert_array_equal(compiled(X, X), 2 * X)
