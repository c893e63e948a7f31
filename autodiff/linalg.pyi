# Made by tools/stubs.py from tools/linalg.pyi.in and the declarations in autodiff/ops: change those, and run it again.

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex, overload

from numpy.typing import DTypeLike

from . import Tensor, _ArrayLike, _Axes, _Function, _operation
from . import cross as cross
from . import matmul as matmul
from . import matrix_transpose as matrix_transpose
from . import norm as norm
from . import outer as outer
from . import tensordot as tensordot
from . import vecdot as vecdot

class _EighResult(NamedTuple):
    """The result of `eigh`: a @ eigenvectors = eigenvectors * eigenvalues."""

    eigenvalues: Tensor
    eigenvectors: Tensor

class _LstsqResult(NamedTuple):
    """The result of `lstsq`, as in NumPy, but with residuals for every rank."""

    x: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor

class _QRResult(NamedTuple):
    """The result of `qr`: Q @ R = a."""

    Q: Tensor
    R: Tensor

class _SlogdetResult(NamedTuple):
    """Signs and logarithms of determinants: sign · exp(logabsdet) is the determinant."""

    sign: Tensor
    logabsdet: Tensor

class _SVDResult(NamedTuple):
    """The result of `svd`: (U * S) @ Vh = a."""

    U: Tensor
    S: Tensor
    Vh: Tensor

class _QR(_Function[..., Any]):
    @overload
    def __call__(self, a: _ArrayLike, mode: Literal["reduced", "complete"] = "reduced") -> _QRResult: ...
    @overload
    def __call__(self, a: _ArrayLike, mode: Literal["r"]) -> Tensor: ...

class _SVD(_Function[..., Any]):
    @overload
    def __call__(
        self,
        a: _ArrayLike,
        full_matrices: bool = True,
        compute_uv: Literal[True] = True,
        hermitian: bool = False,
    ) -> _SVDResult: ...
    @overload
    def __call__(
        self, a: _ArrayLike, full_matrices: bool = True, *, compute_uv: Literal[False], hermitian: bool = False
    ) -> Tensor: ...

qr: _QR
svd: _SVD

@_operation
def cholesky(a: _ArrayLike, *, upper: bool = False) -> Tensor: ...
@_operation
def cond(x: _ArrayLike, p: float | str | None = None) -> Tensor: ...
@_operation
def det(a: _ArrayLike) -> Tensor: ...
@_operation
def diagonal(x: _ArrayLike, *, offset: SupportsIndex = 0) -> Tensor: ...
@_operation
def eigh(a: _ArrayLike, UPLO: str | None = None) -> _EighResult: ...
@_operation
def eigvalsh(a: _ArrayLike, UPLO: str | None = None) -> Tensor: ...
@_operation
def inv(a: _ArrayLike) -> Tensor: ...
@_operation
def lstsq(a: _ArrayLike, b: _ArrayLike, rcond: _ArrayLike | None = None) -> _LstsqResult: ...
@_operation
def matrix_norm(x: _ArrayLike, *, ord: float | str = "fro", keepdims: bool = False) -> Tensor: ...
@_operation
def matrix_power(a: _ArrayLike, n: SupportsIndex) -> Tensor: ...
@_operation
def matrix_rank(
    A: _ArrayLike, tol: _ArrayLike | None = None, hermitian: bool = False, *, rtol: _ArrayLike | None = None
) -> Tensor: ...
@_operation
def multi_dot(arrays: Sequence[_ArrayLike] | _ArrayLike) -> Tensor: ...
@_operation
def pinv(
    a: _ArrayLike, rcond: _ArrayLike | None = None, hermitian: bool = False, *, rtol: _ArrayLike | None = None
) -> Tensor: ...
@_operation
def slogdet(a: _ArrayLike) -> _SlogdetResult: ...
@_operation
def solve(a: _ArrayLike, b: _ArrayLike) -> Tensor: ...
@_operation
def solve_triangular(a: _ArrayLike, b: _ArrayLike, *, lower: bool = False) -> Tensor: ...
@_operation
def svdvals(a: _ArrayLike) -> Tensor: ...
@_operation
def trace(x: _ArrayLike, *, offset: SupportsIndex = 0, dtype: DTypeLike | None = None) -> Tensor: ...
@_operation
def vector_norm(
    x: _ArrayLike, *, axis: _Axes | None = None, ord: float | str | None = 2, keepdims: bool = False
) -> Tensor: ...
