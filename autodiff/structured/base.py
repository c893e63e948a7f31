"""The base class of structured types, and tools for their methods.

A structured type holds a few tensors and stands for an array with more elements.  It derives from
`ad.AbstractTensor[..., rank]`, is a container of `ad.tree` (so a gradient has its structure), defines the array that
it stands for by a method of `dense`, and defines other operations by methods.  A user's type is made in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getsizeof
from typing import Any, ClassVar

import numpy as np

from codegen.ir import Aval

from .. import tree
from ..errors import ShapeError, located
from ..named_types import Number, Scalar
from ..ops import as_tensor, cast_to, dense, matrix_transpose, stop_gradient, transpose, zeros_like
from ..ops.declare import axes_in_order
from ..tensor import AbstractTensor, Tensor

#: Classes of values by which an array can be scaled.
NUMBER = Number | Scalar


class Structured(AbstractTensor):
    """A structured type of this package.

    tensor_fields  names of the attributes that are tensors: the leaves of `ad.tree`
    static_fields  names of the other attributes
    rank           the number of axes of the tensor that one value holds; None: any
    """

    __slots__ = ("__weakref__",)
    tensor_fields: tuple[str, ...] = ()
    static_fields: tuple[str, ...] = ()
    rank: ClassVar[int | None] = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)

        def split(x: Any) -> tuple[list, tuple]:
            return [getattr(x, n) for n in cls.tensor_fields], tuple([getattr(x, n) for n in cls.static_fields])

        tree.register(cls, split, lambda rest, children: made(cls, (*children, *rest)))

    @property
    def aval(self) -> Aval:
        """Shape and dtype of the array.  Raises ShapeError for a value of many examples, made by `vmap`."""
        held = getattr(self, self.tensor_fields[0])
        if self.rank is not None and held.ndim != self.rank:
            raise _not_one(self, held, self.rank)
        return self._stands_for(held.aval)

    def _stands_for(self, held: Aval) -> Aval:
        """The aval of the array, from that of the first tensor in it."""
        return held

    def check_one(self) -> None:
        """Raise ShapeError for a value of many examples, made by `vmap`: the methods are written for one."""
        if self.rank is not None and len(getattr(self, self.tensor_fields[0]).shape) != self.rank:
            _ = self.aval  # raises the error

    def __reduce__(self) -> tuple:
        return made, (type(self), tuple([getattr(self, name) for name in (*self.tensor_fields, *self.static_fields)]))

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum([getsizeof(getattr(self, name)) for name in self.tensor_fields])

    def __repr__(self) -> str:
        held = ", ".join(f"{n.lstrip('_')}={getattr(self, n)!r}" for n in (*self.tensor_fields, *self.static_fields))
        return f"{type(self).__name__}({held})"


def made(cls: Any, values: Sequence) -> Any:
    """A value of a structured type, without __init__: while a tree is rebuilt, any object may stand for a tensor."""
    x = object.__new__(cls)
    for name, value in zip((*cls.tensor_fields, *cls.static_fields), values, strict=True):
        setattr(x, name, value)
    return x


#: The class that arrays of two axes derive from.
_MATRICES: Any = AbstractTensor[..., 2]


class StructuredMatrix(Structured, _MATRICES):
    """A structured type of this package that stands for a matrix."""

    __slots__ = ()


class PartOfSquare(StructuredMatrix):
    """A type that stores a square matrix and stands for a part of it.  Raises ShapeError for any other shape."""

    __slots__ = ("stored",)
    tensor_fields = ("stored",)
    rank = 2
    #: The function from the stored matrix to the part.
    part: ClassVar[staticmethod[..., Tensor]]

    def __init__(self, x: Any) -> None:
        self.stored = square(type(self).__name__, x)

    @property
    def matrix(self) -> Tensor:
        """The matrix that this value stands for."""
        return type(self).part(self.stored)


matrix_transpose.method(StructuredMatrix)(lambda x: transpose(x))
dense.method(PartOfSquare)(lambda x: x.matrix)


def _not_one(x: Structured, held: Tensor, rank: int) -> ShapeError:
    """The error for a value that holds a tensor of another rank, as values under `vmap` may do."""
    cls = type(x).__name__
    if held.ndim > rank:
        mend = "these are many, made by ad.vmap: ad.vmap(f)(x) takes them one by one"
    else:
        mend = f"ad.vmap maps over what a {cls} holds: in_axes=None shares it, ad.dense(x) is a tensor, which has rows"
    return ShapeError(located(f"{cls} holds {held.aval}, where one {cls} holds {_RANKS[rank]}", mend))


#: The words for a tensor of 0, 1 or 2 axes.
_RANKS = ("a number", "a vector", "a matrix")


def order_of(x: StructuredMatrix, axes: Any) -> bool:
    """True if the `axes` of a `transpose` of x exchange its two axes.  Raises ShapeError for axes that are no order."""
    order = [1, 0] if axes is None else axes_in_order("transpose", axes, x.aval)
    if sorted(order) != [0, 1]:
        raise ShapeError(located(f"transpose: {axes} are not the two axes of a matrix"))
    return order == [1, 0]


def of_rank(name: str, x: Any, rank: int) -> Tensor:
    """An argument of a constructor as a tensor with `rank` axes.  Raises ShapeError for another number of axes."""
    t = as_tensor(x, name)
    if t.ndim != rank:
        raise ShapeError(located(f"{name} holds {_RANKS[rank]}, not {t.aval}"))
    return t


def square(name: str, x: Any) -> Tensor:
    """An argument of a constructor as a square matrix.  Raises ShapeError for anything else."""
    t = of_rank(name, x, 2)
    if t.shape[0] != t.shape[1]:
        raise ShapeError(located(f"{name} holds a square matrix, not {t.aval}"))
    return t


def check_inner(name: str, x1: Any, x2: Any) -> None:
    """Raise ShapeError unless the last axis of x1 and the first of the matrix or vector x2 have equal extents."""
    a, b = x1.shape, x2.shape
    if not a or not b or a[-1] != (b[-2] if len(b) > 1 else b[0]):
        raise ShapeError(located(f"{name}: inner sizes differ: {_described(x1)} and {_described(x2)}"))


def check_same(name: str, x1: Any, x2: Any) -> None:
    """Raise ShapeError unless both have the same shape."""
    if x1.shape != x2.shape:
        raise ShapeError(located(f"{name}: shapes differ: {_described(x1)} and {_described(x2)}"))


def _described(x: Any) -> str:
    return f"{x.aval}" if isinstance(x, Tensor) else f"{type(x).__name__} {x.aval}"


def cotangent_of(gradient: Any, like: Any) -> Tensor:
    """A gradient to project, as a tensor of the aval of `like`.  Raises ShapeError for another shape."""
    g = dense(gradient)
    if g.shape != like.shape:
        raise ShapeError(located(f"project: a {g.aval} is no gradient of a {_described(like)}"))
    dtype = np.dtype(like.dtype)  # a user's type may have np.float64 here, which is a class
    return cast_to(g, dtype) if dtype.kind in "fc" else g


# ---------------------------------------------------------------- attributes of every structured value
#
# A type without an attribute of its own, a user's type too, gets it in one of two ways: attributes about the array that
# it stands for are those of `dense(x)`; attributes about the tensors that it holds come from `ad.tree`.  An attribute
# that an instance sets goes first.

class _AttributeOf:
    """An attribute that a function computes, unless the instance has set it."""

    def __init__(self, read: Callable[[Any], Any], doc: str) -> None:
        self.read = read
        self.__doc__ = doc

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else self.read(instance)


def _tensors(x: AbstractTensor) -> list[Any]:
    return [leaf for leaf in tree.leaves(x) if isinstance(leaf, Tensor)]


def _get_grad(x: AbstractTensor) -> AbstractTensor | None:
    """The gradients of the tensors in this value, in its structure; None if there are none."""
    if all(t.grad is None for t in _tensors(x)):
        return None
    return tree.map(_grad_or_zeros, x)


def _grad_or_zeros(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    g = getattr(leaf, "grad", None)
    return zeros_like(leaf) if g is None and leaf.dtype.kind in "fc" else g


def _set_grad(x: AbstractTensor, value: Any) -> None:
    gradients = tree.flatten_up_to(tree.flatten(x)[1], value, "grad")
    given = {id(leaf): g for leaf, g in zip(tree.leaves(x), gradients, strict=True)}
    for t in _tensors(x):
        if t.dtype.kind in "fc":
            t.grad = given[id(t)]


def _requires_grad_(x: AbstractTensor, flag: bool = True) -> AbstractTensor:
    """Set whether gradients accumulate in the float tensors of this value.  Returns the value."""
    for leaf in _tensors(x):
        if leaf.dtype.kind in "fc":
            leaf.requires_grad_(flag)
    return x


def _length(x: Any) -> int:
    if not x.shape:
        raise TypeError(f"len() of a 0-d {type(x).__name__}")
    return x.shape[0]


def _detach(x: AbstractTensor) -> AbstractTensor:
    """A copy of the structured value, through which no gradient flows: `ad.stop_gradient`."""
    return stop_gradient(x)


def _numpy(x: AbstractTensor) -> np.ndarray:
    """The array that this value stands for, zeros included; read-only.  Raises the errors of `Tensor.numpy`."""
    return as_tensor(x).numpy()


for _name, _attribute in {
    "aval": _AttributeOf(lambda x: as_tensor(x).aval, "Shape and dtype together, written f64[3,4]."),
    "shape": _AttributeOf(lambda x: x.aval.shape, "Extents, outermost first."),
    "dtype": _AttributeOf(lambda x: x.aval.dtype, "A NumPy dtype."),
    "ndim": _AttributeOf(lambda x: len(x.shape), "Number of dimensions."),
    "size": _AttributeOf(lambda x: x.aval.size, "Number of elements, zeros included."),
    "requires_grad": _AttributeOf(
        lambda x: any(t.requires_grad for t in _tensors(x)), "True if gradients flow to the tensors it holds."
    ),
    "grad": property(_get_grad, _set_grad, doc=_get_grad.__doc__),
    "requires_grad_": _requires_grad_,
    "detach": _detach,
    "__len__": _length,
    "numpy": _numpy,
    "__array__": lambda x, dtype=None, copy=None: as_tensor(x).__array__(dtype, copy),
}.items():
    setattr(AbstractTensor, _name, _attribute)
