"""The axes that a group's domain is cut into, and the loops that they share.

    add(x: f64[100,50,8], y: f64[100,50,8])    one loop of 40,000
    add(x: f64[100,50,8], b: f64[8])           loops of 5,000 and 8
    transpose(x: f64[100,50])                  loops of 50 and 100
"""

from __future__ import annotations

from itertools import pairwise

from ..kernel.group import KernelGroup, Root, strides_of
from ..kernel.index import Atom, Index, Quotient
from .reach import Reaches, numbers


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


def _views(group: KernelGroup, reaches: Reaches) -> list[tuple[Root, int]]:
    """One root for all that are computed over the same domain alike, and what they read together."""
    found: dict[tuple, tuple[Root, int]] = {}
    for root in group.roots:
        key = (root.domain, root.row, root.reduced)
        first, reads = found.get(key, (root, 0))
        found[key] = first, reads | reaches.of(root.node).reads
    return list(found.values())


def _separate(group: KernelGroup, root: Root, reads: list[Index], reaches: Reaches, joint: list[bool]) -> None:
    """Note between which axes this root needs two loops."""
    index = reaches.probed.axes.of(root.domain)
    dimension_of = {i.terms[0][0]: d for d, i in enumerate(index) if i.terms}
    reduced = set(root.reduced)
    flat, axes = reaches.probed.axes.flat(root.domain), _strides_of_axes(root, reaches)
    dimension = {axis: d for d, cut in enumerate(group.axes_of(root.domain, row=root.row)) for axis, _ in cut}
    for axis in range(len(joint)):
        d, e = dimension.get(axis), dimension.get(axis + 1)
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
    return all(_in_step(a.numerator, d, e, dimension_of, domain) for a, _ in at.terms if isinstance(a, Quotient))


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


# ---------------------------------------------------------------- elements that come from elsewhere from some places on


#: The most that the pieces of a loop may cost together.
_PIECES_COST = 2560

#: The cost of a reduction besides its operand.
_REDUCTION_COST = 4

#: Places at which nodes are looked at, to find where a loop is cut.
_VIEWS = 1024


def cost_of(group: KernelGroup, reaches: Reaches) -> int:
    """The cost of one element of a group's dearest stage, in additions."""
    dearest = 0
    for stage in range(max([r.stage for r in group.roots], default=0) + 1):
        roots = [r for r in group.roots if r.stage == stage and not r.row]
        tree = 0
        for root in roots:
            tree |= reaches.of(root.node).tree
        cost = sum([reaches.weight(reaches.nodes[j]) for j in numbers(tree)])
        dearest = max(dearest, cost + _REDUCTION_COST * len(roots))
    return dearest


def find_turns(group: KernelGroup, reaches: Reaches, turning: int) -> None:
    """Cut the last loop where elements come from elsewhere from there on: in a concatenation, at the edges of a pad.

    turning   the set of the nodes with such places, as a tree is one; there are some
    """
    if group.inner is not None or not group.loops or len(group.loops[-1]) != 1:
        return
    extent = group.extents[group.loops[-1][0]]
    turns = {0, extent}
    for root in group.roots:
        if extent > 1 and root.domain and root.domain[-1] == extent:
            turns |= _turns_of(root, extent, reaches, turning)
    places = _as_few(sorted(turns), group.cost)
    if len(places) > 2 and 2 * len(places) <= extent + 2:
        group.turns = tuple(places[1:-1])


def _turns_of(root: Root, extent: int, reaches: Reaches, turning: int) -> set[int]:
    """Places of the last axis from which on anything that a root computes on the way is read from elsewhere."""
    edges, axes = reaches.probed.edges, reaches.probed.axes
    first = root.node.inputs[0] if root.is_reduction else root.node
    tree = reaches.of(root.node).tree
    if not tree & turning:
        return set()
    whole = axes.of(root.domain)
    ((last, _),) = whole[-1].terms
    found: set[int] = set()
    views = [(first, whole)]
    seen = set(views)
    while views and len(seen) < _VIEWS:
        node, index = views.pop()
        if node not in reaches.number or not tree >> reaches.number[node] & 1:
            continue
        for axis, place in edges(node).turns:
            at = index[axis]
            if at.terms == ((last, 1),) and 0 < place - at.constant < extent:
                found.add(place - at.constant)
        images = {i.terms[0][0]: image for i, image in zip(axes.of(node.aval.shape), index, strict=True) if i.terms}
        for edge in edges(node).reads:
            view = node.inputs[edge.input], tuple([i.substitute(images) for i in edge.index])
            if view not in seen:
                seen.add(view)
                views.append(view)
    return found


def _as_few(places: list[int], cost: int) -> list[int]:
    """The ends of pieces that are worth their code: all of them, or of the longest one and what is around it."""
    if (len(places) - 1) * cost <= _PIECES_COST:
        return places
    length, begin, end = max([(end - begin, begin, end) for begin, end in pairwise(places)])
    return sorted({places[0], begin, end, places[-1]}) if 2 * length > places[-1] else []
