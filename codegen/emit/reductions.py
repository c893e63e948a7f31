"""Partial results of a loop, one per lane, and their combination.

    sum        total = total + x                                  any operation whose order is free
    argmax     takes = x > top or (isnan(x) and not isnan(top))
               top, place = select(takes, (x, j), (top, place))   an extreme and its place

Each lane sees, say, every eighth element, in order.  So if two lanes have the same extreme, the smaller
place is kept, as it would be in a loop over single elements.

Argmax and argmin are found in a loop as an extreme that is carried together with its place:

    better = cmpf ogt, x, top             or olt, sgt, slt, ugt, ult
    takes  = better                       or combined with tests for nan, computed from the same numbers
    yield select(takes, x, top), select(takes, j, place)
"""

from __future__ import annotations

from collections import Counter

from ..kernel.instructions import INSTRUCTIONS
from ..kernel.nest import I1, I64, Block, Operation, ScalarType, Value
from ..records import record
from .operations import SCALAR, Writer
from .types import LLVM_TYPES

_INTEGER_EXTREMES = ("arith.maxsi", "arith.minsi")


def is_order_free(operation: Operation) -> bool:
    """True if an operation may combine partial results in any order, because it is exact or its flags allow that."""
    name = operation.name
    if name in ("arith.addf", "arith.mulf"):
        return "reassoc" in operation.attributes.get("fastmath", ())
    return name in _INTEGER_EXTREMES or (name in INSTRUCTIONS and INSTRUCTIONS[name].identity is not None)


@record(eq=False, slots=True)
class Reduction:
    """One value that a loop carries, or an accumulator in memory.

    carried     the number of the loop-carried value, or -1 for an accumulator in memory:
    load, store     its load and store, at a place that is the same in all iterations
    start       the value that an iteration begins with
    combine     an operation of the chain from `start` to the value that the iteration ends with
    better      for an extreme whose place is the next reduction: the predicate "ogt", "slt", ... of its comparison
    is_place    True for the place of such an extreme
    """

    carried: int
    start: Value
    combine: Operation | None = None
    load: Operation | None = None
    store: Operation | None = None
    better: str = ""
    is_place: bool = False

    @property
    def type(self) -> ScalarType:
        type = self.start.type
        assert isinstance(type, ScalarType)
        return type

    @property
    def adds_floats(self) -> bool:
        """True if the reduction is a sum of floats."""
        return self.combine is not None and self.combine.name == "arith.addf"

    @property
    def identity(self) -> int | float:
        """The value that a lane starts with."""
        if self.is_place:
            return 0
        name = self.combine.name if self.combine else ""
        if name and (identity := INSTRUCTIONS[name].identity) is not None:
            return identity
        seeks_greatest = "gt" in self.better or name == "arith.maxsi"
        if self.type.is_float:
            return float("-inf") if seeks_greatest else float("inf")
        if self.type is I1:
            return 0 if seeks_greatest else 1
        return -(1 << self.type.bits - 1) if seeks_greatest else (1 << self.type.bits - 1) - 1


def combined(w: Writer, reductions: list[Reduction], ones: list[str], others: list[str]) -> list[str]:
    """Combine the partial results of two parts of the elements."""
    found: list[str] = []
    for j, reduction in enumerate(reductions):
        if reduction.better:
            found += _extreme(w, reduction, ones[j : j + 2], others[j : j + 2])
        elif not reduction.is_place:
            assert reduction.combine is not None
            found.append(SCALAR[reduction.combine.name](w, reduction.combine, [ones[j], others[j]]))
    return found


def _extreme(w: Writer, reduction: Reduction, one: list[str], other: list[str]) -> list[str]:
    """The better of two extremes, or the one at the smaller place; nan is better than all numbers."""
    (a, a_place), (b, b_place) = one, other
    type, bit, place = w.spelled(reduction.type), w.spelled(I1), w.spelled(I64)
    if reduction.type.is_float:
        a_nan, b_nan = w.value(f"fcmp uno {type} {a}, {a}"), w.value(f"fcmp uno {type} {b}, {b}")
        both = w.value(f"and {bit} {a_nan}, {b_nan}")
        # Unordered or better: this is true if either is nan, so the next line excludes a nan in a.
        better = w.value(f"fcmp {'u' + reduction.better[1:]} {type} {b}, {a}")
        better = w.value(f"and {bit} {better}, {w.value(f'xor {bit} {a_nan}, {w.literal(True, I1)}')}")
        same = w.value(f"or {bit} {both}, {w.value(f'fcmp oeq {type} {a}, {b}')}")
    else:
        better = w.value(f"icmp {reduction.better} {type} {b}, {a}")
        same = w.value(f"icmp eq {type} {a}, {b}")
    earlier = w.value(f"icmp slt {place} {b_place}, {a_place}")
    takes = w.value(f"or {bit} {better}, {w.value(f'and {bit} {same}, {earlier}')}")
    return [
        w.value(f"select {bit} {takes}, {type} {b}, {type} {a}"),
        w.value(f"select {bit} {takes}, {place} {b_place}, {place} {a_place}"),
    ]


def halved(w: Writer, reductions: list[Reduction], partial: list[str], lanes: int) -> list[str]:
    """Combine the lower and upper halves of vectors that have twice `lanes` lanes."""
    halves = [
        [_lanes(w, r.type, name, 2 * lanes, first, lanes) for r, name in zip(reductions, partial, strict=True)]
        for first in (0, lanes)
    ]
    w.lanes = lanes
    return combined(w, reductions, *halves)


def _lanes(w: Writer, type: ScalarType, name: str, whole: int, first: int, lanes: int) -> str:
    """`lanes` lanes, from `first` on, of a vector of `whole` lanes."""
    vector = f"<{whole} x {LLVM_TYPES[type]}>"
    if lanes == 1:
        return w.value(f"extractelement {vector} {name}, i64 {first}")
    order = ", ".join(f"i32 {first + j}" for j in range(lanes))
    return w.value(f"shufflevector {vector} {name}, {vector} poison, <{lanes} x i32> <{order}>")


# ---------------------------------------------------------------- extremes and their places


_LOGIC = ("arith.cmpf", "arith.cmpi", "arith.andi", "arith.ori", "arith.xori")


@record(frozen=True)
class Extreme:
    """An extreme that a loop carries together with its place.
    better      the predicate by which an element replaces the extreme so far
    values      all values that depend on the extreme so far, from it to the values that are carried on
    """

    better: str
    values: frozenset[Value]


def find_extreme(block: Block, top: Value, place: Value, next_top: Value, next_place: Value) -> Extreme | None:
    """The extreme that a block carries in `top`, with its place in `place`; None if these are no such pair."""
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
    """The operations that depend on a value, directly or not, except the terminator and the choice of the place."""
    values, found = {value}, []
    for operation in block.operations[:-1]:
        if any(v in values for v in operation.operands):
            if operation.name == "arith.select" and operation.operands[0] in values and value not in operation.operands:
                continue
            values.update(operation.results)
            found.append(operation)
    return found
