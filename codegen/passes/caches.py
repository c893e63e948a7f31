"""Large results are written past the caches.

A store brings the line that it writes to into the cache first, and pushes another one out: writing y = 2 x + 1 of ten
million doubles moves 240 MB, of which 80 are the old y.  A store that is "nontemporal" does neither.  It pays where
what a kernel reads and writes does not fit in the caches anyway, and costs where it does: the next to read the
result would have found it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..kernel.nest import NestFunction, every
from ..symbols import Symbol

__all__ = ["is_beyond_caches", "let_past_caches"]

#: Bytes that a kernel reads and writes, from which on its large results go past the caches: those of the last cache of
#: one part of a server's processor.  y = 2 x + 1 in C over an older y, so many bytes, stores that go past against
#: others, two threads, Zen 3: 8 MB .93, 16 1.11, 32 1.38, 64 1.39, 160 1.38.
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
