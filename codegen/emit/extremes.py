"""Finding argmax and argmin in a loop: an extreme that is carried together with its place.

    better = cmpf ogt, x, top             or olt, sgt, slt, ugt, ult
    takes  = better                       or with what is said of nan, made of the same numbers
    yield select(takes, x, top), select(takes, j, place)
"""

from __future__ import annotations

from collections import Counter

from ..kernel.nest import Block, Operation, Value
from ..records import record

__all__ = ["Extreme", "find_extreme"]

_LOGIC = ("arith.cmpf", "arith.cmpi", "arith.andi", "arith.ori", "arith.xori")


@record(frozen=True)
class Extreme:
    """better      the predicate by which an element replaces the extreme so far
    values      all that depends on the extreme so far, from it to what is carried on
    """

    better: str
    values: frozenset[Value]


def find_extreme(block: Block, top: Value, place: Value, next_top: Value, next_place: Value) -> Extreme | None:
    """The extreme that a block carries in `top`, its place in `place`; None if they are something else."""
    chosen, chosen_place = (_select(v) for v in (next_top, next_place))
    if chosen is None or chosen_place is None or chosen.operands[0] is not chosen_place.operands[0]:
        return None
    takes, x, before = chosen.operands
    if before is not top or chosen_place.operands[2] is not place:
        return None
    logic = _dependent(block, top)
    comparisons = [
        o for o in logic
        if o.name in ("arith.cmpf", "arith.cmpi") and o.operands == [x, top] and o.attributes["predicate"] in _BETTER
    ]  # fmt: skip
    if len(comparisons) != 1 or any(o.name not in _LOGIC for o in logic if o is not chosen):
        return None
    values = frozenset({top, place, next_top, next_place, *(o.result for o in logic)})
    uses = Counter(v for o in block.operations for v in o.operands if v in values)
    inside = Counter(v for o in (*logic, chosen_place, block.operations[-1]) for v in o.operands if v in values)
    return Extreme(comparisons[0].attributes["predicate"], values) if uses == inside and takes in values else None


_BETTER = ("ogt", "olt", "sgt", "slt", "ugt", "ult")


def _select(value: Value) -> Operation | None:
    owner = value.owner
    return owner if isinstance(owner, Operation) and owner.name == "arith.select" else None


def _dependent(block: Block, value: Value) -> list[Operation]:
    """The operations that need this value, by others or at once; the terminator and the place aside."""
    values, found = {value}, []
    for operation in block.operations[:-1]:
        if any(v in values for v in operation.operands):
            if operation.name == "arith.select" and operation.operands[0] in values and value not in operation.operands:
                continue
            values.update(operation.results)
            found.append(operation)
    return found
