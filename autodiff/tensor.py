"""Tensors: handles on nodes of the tape, and the lattice of their types.

    AbstractTensor ⊃ AbstractTensor[..., 2]
          ∪                 ∪
        Tensor ⊃ Tensor[..., 2]  ⊃  Tensor[floating, 2]  ⊃  Tensor[float32, 2]
          ∪                              ∩                        ∩
          ⊃ Tensor[floating]                    ⊃          Tensor[float32]

Each entry of the lattice is a Python class, made when it is first named and then kept, so dispatch
needs only `issubclass`, the method resolution order and `type(t)`.  The class of a handle is always
the most specific one: `type(t) is Tensor[float32, 2]`.

A handle refers to one node; an in-place update makes it refer to another node.
`ops.operators` and `transforms` attach the operators, reductions and `backward`; this file defines
the handle without them.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.ir import DTYPES, Aval

from .dispatch import complete, is_own
from .elsewhere import OF_TENSORS, Missing
from .errors import located

_CATEGORIES = (np.floating, np.complexfloating, np.integer, np.inexact, np.number)
_sealed = False  # set at the end of this file: from then on only `CLASSES` makes subclasses of Tensor


class _Lattice(type):
    """The metaclass that gives `Tensor[dtype, rank]`: `...` stands for any dtype, an omitted rank for any rank."""

    def __getitem__(cls, key: Any) -> type:
        dtype, rank = key if isinstance(key, tuple) else (key, ...)
        if cls not in (Tensor, AbstractTensor):
            told = f"{cls.__name__} takes no [dtype, rank]; only Tensor and AbstractTensor do"
            raise TypeError(located(told))
        if dtype is not ...:
            if cls is AbstractTensor:
                raise TypeError(located("AbstractTensor is refined by rank only: AbstractTensor[..., 2]"))
            dtype = _dtype_class(dtype)
        if rank is not ... and not (type(rank) is int and 0 <= rank <= 64):
            raise TypeError(located(f"a rank is a number from 0 to 64 or '...', not {rank!r}"))
        return CLASSES[cls, dtype, rank]

    def __meet__(cls, other: type) -> type | None:
        """The largest common subclass of both, None if the lattice has none; dispatch finds ambiguities by it."""
        if issubclass(cls, other):
            return cls
        if issubclass(other, cls):
            return other
        mine, theirs = _parameters(cls), _parameters(other)
        if mine is None or theirs is None:
            return None
        dtype = _lower(mine[1], theirs[1])
        rank = mine[2] if theirs[2] is ... else theirs[2] if mine[2] in (..., theirs[2]) else None
        if dtype is None or rank is None:
            return None
        base = Tensor if Tensor in (mine[0], theirs[0]) else AbstractTensor
        return CLASSES[base, dtype, rank]

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if name not in OF_TENSORS]

    def __repr__(cls) -> str:
        return cls.__name__ if _parameters(cls) else super().__repr__()


def _dtype_class(dtype: Any) -> type:
    """The class of a dtype: np.float32 for "float32"; an abstract class such as np.floating is returned as it is."""
    if isinstance(dtype, type) and dtype in _CATEGORIES:  # for NumPy 2.0, np.dtype("int64") equals np.integer
        return dtype
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if dtype is None or kind is None or kind not in DTYPES.values():  # np.dtype(None) is float64
        raise TypeError(located(f"Tensor[{dtype!r}]: not a dtype of this library ({', '.join(DTYPES)})"))
    return kind.type


def _lower(a: Any, b: Any) -> Any:
    """The more specific of two dtype classes; None if neither is a subclass of the other."""
    if a is ...:
        return b
    if b is ... or issubclass(a, b):
        return a
    return b if issubclass(b, a) else None


def _parameters(cls: type) -> tuple[type, Any, Any] | None:
    """(Tensor or AbstractTensor, dtype class or ..., rank or ...) of a lattice class."""
    return cls.__dict__.get("_parameters_")


class _Classes(dict[tuple[type, Any, Any], type]):
    """A table of the lattice's classes by their parameters; a class is made at its first lookup."""

    def __missing__(self, key: tuple[type, Any, Any]) -> type:
        base, dtype, rank = key
        if dtype is ... and rank is ...:
            return base
        named, told = "...", "any"
        parents: list[tuple[type, Any, Any]] = [(base, dtype, ...)]  # of any rank, then of a wider dtype
        if dtype is not ...:
            named, told = dtype.__name__.rstrip("_"), dtype.__name__
            above = [c for c in dtype.__mro__[1:] if c in _CATEGORIES]
            wider = base, above[0] if above else ..., rank
            parents = [wider] if rank is ... else [*parents, wider]
        elif base is Tensor:
            parents.append((AbstractTensor, ..., rank))
        name = f"{base.__name__}[{named}{'' if rank is ... else f', {rank}'}]"
        # Pickle finds the class by this name, which therefore has no dots: see `__getattr__`.
        qualname = f"{base.__name__}_of_{told}_rank_{'any' if rank is ... else rank}"
        namespace = {"__slots__": (), "__qualname__": qualname, "_parameters_": key}
        bases = tuple(dict.fromkeys(map(self.__getitem__, parents)))
        return self.setdefault(key, _Lattice.__new__(_Lattice, name, bases, namespace))


#: A tensor's class is CLASSES[Tensor, dtype.type, ndim].
CLASSES = _Classes()


class AbstractTensor(metaclass=_Lattice):
    """The base class of all arrays: `Tensor`, structured types, and classes of your own.

    A subclass gets all operators, which call the generic functions.  The rest of the library takes its
    instances by methods of `ad.dense` and `ad.project`, and by `ad.tree.register`.

    >>> import autodiff as ad
    >>> class Shifted(ad.AbstractTensor[..., 1]):
    ...     def __init__(self, start):
    ...         self.start = start
    >>> @ad.dense.method(Shifted)
    ... def _(x):
    ...     return x.start + 1
    >>> Shifted(ad.zeros(2)) * 3
    f64[2] [3. 3.]
    """

    __slots__ = ()
    _parameters_: Any = (None, ..., ...)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "_parameters_" not in cls.__dict__ and not is_own(cls):
            complete()  # imports the modules that have methods for every structured type

    if TYPE_CHECKING:  # the attributes that `ops` and `transforms` attach, for type checkers

        def __getattr__(self, name: str) -> Any: ...

        def _operator(self, other: Any, /) -> Tensor: ...

        __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _operator
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _operator
        __lt__ = __le__ = __gt__ = __ge__ = __and__ = __or__ = __xor__ = __rshift__ = __getitem__ = _operator
        __eq__ = __ne__ = _operator  # type: ignore[assignment]  # by elements, unlike Python's

        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __float__(self) -> float: ...
        def __int__(self) -> int: ...
        def __setitem__(self, key: Any, value: Any, /) -> None: ...


class Tensor(AbstractTensor):
    """A handle on one value of a computation: a leaf with data, or an operation still pending.

    Tensors are made by `ad.tensor`, `ad.asarray` and every operation, never by calling the class.  Types in signatures
    are `Tensor[ad.float32, 2]`, `Tensor[ad.floating]`, `Tensor[..., 2]` (which is `Matrix`; `Vector` has one axis,
    `Scalar` none).

    >>> import autodiff as ad
    >>> isinstance(ad.ones((2, 3)), ad.Matrix), issubclass(ad.Matrix, ad.Tensor)
    (True, True)
    """

    __slots__ = ("__weakref__", "masked", "node")
    _parameters_: Any = (None, ..., ...)

    node: Any
    masked: bool

    def __new__(cls, *_args, **_kwargs):
        raise TypeError("make tensors with ad.tensor(data) (copies) or ad.asarray(data) (shares if it can)")

    def __init_subclass__(cls, **_kwargs) -> None:
        if _sealed and "_parameters_" not in cls.__dict__:
            raise TypeError(
                f"{cls.__name__}: Tensor is not subclassed; derive from ad.AbstractTensor, hold a tensor,"
                " and add methods (ad.dense, ad.project, ad.tree.register)"
            )

    @property
    def aval(self) -> Aval:
        """Shape and dtype together, written f64[3,4].

        >>> import autodiff as ad
        >>> ad.ones((2, 3)).aval
        f64[2,3]
        """
        return self.node.kind.out.aval

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, outermost first.

        >>> import autodiff as ad
        >>> ad.ones((2, 3)).shape
        (2, 3)
        """
        return self.node.kind.out.shape

    @property
    def dtype(self) -> np.dtype:
        """A NumPy dtype.

        >>> import autodiff as ad
        >>> ad.tensor([1, 2]).dtype
        dtype('int64')
        """
        return self.node.kind.out.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions.

        >>> import autodiff as ad
        >>> ad.ones((2, 3)).ndim
        2
        """
        return len(self.node.kind.out.shape)

    @property
    def size(self) -> int:
        """Number of elements.

        >>> import autodiff as ad
        >>> ad.ones((2, 3)).size, ad.tensor(1.0).size
        (6, 1)
        """
        return self.node.kind.out.aval.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element.

        >>> import autodiff as ad
        >>> ad.tensor([1, 2], dtype=ad.float32).itemsize
        4
        """
        return self.node.kind.out.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements.

        >>> import autodiff as ad
        >>> ad.ones((2, 3)).nbytes
        48
        """
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis of the C-ordered array that `numpy()` gives.

        >>> import autodiff as ad
        >>> ad.ones((2, 3)).strides
        (24, 8)
        """
        return tuple([self.itemsize * prod(self.shape[i + 1 :]) for i in range(self.ndim)])

    @property
    def device(self) -> str:
        """The device of the value (Array-API standard): always the CPU.

        >>> import autodiff as ad
        >>> ad.ones(2).device
        'cpu'
        """
        return "cpu"

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """The tensor itself, for the device 'cpu' (Array-API standard).  Raises ValueError for another.

        >>> import autodiff as ad
        >>> ad.ones(2).to_device("cpu")
        f64[2] [1. 1.]
        """
        if device != "cpu":
            raise ValueError(located(f"to_device: there is no device {device!r}", "tensors are on the 'cpu'"))
        return self

    @property
    def requires_grad(self) -> bool:
        """True if gradients flow to or through this value (False inside a custom forward).

        >>> import autodiff as ad
        >>> w = ad.tensor(3.0, requires_grad=True)
        >>> (2 * w).requires_grad, w.detach().requires_grad
        (True, False)
        """
        return self.node.kind.out.requires_grad and not self.masked

    @property
    def is_leaf(self) -> bool:
        """True if gradients end at this tensor: no recorded operation made it (as in PyTorch).

        >>> import autodiff as ad
        >>> w = ad.tensor(3.0, requires_grad=True)
        >>> w.is_leaf, (2 * w).is_leaf, (2 * w.detach()).is_leaf
        (True, False, True)
        """
        return self.node.leaf is not None or not self.node.kind.out.requires_grad

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in OF_TENSORS]

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]


def __getattr__(name: str) -> type:
    """The lattice class of a qualified name, which pickle looks up in this module."""
    base, _, rest = name.partition("_of_")
    dtype, _, rank = rest.rpartition("_rank_")
    if base not in ("Tensor", "AbstractTensor") or not rank:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    wanted = ... if dtype == "any" else getattr(np, dtype)
    return CLASSES[globals()[base], wanted, ... if rank == "any" else int(rank)]


_sealed = True
for _name in OF_TENSORS:
    setattr(Tensor, _name, Missing(_name))
Tensor._parameters_ = (Tensor, ..., ...)
AbstractTensor._parameters_ = (AbstractTensor, ..., ...)


_new = object.__new__


def handle(node: Any, masked: bool = False) -> Tensor:
    """A new handle on a node."""
    t = _new(node.kind.out.cls)
    t.node = node
    t.masked = masked
    return t
