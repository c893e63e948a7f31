"""The choice of roots, the values that fusion assigns to kernels: values that another step may have to find in
memory, and values too expensive to compute again at each read.  All other values are computed wherever they are read.

The graph is walked from the outputs backwards.  Each node collects how its readers see it: at the same
index (computed once, and shared), at another index (computed again), or more often than it has elements
(broadcast along an axis that is not the last, a gather with repetition).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import Node
from ..ir.op import CONSTANT, INPUT
from ..kernel.edges import HEAVY, Probed, kept_last_axes
from ..kernel.index import Index
from ..lowering import Contract, Map, Move, Reduce, Scan, Scatter
from ..symbols import typical
from .prepare import Prepared

_FUSED = frozenset((Map, Move))

#: The cost of a read from memory, in additions: a cheaper value is always computed again.
_READ_COST = 3

#: The most indices told apart.  Beyond, only their number counts: a value reads its inputs at as many indices, too.
_MOST_INDICES = 64


def is_fused(node: Node) -> bool:
    """True if a node is computed element by element, so that it can be part of any kernel that reads it."""
    return type(node.op.lower) in _FUSED


class Demand:
    """The number of times that a node's elements are computed if it is not stored, relative to once each.

    per_row     True if some reader needs one number per row: a scalar computation takes ten times as long as one in
                vectors (30 functions of each of 1,000 numbers, times rows of 16: 353 us, if stored before 30)
    """

    __slots__ = ("per_row", "reads")

    def __init__(self, reads: dict[tuple | None, float]) -> None:
        self.reads = reads  # per element, at each index (None: the reader's own)
        self.per_row = False

    def places(self) -> Iterable[tuple[tuple | None, float]]:
        """The indices at which the node is read, with the number of reads at each."""
        return self.reads.items() if len(self.reads) <= _MOST_INDICES else [(("many",), self.total)]

    @property
    def total(self) -> float:
        """The number of times that the elements are computed, over all indices."""
        return sum(self.reads.values())


_ONCE = Demand({None: 1.0})


def choose_roots(prepared: Prepared, probed: Probed) -> set[Node]:
    """The roots of a graph: outputs, reductions and other nodes that are not fused, the operands of products and
    host calls, and expensive values that are read at several indices."""
    graph = prepared.graph
    price = _prices(graph.nodes, probed)
    of_rows = _of_rows(graph.nodes)
    demand: dict[Node, Demand] = {}
    roots: set[Node] = set()

    def want(node: Node, times: float, index: tuple | None, *, per_row: bool = False) -> None:
        """Note that `node` is read `times` per element at `index` (None: the reader's own)."""
        if node.op is INPUT or node.op is CONSTANT:
            return
        seen = demand.get(node)
        if seen is None:
            seen = demand[node] = Demand({})
        seen.per_row |= per_row
        seen.reads[index] = max(seen.reads.get(index, 0.0), times)

    for output in graph.outputs:
        # An array without elements needs nothing.
        if output.aval.size:
            want(output, 1.0, None)
            roots.add(output)
    for node in reversed(graph.nodes):
        seen = demand.get(node)
        if seen is None or node.op is CONSTANT:
            continue
        lower = node.op.lower
        if is_fused(node):
            again = seen.total - 1
            is_read_often = again > 0 and price[node] >= _READ_COST and again * price[node] > HEAVY
            if is_read_often or (seen.per_row and price[node] >= HEAVY and node not in of_rows):
                roots.add(node)
            _pass_on(node, _ONCE if node in roots else seen, probed, want)
            continue
        roots.add(node)
        if isinstance(lower, Contract):
            product = prepared.products.get(node)
            for stored in (product.a.base, product.b.base) if product else ():
                want(stored, 1.0, None)
                roots.add(stored)
        else:
            is_summed, by_itself = isinstance(lower, Reduce | Scan | Scatter), _is_one_by_one(node)
            for i in node.inputs:
                want(i, 1.0, None)
                if not is_summed or (by_itself and is_fused(i) and price[i] >= HEAVY):
                    roots.add(i)
    for node in graph.nodes:
        if is_fused(node) and price[node] >= HEAVY and _reads_root_and_its_input(node, roots):
            roots.add(node)
    return {node for node in roots if node.op is not INPUT}


def _reads_root_and_its_input(node: Node, roots: set[Node]) -> bool:
    """True if a node reads a root and also an input of that root, as a slope of tanh(x) reads x and tanh(x): one kernel
    computes both, with one exponential.  A root made here is stored only if another kernel reads it."""
    shared = {i for i in node.inputs if i.op is not CONSTANT}
    return any(y in roots and is_fused(y) and not shared.isdisjoint(y.inputs) for y in node.inputs)


def _is_one_by_one(node: Node) -> bool:
    """True if a node handles elements one after the other, so that expensive operands should be stored, from vectors.

    Gradient of sum(sin(x[i])**2), 100,000 doubles: 2,990 us, with the operand stored 918.  Running sums along the last
    axis behave alike (sum(sin(cumsum(x))): 1,057 and 534); along another axis they run in vectors.
    """
    lower = node.op.lower
    if isinstance(lower, Scan):
        return node.keywords["axis"] == len(node.aval.shape) - 1
    return isinstance(lower, Scatter) and not kept_last_axes(node)


def _pass_on(node: Node, seen: Demand, probed: Probed, want) -> None:
    """Add the reads of a computed node to the demand of its inputs, for each index at which the node itself is read."""
    own = None
    for edge in probed.edges(node).reads:
        x = node.inputs[edge.input]
        # A value of one element, or of one element per row, is computed outside the inner loop.
        is_here, per_row, ratio = edge.is_same, False, 1.0
        if not is_here and x.aval.size > 1:
            shape = node.aval.shape
            own = own or probed.axes.flat(shape)
            per_row = edge.flat != own and _is_per_row(edge.flat, shape, probed)
            is_here = edge.flat == own or per_row
            ratio = max(1.0, typical(node.aval.size) / typical(x.aval.size))
        for place, times in seen.places():
            if is_here:
                want(x, times, place, per_row=per_row)
            elif x.aval.size <= 1:
                want(x, min(times, 1.0), None)
            else:
                want(x, times * ratio, (edge.flat, *_index_operands(node, x), place))


def _index_operands(node: Node, x: Node) -> tuple[Node, ...]:
    """The other operands of a move, which decide where it reads x: starts of a slice, indices.

    Positions of two moves that contain run-time numbers are equal only if these operands are equal, too.
    """
    return tuple([i for i in node.inputs if i is not x]) if type(node.op.lower) is Move else ()


def _is_per_row(flat: Index, shape: tuple[int, ...], probed: Probed) -> bool:
    """True if this position depends only on leading axes, in order, so that each element is read by one row."""
    atoms = [i.terms[0][0] for i in probed.axes.of(shape) if i.terms]
    used = [a for a, _ in flat.terms]
    return used == atoms[: len(used)] and len(used) < len(atoms)


def _prices(nodes, probed: Probed) -> dict[Node, int]:
    """The cost of the most expensive path to each node from stored values: an estimate for computing it again."""
    price: dict[Node, int] = {}
    for node in nodes:
        dearest = max([price.get(i, 0) for i in node.inputs], default=0)
        price[node] = dearest + probed.edges(node).weight if is_fused(node) else 0
    return price


def _of_rows(nodes: Iterable[Node]) -> set[Node]:
    """The fused nodes computed from reductions: only the kernel that reduces a row has their operands at hand."""
    found: set[Node] = set()
    for node in filter(is_fused, nodes):
        if any(i in found or (isinstance(i.op.lower, Reduce) and i.aval.size > 1) for i in node.inputs):
            found.add(node)
    return found
