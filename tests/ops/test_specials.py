"""nan, infinities, signed zeros, the smallest and largest numbers: native code gives what NumPy gives."""

import numpy as np
import pytest

import autodiff as ad

from .cases import eager
from .cases_elementwise import COMPARISONS, FUNCTIONS

UNARY = [
    *[name for name, *_ in FUNCTIONS],
    *("abs", "ceil", "floor", "isfinite", "isinf", "isnan", "logical_not", "negative", "relu", "rint", "sign"),
    *("square", "trunc"),
]
BINARY = [
    *("add", "arctan2", "divide", "floor_divide", "hypot", "logaddexp", "maximum", "minimum", "mod", "multiply"),
    *("power", "subtract", *COMPARISONS),
]
#: Functions that NumPy has not; their references are compared with formulas elsewhere.
OURS = {name for name in UNARY if not hasattr(np, name)}

each_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["f64", "f32"])
each_integer = pytest.mark.parametrize("dtype", [np.int64, np.int32], ids=["i64", "i32"])


def specials(dtype):
    info = np.finfo(dtype)
    sizes = [0.0, float(info.smallest_subnormal), float(info.tiny), 1e-5, 0.5, 1.0, 1.5, 2.0, 3.0, 25.5, 1e5]
    sizes += [float(info.max), np.inf]
    return np.array([*sizes, *[-x for x in sizes], np.nan], dtype)


def extremes(dtype):
    info = np.iinfo(dtype)
    return np.array([0, 1, -1, 2, -2, 3, 7, -7, 31, 63, 64, info.max, info.min, info.min + 1], dtype)


def by_reference(name, *xs):
    with eager():
        return np.asarray(getattr(ad, name)(*map(ad.tensor, xs)))


def natively(name, *xs):
    return np.asarray(getattr(ad, name)(*map(ad.tensor, xs)))


def agree(y, expected, ulps, signed=True):
    """Equal to some ulps of each element, nan and infinities alike, zeros (`signed`) with their signs."""
    assert y.dtype == expected.dtype
    if y.dtype.kind != "f":
        np.testing.assert_array_equal(y, expected)
        return
    tiny = float(np.finfo(y.dtype).smallest_subnormal)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(y, expected, rtol=ulps * float(np.finfo(y.dtype).eps), atol=4 * tiny)
    if signed:
        zeros = (expected == 0) & (y == 0)
        np.testing.assert_array_equal(np.signbit(y[zeros]), np.signbit(expected[zeros]))


def grid(values):
    return [x.copy() for x in np.meshgrid(values, values)]


@each_dtype
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number_know_the_specials(name, dtype):
    x = specials(dtype)
    reference = by_reference(name, x)
    if name not in OURS:
        with np.errstate(all="ignore"):
            agree(reference, getattr(np, name)(x), 2)
    agree(natively(name, x), reference, 4)


@each_dtype
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers_know_the_specials(name, dtype):
    x, y = grid(specials(dtype))
    reference = by_reference(name, x, y)
    with np.errstate(all="ignore"):
        agree(reference, getattr(np, name)(x, y), 2)
    # The larger of 0.0 and -0.0 depends on the machine in NumPy.
    agree(natively(name, x, y), reference, 4, signed=name not in ("maximum", "minimum"))


WRAPPING = ["add", "subtract", "multiply", "floor_divide", "mod", "maximum", "minimum", *COMPARISONS]


@each_integer
@pytest.mark.parametrize("name", WRAPPING)
def test_integers_wrap_and_never_trap(name, dtype):
    x, y = grid(extremes(dtype))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    agree(by_reference(name, x, y), expected, 0)
    agree(natively(name, x, y), expected, 0)


@each_integer
@pytest.mark.parametrize("name", ["left_shift", "right_shift"])
def test_shifts_by_any_number_are_defined(name, dtype):
    x, y = grid(extremes(dtype))
    expected = getattr(np, name)(x, y)
    agree(by_reference(f"bitwise_{name}", x, y), expected, 0)
    agree(natively(f"bitwise_{name}", x, y), expected, 0)


@each_integer
@pytest.mark.parametrize("name", ["abs", "negative", "sign", "square", "bitwise_invert"])
def test_the_least_integer_has_numpys_results(name, dtype):
    x = extremes(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    agree(by_reference(name, x), expected, 0)
    agree(natively(name, x), expected, 0)


@each_dtype
@pytest.mark.parametrize("target", [np.int64, np.int32], ids=["i64", "i32"])
def test_floats_that_no_integer_holds_give_the_least(dtype, target):
    x = specials(dtype)
    with eager():
        reference = np.asarray(ad.astype(ad.tensor(x), target))
    agree(np.asarray(ad.astype(ad.tensor(x), target)), reference, 0)
    least = np.iinfo(target).min
    inside = np.abs(np.where(np.isnan(x), np.inf, x)) < 2.0 ** (8 * np.dtype(target).itemsize - 1)
    np.testing.assert_array_equal(reference[~inside], least)
    np.testing.assert_array_equal(reference[inside], x[inside].astype(target))
