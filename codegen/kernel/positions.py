"""Positions of the loops of a group: the index of each axis, and that in the domain of a root."""

from __future__ import annotations

import math

from ..ir import Node
from .group import KernelGroup, Root, strides_of
from .index import Index, constant_index, flatten, split_loop

__all__ = ["Positions"]


class Positions:
    """The axes of a group and their indices, set as loops are entered."""

    def __init__(self, group: KernelGroup) -> None:
        self.group = group
        self.extents = group.extents
        self._indices: list[Index] = [constant_index(0)] * len(group.strides)
        self._reduced: dict[Root, frozenset[int]] = {}

    def enter(self, axes: tuple[int, ...], counter: Index) -> None:
        """A loop over these axes has begun."""
        for axis, index in zip(axes, split_loop(counter, [self.extents[a] for a in axes]), strict=True):
            self._indices[axis] = index

    def extent(self, axes: tuple[int, ...]) -> int:
        """The number of iterations of a loop over these axes."""
        return math.prod([self.extents[axis] for axis in axes])

    def index(self, root: Root) -> tuple[Index, ...]:
        """The position of the loops, as an index of the root's domain."""
        return self.within(root.domain, row=root.row)

    def within(self, domain: tuple[int, ...], *, row: bool = False) -> tuple[Index, ...]:
        """The position of the loops, as an index of a domain that is evaluated over all (or once per row)."""
        group = self.group
        scale = (group.inner or 1) if row else 1
        found = []
        for extent, stride in zip(domain, strides_of(domain), strict=True):
            low, high = stride * scale, stride * extent * scale
            index = constant_index(0)
            for axis, s in enumerate(group.strides):
                if low <= s < high:
                    index = index.plus(self._indices[axis].times(s // low))
            found.append(index)
        return tuple(found)

    def flat(self, root: Root) -> Index:
        """The present element's place in the root's own array."""
        return flatten(self.index(root), root.domain)

    def kept(self, root: Root) -> Index:
        """The place of a reduction's result for the present element."""
        reduced = root.node.keywords["axis"]
        kept = [d for d in range(len(root.domain)) if d not in reduced]
        index = self.index(root)
        return flatten([index[d] for d in kept], [root.domain[d] for d in kept])

    def place(self, root: Root) -> Index:
        """The present element's position among the reduced ones."""
        reduced = root.node.keywords["axis"]
        index = self.index(root)
        return flatten([index[d] for d in reduced], [root.domain[d] for d in reduced])

    def is_here(self, node: Node, index: tuple[Index, ...]) -> bool:
        """True if `index` is the element of the domain that the loops stand at."""
        return node.aval.size == self.group.total and flatten(index, node.aval.shape) == flatten(
            self._indices, self.extents
        )

    def along(self, axes: tuple[int, ...]) -> Index:
        """The position among the elements of some axes."""
        return flatten([self._indices[a] for a in axes], [self.extents[a] for a in axes])

    def in_row(self) -> Index:
        """The position in the row."""
        return self.along(tuple(range(self.group.outer_axes, len(self.extents))))

    def reduced(self, root: Root) -> frozenset[int]:
        """The group's axes that a reduction reduces."""
        found = self._reduced.get(root)
        if found is None:
            group = self.group
            scale = (group.inner or 1) if root.row else 1
            strides = strides_of(root.domain)
            found = self._reduced[root] = frozenset([
                axis
                for d in root.reduced
                for axis, s in enumerate(group.strides)
                if strides[d] * scale <= s < strides[d] * root.domain[d] * scale
            ])
        return found

    def are_reduced(self, axes: tuple[int, ...]) -> bool:
        """True if iterations of this loop meet in an accumulator."""
        return any(not self.reduced(r).isdisjoint(axes) for r in self.group.roots if r.is_reduction)
