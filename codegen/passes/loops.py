"""The axes into which a group's domain is cut, and the merging of axes into loops.

    add(x: f64[100,50,8], y: f64[100,50,8])    one loop of 40,000
    add(x: f64[100,50,8], b: f64[8])           loops of 5,000 and 8
    transpose(x: f64[100,50])                  loops of 50 and 100
"""

from __future__ import annotations

from itertools import pairwise

from ..kernel.group import KernelGroup, Root, strides_of
from ..kernel.index import Atom, Index, Quotient
from .reach import Reaches, set_bits


def divisor_chain(strides: set[int], total: int) -> tuple[int, ...] | None:
    """The strides in falling order if each divides the one before, so that they cut the domain into axes; else None."""
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
    """Set the loops of a group: neighbouring axes become one loop if every read moves through both with one stride."""
    _cut_further(group, reaches)
    extents = group.extents
    n = len(extents)
    joint = [True] * max(n - 1, 0)
    if group.inner is not None and 0 < group.outer_axes < n:
        joint[group.outer_axes - 1] = False
    for root, reads in _distinct_roots(group, reaches):
        _mark_separate(group, root, reaches.moving(reads), reaches, joint)
    loops: list[tuple[int, ...]] = []
    for axis in range(n):
        if axis and joint[axis - 1]:
            loops[-1] = (*loops[-1], axis)
        else:
            loops.append((axis,))
    group.loops = tuple(loops)


def _distinct_roots(group: KernelGroup, reaches: Reaches) -> list[tuple[Root, int]]:
    """One root for each set of roots that agree in domain, row and reduced axes, with the union of their reads."""
    found: dict[tuple, tuple[Root, int]] = {}
    for root in group.roots:
        key = (root.domain, root.row, root.reduced)
        first, reads = found.get(key, (root, 0))
        found[key] = first, reads | reaches.of(root.node).reads
    return list(found.values())


def _mark_separate(group: KernelGroup, root: Root, reads: list[Index], reaches: Reaches, joint: list[bool]) -> None:
    """Set `joint` to False between axes that need two loops because of this root."""
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
                split = not _is_joint(at, d, e, dimension_of, root.domain)
            if split:
                joint[axis] = False
                break


def _is_joint(at: Index, d: int, e: int, dimension_of: dict, domain: tuple[int, ...]) -> bool:
    """True if a step of one along axis d moves as far as the whole length of axis e."""
    coefficients = {dimension_of.get(a, a): c for a, c in at.terms}
    if coefficients.get(d, 0) != coefficients.get(e, 0) * domain[e]:
        return False
    return all(_is_joint(a.numerator, d, e, dimension_of, domain) for a, _ in at.terms if isinstance(a, Quotient))


def _cut_further(group: KernelGroup, reaches: Reaches) -> None:
    """Cut the domain at the strides by which reshapes divide positions: their quotients are then loop counters."""
    strides = set(group.strides)
    for root, reads in _distinct_roots(group, reaches):
        if root.row:
            continue
        flat, axes = reaches.probed.axes.flat(root.domain), _strides_of_axes(root, reaches)
        for at in reaches.moving(reads):
            for atom, _ in at.terms:
                cut = _cut_of(atom, flat, axes)
                if cut is not None and cut < group.total:
                    wider = divisor_chain(strides | {cut}, group.total)
                    if wider is not None:
                        strides = set(wider)
    group.strides = tuple(sorted(strides, reverse=True))


def _strides_of_axes(root: Root, reaches: Reaches) -> dict[Atom, int]:
    """The stride of each axis of a root's domain, by the axis's atom."""
    index = reaches.probed.axes.of(root.domain)
    return {i.terms[0][0]: s for i, s in zip(index, strides_of(root.domain), strict=True) if i.terms}


def _cut_of(atom: Atom, flat: Index, axes: dict[Atom, int]) -> int | None:
    """The stride at which a quotient divides the flat position or the position along one axis, else None."""
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


# ---------------------------------------------------------------- loops cut where elements start to come from elsewhere


#: The most that the pieces of a cut loop may cost together: their number times the additions for one element.
_PIECES_COST = 2560

#: The cost of a reduction without its operand, in additions.
_REDUCTION_COST = 4

#: The most pairs (node, index) that are visited to find the places at which a loop is cut.
_MOST_VIEWS = 1024


def cost_of(group: KernelGroup, reaches: Reaches) -> int:
    """The cost of one element of a group's most expensive stage, in additions."""
    dearest = 0
    for stage in range(max([r.stage for r in group.roots], default=0) + 1):
        roots = [r for r in group.roots if r.stage == stage and not r.row]
        tree = 0
        for root in roots:
            tree |= reaches.of(root.node).tree
        cost = sum([reaches.weight(reaches.nodes[j]) for j in set_bits(tree)])
        dearest = max(dearest, cost + _REDUCTION_COST * len(roots))
    return dearest


def find_turns(group: KernelGroup, reaches: Reaches, turning: int) -> None:
    """Cut the last loop where elements start to come from another operand: in a concatenation, at the edges of a pad.

    turning   the nodes with such places, as a set of bits like `Reach.tree`; it is not empty
    """
    if group.inner is not None or not group.loops or len(group.loops[-1]) != 1:
        return
    extent = group.extents[group.loops[-1][0]]
    turns = {0, extent}
    for root in group.roots:
        if extent > 1 and root.domain and root.domain[-1] == extent:
            turns |= _turns_of(root, extent, reaches, turning)
    places = _ends_of_pieces(sorted(turns), group.cost)
    if len(places) > 2 and 2 * len(places) <= extent + 2:
        group.turns = tuple(places[1:-1])


def _turns_of(root: Root, extent: int, reaches: Reaches, turning: int) -> set[int]:
    """The places of the last axis at which any node that a root computes starts to read another operand."""
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
    while views and len(seen) < _MOST_VIEWS:
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


def _ends_of_pieces(places: list[int], cost: int) -> list[int]:
    """The ends of the pieces to make: all places if the code is small enough, else those around the longest piece."""
    if (len(places) - 1) * cost <= _PIECES_COST:
        return places
    length, begin, end = max([(end - begin, begin, end) for begin, end in pairwise(places)])
    return sorted({places[0], begin, end, places[-1]}) if 2 * length > places[-1] else []
