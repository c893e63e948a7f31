"""SEMANTICS 7: a number that a rule only computes with is an argument of the graph; one that it looks at counts."""

from __future__ import annotations

import cmath
import math
from fractions import Fraction

import numpy as np
import pytest
from custom_functions import mul_constant_function
from watched_rules import X, pair, runs_of, slope

import autodiff as ad

ALPHA = 2.0
UNIT = 3


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


def test_numbers_beside_an_array_that_the_library_makes_are_arguments():
    def rule(ctx, g):
        return {"x": g * ctx.saved_variables.c * ad.ones(3)}

    f = pair(rule)

    def work():
        for i in range(9):
            np.testing.assert_array_equal(slope(f, 0.5 + i), np.full(3, 0.5 + i))

    assert runs_of(rule, work) == 1


@pytest.mark.parametrize(
    "make", [lambda n: ad.sum(ad.ones(n)), lambda n: ad.sum(ad.arange(n)), lambda n: ad.sum(ad.eye(9, k=n)),
             lambda n: ad.sum(ad.arange(0.0, 60.0, n))], ids=["ones", "arange", "eye", "step"],
)  # fmt: skip
def test_a_number_that_decides_what_array_is_made_counts(make):
    f = pair(lambda ctx, g: {"x": g * make(ctx.saved_variables.c)})
    for n in (2, 3, 2, 5, 3, 2, 6, 5):
        np.testing.assert_array_equal(slope(f, n), np.full(3, float(make(n))))


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
