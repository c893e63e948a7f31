"""Values with tensors in them, taken apart: where each tensor comes from is a number.

So what is kept of a call holds no tensor and no node, makes no reference cycle, and can be part of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..tensor import Tensor
from .reads import static_key

__all__ = ["Packed", "as_it_is", "own_copy"]


def as_it_is(value: Any) -> Any:
    """A leaf that is no tensor, unchanged."""
    return value


def _itself(value: Any) -> Tensor | None:
    return value if isinstance(value, Tensor) else None


def own_copy(leaf: Any) -> Any:
    """A leaf that is no tensor, as a call keeps it: of an array a copy, which no later write changes."""
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


class Packed:
    """A structure, places of tensors, and everything else by value.

    places   for each leaf: the place of a tensor (int), or None
    statics  the leaves that are no tensors, in order; arrays among them are copies
    """

    __slots__ = ("places", "statics", "structure")

    places: tuple[int | None, ...]
    statics: tuple[Any, ...]
    structure: Any

    def __init__(
        self, value: Any, place_of: Callable[[Tensor], int], tensor_of: Callable[[Any], Tensor | None] = _itself
    ) -> None:
        """`tensor_of(leaf)` is the tensor that a leaf stands for, None for any other leaf."""
        if isinstance(value, Tensor):
            self.structure, self.places, self.statics = None, (place_of(value),), ()
            return
        leaves, self.structure = tree.flatten(value)
        tensors = [tensor_of(x) for x in leaves]
        self.places = tuple([None if t is None else place_of(t) for t in tensors])
        self.statics = tuple([own_copy(x) for x, t in zip(leaves, tensors, strict=True) if t is None])

    @staticmethod
    def of(structure: Any, leaves: Sequence[Any], place_of: Callable[[Tensor], int]) -> Packed:
        """The packed form of leaves that were taken apart before."""
        packed = Packed.__new__(Packed)
        packed.structure = structure
        packed.places = tuple([place_of(x) if isinstance(x, Tensor) else None for x in leaves])
        packed.statics = tuple([x for x in leaves if not isinstance(x, Tensor)])
        return packed

    def unpack(self, tensor_at: Callable[[int], Any], static: Callable[[Any], Any] = as_it_is) -> Any:
        """The value again: `tensor_at(place)` where a tensor was, `static(leaf)` for the rest."""
        if self.structure is None and (place := self.places[0]) is not None:
            return tensor_at(place)
        statics = iter(self.statics)
        leaves = [static(next(statics)) if p is None else tensor_at(p) for p in self.places]
        return leaves[0] if self.structure is None else tree.unflatten(self.structure, leaves)

    def shifted(self, by: int) -> Packed:
        """A copy with every place moved up."""
        moved = Packed.__new__(Packed)
        moved.structure, moved.statics = self.structure, self.statics
        moved.places = tuple([None if p is None else p + by for p in self.places])
        return moved

    @property
    def has_tensors(self) -> bool:
        """True if there is any tensor in it."""
        return any(p is not None for p in self.places)

    def key(self) -> tuple[Any, bool]:
        """(what a key says about this value, whether that says everything)."""
        parts = [static_key(x) for x in self.statics]
        return (self.structure, self.places, tuple([k for k, _ in parts])), all([pure for _, pure in parts])

    def with_statics(self, statics: Sequence[Any]) -> Packed:
        """A copy with other leaves that are no tensors."""
        other = Packed.__new__(Packed)
        other.structure, other.places, other.statics = self.structure, self.places, tuple(statics)
        return other
