"""Storage: every stored value gets a buffer; temporaries share one workspace by the span of their lives.

A temporary lives from the step that writes it to the last step that reads it.  Two that live at the
same step never overlap, so no two arguments of a kernel are the same memory.

Large results are written past the caches.

A store brings the line that it writes to into the cache first, and pushes another one out; a "nontemporal" one does
neither.  It pays where what a kernel reads and writes does not fit in the caches anyway.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from heapq import heappop, heappush

from ..ir import MOST_BYTES, Aval, Graph
from ..kernel.nest import NestFunction, every
from ..program import Buffer, aligned
from ..symbols import Symbol, most, typical

#: A cache line, and the widest vector.
ALIGNMENT = 64

#: The first and the last step that uses a temporary, and its bytes.
Span = tuple[int, int, int]


def place_buffers(
    graph: Graph, avals: dict[Hashable, Aval], uses: Sequence[Sequence[Hashable]]
) -> tuple[tuple[Buffer, ...], dict[Hashable, int], int]:
    """Buffers; the number of each value's buffer; the bytes of the workspace.

    graph   its inputs and outputs have buffers of their own
    avals   everything that is in memory at some time, inputs and outputs too, in a fixed order
    uses    for each step, what it reads and writes

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
    if int(size) > MOST_BYTES:  # int: of a symbol it is no condition
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
    """Offsets for spans, whose bytes may be symbols, and the bytes of all.

    Those that lie in one place, one after the other, do not depend on sizes; it is as large as the largest of them.
    """
    places: list[list[int]] = []
    taken: list[tuple[int, int]] = []  # the end of the latest span in a place, and the place
    free: dict[int, list[int]] = {}  # places by the size of their latest span
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
        total += aligned(most(*[spans[number][2] for number in place]))
    return offsets, total


# ---------------------------------------------------------------- past the caches


#: Bytes that a kernel reads and writes, from which on its large results go past the caches: those of the last cache of
#: one part of a server's processor (y = 2 x + 1 in C, Zen 3: of 8 MB .93 of the time, 16 1.11, 32 and more 1.38).
FAR = 32 << 20

#: A result of less than this part of them is no stream.
_PARTS = 16


def is_beyond_caches(sizes: Iterable[int]) -> bool:
    """True if the bytes that a kernel reads and writes do not fit in the caches."""
    return sum(sizes) >= FAR


def let_past_caches(function: NestFunction, sizes: Sequence[int]) -> None:
    """Mark the stores to large results of a large kernel, those that it does not read.

    sizes   of its memory arguments, in bytes; a kernel for any extents is one for those that fit (`families`)
    """
    if any(type(n) is Symbol for n in sizes) or not is_beyond_caches(sizes):
        return
    arguments = function.arguments
    large = {arguments[j] for j in function.writes if sizes[j] * _PARTS >= FAR}
    accesses = list(every(function.body.operations))
    large -= {o.operands[0] for o in accesses if o.name == "memref.load"}
    for store in accesses:
        if store.name == "memref.store" and store.operands[1] in large:
            store.attributes = {**store.attributes, "nontemporal": True}
