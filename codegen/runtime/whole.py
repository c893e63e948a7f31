"""Whole loops and branches as machine code: those that run kernels only, none of them shared by threads.

    whole(work, buffers) -> text of one function, and its numbers          see `emit.nests`

All others are run by `loop_runs`, step by step: what a step costs there, some 10 ns, is little beside a product.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..emit.debug import PlaceOf
from ..emit.nests import NestText, emit_nest, kernels_in
from ..kernel.nest import Operation, Value
from ..program import Branch, Kernel, Loop, While
from ..symbols import typical
from . import engine
from .cost import work_of
from .share import ELEMENTS, is_shared, shared
from .signals import accounting

__all__ = ["blocks_of", "whole"]

#: Kernels of one function: LLVM's time grows with it.
_MOST = 64


def whole(work: object, buffers: int, place_of: PlaceOf | None = None) -> NestText | None:
    """The function for a loop or branch on so many buffers; None where it is none of these.

    place_of   the places of nodes, for debug info
    """
    if not isinstance(work, Loop | Branch | While):
        return None
    kernels = kernels_in(work)
    if kernels is None or len(kernels) > _MOST:
        return None
    parts = {}
    for kernel in kernels:
        pieces = shared(kernel.function, kernel.extents)
        if any(map(is_shared, pieces)):
            return None
        parts[id(kernel)] = [(piece.function, piece.memory, piece.numbers(kernel.extents)) for piece in pieces]
    features = engine.target_features()
    nest = emit_nest(work, buffers, lambda k: parts[id(k)], blocks_of, work_of, features, place_of)
    return nest._replace(numbers=(accounting(), *nest.numbers[1:]))


#: Bytes of all arrays of a loop that one block takes: half of the first cache.  From twice as many on there are blocks.
_BLOCK = 16 << 10


def blocks_of(loop: Loop) -> tuple[int, int] | None:
    """The number of elements of an elementwise loop to take through all its steps at a time, and of how many.

    1,000 steps of x * 0.99 + a for 10,000 f64: 2.1 ms all at a time, .84 in blocks.
    """
    body = loop.body
    if len(body.steps) != 1 or loop.length < 2 or not isinstance(body.steps[0].work, Kernel):
        return None
    step, (piece, *others) = body.steps[0], shared(body.steps[0].work.function, body.steps[0].work.extents)
    if others or piece.loop is None or len(piece.loop.regions[0].arguments) > 1:
        return None
    first_hidden = loop.carried + len(loop.scanned)
    values = [body.buffers[b] for b in step.buffers]
    own = [b.role != "input" or b.place < first_hidden for b in values]
    if any(b.role == "temporary" for b in values) or any(
        b.aval.size != piece.total for b, o in zip(values, own, strict=True) if o
    ):
        return None
    memory = piece.function.arguments[: len(piece.memory)]
    walked = {argument for argument, j in zip(memory, piece.memory, strict=True) if own[j]}
    if not _only_at(piece.function.body.operations, walked, piece.loop.regions[0].arguments[0]):
        return None
    each = sum(b.aval.dtype.itemsize for b in values if b.aval.size == piece.total)
    block = max(_BLOCK // each // ELEMENTS, 1) * ELEMENTS
    return (block, piece.total) if typical(piece.total) >= 2 * block else None


def _only_at(operations: Sequence[Operation], memory: set[Value], index: Value) -> bool:
    """True if these read and write such memory at this index alone."""
    for o in operations:
        if o.name in ("memref.load", "memref.store"):
            *_, accessed, at = o.operands
            if accessed in memory and at is not index:
                return False
        if not all(_only_at(region.operations, memory, index) for region in o.regions):
            return False
    return True
