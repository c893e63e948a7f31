"""Values that are stored before anything is grouped: those that others must find in memory, and those
too dear to compute as often as they are read.

Walked from the outputs backwards.  A node knows how its readers see it: at the same index (shared,
computed once), at another one (computed again), or more often than it has elements (broadcast along
an axis that is not the last, a gather with repetition).
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

#: The cost of reading from memory, in additions: a cheaper value is always computed again.
_CHEAP = 3

#: More places are counted, not told apart: what is made of a value that is read at so many is read at as many again.
_PLACES = 64


def is_fused(node: Node) -> bool:
    """True if a node is computed element by element, wherever it is wanted."""
    return type(node.op.lower) in _FUSED


class Demand:
    """The number of times that a node's elements are computed if it is not stored, relative to once each.

    per_row     whether it is one number of a row somewhere: computed there by itself, which takes ten times as long
                as in a vector (30 functions of each of 1,000 numbers, times rows of 16: 353 us, stored before 30)
    """

    __slots__ = ("elsewhere", "here", "per_row")

    def __init__(self) -> None:
        self.here = 0.0
        self.per_row = False
        self.elsewhere: dict[tuple, float] = {}

    def places(self) -> list[tuple[tuple | None, float]]:
        """The indices at which it is wanted (None: the readers' own), and how often at each."""
        found: list[tuple[tuple | None, float]] = [(None, self.here)] if self.here else []
        if len(self.elsewhere) > _PLACES:
            return [*found, (("many",), sum(self.elsewhere.values()))]
        return [*found, *self.elsewhere.items()]

    @property
    def total(self) -> float:
        """All together."""
        return self.here + sum(self.elsewhere.values())


_ONCE = Demand()
_ONCE.here = 1.0


def choose_roots(prepared: Prepared, probed: Probed) -> set[Node]:
    """The nodes whose values are made for memory or by a kernel of their own kind: outputs, reductions,
    what products and host calls read and write, and what is dear and read in several ways."""
    graph = prepared.graph
    price = _prices(graph.nodes, probed)
    of_rows = _of_rows(graph.nodes)
    demand: dict[Node, Demand] = {}
    roots: set[Node] = set()

    def want(node: Node, times: float, index: tuple | None, *, per_row: bool = False) -> None:
        """`node` is read `times` per element at `index` (None: the reader's own)."""
        if node.op is INPUT or node.op is CONSTANT:
            return
        seen = demand.get(node)
        if seen is None:
            seen = demand[node] = Demand()
        seen.per_row |= per_row
        if index is not None:
            seen.elsewhere[index] = max(seen.elsewhere.get(index, 0.0), times)
        elif times > seen.here:
            seen.here = times

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
            is_read_often = again > 0 and price[node] >= _CHEAP and again * price[node] > HEAVY
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
        if is_fused(node) and price[node] >= HEAVY and _is_beside(node, roots):
            roots.add(node)
    return {node for node in roots if node.op is not INPUT}


def _is_beside(node: Node, roots: set[Node]) -> bool:
    """True if a node reads a stored value and what that is computed from: it is computed beside it then, as a slope of
    tanh(x) from x and tanh(x), whose exponentials are one.  Only what another kernel reads will be in memory."""
    shared = {i for i in node.inputs if i.op is not CONSTANT}
    return any(y in roots and is_fused(y) and not shared.isdisjoint(y.inputs) for y in node.inputs)


def _is_one_by_one(node: Node) -> bool:
    """True if numbers go to their places one after the other: dear values are then computed in vectors before.

    Gradient of sum(sin(x[i])**2), 100,000 doubles 2,990 us, stored before 918.  Running sums along the last axis are
    alike (sum(sin(cumsum(x))) 1,057, 534); those along others are side by side.
    """
    lower = node.op.lower
    if isinstance(lower, Scan):
        return node.keywords["axis"] == len(node.aval.shape) - 1
    return isinstance(lower, Scatter) and not kept_last_axes(node)


def _pass_on(node: Node, seen: Demand, probed: Probed, want) -> None:
    """Tell the inputs of a computed node how it reads them: at each place where the node itself is wanted."""
    own = None
    for edge in probed.edges(node).reads:
        x = node.inputs[edge.input]
        # One element, or one per row: computed outside of the inner loop.
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
                want(x, times * ratio, (edge.flat, *_deciding(node, x), place))


def _deciding(node: Node, x: Node) -> tuple[Node, ...]:
    """Other operands that say where a node reads x: starts of a slice, indices.

    Equal positions of two nodes that name numbers which only the run knows are the same where these are.
    """
    return tuple([i for i in node.inputs if i is not x]) if type(node.op.lower) is Move else ()


def _is_per_row(flat: Index, shape: tuple[int, ...], probed: Probed) -> bool:
    """True if a read at this position depends on leading axes only, in their order, each element once."""
    atoms = [i.terms[0][0] for i in probed.axes.of(shape) if i.terms]
    used = [a for a, _ in flat.terms]
    return used == atoms[: len(used)] and len(used) < len(atoms)


def _prices(nodes, probed: Probed) -> dict[Node, int]:
    """The price of the longest way to a node from stored values: of what computing it again would cost."""
    price: dict[Node, int] = {}
    for node in nodes:
        dearest = max([price.get(i, 0) for i in node.inputs], default=0)
        price[node] = dearest + probed.edges(node).weight if is_fused(node) else 0
    return price


def _of_rows(nodes: Iterable[Node]) -> set[Node]:
    """Values computed from sums and the like: where a row is reduced, they are there and nowhere else."""
    found: set[Node] = set()
    for node in filter(is_fused, nodes):
        if any(i in found or (isinstance(i.op.lower, Reduce) and i.aval.size > 1) for i in node.inputs):
            found.add(node)
    return found
