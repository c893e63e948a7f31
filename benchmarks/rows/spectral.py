"""The power of windowed signals in bands of frequencies, by a Fourier transform of each; value and gradient."""

import numpy as np
from precision import wider
from targets import faster

TITLE = "power of frequency bands, value and gradient"
CASES = ["1 signal of 1,000, f64", "200 signals of 512, f32", "1 signal of 1,048,576, f32"]
TARGETS = [faster(2, "numpy"), faster(1.5, "jax")]
ARGNUMS = (0,)


def inputs(case):
    many, n = int(case.split()[0]), int(case.split()[-2].strip(",").replace(",", ""))
    dtype = np.dtype(case.split()[-1].replace("f", "float"))
    rng = np.random.default_rng(0)
    shape = (n,) if many == 1 else (many, n)
    window, weight = np.hanning(n), rng.uniform(size=n // 2 + 1) / n
    return tuple(a.astype(dtype) for a in (rng.normal(size=shape), window, weight))


def program(lib, x, window, weight):
    spectrum = lib.fft.rfft(x * window)
    return ((spectrum.real**2 + spectrum.imag**2) * weight).sum()


def numpy(x, window, weight):
    n = x.shape[-1]

    def run():
        spectrum = np.fft.rfft(x * window)
        bar = 2 * weight * spectrum
        value = 0.5 * (bar.real * spectrum.real + bar.imag * spectrum.imag).sum()
        bar[..., 1 : (n + 1) // 2] *= 0.5  # `irfft` counts each of these frequencies twice
        return value, [n * np.fft.irfft(bar, n) * window]

    return run


def reference(*arrays):
    return numpy(*map(wider, arrays))
