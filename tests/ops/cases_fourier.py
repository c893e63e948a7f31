"""Cases of Fourier transforms: of real numbers, and of complex ones made of them."""

import numpy as np

import autodiff as ad

from .cases import case, cases

SHAPES = ("[1]", "[2]", "[5]", "[6]", "[3,4]", "[2,3,5]", "[0,4]")


def _parts(z):
    """The real and imaginary parts of a complex result, so that it is differentiated like others."""
    return ad.real(z) + 2 * ad.imag(z)


def _numpy_parts(z):
    return z.real + 2 * z.imag


def _turned(x):
    return x + 1j * (x * x)


def _of(name, *args, **keywords):
    """A transform of real numbers, and one of complex ones, beside NumPy's."""

    def ours(z):
        y = getattr(ad.fft, name)(z, *args, **keywords)
        return _parts(y) if y.dtype.kind == "c" else y

    def numpys(z):
        y = getattr(np.fft, name)(z, *args, **keywords)
        return _numpy_parts(y) if y.dtype.kind == "c" else y

    return ours, numpys


def _both(label, name, shapes, *args, of_real=True, of_complex=True, **keywords):
    ours, numpys = _of(name, *args, **keywords)
    found = cases(label, ours, numpys, shapes=shapes, ulps=64) if of_real else []
    if of_complex:
        found += cases(
            f"{label}-complex", lambda x: ours(_turned(x)), lambda x: numpys(_turned(x)), shapes=shapes, ulps=64
        )
    return found


CASES = [
    *[c for name in ("fft", "ifft") for c in _both(name, name, SHAPES)],
    *_both("rfft", "rfft", SHAPES, of_complex=False),
    *_both("hfft", "hfft", ("[2]", "[5]", "[3,4]")),
    *_both("ihfft", "ihfft", ("[2]", "[5]", "[3,4]"), of_complex=False),
    *[c for n in (4, 7) for c in _both(f"hfft-{n}", "hfft", ("[4]",), n)],
    *[c for norm in ("ortho", "forward") for c in _both(f"hfft-{norm}", "hfft", ("[4,3]",), axis=0, norm=norm)],
    *_both("ihfft-7-ortho", "ihfft", ("[4]",), 7, of_complex=False, norm="ortho"),
    *_both("irfft", "irfft", ("[2]", "[5]", "[6]", "[3,4]", "[0,4]")),
    *[c for n in (2, 4, 7) for c in _both(f"irfft-{n}", "irfft", ("[4]", "[3,4]"), n)],
    *[c for n in (2, 7) for name in ("fft", "ifft") for c in _both(f"{name}-{n}", name, ("[4]", "[3,4]"), n)],
    *[c for n in (2, 7) for c in _both(f"rfft-{n}", "rfft", ("[4]", "[3,4]"), n, of_complex=False)],
    *[c for norm in ("ortho", "forward") for name in ("fft", "ifft", "irfft")
      for c in _both(f"{name}-{norm}", name, ("[4,3]",), axis=0, norm=norm)],
    *[c for norm in ("ortho", "forward")
      for c in _both(f"rfft-{norm}", "rfft", ("[4,3]",), axis=0, norm=norm, of_complex=False)],
    *[c for name in ("fft2", "ifft2", "fftn", "ifftn", "irfft2", "irfftn") for c in _both(name, name, ("[2,3,4]",))],
    *[c for name in ("rfft2", "rfftn") for c in _both(name, name, ("[2,3,4]",), of_complex=False)],
    *_both("fftn-sizes", "fftn", ("[2,3,4]",), (3, 2), axes=(0, 2)),
    *[c for name in ("fftshift", "ifftshift")
      for c in cases(name, lambda x, name=name: getattr(ad.fft, name)(x), getattr(np.fft, name),
                     shapes=("[5]", "[3,4]", "[0,4]"))],
    *cases("fftshift-axis", lambda x: ad.fft.fftshift(x, -1), lambda x: np.fft.fftshift(x, -1), shapes=("[3,4]",)),
    case("fftfreq", lambda x: x * ad.fft.fftfreq(5, 0.5), lambda x: x * np.fft.fftfreq(5, 0.5), ["f64[5]"]),
    case("rfftfreq", lambda x: x * ad.fft.rfftfreq(8), lambda x: x * np.fft.rfftfreq(8), ["f64[5]"]),
]  # fmt: skip
