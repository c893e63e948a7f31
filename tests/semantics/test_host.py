"""Host rules: declared or found out, recorded, under jit, and from the cache (SEMANTICS 6 and 7)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from three_ways import done, gradients

import autodiff as ad

X = np.array([0.5, -1.0, 2.0])


def leaf(value=X):
    return ad.tensor(value, requires_grad=True)


def host_both(log=None):
    """SciPy in forward and backward."""

    @ad.function
    def erf(x): ...

    @erf.forward(ad.Tensor, host=True)
    def _(ctx, x):
        assert type(x) is np.ndarray and not x.flags.writeable
        ctx.save_for_backward(x=x, slope=2 / np.sqrt(np.pi) * np.exp(-(x**2)))
        return special.erf(x)

    @erf.backward(ad.Tensor, host=True)
    def _(ctx, g):
        assert type(g) is np.ndarray and not g.flags.writeable
        assert type(ctx.saved_variables.slope) is np.ndarray and ctx.needs_input_grad.x
        if log is not None:
            log.append(1)
        return {"x": g * ctx.saved_variables.slope}

    return erf


SLOPE = 2 / np.sqrt(np.pi) * np.exp(-(X**2))


@pytest.mark.smoke
def test_a_declared_host_rule_works_inside_a_compiled_and_cached_graph():
    erf = host_both()
    (g,) = gradients(lambda x: (ad.sin(erf(x * 2.0)) * 3.0).sum(), X)
    inner = 2 / np.sqrt(np.pi) * np.exp(-((2 * X) ** 2))
    np.testing.assert_allclose(g, 3 * np.cos(special.erf(2 * X)) * inner * 2)


@pytest.mark.parametrize(("setting", "value"), [("patience", 1), ("patience", 8), ("eager", True)])
def test_a_host_rule_gets_read_only_arrays_also_where_graphs_are_evaluated(setting, value):
    erf, before = host_both(), getattr(ad.config, setting)
    setattr(ad.config, setting, value)
    try:
        for n in range(1, 14):  # shapes that are used once
            x = leaf(np.linspace(-1.0, 1.0, n))
            ad.sin(erf(x * 2.0)).sum().backward()
            slope = 2 / np.sqrt(np.pi) * np.exp(-((2 * x.detach().numpy()) ** 2))
            np.testing.assert_allclose(x.grad, np.cos(special.erf(2 * x.detach().numpy())) * slope * 2)
    finally:
        setattr(ad.config, setting, before)
        ad.clear_cache()


def test_a_host_backward_is_called_at_every_run_and_the_graph_around_it_is_known():
    log = []
    erf = host_both(log)
    x = leaf()
    for i in range(5):
        x.grad = None
        before, calls = done(), len(log)
        (erf(x) * float(i)).sum().backward()
        assert len(log) == calls + 1
        assert i < 2 or done() == before
        np.testing.assert_allclose(x.grad.numpy(), i * SLOPE)
    f = ad.jit(ad.value_and_grad(lambda x: erf(x * 1.0).sum()))
    f(X)
    before, calls = done(), len(log)
    for k in range(3):
        value, g = f(X + k)
        np.testing.assert_allclose(value, special.erf(X + k).sum())
        np.testing.assert_allclose(g, 2 / np.sqrt(np.pi) * np.exp(-((X + k) ** 2)))
    assert done() == before and len(log) == calls + 3


def test_a_first_call_under_jit_learns_what_forward_returns():
    ran = []

    @ad.function
    def f(x, n): ...

    @f.forward(ad.Tensor, ad.Number, host=True)
    def _(ctx, x, n):
        ran.append(type(x))
        ctx.save_for_backward(c=np.cos(x) * n)
        return {"y": np.sin(x) * n, "label": "s"}, int(x.size)

    @f.backward(ad.Tensor, ad.Number)
    def _(ctx, g, count):
        return {"x": g["y"] * ctx.saved_variables.c}

    h = ad.jit(lambda x: f(x, 3)[0]["y"].sum())
    np.testing.assert_allclose(h(X), 3 * np.sin(X).sum())
    np.testing.assert_allclose(h(X + 1), 3 * np.sin(X + 1).sum())
    assert ran and set(ran) == {np.ndarray}
    g = ad.jit(ad.grad(lambda x: f(x, 3)[0]["y"].sum()))
    for k in range(3):
        np.testing.assert_allclose(g(X + k), 3 * np.cos(X + k))


class Count:
    def __init__(self, n):
        self.n = n


@pytest.mark.parametrize(("kind", "sized"), [(Count, Count), (np.ndarray, lambda n: np.zeros(n, np.uint8))])
def test_what_a_forward_returns_is_learnt_for_each_object_and_array_that_it_is_given(kind, sized):
    @ad.function
    def filled(x, like): ...

    @filled.forward(ad.Tensor, kind, host=True)
    def _(ctx, x, like):
        return np.full(like.n if kind is Count else len(like), x.sum())

    x, sizes = ad.tensor([1.0, 2.0]), {n: sized(n) for n in (3, 5)}
    filled(x, sizes[3])
    for n in (3, 5, 3, 5):
        np.testing.assert_array_equal(ad.jit(lambda x, n=n: filled(x, sizes[n]))(x), np.full(n, 3.0))


def nested(n):
    for _ in range(9):
        n = frozenset([n])
    return n


def innermost(like):
    while not isinstance(like, int):
        like = like.n if isinstance(like, Count) else like
        if not isinstance(like, int):
            (like,) = like.values() if isinstance(like, dict) else like
    return like


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("sized", [
    nested, lambda n: Count([n]), lambda n: Count({"n": [n]}), lambda n: Count({n}), lambda n: Count([Count([n])]),
])
def test_what_a_forward_returns_is_learnt_for_all_that_a_static_value_holds(sized, host):
    @ad.function
    def filled(x, like): ...

    @filled.forward(ad.Tensor, object, host=host)
    def _(ctx, x, like):
        n = innermost(like)
        return np.full(n, float(x.sum())), f"{n} of them"

    x = np.array([1.0, 2.0])
    for n in (3, 5):
        filled(x, sized(n))
    for n in (3, 5, 3):
        y, told = ad.jit(lambda x, n=n: filled(x, sized(n)))(x)
        np.testing.assert_array_equal(y, np.full(n, 3.0))
        assert told == f"{n} of them"


def test_an_object_that_holds_more_than_is_looked_at_counts_by_identity():
    @ad.function
    def first(x, like): ...

    @first.forward(ad.Tensor, Count, host=True)
    def _(ctx, x, like):
        return np.full(like.n[-1], x.sum())

    x, objects = np.array([1.0, 2.0]), {n: Count([*range(5000), n]) for n in (3, 5)}
    for n in (3, 5):
        first(x, objects[n])
    for n in (3, 5, 3):
        np.testing.assert_array_equal(ad.jit(lambda x, n=n: first(x, objects[n]))(x), np.full(n, 3.0))


def test_out_gives_what_a_trace_needs_to_know_without_a_run():
    ran = []

    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor, host=True, out=lambda x: x)
    def _(ctx, x):
        ran.append(1)
        return np.sin(x)

    h = ad.jit(lambda x: f(x) * 2.0)
    np.testing.assert_allclose(h(X), 2 * np.sin(X))
    assert len(ran) == 1

    @ad.function
    def wrong(x): ...

    wrong.forward(ad.Tensor, host=True, out="f64[7]")(lambda ctx, x: np.sin(x))
    with pytest.raises(ad.GradientError, match=r"wrong: .* gives f64\[3\], and its out= says f64\[7\]"):
        ad.jit(wrong)(X)


@pytest.mark.parametrize(
    "out",
    ["f64[7]", "f32[3]", lambda x: x.with_shape((1, *x.shape)), ("f64[3]",), {"y": "f64[3]"}, ("f64[3]", "f64[]")],
)
@pytest.mark.parametrize(
    "first",
    {
        "plainly": lambda f: f(ad.tensor(X)),
        "on arrays": lambda f: f(X),
        "recorded": lambda f: f(ad.tensor(X, requires_grad=True)),
        "grad": lambda f: ad.grad(lambda x: ad.sum(f(x)))(X),
        "jit": lambda f: ad.jit(f)(X),
        "jit of grad": lambda f: ad.jit(ad.grad(lambda x: ad.sum(f(x))))(X),
        "vmap": lambda f: ad.vmap(f)(np.stack([X, X])),
    }.values(),
)
@pytest.mark.parametrize("returns", [np.sin, lambda x: x], ids=["a result", "its argument"])
def test_a_wrong_out_is_found_at_the_first_call_whatever_it_is(out, first, returns):
    """It was looked at in a trace alone, and never once the function had been called plainly."""

    @ad.function
    def wrong(x): ...

    wrong.forward(ad.Tensor, host=True, out=out)(lambda ctx, x: returns(x))
    wrong.backward(ad.Tensor)(lambda ctx, g: g)
    for _ in range(2):
        with pytest.raises(ad.GradientError, match=r"wrong: .* gives f64\[3\], and its out= says (.|\n)*at test_host"):
            first(wrong)


@pytest.mark.parametrize("numbers", [0, 1], ids=["of arrays", "of numbers too"])
def test_a_right_out_is_taken_by_every_call(numbers):
    """A number is an array to `out=` where it is an argument of `jit`, and else none."""

    @ad.function
    def right(x, n): ...

    out = [lambda x: {"y": x, "rest": ["i64[]", "f64[2]"]}, lambda x, n: {"y": x, "rest": [n, "f64[2]"]}][numbers]

    @right.forward(ad.Tensor, ad.Number, host=True, out=out)
    def _(ctx, x, n):
        return {"y": np.sin(x), "rest": [np.int64(n), np.ones(2)]}

    right.backward(ad.Tensor, ad.Number)(lambda ctx, g: {"x": g["y"]})
    plain = [lambda x: right(x, 3), lambda x: right(ad.tensor(x, requires_grad=True), 3)]
    traced = [ad.jit(lambda x: right(x, 3)), lambda x: ad.jit(right)(x, 3)][numbers]
    for calls in ([*plain, traced], [traced, *plain]):
        for call in calls:
            for x in (X, np.ones((2, 2))):
                np.testing.assert_array_equal(call(x)["y"].detach() if call is plain[1] else call(x)["y"], np.sin(x))


@pytest.mark.parametrize(
    ("out", "message"),
    [(lambda x, y: x, r"does not take the 1 arrays of this call\n  called at test_host.py:.*\n.*: f64\[3\]"),
     ("f99[2]", r"names no array: not an aval: 'f99\[2\]'"), (3, "names no array")],
)  # fmt: skip
def test_an_out_that_fits_no_call_is_refused_by_name(out, message):
    @ad.function
    def odd(x): ...

    odd.forward(ad.Tensor, host=True, out=out)(lambda ctx, x: np.sin(x))
    with pytest.raises(ad.GradientError, match=rf"odd: the out= of its forward \(test_host.py:\d+\) {message}"):
        ad.jit(odd)(X)


@pytest.mark.parametrize("known", [True, False], ids=["called before", "declared"])
def test_a_host_forward_may_return_its_argument_under_jit(known):
    """As a function does that only looks: what is returned is a value of its own all the same."""
    seen = []

    @ad.function
    def peek(x): ...

    @peek.forward(ad.Tensor, host=True, out=None if known else lambda x: x)
    def _(ctx, x):
        seen.append(x.copy())
        return x

    peek.backward(ad.Tensor)(lambda ctx, g: g)
    f, x = ad.jit(peek), X.copy()
    y = f(x)
    x[0] = 7.0
    assert np.array_equal(y, X) and np.array_equal(seen[-1], X) and np.array_equal(f(x), x)
    assert np.array_equal(ad.jit(ad.grad(lambda x: ad.sum(peek(x) ** 2)))(X), 2 * X)
    assert np.array_equal(ad.jit(ad.vmap(peek))(X), X)


def test_several_outputs_of_several_dtypes_come_out_of_one_host_call():
    calls = []

    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor, host=True)
    def _(ctx, x):
        calls.append(1)
        return np.float32(x.sum()), x.astype(np.float32) * 2, np.argsort(x), x > 0, x * 3

    f.backward(ad.Tensor)(lambda ctx, a, b, i, m, c: {"x": ad.astype(b, ad.float64) * 2.0 + c * 3.0})
    h = ad.jit(f)
    h(X)
    calls.clear()
    found = h(X)
    assert len(calls) == 1
    wanted = (np.float32(X.sum()), np.float32(X * 2), np.argsort(X), X > 0, X * 3)
    for value, expected in zip(found, wanted, strict=True):
        assert value.dtype == expected.dtype
        np.testing.assert_array_equal(value, expected)


def test_a_rule_that_asks_is_found_out_and_runs_each_time():
    ran = []

    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: x * 1.0)

    @f.backward(ad.Tensor)
    def _(ctx, g):
        ran.append(1)
        return g * float(g.sum())

    x = leaf()
    for i in range(1, 5):
        x.grad = None
        before = ad.cache_info().compiles
        (f(x) * float(i)).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.full(3, 3.0 * i * i))
        assert len(ran) == i and (i < 3 or ad.cache_info().compiles == before)
    g = ad.jit(ad.grad(lambda x, c: (f(x) * c).sum()))
    for c in (1.0, 2.0, 3.0):
        np.testing.assert_allclose(g(X, c), np.full(3, 3 * c * c))
    before = done()
    np.testing.assert_allclose(g(X, 5.0), np.full(3, 75.0))
    assert done() == before


def test_a_forward_that_asks_is_found_out_under_jit():
    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        scale = float(x.sum())
        ctx.save_for_backward(scale=scale)
        return x * scale

    f.backward(ad.Tensor)(lambda ctx, g: g * ctx.saved_variables.scale)
    (g,) = gradients(lambda x: f(x * 1.0).sum(), X, kept=False)
    np.testing.assert_allclose(g, np.full(3, X.sum()))
    h = ad.jit(ad.grad(lambda x: f(x).sum()))
    for k in range(3):
        np.testing.assert_allclose(h(X + k), np.full(3, (X + k).sum()))


@pytest.mark.parametrize("ways", ["recorded", "function", "jit"])
def test_second_order_through_a_host_rule_names_the_rule_the_line_and_the_way_out(ways):
    erf = host_both()
    first = ad.grad(lambda x: erf(x).sum())
    erf(leaf()).sum().item()
    asks = {
        "recorded": lambda: ad.grad(ad.grad(erf(x := leaf()).sum(), x, create_graph=True).sum(), x),
        "function": lambda: ad.grad(lambda x: first(x).sum())(X),
        "jit": lambda: ad.jit(ad.grad(lambda x: first(x).sum()))(X),
    }
    with pytest.raises(ad.GradientError) as caught:
        asks[ways]()
    for part in ("host backward of erf (test_host.py:", "called at test_host.py:", "another ad.function"):
        assert part in str(caught.value)


def test_recording_a_gradient_through_a_host_rule_is_no_error_until_it_is_differentiated():
    x, w = leaf(), leaf()
    g = ad.grad((host_both()(x) * w).sum(), x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), SLOPE * X)
    x = leaf()
    host_both()(x).sum().backward(create_graph=True)
    np.testing.assert_allclose(x.grad.detach().numpy(), SLOPE)


def test_second_order_through_saved_inputs_of_a_host_forward_is_right():
    @ad.function
    def erf(x): ...

    @erf.forward(ad.Tensor, host=True)
    def _(ctx, x):
        ctx.save_for_backward(x=x)
        return special.erf(x)

    @erf.backward(ad.Tensor)
    def _(ctx, g):
        x = ctx.saved_variables.x
        return g * (2 / np.pi**0.5) * ad.exp(-x * x)

    second = ad.grad(lambda x: ad.grad(lambda x: erf(x).sum())(x).sum())
    np.testing.assert_allclose(second(X), -2 * X * SLOPE)
    compiled = ad.jit(second)
    for _ in range(2):
        np.testing.assert_allclose(compiled(X), -2 * X * SLOPE)


def test_a_saved_array_of_a_host_forward_refuses_a_second_derivative():
    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor, host=True)
    def _(ctx, x):
        ctx.save_for_backward(c=np.cos(x))
        return np.sin(x)

    f.backward(ad.Tensor)(lambda ctx, g: g * ctx.saved_variables.c)
    np.testing.assert_allclose(gradients(lambda x: f(x).sum(), X)[0], np.cos(X))
    second = ad.grad(lambda x: ad.grad(lambda x: f(x).sum())(x).sum())
    for ask in (lambda: second(X), lambda: ad.jit(second)(X)):
        with pytest.raises(ad.GradientError, match=r"what the forward of f .*made of asked values"):
            ask()


def test_numbers_made_of_asked_values_refuse_a_second_derivative_too():
    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        scale = float(x.sum())
        ctx.save_for_backward(x=x, scale=scale)
        return x * scale

    f.backward(ad.Tensor)(lambda ctx, g: g * ctx.saved_variables.scale + 0.0 * ctx.saved_variables.x)
    with pytest.raises(ad.GradientError, match=r"another ad\.function"):
        ad.grad(lambda x: ad.grad(lambda x: f(x).sum())(x).sum())(X)


def test_an_error_in_a_host_rule_keeps_its_type_and_leaves_grad_alone():
    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: x * 1.0)

    @f.backward(ad.Tensor, host=True)
    def _(ctx, g):
        raise np.linalg.LinAlgError("singular")

    x = leaf()
    for ask in (lambda: f(x).sum().backward(), lambda: ad.jit(ad.grad(lambda x: f(x).sum()))(X)):
        with pytest.raises(np.linalg.LinAlgError, match="singular") as caught:
            ask()
        assert any("in the backward rule of f (host backward at test_host.py:" in n for n in caught.value.__notes__)
    assert x.grad is None
    (x * 2.0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 2.0))


@pytest.mark.parametrize("wrong", [np.ones(7), "text", np.ones(3, int)])
def test_what_a_host_backward_returns_is_checked_like_any_other(wrong):
    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: x * 1.0)
    f.backward(ad.Tensor, host=True)(lambda ctx, g: {"x": wrong})
    x = leaf()
    for ask in (lambda: f(x).sum().backward(), lambda: ad.jit(ad.grad(lambda x: f(x).sum()))(X)):
        with pytest.raises(ad.GradientError, match=r"f \(host backward at test_host.py:.*'x': f64\[3\]"):
            ask()
    assert x.grad is None


def test_numbers_saved_for_a_host_rule_are_read_when_it_runs():
    @ad.function
    def f(x, c): ...

    @f.forward(ad.Tensor, ad.Number)
    def _(ctx, x, c):
        ctx.save_for_backward(c=c, things=[{"any": c}])
        return x * c

    @f.backward(ad.Tensor, ad.Number, host=True)
    def _(ctx, g):
        s = ctx.saved_variables
        return {"x": g * s.things[0]["any"] * ctx.inputs.c / s.c}

    x = leaf()
    for c in (2.0, 3.0, 4.0, 5.0):
        x.grad = None
        before = done()
        f(x, c).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.full(3, c))
        assert c < 4.0 or done() == before, "another number is another argument"


def test_host_rules_take_and_give_containers():
    @ad.function
    def f(p): ...

    @f.forward(dict, host=True)
    def _(ctx, p):
        assert all(type(v) is np.ndarray for v in p.values())
        return p["a"] * p["b"], {"s": p["a"] + p["b"]}

    @f.backward(dict, host=True)
    def _(ctx, g, d):
        p = ctx.inputs.p
        return {"p": {"a": g * p["b"] + d["s"], "b": None}}

    ga, gb = gradients(lambda a, b: f({"a": a, "b": b})[0].sum() + f({"a": a, "b": b})[1]["s"].sum(), X, X + 1)
    np.testing.assert_allclose(ga, X + 2)
    assert not gb.any()


def test_a_forward_that_only_decides_by_values_can_be_differentiated_again():
    @ad.function
    def f(x): ...

    @f.forward(ad.Tensor)
    def _(ctx, x):
        t = x * x if x.sum() > 0.0 else x * 1.0
        ctx.save_for_backward(x=x, t=t)
        return t * x

    f.backward(ad.Tensor)(lambda ctx, g: 3.0 * g * ctx.saved_variables.t)
    second = ad.grad(lambda x: ad.grad(lambda x: f(x).sum())(x).sum())
    np.testing.assert_allclose(second(X), 6 * X)
    np.testing.assert_allclose(second(-X), np.full(3, 3.0))


def _solves_with_rules():
    """Products with the inverse of a matrix and of its transpose: the rule of each calls the other."""
    a = np.array([[2.0, 1.0], [0.0, 3.0]])

    @ad.function
    def solve(transposed, b): ...

    @solve.forward(bool, ad.Vector, host=True)
    def _(ctx, transposed, b):
        ctx.save_for_backward(transposed=transposed)
        return np.linalg.solve(a.T if transposed else a, b)

    @solve.backward(bool, ad.Vector)
    def _(ctx, grad_output):
        return {"b": solve(not ctx.saved_variables.transposed, grad_output)}

    return a, lambda b: solve(False, b)


def _uses_of(solve):
    """Functions of two numbers whose gradient is a constant, since they are linear."""
    return {
        "sum": lambda b: ad.sum(solve(b)),
        "scan": lambda b: ad.sum(ad.scan(lambda c, _: (solve(c), None), b, length=2)[0]),
        "cond": lambda b: ad.cond(ad.sum(b) > 100, ad.sum, lambda b: ad.sum(solve(b)), b),
        "checkpoint": lambda b: ad.sum(ad.checkpoint(solve)(b)),
        "where": lambda b: ad.sum(ad.where(b > 100, b, solve(b))),
    }


ROUTES = {
    "recorded": ad.hessian,
    "jit": lambda f: ad.jit(ad.hessian(f)),
    "vmap": lambda f: lambda b: ad.vmap(ad.hessian(f))(b[None])[0],
    "forward": lambda f: ad.jacobian(ad.grad(f), mode="forward"),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("use", ["sum", "scan", "cond", "checkpoint", "where"])
def test_a_second_derivative_through_a_host_function_of_a_constant_gradient_is_zero(use, route):
    """The rule hands the constant gradient of a sum to a host function: what that makes is a constant, too."""
    _, solve = _solves_with_rules()
    b = np.array([1.0, -2.0])
    solve(b)  # what it gives is known to traces
    f = _uses_of(solve)[use]
    assert np.array_equal(ROUTES[route](f)(b), np.zeros((2, 2)))
    np.testing.assert_allclose(ROUTES[route](lambda b: f(b) + ad.sum(b**3))(b), np.diag(6 * b))


def test_check_gradients_goes_through_a_host_function_whose_rule_calls_it_again():
    a, solve = _solves_with_rules()
    b, inverse = np.array([1.0, -2.0]), np.linalg.inv(a)
    ad.check_gradients(solve, b)
    np.testing.assert_allclose(ad.hessian(lambda b: ad.sum(solve(b) ** 2))(b), 2 * inverse.T @ inverse, rtol=1e-12)


def test_a_jvp_rule_written_with_host_functions_has_derivatives_of_its_own():
    @ad.function
    def sine(x): ...

    @ad.function
    def cosine(x): ...

    sine.forward(ad.Tensor, host=True)(lambda ctx, x: np.sin(x))
    cosine.forward(ad.Tensor, host=True)(lambda ctx, x: np.cos(x))
    sine.jvp(ad.Tensor)(lambda ctx, dx: dx * cosine(ctx.inputs.x))
    cosine.jvp(ad.Tensor)(lambda ctx, dx: -dx * sine(ctx.inputs.x))

    def slope(x):
        return ad.jvp(sine, (x,), (1.0,))[1]

    assert np.allclose(ad.jvp(slope, (1.0,), (1.0,)), (np.cos(1.0), -np.sin(1.0)))
    assert np.allclose(ad.jvp(lambda x: ad.jvp(slope, (x,), (1.0,))[1], (1.0,), (1.0,)), (-np.sin(1.0), -np.cos(1.0)))


@pytest.mark.parametrize("out", [None, "f64[]"], ids=["learnt", "declared"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda f: ad.grad(f)(2.0), lambda f: ad.jit(ad.grad(f))(2.0), lambda f: ad.grad(ad.jit(f))(2.0),
        lambda f: (f(2.0), ad.jit(ad.grad(f))(2.0))[1], lambda f: ad.vmap(ad.grad(f))(np.full(3, 2.0))[1],
        lambda f: ad.value_and_grad(f)(2.0)[1], lambda f: _backward_of(f),
    ],
)  # fmt: skip
def test_a_python_number_that_a_host_forward_returns_has_no_gradient_on_any_route(ask, out):
    """SciPy's `quad` and `brentq` return such; under `jit` the gradient was zero without a word."""

    def made(kind):
        @ad.function
        def square(a): ...

        square.forward(ad.Scalar, host=True, out=out)(lambda ctx, a: kind(a * a))
        square.backward(ad.Scalar)(lambda ctx, g: 2.0 * ctx.inputs.a * g)
        return square

    with pytest.raises(ad.GradientError, match=r"no output can carry one\n  called at test_host(.|\n)*np.float64\(y\)"):
        ask(made(float))
    assert float(ask(made(np.float64))) == 4.0


def _backward_of(f):
    a = ad.tensor(2.0, requires_grad=True)
    f(a).backward()
    return a.grad


WRITES = {
    "plainly": lambda f: f(X),
    "jit": lambda f: ad.jit(f)(X),
    "vmap": lambda f: ad.vmap(f)(np.eye(3)),
    "grad": lambda f: ad.grad(lambda x: ad.sum(f(x)))(X),
    "jit of grad": lambda f: ad.jit(ad.grad(lambda x: ad.sum(f(x))))(X),
}


@pytest.mark.parametrize(
    ("rule", "route"), [*[("forward", r) for r in WRITES], ("backward", "grad"), ("backward", "jit of grad")]
)
def test_a_write_into_what_a_host_rule_is_given_says_to_copy(rule, route):
    def writing(ctx, x):
        x[0] = 1.0
        return x

    @ad.function
    def f(x): ...

    f.forward(ad.Tensor, host=True)(writing if rule == "forward" else lambda ctx, x: x + 1.0)
    f.backward(ad.Tensor, host=True)(writing if rule == "backward" else lambda ctx, g: g)
    with pytest.raises(ValueError, match="read-only") as caught:
        WRITES[route](f)
    assert any(["np.array(x)" in note for note in caught.value.__notes__])


def test_a_list_in_the_place_of_a_tensor_is_told_to_be_made_an_array():
    @ad.function
    def f(x, n): ...

    f.method(ad.Tensor, ad.Number)(lambda x, n: x * n)
    with pytest.raises(ad.DispatchError, match=r"x is list, not Tensor: np.array\(x\) is an array of its numbers"):
        f([1.0, 2.0], 3)


@pytest.mark.parametrize("patience", [0, 8])
def test_the_error_of_a_host_function_comes_where_its_result_is_needed(patience):
    fails = [False]

    @ad.function
    def total(x): ...

    @total.forward(ad.Tensor, host=True)
    def _(ctx, x):
        if fails[0]:
            raise ValueError("not now")
        return np.float64(x.sum())

    total.backward(ad.Tensor)(lambda ctx, g: g * np.ones(3))
    f, before = ad.jit(lambda x: total(x) * 2.0), ad.config.patience
    ad.config.patience = patience
    try:
        for k in range(30):  # by Python and by machine code
            x, w = leaf(), leaf()
            fails[0], y = True, f(x) + 1.0
            other = (w * 3.0).sum()
            assert float(other.detach()) == 4.5
            pending = f(x) + k
            (w * w).sum().backward()
            np.testing.assert_array_equal(w.grad.numpy(), 2 * X)
            for t in (y, pending):
                with pytest.raises(ValueError, match="not now"):
                    t.item()
            fails[0] = False
            assert y.item() == 4.0 and pending.item() == 3.0 + k
    finally:
        ad.config.patience = before
