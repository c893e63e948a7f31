"""Attributes of every structured value, a user's own included: shape, dtype, grad, numpy(), ...

A type that says nothing itself is asked through `dense` for what is about the array it stands for, and
through `ad.tree` for what is about the tensors it holds.  Attributes that an instance sets go first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..ops import as_tensor, stop_gradient
from ..ops import zeros_like as _zeros_like
from ..tensor import AbstractTensor, Tensor

__all__: list[str] = []


class _AttributeOf:
    """An attribute worked out by a function, unless the instance has its own."""

    def __init__(self, read: Callable[[Any], Any], doc: str) -> None:
        self.read = read
        self.__doc__ = doc

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else self.read(instance)


def _tensors(x: AbstractTensor) -> list[Any]:
    return [leaf for leaf in tree.leaves(x) if isinstance(leaf, Tensor)]


def _get_grad(x: AbstractTensor) -> AbstractTensor | None:
    """The gradients of the tensors it holds, in its own structure; None when there are none."""
    if all(t.grad is None for t in _tensors(x)):
        return None
    return tree.map(_grad_or_zeros, x)


def _grad_or_zeros(leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    g = getattr(leaf, "grad", None)
    return _zeros_like(leaf) if g is None and leaf.dtype.kind in "fc" else g


def _set_grad(x: AbstractTensor, value: Any) -> None:
    gradients = tree.flatten_up_to(tree.flatten(x)[1], value, "grad")
    given = {id(leaf): g for leaf, g in zip(tree.leaves(x), gradients, strict=True)}
    for t in _tensors(x):
        if t.dtype.kind in "fc":
            t.grad = given[id(t)]


def _requires_grad_(x: AbstractTensor, flag: bool = True) -> AbstractTensor:
    """Say whether gradients are accumulated for the float tensors it holds.  Returns itself."""
    for leaf in _tensors(x):
        if leaf.dtype.kind in "fc":
            leaf.requires_grad_(flag)
    return x


def _length(x: Any) -> int:
    if not x.shape:
        raise TypeError(f"len() of a 0-d {type(x).__name__}")
    return x.shape[0]


def _array(x: AbstractTensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """NumPy's protocol: the array that it stands for."""
    return as_tensor(x).__array__(dtype, copy)


def _detach(x: AbstractTensor) -> AbstractTensor:
    """A copy of the structured value, through which no gradient flows: `ad.stop_gradient`."""
    return stop_gradient(x)


def _numpy(x: AbstractTensor) -> np.ndarray:
    """The array that it stands for, zeros included; read-only.  Raises what `Tensor.numpy` raises."""
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
    "__array__": _array,
}.items():
    setattr(AbstractTensor, _name, _attribute)
