"""SEMANTICS 8, what is left: conversions are told, methods that cannot be reached, generic parameters."""

from __future__ import annotations

import typing

import numpy as np
import pytest

import autodiff as ad

X = np.array([1.0, -2.0, 3.0])


@pytest.mark.parametrize("argument", [ad.Diagonal, ad.Diagonal(X)], ids=["class", "value"])
def test_which_says_that_dense_converts_where_an_operation_has_no_method(argument):
    assert ad.which(ad.exp, argument).converted == ("x: Diagonal to Tensor by ad.dense",)
    assert ad.which(ad.arctan2, argument, ad.Matrix).converted == ("x1: Diagonal to Tensor by ad.dense",)
    assert not ad.which(ad.matmul, argument, ad.Matrix).converted
    assert not ad.which(ad.exp, ad.Matrix).converted


def test_which_says_that_dense_converts_for_a_users_function():
    @ad.function
    def f(x): ...

    f.method(ad.Matrix)(lambda x: x * 1.0)
    assert ad.which(f, ad.Diagonal(X)).converted == ("x: Diagonal to Tensor[float64, 2] by ad.dense",)
    f.method(ad.Diagonal)(lambda x: x)
    assert not ad.which(f, ad.Diagonal(X)).converted


def test_explain_says_what_dense_writes_out_and_where(nothing_to_explain):
    @ad.function
    def f(x): ...

    f.method(ad.Matrix)(lambda x: x * 1.0)
    leaf = ad.tensor(X, requires_grad=True)
    for ask in (
        lambda: (ad.exp(ad.Diagonal(leaf)).sum() + f(ad.Diagonal(leaf)).sum()).backward(),
        lambda: ad.jit(ad.grad(lambda d: ad.exp(ad.Diagonal(d)).sum() + f(ad.Diagonal(d)).sum()))(X),
    ):
        nothing_to_explain()
        ask()
        told = [str(miss) for miss in ad.explain() if miss.what == "dense"]
        assert len(told) == 2
        assert "exp has no method for Diagonal: ad.dense writes it out" in told[0]
        assert "f has no method for Diagonal: ad.dense writes it out" in told[1]
        assert all("test_remaining_dispatch.py" in text for text in told)


def test_what_is_not_converted_is_not_told(nothing_to_explain):
    d = ad.Diagonal(X)
    np.asarray((d @ np.ones((3, 2)) + 1.0).sum())
    ad.which(ad.exp, d)
    assert not [miss for miss in ad.explain() if miss.what == "dense"]


@pytest.mark.parametrize("spec", [list[int], dict[str, int], typing.Literal[1], typing.Callable[[int], int]])
def test_other_generics_are_refused_by_name_and_line(spec):
    @ad.function
    def f(x): ...

    with pytest.raises(ad.DispatchError, match=r"(?s)f\.method: .* is not a type .*test_remaining_dispatch.py"):
        f.method(spec)(lambda x: x)
    assert not ad.methods(f)


def test_optional_is_a_union_with_none():
    @ad.function
    def f(x): ...

    either = "Optional"
    f.method(getattr(typing, either)[ad.Tensor])(lambda x: "either")
    assert f(None) == f(ad.ones(2)) == "either"
    f.method(type(None))(lambda x: "none")
    assert (f(None), f(ad.ones(2))) == ("none", "either"), "a member beats a union that contains it"


def test_max_compiles_names_the_block():
    said = r"(?s)max_compiles\(0\): 1 graph was.*block at test_remaining_dispatch.py"
    with pytest.raises(ad.Error, match=said), ad.max_compiles(0):
        (ad.ones(11) * 2.5 + 1.0).numpy()


def test_coverage_reports_methods_that_no_call_reaches():
    @ad.function
    def f(x): ...

    both = f.method(ad.Vector | ad.Matrix)(lambda x: 0)
    vector = f.method(ad.Vector)(lambda x: 1)
    assert ad.coverage(f) == [], "a matrix still reaches it"
    matrix = f.method(ad.Matrix)(lambda x: 2)
    (found,) = ad.coverage(f)
    assert found.method is both and set(found.instead) == {vector, matrix}
    assert "is never chosen" in str(found) and "test_remaining_dispatch.py" in str(found)
    both.delete()
    assert ad.coverage(f) == []


def test_coverage_of_the_library_finds_nothing():
    found = {f.__name__: ad.coverage(f) for f in vars(ad).values() if getattr(f, "is_generic_function", False)}
    assert len(found) > 100 and not any(found.values())


def test_coverage_looks_at_each_member_of_a_union():
    @ad.function
    def f(x): ...

    forward = f.forward(ad.Vector | ad.Matrix)(lambda ctx, x: x)
    f.backward(ad.Vector)(lambda ctx, g: g)
    assert [(gap.forward, gap.backward) for gap in ad.coverage(f)] == [(forward, None)]
    f.backward(ad.Matrix)(lambda ctx, g: g)
    assert ad.coverage(f) == []
