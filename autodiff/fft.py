"""Fourier transforms, by NumPy's names: `ad.fft.fft`, `rfft`, `fftfreq`, ..."""

from .ops.fft import *
from .ops.fft import __all__ as __all__
from .ops.fft import __doc__ as __doc__


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
