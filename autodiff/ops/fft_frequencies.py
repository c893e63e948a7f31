"""The frequencies of Fourier transforms, and their order (part of `ad.fft`): fftfreq, rfftfreq, fftshift, ifftshift."""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.ir import Aval

from ..tensor import Tensor
from .arguments import axis_of, built
from .conversion import as_tensor
from .creation import extent_of
from .rearranging import roll
from .template import public

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


@public()
def fftfreq(n, d=1.0):
    """The frequencies of an `fft` of n samples that are d apart.   →  f64[n]

    Raises TypeError and ShapeError for an n that is no extent.

    >>> ad.fft.fftfreq(4, d=0.5)
    f64[4] [ 0.   0.5 -1.  -0.5]
    """
    count = extent_of("fft.fftfreq", n)
    Aval((count,), np.float64)  # raises for one that is too large
    return as_tensor(built("fft.fftfreq", count, lambda: np.fft.fftfreq(count, d)))


@public()
def rfftfreq(n, d=1.0):
    """The frequencies of an `rfft` of n samples that are d apart.   →  f64[n//2 + 1]

    Raises TypeError and ShapeError for an n that is no extent.

    >>> ad.fft.rfftfreq(4, d=0.5)
    f64[3] [0.  0.5 1. ]
    """
    count = extent_of("fft.rfftfreq", n)
    Aval((count,), np.float64)
    return as_tensor(built("fft.rfftfreq", count // 2 + 1, lambda: np.fft.rfftfreq(count, d)))


def _shifted(name: str, x: Any, axes: Any, sign: int) -> Tensor:
    x = as_tensor(x, f"fft.{name}", "x")
    axes = range(x.ndim) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
    places = [axis_of(f"fft.{name}", a, x.aval) for a in axes]
    return roll(x, [sign * (x.shape[a] // 2) for a in places], places)


@public()
def fftshift(x, axes=None):
    """x with frequency zero moved to the middle, along all axes or those named.   T[...]  →  T[...]

    Raises ShapeError when x has no such axis.

    >>> ad.fft.fftshift(ad.fft.fftfreq(4))
    f64[4] [-0.5  -0.25  0.    0.25]
    """
    return _shifted("fftshift", x, axes, 1)


@public()
def ifftshift(x, axes=None):
    """The inverse of `fftshift`.   T[...]  →  T[...]

    Raises ShapeError when x has no such axis.

    >>> ad.fft.ifftshift(ad.fft.fftshift([1, 2, 3]))
    i64[3] [1 2 3]
    """
    return _shifted("ifftshift", x, axes, -1)
