"""Storage: every stored value gets a buffer, and temporaries share one workspace according to their lifetimes.

A temporary lives from the step that writes it to the last step that reads it.  Temporaries that are live
at the same step never overlap, so no two arguments of a kernel share memory.

Large results bypass the caches.

A normal store first loads the cache line that it writes to, and evicts another line; a "nontemporal" store does
neither.  Nontemporal stores are faster if the data that a kernel reads and writes exceed the caches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from heapq import heappop, heappush

from ..ir import MOST_BYTES, Aval, Graph
from ..kernel.nest import NestFunction, every
from ..program import Buffer, aligned
from ..symbols import Symbol, symbolic_max, typical

#: A cache line, and the widest vector.
ALIGNMENT = 64

#: The first and the last step that uses a temporary, and its bytes.
Span = tuple[int, int, int]


def place_buffers(
    graph: Graph, avals: dict[Hashable, Aval], uses: Sequence[Sequence[Hashable]]
) -> tuple[tuple[Buffer, ...], dict[Hashable, int], int]:
    """The buffers, the number of each value's buffer, and the bytes of the workspace.

    graph   the graph, each of whose inputs and outputs gets a separate buffer
    avals   the aval of every value that is ever in memory, inputs and outputs included, in a fixed order
    uses    for each step, the values that it reads and writes

    Raises MemoryError for a workspace whose size does not fit 64 bits.
    """
    places: dict[Hashable, tuple[str, int]] = {}
    for j, node in enumerate(graph.inputs):
        places[node] = ("input", j)
    for j, node in enumerate(graph.outputs):
        places[node] = ("output", j)
    first, last = _lives(uses)
    temporaries = [v for v in avals if v not in places]
    offsets, size = _in_chains([(first.get(v, 0), last.get(v, 0), avals[v].nbytes) for v in temporaries])
    for value, offset in zip(temporaries, offsets, strict=True):
        places[value] = ("temporary", offset)
    if int(size) > MOST_BYTES:  # int(): comparing a symbolic size would record a condition on it
        raise MemoryError(f"{graph.name}: {size} bytes of temporaries: there are fewer than 2**63")
    numbers: dict[Hashable, int] = {}
    buffers: list[Buffer] = []
    for value in (*graph.inputs, *graph.outputs, *temporaries):
        numbers[value] = len(buffers)
        buffers.append(Buffer(avals[value], *places[value]))
    return tuple(buffers), numbers, size


def _lives(uses: Iterable[Iterable[Hashable]]) -> tuple[dict[Hashable, int], dict[Hashable, int]]:
    """The first and the last step that uses each value."""
    first: dict[Hashable, int] = {}
    last: dict[Hashable, int] = {}
    for step, used in enumerate(uses):
        for value in used:
            first.setdefault(value, step)
            last[value] = step
    return first, last


def _in_chains(spans: Sequence[Span]) -> tuple[list[int], int]:
    """An offset for each span, and the total bytes.  The bytes may be symbols.

    Spans that follow each other in time share a place, which is as large as the largest of them.
    """
    places: list[list[int]] = []
    taken: list[tuple[int, int]] = []  # a heap of (last step of the latest span in a place, place)
    free: dict[int, list[int]] = {}  # heaps of free places, by the size of their latest span
    for number in sorted(range(len(spans)), key=lambda k: spans[k][0]):
        first, last, size = spans[number]
        while taken and taken[0][0] < first:
            _, ended = heappop(taken)
            heappush(free.setdefault(typical(spans[places[ended][-1]][2]), []), ended)
        own = typical(size)
        near = min([n for n in free if free[n]], key=lambda n: (abs(n - own), free[n][0]), default=None)
        if near is None:
            here = len(places)
            places.append([])
        else:
            here = heappop(free[near])
        places[here].append(number)
        heappush(taken, (last, here))
    offsets, total = [0] * len(spans), 0
    for place in places:
        for number in place:
            offsets[number] = total
        total += aligned(symbolic_max(*[spans[number][2] for number in place]))
    return offsets, total


# ---------------------------------------------------------------- stores that bypass the caches


#: A kernel that reads and writes at least these bytes uses nontemporal stores: the size of a last-level cache of Zen 3.
#: Normal stores there take .93 of the time of nontemporal ones at 8 MB, 1.11 at 16, 1.38 from 32 (y = 2 x + 1 in C).
NONTEMPORAL_BYTES = 32 << 20

#: A result of at least NONTEMPORAL_BYTES / _LARGE_DIVISOR bytes is large.
_LARGE_DIVISOR = 16


def mark_nontemporal(function: NestFunction, sizes: Sequence[int]) -> None:
    """Mark as nontemporal the stores of a large kernel to large results that it does not read.

    sizes   the bytes of the kernel's memory arguments; a kernel for any extents (`families`) is never large
    """
    if any(type(n) is Symbol for n in sizes) or sum(sizes) < NONTEMPORAL_BYTES:
        return
    arguments = function.arguments
    large = {arguments[j] for j in function.writes if sizes[j] * _LARGE_DIVISOR >= NONTEMPORAL_BYTES}
    accesses = list(every(function.body.operations))
    large -= {o.operands[0] for o in accesses if o.name == "memref.load"}
    for store in accesses:
        if store.name == "memref.store" and store.operands[1] in large:
            store.attributes = {**store.attributes, "nontemporal": True}
