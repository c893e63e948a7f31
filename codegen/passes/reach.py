"""The reach of a node: how the node is computed from stored values.

    tree     the computed nodes in the node's expression
    reads    the pairs (stored node, flat position in terms of the reader's axes), and positions used as numbers
    leaves   the stored nodes of these reads

Each of the three is a set of numbers, represented by the bits of an int.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..ir import Node
from ..ir.op import CONSTANT, INPUT
from ..kernel.edges import Edge, Probed
from ..kernel.index import Atom, Index
from ..lowering import Move
from ..records import record
from .demand import is_fused

#: The most computed nodes in one kernel.  A low limit costs more arrays: 1,525 nodes take .41 ms for 1,000 elements and
#: 90 for 100,000 in two kernels, in one .25 and 24.  Planning takes memory that grows with the square: here .6 GB.
TREE_LIMIT = 65536

#: The most computed nodes in the expression of one number, which each kernel that reads the number would compute.
_NUMBERS_LIMIT = 2048

#: The longest chain of moves: the kernel builder recurses once per move.
_MOVES_LIMIT = 24

#: The most places that one expression reads, not counting reads of one fixed element.
_READS_LIMIT = 24


def set_bits(found: int) -> Iterator[int]:
    """The numbers of a set that is given as bits, in rising order."""
    while found:
        low = found & -found
        yield low.bit_length() - 1
        found ^= low


@record(eq=False, slots=True)
class Reach:
    """See the head of the file.  `moves`: the longest chain of moves; `price`: the cost of the longest path."""

    tree: int
    reads: int
    leaves: int
    moves: int
    price: int


class Reaches:
    """The reach of every node of a graph, for a given set of roots.

    Nodes whose reach exceeds a limit are added to `roots`.

    number, nodes  the number of each computed node in a `tree`, and the node of each number
    leaves         the node of each number in `Reach.leaves`
    small          the leaves of one element, as bits
    """

    def __init__(self, nodes: Iterable[Node], roots: set[Node], probed: Probed) -> None:
        self.probed = probed
        self.roots = roots
        self.number: dict[Node, int] = {}
        self.nodes: list[Node] = []
        self.leaves: list[Node] = []
        self.small = 0
        self._leaf: dict[Node, int] = {}
        self._reads: list[tuple[Node | None, Index]] = []
        self._read: dict[tuple[Node | None, Index], int] = {}
        self._reads_of: dict[Node, int] = {}
        # The reads of one fixed element, which no index of a reader changes.
        self._fixed = 0
        # The flat position of a read in terms of a reader's axes, by the original flat position and the id of the edge.
        self._flat_through: dict[tuple[Index, int], Index] = {}
        self._own: dict[Node, Reach] = {}
        self._as_read: dict[Node, Reach] = {}
        for node in nodes:
            self._add(node)

    def recompute(self, nodes: Iterable[Node], new: set[Node]) -> None:
        """Compute again the reaches that change when the nodes `new` become roots.  No limit is checked here."""
        changed: set[Node] = set()
        for node in nodes:
            if not changed.isdisjoint(node.inputs):
                own = self._own[node] = self._computed(node) if is_fused(node) else self._of_operands(node)
                if node not in self.roots and is_fused(node):
                    self._as_read[node] = own
                    changed.add(node)
            if node in new:
                self._as_read[node] = self._stored(node)
                changed.add(node)

    def of(self, root: Node) -> Reach:
        """The reach of a root; for a reduction, that of its input's elements."""
        return self._own[root]

    def reads(self, reads: int) -> list[tuple[Node | None, Index]]:
        """The reads in a set of bits."""
        return [self._reads[j] for j in set_bits(reads)]

    def reads_of(self, leaf: Node, reads: int) -> list[Index]:
        """The positions of those of these reads that read this leaf."""
        return [self._reads[j][1] for j in set_bits(reads & self._reads_of.get(leaf, 0))]

    def moving(self, reads: int) -> list[Index]:
        """The positions of these reads, without the reads of one fixed element."""
        return [self._reads[j][1] for j in set_bits(reads & ~self._fixed)]

    def leaf(self, node: Node) -> int:
        """The set of bits with only this stored node, which gets a number if it has none."""
        found = self._leaf.get(node)
        if found is None:
            found = self._leaf[node] = 1 << len(self.leaves)
            self.leaves.append(node)
            if node.aval.size <= 1:
                self.small |= found
        return found

    def weight(self, node: Node) -> int:
        """The cost of a computed node by itself, in additions."""
        return self.probed.edges(node).weight

    def _add(self, node: Node) -> None:
        if node.op is CONSTANT:
            self._own[node] = self._as_read[node] = _NOTHING
            return
        if not is_fused(node):
            self._own[node] = self._of_operands(node)
            self._as_read[node] = self._stored(node)
            return
        self.number[node] = len(self.nodes)
        self.nodes.append(node)
        own = self._own[node] = self._computed(node)
        if node in self.roots:
            self._as_read[node] = self._stored(node)
            return
        if node.aval.size > 1:
            too_large = (
                own.moves > _MOVES_LIMIT
                or own.tree.bit_count() > TREE_LIMIT
                or (own.reads & ~self._fixed).bit_count() > _READS_LIMIT
            )
        else:
            too_large = own.tree.bit_count() > _NUMBERS_LIMIT
        if too_large:
            self.roots.add(node)
            own = self._stored(node)
        self._as_read[node] = own

    def _computed(self, node: Node) -> Reach:
        """The reach of a node that is computed element by element."""
        edges, inputs = self.probed.edges(node), node.inputs
        tree, reads, leaves, moves, price = 1 << self.number[node], 0, 0, 0, 0
        for edge in edges.reads:
            x = inputs[edge.input]
            part = self.as_read(x)
            reads |= part.reads if edge.is_same else self._through(edge, x, part)
            tree |= part.tree
            leaves |= part.leaves
            if part.moves > moves:
                moves = part.moves
            if part.price > price:
                price = part.price
        for index in edges.pinned:
            reads |= self._one_read(None, index)
        if type(node.op.lower) is Move:
            moves += 1
        return Reach(tree, reads, leaves, moves, price + edges.weight)

    def _of_operands(self, node: Node) -> Reach:
        """The reach of a node that is not fused, such as a reduction: the union of those of its operands."""
        own = Reach(0, 0, 0, 0, 0)
        for x in node.inputs:
            part = self.as_read(x)
            own.tree |= part.tree
            own.reads |= part.reads
            own.leaves |= part.leaves
            own.moves = max(own.moves, part.moves)
            own.price = max(own.price, part.price)
        return own

    def as_read(self, node: Node) -> Reach:
        """The reach of a node as its readers see it: a single read if the node is stored."""
        return self._as_read.get(node) or self._entering(node)

    def _entering(self, node: Node) -> Reach:
        """The reach of an input of the graph, at its first read."""
        assert node.op is INPUT, f"{node} is read before it is computed"
        found = self._as_read[node] = self._stored(node)
        return found

    def _through(self, edge: Edge, node: Node, seen: Reach) -> int:
        """The reads of `node` as seen by a reader through this edge."""
        moving = seen.reads & ~self._fixed
        if not moving:
            return seen.reads
        if not seen.tree:
            return self._one_read(node, edge.flat)
        images: dict[Atom, Index] | None = None
        reads = seen.reads & ~moving
        for leaf, flat in self.reads(moving):
            key = flat, id(edge)
            at = self._flat_through.get(key)
            if at is None:
                if images is None:
                    own = self.probed.axes.of(node.aval.shape)
                    images = {i.terms[0][0]: image for i, image in zip(own, edge.index, strict=True) if i.terms}
                at = self._flat_through[key] = flat.substitute(images)
            reads |= self._one_read(leaf, at)
        return reads

    def _stored(self, node: Node) -> Reach:
        """The reach of a stored node as its readers see it: one read of the node itself."""
        flat = self.probed.axes.flat(node.aval.shape)
        return Reach(0, self._one_read(node, flat), self.leaf(node), 0, 0)

    def _one_read(self, leaf: Node | None, at: Index) -> int:
        key = (leaf, at)
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = 1 << len(self._reads)
            self._reads.append(key)
            if leaf is not None:
                self._reads_of[leaf] = self._reads_of.get(leaf, 0) | found
            if at.is_constant:
                self._fixed |= found
        return found


_NOTHING = Reach(0, 0, 0, 0, 0)
