"""Values with tensors in them, taken apart: where each tensor comes from is a number.

So what is kept of a call holds no tensor and no node, makes no reference cycle, and can be part of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from codegen.records import NamedTuple

from .. import tree
from ..tensor import Tensor

__all__ = ["Packed", "as_it_is", "own_copy", "pack"]


def as_it_is(value: Any) -> Any:
    """A leaf that is no tensor, unchanged."""
    return value


def own_copy(leaf: Any) -> Any:
    """A leaf that is no tensor, as a call keeps it: of an array a copy, which no later write changes."""
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


class Packed(NamedTuple):
    """A structure, places of tensors, and everything else by value.

    structure  the containers; None for a tensor by itself
    places     for each leaf: the place of a tensor (int), or None
    statics    the leaves that are no tensors, in order; arrays among them are copies
    """

    structure: Any
    places: tuple[int | None, ...]
    statics: tuple[Any, ...]

    def unpack(self, tensor_at: Callable[[int], Any], static: Callable[[Any], Any] = as_it_is) -> Any:
        """The value again: `tensor_at(place)` where a tensor was, `static(leaf)` for the rest."""
        if self.structure is None and (place := self.places[0]) is not None:
            return tensor_at(place)
        statics = iter(self.statics)
        leaves = [static(next(statics)) if p is None else tensor_at(p) for p in self.places]
        return leaves[0] if self.structure is None else tree.unflatten(self.structure, leaves)

    def with_statics(self, statics: Iterable[Any]) -> Packed:
        """A copy with other leaves that are no tensors."""
        return Packed(self.structure, self.places, tuple(statics))

    @property
    def has_tensors(self) -> bool:
        """True if there is any tensor in it."""
        return any(p is not None for p in self.places)


def pack(
    value: Any, place_of: Callable[[Tensor], int], tensor_of: Callable[[Any], Tensor | None] | None = None
) -> Packed:
    """A value taken apart.   tensor_of: the tensor that a leaf stands for, None for any other leaf"""
    if isinstance(value, Tensor):
        return Packed(None, (place_of(value),), ())
    leaves, structure = tree.flatten(value)
    tensors = [tensor_of(x) if tensor_of else x if isinstance(x, Tensor) else None for x in leaves]
    places = tuple([None if t is None else place_of(t) for t in tensors])
    return Packed(structure, places, tuple([own_copy(x) for x, t in zip(leaves, tensors, strict=True) if t is None]))
