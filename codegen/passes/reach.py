"""What a node computes on the way from stored values, and where it reads them.

    tree    the computed nodes in its expression, as a set of bits
    reads   (stored node, flat position in terms of the reader's axes), and positions used as numbers
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import Node
from ..ir.op import CONSTANT, INPUT
from ..kernel.edges import Probed
from ..kernel.index import Atom, Index, flatten
from .demand import is_fused

__all__ = ["TREE_LIMIT", "Reach", "Reaches"]

#: Computed nodes in one expression: beyond, registers spill and LLVM's time grows faster than the loop's.
TREE_LIMIT = 256

#: Moves within moves: each is a Python call deep when the kernel is built.
_MOVES_LIMIT = 24

#: Different places read by one expression.
_READS_LIMIT = 24

Reads = frozenset[tuple[Node | None, Index]]


class Reach:
    """See the file's head.  `moves`: the longest chain of moves in the expression."""

    __slots__ = ("moves", "reads", "tree")

    def __init__(self, tree: int, reads: Reads, moves: int) -> None:
        self.tree = tree
        self.reads = reads
        self.moves = moves


class Reaches:
    """The reach of every node of a graph, given which nodes are roots.  `roots` grows by what is too large."""

    def __init__(self, nodes: Iterable[Node], roots: set[Node], probed: Probed) -> None:
        self.probed = probed
        self.roots = roots
        self.bit: dict[Node, int] = {}
        self.weight: dict[Node, int] = {}
        self._own: dict[Node, Reach] = {}
        self._seen: dict[Node, Reach] = {}
        for node in nodes:
            self._add(node)

    def of(self, root: Node) -> Reach:
        """How a root is computed (a reduction: how its input's elements are)."""
        return self._own[root]

    def _add(self, node: Node) -> None:
        if node.op is CONSTANT:
            self._own[node] = self._seen[node] = _NOTHING
            return
        if not is_fused(node):
            self._own[node] = self._joined([self._read_at(i, None) for i in node.inputs])
            self._seen[node] = self._leaf(node)
            return
        edges = self.probed.edges(node)
        self.bit[node] = bit = 1 << len(self.bit)
        self.weight[node] = edges.weight
        identity = self.probed.axes.of(node.aval.shape)
        parts = []
        for edge in edges.reads:
            x = node.inputs[edge.input]
            same = x.aval.shape == node.aval.shape and edge.index == identity
            parts.append(self._read_at(x, None if same else edge.index))
        joined = self._joined(parts)
        reads = joined.reads
        if edges.pinned:
            reads = reads | {(None, i) for i in edges.pinned}
        moves = joined.moves + (0 if type(node.op.lower).__name__ == "Map" else 1)
        own = Reach(joined.tree | bit, reads, moves)
        self._own[node] = own
        too_large = own.tree.bit_count() > TREE_LIMIT or moves > _MOVES_LIMIT or len(reads) > _READS_LIMIT
        if too_large and node.aval.size > 1:
            self.roots.add(node)
        self._seen[node] = self._leaf(node) if node in self.roots else own

    def _leaf(self, node: Node) -> Reach:
        """A stored value, as its readers see it."""
        return Reach(0, frozenset(((node, self.probed.axes.flat(node.aval.shape)),)), 0)

    def _read_at(self, node: Node, index: tuple[Index, ...] | None) -> Reach:
        """The reach of `node` as seen by a reader at `index` of it (None: at its own)."""
        seen = self._seen.get(node)
        if seen is None:
            assert node.op is INPUT, f"{node} is read before it is computed"
            seen = self._seen[node] = self._leaf(node)
        if index is None or not seen.reads:
            return seen
        images: dict[Atom, Index] = {
            own.terms[0][0]: at
            for own, at in zip(self.probed.axes.of(node.aval.shape), index, strict=True)
            if own.terms
        }
        if len(seen.reads) == 1:
            ((leaf, _),) = seen.reads
            if leaf is node:
                return Reach(0, frozenset(((node, flatten(index, node.aval.shape)),)), 0)
        reads = frozenset([(leaf, flat.substitute(images)) for leaf, flat in seen.reads])
        return Reach(seen.tree, reads, seen.moves)

    @staticmethod
    def _joined(parts: list[Reach]) -> Reach:
        if not parts:
            return _NOTHING
        tree, reads, moves = parts[0].tree, parts[0].reads, parts[0].moves
        for part in parts[1:]:
            tree |= part.tree
            moves = max(moves, part.moves)
            if part.reads is not reads:
                reads = reads | part.reads
        return Reach(tree, reads, moves)


_NOTHING = Reach(0, frozenset(), 0)
