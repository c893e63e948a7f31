"""SEMANTICS 7: random rules of numbers give what they give without being watched."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from watched_rules import X, slope

import autodiff as ad
from autodiff.tape.watched import WATCHED, Watch, plain

# ---------------------------------------------------------------- random rules


NAMES = ["s.a", "s[1]", "ctx.inputs.c[0]", "ctx.d", "cell", "k", "GLOBAL"]
STEPS = [
    "{p} + {q}", "{p} - {q}", "{p} * {q}", "{p} / 3.0", "-{p}", "abs({p})", "{p} // {q}", "{p} % {q}", "{p} / {q}",
    "2 - {p}", "{p} ** 2", "1.5 * {p}", "({p} if {q} > 1 else {q})", "math.sin({p})", "float(int({p}))",
    "max({p}, {q})", "round({p}, 1)", "float(np.float32({p}))", "1.0 * bool({p})", "({p} + {q}) * ({p} - {q})",
]  # fmt: skip
RESULTS = [
    "g * {p} + {q}", "ad.sin(g * {p}) / 2.0 - {q} * x", "ad.where(g > {p}, {q}, g)", "ad.clip(x, {p}, 2.0) * {q}",
]  # fmt: skip


@st.composite
def rules(draw):
    """The body of a rule, as text."""
    names = list(NAMES)
    lines = []
    for i in range(draw(st.integers(0, 5))):
        p, q = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        lines.append(f"t{i} = {draw(st.sampled_from(STEPS)).format(p=p, q=q)}")
        names.append(f"t{i}")
    p, q = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    return [*lines, f"return {draw(st.sampled_from(RESULTS)).format(p=p, q=q)}"]


def made(body, oracle=False):
    """The rule of these lines, in a module of its own; `set_cell` changes what it captures."""
    lines = "\n  ".join(body)
    text = f"def make(cell):\n def rule(ctx, g, k=1.0):\n  s, x = ctx.saved_variables, ctx.inputs.x\n  {lines}\n"
    text += " def set_cell(v):\n  nonlocal cell\n  cell = v\n return rule, set_cell\n"
    names = {"__name__": "a_user", "ad": _Numpy if oracle else ad, "np": np, "math": math, "GLOBAL": 1.0}
    exec(text, names)  # lines of this file
    return *names["make"](1.0), names


class _Numpy:
    """The functions of `ad` that the rules use, by NumPy."""

    sin, where, clip = np.sin, np.where, np.clip


class _Context:
    def __init__(self, x, numbers):
        a, b, c, d = numbers
        self.saved_variables = _Saved((a, b))
        self.inputs = type("Inputs", (), {"x": x, "c": (c,)})
        self.d = d


class _Saved(tuple):
    @property
    def a(self):
        return self[0]


numbers_of_a_rule = st.one_of(
    st.integers(-3, 3), st.floats(-4, 4, width=16), st.sampled_from([0.0, -0.0, 1.0, 2.0, float("inf"), float("nan")])
)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(rules(), st.lists(st.tuples(*[numbers_of_a_rule] * 7), min_size=3, max_size=6))
def test_random_rules_agree_with_numpy_for_any_numbers(body, rows):
    rule, set_cell, names = made(body)
    oracle, set_cell_there, names_there = made(body, oracle=True)

    @ad.function
    def f(x, c): ...

    @f.forward(ad.Tensor, object)
    def _(ctx, x, c):
        ctx.save_for_backward(a=c[1], b=c[2])
        ctx.d = c[3]
        return x * 1.0

    f.backward(ad.Tensor, object)(rule)
    for row in [*rows, *rows]:
        a, b, c, d, cell, k, GLOBAL = row
        for function, change, where in ((rule, set_cell, names), (oracle, set_cell_there, names_there)):
            function.__defaults__ = (k,)
            where["GLOBAL"] = GLOBAL
            change(cell)
        with np.errstate(all="ignore"):
            expected = _outcome(oracle, _Context(X, (a, b, c, d)), np.ones(3))
        found = _outcome(slope, f, (c, a, b, d))
        if isinstance(expected, type):
            assert found is expected
        else:
            np.testing.assert_allclose(found, np.broadcast_to(expected, 3), rtol=1e-13, atol=1e-13)


def _outcome(work, *args):
    try:
        return work(*args)
    except (ArithmeticError, ValueError) as error:
        return type(error)


def test_what_a_watched_number_is_not_asked_stays_unseen():
    watch = Watch([2.5, 3])
    a, b = watch.number(0), watch.number(1)
    w = -(a * 2 + b) / 3 - abs(b) ** 2 + 1j
    assert isinstance(a, float) and isinstance(b, int) and isinstance(w, complex) and not watch.looked
    assert type(a) in WATCHED and plain(b) == 3 and watch.looked == {1}
