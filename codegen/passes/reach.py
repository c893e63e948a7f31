"""What a node computes on the way from stored values, and where it reads them.

    tree     the computed nodes in its expression
    reads    pairs (stored node, flat position in terms of the reader's axes), and positions used as numbers
    leaves   the stored nodes of its reads

All three are sets of bits of one int each: joining two expressions is three `or`s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..ir import Node
from ..ir.op import CONSTANT, INPUT
from ..kernel.edges import Probed
from ..kernel.index import Atom, Index, flatten
from ..lowering import Move
from .demand import is_fused

__all__ = ["TREE_LIMIT", "Reach", "Reaches", "bits"]

#: Computed nodes in one kernel.  It is cut into loops of bounded size (see `segments`), so LLVM's time
#: is linear in this; beyond, what is kept between those loops would leave the second cache.
TREE_LIMIT = 1024

#: Moves within moves: each is a Python call deep when the kernel is built.
_MOVES_LIMIT = 24

#: Different places read by one expression, single numbers not counted.
_READS_LIMIT = 24


def bits(number: int) -> Iterator[int]:
    """The places of the ones in a set of bits, in rising order."""
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


class Reach:
    """See the file's head.  `moves`: the longest chain of moves; `price`: the longest way, in additions."""

    __slots__ = ("leaves", "moves", "price", "reads", "tree")

    def __init__(self, tree: int, reads: int, leaves: int, moves: int, price: int) -> None:
        self.tree = tree
        self.reads = reads
        self.leaves = leaves
        self.moves = moves
        self.price = price


class Reaches:
    """The reach of every node of a graph, given which nodes are roots.

    `roots` grows by what is too large, unless they are final.

    bit, by_bit    the bit of each computed node in a `tree`, and the other way round
    leaves         the nodes that bits of `leaves` stand for
    small          the leaves of one element, as bits
    """

    def __init__(self, nodes: Iterable[Node], roots: set[Node], probed: Probed, *, are_final: bool = False) -> None:
        self.probed = probed
        self.are_final = are_final
        self.roots = roots
        self.bit: dict[Node, int] = {}
        self.by_bit: list[Node] = []
        self.leaves: list[Node] = []
        self.small = 0
        self._leaf_bit: dict[Node, int] = {}
        self._reads: list[tuple[Node | None, Index]] = []
        self._read_bit: dict[tuple[Node | None, Index], int] = {}
        self._reads_of: dict[Node, int] = {}
        # Reads of one known element: the same wherever they are seen from.
        self._fixed = 0
        self._own: dict[Node, Reach] = {}
        self._seen: dict[Node, Reach] = {}
        for node in nodes:
            self._add(node)

    def of(self, root: Node) -> Reach:
        """How a root is computed (a reduction: how its input's elements are)."""
        return self._own[root]

    def reads(self, reads: int) -> list[tuple[Node | None, Index]]:
        """The reads that a set of bits stands for."""
        return [self._reads[j] for j in bits(reads)]

    def reads_of(self, leaf: Node, reads: int) -> list[Index]:
        """Where these reads read one leaf."""
        return [self._reads[j][1] for j in bits(reads & self._reads_of.get(leaf, 0))]

    def moving(self, reads: int) -> list[Index]:
        """Where these reads read anything, but what is the same for every element."""
        return [self._reads[j][1] for j in bits(reads & ~self._fixed)]

    def leaf_bit(self, node: Node) -> int:
        """The bit of a stored node in `leaves`."""
        bit = self._leaf_bit.get(node)
        if bit is None:
            bit = self._leaf_bit[node] = 1 << len(self.leaves)
            self.leaves.append(node)
            if node.aval.size <= 1:
                self.small |= bit
        return bit

    def weight(self, node: Node) -> int:
        """What a computed node costs by itself, in additions."""
        return self.probed.edges(node).weight

    def _add(self, node: Node) -> None:
        if node.op is CONSTANT:
            self._own[node] = self._seen[node] = _NOTHING
            return
        if not is_fused(node):
            self._own[node] = _joined([self._read_at(i, None) for i in node.inputs], 0, 0)
            self._seen[node] = self._leaf(node)
            return
        edges = self.probed.edges(node)
        self.bit[node] = bit = 1 << len(self.by_bit)
        self.by_bit.append(node)
        identity = self.probed.axes.of(node.aval.shape)
        parts = []
        for edge in edges.reads:
            x = node.inputs[edge.input]
            same = edge.index == identity and x.aval.shape == node.aval.shape
            parts.append(self._read_at(x, None if same else edge.index))
        own = _joined(parts, bit, edges.weight)
        for index in edges.pinned:
            own.reads |= self._bit_of_read(None, index)
        if isinstance(node.op.lower, Move):
            own.moves += 1
        self._own[node] = own
        too_large = (
            own.tree.bit_count() > TREE_LIMIT
            or own.moves > _MOVES_LIMIT
            or (own.reads & ~self._fixed).bit_count() > _READS_LIMIT
        )
        if too_large and node.aval.size > 1 and not self.are_final:
            self.roots.add(node)
        self._seen[node] = self._leaf(node) if node in self.roots else own

    def _leaf(self, node: Node) -> Reach:
        """A stored value, as its readers see it."""
        flat = self.probed.axes.flat(node.aval.shape)
        return Reach(0, self._bit_of_read(node, flat), self.leaf_bit(node), 0, 0)

    def _bit_of_read(self, leaf: Node | None, at: Index) -> int:
        key = (leaf, at)
        bit = self._read_bit.get(key)
        if bit is None:
            bit = self._read_bit[key] = 1 << len(self._reads)
            self._reads.append(key)
            if leaf is not None:
                self._reads_of[leaf] = self._reads_of.get(leaf, 0) | bit
            if at.is_constant:
                self._fixed |= bit
        return bit

    def _read_at(self, node: Node, index: tuple[Index, ...] | None) -> Reach:
        """The reach of `node` as seen by a reader at `index` of it (None: at its own)."""
        seen = self._seen.get(node)
        if seen is None:
            assert node.op is INPUT, f"{node} is read before it is computed"
            seen = self._seen[node] = self._leaf(node)
        moving = seen.reads & ~self._fixed
        if index is None or not moving:
            return seen
        if self._reads[moving.bit_length() - 1][0] is node:
            return Reach(0, self._bit_of_read(node, flatten(index, node.aval.shape)), seen.leaves, 0, 0)
        images: dict[Atom, Index] = {
            own.terms[0][0]: at
            for own, at in zip(self.probed.axes.of(node.aval.shape), index, strict=True)
            if own.terms
        }
        reads = seen.reads ^ moving
        for leaf, flat in self.reads(moving):
            reads |= self._bit_of_read(leaf, flat.substitute(images))
        return Reach(seen.tree, reads, seen.leaves, seen.moves, seen.price)


def _joined(parts: list[Reach], tree: int, weight: int) -> Reach:
    """An expression of these operands, whose own node is `tree`."""
    reads = leaves = moves = price = 0
    for part in parts:
        tree |= part.tree
        reads |= part.reads
        leaves |= part.leaves
        moves = max(moves, part.moves)
        price = max(price, part.price)
    return Reach(tree, reads, leaves, moves, price + weight)


_NOTHING = Reach(0, 0, 0, 0, 0)
