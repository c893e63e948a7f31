"""Laws of Fourier transforms that the sweep does not see: complex gradients, NumPy's names, dtypes, errors."""

import numpy as np
import pytest

import autodiff as ad

F = ad.fft
Z = np.array([1 + 2j, 0.5 - 1j, -0.7 + 0.2j, 0.3 + 0.1j, 2 - 0.4j])


@pytest.mark.parametrize("n", [4, 5, 7])
@pytest.mark.parametrize("name", ["fft", "ifft", "irfft"])
def test_gradients_of_complex_arguments_are_those_of_differences(name, n, rng):
    def f(z):
        y = getattr(F, name)(z, n)
        w = np.cos(np.arange(n)) + (1j * np.sin(3.0 * np.arange(n)) if y.dtype.kind == "c" else 0)
        return ad.sum(ad.real(ad.conj(y) * y * w) + ad.real(w * y))

    g = ad.grad(f)(Z)
    np.testing.assert_allclose(ad.jit(ad.grad(f))(Z), g, rtol=1e-12)
    for direction in (rng.normal(size=5) + 0j, 1j * rng.normal(size=5)):
        difference = (f(Z + 1e-6 * direction) - f(Z - 1e-6 * direction)).item() / 2e-6
        np.testing.assert_allclose(np.sum(np.conj(g) * direction).real, difference, rtol=1e-7, atol=1e-8)
        _, slope = ad.jvp(f, (Z,), (direction,))
        np.testing.assert_allclose(slope, difference, rtol=1e-7, atol=1e-8)


def test_a_transform_there_and_back_is_the_same(rng):
    x = rng.normal(size=(3, 7))
    np.testing.assert_allclose(F.irfft(F.rfft(x), 7), x, atol=1e-14)
    np.testing.assert_allclose(ad.real(F.ifftn(F.fftn(x))), x, atol=1e-14)
    np.testing.assert_allclose(ad.grad(lambda x: ad.sum(F.irfft(F.rfft(x), 7) ** 2))(x), 2 * x, atol=1e-13)


def test_float32_stays_float32():
    x = np.ones(4, np.float32)
    assert F.fft(x).dtype == F.rfft(x).dtype == F.ifft(x.astype(np.complex64)).dtype == np.complex64
    assert F.irfft(F.rfft(x)).dtype == ad.grad(lambda x: ad.sum(ad.abs(F.rfft(x))))(x).dtype == np.float32
    assert F.fft(np.arange(4)).dtype == np.complex128


@pytest.mark.parametrize("name", [n for n in F.__all__ if not n.endswith("freq")])
def test_numpys_functions_of_tensors_record(name, rng):
    a = rng.normal(size=(4, 6))
    x = ad.tensor(a, requires_grad=True)
    y = getattr(np.fft, name)(x)
    assert y.requires_grad
    np.testing.assert_allclose(y.detach(), getattr(np.fft, name)(a), atol=1e-13)


def test_an_axis_that_is_not_there_is_named_with_what_was_given():
    for call in (lambda x: F.fft(x, axis=5), lambda x: F.irfft(x, axis=5), lambda x: F.fftn(x, axes=(5,))):
        with pytest.raises(ad.ShapeError, match=r"no axis 5 in i64\[3,4\]"):
            call(np.ones((3, 4), np.int64))


def test_what_has_no_transform_is_refused():
    for call, error, match in (
        (lambda: F.fft(np.ones(0)), ad.ShapeError, "fft.fft: 0 elements have no transform"),
        (lambda: F.fft(np.float64(1.0)), ad.ShapeError, "fft.fft: no axis -1"),
        (lambda: F.irfft(np.ones(1)), ad.ShapeError, "fft.irfft: 0 elements"),
        (lambda: F.rfft(np.ones(3) * 1j), ad.DTypeError, "fft.rfft: takes float arrays"),
        (lambda: F.fft(np.ones(3), norm="both"), ad.DispatchError, "norm is 'backward', 'forward' or 'ortho'"),
        (lambda: F.fftn(np.ones((2, 3)), s=(2,), axes=(0, 1)), ad.ShapeError, "1 sizes for 2 axes"),
        (lambda: F.rfftn(np.float64(1.0)), ad.ShapeError, "fft.rfftn: one axis at least, of f64"),
        (lambda: F.irfftn(np.ones((2, 3)), axes=()), ad.ShapeError, "fft.irfftn: one axis at least"),
    ):
        with pytest.raises(error, match=match):
            call()
