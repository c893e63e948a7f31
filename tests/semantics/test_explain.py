"""SEMANTICS 7: every miss has a reason that a person can read (`ad.explain`)."""

from __future__ import annotations

import re

import numpy as np
import pytest

import autodiff as ad


@pytest.fixture(autouse=True)
def fresh(nothing_to_explain):
    """Every test begins with empty caches, and with nothing noted."""
    ad.clear_cache()


def parameter(value):
    return ad.tensor(value, requires_grad=True)


def loss(w, x):
    return ad.sin(x @ w).sum()


def last():
    return ad.explain()[-1]


def test_a_first_ask_is_explained_with_its_line_and_what_was_compiled():
    w = parameter(np.ones(3))
    loss(w, ad.ones((4, 3))).backward()
    (miss,) = ad.explain()
    assert miss.what == "backward" and miss.times == 1 and miss.compiles == 1
    assert re.fullmatch(r"test_explain.py:\d+, in test_a_first_ask_is_explained_\w+", miss.line)
    assert miss.reason == "nothing like it was seen before"


def test_a_known_ask_is_not_mentioned():
    w = parameter(np.ones(3))
    for _ in range(10):
        w.grad = None
        loss(w, ad.ones((4, 3))).backward()
    assert len(ad.explain()) == 1


def test_another_extent_is_named_with_the_one_before():
    for n in (4, 5):
        w = parameter(np.ones(3))
        loss(w, ad.tensor(np.ones((n, 3)))).backward()
    assert last().reason == "an input is f64[5,3], before it was f64[4,3]: axis 0 has 5, before 4"


def test_an_array_is_told_from_a_tensor():
    f = ad.jit(lambda x: x * 2.0)
    f(np.ones(3))
    f(ad.ones(3))
    assert [miss.reason for miss in ad.explain() if miss.what.startswith("jit")] == [
        "the first call", "argument x is a tensor, before it was an array",
    ]  # fmt: skip


def test_another_dtype_is_named():
    for dtype in (np.float64, np.float32):
        (ad.tensor(np.ones(3), dtype=dtype) * 2.0).numpy()
    assert last().reason == "an input is f32[3], before it was f64[3]"


def test_another_operation_is_named():
    for f in (ad.sin, ad.cos):
        x = ad.tensor(np.ones(3))
        (f(x) * 2.0).sum().numpy()
    assert last().reason == "cos stands where sin stood"


def test_another_parameter_is_named():
    for axis in (0, 1):
        ad.exp(ad.tensor(np.ones((3, 3))).sum(axis=axis)).numpy()
    assert last().reason == "sum has the parameters (1,), before (0,)"


def test_an_existing_gradient_is_no_reason_for_another_program():
    w, told = parameter(np.ones(3)), []
    for _ in range(3):
        (w * 2.0).sum().backward()
        told.append([miss.times for miss in ad.explain()])
    assert told[0] == told[1] == told[2] and w.grad.tolist() == [6.0] * 3


def test_a_value_that_is_known_already_is_told():
    w = parameter(np.ones((3, 3)))
    for ask in (False, True):
        h = ad.exp(w) * 2.0
        if ask:
            h.detach().numpy()
        w.grad = None
        (h @ h).sum().backward()
    assert last().reason == "the value of mul is known already here"


def test_what_happens_at_each_turn_is_counted_at_one_line():
    w = parameter(np.ones(3))
    w.register_hook(lambda g: None)
    for _ in range(5):
        y = w * 2.0
        w.grad = None
        y.backward(np.ones(3))
    miss = last()
    assert (miss.times, miss.reason) == (5, "a hook on a leaf runs each time")
    assert miss.compiles == 1
    assert str(miss).startswith("5 times  test_explain.py:")


def test_a_rule_that_cannot_be_kept_is_named_with_its_place():
    settings = [2.0]

    @ad.function
    def f(t): ...

    @f.forward
    def _(ctx, t: ad.Tensor):
        return t * 1.0

    @f.backward
    def rule(ctx, g):
        return g * settings[0]

    x = parameter([1.0])
    for factor in (2.0, 2.0, 3.0):
        settings[0] = factor
        x.grad = None
        f(x).sum().backward()
        assert x.grad.item() == factor
    miss = last()
    assert miss.times == 3
    assert miss.reason.startswith("the backward of f (test_explain.py:")
    assert miss.reason.endswith("reads what no key can name: it runs each time")


def test_a_trace_is_explained():
    @ad.jit
    def f(x, k):
        return x * k

    f(np.ones(3), 2.0)
    assert last().what == "jit f" and last().reason == "the first call"
    f(np.ones(4), 2.0)
    assert last().reason == "argument x is f64[4], before it was f64[3]: axis 0 has 4, before 3"
    f(np.ones(4), 2)
    assert last().reason == "argument k is a int as i64[], before it was a float as f64[]"
    f(np.ones(4), k=2)
    assert "nested as" in last().reason


def test_inspect_shows_the_users_line_of_every_operation():
    def f(x):
        y = ad.sin(x)
        return y * x

    line = f.__code__.co_firstlineno
    _, sine, product, _ = ad.inspect(f, "f64[3]").tape.splitlines()
    assert sine.endswith(f"a = sin(x): f64[3]  # test_explain.py:{line + 1}, in f")
    assert product.endswith(f"b = mul(a, x): f64[3]  # test_explain.py:{line + 2}, in f")


def test_the_text_is_what_a_person_reads():
    assert str(ad.explain()) == "nothing was recorded or compiled anew"
    (ad.tensor(np.ones(3)) * 2.0).numpy()
    line = last().line
    assert str(ad.explain()) == f"{line}: value, 1 compiled\n    nothing like it was seen before"


# ---------------------------------------------------------------- rules that ask


def asking(look):
    """A function whose backward looks at the value of its cotangent."""

    @ad.function
    def f(x): ...

    f.forward(ad.Tensor)(lambda ctx, x: x * 2.0)

    @f.backward(ad.Tensor)
    def _(ctx, g):
        return g * (2.0 if look(g) > 0 else 3.0)

    return f


def told():
    """The explanation, with the lines of this file counted away."""
    return re.sub(r"(test_explain\.py):\d+", r"\1:N", str(ad.explain()))


@pytest.mark.parametrize("look", [lambda g: float(g.sum()), lambda g: np.asarray(g).sum()])
def test_a_rule_that_asks_for_a_value_is_named_once_with_its_line(look, golden):
    f = asking(look)
    x = parameter(np.ones(3))
    for _ in range(5):
        x.grad = None
        f(x).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 2.0))
    (miss,) = [m for m in ad.explain() if "asks for values" in m.reason]
    (rule,) = f.rules["backward"]
    assert miss.times == 5 and miss.reason.startswith(f"the backward of f ({rule.place}) asks for values")
    assert rule.place == f"test_explain.py:{rule.implementation.__code__.co_firstlineno}"
    golden(told())


def test_a_rule_that_asks_inside_jit_is_named_once(golden):
    f = asking(lambda g: float(g.sum()))
    compiled = ad.jit(ad.grad(lambda x: f(x).sum()))
    for n in (3, 4, 3):
        np.testing.assert_array_equal(compiled(np.ones(n)), np.full(n, 2.0))
    assert str(ad.explain()).count("asks for values") == 1
    golden(told())


def test_two_rules_that_ask_are_both_named_and_a_third_is_not():
    first, second = asking(lambda g: float(g.sum())), asking(lambda g: g.sum().item())
    x = parameter(np.ones(3))
    ad.sin(second(first(x))).sum().backward()
    assert last().reason.count("the backward of f (test_explain.py:") == 2


def test_loggers_are_told_of_what_is_recorded_and_of_what_is_compiled(caplog, monkeypatch):
    monkeypatch.setattr(ad.config, "patience", 8)
    w = parameter(np.ones(3))
    with caplog.at_level("DEBUG", "autodiff"):
        for _ in range(4):
            w.grad = None
            loss(w, np.ones((2, 3))).backward()
        ad.jit(ad.sin)(1.0)
    told = [(r.levelname, r.name, r.miss.compiles) for r in caplog.records]
    assert told == [
        ("DEBUG", "autodiff.trace", 0), ("INFO", "autodiff.compile", 1), ("INFO", "autodiff.compile", 1),
    ]  # fmt: skip
    assert re.fullmatch(
        r"test_explain\.py:\d+, in \w+: a program of \d+ operations, 1 compiled: it is run in a loop",
        caplog.records[1].getMessage(),
    )
    caplog.clear()
    with caplog.at_level("WARNING", "autodiff"):
        loss(w, np.ones((5, 3))).backward()
    assert not caplog.records


def explained(f, first, second, **options):
    """The reason of a second call that is traced anew."""
    step = ad.jit(f, **options)
    step(*first)
    step(*second)
    return last().reason


def model(w, params, scale=2.0):
    return ad.sum(w * scale) + ad.sum(params["b"])


B2, B25 = {"b": np.ones(2)}, {"b": np.ones((2, 5))}


@pytest.mark.parametrize(
    "first, second, reason",
    [
        ((np.ones(3), B2), (np.ones(4), B2), "argument w is f64[4], before it was f64[3]: axis 0 has 4, before 3"),
        ((np.ones(3), B25), (np.ones(3), {"b": np.ones((7, 5))}),
         "argument params['b'] is f64[7,5], before it was f64[2,5]: axis 0 has 7, before 2"),
        ((np.ones(3), B25), (np.ones(3), {"b": np.ones((3, 6))}),
         "argument params['b'] is f64[3,6], before it was f64[2,5]: axis 0 has 3, before 2, axis 1 has 6, before 5"),
        ((np.ones(3), B2), (np.ones(3), B25), "argument params['b'] is f64[2,5], before it was f64[2]"),
        ((np.ones(3), B2), (np.ones(3, np.float32), B2), "argument w is f32[3], before it was f64[3]"),
        ((np.ones(3), B2), (np.ones(3), {**B2, "c": 1.0}),
         "the arguments are nested in another way: params['c'] is new"),
        ((np.ones(3), B2), (np.ones(3), B2, 0.5), "the arguments are nested in another way: scale is new"),
        ((np.ones(3), B2, 0.5), (np.ones(3), B2), "the arguments are nested in another way: scale is gone"),
        ((np.ones(3), B2, 0.5), (np.ones(3), B2, 1),
         "argument scale is a int as i64[], before it was a float as f64[]"),
    ],
)  # fmt: skip
def test_a_reason_names_the_argument_the_axis_and_both_extents(first, second, reason):
    assert explained(model, first, second) == reason


def test_a_reason_names_static_values():
    reason = explained(lambda x, k: x * k, (np.ones(3), 2), (np.ones(3), 3), static_argnums=1)
    assert reason == "argument k is the static value 3, before it was the static value 2"




def test_a_jit_step_that_runs_as_it_is_recorded_is_told_as_one(monkeypatch):
    monkeypatch.setattr(ad.config, "patience", 8)

    @ad.jit
    def step(x):
        return (x * 2.0 + ad.sin(x)).sum()

    for n in range(3, 9):
        step(np.ones(n))
    told = [m.what for m in ad.explain() if "step" in m.what or m.what == "value"]
    assert told == ["jit step"] * 3 + ["jit step, as it is recorded"] * (len(told) - 3)
    assert len(told) > 3
