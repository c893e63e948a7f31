"""Fourier transforms in machine code: every way in which rows lie, by one block and taken apart, against NumPy."""

import numpy as np
import pytest
from fourier_numbers import is_near, numbers

import autodiff as ad

#: Of one number, of each radix, of several, long; of primes that are no radix.
EXTENTS = [1, 2, 12, 35, 64, 143, 360, 4096, 17, 38, 127, 131, 394]
#: Odd numbers of real ones.
ODD = [1, 3, 7, 15, 17, 61, 105, 131, 1001, 1331, 2001]
#: n elements, alone, in few rows, in many, and apart: fewer than a block has rows, and more.
WAYS = {
    "one row": (lambda n: (n,), 0), "three rows": (lambda n: (3, n), 1), "many rows": (lambda n: (19, n), 1),
    "columns": (lambda n: (n, 21), 0), "few columns": (lambda n: (5, n, 3), 1), "axes": (lambda n: (2, n, 11), 1),
}  # fmt: skip


def steps(f, *args):
    """(transforms, host calls) of a function."""
    rows = dict(line.rsplit(maxsplit=1) for line in str(ad.inspect(f, *args).stats).splitlines() if "  " in line)
    return int(rows["transforms"]), int(rows["host calls"])


@pytest.mark.parametrize(
    ("way", "dtype"), [*((way, np.float64) for way in WAYS), *((way, np.float32) for way in list(WAYS)[:4])]
)
def test_every_transform_of_every_extent_is_numpys(way, dtype):
    shape_of, axis = WAYS[way]
    for n in EXTENTS:
        z = numbers(shape_of(n), dtype, n)
        exact = z.astype(np.complex128)
        for name in ("fft", "ifft"):
            found = ad.jit(lambda z, name=name: getattr(ad.fft, name)(z, axis=axis))(z)
            is_near(found, getattr(np.fft, name)(exact, axis=axis), dtype, n)
        x = np.repeat(z.real, 2, axis)
        found = ad.jit(lambda x: ad.fft.rfft(x, axis=axis))(x)
        is_near(found, np.fft.rfft(x.astype(np.float64), axis=axis), dtype, n)
        half = numbers(shape_of(n + 1), dtype, n)
        found = ad.jit(lambda h, n=n: ad.fft.irfft(h, 2 * n, axis=axis))(half)
        is_near(found, np.fft.irfft(half.astype(np.complex128), 2 * n, axis=axis), dtype, n)


@pytest.mark.parametrize(
    ("way", "dtype"), [*((way, np.float64) for way in WAYS), *((way, np.float32) for way in list(WAYS)[:4])]
)
def test_an_odd_number_of_real_ones_is_transformed_too(way, dtype):
    shape_of, axis = WAYS[way]
    for n in ODD:
        x = numbers(shape_of(n), dtype, n).real.copy()
        found = ad.jit(lambda x: ad.fft.rfft(x, axis=axis))(x)
        is_near(found, np.fft.rfft(x.astype(np.float64), axis=axis), dtype, n)
        assert not found.take(0, axis).imag.any()
        half = numbers(shape_of(n // 2 + 1), dtype, n)
        found = ad.jit(lambda h, n=n: ad.fft.irfft(h, n, axis=axis))(half)
        is_near(found, np.fft.irfft(half.astype(np.complex128), n, axis=axis), dtype, n)


def test_extents_of_small_factors_are_transformed_natively_and_others_by_numpy():
    for n, found in ((360, (1, 0)), (13 * 11 * 8, (1, 0)), (17, (0, 1)), (4 * 19, (0, 1)), (997, (0, 1))):
        assert steps(lambda z: ad.fft.fft(z), numbers((4, n), np.float64)) == found
        assert steps(lambda x: ad.fft.rfft(x), np.ones(2 * n)) == found
    assert steps(lambda x: ad.fft.rfft(x), np.ones(45)) == (0, 1)
    assert steps(lambda z: ad.fft.irfft(z, 45), numbers(23, np.float64)) == (0, 1)
    assert steps(lambda z: ad.fft.fft(z), np.ones((0, 8), complex)) == (0, 0)


def test_every_prime_is_transformed():
    for n in [n for n in range(2, 140) if all(n % d for d in range(2, n))]:
        for rows in (1, 9):
            z = numbers((rows, n), np.float64, n)
            is_near(ad.jit(lambda z: ad.fft.fft(z))(z), np.fft.fft(z), np.float64, n)


def test_a_large_prime_errs_by_a_few_last_bits():
    n = 9973
    k = np.arange(n)
    z = np.exp(2j * np.pi * (k * 4 % n) / n) + 0.5 * np.exp(2j * np.pi * (k * (n - 7) % n) / n)
    found = ad.jit(lambda z: ad.fft.fft(z))(z)
    wanted = np.zeros(n, complex)
    wanted[4], wanted[n - 7] = n, n / 2
    assert np.linalg.norm(found - wanted) <= 4 * np.finfo(float).eps * np.linalg.norm(wanted)


@pytest.mark.parametrize("n", [5, 256, 20_000, 131, 2003])
@pytest.mark.parametrize("rows", [2, 100])
def test_any_number_of_threads_gives_the_same_bits(n, rows):
    z = numbers((rows, n), np.float64)
    f = ad.jit(lambda z: (ad.fft.fft(z), ad.fft.irfft(z)))
    before = ad.config.threads
    try:
        ad.config.threads = 1
        alone = f(z)
        ad.config.threads = 2
        for a, b in zip(alone, f(z), strict=True):
            assert a.tobytes() == b.tobytes()
    finally:
        ad.config.threads = before


def test_a_row_has_the_same_bits_beside_any_others():
    z = numbers((40, 96), np.float32)
    f = ad.jit(lambda z: ad.fft.fft(z))
    whole = f(z)
    for some in (slice(0, 9), slice(7, 20), slice(3, 40, 2)):
        assert np.array_equal(f(z[some]), whole[some])


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (2, 0, 3)])
def test_nothing_is_transformed_to_nothing(shape):
    axis = shape.index(8) if 8 in shape else 0
    f = ad.jit(lambda x: ad.fft.rfft(x, axis=axis))
    assert f(np.ones(shape)).shape == np.fft.rfft(np.ones(shape), axis=axis).shape


@pytest.mark.parametrize("shape", [(64,), (20, 32), (4096,), (3, 16, 9), (17,), (20, 15), (131,), (1001,)])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_where_numpy_has_it(shape, bad):
    axis = 1 if len(shape) > 1 else 0
    x = np.random.default_rng(1).normal(size=shape)
    f = ad.jit(lambda x: ad.fft.rfft(x, axis=axis))
    is_near(f(x), np.fft.rfft(x, axis=axis), np.float64, 64)
    x.flat[-1] = bad
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(f(x), np.fft.rfft(x, axis=axis))
    x.flat[-1] = 1.0
    is_near(f(x), np.fft.rfft(x, axis=axis), np.float64, 64)


@pytest.mark.parametrize("n", [4096, 1 << 16])
def test_a_long_row_whose_sums_are_infinite_is_left_to_numpy(n):
    """It is transformed in two steps, of which the second meets what is not finite."""
    f = ad.jit(ad.fft.fft)
    f(numbers((n,), np.float64, n))
    x = np.full(n, 1e307 + 0j)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(f(x), np.fft.fft(x))


def test_transforms_of_what_does_not_lie_packed():
    z = numbers((24, 48), np.float64)
    f = ad.jit(lambda z: ad.fft.fft(z))
    for a in (z.T, z[::-1, ::2], np.broadcast_to(z[:1], z.shape)):
        is_near(f(a), np.fft.fft(a), np.float64, 48)


def test_transforms_inside_loops():
    z = numbers((5, 16), np.float64)
    f = ad.jit(lambda z: ad.scan(lambda c, row: (c + ad.fft.fft(row * c), ad.fft.ifft(c)), z[0], z))
    (state, stacked), c, wanted = f(z), z[0], []
    for row in z:
        wanted.append(np.fft.ifft(c))
        c = c + np.fft.fft(row * c)
    np.testing.assert_allclose(state, c, rtol=1e-10)
    np.testing.assert_allclose(stacked, wanted, rtol=1e-10)


def test_threads_transform_at_once():
    """Blocks are no part of the code: calls do not meet."""
    from concurrent.futures import ThreadPoolExecutor

    f = ad.jit(lambda z: ad.fft.fft(z))
    arrays = [numbers((30, 128), np.float64, seed) for seed in range(16)]
    f(arrays[0])
    with ThreadPoolExecutor(4) as pool:
        for z, found in zip(arrays, pool.map(f, arrays), strict=True):
            is_near(found, np.fft.fft(z), np.float64, 128)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.float64])
def test_beside_a_number_what_is_not_finite_is_left_to_numpy_too(dtype):
    x = np.ones(6, dtype)
    x[2] = np.nan
    for c in (0.5, 2, True):
        found = (ad.fft.fft(ad.asarray(x)) * c).numpy()  # recorded: a program is called with the number itself
        assert found.dtype == np.result_type(x, np.complex64)
        assert np.isnan(found).all()
