"""Loops of two to four iterations within a loop, written out, so that the loop around them can run in vectors.

    for i in 0..100000:                                for i in 0..100000:
      total = for j in 0..3 carrying addf: x[3i + j]     total = ((0 + x[3i]) + x[3i + 1]) + x[3i + 2]
      store total, y[i]                                  store total, y[i]

A vector along j would be three lanes full; along i it has them all, and every third element is loaded.
"""

from __future__ import annotations

from ..kernel.nest import INDEX, Block, Operation, Value, known_integer
from .every import STEPS
from .loop_plan import LoopPlan

__all__ = ["pays", "unrolled"]

#: More iterations than these fill a good part of a vector themselves.
_MOST = STEPS[-1]


def unrolled(block: Block) -> Block | None:
    """The block without loops; None if it has none, or one that is long or stores."""
    loops = [o for o in block.operations if o.regions]
    if not loops or not all(map(_is_short, loops)):
        return None
    made = Block()
    made.arguments = block.arguments
    values: dict[Value, Value] = {}
    for operation in block.operations:
        if operation.regions:
            _write_out(operation, made, values)
        else:
            _copy(operation, made, values)
    return made


def pays(plan: LoopPlan) -> bool:
    """Whether all memory is walked through in few whole vectors."""
    loads = (1, -1, 0, *STEPS)
    return all(p in (loads if o.name == "memref.load" else (1, -1)) for o, p in plan.places.items())


def _is_short(loop: Operation) -> bool:
    if loop.name != "scf.for":
        return False
    bounds = [known_integer(v) for v in loop.operands[:3]]
    if bounds[0] != 0 or bounds[2] != 1 or bounds[1] not in range(2, _MOST + 1):
        return False
    return not any(o.regions or o.name == "memref.store" for o in loop.regions[0].operations)


def _write_out(loop: Operation, made: Block, values: dict[Value, Value]) -> None:
    """All iterations, one after the other."""
    (block,) = loop.regions
    counter, *carried = block.arguments
    so_far = [values.get(v, v) for v in loop.operands[3:]]
    for number in range(known_integer(loop.operands[1]) or 0):
        place = Operation("arith.constant", (), (INDEX,), {"value": number})
        made.operations.append(place)
        values.update({counter: place.result, **dict(zip(carried, so_far, strict=True))})
        for operation in block.operations[:-1]:
            _copy(operation, made, values)
        so_far = [values.get(v, v) for v in block.operations[-1].operands]
    values.update(zip(loop.results, so_far, strict=True))


def _copy(operation: Operation, made: Block, values: dict[Value, Value]) -> None:
    """The operation on what its operands are now."""
    operands = [values.get(v, v) for v in operation.operands]
    copied = Operation(operation.name, operands, [r.type for r in operation.results], operation.attributes)
    values.update(zip(operation.results, copied.results, strict=True))
    made.operations.append(copied)
