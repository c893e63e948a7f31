"""Several rows at a time, where rows meet in accumulators in memory.

    for i in 0..n, j in 0..m:  acc[j] += x[i,j]        an accumulator is loaded and stored for each element,
                                                       and each row waits for what the one before has stored
    for i in 0..n // 4, j in 0..m:  acc[j] += (x[4i,j] + x[4i+1,j]) + (x[4i+2,j] + x[4i+3,j])
    for i in n // 4 * 4..n, j in 0..m:  acc[j] += x[i,j]

What has an accumulator for each row enters row by row.
The sum of 100,000 rows of 8 floats: 354 us one by one, 60 so.

Rows that are stored too are done one by one, if they fill vectors: then each store is followed by loads of other
rows, which wait for it where both lie alike in their pages (512 x 512 floats: 111 us by four rows, 38 one by one).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..symbols import typical
from .arguments import SMALL
from .group import Root
from .index import Index, constant_index
from .monoids import Accumulator, combine
from .nest import INDEX
from .parts import Part
from .positions import Positions
from .scalar import Scalar

__all__ = ["rows_at_a_time", "rows_together"]

#: Up to which costs of an element, in additions, so many rows are done together.
_COSTS = ((8, 8), (24, 4))

#: Rows that are as long have vectors enough to do beside each other: more of them would only be more places to
#: read from (the sum of products of 1024 x 1024 doubles: 614 us by eight rows, 335 by four).
_FULL, _FULL_COUNT = 32, 4

#: Rows of so many elements fill a vector: accumulators are loaded from where vectors of the same size were stored.
_FILLS = 16

#: So many iterations fill a vector.
_FEW = 8

#: Rows that are longer are many vectors: what the next one waits for is there long since, and lies in the cache.
_LONGEST = 2048


def rows_at_a_time(parts: Sequence[Part], roots: Sequence[Root], innermost: Sequence[Root], cost: int) -> int:
    """The number of iterations of the last loop but one that are done together; 1 where that would not help.

    innermost   the roots that enter an accumulator in memory with each element
    """
    *_, rows, columns = parts
    if rows.is_block or columns.is_block or typical(columns.extent) > _LONGEST:
        return 1
    if not innermost or any(r.is_reduction and r not in innermost for r in roots):
        return 1
    length = typical(columns.extent)
    if length >= _FILLS and any(r.stored and not r.is_reduction for r in roots):
        return 1
    most_rows = _FULL_COUNT if length >= _FULL else typical(rows.extent) // 2
    return next((min(n, most_rows) for most, n in _COSTS if cost <= most and typical(rows.extent) >= 2 * n), 1)


def rows_together(
    k: Scalar,
    positions: Positions,
    parts: Sequence[Part],
    count: int,
    body: Callable[[], dict[Root, Accumulator]],
    enter: Callable[[Root, Accumulator], None],
    meeting: Sequence[Root],
) -> None:
    """The last two loops, the outer one by `count` iterations at a time.

    body      computes one element of each root
    enter     puts what one row gave, or several together, into an accumulator
    meeting   the roots whose rows meet in one accumulator for each column
    """
    *_, rows, columns = parts
    length = rows.index_length(k)
    whole = length.floordiv(count)
    rest = length.plus(whole.times(-count))
    rest = Index(rest.terms, rest.constant, 0, count - 1)
    _loops(k, positions, rows, columns, whole, count, lambda i: i.times(count), body, enter, meeting)
    # Whether some are left over is not asked where another extent might leave some: it is the same code.
    if not rest.is_constant or rest.constant or typical(rows.whole) > SMALL:
        first = whole.times(count)
        _loops(k, positions, rows, columns, rest, 1, first.plus, body, enter, meeting)


def _loops(
    k: Scalar, positions: Positions, rows: Part, columns: Part, length: Index, count: int,
    first: Callable[[Index], Index], body: Callable[[], dict[Root, Accumulator]],
    enter: Callable[[Root, Accumulator], None], meeting: Sequence[Root],
) -> None:
    # Also a loop that runs once today has a counter, if it may run twice tomorrow.
    extent = k.literal(length.constant, INDEX, varies=True) if length.is_constant else k.value_of(length)
    outer = k.open_loop(extent, high=max(length.high - 1, 0))
    outer.few = typical(length.high) < _FEW
    inner = k.open_loop(columns.length(k), high=columns.extent - 1)
    # Each column has its own accumulators, and each element its own place.
    inner.apart = True
    columns.counter = inner.index
    positions.enter(columns.axes, columns.index())
    found: list[dict[Root, Accumulator]] = []
    for row in range(count):
        rows.counter = first(outer.index).plus(constant_index(row))
        positions.enter(rows.axes, rows.index())
        found.append(body())
        for root in found[-1]:
            if root not in meeting:
                enter(root, found[-1][root])
    for root in meeting:
        enter(root, _tree(k, root.node.op.lower.monoid, [f[root] for f in found]))
    k.close_loop(inner)
    k.close_loop(outer)


def _tree(k: Scalar, monoid: str, rows: list[Accumulator]) -> Accumulator:
    """Neighbours combined until one is left."""
    while len(rows) > 1:
        rows = [combine(k, monoid, a, b, free_order=False) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    return rows[0]
