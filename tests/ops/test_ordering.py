"""Orders by machine code are NumPy's stable ones, for each dtype, length, axis, and whatever the elements are."""

import numpy as np
import pytest

import autodiff as ad

#: Rows that one network sorts, that are cut apart first, of all axes; rows that threads share; nothing at all.
SHAPES = [
    ((0,), 0), ((1,), 0), ((32,), 0), ((33,), 0), ((64,), 0), ((65,), 0), ((3000,), 0), ((70_000,), 0),
    ((5, 128), 1), ((3, 129), 1), ((700, 2), 0), ((2047,), 0), ((2, 2048), 1), ((2049,), 0),
    ((7, 60, 3), 0), ((7, 60, 3), 1), ((7, 60, 3), 2), ((3, 0, 2), 1), ((3, 0, 2), 0), ((400, 316), 1), ((400, 316), 0),
]  # fmt: skip


def many(dtype, shape, rng):
    """Elements that are all different, that are often equal, and that are of all kinds."""
    if dtype == "bool":
        yield rng.integers(0, 2, shape).astype(bool)
        return
    yield (rng.standard_normal(shape) * 1000).astype(dtype)
    yield rng.integers(-3, 3, shape).astype(dtype)
    if dtype.startswith("int"):
        limits = np.iinfo(dtype)
        yield rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        return
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-30, 30, shape)).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    for j, special in enumerate((np.nan, -np.nan, -0.0, 0.0, np.inf, -np.inf, tiny, -tiny)):
        x[rng.integers(0, 12, shape) == j] = special
    yield x
    # Alike in all but their last bits, between two that are far away.
    close = (1 + np.finfo(dtype).eps * rng.integers(0, 900, shape)).astype(dtype)
    close[rng.integers(0, 40, shape) == 0] = 1e30
    close[rng.integers(0, 40, shape) == 0] = -1e30
    yield close


def stable(x, axis, descending):
    """The order by NumPy."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
def test_an_order_is_the_stable_one_of_numpy(dtype, descending, rng):
    for shape, axis in SHAPES:
        order = ad.jit(lambda x, axis=axis: ad.argsort(x, axis=axis, descending=descending))
        values = ad.jit(lambda x, axis=axis: ad.sort(x, axis=axis, descending=descending))
        for x in many(dtype, shape, rng):
            expected = stable(x, axis, descending)
            np.testing.assert_array_equal(order(x), expected)
            np.testing.assert_array_equal(values(x), np.take_along_axis(x, expected, axis))


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_rows_of_every_few_elements_are_ordered(dtype, rng):
    """Packed rows and columns, more and fewer than vectors have lanes, with many that are alike."""
    for n in (*range(1, 35), 47, 48, 49, 63, 64, 65, 95, 96, 97):
        for shape, axis in (((11, n), 1), ((n, 11), 0), ((2, n, 5), 1)):
            x = rng.integers(0, max(2, n // 3), shape).astype(dtype)
            order = ad.jit(lambda x, axis=axis: ad.argsort(x, axis=axis))(x)
            np.testing.assert_array_equal(order, np.argsort(x, axis, kind="stable"))


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 9, 4000])
def test_any_number_of_rows_has_the_orders_of_each_alone(rows, rng):
    x = rng.standard_normal((rows, 20))
    order = ad.jit(lambda x: ad.argsort(x))
    found = order(x)
    np.testing.assert_array_equal(found, np.argsort(x, 1, kind="stable"))
    np.testing.assert_array_equal(order(x[::-1]), found[::-1])


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("moved", [0, 1, 3, 200, 399])
def test_elements_that_only_their_last_bits_tell_apart_are_in_order(moved, dtype, rng):
    """Between a smallest and a largest number, so that words have no room for these bits."""
    rising = np.arange(400) + np.int64(2**62)
    x = rising.copy()
    x[rng.permutation(400)[:moved]] = rising[rng.integers(0, 400, moved)]
    x[[0, -1]] = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    x = x.view(np.float64) if dtype == "float64" else x
    x = np.nan_to_num(x, nan=1e300)
    for axis, rows in ((0, x), (1, np.stack([x, x[::-1]])), (0, np.stack([x, x[::-1]], axis=1))):
        order = ad.jit(lambda x, axis=axis: ad.argsort(x, axis=axis))(rows)
        np.testing.assert_array_equal(order, np.argsort(rows, axis, kind="stable"))


def test_an_order_in_a_loop_is_that_of_each_step(rng):
    xs = rng.standard_normal((20, 70))

    def run(xs):
        return ad.scan(lambda total, x: (total + ad.sort(x), ad.argsort(x)), ad.zeros(70), xs)

    total, orders = ad.jit(run)(xs)
    np.testing.assert_array_equal(orders, np.argsort(xs, axis=1, kind="stable"))
    np.testing.assert_allclose(total, np.sort(xs, axis=1).sum(axis=0), rtol=1e-13, atol=1e-13)
