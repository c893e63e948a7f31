"""`any` and `all` end early, and are what NumPy's are wherever what decides them is."""

import numpy as np
import pytest

import autodiff as ad

#: None, around a vector of 8 and 64, around two runs of 32 vectors of 64 and of 256, and in blocks.
LENGTHS = (0, 1, 7, 8, 9, 63, 64, 65, 4095, 4096, 4097, 16_383, 16_384, 16_385, 100_000)
DTYPES = [np.bool_, np.int32, np.int64, np.float32, np.float64]


def text_of(f, *args):
    return str(ad.inspect(f, *args).llvm)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_element_decides_wherever_it_is(dtype, rng):
    some, every = ad.jit(lambda x: ad.any(x)), ad.jit(lambda x: ad.all(x))
    for n in LENGTHS:
        for place in sorted({*(p for p in (0, 31, n // 2, n - 1) if 0 <= p < n), *rng.integers(0, max(n, 1), 3)}):
            x = np.zeros(n, dtype)
            assert not some(x) and every(1 - x if dtype is not np.bool_ else ~x)
            x[place : place + 1] = 1
            assert some(x) == x.any()
            y = ~x if dtype is np.bool_ else 1 - x
            assert every(y) == y.all()


@pytest.mark.parametrize("dtype", [np.bool_, np.float32])
def test_rows_end_by_themselves(dtype, rng):
    for m in (1, 64, 5000, 40_000):
        x = np.zeros((5, m), dtype)
        x[1, 0], x[2, m - 1], x[3] = 1, 1, 1
        for a in (x, x[:, ::-1], x[::-1, ::2]):
            np.testing.assert_array_equal(ad.jit(lambda x: ad.any(x, axis=1))(a), a.any(1))
            np.testing.assert_array_equal(ad.jit(lambda x: ad.all(x, axis=1))(a), a.all(1))


def test_nan_is_true_and_both_zeros_are_false():
    x = np.zeros(50_000)
    x[::2] = -0.0
    assert not ad.jit(lambda x: ad.any(x))(x)
    x[33_333] = np.nan
    assert ad.jit(lambda x: ad.any(x))(x)


def test_a_loop_that_only_asks_ends_early_and_one_that_does_more_does_not():
    x = np.zeros(20_000)
    assert "runs." in text_of(lambda x: ad.any(x > 0), x)
    assert "runs." in text_of(lambda x: (ad.any(x > 0), ad.all(x < 1)), x)

    def also_stored(x):
        y = x * 2
        return ad.any(y > 0), y

    assert "runs." not in text_of(lambda x: (ad.any(x > 0), ad.max(x)), x)
    x[0] = 1
    for n in (20, 600, 20_000):
        found, y = ad.jit(also_stored)(x[:n])
        assert found and y[0] == 2
        np.testing.assert_array_equal(y, x[:n] * 2)
    a, b, top = ad.jit(lambda x: (ad.any(x > 0), ad.all(x < 1), ad.max(x)))(x)
    assert (a, b, top) == (True, False, 1)


def test_two_questions_end_when_both_are_answered():
    f = ad.jit(lambda x: (ad.any(x > 1), ad.all(x < 2)))
    for first, second in ((0, 0), (0, 39_999), (39_999, 0), (17, 20_000)):
        x = np.zeros(40_000)
        x[first] = 1.5
        x[second] = max(x[second], 3.0)
        assert f(x) == ((x > 1).any(), (x < 2).all())
