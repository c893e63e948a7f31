"""SEMANTICS 8: which method runs, what arrives, and what converts; the same recorded, under jit, and from the cache."""

from __future__ import annotations

import numpy as np
import pytest
from three_ways import gradients

import autodiff as ad

X = np.array([1.0, -2.0, 3.0])
M = np.arange(6.0).reshape(2, 3)


def times(factor):
    return lambda x: x * factor


@ad.function
def by_lattice(x): ...


for _types, _factor in (
    ((ad.AbstractTensor,), 1.0),
    ((ad.Tensor,), 2.0),
    ((ad.Tensor[ad.floating],), 3.0),
    ((ad.Matrix,), 4.0),
    ((ad.Tensor[ad.floating, 2],), 5.0),
    ((ad.Tensor[ad.float32, 2],), 6.0),
):
    by_lattice.method(*_types)(times(_factor))


@pytest.mark.parametrize(
    ("data", "factor"),
    [
        (X.astype(np.int64), 2), (X, 3), (X.astype(np.float32), 3), (M, 5), (M.astype(np.float32), 6),
        (M.astype(np.int32), 4), (np.array(2.0), 3),
    ],
)
def test_the_most_specific_method_runs_however_the_call_is_made(data, factor):
    expected = data * factor
    compiled = ad.jit(by_lattice)
    for result in (by_lattice(data), by_lattice(ad.tensor(data)), compiled(data), compiled(data)):
        np.testing.assert_array_equal(np.asarray(result), expected)
    if data.dtype.kind == "f":
        (g,) = gradients(lambda x: by_lattice(x).sum(), data)
        np.testing.assert_array_equal(g, np.full(data.shape, factor))


def test_a_forward_and_a_method_share_one_table_and_the_most_specific_runs():
    @ad.function
    def f(x): ...

    f.method(ad.Tensor)(lambda x: x * 2.0)
    f.forward(ad.Vector)(lambda ctx, x: x * 3.0)
    f.backward(ad.Vector)(lambda ctx, g: g * 30.0)
    np.testing.assert_array_equal(gradients(lambda x: f(x).sum(), X)[0], np.full(3, 30.0))
    np.testing.assert_array_equal(gradients(lambda x: f(x).sum(), M)[0], np.full((2, 3), 2.0))


def test_a_backward_applies_to_a_method_only_if_it_is_at_least_as_specific():
    @ad.function
    def f(x): ...

    f.method(ad.Vector)(lambda x: x * 2.0)
    f.method(ad.Matrix)(lambda x: x * 2.0)
    f.backward(ad.Tensor)(lambda ctx, g: g * 50.0)
    f.backward(ad.Matrix)(lambda ctx, g: g * 70.0)
    np.testing.assert_array_equal(gradients(lambda x: f(x).sum(), X)[0], np.full(3, 2.0))
    np.testing.assert_array_equal(gradients(lambda x: f(x).sum(), M)[0], np.full((2, 3), 70.0))


def test_a_backward_without_a_forward_replaces_a_program_s_derivative():
    @ad.function
    def f(x):
        return ad.sin(x)

    np.testing.assert_allclose(gradients(lambda x: f(x).sum(), X)[0], np.cos(X))
    f.backward(ad.Tensor)(lambda ctx, g: g * 9.0)
    np.testing.assert_array_equal(gradients(lambda x: f(x).sum(), X)[0], np.full(3, 9.0))


def test_reading_a_name_that_was_not_saved_names_both_places_and_the_signature():
    @ad.function
    def f(x): ...

    f.forward(ad.Vector)(lambda ctx, x: (ctx.save_for_backward(other=x), x * 1.0)[1])
    f.backward(ad.Tensor)(lambda ctx, g: g * ctx.saved_variables.x)
    with pytest.raises(AttributeError, match="no 'x', only 'other'") as caught:
        f(ad.tensor(X, requires_grad=True)).sum().backward()
    told = str(caught.value) + "".join(caught.value.__notes__)
    assert told.count("test_dispatch_calls.py:") >= 2


# ---------------------------------------------------------------- arrays, numbers, structures


class Ramp(ad.AbstractTensor):
    """first, first + 1, ...: a type that is no tensor and can be written out."""

    def __init__(self, first, n):
        self.first, self.n = first, n


ad.tree.register(Ramp, lambda r: ((r.first,), r.n), lambda n, parts: Ramp(parts[0], n))


@ad.dense.method(Ramp)
def _(x):
    return x.first + ad.arange(x.n, dtype=ad.float64)


def test_an_array_arrives_as_the_constant_tensor_of_its_dtype_and_rank():
    seen = []

    @ad.function
    def f(x, a): ...

    @f.method
    def _(x: ad.Tensor, a: ad.Matrix):
        seen.append((isinstance(a, ad.Tensor), a.dtype, a.requires_grad))
        return (x * a).sum()

    f(ad.tensor(X), M)
    assert seen == [(True, np.float64, False)]
    assert ad.which(f, ad.tensor(X), M).converted == ("a: ndarray to Tensor[float64, 2]",)
    np.testing.assert_array_equal(gradients(lambda x: f(x, M), X)[0], M.sum(axis=0))


def test_an_array_of_unknown_dtype_is_not_converted():
    f = by_lattice
    with pytest.raises(ad.DispatchError, match=r"by_lattice has no method for .ndarray"):
        f(np.array(["a"]))


@ad.function
def kinds(x, c): ...


kinds.method(ad.Tensor, ad.Number)(lambda x, c: x * c * 10.0)
kinds.method(ad.Tensor, ad.Scalar)(lambda x, c: x * c * 100.0)


@ad.function
def scalars_only(x, c): ...


scalars_only.method(ad.Tensor, ad.Scalar)(lambda x, c: x * c)


@pytest.mark.parametrize("c", [2, 2.0, True, np.float32(2.0), np.int64(2)])
def test_a_number_dispatches_as_a_number_with_and_without_jit(c):
    for call in (kinds, ad.jit(kinds), ad.jit(kinds)):
        np.testing.assert_allclose(np.asarray(call(X, c)), X * float(c) * 10)
    compiled = ad.jit(kinds)
    if c is not True:
        compiled(X, c)
        with ad.max_compiles(0):
            np.testing.assert_allclose(compiled(X, c + 1), X * (c + 1) * 10)


def test_a_0d_array_and_a_number_that_is_differentiated_are_scalars():
    for call in (kinds, ad.jit(kinds)):
        np.testing.assert_allclose(np.asarray(call(X, np.array(2.0))), X * 200)
    g = ad.grad(lambda c: kinds(X, c).sum())
    assert g(2.0) == ad.jit(g)(2.0) == X.sum() * 100


def test_a_number_is_converted_only_where_no_method_takes_one():
    for call in (scalars_only, ad.jit(scalars_only)):
        for c in (2, 2.5):
            np.testing.assert_allclose(np.asarray(call(X, c)), X * c)
    assert "c: int to Tensor[int64, 0]" in str(ad.which(scalars_only, ad.tensor(X), 2))
    assert ad.which(kinds, ad.tensor(X), 2).converted == ()


def test_a_structured_argument_is_written_out_where_no_method_takes_it_and_which_says_so():
    @ad.function
    def f(x): ...

    f.method(ad.Vector)(lambda x: x * x)
    np.testing.assert_array_equal(np.asarray(f(Ramp(ad.tensor(1.0), 3))), [1.0, 4.0, 9.0])
    assert "x: Ramp to Tensor[float64, 1]" in str(ad.which(f, Ramp(ad.tensor(1.0), 3)))
    (g,) = gradients(lambda a: f(Ramp(a, 3)).sum(), np.array(1.0))
    assert g == 2 * (1 + 2 + 3)
    f.method(Ramp)(lambda x: x.first * 1000.0)
    assert gradients(lambda a: f(Ramp(a, 3)), np.array(1.0))[0] == 1000.0


def test_a_pair_on_a_structured_type_gets_and_gives_it_in_its_own_structure():
    @ad.function
    def total(r): ...

    @total.forward(Ramp)
    def _(ctx, r):
        assert type(r) is Ramp
        ctx.save_for_backward(r=r)
        return r.first * r.n + r.n * (r.n - 1) / 2

    @total.backward(Ramp)
    def _(ctx, g):
        r = ctx.saved_variables.r
        return {"r": Ramp(g * r.n, r.n)}

    assert gradients(lambda a: total(Ramp(a, 4)), np.array(2.0))[0] == 4.0


@pytest.mark.smoke
def test_no_method_even_then_is_an_error_with_the_nearest_ones():
    with pytest.raises(ad.DispatchError) as caught:
        scalars_only("text", 2)
    nearest = ("scalars_only has no method for (str, int)", "near", "x is str, not Tensor", "test_dispatch_calls.py:")
    for part in nearest:
        assert part in str(caught.value)


# ---------------------------------------------------------------- a user's own type and the library's functions


class Scaled(ad.AbstractTensor):
    """factor * base, kept apart."""

    def __init__(self, factor, base):
        self.factor, self.base = factor, base


ad.tree.register(Scaled, lambda s: ((s.factor, s.base), None), lambda _, parts: Scaled(*parts))
ad.dense.method(Scaled)(lambda x: x.factor * x.base)


@pytest.mark.smoke
def test_a_user_s_type_adds_methods_and_backwards_to_the_library_s_own_functions():
    ran = []

    @ad.matmul.method(Scaled, ad.Matrix)
    def method(x1, x2):
        ran.append("method")
        return x1.factor * (x1.base @ x2)

    try:
        a, b = np.arange(4.0).reshape(2, 2), np.ones((2, 2))

        def loss(f, a):
            return (Scaled(f, a) @ ad.tensor(b)).sum()

        gf, ga = gradients(loss, np.array(3.0), a)
        assert ran and gf == (a @ b).sum()
        np.testing.assert_array_equal(ga, 3 * np.ones((2, 2)) @ b.T)

        @ad.matmul.backward(Scaled, ad.Matrix)
        def rule(ctx, g):
            return {"x1": Scaled(g.sum() * 0.0 + 77.0, g * 0.0), "x2": None}

        try:
            gf, ga = gradients(loss, np.array(3.0), a)
            assert gf == 77.0 and not ga.any(), "used at the next call"
            assert ad.which_backward(ad.matmul, Scaled, ad.Matrix).method is rule
        finally:
            rule.delete()
        assert gradients(loss, np.array(3.0), a)[0] == (a @ b).sum()
    finally:
        method.delete()
    dense = gradients(loss, np.array(3.0), a)
    assert dense[0] == (a @ b).sum(), "without a method it is written out"


def test_operators_of_a_user_s_type_are_calls_of_the_generic_functions():
    s = Scaled(ad.tensor(2.0), ad.tensor(X))
    np.testing.assert_array_equal((s + 1.0).numpy(), 2 * X + 1)
    np.testing.assert_array_equal((1.0 - s).numpy(), 1 - 2 * X)
    np.testing.assert_array_equal(ad.exp(s).numpy(), np.exp(2 * X))


def test_other_classes_get_their_reflected_operators():
    class Other:
        def __rmatmul__(self, left):
            return "rmatmul"

        def __radd__(self, left):
            return "radd"

    t = ad.tensor(M)
    assert t @ Other() == "rmatmul" and t + Other() == "radd"
    with pytest.raises(TypeError):
        t + object()


def test_tensor_itself_is_not_subclassed_and_says_what_to_do():
    with pytest.raises(TypeError, match=r"derive from ad\.AbstractTensor.*ad\.dense"):
        type("Mine", (ad.Tensor,), {})


def test_tensors_in_keyword_only_parameters_are_tracked():
    @ad.function
    def f(x, *, scale=1.0): ...

    @f.forward(ad.Tensor)
    def _(ctx, x, *, scale=1.0):
        ctx.save_for_backward(x=x, scale=scale)
        return x * scale

    @f.backward(ad.Tensor)
    def _(ctx, g):
        s = ctx.saved_variables
        return {"x": g * s.scale, "scale": g * s.x if ctx.needs_input_grad.scale else None}

    gx, gs = gradients(lambda x, s: f(x, scale=s).sum(), X, X + 5)
    np.testing.assert_array_equal(gx, X + 5)
    np.testing.assert_array_equal(gs, X)
    np.testing.assert_array_equal(gradients(lambda x: f(x).sum(), X)[0], np.ones(3))


def test_variadic_functions_have_one_gradient_entry_that_is_a_tuple():
    @ad.function
    def total(*xs): ...

    @total.forward(ad.Tensor)
    def _(ctx, *xs):
        return sum(xs[1:], xs[0]) * 1.0

    total.backward(ad.Tensor)(lambda ctx, g: {"xs": tuple(g * float(i + 1) for i in range(len(ctx.inputs.xs)))})
    found = gradients(lambda a, b, c: total(a, b, c).sum(), X, X, X, kept=False)
    for i, g in enumerate(found):
        np.testing.assert_array_equal(g, np.full(3, i + 1.0))


def test_a_known_call_with_a_numpy_scalar_does_not_serve_a_0d_array():
    compiled = ad.jit(kinds)
    for _ in range(3):
        np.testing.assert_allclose(compiled(X, np.float64(2.0)), X * 20)
        np.testing.assert_allclose(compiled(X, np.array(2.0)), X * 200)
        np.testing.assert_allclose(compiled(X, 2.0), X * 20)


def test_code_that_runs_without_the_name_of_a_module_declares_functions_like_any_other():
    names = {"ad": ad}
    exec(
        "@ad.function\n"
        "def double(x): ...\n"
        "@double.forward(ad.Tensor)\n"
        "def _(ctx, x):\n"
        "    return 2 * x\n"
        "@double.backward(ad.Tensor)\n"
        "def _(ctx, g):\n"
        "    return 2 * g\n"
        "@ad.function\n"
        "def triple(x):\n"
        "    return 3 * x\n",
        names,
    )
    assert names["double"].__module__ == ""
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    names["triple"](names["double"](x)).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    assert str(ad.which(names["triple"], ad.Diagonal([1.0])))
    assert ad.methods(names["double"])


def test_a_complex_number_is_a_scalar_where_no_method_takes_a_number():
    @ad.function
    def product(x, y): ...

    product.method(ad.Tensor, ad.Tensor)(lambda x, y: x * y)
    x = ad.tensor([1.0, 2.0])
    for number in (2, 2.0, True, 1j, np.complex128(1j)):
        np.testing.assert_array_equal(np.asarray(product(x, number)), np.array([1.0, 2.0]) * number)


def test_a_complex_number_takes_the_width_of_what_it_meets_as_others_do():
    x = ad.tensor(np.array([1.0, 2.0], np.complex64), requires_grad=True)
    ad.sum(x * x).backward(1j)
    np.testing.assert_array_equal(x.grad, np.array([2j, 4j], np.complex64))
    assert "c128[2]" not in str(ad.inspect(lambda x, c: x * c, "c64[2]", 1j).graph)
    with pytest.raises(ad.GradientError, match="c128"):
        ad.sum(ad.abs(x)).backward(1j)
