"""The axes that a group's domain is cut into, and the loops that they share.

    add(x: f64[100,50,8], y: f64[100,50,8])    one loop of 40,000
    add(x: f64[100,50,8], b: f64[8])           loops of 5,000 and 8
    transpose(x: f64[100,50])                  loops of 50 and 100
"""

from __future__ import annotations

from ..kernel.group import KernelGroup, Root, strides_of
from ..kernel.index import Atom, Index, Quotient
from .numbered import EMPTY, Numbered
from .reach import Reaches

__all__ = ["chain", "lay_out"]


def chain(strides: set[int], total: int) -> tuple[int, ...] | None:
    """Strides in falling order, if each divides the one before: then together they cut the domain into axes."""
    ordered = sorted((s for s in strides if s < total), reverse=True)
    before = total
    for stride in ordered:
        if before % stride:
            return None
        before = stride
    # The last axis must have consecutive elements.
    if total > 1 and before != 1:
        ordered.append(1)
    return tuple(ordered)


def lay_out(group: KernelGroup, reaches: Reaches) -> None:
    """Merge neighbouring axes into one loop where every read walks through both alike."""
    _cut_further(group, reaches)
    extents = group.extents
    n = len(extents)
    joint = [True] * max(n - 1, 0)
    if group.inner is not None and 0 < group.outer_axes < n:
        joint[group.outer_axes - 1] = False
    for root, reads in _views(group, reaches):
        _separate(group, root, reaches.moving(reads), reaches, joint)
    loops: list[tuple[int, ...]] = []
    for axis in range(n):
        if axis and joint[axis - 1]:
            loops[-1] = (*loops[-1], axis)
        else:
            loops.append((axis,))
    group.loops = tuple(loops)


def _views(group: KernelGroup, reaches: Reaches) -> list[tuple[Root, Numbered]]:
    """One root for all that are computed over the same domain alike, and what they read together."""
    found: dict[tuple, tuple[Root, Numbered]] = {}
    for root in group.roots:
        key = (root.domain, root.row, root.reduced)
        first, reads = found.get(key, (root, EMPTY))
        found[key] = first, reads | reaches.of(root.node).reads
    return list(found.values())


def _separate(group: KernelGroup, root: Root, reads: list[Index], reaches: Reaches, joint: list[bool]) -> None:
    """Note between which axes this root needs two loops."""
    scale = (group.inner or 1) if root.row else 1
    spans = []
    stride = root.total
    for extent in root.domain:
        low = stride // extent
        spans.append((low * scale, stride * scale))
        stride = low
    index = reaches.probed.axes.of(root.domain)
    dimension_of = {i.terms[0][0]: d for d, i in enumerate(index) if i.terms}
    reduced = set(root.reduced)
    flat, axes = reaches.probed.axes.flat(root.domain), _strides_of_axes(root, reaches)

    def dimension(axis: int) -> int | None:
        s = group.strides[axis]
        for d, (low, high) in enumerate(spans):
            if low <= s < high:
                return d
        return None

    dimensions = [dimension(a) for a in range(len(group.strides))]
    for axis in range(len(joint)):
        d, e = dimensions[axis], dimensions[axis + 1]
        if (d in reduced) != (e in reduced):
            joint[axis] = False
        if d is None or e is None or not joint[axis]:
            continue
        for at in reads:
            if d == e:
                split = any(_cut_of(a, flat, axes) == group.strides[axis] for a, _ in at.terms)
            else:
                split = not _in_step(at, d, e, dimension_of, root.domain)
            if split:
                joint[axis] = False
                break


def _in_step(at: Index, d: int, e: int, dimension_of: dict, domain: tuple[int, ...]) -> bool:
    """True if moving on by one along d is moving on by a whole length of e."""
    coefficients = {dimension_of.get(a, a): c for a, c in at.terms}
    if coefficients.get(d, 0) != coefficients.get(e, 0) * domain[e]:
        return False
    return all(
        _in_step(a.numerator, d, e, dimension_of, domain) for a, _ in at.terms if isinstance(a, Quotient)
    )


def _cut_further(group: KernelGroup, reaches: Reaches) -> None:
    """Cut axes where a reshape in the way divides: its quotients then are counters of loops."""
    strides = set(group.strides)
    for root, reads in _views(group, reaches):
        if root.row:
            continue
        flat, axes = reaches.probed.axes.flat(root.domain), _strides_of_axes(root, reaches)
        for at in reaches.moving(reads):
            for atom, _ in at.terms:
                cut = _cut_of(atom, flat, axes)
                if cut is not None and cut < group.total:
                    wider = chain(strides | {cut}, group.total)
                    if wider is not None:
                        strides = set(wider)
    group.strides = tuple(sorted(strides, reverse=True))


def _strides_of_axes(root: Root, reaches: Reaches) -> dict[Atom, int]:
    """By how much the flat position grows with each axis."""
    index = reaches.probed.axes.of(root.domain)
    return {i.terms[0][0]: s for i, s in zip(index, strides_of(root.domain), strict=True) if i.terms}


def _cut_of(atom: Atom, flat: Index, axes: dict[Atom, int]) -> int | None:
    """The stride at which a quotient divides the flat position, or the position along one axis; or None."""
    cut = 1
    while isinstance(atom, Quotient):
        cut *= atom.divisor
        numerator = atom.numerator
        if numerator == flat:
            return cut
        if len(numerator.terms) != 1 or numerator.constant or numerator.terms[0][1] != 1:
            return None
        atom = numerator.terms[0][0]
    return axes[atom] * cut if cut > 1 and atom in axes else None
