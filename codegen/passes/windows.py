"""Sums of embedded slices, as in gradients of indexing: the terms of each window are added first, then embedded once.

If a function reads p[0], p[1] and p[0] again, the gradient of p is recorded as a sum of arrays as large as p:

    embed(a, 0) + embed(b, 1) + embed(c, 0)    =    embed(a + c, 0) + embed(b, 1)

The rewrite needs windows of which any two are equal or disjoint.  The terms of each element are added in the order of
the sum, except for terms that are whole arrays.  Many adjacent windows become a concatenation, with zeros in the gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise

from ..ir import CONSTANT, OPS, Graph, Node, apply, dtype_name
from .rewrites import rebuild_with_originals

#: The fewest windows of a concatenation.  Fewer stay a sum: its loop is cut where a window ends.
_LEAST_WINDOWS = 3

#: The most windows, differing along several axes, that are compared in pairs; a sum of more is not rewritten.
_MOST_COMPARED = 64

#: The place of a part in the whole array: (start, stop) along each axis.
Window = tuple[tuple[int, int], ...]


def windows(graph: Graph) -> Graph:
    """The graph with sums of embedded slices rewritten; see the head of the file."""
    if sum([n.op.name == "embed" for n in graph.nodes]) < 2:
        return graph
    sums = _sums(graph)
    if not sums:
        return graph

    def visit(node: Node, original: Node) -> Node:
        spine = sums.get(original)
        return node if spine is None else _gathered(node, _terms(node, spine))

    return rebuild_with_originals(graph, visit)


def _sums(graph: Graph) -> dict[Node, list[int]]:
    """For the last node of each sum of several windows, the input numbers on the path back to its first term."""
    readers = Counter([i for n in graph.nodes for i in n.inputs])
    readers.update(graph.outputs)
    found: dict[Node, list[int]] = {}
    inside: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op.name != "add" or node in inside or node.aval.dtype.kind not in "fc":
            continue
        spine: list[int] = []
        count, at = 0, node
        while True:
            side = 1 if _extends_sum(at.inputs[1], at, readers) and not _extends_sum(at.inputs[0], at, readers) else 0
            spine.append(side)
            count += _window(at.inputs[1 - side]) is not None
            if not _extends_sum(at.inputs[side], at, readers):
                break
            at = at.inputs[side]
            inside.add(at)
        count += _window(at.inputs[spine[-1]]) is not None
        # Skip sums that nothing reads: another pass has left them for `dce`.
        if count > 1 and readers[node]:
            found[node] = spine
    return found


def _extends_sum(node: Node, reader: Node, readers: Counter[Node]) -> bool:
    return node.op.name == "add" and node.aval == reader.aval and readers[node] == 1


def _terms(node: Node, spine: Sequence[int]) -> list[Node]:
    """The terms of a sum, in the order of addition."""
    found = []
    for side in spine:
        found.append(node.inputs[1 - side])
        node = node.inputs[side]
    return [node, *reversed(found)]


def _window(node: Node) -> Window | None:
    """The window of an `embed` node with constant starts and steps of 1; None for any other node."""
    if node.op.name != "embed" or any([i.op is not CONSTANT for i in node.inputs[1:]]):
        return None
    axes, steps, _ = node.params
    if any([step != 1 for step in steps]):
        return None
    shape = node.inputs[0].aval.shape
    starts = dict(zip(axes, [i.params[0] for i in node.inputs[1:]], strict=True))
    return tuple([(starts.get(axis, 0), starts.get(axis, 0) + n) for axis, n in enumerate(shape)])


def _gathered(node: Node, terms: list[Node]) -> Node:
    """The sum of these terms with one part for each window; the node itself if that saves nothing."""
    embedded: dict[Window, list[Node]] = {}
    others = []
    for term in terms:
        window = _window(term) if term.aval == node.aval else None
        if window is None:
            others.append(term)
        else:
            embedded.setdefault(window, []).append(term)
    along = _axis(list(embedded), node.aval.shape)
    is_joined = along is not None and len(embedded) >= _LEAST_WINDOWS
    count = sum(map(len, embedded.values()))
    if not is_joined and (count == len(embedded) or not _are_disjoint(list(embedded), along)):
        return node
    parts = {w: _sum([e.inputs[0] for e in same]) for w, same in embedded.items()}
    if is_joined:
        assert along is not None
        return _sum([*others, _joined(parts, along, node)])
    return _sum([*others, *[apply(e.op, parts[w], *e.inputs[1:], **e.keywords) for w, (e, *_) in embedded.items()]])


def _sum(terms: list[Node]) -> Node:
    total = terms[0]
    for term in terms[1:]:
        total = apply(OPS["add"], total, term)
    return total


def _axis(found: list[Window], shape: tuple[int, ...]) -> int | None:
    """The axis along which disjoint windows divide an array of this shape, each being whole along all other axes."""
    partly = {axis for w in found for axis, n in enumerate(shape) if w[axis] != (0, n)}
    if len(partly) != 1:
        return None
    (axis,) = partly
    spans = sorted([w[axis] for w in found])
    return axis if all([one[1] <= next[0] for one, next in pairwise(spans)]) else None


def _are_disjoint(found: list[Window], along: int | None) -> bool:
    """True if no two different windows have an element in common."""
    if along is not None or len(found) == 1:
        return True
    return len(found) <= _MOST_COMPARED and all([
        any([a[1] <= b[0] or b[1] <= a[0] for a, b in zip(one, other, strict=True)])
        for one, other in combinations(found, 2)
    ])


def _joined(parts: dict[Window, Node], axis: int, node: Node) -> Node:
    """The concatenation of the parts along an axis, with zeros in the gaps."""
    n = node.aval.shape[axis]
    pieces: list[Node] = []
    end = 0
    for window, part in sorted(parts.items(), key=lambda item: item[0][axis]):
        start, stop = window[axis]
        if start > end:
            pieces.append(_zeros(node, axis, start - end))
        pieces.append(part)
        end = stop
    if end < n:
        pieces.append(_zeros(node, axis, n - end))
    return pieces[0] if len(pieces) == 1 else apply(OPS["concatenate"], *pieces, axis=axis)


def _zeros(node: Node, axis: int, extent: int) -> Node:
    shape = (*node.aval.shape[:axis], extent, *node.aval.shape[axis + 1 :])
    dtype = node.aval.dtype
    zero = Node(CONSTANT, (), (0j if dtype.kind == "c" else 0.0, dtype_name(dtype)), node.aval.with_shape(()))
    return apply(OPS["broadcast_to"], zero, shape=shape)
