"""SEMANTICS 7: a number that a rule only computes with is an argument of the graph; one that it looks at counts."""

from __future__ import annotations

import cmath
import gc
import json
import math
import sys
import weakref
from fractions import Fraction

import numpy as np
import pytest
from custom_functions import mul_constant_function
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autodiff as ad
from autodiff.tape.plan import plans
from autodiff.tape.watched import WATCHED, Watch, plain

X = np.array([1.0, -2.0, 3.0])
ALPHA = 2.0
UNIT = 3


def pair(backward, forward=None):
    """A function of a tensor and anything, whose backward is given; forward saves the number as c."""

    @ad.function
    def f(x, c=None): ...

    def saving(ctx, x, c=None):
        ctx.save_for_backward(c=c)
        return x * 1.0

    f.forward(ad.Tensor)(forward or saving)
    f.backward(ad.Tensor)(backward)
    return f


def slope(f, *c, x=X):
    """The gradient of f(x, *c).sum()."""
    t = ad.tensor(x, requires_grad=True)
    f(t, *c).sum().backward()
    return t.grad.numpy()


def runs_of(function, work):
    """How often a Python function was entered while `work()` ran."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call" and frame.f_code is function.__code__

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


# ---------------------------------------------------------------- a thousand numbers


def test_a_thousand_constants_are_one_compile_and_one_run_of_the_rule():
    def rule(ctx, grad_output):
        return {"tensor": grad_output * ctx.saved_variables.constant}

    mul_constant = mul_constant_function(rule)
    x = ad.tensor(X, requires_grad=True)

    def work():
        for i in range(1000):
            x.grad = None
            c = 0.5 + i / 7
            mul_constant(x, c).sum().backward()
            np.testing.assert_array_equal(x.grad.numpy(), np.full(3, c))

    ad.clear_cache()
    compiled = ad.cache_info().compiles
    assert runs_of(rule, work) == 1
    assert ad.cache_info().compiles == compiled + 1


def test_wherever_a_rule_finds_a_number_it_is_an_argument():
    cell = 1.0

    def helper(g):
        return g * ALPHA + cell

    def rule(ctx, g, default=1.0, *, keyword=1.0):
        s = ctx.saved_variables
        number = s.c * 2 + s[1] - ctx.inputs.c / 4 + ctx.half // 1 + s.nested["k"][1] % 5
        return {"x": helper(g * number) * cell - UNIT * default + keyword + ALPHA}

    def forward(ctx, x, c):
        ctx.save_for_backward(c=c, d=c + 1, nested={"k": [None, c * 3]})
        ctx.half = c / 2
        return x * 1.0

    f = pair(rule, forward)

    def expected(c):
        number = c * 2 + (c + 1) - c / 4 + c / 2 // 1 + c * 3 % 5
        return np.full(3, (number * ALPHA + cell) * cell - UNIT * rule.__defaults__[0] + keyword + ALPHA)

    def work():
        nonlocal cell, keyword
        global ALPHA, UNIT
        for i in range(20):
            cell, ALPHA, UNIT, keyword = 1.0 + i, 2.0 + i, 3 + i, 4.0 - i
            rule.__defaults__ = (5.0 * i + 0.25,)
            rule.__kwdefaults__ = {"keyword": keyword}
            np.testing.assert_allclose(slope(f, 0.5 + i), expected(0.5 + i), rtol=1e-14)

    keyword = 1.0
    try:
        assert runs_of(rule, work) == 1
    finally:
        globals().update(ALPHA=2.0, UNIT=3)


def test_each_call_of_a_chain_has_numbers_of_its_own():
    def rule(ctx, g):
        return {"x": g * ctx.saved_variables.c}

    f = pair(rule)

    def chain(*numbers):
        def of(x, _=None):
            for c in numbers:
                x = f(x, c)
            return x

        return of

    def work():
        for numbers in ((1.0, 2.0, 3.0), (2.0, 2.0, 2.5), (0.5, -1.0, 4.0), (7.0, 0.0, 1.0)):
            np.testing.assert_array_equal(slope(chain(*numbers)), np.full(3, math.prod(numbers)))

    assert runs_of(rule, work) == 3


# ---------------------------------------------------------------- looks

LOOKS = {
    "cos": lambda c: math.cos(c),
    "branch": lambda c: 10.0 if c > 1.0 else 20.0,
    "truth": lambda c: 3.0 if c else 5.0,
    "int": lambda c: float(int(c)),
    "text": lambda c: len(f"{c:.3f}") * 1.0,
    "repr": lambda c: float(len(repr(c))),
    "round": lambda c: round(c, 1),
    "dictionary": lambda c: {0.5: 7.0}.get(c, 1.0),
    "power": lambda c: 2.0**c,
    "maximum": lambda c: max(c, 1.5),
    "ufunc": lambda c: np.exp(-abs(c)),
    "array": lambda c: np.full(3, c).sum(),
    "method": lambda c: float(c.is_integer()),
    "cmath": lambda c: abs(cmath.sqrt(c)),
    "derived": lambda c: 1.0 if c * 2 - 1 > 2.0 else c * 3,
    "numpy scalar": lambda c: np.float64(2.0) * c,
    "type": lambda c: 2.0 if type(c) is float else 3.0,
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_rule_that_looks_is_always_right(look):
    looks = LOOKS[look]
    f = pair(lambda ctx, g: g * looks(ctx.saved_variables.c))
    for c in (0.5, 2.25, -10.125, 0.5, 2.25, 3.0, -0.0, 0.0, 2.25):
        np.testing.assert_allclose(slope(f, c), np.full(3, looks(c)), rtol=1e-14)


def test_a_number_that_is_looked_at_counts_and_the_others_do_not():
    def rule(ctx, g):
        s = ctx.saved_variables
        return {"x": g * s.c * (1.0 if s.flag > 0 else -1.0)}

    def forward(ctx, x, c):
        ctx.save_for_backward(c=c[0], flag=c[1])
        return x * 1.0

    f = pair(rule, forward)

    def work():
        for i in range(30):
            c, flag = 0.5 + i, float(i % 3 - 1)
            np.testing.assert_array_equal(slope(f, (c, flag)), np.full(3, c if flag > 0 else -c))

    # Once without knowing, then for each value of the flag.
    assert runs_of(rule, work) <= 4


def test_a_number_looked_at_on_one_path_only_counts_from_then_on():
    def rule(ctx, g):
        a, b = ctx.saved_variables.c
        if a > 0 and b > 0:
            return {"x": g * 2.0}
        return {"x": g * b}

    f = pair(rule)
    for a, b in ((-1.0, 1.0), (-1.0, 2.0), (1.0, 2.0), (1.0, -2.0), (-1.0, 3.0), (1.0, 5.0), (1.0, -3.0)):
        np.testing.assert_array_equal(slope(f, (a, b)), np.full(3, 2.0 if a > 0 and b > 0 else b))


def test_a_number_that_becomes_an_axis_or_an_extent_counts():
    def rule(ctx, g):
        axis, n = ctx.saved_variables.c
        return {"x": ad.broadcast_to(g.sum(axis=axis, keepdims=True), g.shape) * n + ad.zeros(n).sum() + g[:n].sum()}

    f = pair(rule)
    x = np.arange(12.0).reshape(3, 4)
    for axis, n in ((0, 1), (1, 1), (0, 2), (1, 3), (0, 1)):
        g = np.ones((3, 4))
        expected = np.broadcast_to(g.sum(axis=axis, keepdims=True), g.shape) * n + g[:n].sum()
        np.testing.assert_array_equal(slope(f, (axis, n), x=x), expected)


def test_small_exponents_are_static():
    f = pair(lambda ctx, g: {"x": (ctx.inputs.x**ctx.saved_variables.c) * g})
    for c in (2, 3, 0.5, 2, -1, 2.5, 2):
        x = np.array([1.0, 2.0, 3.0])
        np.testing.assert_allclose(slope(f, c, x=x), x**c, rtol=1e-14)


def test_an_exception_depends_on_the_number_it_came_from():
    def rule(ctx, g):
        try:
            return {"x": g * (1.0 / ctx.saved_variables.c)}
        except ZeroDivisionError:
            return {"x": g * 100.0}

    f = pair(rule)
    for c in (2.0, 4.0, 0.0, 8.0, 0.0, 16.0):
        np.testing.assert_array_equal(slope(f, c), np.full(3, 1.0 / c if c else 100.0))


def test_what_a_rule_computes_and_does_not_use_raises_as_well():
    def rule(ctx, g):
        c = ctx.saved_variables.c
        return {"x": g * (1.0 % c, 2.0, g * c)[1]}

    f = pair(rule)
    for _ in range(2):
        for c in (2, 3.5, 4, 10**9):
            np.testing.assert_array_equal(slope(f, c), np.full(3, 2.0))
        for c, error in ((0, ZeroDivisionError), (0.0, ZeroDivisionError), (10**400, OverflowError)):
            with pytest.raises(error):
                slope(f, c)


def test_an_error_is_the_rule_s_own_whenever_it_comes():
    f = pair(lambda ctx, g: {"x": g * (1.0 / ctx.saved_variables.c)})
    slope(f, 2.0)
    slope(f, 4.0)
    for _ in range(3):
        x = ad.tensor(X, requires_grad=True)
        with pytest.raises(ZeroDivisionError):
            f(x, 0.0).sum().backward()
        assert x.grad is None
        np.testing.assert_array_equal(slope(f, 8.0), np.full(3, 0.125))


# ---------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    "numbers",
    [
        (float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 5e-324, 1.7e308),
        (1, -3, 0, 2**53 + 1, 10**18),
        (True, False, 1, 1.0, np.float64(2.5), np.float32(0.1), 0.1, np.int64(3), 2),
    ],
)
def test_every_kind_of_number_is_what_it_was_for_numpy(numbers):
    f = pair(lambda ctx, g: {"x": g * ctx.saved_variables.c + 0.0})
    for x in (X, X.astype(np.float32)):
        for c in (*numbers, *numbers):
            with np.errstate(all="ignore"):
                expected = (np.ones_like(x) * c).astype(x.dtype)
            np.testing.assert_array_equal(slope(f, c, x=x), expected)


def test_the_sign_of_a_zero_gets_through():
    f = pair(lambda ctx, g: {"x": g * ctx.saved_variables.c})
    for c in (1.0, 0.0, -0.0, 2.0, -0.0):
        np.testing.assert_array_equal(np.copysign(1.0, slope(f, c)), np.full(3, math.copysign(1.0, c)))


def test_a_complex_number_is_an_argument_too():
    def rule(ctx, g):
        return {"x": ad.real(g * ctx.saved_variables.c * 1j)}

    f = pair(rule)
    runs = runs_of(rule, lambda: [slope(f, c) for c in (1 + 2j, 3 - 1j, 0.5j)])
    assert runs == 1
    np.testing.assert_allclose(slope(f, 2 - 3j), np.full(3, 3.0))


def test_an_int_that_does_not_fit_raises_when_the_rule_runs_with_it():
    f = pair(lambda ctx, g: {"x": g * ad.sum(ad.ones(2, dtype=np.int64) * ctx.saved_variables.c)})
    for c in (3, 5):
        np.testing.assert_array_equal(slope(f, c), np.full(3, 2.0 * c))
    for c in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError):
            slope(f, c)
    np.testing.assert_array_equal(slope(f, 7), np.full(3, 14.0))


def test_a_huge_int_beside_floats_is_refused_as_numpy_refuses_it():
    f = pair(lambda ctx, g: {"x": g * (ctx.saved_variables.c * 10)})
    np.testing.assert_array_equal(slope(f, 10**20), np.full(3, 1e21))
    np.testing.assert_array_equal(slope(f, 10**30), np.full(3, 1e31))
    with pytest.raises(OverflowError):
        slope(f, 10**400)


# ---------------------------------------------------------------- what is not watched


def test_a_rule_that_writes_what_it_reads_gets_the_numbers_themselves():
    total = 0.0

    def rule(ctx, g):
        nonlocal total
        total += ctx.saved_variables.c
        return {"x": g * ctx.saved_variables.c}

    f = pair(rule)
    numbers = (1.5, 1.5, 2.5, 2.5, 2.5, 1.5)
    for i, c in enumerate(numbers, 1):
        np.testing.assert_array_equal(slope(f, c), np.full(3, c))
        assert type(total) is float and total == sum(numbers[:i])


def test_what_leaves_a_rule_behaves_like_the_number():
    kept = []

    def rule(ctx, g):
        kept.append(ctx.saved_variables.c * 2)
        return {"x": g * ctx.saved_variables.c}

    f = pair(rule)
    slope(f, 1.5)
    slope(f, 2.5)
    assert kept == [3.0, 5.0] and json.dumps([plain(x) for x in kept]) == "[3.0, 5.0]"


def test_other_numbers_meet_a_number_as_they_are():
    f = pair(lambda ctx, g: {"x": g * float(Fraction(1, 3) * ctx.saved_variables.c)})
    for c in (3, 6, 3):
        np.testing.assert_allclose(slope(f, c), np.full(3, c / 3))


def test_a_user_s_function_gets_the_number():
    @ad.function
    def scaled(g, c): ...

    @scaled.method(ad.Tensor, float)
    def _(g, c):
        assert type(c) is float
        return g * c

    @scaled.method(ad.Tensor, int)
    def _(g, c):
        return g * (c + 100)

    f = pair(lambda ctx, g: {"x": scaled(g, ctx.saved_variables.c)})
    for c in (1.5, 2.5, 2, 3, 1.5):
        np.testing.assert_array_equal(slope(f, c), np.full(3, c if type(c) is float else c + 100))


def test_what_the_methods_of_a_user_s_function_read_is_not_stale():
    factor = 1.0

    @ad.function
    def scaled(g): ...

    scaled.method(ad.Tensor)(lambda g: g * factor)
    f = pair(lambda ctx, g: {"x": scaled(g)})
    for factor in (1.0, 1.0, 1.0, 2.0, 3.0, 2.0):
        np.testing.assert_array_equal(slope(f), np.full(3, factor))


# ---------------------------------------------------------------- arrays


def test_an_array_that_meets_tensors_only_is_an_input():
    table = np.ones(3)

    def rule(ctx, g):
        s = ctx.saved_variables
        return {"x": g * s.a + s.a * (g * ctx.c) + table @ g + s.a.shape[0]}

    def forward(ctx, x, c):
        ctx.save_for_backward(a=np.arange(3.0) * c)
        ctx.c = c
        return x * 1.0

    f = pair(rule, forward)

    def work():
        for i in range(10):
            table[:] = i
            a = np.arange(3.0) * (i + 0.5)
            np.testing.assert_allclose(slope(f, i + 0.5), a + a * (i + 0.5) + 3.0 * i + 3, rtol=1e-14)

    assert runs_of(rule, work) == 1
    table[:] = 1.0
    assert table.flags.writeable


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3)[:, ::-1],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(2.5),
        np.arange(3, dtype=np.int64),
        np.arange(3, dtype=np.float32),
        np.array([True, False, True]),
        np.arange(3.0).astype(">f8"),
        np.arange(3.0)[None][:, :0].sum(axis=0).reshape(0)[:0].sum(),
    ],
)
def test_an_array_of_any_layout_is_read_right(array):
    held = array.copy() if isinstance(array, np.ndarray) else array

    def forward(ctx, x, c):
        ctx.save_for_backward(a=array)
        return x * 1.0

    f = pair(lambda ctx, g: {"x": g * ctx.saved_variables.a}, forward)
    x = np.ones(np.broadcast_shapes(np.shape(array), (3,)))
    for i in range(4):
        if isinstance(array, np.ndarray):
            array[...] = held if i % 2 else np.flip(held)
        np.testing.assert_allclose(slope(f, x=x), np.ones_like(x) * np.asarray(array, x.dtype))


def test_a_rule_that_looks_into_an_array_runs_each_time():
    def rule(ctx, g):
        return {"x": g * ctx.saved_variables.c.max()}

    f = pair(rule)
    runs = runs_of(rule, lambda: [slope(f, np.array([c])) for c in (1.0, 2.0, 3.0)])
    assert runs == 1, "an argument that is an array arrives as a tensor"
    f = pair(lambda ctx, g: {"x": g * float(ctx.a.max())}, lambda ctx, x, c: (setattr(ctx, "a", c[0]), x * 1.0)[1])
    for c in (1.0, 2.0, 3.0, 2.0):
        np.testing.assert_array_equal(slope(f, [np.array([c, 0.0])]), np.full(3, c))


def test_a_gradient_that_is_what_was_saved_is_its_own():
    def forward(ctx, x, c):
        ctx.save_for_backward(a=np.full(3, c))
        return x * 1.0

    f = pair(lambda ctx, g: {"x": ctx.saved_variables.a}, forward)
    for c in (1.0, 2.0, 3.0, 2.0):
        np.testing.assert_array_equal(slope(f, c), np.full(3, c))
    f = pair(lambda ctx, g: {"x": ctx.saved_variables.c})
    for c in (1.0, 2.0, 3.0, 2.0):
        x = ad.tensor(5.0, requires_grad=True)
        f(x, c).backward()
        assert x.grad.item() == c


def test_a_plan_keeps_no_array_that_a_rule_has_read():
    held = [np.arange(3.0)]

    def forward(ctx, x, c):
        ctx.save_for_backward(a=held[0])
        return x * 1.0

    f = pair(lambda ctx, g: {"x": g * ctx.saved_variables.a}, forward)
    for _ in range(3):
        slope(f)
    gone = weakref.ref(held.pop())
    assert gone() is None


def test_what_was_made_for_a_number_leaves_no_cycle_behind():
    f = pair(lambda ctx, g: {"x": g * ctx.saved_variables.c if ctx.saved_variables.c > 0 else g})
    slope(f, 0.25)
    gc.collect()
    gc.disable()
    try:
        for i in range(1, 101):  # each is looked at, so each makes a plan
            slope(f, i * 0.5)
        plans.clear()
        assert gc.collect() < 100
    finally:
        gc.enable()


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
    """What the rules use of `ad`, by NumPy."""

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
