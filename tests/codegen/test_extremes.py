"""The greatest and the smallest of a loop, and their places, as NumPy has them: nan wins, the first of equals stays."""

import numpy as np
import pytest

import autodiff as ad

REDUCTIONS = {name: (getattr(ad, name), getattr(np, name)) for name in ("max", "min", "argmax", "argmin")}
#: Of vectors of 8 and 16 numbers, four at a time: none, some, a rest of one, several and none, and in blocks.
LENGTHS = (1, 2, 15, 31, 64, 65, 127, 128, 316, 4096, 4097, 20000)


def rows(rng, length, dtype):
    """Few values, so that equals are many; extremes at either end; zeros of both signs; infinities; nans."""
    found = [rng.integers(-3, 4, length).astype(dtype) for _ in range(3)]
    found += [np.arange(length, dtype=dtype) * sign for sign in (1, -1)]
    if np.dtype(dtype).kind == "f":
        found += [np.full(length, v, dtype) for v in (np.inf, -np.inf, np.nan)]
        found += [np.where(rng.random(length) < 0.5, dtype(0.0), dtype(-0.0))]
        for count in (1, 3):
            some = rng.normal(size=length).astype(dtype)
            some[rng.integers(0, length, count)] = np.nan
            found.append(some)
        last = rng.normal(size=length).astype(dtype)
        last[-1] = -np.inf
        found.append(last)
    return np.stack(found)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_extremes_of_all_and_of_rows_are_those_of_numpy(name, dtype, rng):
    ours, reference = REDUCTIONS[name]
    for length in LENGTHS:
        x = rows(rng, length, dtype)
        np.testing.assert_array_equal(ad.jit(lambda x: ours(x, axis=1))(x), reference(x, axis=1))
        f = ad.jit(lambda x: ours(x))
        for row in x:
            np.testing.assert_array_equal(f(row), reference(row))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_bits_have_extremes_too(name, rng):
    ours, reference = REDUCTIONS[name]
    for length in LENGTHS:
        x = rng.random((5, length)) < 1.5 / length
        np.testing.assert_array_equal(ad.jit(lambda x: ours(x, axis=1))(x), reference(x, axis=1))


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes_of_columns_are_those_of_numpy_by_the_comparison_that_rows_have(name, dtype, rng):
    ours, reference = REDUCTIONS[name]
    f = ad.jit(lambda x: ours(x, axis=0))
    for length in (1, 31, 316):
        x = rows(rng, length, dtype)
        for columns in (x, x[::-1].copy(), np.ascontiguousarray(x.T)):
            np.testing.assert_array_equal(f(columns), reference(columns, axis=0))
    text = str(ad.inspect(lambda x: ours(x, axis=0), np.zeros((300, 400), dtype)).llvm)
    assert "fcmp o" in text and "llvm.maximum" not in text and "llvm.minimum" not in text


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.bool_])
def test_places_are_counted_from_where_the_loop_begins(name, dtype, rng):
    """In rows of a matrix, of what is read by steps or backwards, of what broadcasting made, and not at all."""
    ours, reference = REDUCTIONS[name]
    for n, m in ((3, 5), (7, 64), (5, 65), (4, 131), (2, 1000)):
        x = rng.integers(-2, 3, (n, m)).astype(dtype)
        x[-1, m // 2] = dtype(3)
        for a in (x, x[::-1], x[:, ::-1], x[:, ::3], np.broadcast_to(x[0], x.shape)):
            f, g = ad.jit(lambda a: ours(a)), ad.jit(lambda a: ours(a * a, axis=1))
            assert f(a) == reference(a)
            np.testing.assert_array_equal(g(a), reference(a * a, axis=1))
    same = np.full((3, 200), np.array(1, dtype))
    np.testing.assert_array_equal(ad.jit(lambda a: ours(a, axis=1))(same), [0, 0, 0])
