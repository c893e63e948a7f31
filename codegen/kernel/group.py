"""A fusion group: the contents of one kernel, which the passes decide and `build` reads.

The *domain* of a group is a flat range(total), cut into axes by strides: a domain [100, 50, 8] has
strides (400, 8, 1).  Each root is evaluated over the whole domain, or once per row: over
range(total // inner), where a row is `inner` consecutive elements.

    softmax of f64[256,10]:   total 2560, strides (10, 1), inner 10
      stage 0   top  = max(x, axis=1)                    a value per row
      stage 1   norm = sum(exp(x - top), axis=1)         a value per row
      stage 2   y    = exp(x - top) / norm               stored, over the whole domain

`Positions` holds the index of each axis in the open loops, from which it makes indices into the domain of a root.
"""

from __future__ import annotations

import math

from ..ir import Node
from ..lowering import Reduce
from ..records import field, record
from .index import Index, constant_index, flatten, unflatten


def strides_of(shape: tuple[int, ...]) -> list[int]:
    """The stride of each axis of a packed array."""
    strides, stride = [], 1
    for extent in reversed(shape):
        strides.append(stride)
        stride *= extent
    return strides[::-1]


@record(eq=False, slots=True)
class Root:
    """A value that a group computes for others to read: an array's elements, or a reduction.

    domain   the shape it is evaluated over: that of the node, or that of a reduction's input
    inner    of a reduction whose kept axes all come before the reduced ones: the number of elements
             reduced to one; else None
    row      evaluated once per row
    stage    the first sweep over a row in which all its operands are known; a row value is computed before that sweep
    stored   written to memory, because another group or a later stage reads it
    """

    node: Node
    domain: tuple[int, ...]
    row: bool = False
    stage: int = 0
    stored: bool = True

    @property
    def total(self) -> int:
        """The number of elements that the root is evaluated for."""
        return math.prod(self.domain)

    @property
    def is_reduction(self) -> bool:
        """True if the root is a reduction, not an array of elements."""
        return isinstance(self.node.op.lower, Reduce)

    @property
    def reduced(self) -> tuple[int, ...]:
        """The reduced axes of its domain (those of more than one element)."""
        if not self.is_reduction:
            return ()
        return tuple([d for d in self.node.keywords["axis"] if self.domain[d] != 1])

    @property
    def inner(self) -> int | None:
        """The number of elements reduced to one; None if a kept axis comes after a reduced one."""
        if not self.is_reduction:
            return None
        reduced = self.reduced
        kept = [d for d, n in enumerate(self.domain) if n != 1 and d not in reduced]
        if kept and reduced and kept[-1] > reduced[0]:
            return None
        return math.prod([self.domain[d] for d in reduced])

    def strides(self) -> set[int]:
        """The strides at which the domain is cut."""
        return {s for s, n in zip(strides_of(self.domain), self.domain, strict=True) if n != 1}


@record(eq=False, slots=True)
class KernelGroup:
    """The contents of one kernel: see the top of this file.

    strides   descending; axis a has strides[a-1] // strides[a] elements (the first: total // strides[0])
    inner     elements of a row; None if no root reads a reduction of this group
    loops     the axes of each loop, outermost first; the loops over whole rows come first
    scratch   values kept in memory for a row, because a later stage needs them and computing them again is expensive
    cost      the cost of one element in the most expensive stage, in additions
    turns     positions at which the last loop is cut in two, because elements come from another input from there on
    """

    total: int
    strides: tuple[int, ...]
    inner: int | None = None
    roots: list[Root] = field(default_factory=list)
    loops: tuple[tuple[int, ...], ...] = ()
    scratch: frozenset[Node] = frozenset()
    cost: int = 0
    turns: tuple[int, ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """Elements per axis."""
        return tuple([big // small for big, small in zip((self.total, *self.strides), self.strides, strict=False)])

    @property
    def outer_axes(self) -> int:
        """The number of axes that count rows."""
        return 0 if self.inner is None else sum(1 for s in self.strides if s >= self.inner)

    def axes_of(self, domain: tuple[int, ...], *, row: bool = False) -> list[list[tuple[int, int]]]:
        """For each axis of a domain: the group's axes that it is cut into, each with its step in the domain's axis."""
        scale = (self.inner or 1) if row else 1
        spans = [(stride * scale, stride * n * scale) for n, stride in zip(domain, strides_of(domain), strict=True)]
        return [[(axis, s // low) for axis, s in enumerate(self.strides) if low <= s < high] for low, high in spans]


# ---------------------------------------------------------------- positions of the loops of a group


class Positions:
    """The axes of a group and their indices, set as loops are entered."""

    def __init__(self, group: KernelGroup) -> None:
        self.group = group
        self.extents = group.extents
        self._indices: list[Index] = [constant_index(0)] * len(group.strides)
        self._reduced: dict[Root, frozenset[int]] = {}

    def enter(self, axes: tuple[int, ...], counter: Index) -> None:
        """Set the indices of these axes from the counter of a loop that was entered."""
        for axis, index in zip(axes, unflatten(counter, [self.extents[a] for a in axes]), strict=True):
            self._indices[axis] = index

    def extent(self, axes: tuple[int, ...]) -> int:
        """The number of iterations of a loop over these axes."""
        return math.prod([self.extents[axis] for axis in axes])

    def index(self, root: Root) -> tuple[Index, ...]:
        """The position of the loops, as an index of the root's domain."""
        return self.within(root.domain, row=root.row)

    def within(self, domain: tuple[int, ...], *, row: bool = False) -> tuple[Index, ...]:
        """The position of the loops, as an index of a domain that is evaluated for each element (or once per row)."""
        found = []
        for axes in self.group.axes_of(domain, row=row):
            index = constant_index(0)
            for axis, step in axes:
                index = index.plus(self._indices[axis].times(step))
            found.append(index)
        return tuple(found)

    def flat(self, root: Root) -> Index:
        """The flat place of the current element in the root's own array."""
        return flatten(self.index(root), root.domain)

    def kept(self, root: Root) -> Index:
        """The flat place of the reduction's result that the current element contributes to."""
        reduced = root.node.keywords["axis"]
        kept = [d for d in range(len(root.domain)) if d not in reduced]
        index = self.index(root)
        return flatten([index[d] for d in kept], [root.domain[d] for d in kept])

    def place(self, root: Root) -> Index:
        """The flat position of the current element along the reduced axes."""
        reduced = root.node.keywords["axis"]
        index = self.index(root)
        return flatten([index[d] for d in reduced], [root.domain[d] for d in reduced])

    def is_here(self, node: Node, index: tuple[Index, ...]) -> bool:
        """True if `index` is the element of the domain that the loops are at."""
        return node.aval.size == self.group.total and flatten(index, node.aval.shape) == flatten(
            self._indices, self.extents
        )

    def along(self, axes: tuple[int, ...]) -> Index:
        """The flat position of the loops along some axes."""
        return flatten([self._indices[a] for a in axes], [self.extents[a] for a in axes])

    def in_row(self) -> Index:
        """The flat position of the loops within the row."""
        return self.along(tuple(range(self.group.outer_axes, len(self.extents))))

    def reduced(self, root: Root) -> frozenset[int]:
        """The group's axes that a reduction reduces."""
        found = self._reduced.get(root)
        if found is None:
            axes_of = self.group.axes_of(root.domain, row=root.row)
            found = self._reduced[root] = frozenset([axis for d in root.reduced for axis, _ in axes_of[d]])
        return found

    def are_reduced(self, axes: tuple[int, ...]) -> bool:
        """True if some reduction combines the iterations of a loop over these axes."""
        return any(not self.reduced(r).isdisjoint(axes) for r in self.group.roots if r.is_reduction)
