"""Things that a trace takes for fixed: numbers of the program, and values of tensors that it made and changed."""

import operator

import numpy as np
import pytest

import autodiff as ad
from codegen import compiler

X = np.array([0.3, -0.4, 1.5])


def test_equal_numbers_of_a_program_are_one_input_of_what_is_compiled():
    def f(x):
        return ad.sum(ad.sin(x * 0.3) - 0.3 * x + 0.5 * x * x - 0.5)

    with compiler.recorded() as graphs:
        value, slope = ad.jit(ad.value_and_grad(f))(X)
    assert [node.aval.shape for node in graphs[-1].inputs] == [(3,), (), ()]
    assert ad.inspect(f, X).graph.splitlines()[0] == "f(x: f64[3], x1: f64[], x2: f64[]) {"
    np.testing.assert_allclose(value, np.sum(np.sin(0.3 * X) - 0.3 * X + 0.5 * X * X - 0.5), rtol=1e-14)
    np.testing.assert_allclose(slope, 0.3 * np.cos(0.3 * X) - 0.3 + X, rtol=1e-14)


def test_numbers_that_differ_by_a_sign_or_a_class_are_not_equal():
    numbers = 0, 0.0, -0.0, 1, 1.0, True, np.nan
    y = ad.jit(lambda x, k: [*[x * n for n in numbers], *[k * n for n in numbers]])(X, np.array([1, 2]))
    for found, expected in zip(y, [*[X * n for n in numbers], *[np.array([1, 2]) * n for n in numbers]], strict=True):
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
        assert found.dtype == expected.dtype


@pytest.mark.parametrize("make", [ad.asarray, ad.tensor, lambda x: ad.tensor([x])], ids=["number", "tensor", "array"])
def test_a_tensor_that_is_made_in_a_trace_and_changed_there_was_what_it_was(make):
    def f(x):
        c = make(0.5)
        before = x * c
        c += 1.0
        return before, x * c, x * 0.5

    compiled = ad.jit(f)
    for x in (X, ad.tensor(X)):
        for _ in range(3):
            for found, expected in zip(compiled(x), (0.5 * X, 1.5 * X, 0.5 * X), strict=True):
                np.testing.assert_array_equal(np.asarray(found), expected)
    x = ad.tensor(X, requires_grad=True)
    sum(compiled(x)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full(3, 2.5))


def test_numbers_of_tensors_that_somebody_holds_are_not_those_of_the_program():
    held = [ad.asarray(0.5), ad.tensor(0.5)]

    def f(x):
        if len(held) == 2:
            held.append(ad.asarray(0.5))
        return x * held[0], x * held[1], x * held[2], x * 0.5

    compiled = ad.jit(f)
    for k in range(3):
        np.testing.assert_array_equal(np.asarray(compiled(X)), [X * n for n in (0.5 + k, 0.5 + 2 * k, 0.5 - k, 0.5)])
        for t, by in zip(held, (1.0, 2.0, -1.0), strict=True):
            t += by


INTS = np.array([1, 2, 3], np.int32)
MEETINGS = {
    "sum": lambda x, n: x * 2 + n,
    "number first": lambda x, n: n - x,
    "clip": lambda x, n: ad.clip(x, 0, n),
    "where": lambda x, n: ad.where(x > 1, x, n),
    "stack": lambda x, n: ad.stack([x[0], n]),
    "full": lambda x, n: ad.full_like(x, n),
    "pad": lambda x, n: ad.pad(x, 1, constant_values=n),
    "nested": lambda x, n: ad.jit(lambda x, m: x + m)(x, n),
    "loop": lambda x, n: ad.fori_loop(0, 2, lambda i, s: s + n, x),
    "computed": lambda x, n: x + (n * 2 - n),
    "computed and rounded": lambda x, n: x + round(n * 1.0) * 1,
    "computed and filled": lambda x, n: ad.full_like(x, n + 1 - 1),
    "computed outside": lambda x, n: ad.jit(lambda x, m: x + m)(x, n + 0),
    "computed inside": lambda x, n: ad.jit(lambda x, m: x + (m + 0))(x, n),
    "closed over": lambda x, n: ad.jit(lambda x: x + (n + 0))(x),
    "computed in a loop": lambda x, n: ad.fori_loop(0, 2, lambda i, s: s + (n + 0), x),
    "computed for each": lambda x, n: ad.vmap(lambda e: e + (n + 0))(x),
}


def assigned(x, n):
    x = x + 0
    x[0] = n
    return x


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**62], ids=str)
@pytest.mark.parametrize("f", [*MEETINGS.values(), assigned], ids=[*MEETINGS, "assigned"])
def test_an_int_that_int32_does_not_have_is_refused_at_the_first_and_at_a_known_call(f, number):
    compiled = ad.jit(f)
    for x in (INTS, ad.tensor(INTS)):
        for _ in range(3):
            with pytest.raises(OverflowError, match=rf"{number} does not fit i32\n  called at test_jit_numbers.py"):
                compiled(x, number)
            np.testing.assert_array_equal(np.asarray(compiled(x, 7)), np.asarray(f(ad.tensor(INTS), 7)))
    for length in range(4, 12):  # sizes that do not come again
        with pytest.raises(OverflowError, match="does not fit i32"):
            compiled(np.ones(length, np.int32), number)
        compiled(np.ones(length, np.int32), 7)


def test_an_int_that_meets_no_int32_may_be_as_large_as_64_bits_are():
    compiled = ad.jit(lambda x, n: (x.astype(ad.int64) + n, x * 1.0 + n, ad.astype(n, ad.int32)))
    for _ in range(3):
        found = compiled(INTS, 2**40)
        np.testing.assert_array_equal(found[0], INTS.astype(np.int64) + 2**40)
        np.testing.assert_array_equal(found[1], INTS + 2.0**40)
        assert found[2] == 0
    with pytest.raises(OverflowError, match=r"jit: the argument 9223372036854775808 does not fit i64\n  called"):
        compiled(INTS, 2**63)


def test_an_int_that_is_computed_of_two_is_looked_at_in_each_call():
    compiled = ad.jit(lambda x, n, m: x + (n + m))
    for _ in range(3):
        np.testing.assert_array_equal(compiled(INTS, 2**31 - 3, -(2**30)), INTS + np.int32(2**30 - 3))
        with pytest.raises(OverflowError, match="the number 2147483648 does not fit i32"):
            compiled(INTS, 2**31 - 1, 1)


#: Of numbers: of Python's operators a number, of functions an array of the dtype that numbers have by themselves.
OPERATORS = {
    **{f.__name__: f for f in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv)},
    **{f.__name__: f for f in (operator.mod, operator.pow, operator.lt, operator.eq)},
    "divmod": lambda n, m: sum(divmod(n, m)),
    "unary": lambda n, m: abs(-n) + m,
    "round": lambda n, m: round(n) + m,
    "digits": lambda n, m: round(n, 1) * m,
    "real": lambda n, m: n.real * m.conjugate(),
    "chain": lambda n, m: (n + 1) / 2 * m - 1,
    "add in a function": ad.add,
    "maximum": ad.maximum,
    "power in a function": ad.power,
    "dot": ad.dot,
    "tensor": lambda n, m: ad.tensor(n) + ad.asarray(m),
    "stack": lambda n, m: ad.stack([n, m])[1],
    "full": lambda n, m: ad.full((2,), n) + m,
    "exp": lambda n, m: ad.exp(n) + m,
    "where": lambda n, m: ad.where(ad.greater(n, m), n, m),
    "stop_gradient": lambda n, m: ad.stop_gradient(n) * m,
    "dense": lambda n, m: ad.dense(n) * m,
}


@pytest.mark.parametrize("f", OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize("x", [np.array([1.5, 2.0], np.float32), INTS[:2]], ids=["f32", "i32"])
@pytest.mark.parametrize(("n", "m"), [(2, 3), (2.5, 2), (True, True), (3, 0.5), (True, 2)])
def test_numbers_of_numbers_take_part_in_a_trace_as_they_do_where_it_is_recorded(f, x, n, m):
    recorded = f(n, m) * ad.tensor(x)
    compiled = ad.jit(lambda x, n, m: f(n, m) * x)(x, n, m)
    np.testing.assert_allclose(compiled, recorded.numpy(), rtol=1e-6)
    assert compiled.dtype == recorded.dtype


def test_a_number_of_a_trace_is_not_changed_in_place():
    def f(x, n):
        before = n
        n += 1
        n *= 2.5
        return x * before, x * n

    for found, expected in zip(ad.jit(f)(X, 2), f(X, 2), strict=True):
        np.testing.assert_array_equal(found, expected)
