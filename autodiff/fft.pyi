# Made by tools/stubs.py from tools/space.pyi.in and the declarations in autodiff/ops: change those, and run it again.

from collections.abc import Sequence
from typing import SupportsIndex

from . import Tensor, _ArrayLike, _Axes, _operation

@_operation
def fft(x: _ArrayLike, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None) -> Tensor: ...
@_operation
def fft2(
    x: _ArrayLike, s: _Axes | None = None, axes: _Axes | Sequence[_Axes] = (-2, -1), norm: str | None = None
) -> Tensor: ...
@_operation
def fftfreq(n: SupportsIndex, d: float = 1.0) -> Tensor: ...
@_operation
def fftn(
    x: _ArrayLike, s: _Axes | None = None, axes: _Axes | Sequence[_Axes] | None = None, norm: str | None = None
) -> Tensor: ...
@_operation
def fftshift(x: _ArrayLike, axes: _Axes | Sequence[_Axes] | None = None) -> Tensor: ...
@_operation
def hfft(
    x: _ArrayLike, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Tensor: ...
@_operation
def ifft(
    x: _ArrayLike, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Tensor: ...
@_operation
def ifft2(
    x: _ArrayLike, s: _Axes | None = None, axes: _Axes | Sequence[_Axes] = (-2, -1), norm: str | None = None
) -> Tensor: ...
@_operation
def ifftn(
    x: _ArrayLike, s: _Axes | None = None, axes: _Axes | Sequence[_Axes] | None = None, norm: str | None = None
) -> Tensor: ...
@_operation
def ifftshift(x: _ArrayLike, axes: _Axes | Sequence[_Axes] | None = None) -> Tensor: ...
@_operation
def ihfft(
    x: _ArrayLike, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Tensor: ...
@_operation
def irfft(
    x: _ArrayLike, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Tensor: ...
@_operation
def irfft2(
    x: _ArrayLike, s: _Axes | None = None, axes: _Axes | Sequence[_Axes] = (-2, -1), norm: str | None = None
) -> Tensor: ...
@_operation
def irfftn(
    x: _ArrayLike, s: _Axes | None = None, axes: _Axes | Sequence[_Axes] | None = None, norm: str | None = None
) -> Tensor: ...
@_operation
def rfft(
    x: _ArrayLike, n: SupportsIndex | None = None, axis: SupportsIndex = -1, norm: str | None = None
) -> Tensor: ...
@_operation
def rfft2(
    x: _ArrayLike, s: _Axes | None = None, axes: _Axes | Sequence[_Axes] = (-2, -1), norm: str | None = None
) -> Tensor: ...
@_operation
def rfftfreq(n: SupportsIndex, d: float = 1.0) -> Tensor: ...
@_operation
def rfftn(
    x: _ArrayLike, s: _Axes | None = None, axes: _Axes | Sequence[_Axes] | None = None, norm: str | None = None
) -> Tensor: ...
