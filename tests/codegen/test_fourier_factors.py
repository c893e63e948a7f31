"""Factors of Fourier transforms, and the order in which long ones are done."""

import numpy as np
import pytest
from fourier_numbers import is_near, numbers

import autodiff as ad
from codegen.runtime import fourier


def test_the_longest_columns_are_left_to_numpy(monkeypatch):
    monkeypatch.setattr(fourier, "_LONGEST", 100)
    z = numbers((128, 3), np.float64)
    is_near(ad.jit(lambda z: ad.fft.ifft(z, axis=0))(z), np.fft.ifft(z, axis=0), np.float64, 128)


@pytest.mark.parametrize("n", [7, 4096, 65_536, 100_000])
def test_factors_are_the_nearest_doubles(n):
    mpmath = pytest.importorskip("mpmath")
    j = np.unique([0, 1, n // 8, n // 4, n // 3, n // 2, n - 1, *np.random.default_rng(n).integers(0, n, 50)])
    found = fourier.roots(j, n, np.dtype(np.float64))
    with mpmath.workdps(40):
        for k, pair in zip(j.tolist(), found, strict=True):
            root = mpmath.exp(-2j * mpmath.pi * k / n)
            for part, exact in zip(pair.tolist(), (root.real, root.imag), strict=True):
                assert abs(part - exact) <= 0.51 * np.spacing(abs(part)) + 1e-18


def test_factors_of_long_rows_are_made_part_by_part(monkeypatch):
    j = np.arange(2, 20_002, 2).reshape(2, -1)
    together = fourier.roots(j, 1 << 15, np.dtype(np.float64))
    monkeypatch.setattr(fourier, "_AT_ONCE", 1_500)
    np.testing.assert_allclose(fourier.roots(j, 1 << 15, np.dtype(np.float64)), together, rtol=0, atol=2e-16)
    np.testing.assert_allclose(together @ [1, 1j], np.exp(-2j * np.pi * j / (1 << 15)), rtol=0, atol=2e-15)
