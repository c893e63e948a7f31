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
from ..kernel.edges import Edge, Probed
from ..kernel.index import Atom, Index
from ..lowering import Move
from .demand import is_fused

__all__ = ["TREE_LIMIT", "Reach", "Reaches", "bits"]

#: Computed nodes in one kernel.  It is cut into loops of bounded size (see `segments`), so LLVM's time is linear in
#: this; beyond, what is kept between those loops would leave the second cache.  What kernels hand on is arrays: of a
#: program of 500 operations and its gradient (1,525 nodes) two kernels of 1,024 take .41 ms for 1,000 elements and 90
#: for 100,000, one kernel .25 and 24, and half of LLVM's time.
TREE_LIMIT = 8192

#: Moves within moves: each is a Python call deep when the kernel is built.
_MOVES_LIMIT = 24

#: Different places read by one expression, single numbers not counted.
_READS_LIMIT = 24


#: From here on a set of bits is read as text.
_WIDE = 1 << 128


def bits(number: int) -> Iterator[int]:
    """The places of the ones in a set of bits, in rising order."""
    if number < _WIDE:
        while number:
            low = number & -number
            yield low.bit_length() - 1
            number ^= low
        return
    # Each step above takes time in the length of the number.
    start = (number & -number).bit_length() - 1
    digits = bin(number >> start)[:1:-1]
    at = 0
    while at >= 0:
        yield start + at
        at = digits.find("1", at + 1)


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

    `roots` grows by what is too large.

    bit, by_bit    the bit of each computed node in a `tree`, and the other way round
    leaves         the nodes that bits of `leaves` stand for
    small          the leaves of one element, as bits
    """

    def __init__(self, nodes: Iterable[Node], roots: set[Node], probed: Probed) -> None:
        self.probed = probed
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
        # A read as seen through an edge: by flat position, and edge.
        self._seen_through: dict[tuple[Index, int], Index] = {}
        self._own: dict[Node, Reach] = {}
        self._seen: dict[Node, Reach] = {}
        for node in nodes:
            self._add(node)

    def settle(self, nodes: Iterable[Node], new: set[Node]) -> None:
        """Read off again what has changed since these became roots; nothing becomes one for its size now."""
        changed: set[Node] = set()
        for node in nodes:
            if not changed.isdisjoint(node.inputs):
                own = self._own[node] = self._computed(node) if is_fused(node) else self._read(node)
                if node not in self.roots and is_fused(node):
                    self._seen[node] = own
                    changed.add(node)
            if node in new:
                self._seen[node] = self._leaf(node)
                changed.add(node)

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
            self._own[node] = self._read(node)
            self._seen[node] = self._leaf(node)
            return
        self.bit[node] = 1 << len(self.by_bit)
        self.by_bit.append(node)
        own = self._own[node] = self._computed(node)
        if node in self.roots:
            self._seen[node] = self._leaf(node)
            return
        too_large = (
            own.moves > _MOVES_LIMIT
            or own.tree.bit_count() > TREE_LIMIT
            or (own.reads & ~self._fixed).bit_count() > _READS_LIMIT
        )
        if too_large and node.aval.size > 1:
            self.roots.add(node)
            own = self._leaf(node)
        self._seen[node] = own

    def _computed(self, node: Node) -> Reach:
        """The reach of a node that is computed element by element."""
        edges, inputs = self.probed.edges(node), node.inputs
        tree, reads, leaves, moves, price = self.bit[node], 0, 0, 0, 0
        for edge in edges.reads:
            x = inputs[edge.input]
            part = self._seen.get(x) or self._entering(x)
            reads |= part.reads if edge.is_same else self._through(edge, x, part)
            tree |= part.tree
            leaves |= part.leaves
            if part.moves > moves:
                moves = part.moves
            if part.price > price:
                price = part.price
        for index in edges.pinned:
            reads |= self._bit_of_read(None, index)
        if type(node.op.lower) is Move:
            moves += 1
        return Reach(tree, reads, leaves, moves, price + edges.weight)

    def _read(self, node: Node) -> Reach:
        """What a node reads that is computed as a whole."""
        own = Reach(0, 0, 0, 0, 0)
        for x in node.inputs:
            part = self._seen.get(x) or self._entering(x)
            own.tree |= part.tree
            own.reads |= part.reads
            own.leaves |= part.leaves
            own.moves = max(own.moves, part.moves)
            own.price = max(own.price, part.price)
        return own

    def _entering(self, node: Node) -> Reach:
        """An input of the graph, seen for the first time."""
        assert node.op is INPUT, f"{node} is read before it is computed"
        found = self._seen[node] = self._leaf(node)
        return found

    def _through(self, edge: Edge, node: Node, seen: Reach) -> int:
        """The reads of `node` as seen by a reader through this edge."""
        moving = seen.reads & ~self._fixed
        if not moving:
            return seen.reads
        if self._reads[moving.bit_length() - 1][0] is node:
            return self._bit_of_read(node, edge.flat)
        images: dict[Atom, Index] | None = None
        reads = seen.reads ^ moving
        for leaf, flat in self.reads(moving):
            key = flat, id(edge)
            at = self._seen_through.get(key)
            if at is None:
                if images is None:
                    own = self.probed.axes.of(node.aval.shape)
                    images = {i.terms[0][0]: image for i, image in zip(own, edge.index, strict=True) if i.terms}
                at = self._seen_through[key] = flat.substitute(images)
            reads |= self._bit_of_read(leaf, at)
        return reads

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


_NOTHING = Reach(0, 0, 0, 0, 0)
