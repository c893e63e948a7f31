"""eigh, qr and svd: steps that call NumPy, with what NumPy gives."""

import numpy as np
import pytest

import autodiff as ad
from codegen import blas
from codegen.modes import modes

SHAPES = [(1, 1), (4, 4), (3, 5, 5), (2, 3, 7, 7), (67, 67)]
DTYPES = [np.float32, np.float64]


def parts(routine, a):
    """Of the library, as arrays."""
    return ad.jit(lambda a: tuple(getattr(ad.linalg, routine)(a)))(a)


def symmetric(a):
    return (a + np.swapaxes(a, -1, -2)) / 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_eigh_is_numpys_to_the_bit(shape, dtype):
    a = symmetric(np.random.default_rng(0).normal(size=shape)).astype(dtype)
    for found, wanted in zip(parts("eigh", a), np.linalg.eigh(a), strict=True):
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (7, 2), (2, 90, 3), (5, 1)])
def test_qr_is_numpys_to_the_bit(shape, dtype):
    a = np.random.default_rng(1).normal(size=shape).astype(dtype)
    for found, wanted in zip(parts("qr", a), np.linalg.qr(a), strict=True):
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (7, 2), (2, 3, 90), (5, 1), (1, 5)])
def test_svd_is_numpys_to_the_bit(shape, dtype):
    a = np.random.default_rng(2).normal(size=shape).astype(dtype)
    found = ad.jit(lambda a: tuple(ad.linalg.svd(a, full_matrices=False)))(a)
    for one, wanted in zip(found, np.linalg.svd(a, full_matrices=False), strict=True):
        assert np.array_equal(one, wanted)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_matrices_that_are_not_finite_are_left_to_the_reference(bad):
    a = np.stack([np.eye(3), np.full((3, 3), bad)])
    s = ad.jit(ad.linalg.svdvals)(a)
    assert np.array_equal(s[0], np.ones(3))
    assert np.isnan(s[1]).all()
    q, r = parts("qr", a)
    assert np.array_equal(np.abs(q[0]), np.eye(3))
    assert not np.isfinite(r[1]).all()


def test_a_loop_decomposes_in_each_step():
    a = symmetric(np.random.default_rng(3).normal(size=(5, 4, 4)))
    f = ad.jit(lambda a: ad.scan(lambda c, x: (c + ad.linalg.eigvalsh(x + c), c), np.zeros((4, 4)), a)[0])
    carry = np.zeros((4, 4))
    for x in a:
        carry = carry + np.linalg.eigvalsh(symmetric(x + carry))
    assert np.allclose(f(a), carry, rtol=1e-13, atol=1e-13)


def test_where_bits_must_not_depend_on_threads_numpy_is_called_with_one(monkeypatch):
    if not blas.is_settable():
        pytest.skip("the threads of this NumPy's BLAS cannot be set")
    a = np.random.default_rng(6).normal(size=(4, 6))
    f = ad.jit(ad.linalg.svdvals)
    natively = f(a)
    found, svd = [], np.linalg.svd
    monkeypatch.setattr(np.linalg, "svd", lambda *a, **k: found.append(blas.threads_of_blas()) or svd(*a, **k))
    monkeypatch.setattr(modes, "deterministic", True)
    assert np.allclose(f(a), natively, rtol=1e-14)
    assert [set(counts) for counts in found] == [{1}]


def test_a_host_step_between_kernels_sees_and_writes_its_arrays():
    x = np.random.default_rng(5).normal(size=12)
    f = ad.jit(lambda x: ad.abs(ad.fft.rfft(ad.sin(x)) * 2.0).sum())
    wanted = np.abs(np.fft.rfft(np.sin(x)) * 2.0).sum()
    for _ in range(3):
        assert np.isclose(f(x), wanted, rtol=1e-13)
