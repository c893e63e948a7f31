"""Discrete Fourier transforms (public as `ad.fft`), by NumPy's names.

    y = ad.fft.rfft(signal)
    ad.fft.irfft(y * response, n=len(signal))

    along one axis   fft, ifft, rfft, irfft, hfft, ihfft
    along several    fft2, ifft2, rfft2, irfft2, fftn, ifftn, rfftn, irfftn
    helpers          fftfreq, rfftfreq, fftshift, ifftshift

They record three operations: complex transforms in both directions, real numbers to half a spectrum, and back.  The
transpose of a complex transform is the one in the other direction; the other two are transposes of each other, except
that a number that stands for two frequencies of opposite sign counts twice.  The operations do not normalise.  float32
stays float32.  Machine code transforms rows whose extents have small factors (`codegen.runtime.fourier`), and NumPy all
other rows, and those with values that are not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codegen.ir import Aval
from codegen.lowering import Fourier

from ..errors import DispatchError, ShapeError, located
from ..tape import record
from ..tensor import Tensor
from .arithmetic import conj, real_aval
from .conditions import where
from .conversion import as_tensor, cast_to
from .creation import extent_of, iota
from .declare import allocated, axes_in_order, axis_of, documented, elements_of, integer
from .joining import joined
from .primitive import C64, C128, F32, F64, OwnPrimitive, expect, linear, with_extent, zeros_of
from .protocols import counterparts
from .rearranging import roll
from .slicing import part
from .template import public

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

#: The complex dtype of the same precision.
_COMPLEX: dict[np.dtype, np.dtype] = {F32: C64, F64: C128}


def _fft_reference(x: np.ndarray, *, axis: int, inverse: bool) -> np.ndarray:
    y = np.fft.ifft(x, axis=axis, norm="forward") if inverse else np.fft.fft(x, axis=axis)
    return y.astype(x.dtype, copy=False)


def _weighted(y: Tensor, axis: int, n: int, factor: float) -> Tensor:
    """Half the spectrum of n real numbers, with the numbers that stand for two frequencies times `factor`."""
    k = iota(with_extent((1,) * y.ndim, axis, y.shape[axis]), axis)
    is_one = (k == 0) | (k * 2 == n)
    return y * cast_to(where(is_one, 1.0, factor), y.dtype)


_of_complex: OwnPrimitive = linear(
    "fft",
    _fft_reference,
    infer=lambda x, *, axis, inverse: x,
    transpose=lambda y_bar, y, x, *, axis, inverse: (record(_of_complex, (y_bar,), (axis, not inverse)),),
    lower=Fourier("complex"),
)
_of_real: OwnPrimitive = linear(
    "rfft",
    lambda x, *, axis: np.fft.rfft(x, axis=axis).astype(_COMPLEX[x.dtype], copy=False),
    infer=lambda x, *, axis: Aval(with_extent(x.shape, axis, x.shape[axis] // 2 + 1), _COMPLEX[x.dtype]),
    transpose=lambda y_bar, y, x, *, axis: (
        record(_to_real, (_weighted(y_bar, axis, x.shape[axis], 0.5),), (axis, x.shape[axis])),
    ),
    lower=Fourier("half"),
)
#: The n real numbers that have a half spectrum of n // 2 + 1 numbers.
_to_real: OwnPrimitive = linear(
    "irfft",
    lambda x, *, axis, n: np.fft.irfft(x, n, axis, norm="forward").astype(x.real.dtype, copy=False),
    infer=lambda x, *, axis, n: real_aval(x.with_shape(with_extent(x.shape, axis, n))),
    transpose=lambda y_bar, y, x, *, axis, n: (_weighted(record(_of_real, (y_bar,), (axis,)), axis, n, 2.0),),
    lower=Fourier("whole"),
)


def _taken(name: str, x: Tensor, to_complex: bool) -> Tensor:
    """An argument in a float dtype, or with `to_complex` in a complex one.  Raises DTypeError."""
    if x.dtype.kind in "ib":
        x = cast_to(x, F64)
    expect(f"fft.{name}", (x.aval,), "fc" if to_complex else "f")
    return cast_to(x, _COMPLEX[x.dtype]) if to_complex and x.dtype.kind == "f" else x


def _resized(x: Tensor, axis: int, n: int) -> Tensor:
    """x with n elements along an axis: cut off, or with zeros appended."""
    have = x.shape[axis]
    if have >= n:
        return part(x, axis, 0, n)
    return joined((x, zeros_of(x.aval.with_shape(with_extent(x.shape, axis, n - have)))), axis)


def _scaled(name: str, y: Tensor, norm: str | None, n: int, inverse: bool) -> Tensor:
    """A transform normalised: "backward" (None) divides inverses by n, "forward" the others, "ortho" both by √n."""
    if norm not in (None, "backward", "forward", "ortho"):
        raise DispatchError(located(f"fft.{name}: norm is 'backward', 'forward' or 'ortho', not {norm!r}"))
    if norm == "ortho":
        return y * float(n) ** -0.5
    return y * (1.0 / n) if (norm == "forward") is not inverse else y


def _single(name: str, summary: str, operation: OwnPrimitive, is_known: bool, raises: str, example: str) -> Any:
    """Declare a transform along one axis.  Names of inverses begin with i; hfft and ihfft conjugate the spectrum.

    is_known   True if users find the operation as the function's `primitive`
    """
    inverse = name.startswith("i")

    def body(x, n=None, axis=-1, norm=None):
        x = as_tensor(x, f"fft.{name}", "x")
        axis = axis_of(f"fft.{name}", axis, x.aval)
        x = _taken(name, x, operation is not _of_real)
        have = x.shape[axis]
        count = 2 * (have - 1) if operation is _to_real else have
        count = count if n is None else integer(n, f"fft.{name}", "n")
        if count < 1:
            raise ShapeError(located(f"fft.{name}: {count} elements have no transform"))
        x = _resized(x, axis, count // 2 + 1 if operation is _to_real else count)
        x = conj(x) if name == "hfft" else x
        params = (axis, inverse) if operation is _of_complex else (axis, count) if operation is _to_real else (axis,)
        y = record(operation, (x,), params)
        return _scaled(name, conj(y) if name == "ihfft" else y, norm, count, inverse)

    return public(1, operation if is_known else None, name=name, doc=documented(example, summary, raises))(body)


fft = _single(
    "fft",
    """The discrete Fourier transform along an axis: y[k] = sum of x[j] exp(-2πi jk / n).

    x: T[..., m, ...]  →  c[..., n, ...]     n None: m; otherwise x is cut off, or zeros are appended

    norm   "backward" (None), "forward" (divided by n) or "ortho" (by its root)""",
    _of_complex, True,
    "Raises ShapeError when x has no such axis, or for no elements; DispatchError for another norm.",
    ">>> ad.fft.fft([1.0, 0.0, 0.0, 0.0])\nc128[4] [1.+0.j 1.+0.j 1.+0.j 1.+0.j]\n"
    ">>> ad.fft.fft([1.0, 1.0], n=3).shape\n(3,)",
)  # fmt: skip
ifft = _single(
    "ifft",
    "The inverse of `fft`: divided by n unless `norm` says otherwise.   T[..., m, ...]  →  c[..., n, ...]",
    _of_complex, False, "Raises what `fft` raises.",
    ">>> ad.fft.ifft([4.0, 0.0, 0.0, 0.0])\nc128[4] [1.+0.j 1.+0.j 1.+0.j 1.+0.j]",
)  # fmt: skip
rfft = _single(
    "rfft",
    """The first half of the `fft` of real numbers: the rest is its conjugate.

    x: f[..., m, ...]  →  c[..., n // 2 + 1, ...]""",
    _of_real, True, "n and norm as for `fft`.  Raises what `fft` raises, and DTypeError for complex numbers.",
    ">>> ad.fft.rfft([1.0, 2.0, 3.0, 4.0])\nc128[3] [10.+0.j -2.+2.j -2.+0.j]",
)  # fmt: skip
irfft = _single(
    "irfft",
    """The real numbers whose `rfft` is x.   T[..., m, ...]  →  f[..., n, ...]     n None: 2 (m - 1)

    The imaginary part of an element without a pair (the first; for an even n also the last) is not read.""",
    _to_real, True, "norm as for `ifft`.  Raises what `fft` raises.",
    ">>> ad.fft.irfft(ad.fft.rfft([1.0, 2.0, 3.0]), n=3)\nf64[3] [1. 2. 3.]",
)  # fmt: skip
hfft = _single(
    "hfft",
    """The real `fft` of a signal with x[-i] = conj(x[i]), of which x is the first half.

    x: T[..., m, ...]  →  f[..., n, ...]     n None: 2 (m - 1)""",
    _to_real, False, "norm as for `fft`.  Raises what `fft` raises.",
    ">>> ad.fft.hfft([1.0, 2.0, 3.0])\nf64[4] [ 8. -2.  0. -2.]",
)  # fmt: skip
ihfft = _single(
    "ihfft",
    """The inverse of `hfft`: the first half of a signal with x[-i] = conj(x[i]).

    x: f[..., m, ...]  →  c[..., n // 2 + 1, ...]""",
    _of_real, False, "n and norm as for `ifft`.  Raises what `fft` raises, and DTypeError for complex numbers.",
    ">>> ad.fft.ihfft([8.0, -2.0, 0.0, -2.0])\nc128[3] [1.+0.j 2.+0.j 3.+0.j]",
)  # fmt: skip


def _on_axes(name: str, x: Any, s: Any, axes: Any, to_complex: bool) -> tuple[Tensor, list[tuple[int | None, int]]]:
    """The argument as a tensor to transform, and pairs (number of elements, axis), read as by NumPy.

    `s` without `axes` is for the last axes.
    """
    x = as_tensor(x, f"fft.{name}", "x")
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(elements_of(s, f"fft.{name}", "lengths")), x.ndim)
    axes = axes_in_order(f"fft.{name}", elements_of(axes, f"fft.{name}", "axes"), x.aval)
    sizes: Sequence = [None] * len(axes) if s is None else elements_of(s, f"fft.{name}", "lengths")
    if len(sizes) != len(axes):
        raise ShapeError(located(f"fft.{name}: {len(sizes)} sizes for {len(axes)} axes"))
    return _taken(name, x, to_complex), list(zip(sizes, axes, strict=True))


def _several(name: str, summary: str, example: str) -> Any:
    """Declare a transform along several axes.  A name with a final 2 is for the last two axes, with an initial i an
    inverse, with an r a transform by half a spectrum along the last axis."""
    one = ifft if name.startswith("i") else fft
    half, named = {"rfft": rfft, "irfft": irfft}.get(name[:-1]), (-2, -1) if name.endswith("2") else None

    def body(x, s=None, axes=named, norm=None):
        x, pairs = _on_axes(name, x, s, axes, to_complex=half is not rfft)
        if half and not pairs:
            raise ShapeError(located(f"fft.{name}: one axis at least, of {x.aval}"))
        n, last = pairs.pop() if half else (None, 0)
        x = rfft(x, n, last, norm) if half is rfft else x
        for count, axis in reversed(pairs):
            x = one(x, count, axis, norm)
        return irfft(x, n, last, norm) if half is irfft else x

    raises = "`fft` raises, and ShapeError for"
    if half:
        raises = f"`{half.__name__}` raises, and ShapeError for no axes, and for"
    doc = documented(example, summary, f"Raises what {raises} more or fewer sizes than axes.")
    return public(1, name=name, doc=doc)(body)


fftn = _several(
    "fftn", "`fft` along several axes (None: all), `s` elements along each.   T[...]  →  c[...]",
    ">>> ad.fft.fftn(ad.ones((2, 3)), axes=(0,))\nc128[2,3]\n[[2.+0.j 2.+0.j 2.+0.j]\n [0.+0.j 0.+0.j 0.+0.j]]",
)
ifftn = _several(
    "ifftn", "`ifft` along several axes (None: all), `s` elements along each.   T[...]  →  c[...]",
    ">>> ad.fft.ifftn([[4.0, 0.0], [0.0, 0.0]], norm=\"forward\")\nc128[2,2]\n[[4.+0.j 4.+0.j]\n [4.+0.j 4.+0.j]]",
)
rfftn = _several(
    "rfftn",
    """`rfft` along the last of several axes (None: all), then `fft` along the others.   f[...]  →  c[...]

    s   how many elements are taken along each""",
    ">>> ad.fft.rfftn([[1.0, 2.0], [3.0, 4.0]])\nc128[2,2]\n[[10.+0.j -2.+0.j]\n [-4.+0.j  0.+0.j]]",
)
irfftn = _several(
    "irfftn",
    """`ifft` along all but the last of several axes (None: all), then `irfft` along that.   T[...]  →  f[...]

    s   how many elements the result has along each""",
    ">>> ad.fft.irfftn([4.0, 0.0], s=(3,))\nf64[3] [1.33333333 1.33333333 1.33333333]",
)
fft2 = _several(
    "fft2", "`fftn` along two axes.   T[..., m, n]  →  c[..., m, n]",
    ">>> ad.fft.fft2(ad.ones((2, 2)))\nc128[2,2]\n[[4.+0.j 0.+0.j]\n [0.+0.j 0.+0.j]]",
)
ifft2 = _several(
    "ifft2", "`ifftn` along two axes.   T[..., m, n]  →  c[..., m, n]",
    ">>> ad.fft.ifft2([[4.0, 0.0], [0.0, 0.0]])\nc128[2,2]\n[[1.+0.j 1.+0.j]\n [1.+0.j 1.+0.j]]",
)
rfft2 = _several(
    "rfft2",
    "`rfftn` along two axes: `rfft` along the last, `fft` along the other.   f[..., m, n]  →  c[..., m, n//2 + 1]",
    ">>> ad.fft.rfft2(ad.ones((3, 4))).shape\n(3, 3)",
)
irfft2 = _several(
    "irfft2", "The inverse of `rfft2`, `irfftn` along two axes.   T[..., m, k]  →  f[..., m, 2 (k - 1)]",
    ">>> ad.fft.irfft2(ad.fft.rfft2([[1.0, 2.0], [3.0, 4.0]]))\nf64[2,2]\n[[1. 2.]\n [3. 4.]]",
)


def _frequencies(of: Any, shape: str, numpy: Callable[..., np.ndarray], example: str) -> Any:
    name = f"{of.__name__}freq"

    def body(n, d=1.0):
        count = extent_of(f"fft.{name}", n)
        Aval((count,), np.float64)  # raises for a count that is too large
        return as_tensor(allocated(f"fft.{name}", count, lambda: numpy(count, d)))

    return public(name=name, doc=documented(
        example, f"The frequencies of an `{of.__name__}` of n samples that are d apart.   →  f64[{shape}]",
        "Raises TypeError and ShapeError for an n that is no extent.",
    ))(body)


fftfreq = _frequencies(fft, "n", np.fft.fftfreq, ">>> ad.fft.fftfreq(4, d=0.5)\nf64[4] [ 0.   0.5 -1.  -0.5]")
rfftfreq = _frequencies(rfft, "n//2 + 1", np.fft.rfftfreq, ">>> ad.fft.rfftfreq(4, d=0.5)\nf64[3] [0.  0.5 1. ]")


def _shifted(name: str, sign: int, summary: str, example: str) -> Any:
    def body(x, axes=None):
        x = as_tensor(x, f"fft.{name}", "x")
        places = [*range(x.ndim)] if axes is None else axes_in_order(f"fft.{name}", axes, x.aval)
        return roll(x, [sign * (x.shape[a] // 2) for a in places], places)

    return public(1, name=name, doc=documented(example, summary, "Raises ShapeError when x has no such axis."))(body)


fftshift = _shifted(
    "fftshift", 1, "x with frequency zero moved to the middle, along all axes or those named.   T[...]  →  T[...]",
    ">>> ad.fft.fftshift(ad.fft.fftfreq(4))\nf64[4] [-0.5  -0.25  0.    0.25]",
)
ifftshift = _shifted(
    "ifftshift", -1, "The inverse of `fftshift`.   T[...]  →  T[...]",
    ">>> ad.fft.ifftshift(ad.fft.fftshift([1, 2, 3]))\ni64[3] [1 2 3]",
)


counterparts(__all__, globals(), np.fft)
