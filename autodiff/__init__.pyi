# Made by tools/stubs.py from tools/face.pyi.in and the declarations in autodiff/ops: change those, and run it again.

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import EllipsisType, ModuleType, TracebackType, UnionType
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    Never,
    ParamSpec,
    Protocol,
    Self,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
    overload,
)

import numpy as np
from numpy.typing import DTypeLike, NDArray

from codegen.ir import Aval as _Aval

from . import fft as fft
from . import interop as interop
from . import linalg as linalg
from . import ops as ops
from . import random as random
from . import special as special
from . import tree as tree
from .api import cache_info as cache_info
from .api import clear_cache as clear_cache
from .api import max_compiles as max_compiles
from .array_api import can_cast as can_cast
from .array_api import finfo as finfo
from .array_api import from_dlpack as from_dlpack
from .array_api import iinfo as iinfo
from .array_api import isdtype as isdtype
from .array_api import result_type as result_type
from .config import config as config
from .dispatch import ambiguities as ambiguities
from .dispatch import coverage as coverage
from .dispatch import methods as methods
from .dispatch import which as which
from .dispatch import which_backward as which_backward
from .errors import AmbiguityError as AmbiguityError
from .errors import ConcretizationError as ConcretizationError
from .errors import DispatchError as DispatchError
from .errors import DTypeError as DTypeError
from .errors import Error as Error
from .errors import GradientError as GradientError
from .errors import LinAlgError as LinAlgError
from .errors import LostGradientWarning as LostGradientWarning
from .errors import ShapeError as ShapeError
from .errors import WorkerError as WorkerError
from .exporting import export as export
from .inspection import inspect as inspect
from .profiling import profile as profile
from .tape.misses import explain as explain
from .testing import check_gradients as check_gradients
from .transforms import is_grad_enabled as is_grad_enabled
from .transforms.hooks import Removable as _Removable
from .workers import shards as shards
from .workers import sum_over as sum_over

__version__: str

float32 = np.float32
float64 = np.float64
int32 = np.int32
int64 = np.int64
complex64 = np.complex64
complex128 = np.complex128
bool_ = np.bool_
floating = np.floating
integer = np.integer
complexfloating = np.complexfloating
pi: float
e: float
inf: float
nan: float
newaxis: None

# The bound lets a lambda do what it likes with parameters of which nothing is known.
_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_Ts = TypeVarTuple("_Ts")
_R = TypeVar("_R", bound=Any)
_S = TypeVar("_S", bound=Any)
_A = TypeVar("_A", bound=Any)
_B = TypeVar("_B", bound=Any)
_C = TypeVar("_C", bound=Any)
_Result = TypeVar("_Result", covariant=True)
_Aux = TypeVar("_Aux")
_F = TypeVar("_F", bound=Callable[..., Any])

# What an operation takes in the place of an array, and an operator beside a tensor.
_Plain: TypeAlias = np.ndarray[Any, Any] | np.generic | complex | list[Any] | tuple[Any, ...]
_ArrayLike: TypeAlias = AbstractTensor | _Plain
_Other: TypeAlias = Tensor | _Plain
# A value of a loop that is one tensor inside of it.
_Single: TypeAlias = Tensor | np.ndarray[Any, Any] | np.generic | complex
_Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
_Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | NDArray[np.integer[Any]]
_Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
_Order: TypeAlias = Literal["C", "F", "A", "K"] | None
# What dispatch chooses by: a class, a union of classes, None for its type.
_Type: TypeAlias = type[Any] | UnionType | EllipsisType | None

# ---------------------------------------------------------------- tensors

class _Lattice(type):
    def __getitem__(cls, key: Any, /) -> type[Tensor]: ...

class AbstractTensor(metaclass=_Lattice):
    # What a class of the user's makes of these is its own affair: nothing is known of the results.
    aval: Any
    shape: Any
    dtype: Any
    ndim: Any
    size: Any
    grad: Any
    requires_grad: Any
    requires_grad_: Any
    def copy(self) -> Any: ...
    detach: Any
    numpy: Any
    T: Any
    abs: Any
    all: Any
    any: Any
    argmax: Any
    argmin: Any
    argsort: Any
    astype: Any
    broadcast_to: Any
    clip: Any
    conj: Any
    conjugate: Any
    cos: Any
    cumprod: Any
    cumsum: Any
    diagonal: Any
    dot: Any
    exp: Any
    expand_dims: Any
    flatten: Any
    imag: Any
    log: Any
    log_softmax: Any
    logsumexp: Any
    mT: Any
    max: Any
    mean: Any
    min: Any
    prod: Any
    ravel: Any
    real: Any
    relu: Any
    repeat: Any
    reshape: Any
    round: Any
    sigmoid: Any
    sin: Any
    softmax: Any
    sqrt: Any
    square: Any
    squeeze: Any
    std: Any
    sum: Any
    swapaxes: Any
    take: Any
    tanh: Any
    trace: Any
    transpose: Any
    var: Any
    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __floordiv__(self, other: Any, /) -> Any: ...
    def __rfloordiv__(self, other: Any, /) -> Any: ...
    def __mod__(self, other: Any, /) -> Any: ...
    def __rmod__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __rpow__(self, other: Any, /) -> Any: ...
    def __and__(self, other: Any, /) -> Any: ...
    def __rand__(self, other: Any, /) -> Any: ...
    def __or__(self, other: Any, /) -> Any: ...
    def __ror__(self, other: Any, /) -> Any: ...
    def __xor__(self, other: Any, /) -> Any: ...
    def __rxor__(self, other: Any, /) -> Any: ...
    def __lshift__(self, other: Any, /) -> Any: ...
    def __rlshift__(self, other: Any, /) -> Any: ...
    def __rshift__(self, other: Any, /) -> Any: ...
    def __rrshift__(self, other: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __rmatmul__(self, other: Any, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __neg__(self) -> Any: ...
    def __pos__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __invert__(self) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __contains__(self, element: object, /) -> bool: ...
    def __array_function__(
        self, func: Any, types: Any, args: Sequence[Any], kwargs: dict[str, Any], /
    ) -> Any: ...
    def __array_ufunc__(self, ufunc: Any, method: Any, /, *inputs: Any, **kwargs: Any) -> Any: ...
    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType: ...
    # There is none; it makes a tensor an `ArrayLike` of NumPy's, as `__array__` does when it runs, which NumPy's stubs
    # would let `array + tensor` be an array by.
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __eq__(self, other: Any, /) -> Any: ...
    def __ne__(self, other: Any, /) -> Any: ...
    def __hash__(self) -> int: ...
    def __len__(self) -> int: ...

class _Gradient:
    # Or None, until a backward has been there; who reads it has called one.
    def __get__(self, t: Tensor, owner: type | None = None, /) -> Tensor: ...
    def __set__(self, t: Tensor, value: Tensor | None, /) -> None: ...

class Tensor(AbstractTensor):
    def __init__(self, never: Never, /) -> None: ...
    @property
    def aval(self) -> _Aval: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def device(self) -> str: ...
    def copy(self) -> Tensor: ...
    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor: ...
    @property
    def is_leaf(self) -> bool: ...
    grad: _Gradient
    @property
    def requires_grad(self) -> bool: ...
    @requires_grad.setter
    def requires_grad(self, flag: bool, /) -> None: ...
    @property
    def grad_fn(self) -> Any: ...
    def backward(
        self,
        gradient: _ArrayLike | None = None,
        retain_graph: bool = False,
        create_graph: bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> None: ...
    def detach(self) -> Tensor: ...
    def item(self) -> Any: ...
    def numpy(self) -> NDArray[Any]: ...
    def tolist(self) -> Any: ...
    def requires_grad_(self, flag: bool = True) -> Tensor: ...
    def retain_grad(self) -> None: ...
    def register_hook(self, fn: Callable[[Tensor], Tensor | None]) -> _Removable: ...
    def register_post_accumulate_grad_hook(self, fn: Callable[[Tensor], object]) -> _Removable: ...
    def copy_(self, value: _ArrayLike) -> Tensor: ...
    def fill_(self, value: _ArrayLike) -> Tensor: ...
    def zero_(self) -> Tensor: ...
    def add_(self, x: _ArrayLike) -> Tensor: ...
    def sub_(self, x: _ArrayLike) -> Tensor: ...
    def mul_(self, x: _ArrayLike) -> Tensor: ...
    def div_(self, x: _ArrayLike) -> Tensor: ...
    def pow_(self, x: _ArrayLike) -> Tensor: ...
    def abs(self, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
        """|x|.   T[...]  →  T[...], c[...]  →  f[...]     the derivative at 0 is 0"""
    def all(self, axis: _Axes | None = None, *, keepdims: bool = False, where: _ArrayLike = True) -> Tensor:
        """True if all elements over an axis, several, or (None) all of them are True."""
    def any(self, axis: _Axes | None = None, *, keepdims: bool = False, where: _ArrayLike = True) -> Tensor:
        """True if any element over an axis, several, or (None) all of them is True."""
    def argmax(self, axis: SupportsIndex | None = None, *, keepdims: bool = False) -> Tensor:
        """Index of the first largest element along an axis (None: in x flattened)."""
    def argmin(self, axis: SupportsIndex | None = None, *, keepdims: bool = False) -> Tensor:
        """Index of the first smallest element along an axis (None: in x flattened)."""
    def argsort(self, axis: SupportsIndex = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
        """Indices that sort x along an axis in rising (`descending`: falling) order; axis None: of x flattened."""
    def astype(
        self,
        dtype: DTypeLike,
        order: _Order = "K",
        casting: _Casting = "unsafe",
        subok: bool = True,
        copy: bool = True,
        *,
        device: str | None = None,
    ) -> Tensor:
        """x in another dtype."""
    def broadcast_to(self, shape: _Shape) -> Tensor:
        """x repeated along new leading axes and axes of extent 1."""
    def clip(
        self,
        min: _ArrayLike | None = None,
        max: _ArrayLike | None = None,
        *,
        dtype: DTypeLike | None = None,
        casting: _Casting = "same_kind",
    ) -> Tensor:
        """x, not below `min` and not above `max`; None bounds nothing.   T[...], T[...], T[...]  →  T[...]"""
    def conj(self, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
        """The conjugate.   c[...]  →  c[...]     real arrays are themselves"""
    def conjugate(self, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
        """The conjugate.   c[...]  →  c[...]     real arrays are themselves"""
    def cos(self, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
        """The cosine of x in radians.   f[...]  →  f[...]"""
    def cumprod(self, axis: SupportsIndex | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
        """The products of all elements up to each along an axis (None: of x flattened)."""
    def cumsum(self, axis: SupportsIndex | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
        """The sums of all elements up to each along an axis (None: of x flattened)."""
    def diagonal(self, offset: SupportsIndex = 0, axis1: SupportsIndex = 0, axis2: SupportsIndex = 1) -> Tensor:
        """A diagonal of each matrix in x: the elements with column - row = offset."""
    def dot(self, x2: _ArrayLike) -> Tensor:
        """NumPy's dot: x1 times x2 for 0-d arrays, else sums over x1's last axis and x2's last but one."""
    def exp(self, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
        """e to the power x.   f[...]  →  f[...]"""
    def expand_dims(self, axis: _Axes) -> Tensor:
        """x with new axes of extent 1 at these positions of the result."""
    def flatten(self, order: _Order = "C") -> Tensor:
        """x in one dimension, in row-major order (order="F": column-major).   T[...]  →  T[n]"""
    def log(self, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
        """The natural logarithm.   f[...]  →  f[...]     -inf at 0, nan below"""
    def log_softmax(self, axis: _Axes = -1) -> Tensor:
        """log(softmax(x)), accurate also where the softmax is tiny."""
    def logsumexp(self, axis: _Axes | None = None, *, keepdims: bool = False) -> Tensor:
        """log(sum(exp(x))) over an axis, several, or (None) all of them, without overflow."""
    def max(
        self,
        axis: _Axes | None = None,
        *,
        keepdims: bool = False,
        initial: _ArrayLike | None = None,
        where: _ArrayLike = True,
    ) -> Tensor:
        """The largest element over an axis, several, or (None) all of them; nan if there is one."""
    def mean(
        self,
        axis: _Axes | None = None,
        *,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        where: _ArrayLike = True,
    ) -> Tensor:
        """The mean over an axis, several, or (None) all of them."""
    def min(
        self,
        axis: _Axes | None = None,
        *,
        keepdims: bool = False,
        initial: _ArrayLike | None = None,
        where: _ArrayLike = True,
    ) -> Tensor:
        """The smallest element over an axis, several, or (None) all of them; nan if there is one."""
    def prod(
        self,
        axis: _Axes | None = None,
        *,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        initial: _ArrayLike | None = None,
        where: _ArrayLike = True,
    ) -> Tensor:
        """The product over an axis, several, or (None) all of them."""
    def ravel(self, order: _Order = "C") -> Tensor:
        """x in one dimension, in row-major order (order="F": column-major).   T[...]  →  T[n]"""
    def relu(self) -> Tensor:
        """max(x, 0).   T[...]  →  T[...]     the derivative at 0 is 0"""
    def repeat(self, repeats: _ArrayLike, axis: SupportsIndex | None = None) -> Tensor:
        """Each element along an axis repeated several times; axis None: of x flattened."""
    def reshape(self, *shape: _Shape, order: _Order = "C", copy: bool | None = None) -> Tensor:
        """x in another shape of as many elements, in row-major order."""
    def round(self, decimals: SupportsIndex = 0) -> Tensor:
        """x rounded to a number of decimals, halves to even.   T[...]  →  T[...]     no gradient flows"""
    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x)), without overflow.   f[...]  →  f[...]"""
    def sin(self, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
        """The sine of x in radians.   f[...]  →  f[...]"""
    def softmax(self, axis: _Axes = -1) -> Tensor:
        """exp(x) over its sum along an axis (or several), without overflow."""
    def sqrt(self, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
        """The square root.   f[...]  →  f[...]     nan below 0; the derivative at 0 is inf"""
    def square(self, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
        """x * x.   T[...]  →  T[...]"""
    def squeeze(self, axis: _Axes | None = None) -> Tensor:
        """x without axes of extent 1: those named, or all of them."""
    def std(
        self,
        axis: _Axes | None = None,
        *,
        dtype: DTypeLike | None = None,
        ddof: float | None = 0,
        correction: float | None = None,
        keepdims: bool = False,
        where: _ArrayLike = True,
        mean: _ArrayLike | None = None,
    ) -> Tensor:
        """The standard deviation: the square root of `var`."""
    def sum(
        self,
        axis: _Axes | None = None,
        *,
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
        initial: _ArrayLike | None = None,
        where: _ArrayLike = True,
    ) -> Tensor:
        """The sum over an axis, several, or (None) all of them."""
    def swapaxes(self, axis1: SupportsIndex, axis2: SupportsIndex) -> Tensor:
        """x with two axes exchanged.   T[..., n, ..., m, ...]  →  T[..., m, ..., n, ...]"""
    def take(self, indices: _ArrayLike, axis: SupportsIndex | None = None, *, mode: str = "raise") -> Tensor:
        """Elements, or slices along an axis, by their indices (None: of x flattened)."""
    def tanh(self, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
        """The hyperbolic tangent.   f[...]  →  f[...]"""
    def trace(
        self,
        offset: SupportsIndex = 0,
        axis1: SupportsIndex = 0,
        axis2: SupportsIndex = 1,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """The sum of a diagonal, as of `diagonal`, of each matrix in x."""
    def transpose(self, *axes: _Axes | Sequence[_Axes] | None) -> Tensor:
        """x with its axes in another order: axis `axes[i]` becomes axis i; None reverses them."""
    def var(
        self,
        axis: _Axes | None = None,
        *,
        dtype: DTypeLike | None = None,
        ddof: float | None = 0,
        correction: float | None = None,
        keepdims: bool = False,
        where: _ArrayLike = True,
        mean: _ArrayLike | None = None,
    ) -> Tensor:
        """The variance over an axis, several, or (None) all: squares of deviations from the mean, over n - ddof."""
    @property
    def T(self) -> Tensor:
        """The axes in reverse order."""
    @property
    def imag(self) -> Tensor:
        """The imaginary part.   c[...]  →  f[...]     zeros of real arrays"""
    @property
    def mT(self) -> Tensor:
        """x with its last two axes exchanged: the transpose of each matrix.   T[..., n, m]  →  T[..., m, n]"""
    @property
    def real(self) -> Tensor:
        """The real part.   c[...]  →  f[...]     real arrays are themselves"""
    def __getitem__(self, key: Any, /) -> Tensor: ...
    def __setitem__(self, key: Any, value: _ArrayLike, /) -> None: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, element: object, /) -> bool: ...
    def __eq__(self, other: _Other, /) -> Tensor: ...  # type: ignore[override]  # pyright: ignore  by elements
    def __ne__(self, other: _Other, /) -> Tensor: ...  # type: ignore[override]  # pyright: ignore  by elements
    def __hash__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
    def __complex__(self) -> complex: ...
    def __index__(self) -> int: ...
    def __round__(self, ndigits: SupportsIndex | None = None, /) -> Tensor: ...
    def __divmod__(self, other: _Other, /) -> tuple[Tensor, Tensor]: ...
    def __rdivmod__(self, other: _Other, /) -> tuple[Tensor, Tensor]: ...
    def __dlpack__(self, **keywords: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __add__(self, other: _Other, /) -> Tensor: ...
    def __radd__(self, other: _Other, /) -> Tensor: ...
    def __iadd__(self, other: _Other, /) -> Tensor: ...
    def __sub__(self, other: _Other, /) -> Tensor: ...
    def __rsub__(self, other: _Other, /) -> Tensor: ...
    def __isub__(self, other: _Other, /) -> Tensor: ...
    def __mul__(self, other: _Other, /) -> Tensor: ...
    def __rmul__(self, other: _Other, /) -> Tensor: ...
    def __imul__(self, other: _Other, /) -> Tensor: ...
    def __truediv__(self, other: _Other, /) -> Tensor: ...
    def __rtruediv__(self, other: _Other, /) -> Tensor: ...
    def __itruediv__(self, other: _Other, /) -> Tensor: ...
    def __floordiv__(self, other: _Other, /) -> Tensor: ...
    def __rfloordiv__(self, other: _Other, /) -> Tensor: ...
    def __ifloordiv__(self, other: _Other, /) -> Tensor: ...
    def __mod__(self, other: _Other, /) -> Tensor: ...
    def __rmod__(self, other: _Other, /) -> Tensor: ...
    def __imod__(self, other: _Other, /) -> Tensor: ...
    def __pow__(self, other: _Other, /) -> Tensor: ...
    def __rpow__(self, other: _Other, /) -> Tensor: ...
    def __ipow__(self, other: _Other, /) -> Tensor: ...
    def __and__(self, other: _Other, /) -> Tensor: ...
    def __rand__(self, other: _Other, /) -> Tensor: ...
    def __iand__(self, other: _Other, /) -> Tensor: ...
    def __or__(self, other: _Other, /) -> Tensor: ...
    def __ror__(self, other: _Other, /) -> Tensor: ...
    def __ior__(self, other: _Other, /) -> Tensor: ...
    def __xor__(self, other: _Other, /) -> Tensor: ...
    def __rxor__(self, other: _Other, /) -> Tensor: ...
    def __ixor__(self, other: _Other, /) -> Tensor: ...
    def __lshift__(self, other: _Other, /) -> Tensor: ...
    def __rlshift__(self, other: _Other, /) -> Tensor: ...
    def __ilshift__(self, other: _Other, /) -> Tensor: ...
    def __rshift__(self, other: _Other, /) -> Tensor: ...
    def __rrshift__(self, other: _Other, /) -> Tensor: ...
    def __irshift__(self, other: _Other, /) -> Tensor: ...
    def __matmul__(self, other: _Other, /) -> Tensor: ...
    def __rmatmul__(self, other: _Other, /) -> Tensor: ...
    def __imatmul__(self, other: _Other, /) -> Tensor: ...
    def __lt__(self, other: _Other, /) -> Tensor: ...
    def __le__(self, other: _Other, /) -> Tensor: ...
    def __gt__(self, other: _Other, /) -> Tensor: ...
    def __ge__(self, other: _Other, /) -> Tensor: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...

Scalar: TypeAlias = Tensor
"""A tensor with no axes, of any dtype: `ad.Tensor[..., 0]`."""
Vector: TypeAlias = Tensor
"""A tensor with one axis, of any dtype: `ad.Tensor[..., 1]`."""
Matrix: TypeAlias = Tensor
"""A tensor with two axes, of any dtype: `ad.Tensor[..., 2]`."""
Number: TypeAlias = bool | int | float | complex | np.generic
"""A Python or NumPy scalar, bool included.  A 0-d array or tensor is an `ad.Scalar`."""

def tensor(data: Any, dtype: DTypeLike | None = None, requires_grad: bool = False) -> Tensor: ...
def asarray(
    data: Any = ...,
    dtype: DTypeLike | None = None,
    copy: bool | str | None = None,
    *,
    a: Any = ...,
    order: str | None = None,
    device: str | None = None,
    like: None = None,
) -> Tensor: ...

# ---------------------------------------------------------------- structured types

class _Structured(AbstractTensor):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    ndim: int
    size: int
    def numpy(self) -> NDArray[Any]: ...

class Diagonal(_Structured):
    diagonal: Any
    def __init__(self, diagonal: _ArrayLike) -> None: ...

class UniformScaling(_Structured):
    scale: Any
    n: int
    def __init__(self, scale: _ArrayLike, n: int) -> None: ...

class Symmetric(_Structured):
    def __init__(self, x: _ArrayLike) -> None: ...

class Cholesky(_Structured):
    factor: Any
    def __init__(self, x: _ArrayLike) -> None: ...

class LowerTriangular(_Structured):
    def __init__(self, x: _ArrayLike) -> None: ...

class UpperTriangular(_Structured):
    def __init__(self, x: _ArrayLike) -> None: ...

class Permutation(_Structured):
    indices: Any
    inverse: Any
    def __init__(self, indices: _ArrayLike) -> None: ...

class Fill(_Structured):
    value: Any
    extents: tuple[int, ...]
    def __init__(self, value: _ArrayLike, shape: _Shape) -> None: ...

class OneHot(_Structured):
    indices: Any
    classes: int
    def __init__(self, indices: _ArrayLike, classes: int) -> None: ...

# ---------------------------------------------------------------- functions of one's own

class _Fields(Sequence[Any]):
    @property
    def _fields(self) -> tuple[str | None, ...]: ...
    def _asdict(self) -> dict[str, Any]: ...
    def __getattr__(self, name: str, /) -> Any: ...
    @overload
    def __getitem__(self, key: SupportsIndex | str, /) -> Any: ...
    @overload
    def __getitem__(self, key: slice, /) -> tuple[Any, ...]: ...
    def __len__(self) -> int: ...

class ForwardContext:
    @property
    def needs_input_grad(self) -> _Fields: ...
    @property
    def inputs(self) -> _Fields: ...
    def save_for_backward(self, /, *values: Any, **named: Any) -> None: ...
    def mark_dirty(self, *inputs: Any) -> None: ...
    def mark_non_differentiable(self, *outputs: Any) -> None: ...
    def set_materialize_grads(self, flag: bool) -> None: ...
    def __getattr__(self, name: str, /) -> Any: ...
    def __setattr__(self, name: str, value: Any, /) -> None: ...

class BackwardContext:
    @property
    def saved_variables(self) -> _Fields: ...
    @property
    def saved_tensors(self) -> tuple[Any, ...]: ...
    @property
    def needs_input_grad(self) -> _Fields: ...
    @property
    def inputs(self) -> _Fields: ...
    @property
    def outputs(self) -> Any: ...
    def __getattr__(self, name: str, /) -> Any: ...

# What a decorator makes of `def _` is Any: `_` is a name for other things in the same file, too.
_Rule: TypeAlias = Callable[..., Any]

class _Method(Generic[_P, _R]):
    __name__: str
    kind: str
    host: bool
    place: str
    def __call__(self, *args: Any, **keywords: Any) -> _R: ...
    @overload
    def backward(self, implementation: _Rule, /, *, host: bool = False) -> Any: ...
    @overload
    def backward(self, implementation: None = None, /, *, host: bool = False) -> Callable[[_Rule], Any]: ...
    @overload
    def jvp(self, implementation: _Rule, /) -> Any: ...
    @overload
    def jvp(self, implementation: None = None, /) -> Callable[[_Rule], Any]: ...
    def delete(self) -> None: ...

class _Function(Generic[_P, _R]):
    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def method(self, *types: _Type) -> Callable[[_Rule], Any]: ...
    @overload
    def method(self, implementation: Callable[_Q, _S], /) -> _Method[_Q, _S]: ...
    @overload
    def forward(self, *types: _Type, host: bool = False, out: Any = None) -> Callable[[_Rule], Any]: ...
    @overload
    def forward(
        self, implementation: Callable[_Q, _S], /, *, host: bool = False, out: Any = None
    ) -> _Method[_Q, _S]: ...
    @overload
    def backward(self, *types: _Type, host: bool = False) -> Callable[[_Rule], Any]: ...
    @overload
    def backward(self, implementation: _Rule, /, *, host: bool = False) -> Any: ...
    @overload
    def jvp(self, *types: _Type) -> Callable[[_Rule], Any]: ...
    @overload
    def jvp(self, implementation: _Rule, /) -> Any: ...
    def invoke(self, types: Sequence[_Type], /, *args: Any, **keywords: Any) -> Any: ...

@overload
def function(declaration: Callable[_P, None]) -> _Function[_P, Any]: ...
@overload
def function(declaration: Callable[_P, _R]) -> _Function[_P, _R]: ...

# ---------------------------------------------------------------- transformations

class _Made(Protocol[_P, _Result]):
    # A function that a transformation made, as another one sees it: without the second way to call it.
    def _call(self, *args: _P.args, **kwargs: _P.kwargs) -> _Result: ...

class _Transformed(Generic[_P, _R]):
    # Arguments that the function itself takes give what is known of its result.  It is given tensors for arrays and
    # numbers, whatever its annotations say, and the results are arrays then.
    __name__: str
    __wrapped__: Callable[_P, _R]
    def _call(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    @overload
    def __get__(self, instance: None, owner: type | None = None, /) -> Self: ...
    @overload
    def __get__(
        self: _Made[Concatenate[Any, _Q], _S], instance: object, owner: type | None = None, /
    ) -> _Transformed[_Q, _S]: ...

@overload
def grad(
    f: _Made[Concatenate[_A, _P], Any], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> _Transformed[Concatenate[_A, _P], _A]: ...
@overload
def grad(
    f: Callable[Concatenate[_A, _P], tuple[Any, _Aux]], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> _Transformed[Concatenate[_A, _P], tuple[_A, _Aux]]: ...
@overload
def grad(
    f: Callable[Concatenate[_A, _P], Any], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> _Transformed[Concatenate[_A, _P], _A]: ...
@overload
def grad(
    f: Callable[Concatenate[_A, _B, _P], Any], argnums: Literal[1], has_aux: Literal[False] = False
) -> _Transformed[Concatenate[_A, _B, _P], _B]: ...
@overload
def grad(
    f: Callable[Concatenate[_A, _B, _P], Any],
    argnums: tuple[Literal[0], Literal[1]],
    has_aux: Literal[False] = False,
) -> _Transformed[Concatenate[_A, _B, _P], tuple[_A, _B]]: ...
@overload
def grad(
    f: Callable[Concatenate[_A, _B, _C, _P], Any],
    argnums: tuple[Literal[0], Literal[1], Literal[2]],
    has_aux: Literal[False] = False,
) -> _Transformed[Concatenate[_A, _B, _C, _P], tuple[_A, _B, _C]]: ...
@overload
def grad(
    f: Callable[_P, Any], argnums: Sequence[int], has_aux: Literal[False] = False
) -> _Transformed[_P, tuple[Any, ...]]: ...
@overload
def grad(f: Callable[_P, Any], argnums: int | Sequence[int], has_aux: bool = False) -> _Transformed[_P, Any]: ...
@overload
def grad(f: Callable[_P, Any], argnums: int | Sequence[int] = 0, *, has_aux: bool) -> _Transformed[_P, Any]: ...
@overload
def grad(
    y: Tensor | Sequence[Tensor],
    xs: _A,
    grad_outputs: Any = None,
    create_graph: bool = False,
    allow_unused: Literal[False] = False,
    *,
    retain_graph: bool | None = None,
) -> _A: ...
@overload
def grad(
    y: Tensor | Sequence[Tensor],
    xs: Any,
    grad_outputs: Any = None,
    create_graph: bool = False,
    allow_unused: bool = False,
    *,
    retain_graph: bool | None = None,
) -> Any: ...
@overload
def value_and_grad(
    f: _Made[Concatenate[_A, _P], _R], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> _Transformed[Concatenate[_A, _P], tuple[_R, _A]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[_A, _P], tuple[_R, _Aux]], argnums: Literal[0] = 0, *, has_aux: Literal[True]
) -> _Transformed[Concatenate[_A, _P], tuple[tuple[_R, _Aux], _A]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[_A, _P], _R], argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> _Transformed[Concatenate[_A, _P], tuple[_R, _A]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[_A, _B, _P], _R], argnums: Literal[1], has_aux: Literal[False] = False
) -> _Transformed[Concatenate[_A, _B, _P], tuple[_R, _B]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[_A, _B, _P], _R],
    argnums: tuple[Literal[0], Literal[1]],
    has_aux: Literal[False] = False,
) -> _Transformed[Concatenate[_A, _B, _P], tuple[_R, tuple[_A, _B]]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[_A, _B, _C, _P], _R],
    argnums: tuple[Literal[0], Literal[1], Literal[2]],
    has_aux: Literal[False] = False,
) -> _Transformed[Concatenate[_A, _B, _C, _P], tuple[_R, tuple[_A, _B, _C]]]: ...
@overload
def value_and_grad(
    f: Callable[_P, _R], argnums: Sequence[int], has_aux: bool = False
) -> _Transformed[_P, tuple[_R, tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    f: Callable[_P, _R], argnums: int | Sequence[int], has_aux: bool = False
) -> _Transformed[_P, tuple[_R, Any]]: ...
@overload
def value_and_grad(
    f: Callable[_P, _R], argnums: int | Sequence[int] = 0, *, has_aux: bool
) -> _Transformed[_P, tuple[_R, Any]]: ...
@overload
def vjp(
    f: Callable[[*_Ts], tuple[_R, _Aux]], *primals: *_Ts, has_aux: Literal[True]
) -> tuple[_R, Callable[[Any], tuple[*_Ts]], _Aux]: ...
@overload
def vjp(
    f: Callable[[*_Ts], _R], *primals: *_Ts, has_aux: Literal[False] = False
) -> tuple[_R, Callable[[Any], tuple[*_Ts]]]: ...
@overload
def vjp(
    f: Callable[..., Any], *primals: Any, has_aux: Literal[False] = False
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any: ...
@overload
def jvp(f: Callable[[*_Ts], _R], primals: tuple[*_Ts], tangents: tuple[*_Ts]) -> tuple[_R, _R]: ...
@overload
def jvp(f: Callable[[Tensor], _R], primals: Tensor, tangents: Tensor) -> tuple[_R, _R]: ...
@overload
def jvp(f: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]: ...
@overload
def jacobian(
    f: Callable[Concatenate[Tensor, _P], Tensor],
    argnums: Literal[0] = 0,
    mode: Literal["auto", "reverse", "forward"] = "auto",
) -> _Transformed[Concatenate[Tensor, _P], Tensor]: ...
@overload
def jacobian(
    f: Callable[_P, Any],
    argnums: int | Sequence[int] = 0,
    mode: Literal["auto", "reverse", "forward"] = "auto",
) -> _Transformed[_P, Any]: ...
@overload
def hessian(
    f: Callable[Concatenate[Tensor, _P], Any], argnums: Literal[0] = 0
) -> _Transformed[Concatenate[Tensor, _P], Tensor]: ...
@overload
def hessian(f: Callable[_P, Any], argnums: int | Sequence[int] = 0) -> _Transformed[_P, Any]: ...
@overload
def hvp(f: Callable[..., Any], primals: tuple[_A], tangents: tuple[_A]) -> _A: ...
@overload
def hvp(
    f: Callable[..., Any], primals: tuple[_A, _B, *_Ts], tangents: tuple[_A, _B, *_Ts]
) -> tuple[_A, _B, *_Ts]: ...
@overload
def hvp(f: Callable[..., Any], primals: Tensor, tangents: Tensor) -> Tensor: ...
@overload
def hvp(f: Callable[..., Any], primals: Any, tangents: Any) -> Any: ...
@overload
def jit(
    f: _Made[_P, _R],
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> _Transformed[_P, _R]: ...
@overload
def jit(
    f: Callable[_P, _R],
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> _Transformed[_P, _R]: ...
@overload
def jit(
    f: None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Callable[[Callable[_P, _R]], _Transformed[_P, _R]]: ...
@overload
def vmap(f: _Made[_P, _R], in_axes: Any = 0, out_axes: Any = 0) -> _Transformed[_P, _R]: ...
@overload
def vmap(f: Callable[_P, _R], in_axes: Any = 0, out_axes: Any = 0) -> _Transformed[_P, _R]: ...
@overload
def checkpoint(f: _Made[_P, _R]) -> _Transformed[_P, _R]: ...
@overload
def checkpoint(f: Callable[_P, _R]) -> _Transformed[_P, _R]: ...
def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Any = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None: ...

class _Mode:
    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def __call__(self, f: _F, /) -> _F: ...

class no_grad(_Mode): ...
class enable_grad(_Mode): ...

class detect_anomaly(AbstractContextManager[None]):
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

# ---------------------------------------------------------------- control flow

@overload
def cond(
    chosen: Any, if_true: Callable[[*_Ts], _R], if_false: Callable[[*_Ts], _R], *operands: *_Ts
) -> _R: ...
@overload
def cond(chosen: Any, if_true: Callable[..., _R], if_false: Callable[..., _R], *operands: Any) -> _R: ...
@overload
def while_loop(
    condition: Callable[[Tensor], object], body: Callable[[Tensor], object], init: _Single
) -> Tensor: ...
@overload
def while_loop(condition: Callable[[Any], Any], body: Callable[[Any], _S], init: Any) -> _S: ...
@overload
def fori_loop(
    lower: SupportsIndex, upper: SupportsIndex, body: Callable[[Tensor, Tensor], object], init: _Single
) -> Tensor: ...
@overload
def fori_loop(
    lower: SupportsIndex, upper: SupportsIndex, body: Callable[[Any, Any], _S], init: Any
) -> _S: ...
@overload
def scan(
    f: Callable[[Tensor, Tensor], tuple[object, _B]],
    init: _Single,
    xs: Tensor | np.ndarray[Any, Any],
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Tensor, _B]: ...
@overload
def scan(
    f: Callable[[Any, Any], tuple[_S, _B]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[_S, _B]: ...

# ---------------------------------------------------------------- operations

def _operation(declaration: Callable[_P, _R]) -> _Function[_P, _R]: ...

# Where the arguments decide what the result is.

class _Where(_Function[..., Any]):
    @overload
    def __call__(self, condition: _ArrayLike) -> tuple[Tensor, ...]: ...
    @overload
    def __call__(self, condition: _ArrayLike, x1: _ArrayLike, x2: _ArrayLike) -> Tensor: ...

class _Linspace(_Function[..., Any]):
    @overload
    def __call__(
        self,
        start: _ArrayLike,
        stop: _ArrayLike,
        num: SupportsIndex = 50,
        endpoint: bool = True,
        retstep: Literal[False] = False,
        dtype: DTypeLike | None = None,
        axis: SupportsIndex = 0,
    ) -> Tensor: ...
    @overload
    def __call__(
        self,
        start: _ArrayLike,
        stop: _ArrayLike,
        num: SupportsIndex = 50,
        endpoint: bool = True,
        *,
        retstep: Literal[True],
        dtype: DTypeLike | None = None,
        axis: SupportsIndex = 0,
    ) -> tuple[Tensor, Tensor]: ...

class _Average(_Function[..., Any]):
    @overload
    def __call__(
        self,
        x: _ArrayLike,
        axis: _Axes | None = None,
        weights: _ArrayLike | None = None,
        returned: Literal[False] = False,
        *,
        keepdims: bool = False,
    ) -> Tensor: ...
    @overload
    def __call__(
        self,
        x: _ArrayLike,
        axis: _Axes | None = None,
        weights: _ArrayLike | None = None,
        *,
        returned: Literal[True],
        keepdims: bool = False,
    ) -> tuple[Tensor, Tensor]: ...

class _Indices(_Function[..., Any]):
    @overload
    def __call__(
        self, dimensions: Sequence[SupportsIndex], dtype: DTypeLike = ..., sparse: Literal[False] = False
    ) -> Tensor: ...
    @overload
    def __call__(
        self, dimensions: Sequence[SupportsIndex], dtype: DTypeLike = ..., *, sparse: Literal[True]
    ) -> tuple[Tensor, ...]: ...

class _AtLeast(_Function[..., Any]):
    @overload
    def __call__(self, x: _ArrayLike, /) -> Tensor: ...
    @overload
    def __call__(self, x: _ArrayLike, y: _ArrayLike, /, *tensors: _ArrayLike) -> tuple[Tensor, ...]: ...

class _StopGradient(_Function[..., Any]):
    @overload
    def __call__(self, t: _Single) -> Tensor: ...
    @overload
    def __call__(self, t: _A) -> _A: ...

where: _Where
stop_gradient: _StopGradient
linspace: _Linspace
average: _Average
indices: _Indices
atleast_1d: _AtLeast
atleast_2d: _AtLeast
atleast_3d: _AtLeast

@_operation
def abs(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """|x|.   T[...]  →  T[...], c[...]  →  f[...]     the derivative at 0 is 0"""
@_operation
def add(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 + x2.   T[...], T[...]  →  T[...]     of bool: logical or, as in NumPy"""
@_operation
def add_at(x: _ArrayLike, key: Any, value: _ArrayLike) -> Tensor: ...
@_operation
def all(x: _ArrayLike, axis: _Axes | None = None, *, keepdims: bool = False, where: _ArrayLike = True) -> Tensor: ...
@_operation
def allclose(
    a: _ArrayLike, b: _ArrayLike, rtol: _ArrayLike = 1e-05, atol: _ArrayLike = 1e-08, equal_nan: bool = False
) -> Tensor: ...
@_operation
def angle(z: _ArrayLike, deg: bool = False) -> Tensor: ...
@_operation
def any(x: _ArrayLike, axis: _Axes | None = None, *, keepdims: bool = False, where: _ArrayLike = True) -> Tensor: ...
@_operation
def append(x: _ArrayLike, values: _ArrayLike, axis: SupportsIndex | None = None) -> Tensor: ...
@_operation
def arange(
    start: _ArrayLike,
    stop: _ArrayLike | None = None,
    step: _ArrayLike = 1,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    like: None = None,
) -> Tensor: ...
@_operation
def arccos(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The angle in [0, π] whose cosine is x.   f[...]  →  f[...]     nan outside [-1, 1]"""
@_operation
def arccosh(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The inverse hyperbolic cosine, not negative.   f[...]  →  f[...]     nan below 1"""
@_operation
def arcsin(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The angle in [-π/2, π/2] whose sine is x.   f[...]  →  f[...]     nan outside [-1, 1]"""
@_operation
def arcsinh(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The inverse hyperbolic sine.   f[...]  →  f[...]"""
@_operation
def arctan(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The angle in [-π/2, π/2] whose tangent is x.   f[...]  →  f[...]"""
@_operation
def arctan2(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """The angle of the point (x2, x1), in [-π, π].   f[...], f[...]  →  f[...]"""
@_operation
def arctanh(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The inverse hyperbolic tangent.   f[...]  →  f[...]     nan outside [-1, 1]"""
@_operation
def argmax(x: _ArrayLike, axis: SupportsIndex | None = None, *, keepdims: bool = False) -> Tensor: ...
@_operation
def argmin(x: _ArrayLike, axis: SupportsIndex | None = None, *, keepdims: bool = False) -> Tensor: ...
@_operation
def argsort(x: _ArrayLike, axis: SupportsIndex = -1, *, descending: bool = False, stable: bool = True) -> Tensor: ...
@_operation
def argwhere(x: _ArrayLike) -> Tensor: ...
@_operation
def array_equal(a: _ArrayLike, b: _ArrayLike, equal_nan: bool = False) -> Tensor: ...
@_operation
def array_split(x: _ArrayLike, indices_or_sections: _Axes | _ArrayLike, axis: SupportsIndex = 0) -> list[Tensor]: ...
@_operation
def astype(
    x: _ArrayLike,
    dtype: DTypeLike,
    order: _Order = "K",
    casting: _Casting = "unsafe",
    subok: bool = True,
    copy: bool = True,
    *,
    device: str | None = None,
) -> Tensor: ...
@_operation
def bincount(
    x: _ArrayLike,
    weights: _ArrayLike | None = None,
    minlength: SupportsIndex = 0,
    *,
    length: SupportsIndex | None = None,
) -> Tensor: ...
@_operation
def bitwise_and(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 & x2: bit by bit; of bool, logical and.   i[...], i[...]  →  i[...]"""
@_operation
def bitwise_invert(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """All bits inverted, ~x; of bool, logical not.   i[...]  →  i[...]"""
@_operation
def bitwise_left_shift(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 << x2.   i[...], i[...]  →  i[...]     0 when x2 is no number of bits (negative, or too many)"""
@_operation
def bitwise_or(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 | x2: bit by bit; of bool, logical or.   i[...], i[...]  →  i[...]"""
@_operation
def bitwise_right_shift(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 >> x2, keeping the sign.   i[...], i[...]  →  i[...]     0 or -1 when x2 is no number of bits"""
@_operation
def bitwise_xor(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 ^ x2: bit by bit; of bool, exclusive or.   i[...], i[...]  →  i[...]"""
@_operation
def broadcast_arrays(*tensors: _ArrayLike) -> tuple[Tensor, ...]: ...
@_operation
def broadcast_to(x: _ArrayLike, shape: _Shape) -> Tensor: ...
@_operation
def cbrt(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The cube root, also of negative numbers.   f[...]  →  f[...]     its derivative at 0 is inf"""
@_operation
def ceil(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The smallest integer not below x, in x's dtype.   T[...]  →  T[...]     no gradient flows"""
@_operation
def clip(
    x: _ArrayLike,
    min: _ArrayLike | None = None,
    max: _ArrayLike | None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: _Casting = "same_kind",
) -> Tensor: ...
@_operation
def column_stack(tensors: Sequence[_ArrayLike] | _ArrayLike) -> Tensor: ...
@_operation
def concatenate(
    arrays: Sequence[_ArrayLike] | _ArrayLike,
    axis: SupportsIndex = 0,
    *,
    dtype: DTypeLike | None = None,
    casting: _Casting = "same_kind",
) -> Tensor: ...
@_operation
def conj(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor: ...
@_operation
def convolve(a: _ArrayLike, v: _ArrayLike, mode: str = "full") -> Tensor: ...
@_operation
def copysign(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """|x1| with the sign of x2, also that of -0.0 and nan.   f[...], f[...]  →  f[...]"""
@_operation
def corrcoef(
    x: _ArrayLike, y: _ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None
) -> Tensor: ...
@_operation
def correlate(a: _ArrayLike, v: _ArrayLike, mode: str = "valid") -> Tensor: ...
@_operation
def cos(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The cosine of x in radians.   f[...]  →  f[...]"""
@_operation
def cosh(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The hyperbolic cosine.   f[...]  →  f[...]"""
@_operation
def count_nonzero(x: _ArrayLike, axis: _Axes | None = None, *, keepdims: bool = False) -> Tensor: ...
@_operation
def cov(
    m: _ArrayLike,
    y: _ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: float | None = None,
    fweights: _ArrayLike | None = None,
    aweights: _ArrayLike | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor: ...
@_operation
def cross(
    a: _ArrayLike,
    b: _ArrayLike,
    axisa: SupportsIndex = -1,
    axisb: SupportsIndex = -1,
    axisc: SupportsIndex = -1,
    axis: SupportsIndex | None = None,
) -> Tensor: ...
@_operation
def cummax(x: _ArrayLike, axis: SupportsIndex | None = None) -> Tensor: ...
@_operation
def cummin(x: _ArrayLike, axis: SupportsIndex | None = None) -> Tensor: ...
@_operation
def cumprod(x: _ArrayLike, axis: SupportsIndex | None = None, *, dtype: DTypeLike | None = None) -> Tensor: ...
@_operation
def cumsum(x: _ArrayLike, axis: SupportsIndex | None = None, *, dtype: DTypeLike | None = None) -> Tensor: ...
@_operation
def cumulative_prod(
    x: _ArrayLike, *, axis: SupportsIndex | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor: ...
@_operation
def cumulative_sum(
    x: _ArrayLike, *, axis: SupportsIndex | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor: ...
@_operation
def deg2rad(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor: ...
@_operation
def dense(x: _ArrayLike) -> Tensor: ...
@_operation
def diag(x: _ArrayLike, k: SupportsIndex = 0) -> Tensor: ...
@_operation
def diagflat(x: _ArrayLike, k: SupportsIndex = 0) -> Tensor: ...
@_operation
def diagonal(
    x: _ArrayLike, offset: SupportsIndex = 0, axis1: SupportsIndex = 0, axis2: SupportsIndex = 1
) -> Tensor: ...
@_operation
def diff(
    x: _ArrayLike,
    n: SupportsIndex = 1,
    axis: SupportsIndex = -1,
    prepend: _ArrayLike | None = None,
    append: _ArrayLike | None = None,
) -> Tensor: ...
@_operation
def digitize(x: _ArrayLike, bins: _ArrayLike, right: bool = False) -> Tensor: ...
@_operation
def divide(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 / x2.   f[...], f[...]  →  f[...]     integers are divided as float64"""
@_operation
def divmod(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> tuple[Tensor, Tensor]: ...
@_operation
def dot(x1: _ArrayLike, x2: _ArrayLike) -> Tensor: ...
@_operation
def dsplit(x: _ArrayLike, indices_or_sections: _Axes | _ArrayLike) -> list[Tensor]: ...
@_operation
def dstack(tensors: Sequence[_ArrayLike] | _ArrayLike) -> Tensor: ...
@_operation
def ediff1d(x: _ArrayLike, to_end: _ArrayLike | None = None, to_begin: _ArrayLike | None = None) -> Tensor: ...
@_operation
def einsum(*operands: Any, dtype: DTypeLike | None = None, casting: _Casting = "safe") -> Tensor: ...
@_operation
def elu(x: _ArrayLike, alpha: _ArrayLike = 1.0) -> Tensor: ...
@_operation
def empty(
    shape: _Shape, dtype: DTypeLike | None = None, order: _Order = "C", *, device: str | None = None, like: None = None
) -> Tensor: ...
@_operation
def empty_like(x: _ArrayLike, *, dtype: DTypeLike | None = None, shape: _Shape | None = None) -> Tensor: ...
@_operation
def equal(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 == x2, element by element.   T[...], T[...]  →  bool[...]     False where either is nan"""
@_operation
def erf(x: _ArrayLike) -> Tensor:
    """The error function, 2/√π ∫₀ˣ exp(-t²) dt.   f[...]  →  f[...]"""
@_operation
def erfinv(x: _ArrayLike) -> Tensor:
    """The inverse of erf: erf(erfinv(x)) = x.   f[...]  →  f[...]     ±inf at ±1, nan outside [-1, 1]"""
@_operation
def exp(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """e to the power x.   f[...]  →  f[...]"""
@_operation
def exp2(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """2 to the x.   f[...]  →  f[...]     integers and bool give float64"""
@_operation
def expand_dims(x: _ArrayLike, axis: _Axes) -> Tensor: ...
@_operation
def expm1(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """exp(x) - 1, accurate near 0.   f[...]  →  f[...]"""
@_operation
def eye(
    n_rows: SupportsIndex, n_cols: SupportsIndex | None = None, k: SupportsIndex = 0, dtype: DTypeLike | None = None
) -> Tensor: ...
@_operation
def fabs(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor: ...
@_operation
def flatnonzero(x: _ArrayLike) -> Tensor: ...
@_operation
def flip(x: _ArrayLike, axis: _Axes | None = None) -> Tensor: ...
@_operation
def fliplr(x: _ArrayLike) -> Tensor: ...
@_operation
def flipud(x: _ArrayLike) -> Tensor: ...
@_operation
def float_power(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor: ...
@_operation
def floor(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The largest integer not above x, in x's dtype.   T[...]  →  T[...]     no gradient flows"""
@_operation
def floor_divide(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """The largest integer not above x1 / x2.   T[...], T[...]  →  T[...]"""
@_operation
def fmax(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor: ...
@_operation
def fmin(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor: ...
@_operation
def fmod(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 - trunc(x1 / x2) * x2, with the sign of x1, exactly; `mod` has that of x2.   T[...], T[...]  →  T[...]"""
@_operation
def frexp(
    x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> tuple[Tensor, Tensor]: ...
def full(
    shape: _Shape,
    fill_value: _ArrayLike,
    dtype: DTypeLike | None = None,
    order: _Order = "C",
    *,
    device: str | None = None,
    like: None = None,
) -> Tensor: ...
@_operation
def full_like(
    x: _ArrayLike, fill_value: _ArrayLike, *, dtype: DTypeLike | None = None, shape: _Shape | None = None
) -> Tensor: ...
@_operation
def gelu(x: _ArrayLike, approximate: bool = False) -> Tensor: ...
@_operation
def geomspace(
    start: _ArrayLike,
    stop: _ArrayLike,
    num: SupportsIndex = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: SupportsIndex = 0,
) -> Tensor: ...
@_operation
def gradient(f: _ArrayLike, *varargs: _ArrayLike, axis: _Axes | None = None, edge_order: SupportsIndex = 1) -> Any: ...
@_operation
def greater(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 > x2, element by element.   T[...], T[...]  →  bool[...]     False where either is nan"""
@_operation
def greater_equal(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 >= x2, element by element.   T[...], T[...]  →  bool[...]     False where either is nan"""
@_operation
def heaviside(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """0 for negative x1, 1 for positive, x2 where it is 0.   f[...], f[...]  →  f[...]     the gradient is x2's"""
@_operation
def histogram(
    x: _ArrayLike,
    bins: int | str | _ArrayLike = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
    weights: _ArrayLike | None = None,
) -> tuple[Tensor, Tensor]: ...
@_operation
def hsplit(x: _ArrayLike, indices_or_sections: _Axes | _ArrayLike) -> list[Tensor]: ...
@_operation
def hstack(
    tensors: Sequence[_ArrayLike] | _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor: ...
@_operation
def hypot(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """sqrt(x1² + x2²) without overflow.   f[...], f[...]  →  f[...]     the derivative at (0, 0) is 0"""
@_operation
def identity(n: SupportsIndex, dtype: DTypeLike | None = None) -> Tensor: ...
@_operation
def imag(x: _ArrayLike) -> Tensor: ...
@_operation
def inner(x1: _ArrayLike, x2: _ArrayLike) -> Tensor: ...
@_operation
def interp(
    x: _ArrayLike,
    xp: _ArrayLike,
    fp: _ArrayLike,
    left: _ArrayLike | None = None,
    right: _ArrayLike | None = None,
    period: _ArrayLike | None = None,
) -> Tensor: ...
@_operation
def isclose(
    a: _ArrayLike, b: _ArrayLike, rtol: _ArrayLike = 1e-05, atol: _ArrayLike = 1e-08, equal_nan: bool = False
) -> Tensor: ...
@_operation
def iscomplex(x: _ArrayLike) -> Tensor: ...
@_operation
def isfinite(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """True for elements that are neither nan nor infinite.   T[...]  →  bool[...]     integers always are"""
@_operation
def isin(element: _ArrayLike, test_elements: _ArrayLike, *, invert: bool = False) -> Tensor: ...
@_operation
def isinf(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """True for elements that are infinite, or have a part that is.   T[...]  →  bool[...]     integers never are"""
@_operation
def isnan(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """True for elements that are nan, or have a part that is.   T[...]  →  bool[...]     integers never are"""
@_operation
def isneginf(x: _ArrayLike) -> Tensor: ...
@_operation
def isposinf(x: _ArrayLike) -> Tensor: ...
@_operation
def isreal(x: _ArrayLike) -> Tensor: ...
@_operation
def kron(a: _ArrayLike, b: _ArrayLike) -> Tensor: ...
@_operation
def ldexp(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor: ...
@_operation
def leaky_relu(x: _ArrayLike, negative_slope: _ArrayLike = 0.01) -> Tensor: ...
@_operation
def less(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 < x2, element by element.   T[...], T[...]  →  bool[...]     False where either is nan"""
@_operation
def less_equal(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 <= x2, element by element.   T[...], T[...]  →  bool[...]     False where either is nan"""
@_operation
def log(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The natural logarithm.   f[...]  →  f[...]     -inf at 0, nan below"""
@_operation
def log10(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The logarithm to base 10.   f[...]  →  f[...]"""
@_operation
def log1p(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """log(1 + x), accurate near 0.   f[...]  →  f[...]     -inf at -1, nan below"""
@_operation
def log2(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The logarithm to base 2.   f[...]  →  f[...]"""
@_operation
def log_sigmoid(x: _ArrayLike) -> Tensor: ...
@_operation
def log_softmax(x: _ArrayLike, axis: _Axes = -1) -> Tensor: ...
@_operation
def logaddexp(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """log(exp(x1) + exp(x2)) without overflow.   f[...], f[...]  →  f[...]     integers and bool give float64"""
@_operation
def logaddexp2(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """log2(2**x1 + 2**x2) without overflow.   f[...], f[...]  →  f[...]     equal ones share the gradient evenly"""
@_operation
def logical_and(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor: ...
@_operation
def logical_not(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor: ...
@_operation
def logical_or(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor: ...
@_operation
def logical_xor(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor: ...
@_operation
def logspace(
    start: _ArrayLike,
    stop: _ArrayLike,
    num: SupportsIndex = 50,
    endpoint: bool = True,
    base: _ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: SupportsIndex = 0,
) -> Tensor: ...
@_operation
def logsumexp(x: _ArrayLike, axis: _Axes | None = None, *, keepdims: bool = False) -> Tensor: ...
@_operation
def matmul(
    x1: _ArrayLike,
    x2: _ArrayLike,
    *,
    axes: _Axes | Sequence[_Axes] | None = None,
    dtype: DTypeLike | None = None,
    casting: _Casting = "same_kind",
) -> Tensor: ...
@_operation
def matrix_transpose(x: _ArrayLike) -> Tensor: ...
@_operation
def matvec(
    a: _ArrayLike,
    b: _ArrayLike,
    *,
    axes: _Axes | Sequence[_Axes] | None = None,
    dtype: DTypeLike | None = None,
    casting: _Casting = "same_kind",
) -> Tensor: ...
@_operation
def max(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    keepdims: bool = False,
    initial: _ArrayLike | None = None,
    where: _ArrayLike = True,
) -> Tensor: ...
@_operation
def maximum(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """The larger of two elements; nan if either is.   T[...], T[...]  →  T[...]"""
@_operation
def mean(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: _ArrayLike = True,
) -> Tensor: ...
@_operation
def median(x: _ArrayLike, axis: _Axes | None = None, *, keepdims: bool = False) -> Tensor: ...
@_operation
def meshgrid(
    *arrays: _ArrayLike, copy: bool = True, sparse: bool = False, indexing: Literal["xy", "ij"] = "xy"
) -> tuple[Tensor, ...]: ...
@_operation
def min(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    keepdims: bool = False,
    initial: _ArrayLike | None = None,
    where: _ArrayLike = True,
) -> Tensor: ...
@_operation
def minimum(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """The smaller of two elements; nan if either is.   T[...], T[...]  →  T[...]"""
@_operation
def mish(x: _ArrayLike) -> Tensor: ...
@_operation
def mod(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 - floor(x1 / x2) * x2, with the sign of x2, exactly.   T[...], T[...]  →  T[...]"""
@_operation
def modf(
    x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> tuple[Tensor, Tensor]: ...
@_operation
def moveaxis(x: _ArrayLike, source: _Axes, destination: _Axes) -> Tensor: ...
@_operation
def multiply(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 * x2.   T[...], T[...]  →  T[...]     of bool: logical and, as in NumPy"""
@_operation
def nan_to_num(
    x: _ArrayLike, *, nan: _ArrayLike = 0.0, posinf: _ArrayLike | None = None, neginf: _ArrayLike | None = None
) -> Tensor: ...
@_operation
def nanargmax(x: _ArrayLike, axis: SupportsIndex | None = None, *, keepdims: bool = False) -> Tensor: ...
@_operation
def nanargmin(x: _ArrayLike, axis: SupportsIndex | None = None, *, keepdims: bool = False) -> Tensor: ...
@_operation
def nancumprod(x: _ArrayLike, axis: SupportsIndex | None = None, *, dtype: DTypeLike | None = None) -> Tensor: ...
@_operation
def nancumsum(x: _ArrayLike, axis: SupportsIndex | None = None, *, dtype: DTypeLike | None = None) -> Tensor: ...
@_operation
def nanmax(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    keepdims: bool = False,
    initial: _ArrayLike | None = None,
    where: _ArrayLike = True,
) -> Tensor: ...
@_operation
def nanmean(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    where: _ArrayLike = True,
) -> Tensor: ...
@_operation
def nanmedian(x: _ArrayLike, axis: _Axes | None = None, *, keepdims: bool = False) -> Tensor: ...
@_operation
def nanmin(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    keepdims: bool = False,
    initial: _ArrayLike | None = None,
    where: _ArrayLike = True,
) -> Tensor: ...
@_operation
def nanpercentile(
    x: _ArrayLike,
    q: _ArrayLike,
    axis: _Axes | None = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: _ArrayLike | None = None,
) -> Tensor: ...
@_operation
def nanprod(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: _ArrayLike | None = None,
    where: _ArrayLike = True,
) -> Tensor: ...
@_operation
def nanquantile(
    x: _ArrayLike,
    q: _ArrayLike,
    axis: _Axes | None = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: _ArrayLike | None = None,
) -> Tensor: ...
@_operation
def nanstd(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    dtype: DTypeLike | None = None,
    ddof: float | None = 0,
    correction: float | None = None,
    keepdims: bool = False,
    where: _ArrayLike = True,
    mean: _ArrayLike | None = None,
) -> Tensor: ...
@_operation
def nansum(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: _ArrayLike | None = None,
    where: _ArrayLike = True,
) -> Tensor: ...
@_operation
def nanvar(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    dtype: DTypeLike | None = None,
    ddof: float | None = 0,
    correction: float | None = None,
    keepdims: bool = False,
    where: _ArrayLike = True,
    mean: _ArrayLike | None = None,
) -> Tensor: ...
@_operation
def negative(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """-x.   T[...]  →  T[...]"""
@_operation
def nextafter(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """The next float after x1 in the direction of x2.   f[...], f[...]  →  f[...]     the gradient is x1's"""
@_operation
def nonzero(x: _ArrayLike) -> tuple[Tensor, ...]: ...
@_operation
def norm(
    x: _ArrayLike, ord: float | str | None = None, axis: _Axes | None = None, *, keepdims: bool = False
) -> Tensor: ...
@_operation
def not_equal(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 != x2, element by element.   T[...], T[...]  →  bool[...]     True where either is nan"""
@_operation
def one_hot(indices: _ArrayLike, classes: SupportsIndex, *, dtype: DTypeLike = np.float64) -> Tensor: ...
@_operation
def ones(
    shape: _Shape, dtype: DTypeLike | None = None, order: _Order = "C", *, device: str | None = None, like: None = None
) -> Tensor: ...
@_operation
def ones_like(x: _ArrayLike, *, dtype: DTypeLike | None = None, shape: _Shape | None = None) -> Tensor: ...
@_operation
def outer(x1: _ArrayLike, x2: _ArrayLike) -> Tensor: ...
@_operation
def pad(
    x: _ArrayLike,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = None,
    stat_length: Any = None,
    end_values: Any = None,
    reflect_type: str | None = None,
) -> Tensor: ...
@_operation
def percentile(
    x: _ArrayLike,
    q: _ArrayLike,
    axis: _Axes | None = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: _ArrayLike | None = None,
) -> Tensor: ...
@_operation
def polyval(p: _ArrayLike, x: _ArrayLike) -> Tensor: ...
@_operation
def positive(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor: ...
@_operation
def power(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor: ...
@_operation
def prod(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: _ArrayLike | None = None,
    where: _ArrayLike = True,
) -> Tensor: ...
@_operation
def project(g: _ArrayLike, like: _ArrayLike) -> Any: ...
@_operation
def ptp(x: _ArrayLike, axis: _Axes | None = None, *, keepdims: bool = False) -> Tensor: ...
@_operation
def quantile(
    x: _ArrayLike,
    q: _ArrayLike,
    axis: _Axes | None = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: _ArrayLike | None = None,
) -> Tensor: ...
@_operation
def rad2deg(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor: ...
@_operation
def ravel(x: _ArrayLike, order: _Order = "C") -> Tensor: ...
@_operation
def real(x: _ArrayLike) -> Tensor: ...
@_operation
def reciprocal(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """1 / x.   f[...]  →  f[...]     integers are taken as float64"""
@_operation
def relu(x: _ArrayLike) -> Tensor:
    """max(x, 0).   T[...]  →  T[...]     the derivative at 0 is 0"""
@_operation
def relu6(x: _ArrayLike) -> Tensor: ...
@_operation
def repeat(x: _ArrayLike, repeats: _ArrayLike, axis: SupportsIndex | None = None) -> Tensor: ...
@_operation
def reshape(x: _ArrayLike, shape: _Shape, order: _Order = "C", *, copy: bool | None = None) -> Tensor: ...
@_operation
def rint(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The integer nearest to x, halves to even.   f[...]  →  f[...]     integers give float64; no gradient flows"""
@_operation
def roll(x: _ArrayLike, shift: _Axes, axis: _Axes | None = None) -> Tensor: ...
@_operation
def rot90(x: _ArrayLike, k: SupportsIndex = 1, axes: _Axes | Sequence[_Axes] = (0, 1)) -> Tensor: ...
@_operation
def round(x: _ArrayLike, decimals: SupportsIndex = 0) -> Tensor: ...
@_operation
def searchsorted(
    a: _ArrayLike, v: _ArrayLike, side: Literal["left", "right"] = "left", sorter: _ArrayLike | None = None
) -> Tensor: ...
@_operation
def segment_sum(data: _ArrayLike, segment_ids: _ArrayLike, num_segments: SupportsIndex) -> Tensor: ...
@_operation
def select(condlist: Sequence[_ArrayLike], choicelist: Sequence[_ArrayLike], default: _ArrayLike = 0) -> Tensor: ...
@_operation
def selu(x: _ArrayLike) -> Tensor: ...
@_operation
def sigmoid(x: _ArrayLike) -> Tensor:
    """1 / (1 + exp(-x)), without overflow.   f[...]  →  f[...]"""
@_operation
def sign(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """-1, 0 or 1; nan of nan.   T[...]  →  T[...]     a step function: no gradient flows"""
@_operation
def signbit(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """True for elements with the sign bit: numbers below 0, and -0.0.   f[...]  →  bool[...]"""
@_operation
def silu(x: _ArrayLike) -> Tensor: ...
@_operation
def sin(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The sine of x in radians.   f[...]  →  f[...]"""
@_operation
def sinc(x: _ArrayLike) -> Tensor:
    """sin(πx) / (πx), and 1 at 0.   f[...]  →  f[...]     integers and bool give float64"""
@_operation
def sinh(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The hyperbolic sine.   f[...]  →  f[...]"""
@_operation
def softmax(x: _ArrayLike, axis: _Axes = -1) -> Tensor: ...
@_operation
def softplus(x: _ArrayLike) -> Tensor:
    """log(1 + exp(x)), without overflow.   f[...]  →  f[...]"""
@_operation
def sort(x: _ArrayLike, axis: SupportsIndex = -1, *, descending: bool = False, stable: bool = True) -> Tensor: ...
@_operation
def split(x: _ArrayLike, indices_or_sections: _Axes | _ArrayLike, axis: SupportsIndex = 0) -> list[Tensor]: ...
@_operation
def sqrt(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The square root.   f[...]  →  f[...]     nan below 0; the derivative at 0 is inf"""
@_operation
def square(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor: ...
@_operation
def squeeze(x: _ArrayLike, axis: _Axes | None = None) -> Tensor: ...
@_operation
def stack(
    arrays: Sequence[_ArrayLike] | _ArrayLike,
    axis: SupportsIndex = 0,
    *,
    dtype: DTypeLike | None = None,
    casting: _Casting = "same_kind",
) -> Tensor: ...
@_operation
def std(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    dtype: DTypeLike | None = None,
    ddof: float | None = 0,
    correction: float | None = None,
    keepdims: bool = False,
    where: _ArrayLike = True,
    mean: _ArrayLike | None = None,
) -> Tensor: ...
@_operation
def subtract(
    x1: _ArrayLike, x2: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor:
    """x1 - x2.   T[...], T[...]  →  T[...]"""
@_operation
def sum(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    initial: _ArrayLike | None = None,
    where: _ArrayLike = True,
) -> Tensor: ...
@_operation
def swapaxes(x: _ArrayLike, axis1: SupportsIndex, axis2: SupportsIndex) -> Tensor: ...
@_operation
def take(x: _ArrayLike, indices: _ArrayLike, axis: SupportsIndex | None = None, *, mode: str = "raise") -> Tensor: ...
@_operation
def take_along_axis(x: _ArrayLike, indices: _ArrayLike, axis: SupportsIndex = -1) -> Tensor: ...
@_operation
def tan(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The tangent of x in radians.   f[...]  →  f[...]"""
@_operation
def tanh(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """The hyperbolic tangent.   f[...]  →  f[...]"""
@_operation
def tensordot(x1: _ArrayLike, x2: _ArrayLike, axes: int | Sequence[Any] = 2) -> Tensor: ...
@_operation
def tile(x: _ArrayLike, repetitions: _Axes) -> Tensor: ...
@_operation
def trace(
    x: _ArrayLike,
    offset: SupportsIndex = 0,
    axis1: SupportsIndex = 0,
    axis2: SupportsIndex = 1,
    dtype: DTypeLike | None = None,
) -> Tensor: ...
@_operation
def transpose(x: _ArrayLike, axes: _Axes | Sequence[_Axes] | None = None) -> Tensor: ...
@_operation
def trapezoid(y: _ArrayLike, x: _ArrayLike | None = None, dx: _ArrayLike = 1.0, axis: SupportsIndex = -1) -> Tensor: ...
@_operation
def tri(
    N: SupportsIndex, M: SupportsIndex | None = None, k: SupportsIndex = 0, dtype: DTypeLike = np.float64
) -> Tensor: ...
@_operation
def tril(x: _ArrayLike, k: SupportsIndex = 0) -> Tensor: ...
@_operation
def triu(x: _ArrayLike, k: SupportsIndex = 0) -> Tensor: ...
@_operation
def trunc(x: _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind") -> Tensor:
    """x without its fraction, in its dtype.   T[...]  →  T[...]     no gradient flows"""
@_operation
def unbroadcast(g: _ArrayLike, like: _ArrayLike) -> Tensor: ...
@_operation
def unstack(x: _ArrayLike, *, axis: SupportsIndex = 0) -> tuple[Tensor, ...]: ...
@_operation
def unwrap(
    p: _ArrayLike, discont: float | None = None, axis: SupportsIndex = -1, *, period: _ArrayLike = 6.283185307179586
) -> Tensor: ...
@_operation
def vander(x: _ArrayLike, N: SupportsIndex | None = None, increasing: bool = False) -> Tensor: ...
@_operation
def var(
    x: _ArrayLike,
    axis: _Axes | None = None,
    *,
    dtype: DTypeLike | None = None,
    ddof: float | None = 0,
    correction: float | None = None,
    keepdims: bool = False,
    where: _ArrayLike = True,
    mean: _ArrayLike | None = None,
) -> Tensor: ...
@_operation
def vdot(a: _ArrayLike, b: _ArrayLike) -> Tensor: ...
@_operation
def vecdot(
    a: _ArrayLike,
    b: _ArrayLike,
    *,
    axis: SupportsIndex = -1,
    axes: _Axes | Sequence[_Axes] | None = None,
    keepdims: bool = False,
    dtype: DTypeLike | None = None,
    casting: _Casting = "same_kind",
) -> Tensor: ...
@_operation
def vecmat(
    a: _ArrayLike,
    b: _ArrayLike,
    *,
    axes: _Axes | Sequence[_Axes] | None = None,
    dtype: DTypeLike | None = None,
    casting: _Casting = "same_kind",
) -> Tensor: ...
@_operation
def vsplit(x: _ArrayLike, indices_or_sections: _Axes | _ArrayLike) -> list[Tensor]: ...
@_operation
def vstack(
    tensors: Sequence[_ArrayLike] | _ArrayLike, *, dtype: DTypeLike | None = None, casting: _Casting = "same_kind"
) -> Tensor: ...
@_operation
def zeros(
    shape: _Shape, dtype: DTypeLike | None = None, order: _Order = "C", *, device: str | None = None, like: None = None
) -> Tensor: ...
@_operation
def zeros_like(x: _ArrayLike, *, dtype: DTypeLike | None = None, shape: _Shape | None = None) -> Tensor: ...
absolute = abs
acos = arccos
acosh = arccosh
amax = max
amin = min
around = round
asin = arcsin
asinh = arcsinh
atan = arctan
atan2 = arctan2
atanh = arctanh
bitwise_not = bitwise_invert
concat = concatenate
conjugate = conj
degrees = rad2deg
fix = trunc
invert = bitwise_invert
left_shift = bitwise_left_shift
mT = matrix_transpose
permute_dims = transpose
pow = power
radians = deg2rad
remainder = mod
right_shift = bitwise_right_shift
true_divide = divide
