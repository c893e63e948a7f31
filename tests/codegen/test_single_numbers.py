"""Functions of one number at a time: where one result is needed for the next, or there is one per row."""

import numpy as np
import pytest

import autodiff as ad

FUNCTIONS = {
    "acosh": ad.acosh, "asinh": ad.asinh, "atan": ad.atan, "atanh": ad.atanh, "log": ad.log, "log1p": ad.log1p,
    "log2": ad.log2, "log10": ad.log10, "pow": lambda x: ad.abs(x) ** (x + 0.25),
    "atan2": lambda x: ad.atan2(x, 0.5 - x), "exp": ad.exp, "tanh": ad.tanh, "erf": ad.erf, "sin": ad.sin,
}  # fmt: skip
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 3.7, -2.2, 1e-30, 1e30, 5e-324, np.inf, -np.inf, np.nan)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_single_number_has_the_function_it_has_in_an_array(name, dtype, rng):
    f = ad.jit(FUNCTIONS[name])
    x = np.concatenate([np.array(SPECIAL).astype(dtype), rng.normal(size=19).astype(dtype)])
    whole = f(x)
    singles = np.stack([f(one) for one in x])
    assert singles.dtype == dtype
    np.testing.assert_allclose(singles, whole, rtol=4 * np.finfo(dtype).eps, atol=0)
    np.testing.assert_array_equal(np.signbit(singles[~np.isnan(whole)]), np.signbit(whole[~np.isnan(whole)]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loop_takes_the_logarithm_of_what_it_took_one_of(dtype):
    f = ad.jit(lambda x: ad.scan(lambda c, v: (ad.log1p(c * c) + v, c), x[0], x)[0])
    x = np.linspace(0.1, 0.9, 300).astype(dtype)
    expected = np.float64(x[0])
    for v in x.astype(np.float64):
        expected = np.log1p(expected * expected) + v
    np.testing.assert_allclose(f(x), expected, rtol=2e-5 if dtype == np.float32 else 1e-13)


def test_rows_have_their_logarithms_in_whole_registers(rng):
    x = rng.normal(size=(500, 10))
    expected = np.log(np.exp(x).sum(axis=1))
    np.testing.assert_allclose(ad.jit(lambda x: ad.logsumexp(x, axis=1))(x), expected, rtol=1e-13, atol=1e-15)
