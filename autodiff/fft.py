"""Fourier transforms, by NumPy's names: `ad.fft.fft`, `rfft`, `fftfreq`, ..."""

from codegen.lazily import lazily

from .errors import hint_in
from .ops.fft import *
from .ops.fft import __all__ as __all__
from .ops.fft import __doc__ as __doc__

__getattr__, __dir__ = lazily(globals(), {}, hint_in)
