"""The operations of discrete Fourier transforms: of complex numbers either way, of real ones, back to real ones.

Each is the transpose of another: the first of itself in the other direction; the second and third of each other, but
that what stands for two frequencies of opposite sign counts twice.  Nothing is divided by anything here.
"""

from __future__ import annotations

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Fourier

from ..tape import record
from ..tensor import Tensor
from .arithmetic import multiply, real_aval
from .batching import along
from .conditions import equal, logical_or, where
from .conversion import cast_to
from .creation import iota
from .primitive import C64, C128, F32, F64, OwnPrimitive, expect, linear

__all__ = ["COMPLEX", "of_complex", "of_real", "to_real", "with_extent"]

#: The complex dtype of the same precision.
COMPLEX: dict[np.dtype, np.dtype] = {
    F32: C64,
    F64: C128,
}


def _reference(x: np.ndarray, *, axis: int, inverse: bool) -> np.ndarray:
    y = np.fft.ifft(x, axis=axis, norm="forward") if inverse else np.fft.fft(x, axis=axis)
    return y.astype(x.dtype, copy=False)


def _complex_aval(x: Aval, *, axis: int, inverse: bool) -> Aval:
    expect("fft", (x,), "c")
    return x


of_complex: OwnPrimitive = linear(
    "fft",
    _reference,
    infer=_complex_aval,
    transpose=lambda y_bar, y, x, *, axis, inverse: (record(of_complex, (y_bar,), (axis, not inverse)),),
    lower=Fourier("complex"),
    heavy=True,
    batch=along("axis"),
)


def with_extent(shape: tuple[int, ...], axis: int, n: int) -> tuple[int, ...]:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _weighted(y: Tensor, axis: int, n: int, factor: float) -> Tensor:
    """Half a spectrum of n real numbers, what stands for two frequencies times a factor."""
    count = y.shape[axis]
    k = iota(with_extent((1,) * y.ndim, axis, count), axis)
    is_one = logical_or(equal(k, 0), equal(multiply(k, 2), n))
    return multiply(y, cast_to(where(is_one, 1.0, factor), y.dtype))


def _half_aval(x: Aval, *, axis: int) -> Aval:
    expect("rfft", (x,), "f")
    return Aval(with_extent(x.shape, axis, x.shape[axis] // 2 + 1), COMPLEX[x.dtype])


def _whole_aval(x: Aval, *, axis: int, n: int) -> Aval:
    expect("irfft", (x,), "c")
    return real_aval(x.with_shape(with_extent(x.shape, axis, n)))


def _rfft_transpose(y_bar, y, x, *, axis):
    n = x.shape[axis]
    return (record(to_real, (_weighted(y_bar, axis, n, 0.5),), (axis, n)),)


def _irfft_transpose(y_bar, y, x, *, axis, n):
    return (_weighted(record(of_real, (y_bar,), (axis,)), axis, n, 2.0),)


of_real: OwnPrimitive = linear(
    "rfft",
    lambda x, *, axis: np.fft.rfft(x, axis=axis).astype(COMPLEX[x.dtype], copy=False),
    infer=_half_aval,
    transpose=_rfft_transpose,
    lower=Fourier("half"),
    heavy=True,
    batch=along("axis"),
)
#: Of a spectrum of n // 2 + 1 numbers.
to_real: OwnPrimitive = linear(
    "irfft",
    lambda x, *, axis, n: np.fft.irfft(x, n, axis, norm="forward").astype(x.real.dtype, copy=False),
    infer=_whole_aval,
    transpose=_irfft_transpose,
    lower=Fourier("whole"),
    heavy=True,
    batch=along("axis"),
)
